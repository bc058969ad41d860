"""What run does once its settings are known: build a session, generate, hand the events to a sink."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

from specdec_cli.cli.recording import begin, open_trace
from specdec_cli.cli.signals import interruptible
from specdec_cli.decoding.contracts import FinishReason, PassAborted, SamplingParams
from specdec_cli.decoding.loop import Event
from specdec_cli.decoding.shadow import Shadow
from specdec_cli.decoding.stats import RunStats
from specdec_cli.errors import EXIT_DONE, EXIT_INTERRUPTED, SpecdecError
from specdec_cli.llama import library
from specdec_cli.llama.context import Context
from specdec_cli.llama.interrupt import Interrupt
from specdec_cli.opening import constraint, session_options
from specdec_cli.options import Listener, SessionOptions
from specdec_cli.session import Request, Session
from specdec_cli.settings.build import sampling_values
from specdec_cli.settings.resolve import Settings, with_metadata
from specdec_cli.tracing.recording import traced
from specdec_cli.tracing.writing import TraceFile
from specdec_cli.ui.marks import legend, marked
from specdec_cli.ui.output import OutputClosed, colour_allowed
from specdec_cli.ui.sinks import Display, Sink, open_sink
from specdec_cli.ui.summary import Summary


def execute(settings: Settings, prompt: str) -> int:
    """Complete one prompt; returns the exit code."""
    interrupt = Interrupt()
    try:
        with open_display(settings) as sink, open_trace(settings, sink) as trace:
            options = session_options(settings, sink)
            with interruptible(interrupt):
                return _run(settings, options, prompt, sink, interrupt, trace)
    except PassAborted:
        return EXIT_INTERRUPTED
    except OutputClosed as closed:
        raise BrokenPipeError from closed
    except SpecdecError:
        if interrupt.requested:  # whoever asked for the end has no use for what went wrong meanwhile
            return EXIT_INTERRUPTED
        raise


def open_display(settings: Settings) -> Sink:
    """The sink that the display settings and the streams ask for."""
    display = Display(settings.value("json", bool), settings.value("quiet", bool), settings.value("live", bool))
    return open_sink(display, sys.stdout, sys.stderr, os.environ)


def _run(
    settings: Settings, options: SessionOptions, prompt: str, sink: Sink, interrupt: Interrupt, trace: TraceFile | None
) -> int:
    with Session(options, sink, interrupt) as session:
        settings = with_metadata(settings, session.model.metadata)
        say_settings(settings, sink)
        if settings.value("verbose", bool):
            for sentence in session.plan.sentences:
                sink.notice(sentence)
        request = Request(
            prompt=session.encode(prompt, settings.maybe("system_prompt", str), raw=settings.value("raw", bool)),
            params=SamplingParams(**sampling_values(settings)),
            n_predict=settings.value("predict", int),
            stops=settings.value("stop", tuple),
            constraint=constraint(settings, session.model, sink),
            ignore_eos=settings.value("ignore_eos", bool),
        )
        begin(trace, settings, session, sink)
        stats = RunStats()
        for event in _shown(settings, traced(trace, session, request), session, sink):
            stats.add(event)
            sink.event(event, stats)
        sink.finish(
            Summary(
                stats=stats,
                drafter=session.drafter_name,
                seed=request.params.seed,
                settings=settings.report(),
                models=described(session),
                shadow=_brought(session.shadow, stats) if session.shadow is not None else None,
            )
        )
        return EXIT_INTERRUPTED if stats.finish is FinishReason.INTERRUPTED else EXIT_DONE


def _brought(shadow: Shadow, plain: RunStats) -> dict[str, float]:
    """What drafting would have brought, beside what the plain run took without the shadow's work; empty where nothing ran.

    The two are compared at the same prices: what this run's passes took beside other runs' would count as a gain or a loss.
    """
    drafted, plain_s = shadow.stats, plain.pass_s + plain.host_s
    if not (drafted.n_rounds and plain.n_emitted and shadow.seconds and plain_s):
        return {}
    slow, speed_up = plain.n_emitted / plain_s, shadow.plain_s / shadow.seconds
    return {
        "tokens_per_s": slow * speed_up,
        "plain_tokens_per_s": slow,
        "speed_up": speed_up,
        "accepted": drafted.n_accepted,
        "drafted": drafted.n_drafted,
        "tokens_per_pass": drafted.mean_acceptance_length or 1.0,
    }


def described(session: Session) -> dict[str, object]:
    """The models and the build, for a report."""
    return {"build": library.build()} | {context.model.role: _described(context) for context in session.contexts}


def _described(context: Context) -> dict[str, object]:
    model, (n_threads, n_threads_batch) = context.model, context.n_threads
    return {
        "file": str(model.options.path),
        "description": model.description,
        "parameters": model.n_params,
        "bytes": model.n_bytes,
        "trained_context": model.n_ctx_train,
        "context": context.n_ctx,
        "threads": n_threads,
        "threads_batch": n_threads_batch,
    }


def say_settings(settings: Settings, sink: Listener) -> None:
    """Tell what is to be heard about the settings; with -v each of them."""
    for notice in settings.notices:
        sink.notice(notice)
    if settings.value("verbose", bool):
        for flag, value, origin in settings.rows():
            sink.notice(f"{flag} = {value} ({origin})")


def _shown(settings: Settings, events: Iterator[Event], session: Session, sink: Sink) -> Iterator[Event]:
    if not settings.value("show_draft", bool):
        return events
    sink.notice(legend())
    return marked(events, session.model.vocabulary.piece, colour=colour_allowed(sys.stdout, os.environ))
