"""What a benchmark leaves behind: the result file, how it is written and read, and how a run takes it up again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from specdec_cli.bench.records import BadRecord, from_json, to_json
from specdec_cli.errors import UsageError
from specdec_cli.wholefile import write_whole

SCHEMA = "specdec.bench/1"
PLAIN = "plain"  # the variant that the speed of all others is compared with
EXACT = "plain-exact"  # plain decoding with --exact, where that is asked for: its texts are those to compare with
LARGEST = 1 << 28  # bytes of a result file that is read
_LOWEST, _HIGHEST = 1e-6, 1e9  # tokens per second that can be

Key = tuple[str, str, int, int]  # task, variant, repeat, concurrency: what a run is


class Cause(StrEnum):
    """Why a text is not the one of plain decoding."""

    ROUNDING = "rounding"  # passes of other widths round otherwise; every token is the rule's answer on its row
    FAULT = "fault"  # it should not be
    SAMPLING = "sampling"  # a rule that draws anew writes another text by its nature


@dataclass(frozen=True, slots=True)
class Machine:
    """Where it was measured. None where the system does not say."""

    os: str | None = None
    cpu: str | None = None
    cores: int | None = None  # physical
    memory: int | None = None  # bytes
    load: float | None = None  # of the last minute when it began, in busy cores


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A model. Of one behind a server only what the server tells is known."""

    file: str | None = None
    bytes: int | None = None
    sha256: str | None = None
    description: str | None = None


@dataclass(frozen=True, slots=True)
class Task:
    """One piece of work, the same for all variants."""

    name: str
    kind: str
    language: str
    n_prompt: int | None  # tokens, with the chat template; None where the server did not say
    prompt_sha256: str  # of the system message and the prompt, as texts
    n_predict: int
    temperature: float
    seed: int


@dataclass(frozen=True, slots=True)
class Clock:
    """A run on a server, by the clock of the one who asks: with the way there and back, and with its place among others."""

    start_s: float  # since the first request of those that ran side by side
    end_s: float
    generation_s: float | None  # from the first burst to the last
    generation_tps: float | None
    counted: bool  # the server said how many tokens it wrote; else pieces of the stream were counted


@dataclass(frozen=True, slots=True)
class Run:
    """One generation, measured. Seconds, tokens, bytes, joules; None where it is not known."""

    task: str
    variant: str
    repeat: int
    order: int  # its place in the schedule
    n_prompt: int | None
    n_tokens: int  # generated
    prompt_s: float | None
    ttft_s: float | None
    generation_s: float | None  # since the first token or first burst
    generation_tps: float | None
    prompt_tps: float | None
    itl_s: tuple[tuple[float, int], ...] = ()  # for each burst after the first: seconds since the last one, tokens in it
    accepted: int | None = None
    drafted: int | None = None
    rounds: int | None = None
    drafters: Mapping[str, int] = field(default_factory=dict)  # rounds whose draft each drafter began
    draft_s: float | None = None
    pass_s: float | None = None
    host_s: float | None = None
    peak_bytes: int | None = None
    energy_j: float | None = None
    tokens: tuple[int, ...] = ()  # the generated ids; empty where a server does not tell them
    tokens_sha256: str | None = None
    text_sha256: str | None = None
    finish: str | None = None
    verified_at: tuple[int, ...] = ()  # rounds that judged the first, second, ... draft token
    accepted_at: tuple[int, ...] = ()  # and those that accepted it
    lengths: tuple[int, ...] = ()  # rounds that drafted 0, 1, 2, ... tokens
    concurrency: int = 1
    client: Clock | None = None  # of a server; the other figures are then its own timings, where it has some

    @property
    def key(self) -> Key:
        return (self.task, self.variant, self.repeat, self.concurrency)


@dataclass(frozen=True, slots=True)
class Curve:
    """What passes cost, as the session that drafted knew it after its last run."""

    passes: tuple[tuple[int, float], ...]  # tokens of a pass of the target, and its seconds
    step_s: float | None  # one row of the draft model; None without one
    n_context: int  # tokens in the context by then


@dataclass(frozen=True, slots=True)
class Difference:
    """A text that is not the one of plain decoding, and why."""

    task: str
    variant: str
    index: int  # the first generated token that differs
    cause: Cause
    gap: float | None = None  # between the two largest logits there
    noise: float | None = None  # how much the row there changes with the width of the pass


@dataclass(frozen=True, slots=True)
class Spread:
    """A figure of several runs."""

    median: float
    low: float  # the least of them
    high: float


