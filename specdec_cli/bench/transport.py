"""HTTP to a model server: one connection that is used again, JSON answers, streams of events, and what is wrong in words."""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection, RemoteDisconnected
from socket import socket
from typing import Any
from urllib.parse import SplitResult, quote, urlsplit

from specdec_cli.bench.sse import EventParser
from specdec_cli.errors import SpecdecError, UsageError

Document = Mapping[str, Any]

CONNECT_S = 10.0
ANSWER_S = 60.0  # to a question that needs no model
FIRST_S = 900.0  # a long prompt on a slow machine sends nothing for that long
STALL_S = 120.0  # between two events of a stream
LARGEST = 1 << 24  # bytes of an answer, and of one event

_N_READ = 1 << 16
_LONGEST = 300  # characters that are quoted of what a server says
_EXAMPLE = "specdec bench --server http://127.0.0.1:8080 --label NAME -o FILE.json"


class ServerError(SpecdecError):
    """A server that cannot be reached, refuses, or does not answer as a model server does. status: its answer's, 0 for none."""

    def __init__(self, what: str, why: str = "", fix: str = "", status: int = 0) -> None:
        super().__init__(what, why, fix)
        self.status = status


@dataclass(frozen=True, slots=True)
class Limits:
    """How long is waited, in seconds."""

    connect_s: float = CONNECT_S
    answer_s: float = ANSWER_S
    first_s: float = FIRST_S
    stall_s: float = STALL_S


