"""What bench --server does once its settings are known: find the server, give it the tasks, keep and show what it did."""

from __future__ import annotations

import dataclasses
import os
from functools import partial
from pathlib import Path

from specdec_cli.bench import client, results, serving
from specdec_cli.bench.results import Results
from specdec_cli.bench.statistics import summarised
from specdec_cli.bench.transport import address
from specdec_cli.bench.workloads import Prepared, chosen, from_files, prepare
from specdec_cli.cli import answering, reporting
from specdec_cli.cli.options import Given
from specdec_cli.decoding.contracts import SamplingParams
from specdec_cli.errors import EXIT_DONE, EXIT_INTERRUPTED, PromptError, UsageError
from specdec_cli.settings.build import sampling_values
from specdec_cli.settings.resolve import Settings
from specdec_cli.settings.table import SETTINGS
from specdec_cli.ui.served import render_served
from specdec_cli.ui.sinks import Sink

# What a server does is decided where it is started: of the flags only these mean something.
_MEANT = frozenset({
    "server", "served_model", "api_key", "concurrency", "label", "output", "resume", "repeats", "tasks", "prompts", "predict",
    "raw", "format", "json", "quiet", "live", "verbose", "profile",
})  # fmt: skip
_SAMPLING = ("temp", "top_k", "top_p", "min_p", "repeat_penalty", "repeat_last_n", "presence_penalty", "frequency_penalty")


def execute(settings: Settings, given: Given) -> int:
    """Measure a server and answer; returns the exit code."""
    _check(given)
    path = settings.maybe("output", Path)
    reporting.check_output(settings)
    kept: list[Results] = []

    def keep(so_far: Results) -> None:
        kept[:] = [dataclasses.replace(so_far, summaries=summarised(so_far))]
        if path is not None:
            results.write(path, kept[0])

    interrupted = False
    try:
        with answering.open_display(settings) as sink:
            _measure(settings, path, sink, keep)
    except KeyboardInterrupt:
        interrupted = True
    if kept:
        reporting.answer(settings, kept[0], render_served, path)
    return EXIT_INTERRUPTED if interrupted else EXIT_DONE


def _check(given: Given) -> None:
    strangers = [
        SETTINGS[name].flag for name in given if name not in _MEANT and not SETTINGS[name].fills.startswith("sampling.")
    ]
    if strangers:
        raise UsageError(
            f"{strangers[0]} has no meaning with --server.",
            "Models, drafts and contexts are decided where the server is started.",
            "Leave it out.",
        )


def _measure(settings: Settings, path: Path | None, sink: Sink, keep: serving.Keep) -> None:
    key = settings.maybe("api_key", str) or os.environ.get("OPENAI_API_KEY")
    server = address(settings.value("server", str), key)
    endpoint = client.find(server, sink.notice, settings.maybe("served_model", str))
    levels = tuple(dict.fromkeys(settings.value("concurrency", tuple) or (1,)))
    params = SamplingParams(**sampling_values(settings))
    work = _prepared(settings, endpoint)
    if max(levels) > len(work):
        raise UsageError(
            f"{max(levels)} requests at a time need as many tasks.",
            f"There {'is one' if len(work) == 1 else f'are {len(work)}'}.",
            f"Use --concurrency {len(work)}, or more --tasks or --prompts.",
        )
    sink.progress("a few tokens, to warm up", None)
    endpoint = client.trial(endpoint, work[0], params)
    for notice in serving.notices(endpoint, levels):
        sink.notice(notice)
    label = settings.maybe("label", str) or endpoint.about.kind
    shown = {name: SETTINGS[name].shown(settings.decided[name].value) for name in (*_SAMPLING, "seed", "raw")}
    if endpoint.about.n_ctx is not None:
        shown["ctx_size"] = str(endpoint.about.n_ctx)
    fresh = dataclasses.replace(serving.fresh(endpoint, label, work, shown), command=reporting.command(settings))
    reporting.check_output(settings)  # again: another bench may have begun it meanwhile
    before = results.resumed(path, fresh) if path is not None and path.exists() else fresh
    keep(before)
    load = serving.Load(levels, settings.value("repeats", int))
    requests = [endpoint.dialect.request(each, params) for each in work]
    for doubt in serving.doubts(serving.measure(endpoint, requests, before, load, keep, sink.progress)):
        sink.notice(doubt)


def _prepared(settings: Settings, endpoint: client.Endpoint) -> list[Prepared]:
    own = settings.value("prompts", tuple)
    try:
        return prepare(
            from_files(own) if own else chosen(settings.value("tasks", tuple)),
            partial(endpoint.encode, raw=settings.value("raw", bool)),
            n_room=serving.n_room(endpoint),
            n_predict=settings.value("predict", int),
            temperature=settings.value("temp", float),
            seed=settings.value("seed", int),
        )
    except PromptError as error:
        if "-c " in error.fix:  # of this command it is no flag
            error.fix = "Start the server with a longer context (llama-server -c), or use a shorter -n."
        raise
