"""What bench compare does once its files are known: read them, refuse unequal work, show them side by side."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from specdec_cli.bench import comparison, results
from specdec_cli.cli import answering
from specdec_cli.errors import EXIT_DONE, UsageError
from specdec_cli.settings.table import Format
from specdec_cli.ui.compared import as_csv, as_markdown, document, render_compared


def execute(paths: Sequence[Path], form: Format, *, force: bool) -> int:
    """Show the comparison; returns the exit code. Raises UsageError for work that is not the same, unless forced."""
    called = names(paths)
    compared = comparison.compare([results.load(path) for path in paths], called)
    if compared.unequal and not force:
        raise UsageError(
            "These files are of unequal work.",
            " ".join((*compared.unequal, *compared.notes)),
            "Measure the same work again, or add --force to see them all the same.",
        )
    match form:
        case Format.JSON:
            answering.answer_json(document(compared, called))
        case Format.CSV:
            answering.answer(as_csv(compared))
        case Format.MARKDOWN:
            answering.answer(as_markdown(compared))
        case Format.TABLE:
            answering.answer(render_compared(compared, colour=answering.colour(), columns=answering.columns()))
    return EXIT_DONE


def names(paths: Sequence[Path]) -> list[str]:
    """The files' names, as short as they tell them apart."""
    short = [path.name for path in paths]
    return short if len(set(short)) == len(short) else [str(path) for path in paths]
