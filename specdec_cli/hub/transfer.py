"""Bytes from the hub into the shared cache: resumed, counted, checked, then handed to huggingface_hub to place."""

from __future__ import annotations

import errno
import hashlib
import re
import shutil
import time
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from huggingface_hub import constants, get_session, hf_hub_download, hf_hub_url, try_to_load_from_cache
from huggingface_hub.file_download import are_symlinks_supported, repo_folder_name
from huggingface_hub.utils import (  # type: ignore[attr-defined]  # public, but re-exported without saying so
    WeakFileLock,
    build_hf_headers,
    hf_raise_for_status,
)

from specdec_cli import __version__
from specdec_cli.errors import ModelFileError
from specdec_cli.hub.failures import CutShort, Request, UnexpectedAnswer, XetFailed
from specdec_cli.hub.resolving import Progress

MAGIC = b"GGUF"
N_TRIES = 6  # in a row, without one new byte
FIRST_WAIT_S = 0.5  # doubled after each try
# Files above it are served only in chunks through Xet, which huggingface_hub fetches and which cannot be resumed.
LARGEST_PLAIN_FILE = constants.MAX_HTTP_DOWNLOAD_SIZE


@dataclass(frozen=True, slots=True)
class Part:
    """One file on the hub, as its metadata tells."""

    filename: str
    commit: str
    etag: str  # of a large file its sha256
    size: int | None

    @property
    def name(self) -> str:
        return self.filename.rpartition("/")[2]


class Meter:
    """Turns bytes of one part after the other into calls of progress: a thousand at most, whatever the chunks."""

    def __init__(self, parts: Iterable[Part], progress: Progress) -> None:
        self._progress = progress
        self._n_total = sum(part.size or 0 for part in parts)
        self._n_before = 0
        self._n_bytes = 0
        self._shown = -1.0
        self._label = ""

    def begin(self, part: Part, n_bytes: int) -> None:
        self._n_bytes = n_bytes
        size = f" ({part.size / 1e6:,.0f} MB)" if part.size else ""
        self.say(f"{part.name}{size}")

    def end(self, part: Part) -> None:
        self._n_before += part.size or 0
        self._n_bytes = 0
        self._progress(self._label, self._fraction() if self._n_total else 1.0)

    def add(self, n_bytes: int) -> None:
        self._n_bytes += n_bytes
        if abs(self._fraction() - self._shown) >= 0.001:
            self.say(self._label)

    def reset(self, n_bytes: int) -> None:
        self._n_bytes = n_bytes

    def note(self, text: str) -> None:
        """Says something once, without becoming the label."""
        self._progress(f"{self._label}: {text}", self._fraction())

    def say(self, label: str) -> None:
        self._label = label
        self._shown = self._fraction()
        self._progress(label, self._shown)

    def _fraction(self) -> float:
        return min(1.0, (self._n_before + self._n_bytes) / self._n_total) if self._n_total else 0.0


def transfer(parts: list[Part], request: Request, progress: Progress) -> list[Path]:
    """Paths in the cache, one for each part."""
    missing = [part for part in parts if placed(part, request) is None]
    _check_space(missing, request)
    meter = Meter(missing, progress)
    paths = []
    for index, part in enumerate(parts):
        # Only the first part sets what the revision's name stands for: the others are asked for by commit.
        revision = request.revision if index == 0 else part.commit
        paths.append(_bring(part, revision, request, meter))
    return paths


def folder_of(request: Request) -> Path:
    """Where huggingface_hub keeps the repository."""
    return request.cache / repo_folder_name(repo_id=request.repo, repo_type="model")


def placed(part: Part, request: Request, revision: str | None = None) -> Path | None:
    """Where the part is in the cache, at its commit or at the revision; None if it is not."""
    found = try_to_load_from_cache(request.repo, part.filename, cache_dir=request.cache, revision=revision or part.commit)
    return Path(found) if isinstance(found, str) else None


def _bring(part: Part, revision: str, request: Request, meter: Meter) -> Path:
    found = placed(part, request)
    if found is not None and found == placed(part, request, revision):
        return found
    is_plain = (part.size or 0) <= LARGEST_PLAIN_FILE
    if found is None and is_plain:
        _fill_blob(part, request, meter)
    elif found is None:
        meter.begin(part, 0)
    try:
        path = hf_hub_download(
            request.repo,
            part.filename,
            revision=revision,
            endpoint=request.endpoint,
            cache_dir=request.cache,
            library_name="specdec",
            library_version=__version__,
            tqdm_class=None if is_plain else _bar_for(meter),
        )
    except (RuntimeError, ValueError) as error:
        if is_plain:
            raise
        raise XetFailed(str(error)) from error
    if found is None:
        meter.end(part)
    return Path(path)


def _fill_blob(part: Part, request: Request, meter: Meter) -> None:
    """Puts the file's bytes where huggingface_hub keeps them, so that it only has to link them.

    Its own download starts again from nothing after an interruption (2.4 removes what it had), and it does not
    compare the content with the hash. The unfinished file has the name that earlier releases resume from.
    """
    folder = folder_of(request)
    blob = folder / "blobs" / part.etag
    partial = blob.with_name(f"{part.etag}.incomplete")
    lock = request.cache / ".locks" / folder.name / f"{part.etag}.lock"
    blob.parent.mkdir(parents=True, exist_ok=True)
    lock.parent.mkdir(parents=True, exist_ok=True)
    meter.begin(part, _size(partial))
    with ExitStack() as held:
        try:
            held.enter_context(WeakFileLock(lock, timeout=0.2))
        except TimeoutError:
            meter.note("waiting for another download of it")
            held.enter_context(WeakFileLock(lock))
        if blob.exists() or placed(part, request):
            return
        _download_intact(part, partial, request, meter)
        target = blob if are_symlinks_supported(request.cache) else folder.joinpath("snapshots", part.commit, part.filename)
        target.parent.mkdir(parents=True, exist_ok=True)
        partial.replace(target)


