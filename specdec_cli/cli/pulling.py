"""What pull does once its settings are known: fetch, look at what came, say what it is and what to do with it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from specdec_cli.cli import answering
from specdec_cli.cli.describing import kind_of
from specdec_cli.errors import EXIT_DONE, ModelFileError, UsageError
from specdec_cli.gguf.header import Header
from specdec_cli.gguf.reader import read_header
from specdec_cli.hub.references import HubFile, HubRepo, parse
from specdec_cli.hub.resolving import resolve
from specdec_cli.hub.state import is_offline
from specdec_cli.settings.kinds import quoted
from specdec_cli.settings.resolve import Settings
from specdec_cli.ui.sinks import Sink
from specdec_cli.ui.units import one_line
from specdec_cli.units import count, size

_NOT_ASKED = "the hub could not be asked"  # a part of what is said where the copy in the cache has to do


def execute(settings: Settings, reference: str) -> int:
    """Fetch one model; returns the exit code."""
    with answering.open_display(settings) as sink:
        wanted = parse(reference)
        if isinstance(wanted, HubRepo | HubFile):
            path, fetched = _fetch(settings, reference, sink)
        else:
            path, fetched = resolve(reference), False
            sink.notice("This is a file on this machine; there was nothing to fetch.")
        header = read_header(path)
        _tell(header, reference, sink, fetched=fetched)
    if settings.value("json", bool):
        answering.answer_json(
            {
                "schema": "specdec.pull/1",
                "reference": reference,
                "path": str(path),
                "files": [str(part) for part in header.paths],
                "bytes": header.size,
                "fetched": fetched,
            }
        )
    else:
        answering.answer(str(path))
    return EXIT_DONE


def _fetch(settings: Settings, reference: str, sink: Sink) -> tuple[Path, bool]:
    """Where the model lies, and whether anything had to be fetched."""
    if settings.value("offline", bool) or is_offline():
        raise _offline(settings, reference)
    before = _here(reference)
    instead: list[str] = []

    def progress(label: str, fraction: float) -> None:
        if _NOT_ASKED in label:
            instead.append(label)
        sink.progress(label, fraction)

    try:
        path = resolve(reference, progress=progress)
    except KeyboardInterrupt:
        sink.notice(f"Stopped. What has come is kept; the same again goes on from there: specdec pull {quoted(reference)}")
        raise
    if path == before:
        sink.notice(instead[0] if instead else "It was here already, as the hub has it now; nothing was fetched.")
    return path, path != before


def _offline(settings: Settings, reference: str) -> UsageError:
    origin = settings.decided["offline"].origin if settings.value("offline", bool) else "HF_HUB_OFFLINE"
    return UsageError(
        f"{quoted(reference)} cannot be fetched offline.",
        f"To pull is to ask the hub, and {origin} forbids it.",
        "Leave that out. What is here already: specdec models",
    )


def _here(reference: str) -> Path | None:
    """The model's file if it is in the cache."""
    try:
        return resolve(reference, offline=True)
    except ModelFileError:
        return None


def _tell(header: Header, reference: str, sink: Sink, *, fetched: bool) -> None:
    """Say what the file is and what to run next."""
    _, refusal = kind_of(header)
    n_parts = len(header.paths)
    facts = [
        size(header.size) + (f" in {n_parts} files" if n_parts > 1 else ""),
        header.quantisation,
        f"{count(header.n_parameters)} parameters",
        *([one_line(header.architecture, 60)] if header.architecture else []),
        *(["SHA-256 checked"] if fetched and _checked(header.paths) else []),
    ]
    sink.notice(f"{one_line(header.name, 100)}: {', '.join(facts)}.")
    if refusal is not None:
        sink.notice(f"{refusal.what} {refusal.fix}")
    else:
        sink.notice(f'Next: specdec run {quoted(reference)} "PROMPT"; for a draft: specdec suggest {quoted(reference)}')


def _checked(paths: Sequence[Path]) -> bool:
    """Whether the hub told the hash of each file: the cache names such files by it, once they have been compared."""
    return all(re.fullmatch(r"[0-9a-f]{64}", path.resolve().name) for path in paths)
