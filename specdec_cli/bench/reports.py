"""Measurements for other programs and other pages: every run as CSV, the summaries as a Markdown table."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

from specdec_cli.bench.results import PLAIN, ModelFile, Ratio, Results, Spread, Summary
from specdec_cli.bench.statistics import percentiles
from specdec_cli.units import size

NOT_KNOWN = "n/a"

_RUN = (
    "task", "variant", "repeat", "order", "concurrency", "n_prompt", "n_tokens", "prompt_s", "ttft_s", "generation_s",
    "generation_tps", "prompt_tps", "accepted", "drafted", "rounds", "draft_s", "pass_s", "host_s", "peak_bytes", "energy_j",
    "tokens_sha256", "finish",
)  # fmt: skip
_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # a spreadsheet takes a cell that begins so for a formula


@dataclass(frozen=True, slots=True)
class _Column:
    head: str
    right: bool = True


_COLUMNS = (
    _Column("task", right=False),
    _Column("variant", right=False),
    *map(_Column, ("tokens/s", "x plain", "acceptance", "tokens/pass", "prompt t/s", "TTFT s", "ITL ms p50 / p95 / p99")),
    _Column("text", right=False),
)


HEADS = tuple(column.head for column in _COLUMNS)


def as_csv(results: Results) -> str:
    """A line for each run, as it was measured; the percentiles of its waits between bursts beside it."""
    file = StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow([*_RUN, "itl_p50_s", "itl_p95_s", "itl_p99_s"])
    for run in results.runs:
        cells = [getattr(run, name) for name in _RUN]
        writer.writerow([_cell(cell) for cell in (*cells, *(percentiles([run]) or (None, None, None)))])
    return file.getvalue().rstrip("\n")


def _cell(value: object) -> object:
    if value is None:
        return ""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


def as_markdown(results: Results) -> str:
    """What was measured with what, a table of all figures, and the verdict."""
    lines = [f"**{_escaped(results.label)}**", ""]
    lines += [f"- {line}" for line in setting_of(results)]
    lines += ["", _row(HEADS)]
    lines.append("|" + "|".join("---:" if column.right else "---" for column in _COLUMNS) + "|")
    lines += [_row([_escaped(cell) for cell in cells(summary)]) for summary in results.summaries]
    lines += ["", *(f"- {line}" for line in costs(results))]
    if results.verdict is not None:
        lines += ["", results.verdict.sentence]
        lines += [
            f"- {check.name}: {check.required}; {check.measured}. {passed(check.passed)}" for check in results.verdict.checks
        ]
    return "\n".join(lines)


def setting_of(results: Results) -> Iterator[str]:
    """Models, machine and build in a few lines."""
    for role, model in results.models.items():
        yield f"{role}: {_escaped(_described(model))}"
    machine = results.machine
    parts = [machine.cpu, f"{machine.cores} cores" if machine.cores else None]
    parts += [size(machine.memory) if machine.memory else None, machine.os, results.build]
    yield "machine: " + _escaped(", ".join(part for part in parts if part))
    lengths = sorted({task.n_predict for task in results.tasks})
    temperatures = sorted({task.temperature for task in results.tasks})
    repeats = max((run.repeat for run in results.runs), default=-1) + 1
    yield (
        f"runs: {repeats} of each, interleaved, {' or '.join(map(str, lengths))} tokens,"
        f" temperature {' or '.join(f'{each:g}' for each in temperatures)}"
    )


def costs(results: Results) -> Iterator[str]:
    """Memory and energy of each variant, where they are known."""
    if results.planned_bytes:
        needed = ", ".join(f"{variant} {size(n)}" for variant, n in results.planned_bytes.items())
        peak = max((run.peak_bytes for run in results.runs if run.peak_bytes is not None), default=None)
        process = f"; this process, with all variants it held, {size(peak)} at its peak" if peak is not None else ""
        yield f"memory needed: {needed}{process}"
    parts = []
    for variant in results.variants:
        runs = [run for run in results.of(variant) if run.energy_j is not None]
        if runs:
            parts.append(f"{variant} {sum(run.energy_j or 0 for run in runs) / sum(run.n_tokens for run in runs):.2f} J")
    if parts:
        yield f"energy a token, of the whole machine as far as it is counted: {', '.join(parts)}"


def passed(yes: bool) -> str:
    return "Met." if yes else "Missed."


def middle(spread: Spread | None, digits: int) -> str:
    return NOT_KNOWN if spread is None else f"{spread.median:.{digits}f}"


def ranged(ratio: Ratio | None, digits: int = 2) -> str:
    """A ratio with its interval; empty for plain decoding."""
    if ratio is None:
        return ""
    interval = ""
    if ratio.low is not None and ratio.high is not None:
        interval = f" ({ratio.low:.{digits}f}-{ratio.high:.{digits}f})"
    return f"{ratio.value:.{digits}f}{interval}"


def cells(summary: Summary) -> list[str]:
    """A summary as a line of a table under HEADS."""
    waits = (summary.itl_p50_s, summary.itl_p95_s, summary.itl_p99_s)
    return [
        summary.task,
        summary.variant + (f" at {summary.concurrency}" if summary.concurrency > 1 else ""),
        _spread(summary.generation_tps),
        ranged(summary.ratio),
        "" if summary.variant == PLAIN or summary.acceptance is None else f"{summary.acceptance:.3f}",
        NOT_KNOWN if summary.tokens_per_pass is None else f"{summary.tokens_per_pass:.2f}",
        middle(summary.prompt_tps, 1),
        middle(summary.ttft_s, 2),
        " / ".join(NOT_KNOWN if each is None else f"{1000 * each:.0f}" for each in waits),
        summary.text or "",
    ]


def _spread(spread: Spread | None) -> str:
    return NOT_KNOWN if spread is None else f"{spread.median:.1f} ({spread.low:.1f}-{spread.high:.1f})"


def _described(model: ModelFile) -> str:
    parts = [Path(model.file).name if model.file else None, model.description, size(model.bytes) if model.bytes else None]
    parts.append(f"SHA-256 {model.sha256[:12]}" if model.sha256 else None)
    return ", ".join(part for part in parts if part)


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _escaped(text: str) -> str:
    return " ".join(text.split()).replace("\\", "\\\\").replace("|", "\\|")
