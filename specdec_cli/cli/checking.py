"""What check does once its settings are known: read the headers, judge them, plan the memory, show all of it."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from specdec_cli import drafters
from specdec_cli.cli import answering
from specdec_cli.errors import EXIT_ANSWER_IS_NO, EXIT_DONE
from specdec_cli.gguf.header import Header
from specdec_cli.headers import open_header
from specdec_cli.pairing.findings import Rule, Verdict
from specdec_cli.pairing.judge import Report, judge, to_json
from specdec_cli.pairing.planned import Plan
from specdec_cli.pairing.planned import to_json as plan_json
from specdec_cli.settings.build import context_options, model_options
from specdec_cli.settings.resolve import Settings
from specdec_cli.ui.checked import render_checked

SCHEMA = "specdec.check/1"

_NOT_PLANNED = frozenset({Rule.KIND, Rule.HEAD, Rule.WEIGHTS})  # what is no model has no memory to plan


def execute(settings: Settings) -> int:
    """Show the report on a pair, or on a target alone; returns the exit code."""
    choice, offline = settings.value("draft", str), settings.value("offline", bool)
    with answering.open_display(settings) as sink:
        for notice in settings.notices:
            sink.notice(notice)
        target = open_header(settings.value("model", str), "target", sink.progress, offline=offline)
        draft = None
        if choice not in drafters.NAMES:
            draft = open_header(choice, "draft", sink.progress, offline=offline, other_forms=drafters.NAMES)
    report = judge(target, draft, _installed())
    plan = _plan(settings, report, target, draft)
    document = {"schema": SCHEMA, **to_json(report), "memory": plan_json(plan) if plan is not None else None}
    if settings.value("json", bool):
        answering.answer_json(document)
    else:
        answering.answer(render_checked(document, plan, colour=answering.colour(), columns=answering.columns()))
    fits = plan is None or (plan.fits and plan.draft_fits is not False)
    return EXIT_DONE if fits and report.verdict < Verdict.INCOMPATIBLE else EXIT_ANSWER_IS_NO


def _plan(settings: Settings, report: Report, target: Header, draft: Header | None) -> Plan | None:
    """What both take of this machine; None where one of them is no model."""
    if any(found.rule in _NOT_PLANNED for found in report.findings):
        return None
    from specdec_cli.room import plan_for  # looks at the devices, through llama.cpp

    drafting = draft is not None or settings.value("draft", str) == drafters.NGRAM
    return plan_for(
        target,
        model_options(settings, target.path),
        context_options(settings),
        draft,
        model_options(settings, draft.path, draft=True) if draft is not None else None,
        context_options(settings, draft=True),
        settings.value("draft_max", int) + 1 if drafting else 1,
    )


def _installed() -> str | None:
    try:
        return version("llama-cpp-python")
    except PackageNotFoundError:
        return None
