"""The memory plan for people: a table for each device, and one sentence."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group
from rich.table import Table
from rich.text import Text

from specdec_cli.pairing.planned import ModelPlan, Parts, Plan
from specdec_cli.pairing.weights import HOST
from specdec_cli.ui.render import render
from specdec_cli.units import size

_PARTS = {
    "mapped": "weights, mapped",
    "loaded": "weights, loaded",
    "repacked": "weights, repacked",
    "cache": "cache",
    "compute": "compute buffer",
    "output": "output buffer",
    "vocabulary": "vocabulary",
}


def planned_table(plan: Plan, *, colour: bool = False, columns: int = 80) -> str:
    """What each model takes of each device in use, part by part. The last line comes without its newline."""
    tables = [_table(plan, HOST, "memory", plan.n_needed, plan.n_free)]
    tables += [_table(plan, name, name, needed, free) for name, (needed, free) in plan.on_gpus.items()]
    spaced = [part for table in tables for part in (Text(), table)][1:]
    return render(Group(*spaced), colour=colour, columns=columns)


def _table(plan: Plan, device: str, head: str, needed: int, free: int) -> Table:
    models = [model for model in plan.models if device in model.on]
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    table.add_column(head, overflow="fold")
    for model in models:
        table.add_column(model.role, justify="right", no_wrap=True)
    table.add_column("total", justify="right", no_wrap=True)
    for label, values in _rows(models, device):
        table.add_row(label, *(size(value) if value else "-" for value in values), size(sum(values)))
    blanks = [""] * len(models)
    totals = [model.on[device].total for model in models]
    if device == HOST:
        totals = [model.n_host for model in models]
        for name in {name: None for model in models for name in model.in_host[1:]}:
            shares = [model.on[name].total if name in model.in_host else 0 for model in models]
            table.add_row(f"for {name}", *(size(share) if share else "-" for share in shares), size(sum(shares)))
        table.add_row("program", *blanks, size(plan.machine.n_program))
    table.add_row("needed", *map(size, totals), size(needed), style="bold")
    table.add_row("free", *blanks, size(free), style="green" if needed <= free else "bold red")
    return table


def _rows(models: list[ModelPlan], device: str) -> Iterator[tuple[str, list[int]]]:
    parts: list[Parts] = [model.on[device] for model in models]
    for name, label in _PARTS.items():
        values = [getattr(part, name) for part in parts]
        if any(values):
            yield label, values
