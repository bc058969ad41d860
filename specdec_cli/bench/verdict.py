"""Whether it is worth it: the measurements against thresholds that were given before, and a sentence that can be quoted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from specdec_cli.bench.results import Cause, Check, Ratio, Results, Verdict
from specdec_cli.bench.statistics import DIFFERS, Outcome, outcome, overall_ratio, pairs, task_ratio, text_of
from specdec_cli.units import size

_FEW = 4  # tasks that are named one by one


@dataclass(frozen=True, slots=True)
class Thresholds:
    """What has to hold for the variant that is judged. None and False: nothing was asked for."""

    speedup: float | None = None
    memory: int | None = None  # bytes
    equal: bool = False
    exact: bool = False  # with --exact no difference passes, a rounding neither


def judge(results: Results, thresholds: Thresholds) -> Verdict:
    """The verdict on the first variant beside plain decoding; the others are told beside it."""
    drafted = results.drafted
    if not drafted:
        return Verdict("Only plain decoding was measured.", None, None, None, None)
    variant = drafted[0]
    ratio = overall_ratio(results, variant)
    checks = tuple(_checks(results, variant, ratio, thresholds))
    if ratio is None:
        return Verdict("Nothing was measured that could be compared.", None, None, None, None, checks)
    worth = {Outcome.FASTER: True, Outcome.SLOWER: False, Outcome.EQUAL: None}[_outcome(results, variant, ratio)]
    sentences = [_sentence(results, variant, ratio)]
    for other in drafted[1:]:
        if (beside := overall_ratio(results, other)) is not None:
            sentences.append(f"{other}: {shown(beside)}.")
    sentences += _differences(results)
    return Verdict(" ".join(sentences), worth, ratio.value, ratio.low, ratio.high, checks)


def shown(ratio: Ratio) -> str:
    """1.62x (1.55 to 1.70)"""
    interval = f" ({ratio.low:.2f} to {ratio.high:.2f})" if ratio.low is not None and ratio.high is not None else ""
    return f"{ratio.value:.2f}x{interval}"


def _outcome(results: Results, variant: str, ratio: Ratio) -> Outcome:
    """What the ratio says; that of which no draft was accepted cannot have gained."""
    idle = all(run.accepted == 0 for run in results.of(variant))
    return Outcome.EQUAL if idle and outcome(ratio) is Outcome.FASTER else outcome(ratio)


def _sentence(results: Results, variant: str, ratio: Ratio) -> str:
    by_task: dict[str, list[str]] = {each: [] for each in Outcome}
    for task in results.tasks:
        found = task_ratio(pairs(results, variant, task.name))
        if found is not None:
            by_task[outcome(found)].append(task.name)
    n_tasks = sum(map(len, by_task.values()))
    over = f"over {n_tasks} tasks" if n_tasks > 1 else "on one task"
    figures = f"{variant} is {shown(ratio)} as fast as plain decoding {over}"
    notes = [
        f"{_named(by_task[each])} {said if len(by_task[each]) == 1 else said_of_many}"
        for each, said, said_of_many in (
            (Outcome.FASTER, "gains", "gain"),
            (Outcome.EQUAL, "does not gain", "do not gain"),
            (Outcome.SLOWER, "gets slower", "get slower"),
        )
        if by_task[each] and len(by_task[each]) < n_tasks
    ]
    rest = f"; {', '.join(notes)}" if notes else ""
    if outcome(ratio) is not _outcome(results, variant, ratio):
        return f"No gain: no draft of {variant} was accepted in these runs, so {shown(ratio)} beside plain decoding is noise."
    match outcome(ratio):
        case Outcome.FASTER:
            return f"Worth it here: {figures}{rest}."
        case Outcome.SLOWER:
            return f"Not worth it here: {figures}{rest}."
        case Outcome.EQUAL:
            return f"No difference that these runs can tell: {figures}{rest}."


def _differences(results: Results) -> Iterator[str]:
    for cause, said in (
        (Cause.ROUNDING, "differ by rounding only (--exact rules it out)"),
        (Cause.FAULT, "differ by a fault: please report it"),
    ):
        tasks = list(dict.fromkeys(each.task for each in results.differences if each.cause is cause))
        if tasks:
            yield f"Texts of {_named(tasks)} {said}."


def _checks(results: Results, variant: str, ratio: Ratio | None, thresholds: Thresholds) -> Iterator[Check]:
    if thresholds.speedup is not None:
        measured = shown(ratio) if ratio is not None else "nothing"
        passed = ratio is not None and ratio.value >= thresholds.speedup
        yield Check("require-speedup", f"at least {thresholds.speedup:g}x", measured, passed)
    if thresholds.memory is not None:
        needed = results.planned_bytes.get(variant)
        yield Check(
            "max-memory",
            f"at most {size(thresholds.memory)}",
            size(needed) if needed is not None else "nothing",
            needed is not None and needed <= thresholds.memory,
        )
    if thresholds.equal:
        yield _equal(results, variant, thresholds)


def _equal(results: Results, variant: str, thresholds: Thresholds) -> Check:
    found = [each for each in results.differences if each.variant == variant]
    failing = [each for each in found if thresholds.exact or each.cause is not Cause.ROUNDING]
    texts = {task.name: text_of(results, task.name, variant) for task in results.tasks}
    told = [f"{each.task} differs at token {each.index} ({each.cause})" for each in failing or found]
    told += [f"{task} differs" for task, text in texts.items() if text == DIFFERS]
    compared = any(text is not None for text in texts.values())
    required = "every text the same" if thresholds.exact else "every text the same but for rounding"
    measured = ", ".join(told) or ("every text the same" if compared else "nothing")
    return Check("require-equal", required, measured, compared and not failing and DIFFERS not in texts.values())


def _named(tasks: Sequence[str]) -> str:
    if len(tasks) > _FEW:
        return f"{len(tasks)} tasks"
    return " and ".join(filter(None, (", ".join(tasks[:-1]), tasks[-1])))
