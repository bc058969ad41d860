"""What trace does once its files are known: read them, and show what is asked for."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from specdec_cli.cli import answering
from specdec_cli.errors import EXIT_ANSWER_IS_NO, EXIT_DONE
from specdec_cli.tracing import difference
from specdec_cli.tracing.failures import failures
from specdec_cli.tracing.form import RoundLine, RunLine
from specdec_cli.tracing.reading import Faults, lines
from specdec_cli.tracing.summary import Summary, reason, summed
from specdec_cli.tracing.summary import document as summary_document
from specdec_cli.ui import strips
from specdec_cli.ui.output import OutputClosed, TextOut
from specdec_cli.ui.traced import WHY, render_diff, render_summary, render_worst

_N_SHOWN = 40  # rounds, where nobody says which
_WIDEST = 120  # columns: past these, lines are hard to follow


def show(path: Path, rounds: tuple[int, int | None] | None) -> int:
    """The summary, and the first rounds; or the rounds that are asked for."""
    columns, colour = _width(), answering.colour()
    summary, faults = _summed(path)
    texts: list[str] = []
    if rounds is None:
        texts += [render_summary(summary, faults.sentences(), colour=colour, columns=columns), ""]
    shown = _strips(path, summary, rounds or (0, _N_SHOWN), colour=colour, columns=columns)
    _write(chain(texts, shown))
    return EXIT_DONE


def document(path: Path) -> int:
    """The summary as JSON."""
    summary, faults = _summed(path)
    answering.answer_json(summary_document(summary, faults.sentences()))
    return EXIT_DONE


def worst(path: Path, n: int) -> int:
    """Where drafts fail."""
    faults = Faults()
    found = failures(lines(path, faults), n)
    answering.answer(render_worst(found, faults.sentences(), colour=answering.colour(), columns=_width()))
    return EXIT_DONE


def compare(a: Path, b: Path) -> int:
    """Two traces side by side; 1 where their texts differ or cannot be compared."""
    (first, faults_a), (second, faults_b) = _summed(a), _summed(b)
    unequal = difference.unequal(first, second)
    found = None if unequal else difference.first_difference(lines(a, Faults()), lines(b, Faults()))
    notes = [f"A: {note}" for note in faults_a.sentences()] + [f"B: {note}" for note in faults_b.sentences()]
    anew = difference.draws_anew(first, second)
    answering.answer(render_diff(first, second, unequal, found, notes, anew=anew, colour=answering.colour(), columns=_width()))
    return EXIT_ANSWER_IS_NO if unequal or found is not None else EXIT_DONE


def _summed(path: Path) -> tuple[Summary, Faults]:
    faults = Faults()
    return summed(lines(path, faults)), faults


def _width() -> int:
    """Columns that the answer may take."""
    return min(answering.columns(), _WIDEST)


def _strips(path: Path, summary: Summary, rounds: tuple[int, int | None], *, colour: bool, columns: int) -> Iterator[str]:
    """The rounds, counted over all runs, then how many there are beside them."""
    low, high = rounds
    n_rounds, several = summary.totals.n_rounds, summary.totals.n_runs > 1
    if n_rounds:
        yield strips.legend(colour=colour, columns=columns)
        yield ""
        if head := strips.heading(columns):
            yield head
    number = 0
    begun: RunLine | None = None
    for line in lines(path, Faults()):
        if isinstance(line, RunLine):
            begun = line
        if not isinstance(line, RoundLine):
            continue
        if low <= number and (high is None or number < high):
            if several and begun is not None:
                yield strips.run_heading(begun)
                begun = None
            yield strips.strip(line, WHY[reason(line)], colour=colour, columns=columns)
        number += 1
        if high is not None and number >= high:
            break
    n_more = n_rounds - number
    if n_more > 0:
        yield f"{n_more:,} more: --rounds {number}:{min(number + _N_SHOWN, n_rounds)}"
    if not n_rounds:
        yield "The trace has no rounds."
    elif low >= n_rounds:
        yield f"There is no round {low}: the trace has {n_rounds}."


def _write(texts: Iterator[str]) -> None:
    """Write pieces of an answer as they come. Raises BrokenPipeError where nobody reads them."""
    out = TextOut(sys.stdout)
    try:
        for text in texts:
            out.write(f"{text}\n")
    except OutputClosed as closed:
        raise BrokenPipeError from closed
