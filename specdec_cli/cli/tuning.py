"""What tune does once its settings are known: measure the costs, try the candidates, keep the best as a profile, show it."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic

from specdec_cli import drafters
from specdec_cli.bench import curve, machine, tuned, ways
from specdec_cli.bench.curve import Cost
from specdec_cli.bench.elsewhere import Command
from specdec_cli.bench.measure import Interrupted
from specdec_cli.bench.results import PLAIN
from specdec_cli.bench.trials import Trials
from specdec_cli.bench.tuned import Model, Profile, Standing, Tuned
from specdec_cli.bench.tuning import Budget, Search, search
from specdec_cli.bench.variants import fit_together
from specdec_cli.bench.ways import Asked, Sessions, Way
from specdec_cli.bench.workloads import Workload, check_length, chosen, from_files, shipped
from specdec_cli.cli import answering, keeping
from specdec_cli.cli.benching import Once, prepared, with_model_metadata
from specdec_cli.cli.contenders import drafts
from specdec_cli.cli.signals import interruptible
from specdec_cli.decoding.contracts import PassAborted, SamplingParams
from specdec_cli.errors import EXIT_DONE, EXIT_INTERRUPTED, SpecdecError, UsageError
from specdec_cli.llama import library
from specdec_cli.llama.interrupt import Interrupt
from specdec_cli.opening import session_options
from specdec_cli.options import Listener, SessionOptions
from specdec_cli.session import Request, Session
from specdec_cli.settings import keeping as profiles
from specdec_cli.settings.build import sampling_values
from specdec_cli.settings.resolve import Settings
from specdec_cli.ui.output import can_show
from specdec_cli.ui.tuned import DRAWN, render_tuned, told

_CURVE_SHARE = 0.15  # of the budget that the cost curve may take
_LONG = "long"  # the kind of task that is tried only where it is asked for: its prompt pass takes longer than the rest


@dataclass(frozen=True, slots=True)
class _Work:
    """What is tried, and what is known before it."""

    settings: Settings  # with what the model's metadata asks for
    asked: Asked
    requests: dict[str, Request]
    n_ctx: int
    n_threads: int
    curve: tuple[Cost, ...] = ()
    drafts: tuple[Model, ...] = ()
    ways: tuple[Way, ...] = ()


@dataclass(frozen=True, slots=True)
class _Reached:
    """How far it has come."""

    work: _Work
    search: Search
    used_s: float


def execute(settings: Settings, name: str | None) -> int:
    """Tune, write the profile and answer; returns the exit code."""
    interrupt = Interrupt()
    created = datetime.now(UTC).isoformat(timespec="seconds")
    reached: _Reached | None = None
    profile: Profile | None = None
    interrupted = False
    try:
        with answering.open_display(settings) as sink, interruptible(interrupt):
            listener = Once(sink)
            base = session_options(_without_draft(settings), listener)
            profile = _profile(name, base.target.path, settings)
            if (said := machine.busy(machine.this_machine())) is not None:
                listener.notice(said)
            for state in _tuning(settings, base, listener, interrupt):
                reached = state
    except (PassAborted, Interrupted, KeyboardInterrupt):
        interrupted = True
    except SpecdecError:
        if not interrupt.requested:  # whoever asked for the end has no use for what went wrong meanwhile
            raise
        interrupted = True
    if reached is None or profile is None:
        return EXIT_INTERRUPTED
    found = _found(reached, created, complete=not interrupted)
    best = next((each for each in found.candidates if each.name == found.verdict.best), None)
    if best is not None:
        found = dataclasses.replace(found, commands=_commands(reached.work, best))
    unwritten: UsageError | None = None
    if best is not None and not interrupted:
        description = f"{found.target.name} as specdec tune found it fastest: {best.name}."
        try:
            profiles.write(Path(profile.path), description, keeping.kept(settings, best), keeping.comments(found))
            found = dataclasses.replace(found, profile=profile)
        except UsageError as error:
            unwritten = error
    _answer(settings, found)
    if unwritten is not None:  # what was measured has been shown all the same
        raise unwritten
    return EXIT_INTERRUPTED if interrupted else EXIT_DONE


def _tuning(settings: Settings, base: SessionOptions, listener: Listener, interrupt: Interrupt) -> Iterator[_Reached]:
    """What is known so far, again after each run. Raises Interrupted, PassAborted, SpecdecError."""
    workloads = _workloads(settings)  # before anything is loaded
    asked = ways.asked(base, drafts(settings, base, listener))
    together = fit_together(asked.plans)
    if not together:
        listener.notice("The candidates do not fit into memory at once, so each is loaded anew for its turns.")
    budget_s = settings.value("budget", float)
    with Sessions(asked.variants, lambda options: Session(options, listener, interrupt), together=together) as sessions:
        work = _prepared(settings, workloads, ways.ready(asked, sessions), sessions)
        for name, sentence in work.asked.left_out.items():
            listener.notice(f"{name} is left out: {sentence}")
        if len(work.asked.variants) < 2:
            raise UsageError("There is nothing to tune.", "No candidate can run here.", "specdec run decodes plainly.")
        started_s = monotonic()
        work = _priced(work, sessions, budget_s * _CURVE_SHARE, listener)
        names = [way.name for way in work.ways]
        yield _Reached(work, Search(tuple(names)), monotonic() - started_s)

        def tell(name: str, task: str, rung: int) -> None:
            used_s = monotonic() - started_s
            listener.progress(told(used_s, budget_s, f"round {rung + 1}: {task}, {name}"), min(used_s / budget_s, 1.0))

        trials = Trials(work.requests, work.ways, sessions, interrupt, tell)
        left_s = max(budget_s - (monotonic() - started_s), 0.0)
        widest = work.curve[-1]
        n_prompt = sum(len(request.prompt) for request in work.requests.values()) / len(work.requests)
        budget = Budget(
            left_s,
            settings.value("predict", int),
            token_s=work.curve[0].seconds,
            prompt_s=n_prompt * widest.seconds / widest.n_tokens,
            together=together,
        )
        for state in search(names, list(work.requests), trials.run, budget):
            yield _Reached(work, state, monotonic() - started_s)


def _prepared(settings: Settings, workloads: Sequence[Workload], asked: Asked, sessions: Sessions) -> _Work:
    """The prompts of the tasks, as the target reads them."""
    plain = sessions.get(PLAIN)
    settings = with_model_metadata(settings, plain)
    params = SamplingParams(**sampling_values(settings))
    requests = {
        each.task.name: Request(each.prompt, params, each.task.n_predict, ignore_eos=True)
        for each in prepared(settings, workloads, plain)
    }
    return _Work(settings, asked, requests, plain.n_ctx, plain.context.n_threads[0])


def _workloads(settings: Settings) -> Sequence[Workload]:
    """What the person asked for; else the first task of each kind whose prompt is short."""
    check_length(settings.value("predict", int))
    own, words = settings.value("prompts", tuple), settings.value("tasks", tuple)
    if own:
        return from_files(own)
    if words:
        return chosen(words)
    firsts: dict[str, Workload] = {}
    for each in shipped():
        if each.kind != _LONG:
            firsts.setdefault(each.kind, each)
    return list(firsts.values())


def _priced(work: _Work, sessions: Sessions, limit_s: float, listener: Listener) -> _Work:
    """With the cost curve, the cost of each draft's rows, and the candidates that follow from both."""
    drafting = work.asked.variants[1:]
    first = sessions.get(drafting[0].name)
    n_max = first.n_draft_max
    label = "measuring what passes cost:"
    costs = curve.measure(first.context, n_max + 1, limit_s, lambda done: listener.progress(label, done))
    known = {cost.n_tokens: cost.seconds for cost in costs}
    models: dict[Path, Model] = {}
    found: list[Way] = []
    for variant in drafting:
        reference, draft = work.asked.drafts[variant.name], variant.options.draft
        if draft is not None and draft.path not in models:
            step_s = curve.measure_step(sessions.get(variant.name).contexts[1])
            models[draft.path] = Model(draft.path.name, str(draft.path), draft.path.stat().st_size, step_s)
        step_s = (models[draft.path].step_s or 0.0) if draft is not None else 0.0
        found += ways.ways(variant.name, reference, n_max, curve.best_lengths(known, step_s, n_max))
    return dataclasses.replace(work, curve=costs, drafts=tuple(models.values()), ways=tuple(found))