def _download_intact(part: Part, partial: Path, request: Request, meter: Meter) -> None:
    for n_left in (1, 0):
        _download(part, partial, request, meter)
        if _is_intact(part, partial, meter):
            return
        # What an earlier run left may have been of no use: fetched once more, from nothing.
        partial.unlink()
        if n_left:
            meter.note("damaged, fetching it again")
    raise ModelFileError(
        f"Cannot fetch {request.subject}.",
        f"What arrives as {part.name} does not have the size and the hash that the hub tells, twice in a row.",
        "Something on the way changes it. Try another network, or check HF_ENDPOINT and HTTPS_PROXY.",
    )


def _is_intact(part: Part, partial: Path, meter: Meter) -> bool:
    if part.size is not None and _size(partial) != part.size:
        return False
    if not re.fullmatch(r"[0-9a-f]{64}", part.etag):
        return True  # no sha256 to compare with
    meter.note("checking")
    with partial.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == part.etag


def _download(part: Part, partial: Path, request: Request, meter: Meter) -> None:
    """Returns when the unfinished file has its full size, or more. Whatever ends it earlier leaves what has come so far."""
    n_failed = 0
    while True:
        n_have = _size(partial)
        if part.size is not None and n_have >= part.size:
            return
        error: Exception = CutShort(f"{n_have:,} of {part.size or 0:,} bytes have come")
        try:
            _stream(part, partial, n_have, request, meter)
            if part.size is None and _size(partial):
                return
        except Exception as stopped:
            if not may_pass(stopped):
                raise
            error = stopped
        n_now = _size(partial)
        if part.size is not None and n_now >= part.size:
            return
        n_failed = 0 if n_now > n_have else n_failed + 1
        if n_failed == N_TRIES:
            raise error
        meter.note("connection lost, trying again")
        time.sleep(FIRST_WAIT_S * 2**n_failed)


def _stream(part: Part, partial: Path, n_have: int, request: Request, meter: Meter) -> None:
    """One request. The hub's own address is asked, not the one it redirects to, which expires and must not see the token."""
    url = hf_hub_url(request.repo, part.filename, revision=part.commit, endpoint=request.endpoint)
    headers = build_hf_headers(library_name="specdec", library_version=__version__) | {"Accept-Encoding": "identity"}
    if n_have:
        headers["Range"] = f"bytes={n_have}-"
    with get_session().stream("GET", url, headers=headers, timeout=constants.HF_HUB_DOWNLOAD_TIMEOUT) as answer:
        if answer.status_code == 416:  # nothing left from there on: what is here is not the beginning of that file
            partial.unlink(missing_ok=True)
            return
        if answer.status_code >= 400:
            answer.read()
        hf_raise_for_status(answer)
        continues = answer.status_code == 206 and answer.headers.get("Content-Range", "").startswith(f"bytes {n_have}-")
        n_start = n_have if continues else 0
        chunks = iter(answer.iter_bytes())
        first = next(chunks, b"")
        # Looked at before the file is opened: a proxy's page may not replace what has come so far.
        if n_start == 0 and not MAGIC.startswith(first[: len(MAGIC)]):
            raise UnexpectedAnswer(f"{part.name} begins with {first[:24]!r}")
        meter.reset(n_start)
        with partial.open("ab" if n_start else "wb") as file:
            file.write(first)
            meter.add(len(first))
            for chunk in chunks:
                file.write(chunk)
                meter.add(len(chunk))


def may_pass(error: Exception) -> bool:
    """Worth another try: a cut line, a silent server, a server's own fault."""
    status = getattr(getattr(error, "response", None), "status_code", 0)
    if status:
        return bool(status >= 500)
    names = {base.__name__ for base in type(error).__mro__}
    return "TransportError" in names and not names & {"ProxyError", "UnsupportedProtocol", "LocalProtocolError"}


def _check_space(parts: list[Part], request: Request) -> None:
    here = request.cache
    while not here.exists() and here != here.parent:
        here = here.parent
    blobs = folder_of(request) / "blobs"
    n_needed = sum(
        part.size - _size(blobs / f"{part.etag}.incomplete") for part in parts if part.size and not (blobs / part.etag).exists()
    )
    n_free = shutil.disk_usage(here).free
    if n_needed > n_free:
        raise OSError(errno.ENOSPC, f"{n_needed / 1e6:,.0f} MB are needed and {n_free / 1e6:,.0f} MB are free")


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return 0


def _bar_for(meter: Meter) -> Any:
    """A stand-in for tqdm that passes the bytes on to meter."""

    class Bar:
        def __init__(self, *_: object, **__: object) -> None:
            pass

        def __enter__(self) -> Bar:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def update(self, n_bytes: float | None = 1) -> None:
            meter.add(int(n_bytes or 0))

        def ignore(self, *_: object, **__: object) -> None:
            """Xet also reports bytes on the wire and rates, which are not bytes of the file."""

        update_transfer = set_postfix_str = set_transfer_postfix_str = refresh = close = ignore

    return Bar