@dataclass(frozen=True, slots=True)
class Ratio:
    """How many times as fast as plain decoding, with a 95 % interval; None where a single run tells none."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Summary:
    """The runs of one task with one variant."""

    task: str
    variant: str
    concurrency: int
    n_runs: int
    generation_tps: Spread | None = None
    prompt_tps: Spread | None = None
    ttft_s: Spread | None = None
    itl_p50_s: float | None = None
    itl_p95_s: float | None = None
    itl_p99_s: float | None = None
    acceptance: float | None = None
    tokens_per_pass: float | None = None
    peak_bytes: int | None = None
    energy_per_token_j: float | None = None
    ratio: Ratio | None = None  # to plain decoding; None for plain decoding itself
    text: str | None = None  # same, rounding, sampling, fault, differs (not looked into yet); None: nothing to compare


@dataclass(frozen=True, slots=True)
class Check:
    """One threshold that was given, and whether it was met."""

    name: str
    required: str
    measured: str
    passed: bool


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer. speedup: the ratio to plain decoding over all tasks, with its 95 % interval."""

    sentence: str
    worth_it: bool | None  # None: no difference that the runs can tell
    speedup: float | None
    low: float | None
    high: float | None
    checks: tuple[Check, ...] = ()

    @property
    def passed(self) -> bool:
        return all(check.passed for check in self.checks)


@dataclass(frozen=True, slots=True)
class Results:
    """A result file."""

    label: str
    created: str  # ISO 8601, UTC
    machine: Machine
    build: str | None
    models: Mapping[str, ModelFile]  # target, draft
    settings: Mapping[str, str]  # those that decide what is measured, by name
    tasks: tuple[Task, ...]
    variants: tuple[str, ...]
    runs: tuple[Run, ...] = ()
    differences: tuple[Difference, ...] = ()
    summaries: tuple[Summary, ...] = ()
    verdict: Verdict | None = None
    planned_bytes: Mapping[str, int] = field(default_factory=dict)  # what the memory plan says that each variant needs
    curves: Mapping[str, Curve] = field(default_factory=dict)  # of variants whose drafts are as long as pays
    command: str | None = None  # that measures the same again

    def done(self) -> set[Key]:
        """What has been measured already."""
        return {run.key for run in self.runs}

    @property
    def drafted(self) -> tuple[str, ...]:
        """The variants that draft; the first is the one that is judged."""
        return tuple(variant for variant in self.variants if variant not in (PLAIN, EXACT))

    @property
    def reference(self) -> str:
        """The variant whose texts are to be reached."""
        return EXACT if EXACT in self.variants else PLAIN

    def of(self, variant: str, task: str | None = None) -> list[Run]:
        """The runs of a variant, of one task or of all, by repeat."""
        found = [run for run in self.runs if run.variant == variant and task in (None, run.task)]
        return sorted(found, key=lambda run: run.repeat)

    def with_run(self, run: Run, curve: Curve | None = None) -> Results:
        curves = self.curves if curve is None else {**self.curves, run.variant: curve}
        return replace(self, runs=(*self.runs, run), curves=curves)


def document(results: Results) -> dict[str, Any]:
    """The results as the JSON document that they are written as."""
    return {"schema": SCHEMA, **to_json(results)}


def write(path: Path, results: Results) -> None:
    """Write a result file beside its place and rename it there, so that there is always a whole one. Raises UsageError."""
    # A name that is no text, as a file's may be, is written as JSON's escape of it.
    data = _lines(document(results)).encode(errors="backslashreplace")
    try:
        write_whole(path, data)
    except OSError as error:
        raise UsageError(
            f"The results cannot be written to {path}.", f"{error.strerror or error}.", "Name another file with -o."
        ) from None


def _lines(found: Mapping[str, Any]) -> str:
    """The document as JSON with a line for each run, so that it can be read and set side by side."""
    parts = []
    for key, value in found.items():
        if isinstance(value, list) and value:
            inner = ",\n  ".join(json.dumps(each, ensure_ascii=False, allow_nan=False) for each in value)
            parts.append(f"{json.dumps(key)}: [\n  {inner}\n ]")
        else:
            parts.append(f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=False, allow_nan=False)}")
    return "{\n " + ",\n ".join(parts) + "\n}\n"


def load(path: Path) -> Results:
    """Read a result file. Raises UsageError with what is wrong with it."""
    return checked(path, read(path))


def read(path: Path) -> Any:
    """What a JSON file holds. Raises UsageError."""
    try:
        if path.exists() and not path.is_file():
            raise UsageError(f"{path} is no result file.", "It is no file at all.")
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
        if len(data) > LARGEST:
            raise UsageError(f"{path} is no result file.", f"It is larger than {LARGEST >> 20} MiB.")
        return json.loads(data.decode("utf-8"), parse_constant=_no_number)
    except OSError as error:
        raise UsageError(f"The result file {path} cannot be read.", f"{error.strerror or error}.") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path} is no result file.", "It is no UTF-8.", "specdec bench -o FILE.json") from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is no result file.", f"It is not JSON: {error}.", "specdec bench -o FILE.json") from None


def _no_number(word: str) -> None:
    raise ValueError(f"{word} is no number")


