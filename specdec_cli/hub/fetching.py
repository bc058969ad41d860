"""Finds out which files of the hub a reference means, and has them in the shared cache: listing, metadata, offline."""

from __future__ import annotations

import logging
import os
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from huggingface_hub import constants, get_hf_file_metadata, get_session, get_token, hf_hub_url
from huggingface_hub.file_download import repo_folder_name
from huggingface_hub.utils import (  # type: ignore[attr-defined]  # public, but re-exported without saying so
    build_hf_headers,
    hf_raise_for_status,
)
from huggingface_hub.utils import logging as hub_logging

from specdec_cli import __version__
from specdec_cli.errors import ModelFileError
from specdec_cli.hub import choosing
from specdec_cli.hub.failures import Request, UnexpectedAnswer, cause_of, explain, not_in_cache
from specdec_cli.hub.references import HubFile, HubRepo
from specdec_cli.hub.resolving import Progress
from specdec_cli.hub.transfer import Part, transfer

T = TypeVar("T")

_COMMIT = re.compile(r"[0-9a-f]{40}")
_FILE_NAME = re.compile(r"\w[\w.-]*", re.ASCII)  # what the hub calls commits and contents becomes names in the cache


def fetch(wanted: HubRepo | HubFile, role: str, progress: Progress, *, offline: bool) -> Path:
    """The first (or only) file of the model, once all its parts are in the cache."""

    def bring(request: Request) -> Path:
        return transfer(parts_on_hub(wanted, request, progress), request, progress)[0]

    return from_cache_or_hub(wanted, role, progress, offline=offline, keeps=True, here=lambda path: path, there=bring)


def from_cache_or_hub(
    wanted: HubRepo | HubFile,
    role: str,
    progress: Progress,
    *,
    offline: bool,
    keeps: bool,
    here: Callable[[Path], T],
    there: Callable[[Request], T],
) -> T:
    """What here makes of the model's first file in the cache, or there of what the hub has.

    The cache is enough offline, for a commit, and where the hub cannot be asked; otherwise the hub says which files are meant.
    keeps: what there has fetched when it fails is used by the next try.
    """
    with _quiet_library():
        request = _request(wanted, role, offline, keeps)
        if offline or constants.is_offline_mode():
            found = _cached(wanted, request)
            if found is None:
                raise not_in_cache(request)
            return here(found)
        if isinstance(wanted, HubFile) and _COMMIT.fullmatch(wanted.revision) and (found := _cached(wanted, request)):
            return here(found)  # a commit never changes: nothing to ask the hub
        try:
            return there(request)
        except ModelFileError:
            raise
        except Exception as error:
            failure = explain(error, request)
            if failure is None:
                raise
            cause = cause_of(error)
            found = None if cause is None or cause.final else _cached(wanted, request)
            if found is None:
                raise failure from None  # a cause's own text may hold the token
            progress(f"{found.name}: the copy in the cache, because the hub could not be asked. {failure.why}", 1.0)
            return here(found)


def _request(wanted: HubRepo | HubFile, role: str, offline: bool, keeps: bool) -> Request:
    endpoint = os.environ.get("HF_ENDPOINT", "").strip().rstrip("/") or constants.ENDPOINT
    if not re.match(r"https?://[^/]", endpoint):
        raise ModelFileError(f"HF_ENDPOINT is no address: '{endpoint}'.", "", "Write HF_ENDPOINT=https://host, or unset it.")
    bundle = os.environ.get("SSL_CERT_FILE")
    if bundle and not Path(bundle).is_file():
        raise ModelFileError(f"SSL_CERT_FILE names no file: '{bundle}'.", "", "Give the path of a PEM file, or unset it.")
    token = None if offline or constants.HF_HUB_DISABLE_IMPLICIT_TOKEN else get_token()
    if token and not re.fullmatch(r"[\x21-\x7e]+", token):
        # Refused here, because the transport's own error shows the whole header.
        raise ModelFileError(
            "The hub token is malformed.", "It holds a space or a character that is not ASCII.", "Set HF_TOKEN again."
        )
    return Request(
        subject=f"the {role} {wanted}",
        repo=wanted.repo,
        revision=wanted.revision,
        filename=wanted.filename if isinstance(wanted, HubFile) else "",
        endpoint=endpoint,
        cache=Path(constants.HF_HUB_CACHE),
        token=token,
        offline_flag=offline,
        keeps=keeps,
    )


@contextmanager
def _quiet_library() -> Iterator[None]:
    """Its warnings would land in the middle of a display, and may show signed addresses.

    Its telemetry asks the hub about the tool it runs in: a request that nobody asked for, and three seconds on a dead network.
    """
    verbosity, no_telemetry = hub_logging.get_verbosity(), constants.HF_HUB_DISABLE_TELEMETRY
    hub_logging.set_verbosity(logging.ERROR)
    constants.HF_HUB_DISABLE_TELEMETRY = True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        hub_logging.set_verbosity(verbosity)
        constants.HF_HUB_DISABLE_TELEMETRY = no_telemetry


