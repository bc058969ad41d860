"""The numbers of a report's plots, each with a sentence that says them and a table that holds them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from specdec_cli.bench.comparison import Comparison
from specdec_cli.bench.reports import HEADS, cells, ranged
from specdec_cli.bench.results import PLAIN, Ratio, Results, Run, Summary
from specdec_cli.bench.statistics import overall_ratio, percentiles
from specdec_cli.bench.tuned import Tuned
from specdec_cli.bench.verdict import shown
from specdec_cli.units import size

ALL = "all tasks"  # the last row of ratios

_N_STEPS = 200  # of a distribution as it is drawn
_MS = 1000.0
_CANDIDATE = "candidate"


class Plot(StrEnum):
    """What a plot shows."""

    SPEEDUP = "speedup"
    ACCEPTANCE = "acceptance"
    COST = "cost"
    LATENCY = "latency"
    TIME = "time"
    MEMORY = "memory"


@dataclass(frozen=True, slots=True)
class Table:
    """The numbers behind a plot. right: heads whose cells are numbers."""

    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Ratios:
    """Ratios with their intervals, a row for each task and a mark for each series."""

    series: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Ratio | None, ...]], ...]
    base: str  # what 1 stands for


@dataclass(frozen=True, slots=True)
class Line:
    name: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Rates:
    """Shares by position."""

    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class Costs:
    """Milliseconds of a pass by its tokens, and the share of rounds that made passes so wide."""

    lines: tuple[Line, ...]
    chosen: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class Waits:
    """For each series the share of waits, in ms, that are no longer; and the percentiles 50, 95 and 99."""

    lines: tuple[Line, ...]
    marks: tuple[tuple[float, float, float], ...]


@dataclass(frozen=True, slots=True)
class Bars:
    """Stacked bars: for each name a part of each kind."""

    parts: tuple[str, ...]
    rows: tuple[tuple[str, tuple[float, ...]], ...]
    unit: str
    total: tuple[str, float] | None = None  # a line across all, and its name


Data = Ratios | Rates | Costs | Waits | Bars


@dataclass(frozen=True, slots=True)
class Figure:
    """A plot. says: the same in a sentence; how: how to read it; data is None where the file lacks what it needs, and says
    tells so."""

    plot: Plot
    title: str
    says: str
    how: str = ""
    data: Data | None = None
    table: Table = Table((), ())
    order: tuple[str, ...] = ()  # of the names, so that each looks the same in all plots


def of_results(results: Results) -> tuple[Figure, ...]:
    """The figures of a result file whose summaries are made."""
    every = (_speedup(results), _acceptance(results), _cost(results), _latency(results), _time(results), _memory(results))
    return tuple(replace(each, order=tuple(name for name in results.variants if name != PLAIN)) for each in every)


def of_tuned(tuned: Tuned) -> tuple[Figure, ...]:
    """The figures of what tune found."""
    return tuple(replace(each, order=(_CANDIDATE, tuned.target.name)) for each in (_candidates(tuned), _measured_cost(tuned)))


def of_comparison(compared: Comparison) -> Figure:
    """Files side by side."""
    base = compared.columns[compared.reference].label
    others = [i for i in range(len(compared.columns)) if i != compared.reference]
    rows = []
    for row in compared.rows:
        ratios = tuple(cell.ratio if (cell := row.cells[i]) is not None else None for i in others)
        rows.append((_at(row.task, row.concurrency), tuple(map(_sound, ratios))))
    rows.append((ALL, tuple(_sound(compared.ratios[i]) for i in others)))
    series = tuple(compared.columns[i].label for i in others)
    table = Table(("task", *series), tuple((name, *map(ranged, ratios)) for name, ratios in rows), frozenset(series))
    how = f"Right of the line is faster than {base}. The bars are 95 % intervals."
    data = Ratios(series, tuple(rows), base)
    return Figure(Plot.SPEEDUP, f"Times as fast as {base}", compared.sentence, how, data, table, series)


def _speedup(results: Results) -> Figure:
    title = "Speed-up by task"
    table = Table(
        HEADS, tuple(tuple(cells(each)) for each in results.summaries), frozenset(HEADS) - {"task", "variant", "text"}
    )
    series = tuple(name for name in results.variants if name != PLAIN)
    by_task: dict[tuple[str, int], dict[str, Summary]] = {}
    for each in results.summaries:
        by_task.setdefault((each.task, each.concurrency), {})[each.variant] = each
    rows = [
        (_at(*key), tuple(_sound(found[name].ratio) if name in found else None for name in series))
        for key, found in by_task.items()
    ]
    if not any(ratio is not None for _, ratios in rows for ratio in ratios):
        return Figure(Plot.SPEEDUP, title, "Nothing stands beside plain decoding in this file.", table=table)
    overall = tuple(_sound(overall_ratio(results, name)) for name in series)
    if len(rows) > 1:
        rows.append((ALL, overall))
    said = [f"{name} is {shown(ratio)} as fast as plain decoding" for name, ratio in zip(series, overall, strict=True) if ratio]
    how = (
        "Right of the line is faster than plain decoding. The bars are 95 % intervals: one that crosses the line tells nothing."
    )
    return Figure(Plot.SPEEDUP, title, f"{_joined(said)}.", how, Ratios(series, tuple(rows), "plain decoding"), table)


def _acceptance(results: Results) -> Figure:
    title = "Acceptance by position in the draft"
    lines, rows = [], []
    for name in results.drafted:
        verified, accepted = (
            _added(getattr(run, field) for run in results.of(name)) for field in ("verified_at", "accepted_at")
        )
        points = []
        for i, n in enumerate(verified):
            if n > 0:
                k = accepted[i] if i < len(accepted) else 0
                points.append((i + 1.0, k / n))
                rows.append((name, str(i + 1), str(n), str(k), f"{k / n:.3f}"))
        if points:
            lines.append(Line(name, tuple(points)))
    if not lines:
        return Figure(Plot.ACCEPTANCE, title, _without(results, "which draft tokens were accepted"))
    said = [f"{row[0]} {100 * float(row[4]):.0f} % ({row[3]} of {row[2]})" for row in rows if row[1] == "1"]
    heads = ("variant", "position", "judged", "accepted", "rate")
    how = (
        "Of the rounds that judged the token at a position, the share that accepted it. A round judges up to the first refusal."
    )
    table = Table(heads, tuple(rows), frozenset(heads[1:]))
    return Figure(
        Plot.ACCEPTANCE, title, f"The first token of a draft is accepted: {_joined(said)}.", how, Rates(tuple(lines)), table
    )


def _cost(results: Results) -> Figure:
    title = "What a pass costs, and how far was drafted"
    lines, chosen, rows, said = [], [], [], []
    for name in results.drafted:
        curve = results.curves.get(name)
        known = [(float(n), _MS * s) for n, s in curve.passes if _is_good(s) and n > 0] if curve is not None else []
        lengths = _added(run.lengths for run in results.of(name))
        n_rounds = sum(lengths)
        shares = {k + 1: n / n_rounds for k, n in enumerate(lengths)} if n_rounds else {}
        if known:
            lines.append(Line(name, tuple(sorted(known))))
        if shares:
            chosen.append(Line(name, tuple((float(n), share) for n, share in shares.items())))
            mean = sum(k * n for k, n in enumerate(lengths)) / n_rounds
            said.append(f"{name} {mean:.1f} tokens, none in {100 * shares[1]:.0f} % of {n_rounds} rounds")
        times = dict(known)
        for n in sorted({*(int(width) for width in times), *shares}):
            ms = f"{times[float(n)]:.2f}" if float(n) in times else ""
            k = str(lengths[n - 1]) if n <= len(lengths) else ""
            rows.append((name, str(n), ms, str(n - 1), k))
    if not lines and not chosen:
        return Figure(Plot.COST, title, _without(results, "what passes cost"))
    heads = ("variant", "tokens in the pass", "ms", "drafted (K)", "rounds")
    steps = [
        f" A token of {name}'s draft model takes {_MS * curve.step_s:.2f} ms." for name, curve in results.curves.items()
        if curve.step_s is not None and name in results.drafted
    ]  # fmt: skip
    contexts = sorted({curve.n_context for curve in results.curves.values()})
    at = f" with {' and '.join(map(str, contexts))} tokens in the context" if contexts else ""
    how = (
        f"Above: a pass of the target over n tokens{at}. Below: how many rounds passed so many, one more than were drafted."
        f"{''.join(steps)}"
    )
    says = f"Drafted a round, on average: {'; '.join(said)}." if said else "What passes cost by their tokens."
    data = Costs(tuple(lines), tuple(chosen))
    return Figure(Plot.COST, title, says, how, data, Table(heads, tuple(rows), frozenset(heads[1:])))


def _latency(results: Results) -> Figure:
    title = "Waits between bursts"
    lines, marks, rows = [], [], []
    for name in results.variants:
        runs = results.of(name)
        waits = sorted(_MS * s for run in runs for s, _ in run.itl_s if _is_good(s))
        found = percentiles(runs)
        if not waits or found is None:
            continue
        lines.append(Line(name, tuple(_steps(waits))))
        p50, p95, p99 = (_MS * each for each in found)
        marks.append((p50, p95, p99))
        n_tokens = sum(n for run in runs for _, n in run.itl_s)
        rows.append((name, str(len(waits)), f"{n_tokens / len(waits):.2f}", *(f"{each:.1f}" for each in (p50, p95, p99))))
    if not lines:
        return Figure(Plot.LATENCY, title, _without(results, "how long each burst took"))
    said = [f"{row[0]} {row[3]} / {row[4]} / {row[5]} ms" for row in rows]
    heads = ("variant", "waits", "tokens a burst", "p50 ms", "p95 ms", "p99 ms")
    how = (
        "The share of waits that are no longer. Drafting writes several tokens at once: its waits are fewer and may be longer."
    )
    says = f"Percentiles 50 / 95 / 99: {'; '.join(said)}."
    table = Table(heads, tuple(rows), frozenset(heads[1:]))
    return Figure(Plot.LATENCY, title, says, how, Waits(tuple(lines), tuple(marks)), table)


def _time(results: Results) -> Figure:
    title = "Where the time goes"
    found, rows, said = [], [], []
    for name in results.variants:
        runs = [run for run in results.of(name) if None not in (run.draft_s, run.pass_s, run.host_s)]
        n_tokens = sum(run.n_tokens for run in runs)
        if not n_tokens:
            continue
        parts = tuple(_MS * sum(map(part, runs)) / n_tokens for part in (_draft_s, _pass_s, _host_s))
        if not all(math.isfinite(each) and each >= 0 for each in parts):
            continue
        found.append((name, parts))
        rows.append((name, *(f"{each:.2f}" for each in (*parts, sum(parts)))))
        drafting = f", {parts[0]:.1f} of them drafting" if name in results.drafted else ""
        said.append(f"{name} {sum(parts):.1f} ms{drafting}")
    if not found:
        return Figure(Plot.TIME, title, _without(results, "how the time of its runs divides"))
    heads = ("variant", "draft ms", "pass ms", "host ms", "all ms")
    how = "Milliseconds for each token that was written, over all tasks, without the prompt."
    bars = Bars(("draft", "target's passes", "everything else"), tuple(found), "ms a token")
    return Figure(
        Plot.TIME, title, f"A token takes: {'; '.join(said)}.", how, bars, Table(heads, tuple(rows), frozenset(heads[1:]))
    )


def _memory(results: Results) -> Figure:
    title = "Memory"
    peak = max((run.peak_bytes for run in results.runs if run.peak_bytes is not None), default=None)
    known = [(name, n) for name, n in results.planned_bytes.items() if n > 0]
    if not known:
        return Figure(Plot.MEMORY, title, _without(results, "how much memory was needed"))
    rows = [(name, size(n), str(n)) for name, n in known]
    if peak is not None:
        rows.append(("the process at its peak", size(peak), str(peak)))
    bars = Bars(
        ("needed",), tuple((name, (n / 1e6,)) for name, n in known), "MB", ("peak of the process", peak / 1e6) if peak else None
    )
    says = f"By the plan: {_joined([f'{name} {size(n)}' for name, n in known])}."
    how = "What the plan says that each variant needs by itself. The line is the peak of the process, with all that it held."
    heads = ("variant", "memory", "bytes")
    return Figure(
        Plot.MEMORY,
        title,
        says,
        how if peak else how.partition(" The")[0],
        bars,
        Table(heads, tuple(rows), frozenset(heads[1:])),
    )


def _candidates(tuned: Tuned) -> Figure:
    title = "Speed-up by candidate"
    heads = ("candidate", "runs", "tokens/s", "x plain", "tokens of a draft")
    rows = tuple(
        (
            each.name,
            str(each.n_runs),
            f"{each.tokens_per_s.median:.1f}" if each.tokens_per_s is not None else "",
            ranged(each.ratio),
            f"{each.draft_length:.1f}" if each.draft_length is not None else "",
        )
        for each in tuned.candidates
    )
    table = Table(heads, rows, frozenset(heads[1:]))
    marks = tuple((each.name, (_sound(each.ratio),)) for each in tuned.candidates if _sound(each.ratio) is not None)
    if not marks:
        return Figure(Plot.SPEEDUP, title, "No candidate was compared with plain decoding.", table=table)
    how = "Right of the line is faster than plain decoding. Candidates that left early have no interval."
    return Figure(Plot.SPEEDUP, title, tuned.verdict.sentence, how, Ratios((_CANDIDATE,), marks, "plain decoding"), table)


def _measured_cost(tuned: Tuned) -> Figure:
    title = "What a pass costs"
    known = [cost for cost in tuned.curve if _is_good(cost.seconds) and cost.n_tokens > 0]
    if not known:
        return Figure(Plot.COST, title, "This file does not hold what passes cost.")
    heads = ("tokens in the pass", "ms", "least", "largest", "passes")
    rows = [(str(c.n_tokens), *(f"{_MS * s:.2f}" for s in (c.seconds, c.low_s, c.high_s)), str(c.n_passes)) for c in known]
    line = Line(tuned.target.name, tuple((float(c.n_tokens), _MS * c.seconds) for c in known))
    best = next((each for each in tuned.candidates if each.name == tuned.verdict.best and each.draft_length is not None), None)
    (n, first_ms), (widest, last_ms) = line.points[0], line.points[-1]
    says = f"A pass of {n:.0f} takes {first_ms:.1f} ms, one of {widest:.0f} {last_ms:.1f} ms."
    if best is not None:
        says += f" {best.name} drafts {best.draft_length:.1f} tokens."
    how = "A pass of the target over n tokens; the median of several."
    return Figure(Plot.COST, title, says, how, Costs((line,), ()), Table(heads, tuple(rows), frozenset(heads)))


def _without(results: Results, what: str) -> str:
    if not results.runs:
        return "Nothing was measured yet."
    if all(run.client is not None for run in results.runs):
        return f"A server does not tell {what}."
    if not results.drafted and what != "how the time of its runs divides":
        return "Only plain decoding was measured."
    return f"This file does not hold {what}: it was made by an earlier version, or with settings that do not tell."


def _steps(waits: Sequence[float]) -> Iterator[tuple[float, float]]:
    """The distribution of sorted waits, in no more points than can be seen."""
    n = len(waits)
    for i in sorted({round(j * (n - 1) / _N_STEPS) for j in range(_N_STEPS + 1)}):
        yield waits[i], (i + 1) / n


def _added(rows: Iterable[Sequence[int]]) -> list[int]:
    """Sums by position of rows that need not be equally long."""
    found: list[int] = []
    for row in rows:
        found += [0] * (len(row) - len(found))
        for i, n in enumerate(row):
            found[i] += max(n, 0)
    return found


def _sound(ratio: Ratio | None) -> Ratio | None:
    """A ratio that can be drawn."""
    if ratio is None or not _is_good(ratio.value):
        return None
    sound = ratio.low is not None and ratio.high is not None and _is_good(ratio.low) and _is_good(ratio.high)
    return ratio if sound else Ratio(ratio.value)


def _is_good(value: float) -> bool:
    return math.isfinite(value) and 1e-9 < value < 1e9


def _at(task: str, concurrency: int) -> str:
    return f"{task} x{concurrency}" if concurrency > 1 else task


def _draft_s(run: Run) -> float:
    return run.draft_s or 0.0


def _pass_s(run: Run) -> float:
    return run.pass_s or 0.0


def _host_s(run: Run) -> float:
    return run.host_s or 0.0


def _joined(parts: Sequence[str]) -> str:
    return ", ".join(parts)
