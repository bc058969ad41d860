"""What bench does once its settings are known: plan the work, measure it run by run, keep each, and show the answer."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from specdec_cli.bench import machine, results, variants
from specdec_cli.bench.energy import Energy, meters
from specdec_cli.bench.measure import Bench, Engine, Interrupted, Work, replayed
from specdec_cli.bench.results import Results
from specdec_cli.bench.schedule import Slot
from specdec_cli.bench.statistics import summarised
from specdec_cli.bench.variants import Variant
from specdec_cli.bench.verdict import Thresholds, judge
from specdec_cli.bench.workloads import LONG, Prepared, Workload, check_length, chosen, from_files, prepare
from specdec_cli.cli import answering, reporting
from specdec_cli.cli.recording import model_file, open_trace, write_head
from specdec_cli.cli.signals import interruptible
from specdec_cli.decoding.contracts import PassAborted, SamplingParams
from specdec_cli.decoding.loop import Event
from specdec_cli.decoding.verification import Rule
from specdec_cli.errors import EXIT_ANSWER_IS_NO, EXIT_DONE, EXIT_INTERRUPTED, SpecdecError, UsageError
from specdec_cli.gguf.reader import read_header
from specdec_cli.llama import library
from specdec_cli.llama.interrupt import Interrupt
from specdec_cli.opening import session_options
from specdec_cli.options import Listener, SessionOptions
from specdec_cli.session import Request, Session
from specdec_cli.settings.build import sampling_values
from specdec_cli.settings.resolve import Settings, Source, with_metadata
from specdec_cli.settings.table import RUN, SETTINGS
from specdec_cli.tracing.recording import Name, traced
from specdec_cli.tracing.writing import TraceFile
from specdec_cli.ui.benched import render_benched
from specdec_cli.ui.sinks import Sink

_TEMPERATURE = "general.sampling.temp"  # in a model's metadata
_ROUND = 256  # tokens that contexts are multiples of
# Settings that a result file tells elsewhere, or that do not change what is measured.
_NOT_WORK = frozenset({
    "model", "draft", "hf_repo", "hf_repo_draft", "offline", "profile", "prompt", "file", "system_prompt", "predict",
    "ignore_eos", "stop", "grammar", "grammar_file", "json_schema", "json_schema_file", "draft_optional", "show_draft", "json",
    "live", "quiet", "verbose",
})  # fmt: skip


class Once:
    """Says each sentence once, although each session says its own."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._said: set[str] = set()

    def notice(self, sentence: str, /) -> None:
        if sentence not in self._said:
            self._said.add(sentence)
            self._listener.notice(sentence)

    def progress(self, label: str, fraction: float | None, /) -> None:
        self._listener.progress(label, fraction)


def execute(settings: Settings) -> int:
    """Measure and answer; returns the exit code."""
    interrupt = Interrupt()
    path = settings.maybe("output", Path)
    measured: Results | None = None
    interrupted = False
    try:
        with (
            answering.open_display(settings) as sink,
            open_trace(settings, sink) as trace,
            interruptible(interrupt),
        ):
            for measured in _measured(settings, path, sink, interrupt, trace):
                if path is not None:
                    results.write(path, measured)
    except (PassAborted, Interrupted, KeyboardInterrupt):
        interrupted = True
    except SpecdecError:
        if not interrupt.requested:  # whoever asked for the end has no use for what went wrong meanwhile
            raise
        interrupted = True
    if measured is None:
        return EXIT_INTERRUPTED
    measured = dataclasses.replace(measured, summaries=summarised(measured), verdict=judge(measured, _thresholds(settings)))
    if path is not None:
        results.write(path, measured)
    reporting.answer(settings, measured, render_benched, path)
    if interrupted:
        return EXIT_INTERRUPTED
    return EXIT_DONE if measured.verdict is None or measured.verdict.passed else EXIT_ANSWER_IS_NO


def _measured(
    settings: Settings, path: Path | None, sink: Sink, interrupt: Interrupt, trace: TraceFile | None
) -> Iterator[Results]:
    """The results so far, after each run. Raises PassAborted, Interrupted, SpecdecError."""
    reporting.check_output(settings)
    workloads = _workloads(settings)
    listener = Once(sink)
    found = variants.variants(list(_drafted(settings, listener)))
    _can_be_met(settings, found)
    planned = variants.plans(found)
    together = variants.fit_together(planned)
    if not together:
        listener.notice("The variants do not fit into memory at once, so each is loaded anew for its turn at all the tasks.")
    sessions = {each.name: partial(_opened, each, listener, interrupt) for each in found}
    with closing(sessions[found[0].name]()) as plain:
        settings = with_model_metadata(settings, plain)
        work = prepared(settings, workloads, plain)
        params = SamplingParams(**sampling_values(settings))
        gpu = any(device.is_gpu for device in library.devices())
        fresh = _fresh(settings, found, work, plain, listener)
    fresh = dataclasses.replace(fresh, planned_bytes={name: plan.n_needed for name, plan in planned.items()})
    if (said := machine.busy(fresh.machine)) is not None:
        listener.notice(said)
    reporting.check_output(settings)  # again: another bench may have begun it meanwhile
    before = results.resumed(path, fresh) if path is not None and path.exists() else fresh
    requests = {each.task.name: Request(each.prompt, params, each.task.n_predict, ignore_eos=True) for each in work}
    if trace is not None:
        write_head(trace, settings, fresh.models)
    todo = Work(
        requests, sessions, settings.value("repeats", int), together, partial(_Traced, trace) if trace is not None else None
    )
    yield before
    with Energy(meters(gpu=gpu)) as energy, Bench(todo, energy, listener, replayed) as bench:
        yield from bench.run(before)


