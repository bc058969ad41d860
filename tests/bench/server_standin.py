"""A stand-in for model servers on the loopback: llama-server's and OpenAI's dialects, in any pieces, with faults on demand."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

HTML = b"<!DOCTYPE html><html><body>Please log in to the guest network</body></html>"
WORDS = ("def ", "add(", "a, ", "b):", " ☂", "\n  ", "ret", "urn ", "a + ", "b\n")
N_CTX = 512


@dataclass
class Fault:
    """What happens instead of the right answer, for requests whose path holds `path`, `times` times."""

    kind: str  # status, html, cut, stall, silent, no_sse, error_event, no_json, comments
    path: str = "/"
    status: int = 500
    body: bytes = b'{"error": {"code": 500, "message": "it broke", "type": "server_error"}}'
    headers: dict[str, str] = field(default_factory=dict)
    times: int = 10**6


@dataclass
class ServerStandIn:
    """The server. llama: it has llama-server's own interface too."""

    llama: bool = True
    key: str | None = None
    n_slots: int = 4
    burst: int = 2  # tokens of a pass
    pass_s: float = 0.0
    drafts: bool = True
    chunked: bool = True  # else the answer ends with the connection
    pieces: Sequence[int] = ()  # sizes in which a stream is sent; the last one again and again; none: event by event
    drops: bool = False  # closes a connection after its first stream, without a word
    strict: bool = False  # refuses what OpenAI's own interface does not have
    usage: bool = True
    models: tuple[str, ...] = ("small",)
    model_path: str = "/models/small.gguf"
    events: Sequence[Any] | None = None  # what is streamed in the place of an answer
    faults: list[Fault] = field(default_factory=list)
    asked: list[tuple[str, Any]] = field(default_factory=list)
    n_connections: int = 0
    n_at_once: int = 0
    most_at_once: int = 0

    def __post_init__(self) -> None:
        self.released = threading.Event()
        self.lock = threading.Lock()
        standin = self

        class Handler(_Handler):
            def setup(self) -> None:
                self.standin = standin
                standin.n_connections += 1
                super().setup()

        self._server = _Server(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def bodies(self, path: str) -> list[Any]:
        return [body for asked, body in self.asked if asked == path]

    def fault_for(self, path: str) -> Fault | None:
        for fault in self.faults:
            if fault.times > 0 and fault.path in path:
                fault.times -= 1
                return fault
        return None

    def close(self) -> None:
        self.released.set()
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that has gone is what many tests want."""


class _Handler(BaseHTTPRequestHandler):
    standin: ServerStandIn
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass

    def do_GET(self) -> None:
        self._answer(None)

    def do_POST(self) -> None:
        self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def _answer(self, body: Any) -> None:
        standin = self.standin
        standin.asked.append((self.path, body))
        fault = standin.fault_for(self.path)
        if fault is not None and fault.kind == "status":
            return self._send(fault.status, fault.body, {"Content-Type": "application/json"} | fault.headers)
        if fault is not None and fault.kind == "html":
            return self._send(200, HTML, {"Content-Type": "text/html"})
        if fault is not None and fault.kind == "silent":
            self.close_connection = True
            return None
        if standin.key is not None and self.headers.get("Authorization") != f"Bearer {standin.key}":
            said = {"error": {"message": f"Invalid key: {self.headers.get('Authorization')}", "code": 401}}
            return self._json(said, 401)
        if self.path == "/v1/models":
            return self._json({"object": "list", "data": [{"id": name} for name in standin.models]})
        if self.path == "/v1/chat/completions":
            return self._chat(body, fault)
        if not standin.llama:
            return self._json({"error": {"message": "no such path"}}, 404)
        return self._llama(body, fault)

    def _llama(self, body: Any, fault: Fault | None) -> None:
        standin = self.standin
        if self.path == "/props":
            settings = {"n_ctx": N_CTX, "params": {}}
            self._json({"default_generation_settings": settings, "total_slots": standin.n_slots, "model_alias": "small",
                        "model_path": standin.model_path, "build_info": "b1-abc"})  # fmt: skip
        elif self.path == "/apply-template":
            self._json({"prompt": "".join(f"<{m['role']}>{m['content']}" for m in body["messages"]) + "<assistant>"})
        elif self.path == "/tokenize":
            self._json({"tokens": [7 if body["add_special"] else 8, *body["content"].encode("utf-8")]})
        elif self.path == "/completion":
            self._stream(self._native(body) if standin.events is None else map(json.dumps, standin.events), fault)
        else:
            self._json({"error": {"message": "no such path"}}, 404)

    def _native(self, body: Any) -> Iterator[str]:
        n, start = body["n_predict"], time.perf_counter()
        for i in range(n):
            if i % self.standin.burst == 0:
                time.sleep(self.standin.pass_s)
            event = {"content": WORDS[i % len(WORDS)], "tokens": [i % len(WORDS)], "stop": False}
            if body.get("timings_per_token"):
                event["timings"] = self._timings(len(body["prompt"]), i + 1, start)
            yield json.dumps(event, ensure_ascii=False)
        last = {"content": "", "tokens": [], "stop": True, "stop_type": "limit", "truncated": False}
        yield json.dumps(last | {"tokens_predicted": n, "timings": self._timings(len(body["prompt"]), n, start)})

    def _timings(self, n_prompt: int, n: int, start: float) -> dict[str, Any]:
        found = {"cache_n": 0, "prompt_n": n_prompt, "prompt_ms": 10.0, "predicted_n": n, "predicted_ms": 20.0 * (n - 1)}
        return found | ({"draft_n": 2 * n, "draft_n_accepted": n} if self.standin.drafts else {})

    def _chat(self, body: Any, fault: Fault | None) -> None:
        if self.standin.strict and "ignore_eos" in body:
            return self._json({"error": {"message": "Unrecognized request argument: ignore_eos", "code": 400}}, 400)
        n_prompt = len(json.dumps(body["messages"])) // 4
        usage = {"prompt_tokens": n_prompt, "completion_tokens": body["max_tokens"]}
        if not body.get("stream"):
            return self._json({"choices": [], "usage": usage})
        deltas = self._deltas(body["max_tokens"], usage)
        return self._stream(deltas if self.standin.events is None else map(json.dumps, self.standin.events), fault)

    def _deltas(self, n: int, usage: dict[str, int]) -> Iterator[str]:
        """Pieces that hold a pass each, as vLLM sends them."""
        yield json.dumps({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}]})
        for i in range(0, n, self.standin.burst):
            time.sleep(self.standin.pass_s)
            words = "".join(WORDS[j % len(WORDS)] for j in range(i, min(i + self.standin.burst, n)))
            yield json.dumps(
                {"choices": [{"index": 0, "delta": {"content": words}, "finish_reason": None}]}, ensure_ascii=False
            )
        yield json.dumps({"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]})
        if self.standin.usage:
            yield json.dumps({"choices": [], "usage": usage})
        yield "[DONE]"

    def _stream(self, events: Iterator[str], fault: Fault | None) -> None:
        standin = self.standin
        if fault is not None and fault.kind == "no_sse":
            return self._json({"content": "all at once"})
        with standin.lock:
            standin.n_at_once += 1
            standin.most_at_once = max(standin.most_at_once, standin.n_at_once)
        try:
            self._start()
            for piece in self._pieces(events, fault):
                self._write(piece)
            if standin.chunked and not self.close_connection:
                self.wfile.write(b"0\r\n\r\n")
            self.close_connection |= standin.drops
        finally:
            with standin.lock:
                standin.n_at_once -= 1
        return None

    def _start(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        if self.standin.chunked:
            self.send_header("Transfer-Encoding", "chunked")
        else:
            self.send_header("Connection", "close")
            self.close_connection = True
        self.end_headers()

    def _pieces(self, events: Iterator[str], fault: Fault | None) -> Iterator[bytes]:
        """The stream, cut as wanted. A fault comes after the third event."""
        sizes = list(self.standin.pieces)
        waiting = b""
        for i, event in enumerate(events):
            if i == 3 and fault is not None:
                yield waiting
                yield from self._failing(fault)
                return
            waiting += f"data: {event}\n\n".encode()
            if not sizes:
                yield waiting
                waiting = b""
            while sizes and len(waiting) >= sizes[0]:
                n = sizes.pop(0) if len(sizes) > 1 else sizes[0]
                yield waiting[:n]
                waiting = waiting[n:]
        yield waiting

    def _failing(self, fault: Fault) -> Iterator[bytes]:
        if fault.kind == "cut":
            self.close_connection = True
        elif fault.kind == "stall":
            self.standin.released.wait()
        elif fault.kind == "comments":
            while not self.standin.released.wait(0.02):
                yield b": ping\n\n"
        elif fault.kind == "error_event":
            yield b'data: {"error": {"code": 500, "message": "Context size has been exceeded"}}\n\n'
        elif fault.kind == "no_json":
            yield b"data: certainly!\n\n"

    def _write(self, piece: bytes) -> None:
        if piece:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece) if self.standin.chunked else piece)
            self.wfile.flush()

    def _json(self, found: Any, status: int = 200) -> None:
        self._send(status, json.dumps(found).encode(), {"Content-Type": "application/json"})

    def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in ({"Content-Length": str(len(body))} | headers).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)
