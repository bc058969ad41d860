"""A stand-in for the hub on the loopback: listing, metadata, redirects to a storage host, ranges, and faults on demand."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

COMMIT = "0123456789abcdef0123456789abcdef01234567"
HTML = b"<!DOCTYPE html><html><body>Please log in to the guest network</body></html>"


N_CHUNK = 1 << 16


@dataclass(frozen=True)
class Long:
    """A file too large for memory: its first bytes, and zeros after them."""

    head: bytes
    size: int


Content = bytes | Long


@dataclass
class Fault:
    """What happens instead of the right answer, for requests whose method and path match, `times` times."""

    kind: str  # status, html, cut, stall, ignore_range, wrong_range, corrupt, longer
    path: str = ""  # contained in the path
    method: str = ""  # empty: any
    times: int = 10**6
    status: int = 500
    headers: dict[str, str] = field(default_factory=dict)
    at: int = 0  # cut, stall: bytes sent before


@dataclass
class Asked:
    method: str
    path: str
    headers: dict[str, str]
    host: str  # hub or storage


class StandIn:
    """Two servers: the hub, and the storage host that files are redirected to."""

    def __init__(self) -> None:
        self.files: dict[str, dict[str, Content]] = {}
        self.revisions: dict[str, str] = {"main": COMMIT}
        self.faults: list[Fault] = []
        self.asked: list[Asked] = []
        self.n_sent = 0  # bytes of files
        self.n_connections = {"hub": 0, "storage": 0}
        self.n_page = 1000
        self.xet = False
        self.tells_sizes = True
        self.redirects = True  # to the storage host; a mirror may send files itself
        self.etag: str | None = None  # instead of the content's sha256
        self.released = threading.Event()
        self._servers = [self._serve("hub"), self._serve("storage")]

    @property
    def endpoint(self) -> str:
        return self._address(0)

    @property
    def storage(self) -> str:
        return self._address(1)

    def add(self, repo: str, **files: Content) -> None:
        self.files.setdefault(repo, {}).update(files)

    def paths(self, method: str, contains: str = "") -> list[str]:
        return [asked.path for asked in self.asked if asked.method == method and contains in asked.path]

    def ranges(self) -> list[str | None]:
        return [asked.headers.get("range") for asked in self.asked if asked.method == "GET" and asked.host == "storage"]

    def close(self) -> None:
        self.released.set()
        for server in self._servers:
            server.shutdown()
            server.server_close()

    def fault_for(self, method: str, path: str) -> Fault | None:
        for fault in self.faults:
            if fault.times > 0 and fault.path in path and fault.method in ("", method):
                fault.times -= 1
                return fault
        return None

    def _address(self, index: int) -> str:
        return f"http://127.0.0.1:{self._servers[index].server_address[1]}"

    def _serve(self, host: str) -> ThreadingHTTPServer:
        standin = self

        class Handler(_Handler):
            def setup(self) -> None:
                self.standin = standin
                self.host = host
                standin.n_connections[host] += 1
                super().setup()

        server = _Server(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return server


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that has gone is what many tests want."""


