"""Sets result files side by side, task by task, and names everything that makes their work unequal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from specdec_cli.bench.results import ModelFile, Ratio, Results, Run, Spread, Task
from specdec_cli.bench.statistics import Outcome, outcome, overall, spread, task_ratio
from specdec_cli.bench.verdict import shown
from specdec_cli.decoding.replay import first_difference
from specdec_cli.errors import UsageError

_FEW = 4  # tasks that are named one by one
# What drafts is what is compared: these may differ without a word.
_DRAFTING = frozenset({"draft_max", "draft_fixed", "draft_min", "draft_p_min", "verify", "against", "label", "repeats"})


@dataclass(frozen=True, slots=True)
class Column:
    """One way to decode of one file. judged: the one that speaks for its file."""

    label: str
    file: int
    variant: str
    judged: bool


@dataclass(frozen=True, slots=True)
class Cell:
    """The runs of one task in one column. ratio, text: to those of the first file."""

    n_runs: int
    generation_tps: Spread | None
    ttft_s: Spread | None
    acceptance: float | None
    ratio: Ratio | None
    text: str | None  # same, differs, or from which token on


@dataclass(frozen=True, slots=True)
class Row:
    task: str
    concurrency: int
    cells: tuple[Cell | None, ...]  # by column


@dataclass(frozen=True, slots=True)
class Load:
    """All tasks of one column, so many requests at a time."""

    column: int
    concurrency: int
    total_tps: Spread | None  # of all requests together
    request_tps: Spread | None  # of each
    ttft_s: Spread | None
    ratio: Ratio | None = None  # of each request, to the reference at the same load


@dataclass(frozen=True, slots=True)
class Comparison:
    """Files side by side. unequal: what forbids it; notes: what should be known."""

    columns: tuple[Column, ...]
    reference: int  # the column that the others are compared with
    rows: tuple[Row, ...]
    ratios: tuple[Ratio | None, ...]  # over all tasks at the lowest load, by column
    loads: tuple[Load, ...]
    unequal: tuple[str, ...]
    notes: tuple[str, ...]
    sentence: str


def compare(files: Sequence[Results], names: Sequence[str]) -> Comparison:
    """The files side by side; the first is the one that others are compared with. names: of the files.

    Raises UsageError where they have nothing in common.
    """
    columns = _columns(files, names)
    reference = next(i for i, column in enumerate(columns) if column.file == 0 and column.judged)
    keys = [(task.name, level) for task in files[0].tasks for level in _levels(files, task.name)]
    if not keys:
        has = [f"{name} has {_listed([task.name for task in each.tasks])}" for name, each in zip(names, files, strict=True)]
        raise UsageError(
            "The files have no task in common.", f"{'; '.join(has)}.", "Measure both with the same --tasks or --prompts."
        )
    rows = tuple(_row(files, columns, reference, *key) for key in keys)
    levels = sorted({level for _, level in keys})

    def ratio(column: int, level: int) -> Ratio | None:
        at = [(task, concurrency) for task, concurrency in keys if concurrency == level]
        pairs = [_pairs(files, columns[reference], columns[column], *key) for key in at]
        return None if column == reference else overall(pairs)

    ratios = tuple(ratio(i, levels[0]) for i in range(len(columns)))
    found = tuple(
        replace(load, ratio=ratio(i, load.concurrency))
        for i, each in enumerate(columns)
        for load in loads(files[each.file], each.variant, i)
    )
    unequal = tuple(_unequal(files, names, sorted({task for task, _ in keys})))
    return Comparison(
        columns=columns,
        reference=reference,
        rows=rows,
        ratios=ratios,
        loads=found,
        unequal=unequal,
        notes=tuple(_notes(files, names, {task for task, _ in keys})),
        sentence=f"{'Of unequal work: ' if unequal else ''}{_sentence(columns, reference, rows, ratios, found)}",
    )


def judged_variant(results: Results) -> str:
    """The variant that speaks for a file: the first that drafts, else the first."""
    return (results.drafted or results.variants)[0]


def _columns(files: Sequence[Results], names: Sequence[str]) -> tuple[Column, ...]:
    """Every variant of every file that has runs, each under a name of its own."""
    twice = {label for label, n in Counter(each.label for each in files).items() if n > 1}
    found = []
    for i, (results, name) in enumerate(zip(files, names, strict=True)):
        label = f"{results.label} ({name})" if results.label in twice else results.label
        measured = [variant for variant in results.variants if results.of(variant)]
        if not measured:
            raise UsageError(f"{name} has no runs yet.", "Its measurement was not finished.", "Go on with it: --resume.")
        judged = judged_variant(results) if judged_variant(results) in measured else measured[0]
        for variant in measured:
            own = label if len(measured) == 1 else f"{label}, {variant}"
            found.append(Column(own, i, variant, variant == judged))
    return tuple(found)


def _levels(files: Sequence[Results], task: str) -> list[int]:
    """The loads at which every file has measured a task."""
    per_file = [{run.concurrency for run in each.runs if run.task == task} for each in files]
    return sorted(set.intersection(*per_file))


def _runs(files: Sequence[Results], column: Column, task: str, concurrency: int) -> list[Run]:
    return [run for run in files[column.file].of(column.variant, task) if run.concurrency == concurrency]


def _pairs(files: Sequence[Results], reference: Column, column: Column, task: str, concurrency: int) -> list[float]:
    """How many times as fast as the reference each run was, beside the reference's run of the same repeat."""
    base = {run.repeat: run.generation_tps for run in _runs(files, reference, task, concurrency)}
    return [
        run.generation_tps / beside
        for run in _runs(files, column, task, concurrency)
        if run.generation_tps and (beside := base.get(run.repeat))
    ]


