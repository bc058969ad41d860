"""Medians, spreads and ratios with their intervals, from the runs of a result file."""  # noqa: A005 (what it is)

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from statistics import median

import numpy as np
import numpy.typing as npt

from specdec_cli.bench.results import PLAIN, Cause, Ratio, Results, Run, Spread, Summary

DIFFERS = "differs"  # a text of which nobody has looked yet why
NOISE = 0.01  # two figures nearer to each other than this are taken for equal
NOISE_OF_ONE = 0.05  # the same where each was measured once

_N_RESAMPLES = 4000
_SEED = 0
_INTERVAL = (2.5, 97.5)  # percentiles


class Outcome(StrEnum):
    """What a ratio says."""

    FASTER = "faster"
    SLOWER = "slower"
    EQUAL = "equal"  # no difference that the runs can tell


def outcome(ratio: Ratio) -> Outcome:
    """A ratio is a gain or a loss only where its whole interval says so."""
    noise = NOISE if ratio.low is not None else NOISE_OF_ONE
    low, high = (ratio.value if bound is None else bound for bound in (ratio.low, ratio.high))
    if low > 1 + noise:
        return Outcome.FASTER
    return Outcome.SLOWER if high < 1 - noise else Outcome.EQUAL


def spread(values: Iterable[float | None]) -> Spread | None:
    """Median, least and largest of those that are known."""
    known = [value for value in values if value is not None]
    return Spread(median(known), min(known), max(known)) if known else None


def percentiles(runs: Iterable[Run]) -> tuple[float, float, float] | None:
    """The 50th, 95th and 99th percentile of the waits between bursts, those of all runs together."""
    waits = [seconds for run in runs for seconds, _ in run.itl_s]
    if not waits:
        return None
    p50, p95, p99 = np.percentile(np.asarray(waits), (50, 95, 99))
    return float(p50), float(p95), float(p99)


def pairs(results: Results, variant: str, task: str, concurrency: int = 1) -> list[float]:
    """How many times as fast as plain decoding each run was, beside the plain run of the same repeat."""
    plain = {run.repeat: run.generation_tps for run in results.of(PLAIN, task) if run.concurrency == concurrency}
    return [
        run.generation_tps / base
        for run in results.of(variant, task)
        if run.concurrency == concurrency and run.generation_tps and (base := plain.get(run.repeat))
    ]


def task_ratio(ratios: Sequence[float]) -> Ratio | None:
    """The median of paired ratios, with a bootstrap interval where there are several."""
    return overall([ratios]) if ratios else None


def overall(tasks: Sequence[Sequence[float]]) -> Ratio | None:
    """The geometric mean over tasks of the median of each task's paired ratios.

    The interval resamples the runs of each task. The tasks stay: they are those that were chosen, no sample of all work.
    """
    known = [np.asarray(ratios, dtype=np.float64) for ratios in tasks if len(ratios)]
    if not known:
        return None
    value = math.exp(math.fsum(math.log(float(np.median(ratios))) for ratios in known) / len(known))
    if min(len(ratios) for ratios in known) < 2:
        return Ratio(value)
    rng = np.random.default_rng(_SEED)
    logs = np.zeros(_N_RESAMPLES)
    for ratios in known:
        logs += np.log(_resampled_medians(ratios, rng))
    low, high = np.percentile(np.exp(logs / len(known)), _INTERVAL)
    return Ratio(value, min(float(low), value), max(float(high), value))


def _resampled_medians(ratios: npt.NDArray[np.float64], rng: np.random.Generator) -> npt.NDArray[np.float64]:
    """(n,) -> (resamples,)"""
    chosen = rng.integers(0, len(ratios), (_N_RESAMPLES, len(ratios)))
    medians: npt.NDArray[np.float64] = np.median(ratios[chosen], axis=1)
    return medians


def overall_ratio(results: Results, variant: str) -> Ratio | None:
    """A variant's ratio over all tasks that were measured with it and with plain decoding."""
    return overall([pairs(results, variant, task.name) for task in results.tasks])


def summarised(results: Results) -> tuple[Summary, ...]:
    """A summary for each task and variant that has runs, in the order of tasks, then concurrency, then variants."""
    return tuple(_summaries(results))


def _summaries(results: Results) -> Iterator[Summary]:
    for task in results.tasks:
        at = [run for run in results.runs if run.task == task.name]
        for concurrency in sorted({run.concurrency for run in at}):
            for variant in results.variants:
                runs = [run for run in at if (run.variant, run.concurrency) == (variant, concurrency)]
                if runs:
                    yield _summary(results, task.name, variant, concurrency, runs)


def _summary(results: Results, task: str, variant: str, concurrency: int, runs: Sequence[Run]) -> Summary:
    p50, p95, p99 = percentiles(runs) or (None, None, None)
    accepted, drafted = _total(runs, lambda run: run.accepted), _total(runs, lambda run: run.drafted)
    rounds = _total(runs, lambda run: run.rounds)
    joules = [run.energy_j / run.n_tokens for run in runs if run.energy_j is not None and run.n_tokens]
    return Summary(
        task=task,
        variant=variant,
        concurrency=concurrency,
        n_runs=len(runs),
        generation_tps=spread(run.generation_tps for run in runs),
        prompt_tps=spread(run.prompt_tps for run in runs),
        ttft_s=spread(run.ttft_s for run in runs),
        itl_p50_s=p50,
        itl_p95_s=p95,
        itl_p99_s=p99,
        acceptance=accepted / drafted if accepted is not None and drafted else None,
        tokens_per_pass=1 + accepted / rounds if accepted is not None and rounds else None,
        peak_bytes=max((run.peak_bytes for run in runs if run.peak_bytes is not None), default=None),
        energy_per_token_j=median(joules) if joules else None,
        ratio=task_ratio(pairs(results, variant, task, concurrency)) if variant != PLAIN else None,
        text=text_of(results, task, variant) if variant in results.drafted else None,
    )


def text_of(results: Results, task: str, variant: str) -> str | None:
    """Whether a variant's texts are those of plain decoding: same, or why not; None where there is nothing to compare."""
    plain = {run.tokens_sha256 for run in results.of(results.reference, task)} - {None}
    found = {run.tokens_sha256 for run in results.of(variant, task)} - {None}
    if not plain or not found:
        return None
    causes = [each.cause for each in results.differences if (each.task, each.variant) == (task, variant)]
    if Cause.FAULT in causes:
        return Cause.FAULT.value
    if found <= plain:
        return "same"
    return causes[0].value if causes else DIFFERS


def _total(runs: Iterable[Run], count: Callable[[Run], int | None]) -> int | None:
    """The sum of a count, where every run has it."""
    counts = [count(run) for run in runs]
    return sum(n for n in counts if n is not None) if None not in counts else None