def parts_on_hub(wanted: HubRepo | HubFile, request: Request, progress: Progress) -> list[Part]:
    """The files of the model as the hub has them now, the first one first."""
    progress(f"{wanted.repo}: asking the hub", 0.0)
    if isinstance(wanted, HubFile):
        names = choosing.parts_of(wanted.filename)
    else:
        names = _choose_parts(wanted, _listing(request), request)
    first = _part(request, names[0])
    # The other parts come from the commit of the first: a push in between may not mix two models.
    pinned = replace(request, revision=first.commit)
    return [first, *(_part(pinned, name) for name in names[1:])]


def _choose_parts(wanted: HubRepo, listing: Sequence[str], request: Request) -> list[str]:
    chosen = choosing.choose(listing, wanted.quant)
    if chosen is None:
        raise _nothing_fits(wanted, choosing.quants(listing), request)
    names = choosing.parts_of(chosen)
    missing = [name for name in names if name not in set(listing)]
    if missing:
        raise ModelFileError(
            f"Cannot fetch {request.subject}.",
            f"It is split into {len(names)} files and the repository lacks {missing[0]}.",
            f"Choose another file at {request.page}/tree/{request.revision}.",
        )
    return names


def _nothing_fits(wanted: HubRepo, offered: list[str], request: Request) -> ModelFileError:
    what = f"Cannot fetch {request.subject}."
    if wanted.quant and offered:
        example = replace(wanted, quant=offered[0])
        return ModelFileError(what, f"{wanted.repo} has no {wanted.quant}. It has {', '.join(offered)}.", f"Write {example}.")
    return ModelFileError(
        what,
        f"{wanted.repo} holds no GGUF model.",
        f"Look for a repository with GGUF files, often named {wanted.repo}-GGUF.",
    )


def _listing(request: Request) -> list[str]:
    """Paths of all files in the repository, in the hub's order.

    Asked directly: HfApi.list_repo_tree waits without limit for an answer, and repeats a refused request for half a minute.
    """
    headers = build_hf_headers(library_name="specdec", library_version=__version__)
    revision = request.revision.replace("/", "%2F")
    url: str | None = f"{request.endpoint}/api/models/{request.repo}/tree/{revision}?recursive=true"
    paths: list[str] = []
    while url:
        answer = get_session().get(url, headers=headers, timeout=constants.HF_HUB_ETAG_TIMEOUT)
        hf_raise_for_status(answer)
        try:
            entries: Any = answer.json()
        except ValueError:
            entries = None
        if not isinstance(entries, list):
            kind = answer.headers.get("Content-Type", "an unknown type")
            raise UnexpectedAnswer(f"{kind} instead of a listing, beginning with {answer.text[:40]!r}")
        paths += [entry["path"] for entry in entries if entry.get("type") == "file" and _is_inside(entry["path"])]
        url = answer.links.get("next", {}).get("url")
    return paths


def _is_inside(path: str) -> bool:
    """It becomes a path on this machine, and a stranger chose it."""
    return "\\" not in path and not {"", ".", ".."} & set(path.split("/"))


def _part(request: Request, filename: str) -> Part:
    metadata = get_hf_file_metadata(
        hf_hub_url(request.repo, filename, revision=request.revision, endpoint=request.endpoint),
        timeout=constants.HF_HUB_ETAG_TIMEOUT,
        library_name="specdec",
        library_version=__version__,
        endpoint=request.endpoint,
    )
    if metadata.commit_hash is None or metadata.etag is None:
        raise UnexpectedAnswer("the answer lacks the hub's headers")
    for name in (metadata.commit_hash, metadata.etag):
        if not _FILE_NAME.fullmatch(name):
            raise UnexpectedAnswer(f"{name!r} cannot be a commit or an ETag of the hub")
    return Part(filename, metadata.commit_hash, metadata.etag, metadata.size)


def _cached(wanted: HubRepo | HubFile, request: Request) -> Path | None:
    """The model's first file if all its parts are in the cache, as far as can be told without the hub."""
    folder = request.cache / repo_folder_name(repo_id=request.repo, repo_type="model")
    try:
        is_commit = _COMMIT.fullmatch(request.revision)
        commit = request.revision if is_commit else (folder / "refs" / request.revision).read_text(encoding="utf-8").strip()
        snapshot = folder / "snapshots" / commit
        listing = sorted(file.relative_to(snapshot).as_posix() for file in snapshot.rglob("*") if file.is_file())
    except (OSError, ValueError):  # no such folder; a ref that is no text
        return None
    chosen = wanted.filename if isinstance(wanted, HubFile) else choosing.choose(listing, wanted.quant)
    if chosen is None:
        return None
    names = choosing.parts_of(chosen)
    return snapshot / names[0] if set(names) <= set(listing) else None