def _row(files: Sequence[Results], columns: Sequence[Column], reference: int, task: str, concurrency: int) -> Row:
    base = _runs(files, columns[reference], task, concurrency)
    cells: list[Cell | None] = []
    for i, column in enumerate(columns):
        runs = _runs(files, column, task, concurrency)
        if not runs:
            cells.append(None)
            continue
        drafted = sum(run.drafted or 0 for run in runs)
        cells.append(
            Cell(
                n_runs=len(runs),
                generation_tps=spread(run.generation_tps for run in runs),
                ttft_s=spread(run.ttft_s for run in runs),
                acceptance=sum(run.accepted or 0 for run in runs) / drafted if drafted else None,
                ratio=None if i == reference else task_ratio(_pairs(files, columns[reference], column, task, concurrency)),
                text=None if i == reference else _text(base, runs),
            )
        )
    return Row(task, concurrency, tuple(cells))


def _text(base: Sequence[Run], runs: Sequence[Run]) -> str | None:
    """Whether runs wrote what the reference did. Ids are compared where both have them."""
    told = [run for run in runs if run.tokens or run.text_sha256]
    if not base or not told:
        return None
    places = []
    for run in told:
        if run.tokens and all(other.tokens for other in base):
            index = [first_difference(other.tokens, run.tokens) for other in base]
            if None not in index:
                places.append(max(place for place in index if place is not None))
        elif run.text_sha256 is None or None in {other.text_sha256 for other in base}:
            return None
        elif run.text_sha256 not in {other.text_sha256 for other in base}:
            return "differs"
    return f"differs at {min(places)}" if places else "same"


def loads(results: Results, variant: str, column: int = 0) -> Iterator[Load]:
    """Each load of a variant that was measured under load at all."""
    runs = results.of(variant)
    levels = sorted({run.concurrency for run in runs})
    for level in levels if levels != [1] else ():
        at = [run for run in runs if run.concurrency == level]
        yield Load(
            column=column,
            concurrency=level,
            total_tps=spread(_together(list(block)) for _, block in groupby(at, key=lambda run: run.repeat)),
            request_tps=spread(run.generation_tps for run in at),
            ttft_s=spread(run.ttft_s for run in at),
        )


def _together(runs: Sequence[Run]) -> float | None:
    """Tokens of all runs of a block, per second from its first request to its last token."""
    clocks = [run.client for run in runs if run.client is not None]
    if len(clocks) < len(runs) or not clocks:
        return None
    seconds = max(clock.end_s for clock in clocks) - min(clock.start_s for clock in clocks)
    return sum(run.n_tokens for run in runs) / seconds if seconds > 0 else None


def _unequal(files: Sequence[Results], names: Sequence[str], tasks: Sequence[str]) -> Iterator[str]:
    """What makes the work of each file another one than the first's, in sentences."""
    first, first_name = files[0], names[0]
    for results, name in zip(files[1:], names[1:], strict=True):
        a, b = first.models.get("target", ModelFile()), results.models.get("target", ModelFile())
        if a.sha256 and b.sha256 and a.sha256 != b.sha256:
            yield f"The targets differ: {_model(a)} in {first_name}, {_model(b)} in {name}."
        by_name = {task.name: task for task in first.tasks}
        pairs = [(by_name[task.name], task) for task in results.tasks if task.name in tasks]
        if others := [b.name for a, b in pairs if _other_prompt(a, b)]:
            yield f"The prompts of {_listed(others)} differ between {first_name} and {name}."
        for what, values in (("Tokens to generate", "n_predict"), ("Temperatures", "temperature")):
            differing = [(a, b) for a, b in pairs if getattr(a, values) != getattr(b, values)]
            if differing:
                a_task, b_task = differing[0]
                yield (
                    f"{what} differ for {_listed([b.name for _, b in differing])}:"
                    f" {getattr(a_task, values):g} in {first_name}, {getattr(b_task, values):g} in {name}."
                )
        if seeds := [b.name for a, b in pairs if a.temperature > 0 and a.seed != b.seed]:
            yield f"The seeds of {_listed(seeds)} differ between {first_name} and {name}."
        short = [b.name for a, b in pairs if a.n_predict == b.n_predict and _written(first, a) != _written(results, b)]
        if short:
            task = short[0]
            yield (
                f"{_listed(short)} did not write the same number of tokens: {_numbers(_written(first, by_name[task]))} in"
                f" {first_name}, {_numbers(_written(results, by_name[task]))} in {name}."
            )


