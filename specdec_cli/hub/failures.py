"""From an exception of the hub, the network or the disk to a sentence: its cause and the next step."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specdec_cli.errors import ModelFileError
from specdec_cli.hub.secrecy import scrub


class UnexpectedAnswer(Exception):
    """Something answered that is not the hub: a proxy's page, a login form, a mirror without the hub's headers."""


class CutShort(Exception):
    """The connection ended before the file did, again and again."""


class Contradiction(Exception):
    """Two answers about one file that cannot both be true: it changed in between, or something on the way is at fault."""


class XetFailed(Exception):
    """A file that comes only through Xet storage, and Xet's own error."""


@dataclass(frozen=True, slots=True)
class Request:
    """What was being fetched; for the words of an error."""

    subject: str  # the reference as given, with its role: "the draft owner/repo"
    repo: str
    revision: str
    filename: str  # "" while the repository is being listed
    endpoint: str
    cache: Path
    token: str | None
    offline_flag: bool  # offline was asked for by the caller, not by HF_HUB_OFFLINE
    keeps: bool = True  # what has come so far is used by the next try

    @property
    def page(self) -> str:
        return f"{self.endpoint}/{self.repo}"

    @property
    def again(self) -> str:
        return "run the same command again" + (": it goes on where it stopped" if self.keeps else "")


@dataclass(frozen=True, slots=True)
class Cause:
    """Templates over what a Request knows; {detail} is the exception's own first line."""

    why: str
    fix: str
    final: bool = False  # the hub has spoken: a copy in the cache may not stand in


_LOGIN = "log in with `hf auth login` or set HF_TOKEN"

_MISSING_REPO = Cause(
    "The hub has no repository {repo}, or it is private.",
    f"Check the spelling at {{page}}. If it is private, {_LOGIN}. A local file is written ./path/model.gguf.",
)
_REFUSED_TOKEN = Cause(
    "The hub did not accept the token.",
    "Make a new one at {endpoint}/settings/tokens, then set HF_TOKEN or `hf auth login`.",
)
_UNREACHABLE = Cause(
    "{host} cannot be reached: {detail}",
    "Check the network, HF_ENDPOINT and HTTPS_PROXY. Without network: give a local GGUF file.",
)
_TIMEOUT = Cause(
    "{host} did not answer in time.",
    "Check the network, then {again}. On a slow line: HF_HUB_DOWNLOAD_TIMEOUT=60 HF_HUB_ETAG_TIMEOUT=60.",
)
_CUT = Cause("The connection to {host} was cut: {detail}", "Check the network, then {again}.")
_PROXY_PAGE = Cause(
    "Something other than the hub answered at {endpoint}: {detail}",
    "Open {page} in a browser: a proxy or login page may be in between. Check HF_ENDPOINT and HTTPS_PROXY.",
)
_NO_DISK = Cause(
    "The disk of the cache {cache} is full: {detail}",
    "Free some space, or set HF_HOME to a folder on another disk, then {again}.",
)
_CACHE_DENIED = Cause(
    "The cache cannot be written: {detail}", "Set HF_HOME to a folder that you may write to. It is now {cache}."
)
_CERTIFICATE = Cause(
    "The certificate of {host} is not trusted: {detail}",
    "Behind a company proxy: SSL_CERT_FILE=/path/to/its-ca.pem. Otherwise check this machine's clock.",
)

# By the names of exception classes, most specific first: the transport's classes come from httpx in one release of
# huggingface_hub and from httpx2 in the next, under the same names.
_BY_NAME: tuple[tuple[str, Cause], ...] = (
    ("GatedRepoError", Cause("{repo} is gated: its owner grants access to each account.", "{gated}")),
    ("DisabledRepoError", Cause("{repo} has been disabled.", "Choose another repository.")),
    (
        "RevisionNotFoundError",
        Cause("{repo} has no revision '{revision}'.", "See its branches and tags at {page}/tree/main.", final=True),
    ),
    (
        "RemoteEntryNotFoundError",
        Cause("{repo} has no file {filename}.", "See its files at {page}/tree/{revision}.", final=True),
    ),
    ("RepositoryNotFoundError", _MISSING_REPO),
    (
        "HFValidationError",
        Cause("The hub does not allow that name: {detail}", "Write owner/repo or hf:owner/repo/file.gguf."),
    ),
    ("SSLCertVerificationError", _CERTIFICATE),
    ("ProxyError", Cause("The proxy refused: {detail}", "Check HTTPS_PROXY and NO_PROXY.")),
    ("UnsupportedProtocol", Cause("{endpoint} is not an address.", "Write HF_ENDPOINT=https://host.")),
    ("InvalidURL", Cause("{endpoint} is not an address.", "Write HF_ENDPOINT=https://host.")),
    ("UnexpectedAnswer", _PROXY_PAGE),
    (
        "Contradiction",
        Cause(
            "What {host} says of the file does not agree: {detail}",
            "Run the same command again. If it stays so, check HF_ENDPOINT and HTTPS_PROXY.",
        ),
    ),
    (
        "XetFailed",
        Cause("Xet storage failed: {detail}", "pip install --upgrade hf_xet: a file of this size comes only through it."),
    ),
    ("JSONDecodeError", _PROXY_PAGE),
    ("DecodingError", _PROXY_PAGE),
    ("FileMetadataError", _PROXY_PAGE),
    ("TooManyRedirects", _PROXY_PAGE),
    ("SSLError", Cause("No secure connection to {host}: {detail}", "Check HF_ENDPOINT and HTTPS_PROXY.")),
    ("TimeoutException", _TIMEOUT),
    ("ConnectError", _UNREACHABLE),
    ("CutShort", _CUT),
    ("TransportError", _CUT),
)
_BY_STATUS: dict[int, Cause] = {
    403: Cause("The hub refuses access: {detail}", "Give the token read access to {repo} at {endpoint}/settings/tokens."),
    404: _MISSING_REPO,
    407: Cause("The proxy asks for a password.", "Set HTTPS_PROXY=http://user:password@host:port."),
    429: Cause("The hub limits the number of requests.", "{wait}"),
    451: Cause("The hub withholds {repo} for legal reasons.", "Choose another repository."),
}
_SERVER_FAULT = Cause("The hub failed with status {status}.", "Wait a little, then {again}. Its state: status.huggingface.co.")
_BY_ERRNO: dict[int, Cause] = {
    errno.ENOSPC: _NO_DISK,
    getattr(errno, "EDQUOT", errno.ENOSPC): _NO_DISK,
    errno.EACCES: _CACHE_DENIED,
    errno.EPERM: _CACHE_DENIED,
    errno.EROFS: _CACHE_DENIED,
}
_OFFLINE_NAMES = ("OfflineModeIsEnabled", "LocalEntryNotFoundError")