PATIENT = Limits()


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server is. The key is never shown."""

    secure: bool
    host: str
    port: int
    path: str  # before every path of the server; no slash at its end
    key: str | None = field(default=None, repr=False)

    @property
    def shown(self) -> str:
        scheme, usual = ("https", 443) if self.secure else ("http", 80)
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{scheme}://{host}{'' if self.port == usual else f':{self.port}'}{self.path}"


def address(url: str, key: str | None = None) -> Address:
    """The address that a URL names. Raises UsageError."""
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        port = parts.port
        (parts.hostname or "").encode("idna")
    except ValueError as error:
        raise UsageError("--server is no URL.", f"{error}.", _EXAMPLE) from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError("--server is no URL of a server.", "It needs http or https, and a host.", _EXAMPLE)
    if parts.username or parts.password or parts.query:
        raise UsageError(
            "--server has more than an address.", "A user, a password or a query stands in it.", "Set OPENAI_API_KEY instead."
        )
    key = (key or "").strip() or None
    if key and not (key.isascii() and key.isprintable()):
        raise UsageError("The API key cannot be sent.", "It has characters that no header may have.", "Copy it again.")
    port = _usual_port(parts) if port is None else port
    return Address(parts.scheme == "https", parts.hostname, port, quote(parts.path.rstrip("/"), safe="/%"), key)


def _usual_port(parts: SplitResult) -> int:
    return 443 if parts.scheme == "https" else 80


@dataclass(frozen=True, slots=True)
class Stream:
    """An answer in events. sent: when the request had been sent; each event with the time its last byte came in."""

    sent: float
    events: Iterator[tuple[float, str]]


class Connection:
    """One connection to a server, opened when it is needed. Raises ServerError. close() ends it."""

    def __init__(self, server: Address, limits: Limits = PATIENT) -> None:
        self.server = server
        self._limits = limits
        kind = HTTPSConnection if server.secure else HTTPConnection
        self._http = kind(server.host, server.port, timeout=limits.connect_s)
        self._socket: socket | None = None

    def ask(self, path: str, document: Document | None = None) -> Any:
        """The JSON answer to a GET, or to a POST of the document."""
        _, response = self._request(path, document, self._limits.answer_s if document is None else self._limits.first_s)
        body = self._body(response)
        if response.status != 200:
            raise self._refused(path, response, body)
        try:
            return json.loads(body)
        except ValueError:
            raise self._strange(path, response, body) from None

    def stream(self, path: str, document: Document) -> Stream:
        """The events that answer a POST. The clock runs from the moment that the request has been sent."""
        sent, response = self._request(path, document, self._limits.first_s)
        if response.status != 200:
            raise self._refused(path, response, self._body(response))
        if response.headers.get_content_type() != "text/event-stream":
            raise self._strange(path, response, self._body(response))
        return Stream(sent, self._events(response))

    def connect(self) -> None:
        """Open the connection, if it is not open."""
        if self._http.sock is None:
            self._http.timeout = self._limits.connect_s
            try:
                self._http.connect()
            except (OSError, HTTPException) as error:
                self.close()
                raise self._unreachable(error) from None

    def close(self) -> None:
        self._http.close()

    def _request(self, path: str, document: Document | None, patience_s: float) -> tuple[float, HTTPResponse]:
        """Send a request; when it was sent, and the head of its answer. A connection that has gone stale is opened anew."""
        reused = self._http.sock is not None
        self.connect()
        try:
            return self._send(path, document, patience_s)
        except (RemoteDisconnected, ConnectionResetError, BrokenPipeError) as error:
            self.close()
            if not reused:
                raise self._broken(path, error) from None
        except (OSError, HTTPException) as error:
            self.close()
            raise self._broken(path, error) from None
        return self._request(path, document, patience_s)

    def _send(self, path: str, document: Document | None, patience_s: float) -> tuple[float, HTTPResponse]:
        headers = {"Accept": "application/json, text/event-stream"}
        if self.server.key:
            headers["Authorization"] = f"Bearer {self.server.key}"
        body = None
        if document is not None:
            headers["Content-Type"] = "application/json"
            body = json.dumps(document).encode("ascii")
        self._http.request("GET" if body is None else "POST", f"{self.server.path}{path}", body, headers)
        sent = time.perf_counter()
        self._socket = self._http.sock  # http.client lets go of it where the answer ends with the connection
        self._be_patient(patience_s)
        return sent, self._http.getresponse()

    def _be_patient(self, seconds: float) -> None:
        if self._socket is not None:
            self._socket.settimeout(seconds)

    def _body(self, response: HTTPResponse) -> bytes:
        try:
            return response.read(LARGEST)
        except (OSError, HTTPException) as error:
            self.close()
            raise self._broken("", error) from None

    def _events(self, response: HTTPResponse) -> Iterator[tuple[float, str]]:
        """Each event. A read ends as soon as anything has come, so that what came together has one time."""
        parser, limits = EventParser(), self._limits
        n_pending, since, limit_s = 0, time.perf_counter(), limits.first_s
        try:
            while piece := response.read1(_N_READ):
                now = time.perf_counter()
                n_pending += len(piece)
                for event in parser.feed(piece):
                    n_pending, since, limit_s = 0, now, limits.stall_s
                    self._be_patient(limit_s)
                    yield now, event
                if n_pending > LARGEST:
                    raise self._no_stream(f"One of its events has more than {LARGEST >> 20} MiB.")
                if now - since > limit_s:  # comments that keep the connection open are no answer
                    raise TimeoutError
        except TimeoutError:
            self.close()
            raise ServerError(
                f"{self.server.shown} stopped sending in the middle of an answer.",
                f"Nothing came for {limit_s:g} s.",
                "Look at the server's log, then run the same command again: it goes on where it stopped.",
            ) from None
        except (OSError, HTTPException) as error:
            self.close()
            raise self._cut(_said(error)) from None

    def _cut(self, why: str) -> ServerError:
        return ServerError(
            f"{self.server.shown} ended the connection in the middle of an answer.",
            why,
            "Look at the server's log, then run the same command again: it goes on where it stopped.",
        )

    def cut(self) -> ServerError:
        """What to raise when the events end before the answer does."""
        self.close()
        return self._cut("The stream ended without its last event.")

    def _no_stream(self, why: str) -> ServerError:
        self.close()
        return ServerError(
            f"{self.server.shown} does not answer in server-sent events.", why, "Give the address of a model server's API."
        )

    def unreadable(self, event: str) -> ServerError:
        """What to raise for an event that is no JSON object."""
        return self._no_stream(f"An event is no JSON object: {self.quoted(event)}")

    def reported(self, fault: object) -> ServerError:
        """What to raise for a fault that comes as an event."""
        self.close()
        return ServerError(
            f"{self.server.shown} gave up in the middle of an answer.",
            f"It says: {self.quoted(_message(fault))}",
            "Look at the server's log. A longer context (-c) or fewer at a time (--concurrency) may help.",
        )

    def _unreachable(self, error: Exception) -> ServerError:
        if isinstance(error, ssl.SSLError):
            why = f"The encrypted connection failed: {_said(error)}"
            fix = "Check whether it speaks https; behind a company proxy: SSL_CERT_FILE=/path/to/its-ca.pem."
        else:
            why, fix = _said(error), "Start the server, or correct the address: llama-server -m MODEL.gguf --port 8080"
        return ServerError(f"There is no server at {self.server.shown}.", why, fix)

    def _broken(self, path: str, error: Exception) -> ServerError:
        if isinstance(error, TimeoutError):
            why = "It accepted the request, and did not answer in time."
        elif isinstance(error, RemoteDisconnected | ConnectionError):
            why = "It ended the connection without an answer."
        else:
            why = f"What came is not HTTP: {_said(error)}"
        return ServerError(
            f"{self.server.shown}{path} did not answer.", why, "Look at the server's log, and check the address."
        )

    def _refused(self, path: str, response: HTTPResponse, body: bytes) -> ServerError:
        """The words for an answer that is none."""
        status, where = response.status, f"{self.server.shown}{path}"
        said = self.quoted(_message(_json(body))) if _json(body) is not None else response.reason
        if 300 <= status < 400:
            return ServerError(f"{where} is somewhere else.", f"It points to {response.headers.get('Location', 'no address')}.",
                               "Give that address with --server.", status)  # fmt: skip
        if status in (401, 403):
            has = "It did not accept the API key." if self.server.key else "It wants an API key."
            return ServerError(f"{self.server.shown} refuses (HTTP {status}).", has,
                               "Set OPENAI_API_KEY, or give --api-key.", status)  # fmt: skip
        if status == 404:
            return ServerError(f"{where} does not exist (HTTP 404).", f"It says: {said}",
                               "Check the address and --served-model.", status)  # fmt: skip
        if status == 429:
            wait = response.headers.get("Retry-After")
            return ServerError(f"{self.server.shown} allows no more requests now (HTTP 429).",
                               f"It says: {said}{f' Retry after {wait} s.' if wait else ''}",
                               "Wait, and ask for less at a time: --concurrency 1", status)  # fmt: skip
        if status == 503:
            return ServerError(f"{self.server.shown} is not ready (HTTP 503).", f"It says: {said}",
                               "Wait until its model is loaded, then run the same command again.", status)  # fmt: skip
        if status >= 500:
            return ServerError(f"{self.server.shown} failed (HTTP {status}).", f"It says: {said}",
                               "Look at the server's log.", status)  # fmt: skip
        return ServerError(f"{where} refuses the request (HTTP {status}).", f"It says: {said}",
                           "Check --served-model. Prompt and -n must fit into its context.", status)  # fmt: skip

    def _strange(self, path: str, response: HTTPResponse, body: bytes) -> ServerError:
        kind = response.headers.get_content_type()
        if (fault := _json(body)) is not None and isinstance(fault, dict) and fault.get("error"):
            return self.reported(fault)
        page = "a web page" if kind == "text/html" or body.lstrip()[:1] == b"<" else f"of type {kind}"
        return ServerError(
            f"{self.server.shown}{path} did not answer as a model server does.",
            f"What it sent is {page}: {self.quoted(body[:200].decode('utf-8', 'replace'))}",
            "Check the address; a proxy or login page may be in between.",
            response.status,
        )

    def quoted(self, text: str) -> str:
        """What a server says, in one short line, without the key that it may have repeated."""
        if self.server.key:
            text = text.replace(self.server.key, "***")
        line = " ".join("".join(each if each.isprintable() else " " for each in text).split())
        return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}..."


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return None


def _message(fault: Any) -> str:
    """The sentence in an error object; servers nest it differently."""
    while isinstance(fault, dict):
        inner = next((fault[key] for key in ("error", "message", "detail") if fault.get(key)), None)
        if inner is None:
            break
        fault = inner
    return fault if isinstance(fault, str) else json.dumps(fault)


def _said(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "It did not answer in time."
    text = " ".join(str(getattr(error, "strerror", None) or error).split())
    return f"{text or type(error).__name__}."
