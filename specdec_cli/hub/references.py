"""What a model reference means: a local path, the embedded demo model, a hub repository or one file of it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote

from specdec_cli.errors import ModelFileError
from specdec_cli.hub.secrecy import scrub

MAIN = "main"


@dataclass(frozen=True, slots=True)
class LocalPath:
    path: Path


@dataclass(frozen=True, slots=True)
class Embedded:
    """The demo model inside the package that the demo extra installs."""


@dataclass(frozen=True, slots=True)
class HubRepo:
    """A repository; which of its GGUF files is decided by llama.cpp's rule."""

    repo: str  # owner/name
    quant: str | None = None
    revision: str = MAIN

    def __str__(self) -> str:
        at = _at(self.revision)
        return f"{'hf:' if at else ''}{self.repo}{at}{f':{self.quant}' if self.quant else ''}"


@dataclass(frozen=True, slots=True)
class HubFile:
    repo: str
    filename: str  # with forward slashes, from the repository's root
    revision: str = MAIN

    def __str__(self) -> str:
        return f"hf:{self.repo}{_at(self.revision)}/{self.filename}"


Reference = LocalPath | HubRepo | HubFile | Embedded

_NAME = r"[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9_])?"
_REPO = re.compile(rf"(?P<repo>{_NAME}/{_NAME})(?::(?P<quant>[A-Za-z0-9._-]+))?")
# A revision with a slash is written as refs/pr/1, refs/convert/x, or with %2F.
_SLASHED = re.compile(r"refs/(?:pr|convert)/[^/:@]+")
_REVISION = rf"{_SLASHED.pattern}|[^/:@]+"
_HUB = re.compile(
    rf"hf:(?://)?(?P<repo>{_NAME}/{_NAME})(?:@(?P<revision>{_REVISION}))?"
    r"(?:/(?P<filename>[^:\\]+\.gguf)|:(?P<quant>[A-Za-z0-9._-]+))?",
    re.IGNORECASE,
)
_PAGE = re.compile(
    rf"https?://[^/]+/(?P<repo>{_NAME}/{_NAME})(?:/(?:resolve|blob)/(?P<revision>[^/]+)/(?P<filename>[^?#]+))?.*"
)
_DRIVE = re.compile(r"[A-Za-z]:")


def parse(reference: str, role: str = "model", other_forms: tuple[str, ...] = ()) -> Reference:
    """role and other_forms (drafters' names, for a draft) only word the error. Looks at the disk, never at the network."""
    if "\0" in reference:  # no file system has such names, and some of its calls raise on them
        raise _no_reference(reference, role, other_forms)
    if _exists(reference, files_only=True):
        return LocalPath(_local(reference))
    if reference == "demo":
        return Embedded()
    if match := _HUB.fullmatch(reference):
        return _hub_reference(match, reference, role, other_forms)
    if _is_path(reference) or _exists(reference):
        return LocalPath(_local(reference))
    if (match := _REPO.fullmatch(reference)) and _is_repo_name(match["repo"]):
        return HubRepo(match["repo"], match["quant"])
    raise _no_reference(reference, role, other_forms)


def _at(revision: str) -> str:
    if revision == MAIN:
        return ""
    return f"@{revision if _SLASHED.fullmatch(revision) else quote(revision, safe='')}"


def _hub_reference(match: re.Match[str], reference: str, role: str, other_forms: tuple[str, ...]) -> HubRepo | HubFile:
    revision = unquote(match["revision"] or MAIN)
    filename = match["filename"]
    segments = [*revision.split("/"), *(filename.split("/") if filename else ())]
    if not _is_repo_name(match["repo"]) or {"", ".", ".."} & set(segments):
        raise _no_reference(reference, role, other_forms)
    if filename:
        return HubFile(match["repo"], filename, revision)
    return HubRepo(match["repo"], match["quant"], revision)


def _is_path(reference: str) -> bool:
    """Spelled as a path, whether or not anything is there."""
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:", reference):  # hf:, https: and the like; a drive has one letter
        return False
    return (
        reference.startswith(("/", "./", "../", "~"))
        or reference in (".", "..")
        or "\\" in reference
        or _DRIVE.match(reference) is not None
        or reference.lower().endswith(".gguf")
    )


def _is_repo_name(repo: str) -> bool:
    """The hub's own rule beyond the characters."""
    return "--" not in repo and ".." not in repo and len(repo) <= 96 and not repo.lower().endswith((".git", ".gguf"))


def _exists(reference: str, files_only: bool = False) -> bool:
    try:
        path = _local(reference)
        return bool(reference) and (path.is_file() if files_only else path.exists())
    except OSError:  # a name too long for the file system, a folder without permission
        return False


def _local(reference: str) -> Path:
    try:
        return Path(reference).expanduser()
    except RuntimeError:  # ~somebody, and nobody has that name
        return Path(reference)


def _no_reference(reference: str, role: str, other_forms: tuple[str, ...]) -> ModelFileError:
    forms = "a GGUF file (./model.gguf), owner/repo, owner/repo:Q4_K_M, hf:owner/repo/file.gguf or demo"
    if other_forms:
        forms += f", or a drafter: {', '.join(other_forms)}"
    fix = f"Give {forms}."
    if page := _PAGE.fullmatch(reference):
        fix = f"Write {_from_page(page)} instead. In general: {forms}."
    shown = scrub(reference) if len(reference) <= 200 else scrub(reference[:200]) + "..."
    return ModelFileError(f"'{shown}' names no {role}.", "No file of that name is here, and it is no hub reference.", fix)


def _from_page(page: re.Match[str]) -> str:
    if not page["filename"]:
        return page["repo"]
    revision = unquote(page["revision"])
    return str(HubFile(page["repo"], unquote(page["filename"]), revision))