def cause_of(error: Exception) -> Cause | None:
    """None for an exception that neither the hub, the network nor the disk explains: a fault of this program."""
    chain = list(_chain(error))
    names = [{base.__name__ for base in type(link).__mro__} for link in chain]
    for name, cause in _BY_NAME:
        if any(name in of_link for of_link in names):
            return cause
    status = next((found for link in chain if (found := _status(link)) is not None), None)
    if status == 401:
        # The hub answers 401 also for repositories that do not exist.
        return _REFUSED_TOKEN if "Invalid credentials" in str(error) else _MISSING_REPO
    if status is not None:
        fault = _SERVER_FAULT if status >= 500 else Cause("The hub answered with status {status}: {detail}", "See {page}.")
        return _BY_STATUS.get(status, fault)
    if any(name in of_link for of_link in names for name in _OFFLINE_NAMES):
        return _offline_cause()
    for link in chain:
        if isinstance(link, OSError):
            return _BY_ERRNO.get(link.errno or 0, Cause("{detail}", "Look at {cache}, then {again}."))
    return None


def explain(error: Exception, request: Request) -> ModelFileError | None:
    """None if the exception is a fault of this program and should be seen as one."""
    cause = cause_of(error)
    return None if cause is None else _word(cause, error, request)


def not_in_cache(request: Request) -> ModelFileError:
    return _word(_offline_cause(), None, request)


def _offline_cause() -> Cause:
    return Cause("It is not complete in the cache {cache}, and offline mode is on.", "{go_online}")


def _word(cause: Cause, error: Exception | None, request: Request) -> ModelFileError:
    online = "Leave out --offline" if request.offline_flag else "Unset HF_HUB_OFFLINE"
    known = {
        "repo": request.repo,
        "revision": request.revision,
        "filename": request.filename,
        "page": request.page,
        "again": request.again,
        "endpoint": request.endpoint,
        "host": request.endpoint.partition("://")[2].split("/")[0].rpartition("@")[2] or request.endpoint,
        "cache": str(request.cache),
        "detail": _detail(error) if error else "",
        "status": str(next((s for link in _chain(error) if (s := _status(link)) is not None), "")) if error else "",
        "wait": _wait(error, request) if error else "",
        "gated": f"Ask for access at {request.page}" + (", then run again." if request.token else f", then {_LOGIN}."),
        "go_online": f"{online} once to fetch it, or give a local file.",
    }
    texts = (f"Cannot fetch {request.subject}.", cause.why.format_map(known), cause.fix.format_map(known))
    return ModelFileError(*(scrub(text, request.token) for text in texts))


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """With contexts that were suppressed: the transport raises its errors `from None`, and a bad certificate is in there."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _status(error: BaseException) -> int | None:
    status = getattr(getattr(error, "response", None), "status_code", None)
    return status if isinstance(status, int) and status >= 400 else None


def _detail(error: Exception) -> str:
    """The innermost cause tells most, unless it has no words."""
    for link in reversed(list(_chain(error))):
        text = str(link).strip()
        if isinstance(link, OSError) and link.strerror:
            text = link.strerror + (f": {link.filename}" if link.filename else "")
        if text and _status(link) is None:
            return text.splitlines()[0][:300]
    server = getattr(error, "server_message", None)
    if isinstance(server, str) and server.strip():
        return server.strip().splitlines()[0][:300]
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[0][:300] if lines else type(error).__name__


def _wait(error: Exception, request: Request) -> str:
    headers: Any = next((link.response.headers for link in _chain(error) if hasattr(link, "response")), {})
    after = str(headers.get("Retry-After", ""))
    if not after.isdigit():
        after = str(headers.get("RateLimit", "")).rpartition("t=")[2].strip()
    when = f"Wait {after} seconds" if after.isdigit() else "Wait a few minutes"
    more = "" if request.token else f" The limit is higher for accounts: {_LOGIN}."
    return f"{when}, then {request.again}.{more}"
