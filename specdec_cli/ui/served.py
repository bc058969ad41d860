"""What a server did as a table for people: a line for each task, and how it fares when requests come side by side."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from specdec_cli.bench.comparison import Load, loads
from specdec_cli.bench.reports import middle
from specdec_cli.bench.results import Results, Summary
from specdec_cli.ui.compared import rates
from specdec_cli.ui.render import NOT_KNOWN, number, render
from specdec_cli.ui.units import one_line

_NARROWEST = 40  # columns; a narrower terminal wraps by itself
_ROOMY = 66  # columns from which spreads have room
_LONGEST_NAME = 30
_WORTH_IT = 1.05  # times as many tokens a second in all; less is no gain


def render_served(results: Results, *, colour: bool, columns: int) -> str:
    """The tables, and a sentence. The last line comes without its newline."""
    found = [load for variant in results.variants for load in loads(results, variant)]
    roomy = columns >= _ROOMY
    parts: list[RenderableType] = [_tasks(results, roomy=roomy)]
    if found:
        parts += [Text(), _loads(found, roomy=roomy)]
    ranges = "median (least-largest)" if roomy else "medians"
    legend = f"tokens/s: {ranges}, by the server's own timings where it has some; TTFT in s, ITL in ms (p50/p95)."
    parts += [Text(), Text(legend, style="dim")]
    parts += [Text(), Text(sentence(results, found), style="bold")]
    return render(Group(*parts), colour=colour, columns=max(columns, _NARROWEST))


def _tasks(results: Results, *, roomy: bool) -> Table:
    """At the lowest load."""
    lowest = min((summary.concurrency for summary in results.summaries), default=1)
    table = Table(box=None, padding=(0, 2 if roomy else 1, 0, 0), pad_edge=False, header_style="bold")
    table.add_column("task" if lowest == 1 else f"task, {lowest} at a time", overflow="fold")
    for head in ("tokens/s", "prompt t/s", "TTFT", "ITL", "acc"):
        table.add_column(head, justify="right", no_wrap=True)
    for summary in results.summaries:
        if summary.concurrency == lowest:
            table.add_row(Text(one_line(summary.task, _LONGEST_NAME)), *map(Text, _figures(summary, roomy=roomy)))
    return table


def _figures(summary: Summary, *, roomy: bool) -> Iterator[str]:
    yield rates(summary.generation_tps, roomy=roomy)
    yield middle(summary.prompt_tps, 1)
    yield middle(summary.ttft_s, 2)
    yield "/".join(NOT_KNOWN if each is None else f"{1000 * each:.0f}" for each in (summary.itl_p50_s, summary.itl_p95_s))
    yield "" if summary.acceptance is None else number(summary.acceptance, 2)


def _loads(found: list[Load], *, roomy: bool) -> Table:
    table = Table(box=None, padding=(0, 2 if roomy else 1, 0, 0), pad_edge=False, header_style="bold")
    for head in ("at a time", "tokens/s in all", "tokens/s each", "TTFT"):
        table.add_column(head, justify="right")
    for load in found:
        figures = (rates(load.total_tps, roomy=roomy), rates(load.request_tps, roomy=roomy))
        table.add_row(*map(Text, (str(load.concurrency), *figures, middle(load.ttft_s, 2))))
    return table


def sentence(results: Results, found: list[Load]) -> str:
    """What a server did, to quote."""
    name = one_line(results.label, _LONGEST_NAME)
    known = [(load.concurrency, load.total_tps.median) for load in found if load.total_tps is not None]
    if len(known) > 1:
        best = known[0]
        for each in known[1:]:
            if each[1] > _WORTH_IT * best[1]:
                best = each
        if best is known[0]:
            return f"{name} writes no more with requests side by side: {best[1]:.1f} tokens/s in all with {best[0]} at a time."
        return (
            f"{name} writes more with up to {best[0]} requests at a time: {best[1]:.1f} tokens/s in all,"
            f" {known[0][1]:.1f} with {known[0][0]}."
        )
    known_rates = [summary.generation_tps.median for summary in results.summaries if summary.generation_tps is not None]
    if not known_rates:
        return f"{name} wrote nothing that could be measured."
    if len(known_rates) == 1:
        return f"{name} writes {known_rates[0]:.1f} tokens/s."
    return f"{name} writes {min(known_rates):.1f} to {max(known_rates):.1f} tokens/s over {len(known_rates)} tasks."