def _notes(files: Sequence[Results], names: Sequence[str], tasks: set[str]) -> Iterator[str]:
    """What is not the same and may be meant, and what cannot be told."""
    first, first_name = files[0], names[0]
    for results, name in zip(files, names, strict=True):
        if alone := [task.name for task in results.tasks if task.name not in tasks]:
            yield f"Only {name} has {_listed(alone)}, which {'is' if len(alone) == 1 else 'are'} left out."
        if (target := results.models.get("target", ModelFile())).sha256 is None:
            yield f"What model {name} measured cannot be verified: it is called {_model(target)}, and there is no hash of it."
        levels = {run.concurrency for run in results.runs}
        common = set.intersection(*({run.concurrency for run in each.runs} for each in files))
        if rest := sorted(levels - common):
            yield f"Only {name} was measured with {_numbers(rest)} requests at a time."
        if any(run.client is not None and not run.client.counted for run in results.runs):
            yield f"The server of {name} did not count its tokens: pieces of its stream were taken for tokens."
    for results, name in zip(files[1:], names[1:], strict=True):
        a, b = first.machine, results.machine
        if None in (a.cpu, b.cpu):
            yield f"Whether {first_name} and {name} were measured on the same machine is not known."
        elif (a.cpu, a.cores, a.memory) != (b.cpu, b.cores, b.memory):
            yield f"The machines differ: {a.cpu}, {a.cores} cores in {first_name}; {b.cpu}, {b.cores} cores in {name}."
        for setting, (was, value) in _settings(first.settings, results.settings):
            yield f"{setting} is {was or 'not set'} in {first_name} and {value or 'not set'} in {name}."
        repeats = [max((run.repeat for run in each.runs), default=-1) + 1 for each in (first, results)]
        if repeats[0] != repeats[1]:
            yield f"{first_name} has {repeats[0]} runs of each task and {name} {repeats[1]}: only as many are paired."


def _settings(a: Mapping[str, str], b: Mapping[str, str]) -> Iterator[tuple[str, tuple[str, str]]]:
    """Settings that both files tell, and that differ."""
    for name in sorted(set(a) & set(b) - _DRAFTING):
        if a[name] != b[name]:
            yield name, (a[name], b[name])


def _other_prompt(a: Task, b: Task) -> bool:
    """Another text, or one that became another number of tokens: another chat template."""
    return a.prompt_sha256 != b.prompt_sha256 or (None not in (a.n_prompt, b.n_prompt) and a.n_prompt != b.n_prompt)


def _written(results: Results, task: Task) -> list[int]:
    return sorted({run.n_tokens for run in results.runs if run.task == task.name})


def _sentence(
    columns: Sequence[Column], reference: int, rows: Sequence[Row], ratios: Sequence[Ratio | None], found: Sequence[Load]
) -> str:
    """The last word: how the other files compare with the first one."""
    lowest = min(row.concurrency for row in rows)
    parts = []
    for i, (column, ratio) in enumerate(zip(columns, ratios, strict=True)):
        if column.judged and i != reference and ratio is not None:
            cells = [row.cells[i] for row in rows if row.concurrency == lowest]
            parts.append(_said(column.label, columns[reference].label, ratio, cells))
            parts += _under_load([load for load in found if load.column == i and load.ratio is not None])
    return " ".join(parts) or "Nothing was measured that could be compared."


def _said(label: str, other: str, ratio: Ratio, cells: Sequence[Cell | None]) -> str:
    outcomes = Counter(outcome(cell.ratio) for cell in cells if cell is not None and cell.ratio is not None)
    n = sum(outcomes.values())
    words = {Outcome.FASTER: "faster", Outcome.EQUAL: "equal", Outcome.SLOWER: "slower"}
    split = ", ".join(f"{words[each]} on {outcomes[each]}" for each in words if outcomes[each])
    over = "on one task" if n == 1 else f"over {n} tasks"
    return f"{label} is {shown(ratio)} as fast as {other} {over}{f' ({split})' if len(outcomes) > 1 else ''}."


def _under_load(found: Sequence[Load]) -> Iterator[str]:
    """What becomes of a gain when requests come side by side."""
    known = [(load.concurrency, load.ratio) for load in found if load.ratio is not None]
    if len(known) > 1:
        listed = ", ".join(f"{ratio.value:.2f}x with {n}" for n, ratio in known[1:])
        ends = [n for n, ratio in known[1:] if outcome(ratio) is not Outcome.FASTER]
        gains = outcome(known[0][1]) is Outcome.FASTER
        yield f"Of requests side by side: {listed}{f'; the gain ends at {ends[0]}' if gains and ends else ''}."


def _model(model: ModelFile) -> str:
    name = (model.file or model.description or "unknown").replace("\\", "/").rpartition("/")[2]
    return f"{name} ({model.sha256[:12]})" if model.sha256 else name


def _listed(names: Sequence[str]) -> str:
    if len(names) > _FEW:
        return f"{', '.join(names[:_FEW])} and {len(names) - _FEW} more"
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1]))) if names else "none"


def _numbers(values: Sequence[int]) -> str:
    return _listed([str(value) for value in values])
