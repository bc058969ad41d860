"""What verify found: a sentence a check, the figures behind it, and the verdict."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from specdec_cli.proof.report import Check, Report, State, Statistic, verdict
from specdec_cli.ui.render import render
from specdec_cli.ui.units import one_line
from specdec_cli.units import visible

_NARROWEST = 40  # columns
_STYLES = {State.SOUND: "bold green", State.FAULT: "bold red", State.UNSEEN: "bold yellow"}
_LONGEST_NAME = 40
_MOST_FAULTS = 5  # of a check that are shown; --json has all of them


def render_verified(report: Report, *, colour: bool, columns: int) -> str:
    """All of it. The last line comes without its newline."""
    parts: list[RenderableType] = []
    for check in report.checks:
        parts += [*_check(check), Text()]
    parts.append(Text(_rate(report), style="dim"))
    found = State.FAULT if report.faulty else State.SOUND if report.sound else State.UNSEEN
    parts.append(Text(verdict(report), style=_STYLES[found]))
    return render(Group(*parts), colour=colour, columns=max(columns, _NARROWEST))


def _check(check: Check) -> Iterator[RenderableType]:
    yield Text.assemble((f"{check.name}: {check.state}", _STYLES[check.state]), f". {visible(check.sentence)}")
    for fault in check.faults[:_MOST_FAULTS]:
        yield Text(f"  fault: {fault.what}, {fault.n} times, first at {visible(fault.where)}", style="red")
    for each in check.differences:
        yield Text(
            f"  {one_line(each.prompt, _LONGEST_NAME)}, drafts {each.length}: differs from token {each.index + 1} on:"
            f" {each.cause} (gap {each.gap:.3g}, noise {each.noise:.3g})",
            style="red" if each.cause == State.FAULT else "dim",
        )
    if any(test.n for test in check.tests):
        yield _tests(check)
    if check.positions:
        yield Text(f"  accepted at place 1, 2, ... of a draft (predicted): {_positions(check)}", style="dim")
    for at in check.prefixes:
        found = (
            f"chi-square {at.chi_square:.1f}, {at.dof} degrees of freedom, p {at.p_value:.2g}; total variation"
            f" {at.total_variation:.3f}"
            if at.dof
            else "too few to tell one law from another"
        )
        yield Text(
            f"  {at.n} {'run' if at.n == 1 else 'runs'} from {one_line(at.prefix, _LONGEST_NAME)} under {at.rule}: {found}",
            style="red" if at.alarm else "dim",
        )


def _tests(check: Check) -> Table:
    """How far what was drawn is from what ought to be, and from where on that would be a fault."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    table.add_column("  does it hold that", overflow="fold")
    for head in ("rule", "draws", "off by", "alarm from"):
        table.add_column(head, justify="left" if head == "rule" else "right", no_wrap=True)
    for test in check.tests:
        if test.n:
            table.add_row(*_figures(test), style="red" if test.alarm else "dim")
    return table


def _figures(test: Statistic) -> tuple[str, ...]:
    return f"  {test.name}", test.rule, str(test.n), f"{100 * test.distance:.1f} %", f"{100 * test.sees:.1f} %"


def _positions(check: Check) -> str:
    by_rule: dict[str, list[str]] = {}
    for each in check.positions:
        by_rule.setdefault(each.rule, []).append(f"{each.measured:.2f} ({each.predicted:.2f})")
    return "; ".join(f"{rule} {' '.join(shown)}" for rule, shown in by_rule.items())


def _rate(report: Report) -> str:
    return (
        f"{report.used_s:.0f} s with {report.drafter}, temperatures {', '.join(f'{each:g}' for each in report.temperatures)},"
        f" seed {report.seed}. A run without a fault raises an alarm of chance in {report.alpha:g} of cases at the most."
    )
