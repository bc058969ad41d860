"""Opens the trace that --trace asks for, before any model loads, and writes its head once they are there."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from specdec_cli import __version__, cache
from specdec_cli.bench import machine
from specdec_cli.bench.results import ModelFile
from specdec_cli.errors import UsageError
from specdec_cli.gguf.reader import read_header
from specdec_cli.llama import library
from specdec_cli.options import Listener
from specdec_cli.session import Session
from specdec_cli.settings.resolve import Settings
from specdec_cli.settings.table import RUN, SETTINGS
from specdec_cli.tracing.form import Head
from specdec_cli.tracing.writing import TraceFile, create
from specdec_cli.ui.output import ErrorOut, visible

# What says nothing about how it was decoded, and the prompt, of which a trace has the length and a hash.
_NOT_TOLD = frozenset({"prompt", "file", "system_prompt", "json", "live", "quiet", "verbose", "show_draft"})


@contextmanager
def open_trace(settings: Settings, listener: Listener) -> Iterator[TraceFile | None]:
    """The file of --trace; None where it is not asked for. Raises UsageError."""
    path = settings.maybe("trace", Path)
    if path is None:
        yield None
        return
    output = settings.maybe("output", Path)
    if output is not None and os.path.realpath(output) == os.path.realpath(path):
        raise UsageError(f"--trace cannot write to {path}.", "The results go there (-o).", "Name another file.")
    lost: list[str] = []

    def hear(sentence: str) -> None:
        lost.append(sentence)
        listener.notice(sentence)

    with create(path, hear, (sys.stdout, sys.stderr)) as trace:
        yield trace
    quiet = settings.value("quiet", bool)
    if lost and quiet:  # what was asked for is missing: the one thing that quiet does not hide
        ErrorOut(sys.stderr).write(f"error: {visible(lost[0])}\n")


def begin(trace: TraceFile | None, settings: Settings, session: Session, listener: Listener) -> None:
    """Write the head of a trace of one session's runs."""
    if trace is not None:
        files = {context.model.role: context.model.options.path for context in session.contexts}
        write_head(trace, settings, {role: model_file(role, path, listener) for role, path in files.items()})


def write_head(trace: TraceFile, settings: Settings, models: Mapping[str, ModelFile]) -> None:
    """Write the head of a trace."""
    trace.write(
        Head(
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            version=__version__,
            build=library.build(),
            machine=machine.this_machine(),
            models=models,
            settings={name: SETTINGS[name].shown(settings.decided[name].value) for name in RUN if name not in _NOT_TOLD},
        )
    )


def model_file(role: str, path: Path, listener: Listener) -> ModelFile:
    """What a report says of a model file. Its hash is remembered for as long as the file stays as it is."""
    listener.progress(f"reading the {role} for its hash", None)
    header = read_header(path)
    return ModelFile(str(path), path.stat().st_size, cache.file_hash(path), f"{header.architecture} {header.quantisation}")