class _Handler(BaseHTTPRequestHandler):
    standin: StandIn
    host: str
    protocol_version = "HTTP/1.1"

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        pass

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.standin.asked.append(Asked(self.command, self.path, headers, self.host))
        fault = self.standin.fault_for(self.command, self.path)
        if fault and fault.kind == "status":
            self._send(fault.status, b"{}", fault.headers | {"Content-Type": "application/json"})
        elif fault and fault.kind == "html":
            self._send(200, HTML, {"Content-Type": "text/html", "ETag": '"page"'})
        elif self.host == "storage":
            match = re.fullmatch(r"/([^/]+/[^/]+)/([^?]+)\?.*", self.path)
            assert match is not None
            self._content(self.standin.files[match[1]][unquote(match[2])], fault, {})
        elif match := re.fullmatch(r"/api/models/([^/]+/[^/]+)/tree/([^/?]+)\?(.*)", self.path):
            self._tree(match[1], unquote(match[2]), match[3], fault)
        elif match := re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", self.path):
            self._resolve(match[1], unquote(match[2]), unquote(match[3]), fault)
        else:
            self._send(404, b"{}", {"X-Error-Code": "RepoNotFound"})

    def _tree(self, repo: str, revision: str, query: str, fault: Fault | None) -> None:
        if not self._known(repo, revision):
            return
        if fault and fault.kind == "stall":
            self.standin.released.wait()
            return
        page = int(query.rpartition("page=")[2]) if "page=" in query else 0
        entries: list[dict[str, Any]] = [{"type": "directory", "path": "somewhere", "size": 0}]
        entries += [{"type": "file", "path": path, "size": _size(body)} for path, body in self.standin.files[repo].items()]
        start, end = page * self.standin.n_page, (page + 1) * self.standin.n_page
        headers = {"Content-Type": "application/json"}
        if end < len(entries):
            address = f"{self.standin.endpoint}{self.path.partition('?')[0]}?recursive=true&page={page + 1}"
            headers["Link"] = f'<{address}>; rel="next"'
        self._send(200, json.dumps(entries[start:end]).encode(), headers)

    def _known(self, repo: str, revision: str) -> bool:
        if repo not in self.standin.files:
            self._send(404, b"{}", {"X-Error-Code": "RepoNotFound"})
        elif revision not in (*self.standin.revisions, *self.standin.revisions.values()):
            self._send(404, b"{}", {"X-Error-Code": "RevisionNotFound"})
        else:
            return True
        return False

    def _resolve(self, repo: str, revision: str, filename: str, fault: Fault | None) -> None:
        if not self._known(repo, revision):
            return
        commit = self.standin.revisions.get(revision, revision)
        body = self.standin.files[repo].get(filename)
        if body is None:
            self._send(404, b"{}", {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": commit})
            return
        etag = self.standin.etag or _hash(body)
        if not self.standin.redirects:
            self._content(body, fault, {"X-Repo-Commit": commit})
            return
        headers = {
            "Location": f"{self.standin.storage}/{repo}/{filename}?X-Signature=very-secret",
            "X-Repo-Commit": commit,
            "X-Linked-Etag": f'"{etag}"',
        }
        if self.standin.tells_sizes:
            headers["X-Linked-Size"] = str(_size(body))
        if self.standin.xet:
            auth = f"{self.standin.endpoint}/api/models/{repo}/xet-read-token/{commit}"
            headers |= {"X-Xet-Hash": "a" * 64, "X-Xet-Refresh-Route": auth, "Link": f'<{auth}>; rel="xet-auth"'}
        self._send(302, b"", headers)

    def _content(self, body: Content, fault: Fault | None, headers: dict[str, str]) -> None:
        etag = f'"{self.standin.etag or _hash(body)}"'
        if fault and fault.kind == "corrupt" and isinstance(body, bytes):
            body = body[:-1] + bytes([body[-1] ^ 1])
        if fault and fault.kind == "longer" and isinstance(body, bytes):
            body += b"more"
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if (fault and fault.kind == "ignore_range") or self.headers.get("If-Range", etag) != etag:
            asked = None
        size = _size(body)
        start = int(asked[1]) if asked else 0
        end = min(size, int(asked[2]) + 1) if asked and asked[2] else size
        if asked and start >= size:
            self._send(416, b"", {"Content-Range": f"bytes */{size}"})
            return
        told = start + 1 if fault and fault.kind == "wrong_range" else start
        headers |= {"ETag": etag} | ({"Content-Range": f"bytes {told}-{end - 1}/{size}"} if asked else {})
        stops = fault.at if fault and fault.kind in ("cut", "stall") else None
        self._send(206 if asked else 200, body, headers, stops, start, end)
        if fault and fault.kind == "stall":
            self.standin.released.wait()

    def _send(
        self,
        status: int,
        body: Content,
        headers: dict[str, str],
        stops: int | None = None,
        start: int = 0,
        end: int | None = None,
    ) -> None:
        """The bytes of body from start to end, or only so many as the place where it stops."""
        end = _size(body) if end is None else end
        self.send_response(status)
        for name, value in ({"Content-Length": str(end - start)} | headers).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        last = end if stops is None else min(end, start + stops)
        for at in range(start, last, N_CHUNK):
            chunk = _slice(body, at, min(at + N_CHUNK, last))
            self.wfile.write(chunk)
            self.standin.n_sent += len(chunk) if "ETag" in headers else 0
        self.wfile.flush()
        if stops is not None:
            self.close_connection = True


def _size(content: Content) -> int:
    return len(content) if isinstance(content, bytes) else content.size


def _slice(content: Content, start: int, end: int) -> bytes:
    if isinstance(content, bytes):
        return content[start:end]
    return content.head[start:end].ljust(end - start, b"\0")


def _hash(content: Content) -> str:
    """Of a long file only something like it: nobody fetches it whole."""
    return hashlib.sha256(content if isinstance(content, bytes) else content.head).hexdigest()
