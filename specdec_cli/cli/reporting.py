"""Shows what was measured, in the form that was asked for."""

from __future__ import annotations

from typing import Protocol

from specdec_cli.bench import reports, results
from specdec_cli.bench.results import Results
from specdec_cli.cli import answering
from specdec_cli.settings.resolve import Settings
from specdec_cli.settings.table import Format


class Table(Protocol):
    """Draws results for people."""

    def __call__(self, measured: Results, /, *, colour: bool, columns: int) -> str: ...


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