def _drafted(settings: Settings, listener: Listener) -> Iterator[SessionOptions]:
    """What --draft asks for, then what each --against does."""
    first = _sized(session_options(settings, listener), settings)
    yield first
    for other in settings.value("against", tuple):
        draft = dataclasses.replace(settings.decided["draft"], value=other, origin=SETTINGS["against"].flag)
        beside = dataclasses.replace(settings, decided={**settings.decided, "draft": draft})
        yield _sized(session_options(beside, listener), settings)


def _sized(options: SessionOptions, settings: Settings) -> SessionOptions:
    """Drafting in earnest, with a context that holds the long prompt and what is generated where nobody decided on another."""
    options = dataclasses.replace(options, shadow=False)  # a profile or the environment may ask for it
    decided = settings.decided["ctx_size"]
    if decided.source is not Source.DEFAULT:
        return options
    n = LONG + settings.value("predict", int)
    n_ctx = max(options.context.n_ctx, -(-n // _ROUND) * _ROUND)
    n_ctx = min(n_ctx, read_header(options.target.path, "target").n_ctx_train or n_ctx)
    return dataclasses.replace(
        options,
        context=dataclasses.replace(options.context, n_ctx=n_ctx),
        draft_context=dataclasses.replace(options.draft_context or options.context, n_ctx=n_ctx),
    )


def _opened(variant: Variant, listener: Listener, interrupt: Interrupt) -> Session:
    session = Session(variant.options, listener, interrupt)
    if variant.options.drafters and session.drafter is None:
        session.close()
        raise UsageError(
            f"{variant.options.target.path.name} cannot be drafted for, so there is nothing to measure beside plain decoding.",
            "Its cache cannot drop tokens again (a recurrent or hybrid model), which every refused draft token needs.",
            "Use --draft none to measure plain decoding alone.",
        )
    return session


def _can_be_met(settings: Settings, found: Sequence[Variant]) -> None:
    """Refuse thresholds that the runs to come cannot judge."""
    thresholds = _thresholds(settings)
    asked = thresholds.speedup is not None or thresholds.memory is not None or thresholds.equal
    if asked and not any(variant.options.drafters for variant in found):
        raise UsageError(
            "There is nothing to hold against the thresholds.",
            "--draft none measures plain decoding alone.",
            "Use --draft ngram.",
        )
    temperature = settings.value("temp", float)
    if thresholds.equal and temperature > 0 and found[0].options.rule is Rule.REJECT:
        raise UsageError(
            "--require-equal cannot hold when --verify reject samples.",
            f"The temperature is {temperature:g}, and that rule draws anew.",
            "Add --verify match, or --temp 0.",
        )


def with_model_metadata(settings: Settings, session: Session) -> Settings:
    """With what the model itself asks for; its temperature only where one was asked for at all."""
    asked = {key: value for key, value in session.model.metadata.items() if key != _TEMPERATURE}
    return with_metadata(settings, asked)


def _workloads(settings: Settings) -> Sequence[Workload]:
    check_length(settings.value("predict", int))  # before anything is loaded
    own = settings.value("prompts", tuple)
    return from_files(own) if own else chosen(settings.value("tasks", tuple))


def prepared(settings: Settings, workloads: Sequence[Workload], session: Session) -> list[Prepared]:
    raw = settings.value("raw", bool) or session.model.chat_template is None

    def encode(prompt: str, system: str | None) -> tuple[int, ...]:
        if raw and system is not None:  # without a template there is no place for it but before the prompt
            return session.encode(f"{system}\n\n{prompt}", None, raw=raw)
        return session.encode(prompt, system, raw=raw)

    return prepare(
        workloads,
        encode,
        n_room=session.n_ctx,
        n_predict=settings.value("predict", int),
        temperature=settings.value("temp", float),
        seed=settings.value("seed", int),
    )


def _fresh(
    settings: Settings, found: Sequence[Variant], work: Sequence[Prepared], plain: Session, listener: Listener
) -> Results:
    """A result file without a run."""
    files = {"target": plain.options.target.path, **variants.draft_files(found)}
    return Results(
        label=settings.maybe("label", str) or files["target"].stem,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        machine=machine.this_machine(),
        build=library.build(),
        models={role: model_file(role, file, listener) for role, file in files.items()},
        settings=_decisive(settings, plain),
        tasks=tuple(each.task for each in work),
        variants=tuple(each.name for each in found),
        command=reporting.command(settings),
    )


@dataclass(frozen=True, slots=True)
class _Traced:
    """A session whose runs go into the trace, under the name of a slot."""

    trace: TraceFile
    session: Engine
    slot: Slot

    def generate(self, request: Request, /) -> Iterator[Event]:
        assert isinstance(self.session, Session)
        return traced(self.trace, self.session, request, Name(self.slot.task, self.slot.variant, self.slot.repeat))


def _decisive(settings: Settings, plain: Session) -> Mapping[str, str]:
    """The settings that decide what is measured, by name."""
    found = {name: SETTINGS[name].shown(settings.decided[name].value) for name in RUN if name not in _NOT_WORK}
    return found | {"ctx_size": str(plain.n_ctx)}


def _thresholds(settings: Settings) -> Thresholds:
    return Thresholds(
        speedup=settings.maybe("require_speedup", float),
        memory=settings.maybe("max_memory", int),
        equal=settings.value("require_equal", bool),
        exact=settings.value("exact", bool),
    )
