"""What tune found: the cost curve as a plot, the candidates as a table, the verdict, and lines to copy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from specdec_cli.bench.curve import Cost
from specdec_cli.bench.reports import middle
from specdec_cli.bench.results import PLAIN
from specdec_cli.bench.tuned import Standing, Tuned
from specdec_cli.ui.render import render
from specdec_cli.ui.units import one_line

DRAWN = "━┃"  # what the plot is drawn with, where the terminal has it
_PLAIN = "=|"
_NARROWEST, _WIDEST = 40, 80  # columns of the plot
_ROOMY = 64  # columns from which the table is whole
_LONGEST_NAME = 40
_FIGURES = 23  # columns before the bars
_BAR = 20  # columns of the progress bar


@dataclass(frozen=True, slots=True)
class _Scale:
    """How wide a factor is drawn."""

    columns: int
    largest: float

    def at(self, value: float) -> int:
        return max(round(value / self.largest * self.columns), 1)


def render_tuned(tuned: Tuned, *, colour: bool, columns: int, drawn: bool) -> str:
    """All of it. drawn: lines may be drawn with more than ASCII. The last line comes without its newline."""
    columns = max(columns, _NARROWEST)
    parts: list[RenderableType] = []
    if tuned.curve:
        parts += [*_plot(tuned, min(columns, _WIDEST), DRAWN if drawn else _PLAIN), Text()]
    parts += [_table(tuned, columns), *_notes(tuned), Text(), _verdict(tuned)]
    text = render(Group(*parts), colour=colour, columns=columns)
    # Lines to copy are never wrapped: a shell would take their parts for commands of their own.
    return "\n".join([text, *_to_copy(tuned)])


def told(used_s: float, budget_s: float, what: str) -> str:
    """The state of the tuning in a line, with a bar and the time that is left."""
    n = min(int(used_s / budget_s * _BAR), _BAR)
    left_s = max(round(budget_s - used_s), 0)
    return f"[{'#' * n}{'.' * (_BAR - n)}] {left_s // 60}:{left_s % 60:02} left, {what}"


def _plot(tuned: Tuned, columns: int, lines: str) -> Iterator[Text]:
    """A bar for each width of a pass, as long as it is dearer than a pass of one token."""
    one_s = tuned.curve[0].seconds
    factors = [cost.seconds / one_s for cost in tuned.curve]
    scale = _Scale(columns - _FIGURES, max(*factors, float(tuned.curve[-1].n_tokens)))
    yield Text("What a pass over n tokens costs, in passes over one", style="bold")
    yield Text(f"{'n':>4}{'ms':>9}{'times':>8}  {lines[1]} n passes over one token each", style="dim")
    for cost, factor in zip(tuned.curve, factors, strict=True):
        yield _bar(cost, factor, scale, lines)
    for draft in tuned.drafts:
        if draft.step_s is not None:
            name = one_line(draft.name, _LONGEST_NAME)
            yield Text(f"A token of the draft {name} costs {1000 * draft.step_s:.1f} ms, {draft.step_s / one_s:.2f} passes.")


def _bar(cost: Cost, factor: float, scale: _Scale, lines: str) -> Text:
    """One line of the plot. The mark stands where so many tokens would cost plainly; short of it passes gain."""
    line = Text(f"{cost.n_tokens:>4}{1000 * cost.seconds:>9.1f}{factor:>8.2f}  ")
    n, mark = scale.at(factor), scale.at(cost.n_tokens)
    style = "green" if factor < cost.n_tokens else "red"
    line.append(lines[0] * min(n, mark - 1), style=style)
    line.append(" " * (mark - 1 - n))
    line.append(lines[1], style="bold")
    line.append(lines[0] * (n - mark), style=style)
    return line


def _table(tuned: Tuned, columns: int) -> Table:
    """A line for each candidate. A narrow terminal goes without how it fared in the rounds."""
    roomy = columns >= _ROOMY
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    table.add_column("candidate", overflow="fold")
    for head in ("tokens/s", "x plain", *(("runs", "") if roomy else ())):
        table.add_column(head, justify="right" if head else "left", no_wrap=True)
    for each in tuned.candidates:
        style = "bold" if each.name == tuned.verdict.best else ""
        rounds = [Text(str(each.n_runs), style=style), Text(_fate(tuned, each), style=style or "dim")] if roomy else []
        table.add_row(
            Text(one_line(each.name, _LONGEST_NAME), style=style),
            Text(middle(each.tokens_per_s, 1), style=style),
            Text(_ratio(each), style=style),
            *rounds,
        )
    return table


def _ratio(each: Standing) -> str:
    """The ratio, and from where to where the paired runs reach."""
    if each.ratio is None:
        return "" if each.name == PLAIN else "n/a"
    reach = f" ({each.paired.low:.2f}-{each.paired.high:.2f})" if each.paired is not None and each.n_runs > 1 else ""
    return f"{each.ratio.value:.2f}{reach}"


def _fate(tuned: Tuned, each: Standing) -> str:
    if each.name == tuned.verdict.best:
        return "best"
    if each.round is not None:
        return f"out in round {each.round}"
    return "in the final" if each.name != PLAIN and each.n_runs else ""


def _notes(tuned: Tuned) -> Iterator[Text]:
    yield Text("tokens/s: median; x plain: of runs in turn with plain decoding, from the least to the largest", style="dim")
    for each in tuned.left_out:
        yield Text(f"{one_line(each.name, _LONGEST_NAME)} is left out: {one_line(each.sentence, 400)}", style="yellow")


def _verdict(tuned: Tuned) -> Text:
    gained = tuned.verdict.best not in (None, PLAIN)
    begin = "" if tuned.complete else "Interrupted; this is what the runs so far say. "
    return Text(begin + tuned.verdict.sentence, style="bold green" if gained else "bold")


def _to_copy(tuned: Tuned) -> Iterator[str]:
    if tuned.profile is not None:
        yield f'\nWritten as the profile {tuned.profile.name}: specdec run --profile {tuned.profile.name} "PROMPT"'
    elif tuned.commands:
        yield "\nNo profile was written."
    for command in tuned.commands:
        yield f"\n  {_harmless(command.line)}"
        yield from _indented(command.notes)


def _indented(notes: Sequence[str]) -> Iterator[str]:
    for note in notes:
        yield f"    {_harmless(note)}"


def _harmless(text: str) -> str:
    return one_line(text, len(text))
