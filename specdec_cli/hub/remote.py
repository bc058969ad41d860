"""A model of the hub, looked at without having it: where its files are, and their first bytes by range."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from huggingface_hub import constants, get_session, hf_hub_url
from huggingface_hub.file_download import repo_folder_name
from huggingface_hub.utils import (  # type: ignore[attr-defined]  # public, but re-exported without saying so
    build_hf_headers,
    hf_raise_for_status,
)

from specdec_cli import __version__
from specdec_cli.hub import transfer
from specdec_cli.hub.failures import Contradiction, CutShort, Request, UnexpectedAnswer
from specdec_cli.hub.fetching import from_cache_or_hub, parts_on_hub
from specdec_cli.hub.references import HubFile, HubRepo
from specdec_cli.hub.resolving import Progress
from specdec_cli.hub.transfer import MAGIC, Part

T = TypeVar("T")

FIRST_READ = 1 << 16
GROWTH = 0.35  # of what is there: no more than so much is fetched in vain, and a long header takes a dozen requests
N_MOST = 1 << 28  # more than ten times the longest header of a model: what asks for more is not fetched

_CONTENT_RANGE = re.compile(r"bytes (\d{1,20})-(\d{1,20})/(\d{1,20}|\*)", re.ASCII)
_STRONG_ETAG = re.compile(r'"[\x21\x23-\x7e]*"')  # what If-Range may hold; one that begins with W/ only says that it is similar


@dataclass(frozen=True, slots=True)
class HubModel:
    """A model of the hub: complete in the cache, or to be read from afar."""

    reference: str  # hf:owner/repo/file.gguf, of its first file
    paths: tuple[Path, ...]  # where its files are, or would be, in the cache; of a model that is here only the first
    parts: tuple[Part, ...]  # of a model that is not here
    request: Request | None
    progress: Progress

    @property
    def is_here(self) -> bool:
        return self.request is None

    @contextmanager
    def open(self, path: Path) -> Iterator[RemoteFile]:
        """One of the files; only of a model that is not here."""
        assert self.request is not None
        i = self.paths.index(path)
        label = f"{self.request.repo}: reading the header"
        self.progress(label, i / len(self.paths))
        file = RemoteFile(self.parts[i], self.request, lambda note: self.progress(f"{label}: {note}", i / len(self.paths)))
        try:
            yield file
        finally:
            file.close()
        self.progress(label, (i + 1) / len(self.paths))


def look(wanted: HubRepo | HubFile, role: str, progress: Progress, *, offline: bool, read: Callable[[HubModel], T]) -> T:
    """What read makes of the model that is meant. Nothing is kept of what it reads from afar.

    read may be called twice: with the model on the hub, and if that fails with an earlier copy in the cache.
    """

    def here(path: Path) -> T:
        folder = Path(constants.HF_HUB_CACHE) / repo_folder_name(repo_id=wanted.repo, repo_type="model")
        filename = Path(*path.relative_to(folder / "snapshots").parts[1:]).as_posix()
        return read(HubModel(_reference(wanted, filename), (path,), (), None, progress))

    def there(request: Request) -> T:
        parts = parts_on_hub(wanted, request, progress)
        cached = [transfer.placed(part, request) for part in parts]
        if cached[0] is not None and all(cached):
            return here(cached[0])
        folder = transfer.folder_of(request) / "snapshots"
        paths = tuple(folder / part.commit / part.filename for part in parts)
        return read(HubModel(_reference(wanted, parts[0].filename), paths, tuple(parts), request, progress))

    return from_cache_or_hub(wanted, role, progress, offline=offline, keeps=False, here=here, there=there)


def _reference(wanted: HubRepo | HubFile, filename: str) -> str:
    return str(HubFile(wanted.repo, filename, wanted.revision))


class RemoteFile:
    """The bytes of a file on the hub, fetched when they are read. Between two reads it keeps the address that the hub
    redirected to, and the rest of an answer that is longer than was asked for: a server without ranges sends it all."""

    n_most = N_MOST

    def __init__(self, part: Part, request: Request, note: Callable[[str], None]) -> None:
        if part.size is None:
            raise UnexpectedAnswer(f"the answer lacks the size of {part.name}")
        self.size = part.size
        self._part = part
        self._request = request
        self._note = note
        self._address: str | None = None  # at the storage host; expires, and never sees the token
        self._etag: str | None = None  # of what is at that address
        self._answer = ExitStack()
        self._chunks: Iterator[bytes] = iter(())
        self._left = b""  # of the last chunk
        self._at: int | None = None  # where the rest of the answer stands in the file
        self._is_whole = False  # the answer does not end where it was told to

    def ahead(self, n_have: int, n_least: int) -> int:
        """How far to read once the first n_have bytes do not do and n_least are sure to be needed."""
        return max(FIRST_READ, n_least, n_have + int(n_have * GROWTH))

    def close(self) -> None:
        """Ends the answer in progress; what it still holds is not fetched."""
        self._answer.close()
        self._chunks, self._left, self._at = iter(()), b"", None

    def read(self, offset: int, n: int) -> bytes:
        """n bytes from offset, which must be there. Raises what the transport raises once trying again is of no use."""
        data = bytearray()
        n_failed = 0
        while len(data) < n:
            n_before = len(data)
            error: Exception = CutShort(f"{offset + n_before:,} of {self.size:,} bytes have come")
            try:
                self._read_on(offset, n, data)
                if len(data) == n:
                    break
            except Exception as stopped:
                if not transfer.may_pass(stopped):
                    raise
                error = stopped
            self.close()
            self._address = self._etag = None  # whatever is wrong may be wrong there
            n_failed = 0 if len(data) > n_before else n_failed + 1
            if n_failed == transfer.N_TRIES:
                raise error
            self._note("connection lost, trying again")
            time.sleep(transfer.FIRST_WAIT_S * 2**n_failed)
        return bytes(data)

    def _read_on(self, offset: int, n: int, data: bytearray) -> None:
        """Adds to data what one answer has of the n bytes from offset, all of them if nothing goes wrong."""
        if self._at != offset + len(data):
            self._ask(offset + len(data), offset + n)
        while len(data) < n:
            chunk = self._left or next(self._chunks, b"")
            if not chunk:
                return
            taken = chunk[: n - len(data)]
            self._left = chunk[len(taken) :]
            data += taken
            self._at = offset + len(data)
        if not self._is_whole and not self._left:
            # Only an answer read to its very end leaves the connection open for the next request.
            self._left = next(self._chunks, b"")
            if not self._left:
                self.close()

    def _ask(self, start: int, end: int) -> None:
        """Makes the answer in progress one that stands at start and reaches to end, or further."""
        self.close()
        answer = self._send(start, end)
        if answer.status_code not in (200, 206) or answer.headers.get("Content-Encoding", "identity") != "identity":
            encoding = answer.headers.get("Content-Encoding", "plain")
            raise UnexpectedAnswer(f"status {answer.status_code} and {encoding} content for a range of {self._part.name}")
        self._chunks = answer.iter_raw()
        self._is_whole = answer.status_code == 200
        if self._is_whole:
            self._skip_to(start, answer)
        else:
            self._check_range(answer, start)
        etag = answer.headers.get("ETag")
        if self._etag and etag and etag != self._etag:
            raise Contradiction(f"{self._part.name} changed while it was being read.")
        self._etag, self._at = etag or self._etag, start
        if not str(answer.url).startswith(f"{self._request.endpoint}/"):
            self._address = str(answer.url)

    def _send(self, start: int, end: int) -> Any:
        """The answer to a request for the bytes from start to end: 200, 206, or something that is no error."""
        part, request = self._part, self._request
        headers = build_hf_headers(
            token=None if self._address is None else False, library_name="specdec", library_version=__version__
        )
        headers |= {"Accept-Encoding": "identity", "Range": f"bytes={start}-{end - 1}"}
        if self._etag and _STRONG_ETAG.fullmatch(self._etag):
            headers["If-Range"] = self._etag
        url = self._address or hf_hub_url(request.repo, part.filename, revision=part.commit, endpoint=request.endpoint)
        call = get_session().stream("GET", url, headers=headers, timeout=constants.HF_HUB_DOWNLOAD_TIMEOUT)
        answer = self._answer.enter_context(call)
        if answer.status_code == 416:
            raise Contradiction(f"{part.name} has {self.size:,} bytes, and no byte {start:,}.")
        if answer.status_code >= 400:
            if self._address is not None:  # expired, perhaps: the hub gives another
                self.close()
                self._address = self._etag = None
                return self._send(start, end)
            answer.read()
        hf_raise_for_status(answer)
        return answer

    def _check_range(self, answer: Any, start: int) -> None:
        told = answer.headers.get("Content-Range", "nothing")
        found = _CONTENT_RANGE.fullmatch(told)
        if found is None or int(found[1]) != start:
            raise Contradiction(f"asked for {self._part.name} from byte {start:,} on, it answers with {told!r}.")
        if found[3] not in ("*", str(self.size)):
            raise Contradiction(f"{self._part.name} has {self.size:,} bytes, and then {int(found[3]):,}.")

    def _skip_to(self, start: int, answer: Any) -> None:
        """Goes to start in an answer that holds the whole file, or in a page that a proxy sends instead."""
        n_skipped = 0
        while chunk := next(self._chunks, b""):
            if n_skipped == 0 and not MAGIC.startswith(chunk[: len(MAGIC)]):
                raise UnexpectedAnswer(f"{self._part.name} begins with {chunk[:24]!r}")
            n_skipped += len(chunk)
            if n_skipped > start:
                self._left = chunk[len(chunk) - (n_skipped - start) :]
                break
        told = answer.headers.get("Content-Length")
        if told is not None and told != str(self.size):
            raise Contradiction(f"{self._part.name} has {self.size:,} bytes, and then {told}.")