def checked(path: Path, found: Any) -> Results:
    """The results that a file's JSON holds. Raises UsageError."""
    schema = found.get("schema") if isinstance(found, dict) else None
    if schema != SCHEMA:
        said = f"Its schema is {schema!r}" if isinstance(schema, str) else "It has no schema"
        raise UsageError(
            f"{path} is no result file of specdec bench.", f"{said}; this version reads {SCHEMA}.", "specdec bench -o FILE.json"
        )
    try:
        results = from_json(Results, found, "the file")
    except BadRecord as bad:
        raise UsageError(f"The result file {path} is damaged.", f"{bad}.", "Measure again, with -o.") from None
    if wrong := _unsound(results):
        raise UsageError(f"The result file {path} is damaged.", wrong, "Measure again, with -o.")
    return results


def _unsound(results: Results) -> str | None:
    """What contradicts itself in a result file, in a sentence."""
    tasks = [task.name for task in results.tasks]
    for what, names in (("task", tasks), ("variant", list(results.variants))):
        if twice := next((name for name in names if names.count(name) > 1), None):
            return f"It has the {what} {twice!r} twice."
    if len(results.done()) < len(results.runs):
        return "It has a run twice."
    for run in results.runs:
        for what, name, known in (("tasks", run.task, tasks), ("variants", run.variant, results.variants)):
            if name not in known:
                return f"It has a run of {name!r}, which is none of its {what}."
        rates = [rate for rate in (run.generation_tps, run.prompt_tps) if rate is not None]
        if run.n_tokens < 0 or run.repeat < 0 or run.concurrency < 1 or not all(_LOWEST <= rate < _HIGHEST for rate in rates):
            return f"Its run {run.repeat} of {run.task} with {run.variant} has figures that cannot be."
    return None


def resumed(path: Path, fresh: Results) -> Results:
    """The results of the file with the runs they have already, to go on with. Raises UsageError where the work differs."""
    before = load(path)
    if differing := list(differs(before, fresh)):
        raise UsageError(
            f"{path} cannot be resumed: it measured something else.",
            " ".join(differing[:4]),
            "Give the same models, settings and tasks again, or another file with -o.",
        )
    return replace(before, summaries=(), verdict=None, command=fresh.command)


def differs(before: Results, now: Results) -> Iterable[str]:
    """A sentence for each thing that makes two measurements not the same work on the same machine."""
    for role in sorted({*before.models, *now.models}):
        a, b = before.models.get(role), now.models.get(role)
        if a is None or b is None:
            yield f"{'One' if b is None else 'None'} of its models was the {role}."
        elif a.sha256 != b.sha256 or a.bytes != b.bytes:
            yield f"The {role} was {a.file} ({_short(a.sha256)}), and is {b.file} ({_short(b.sha256)})."
    for name in sorted({*before.settings, *now.settings}):
        was, value = before.settings.get(name), now.settings.get(name)
        if was != value:
            yield f"{name} was {was or 'not set'}, and is {value or 'not set'}."
    if before.variants != now.variants:
        yield f"The variants were {', '.join(before.variants)}, and are {', '.join(now.variants)}."
    yield from _other_tasks(before.tasks, now.tasks)
    if before.build != now.build:
        yield f"The build was {before.build}, and is {now.build}."
    if (before.machine.cpu, before.machine.cores) != (now.machine.cpu, now.machine.cores):
        yield f"The machine was {before.machine.cpu}, and is {now.machine.cpu}."


def _other_tasks(before: Sequence[Task], now: Sequence[Task]) -> Iterable[str]:
    old, new = {task.name: task for task in before}, {task.name: task for task in now}
    if gone := [name for name in old if name not in new]:
        yield f"It has the tasks {', '.join(gone)}, which are not asked for now."
    if added := [name for name in new if name not in old]:
        yield f"It lacks the tasks {', '.join(added)}."
    for name in old:
        if name in new and old[name] != new[name]:
            yield f"The task {name} was another one ({_task_difference(old[name], new[name])})."


def _task_difference(old: Task, new: Task) -> str:
    if old.prompt_sha256 != new.prompt_sha256:
        return "its prompt differs"
    name = next(name for name in Task.__slots__ if getattr(old, name) != getattr(new, name))
    return f"{name} {getattr(old, name)}, now {getattr(new, name)}"


def tokens_sha256(tokens: Sequence[int]) -> str:
    """A hash of token ids."""
    return hashlib.sha256(",".join(map(str, tokens)).encode("ascii")).hexdigest()


def text_sha256(*texts: str | None) -> str:
    """A hash of texts; None is not an empty text."""
    return hashlib.sha256(json.dumps(texts, ensure_ascii=True).encode("ascii")).hexdigest()


def _short(sha256: str | None) -> str:
    return sha256[:12] if sha256 else "unknown"
