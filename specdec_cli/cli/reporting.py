"""Shows what was measured, in the form that was asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from specdec_cli.bench import reports, results
from specdec_cli.bench.results import Results
from specdec_cli.cli import answering
from specdec_cli.errors import UsageError
from specdec_cli.settings.resolve import Settings
from specdec_cli.settings.table import Format


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


def answer(settings: Settings, measured: Results, table: Table) -> None:
    """Write the results to standard output. table: for the form of that name."""
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
