"""What bench measured as a table for people, a line for each task and drafter, and the verdict below it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from specdec_cli.bench.reports import costs, middle, passed, ranged
from specdec_cli.bench.results import EXACT, PLAIN, Results, Summary, Verdict
from specdec_cli.bench.statistics import Outcome, outcome
from specdec_cli.ui.render import NOT_KNOWN, number, render
from specdec_cli.ui.units import one_line

_NARROWEST = 40  # columns; a narrower terminal wraps by itself
_ROOMY = 96  # columns from which the gaps are wide
_LONGEST_NAME = 24
_DISPENSABLE = ("ITL", "TTFT", "per pass", "acc", "text", "plain")  # columns that a narrow terminal goes without, in this order
_NAMES = ("task", "with")
_LEFT = (*_NAMES, "text")
_STYLES = {Outcome.FASTER: "bold green", Outcome.SLOWER: "bold red", Outcome.EQUAL: ""}
_TEXTS = {"same": ("same", "green"), "rounding": ("rounds", "yellow"), "fault": ("FAULT", "bold red")}


def render_benched(results: Results, *, colour: bool, columns: int) -> str:
    """The table, what it cost, and the verdict. The last line comes without its newline."""
    columns = max(columns, _NARROWEST)
    parts: list[RenderableType] = [_table(results, columns)]
    if notes := [*_legend(results), *costs(results)]:
        parts += [Text(), *(Text(f"{note}.", style="dim") for note in notes)]
    if results.verdict is not None:
        parts += [Text(), *_verdict(results.verdict)]
    return render(Group(*parts), colour=colour, columns=columns)


def _table(results: Results, columns: int) -> Table:
    """All columns that there is room for. What a narrow terminal lacks, --format markdown has."""
    several = len(results.drafted) > 1 or EXACT in results.variants
    heads = ["task", *(["with"] if several else []), "plain", "drafted", "x plain", "acc", "per pass", "TTFT", "ITL", "text"]
    rows = list(_rows(results, several=several))
    widths = [max(cell_len(cell.plain) for cell in (Text(head), *column)) for head, *column in zip(heads, *rows, strict=True)]
    gap = 2 if columns >= _ROOMY or not several else 1
    shown = set(heads)
    for head in _DISPENSABLE:
        if sum(widths[i] + gap for i in range(len(heads)) if heads[i] in shown) - gap > columns:
            shown.discard(head)
    table = Table(box=None, padding=(0, gap, 0, 0), pad_edge=False, header_style="bold")
    for head in heads:
        if head in shown:
            left = head in _LEFT
            table.add_column(head, justify="left" if left else "right", no_wrap=head not in _NAMES, overflow="fold")
    for row in rows:
        table.add_row(*(cell for head, cell in zip(heads, row, strict=True) if head in shown))
    return table


def _rows(results: Results, *, several: bool) -> Iterator[list[Text]]:
    for name, plain, rest in _by_task(results.summaries):
        for i, summary in enumerate(rest or [None]):
            first = Text(one_line(name, _LONGEST_NAME) if i == 0 else "")
            variant = [Text(one_line(summary.variant if summary is not None else "", _LONGEST_NAME))] if several else []
            yield [first, *variant, *_figures(plain, summary)]


def _by_task(summaries: Iterable[Summary]) -> Iterator[tuple[str, Summary | None, list[Summary]]]:
    """For each task the summary of plain decoding, and those of everything else."""
    cells: dict[tuple[str, int], tuple[list[Summary], list[Summary]]] = {}
    for summary in summaries:
        plain, rest = cells.setdefault((summary.task, summary.concurrency), ([], []))
        (plain if summary.variant == PLAIN else rest).append(summary)
    for (task, concurrency), (plain, rest) in cells.items():
        yield (f"{task} x{concurrency}" if concurrency > 1 else task), (plain[0] if plain else None), rest


def _figures(plain: Summary | None, drafted: Summary | None) -> Sequence[Text]:
    shown = drafted or plain
    rate = Text(middle(plain.generation_tps, 1) if plain is not None else NOT_KNOWN)
    if shown is None:  # no run of this task has been made
        return [rate, *(Text() for _ in range(7))]
    waits = "/".join(NOT_KNOWN if each is None else f"{1000 * each:.0f}" for each in (shown.itl_p50_s, shown.itl_p95_s))
    if drafted is None:
        return [rate, Text(), Text(), Text(), Text(), Text(middle(shown.ttft_s, 2)), Text(waits), Text()]
    style = _STYLES[outcome(drafted.ratio)] if drafted.ratio is not None else ""
    text, text_style = _TEXTS.get(drafted.text or "", (drafted.text or "", ""))
    return [
        rate,
        Text(middle(drafted.generation_tps, 1)),
        Text(ranged(drafted.ratio), style=style),
        Text(number(drafted.acceptance, 2)),
        Text(number(drafted.tokens_per_pass, 2)),
        Text(middle(drafted.ttft_s, 2)),
        Text(waits),
        Text(text, style=text_style),
    ]


def _legend(results: Results) -> Iterator[str]:
    if results.summaries:
        yield "tokens/s, medians; x plain with its 95 % interval; TTFT in s, ITL in ms (p50/p95), of the drafted runs"


def _verdict(verdict: Verdict) -> Iterator[Text]:
    style = {True: "bold green", False: "bold red", None: "bold"}[verdict.worth_it]
    yield Text(verdict.sentence, style=style)
    for check in verdict.checks:
        told = f"--{check.name}: {check.required}; measured {check.measured}. {passed(check.passed)}"
        yield Text(told, style="green" if check.passed else "bold red")
