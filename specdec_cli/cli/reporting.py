"""Shows what was measured, in the form that was asked for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from specdec_cli.bench import reports, results
from specdec_cli.bench.elsewhere import shell
from specdec_cli.bench.results import Results
from specdec_cli.cli import answering
from specdec_cli.cli.keeping import flags
from specdec_cli.errors import UsageError
from specdec_cli.settings.resolve import Settings, Source
from specdec_cli.settings.table import RUN, SETTINGS, Format
from specdec_cli.ui.units import from_home

# The first word, and what neither decides what is measured nor may be kept.
_NOT_REPEATED = frozenset({
    "model", "profile", "output", "resume", "trace", "api_key", "format", "json", "live", "quiet", "verbose", "show_draft",
})  # fmt: skip


class Table(Protocol):
    """Draws results for people."""

    def __call__(self, measured: Results, /, *, colour: bool, columns: int) -> str: ...


def check_output(settings: Settings) -> None:
    """Refuse a place for the results where they cannot be written, or where others are. Raises UsageError."""
    path = settings.maybe("output", Path)
    if path is None:
        return
    if not path.parent.is_dir():
        raise UsageError(f"The results cannot be written to {path}.", f"There is no folder {path.parent}.", "Make it first.")
    if path.exists() and not path.is_file():
        raise UsageError(f"The results cannot be written to {path}.", "It is no file.", "Name another with -o.")
    if path.exists() and not settings.value("resume", bool):
        raise UsageError(
            f"{path} is there already.", "-o would write over it.", "Add --resume to go on with it, or name another."
        )


def answer(settings: Settings, measured: Results, table: Table, path: Path | None) -> None:
    """Write the results to standard output. table: for the form of that name; path: of the file that was written."""
    form = Format.JSON if settings.value("json", bool) else settings.maybe("format", Format) or Format.TABLE
    match form:
        case Format.JSON:
            answering.answer_json(results.document(measured))
        case Format.CSV:
            answering.answer(reports.as_csv(measured))
        case Format.MARKDOWN:
            answering.answer(reports.as_markdown(measured))
        case Format.TABLE:
            answering.answer(table(measured, colour=answering.colour(), columns=answering.columns()))
    if path is not None and measured.runs:
        answering.tell(settings, f"To look at it: {shell(report_of(path))}")


def report_of(path: Path) -> list[str]:
    """The command that draws a result file."""
    return ["specdec", "report", str(path), "-o", str(path.with_suffix(".html"))]


def command(settings: Settings) -> str:
    """The line that measures the same again, whatever the environment and profiles say by then."""
    return shell([from_home(word) for word in _words(settings)])


def _words(settings: Settings) -> Iterator[str]:
    yield from ("specdec", "bench")
    if (model := settings.decided["model"].value) is not None:
        yield SETTINGS["model"].shown(model)
    for name in (*RUN, *(name for name, setting in SETTINGS.items() if "bench" in setting.only)):
        decided = settings.decided.get(name)
        if decided is not None and name not in _NOT_REPEATED and decided.source >= Source.PROFILE:
            yield from flags(SETTINGS[name], decided.value)
