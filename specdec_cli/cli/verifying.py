"""What verify does once its settings are known: open the session as run does, make the checks, show what they found."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from time import monotonic

from specdec_cli.bench.records import to_json
from specdec_cli.bench.workloads import chosen
from specdec_cli.cli import answering
from specdec_cli.cli.prompt import read_prompt
from specdec_cli.cli.signals import interruptible
from specdec_cli.decoding.contracts import PassAborted, SamplingParams
from specdec_cli.errors import EXIT_ANSWER_IS_NO, EXIT_DONE, EXIT_INTERRUPTED, PromptError, SpecdecError, UsageError
from specdec_cli.gguf.reader import read_header
from specdec_cli.gguf.vocabulary import vocabulary
from specdec_cli.llama import library
from specdec_cli.llama.context import Context
from specdec_cli.llama.interrupt import Interrupt
from specdec_cli.opening import session_options
from specdec_cli.options import SessionOptions
from specdec_cli.pairing.compat import compare
from specdec_cli.proof import cache, greedy, run
from specdec_cli.proof.report import ALPHA, SCHEMA, Report, verdict
from specdec_cli.proof.subject import Prompt, Work
from specdec_cli.session import Session
from specdec_cli.settings.build import sampling_values
from specdec_cli.settings.resolve import Settings, with_metadata
from specdec_cli.ui.sinks import Sink
from specdec_cli.ui.verified import render_verified

_TASKS = ("prose", "code", "chat")  # kinds of shipped tasks; the first of each is a prompt
_N_WIDE = 17  # rows of a pass over a fresh cache, at the most
_OWN = "your prompt"


def execute(settings: Settings) -> int:
    """Verify and answer; returns the exit code."""
    interrupt = Interrupt()
    report: Report | None = None
    interrupted = False
    own = _own_prompt(settings)
    try:
        with answering.open_display(settings) as sink, interruptible(interrupt):
            for so_far in _reports(settings, own, sink, interrupt):
                report = so_far
    except (PassAborted, KeyboardInterrupt):
        interrupted = True
    except SpecdecError:
        if not interrupt.requested:  # whoever asked for the end has no use for what went wrong meanwhile
            raise
        interrupted = True
    if report is None:
        return EXIT_INTERRUPTED
    if settings.value("json", bool):
        answering.answer_json({"schema": SCHEMA, **to_json(report), "verdict": _verdict(report)})
    else:
        answering.answer(render_verified(report, colour=answering.colour(), columns=answering.columns()))
    if interrupted:
        return EXIT_INTERRUPTED
    return EXIT_ANSWER_IS_NO if report.faulty else EXIT_DONE


def _verdict(report: Report) -> dict[str, object]:
    return {"sound": report.sound, "sentence": verdict(report)}


def _own_prompt(settings: Settings) -> str | None:
    """The person's prompt, where there is one."""
    given = any(settings.decided[name].value is not None for name in ("prompt", "file"))
    return read_prompt(settings) if given else None


def _reports(settings: Settings, own: str | None, sink: Sink, interrupt: Interrupt) -> Iterator[Report]:
    """The report so far, again after each check. Raises PassAborted, SpecdecError."""
    created = datetime.now(UTC).isoformat(timespec="seconds")
    options = session_options(settings, sink)
    seconds = settings.value("seconds", float) * (10 if settings.value("thorough", bool) else 1)
    with ExitStack() as stack:
        session = stack.enter_context(Session(options, sink, interrupt))
        if session.drafter is None:
            raise _nothing_to_verify(options)
        settings = with_metadata(settings, session.model.metadata)
        work = _work(settings, own, session, interrupt, stack)
        report = Report(
            created=created,
            build=library.build(),
            models={context.model.role: str(context.model.options.path) for context in session.contexts},
            drafter=session.drafter_name,
            temperatures=tuple(each.temperature for each in work.params),
            seed=work.seed,
            budget_s=seconds,
            used_s=0.0,
            alpha=ALPHA,
            complete=False,
        )
        started_s = monotonic()
        yield report
        for check in run.checks(work, seconds, lambda name, share: sink.progress(f"verifying: {name}", share)):
            if interrupt.requested:
                raise PassAborted
            made = (*report.checks, check)
            used_s = monotonic() - started_s
            report = dataclasses.replace(report, checks=made, used_s=used_s, complete=len(made) == len(run.CHECKS))
            yield report


def _nothing_to_verify(options: SessionOptions) -> UsageError:
    if options.n_max == 0:
        return UsageError("There is nothing to verify.", "--draft-max 0 decodes plainly.", "Use --draft-max 16.")
    if options.drafters:
        return UsageError(
            f"{options.target.path.name} cannot be drafted for, so there is nothing to verify.",
            "Its cache cannot drop tokens again (a recurrent or hybrid model), which every refused draft token needs.",
            "specdec run decodes it plainly.",
        )
    return UsageError("There is nothing to verify.", "--draft none decodes plainly.", "Use --draft ngram, or a model.")


def _work(settings: Settings, own: str | None, session: Session, interrupt: Interrupt, stack: ExitStack) -> Work:
    """Prompts, settings of sampling, and fresh caches for a session."""
    prompts = _prompts(settings, own, session)
    longest = max(len(prompt.tokens) for prompt in prompts) + max(greedy.N_TOKENS, cache.N_TOKENS) + _N_WIDE
    if longest > session.n_ctx:
        raise PromptError(
            f"The prompts do not fit: {longest} tokens with what is generated.",
            f"The context holds {session.n_ctx}.",
            f"Use -c {longest + 64}.",
        )
    fresh = [stack.enter_context(closing(_fresh(context, longest, interrupt))) for context in session.contexts]
    values = sampling_values(settings)
    params = SamplingParams(**values)
    hot = dataclasses.replace(params, temperature=1.0)
    sampling = (hot,) if params.temperature in (0.0, 1.0) else (params, hot)
    if len(fresh) == 1:
        return Work(session, prompts, sampling, lambda: fresh[0], seed=params.seed)
    pair = compare(*(vocabulary(read_header(context.model.options.path)) for context in session.contexts))
    return Work(
        session, prompts, sampling, lambda: fresh[0], lambda: fresh[1], pair.n_shared, pair.undraftable, seed=params.seed
    )


def _fresh(context: Context, n_ctx: int, interrupt: Interrupt) -> Context:
    """A second cache over a model, that no drafting touches."""
    options = dataclasses.replace(context.options, n_ctx=n_ctx)
    return Context(context.model, options, interrupt, n_rows=min(_N_WIDE, n_ctx))


def _prompts(settings: Settings, own: str | None, session: Session) -> tuple[Prompt, ...]:
    raw = settings.value("raw", bool) or session.model.chat_template is None
    system = settings.maybe("system_prompt", str)
    texts = {kind: chosen((kind,))[0].prompt for kind in _TASKS}
    if own is not None:
        texts = {_OWN: own, **texts}
    return tuple(Prompt(name, session.encode(text, system, raw=raw)) for name, text in texts.items())