def _found(reached: _Reached, created: str, *, complete: bool) -> Tuned:
    work, state = reached.work, reached.search
    target = work.asked.variants[0].options.target.path
    return Tuned(
        created=created,
        machine=machine.this_machine(),
        build=library.build(),
        target=Model(target.name, str(target), target.stat().st_size),
        drafts=work.drafts,
        tasks=tuple(work.requests),
        temperature=work.settings.value("temp", float),
        budget_s=work.settings.value("budget", float),
        used_s=reached.used_s,
        complete=complete,
        curve=work.curve,
        candidates=tuned.standings(state, work.ways),
        left_out=tuned.left_out(work.asked.left_out, state),
        verdict=tuned.judge(state, work.ways),
    )


def _commands(work: _Work, best: Standing) -> tuple[Command, ...]:
    way = next((way for way in work.ways if way.name == best.name), None)
    options = next(each.options for each in work.asked.variants if each.name == (way.session if way is not None else PLAIN))
    draft = options.draft.path if options.draft is not None else None
    return keeping.lines(work.settings, best, options.target.path, draft, work.n_ctx, work.n_threads)


def _profile(name: str | None, target: Path, settings: Settings) -> Profile:
    """The profile that will be written; one of its name is refused before anything is measured."""
    name = name or profiles.name_for(target.stem)
    return Profile(name, str(profiles.place(name, overwrite=settings.value("overwrite", bool))))


def _without_draft(settings: Settings) -> Settings:
    """So that the target is found and judged without a draft beside it."""
    ngram = dataclasses.replace(settings.decided["draft"], value=(drafters.NGRAM,))
    return dataclasses.replace(settings, decided={**settings.decided, "draft": ngram})


def _answer(settings: Settings, found: Tuned) -> None:
    if settings.value("json", bool):
        answering.answer_json(tuned.document(found))
        return
    drawn = can_show(sys.stdout, DRAWN, os.environ)
    answering.answer(render_tuned(found, colour=answering.colour(), columns=answering.columns(), drawn=drawn))
