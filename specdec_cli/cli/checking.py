"""What check does once its settings are known: read the headers, judge them, plan the memory, show all of it."""

from __future__ import annotations

from dataclasses import replace

from specdec_cli import drafters
from specdec_cli.cli import answering
from specdec_cli.cli.options import given_flags
from specdec_cli.errors import EXIT_ANSWER_IS_NO, EXIT_DONE
from specdec_cli.gguf.header import Header
from specdec_cli.headers import open_header
from specdec_cli.named import named_drafters
from specdec_cli.pairing.advice import Advice
from specdec_cli.pairing.findings import Rule, Verdict
from specdec_cli.pairing.judge import Report, judge, to_json
from specdec_cli.pairing.llama_build import installed
from specdec_cli.pairing.memory_words import problem_of
from specdec_cli.pairing.planned import Plan
from specdec_cli.pairing.planned import to_json as plan_json
from specdec_cli.settings.build import context_options, model_options
from specdec_cli.settings.resolve import Settings
from specdec_cli.ui.checked import render_checked

SCHEMA = "specdec.check/1"

_NOT_PLANNED = frozenset({Rule.KIND, Rule.HEAD, Rule.WEIGHTS})  # what is no model has no memory to plan


def execute(settings: Settings) -> int:
    """Show the report on a pair, or on a target alone; returns the exit code."""
    offline = settings.value("offline", bool)
    reference, _ = named_drafters(settings)
    with answering.open_display(settings) as sink:
        for notice in settings.notices:
            sink.notice(notice)
        target = open_header(settings.value("model", str), "target", sink.progress, offline=offline)
        draft = None
        if reference is not None:
            draft = open_header(reference, "draft", sink.progress, offline=offline, other_forms=drafters.NAMES)
    report = judge(target, draft, installed())
    plan = _plan(settings, report, target, draft)
    report = replace(report, advice=_as_judged(settings, report, plan))
    document = {"schema": SCHEMA, **to_json(report), "memory": plan_json(plan) if plan is not None else None}
    if settings.value("json", bool):
        answering.answer_json(document)
    else:
        answering.answer(render_checked(document, plan, colour=answering.colour(), columns=answering.columns()))
    if any(found.rule is Rule.WEIGHTS for found in report.findings):
        return EXIT_ANSWER_IS_NO  # whatever the tokens say, nothing here can run
    fits = plan is None or (plan.fits and plan.draft_fits is not False)
    return EXIT_DONE if fits and report.verdict < Verdict.INCOMPATIBLE else EXIT_ANSWER_IS_NO


def _plan(settings: Settings, report: Report, target: Header, draft: Header | None) -> Plan | None:
    """What both take of this machine; None where one of them is no model."""
    if any(found.rule in _NOT_PLANNED for found in report.findings):
        return None
    from specdec_cli.room import plan_for  # looks at the devices, through llama.cpp

    drafting = draft is not None or drafters.NGRAM in named_drafters(settings)[1]
    return plan_for(
        target,
        model_options(settings, target.path),
        context_options(settings),
        draft,
        model_options(settings, draft.path, draft=True) if draft is not None else None,
        context_options(settings, draft=True),
        settings.value("draft_max", int) + 1 if drafting else 1,
    )


def _as_judged(settings: Settings, report: Report, plan: Plan | None) -> tuple[Advice, ...]:
    """The advice for what was judged: with the same flags, and with what to change where it does not fit."""
    problem = problem_of(plan) if plan is not None else None
    if problem is not None and report.verdict < Verdict.INCOMPATIBLE:
        return (Advice(problem.fix),)
    flags = given_flags(settings, but=("model", "draft", "hf_repo", "hf_repo_draft"))
    return tuple(
        replace(each, command=" ".join((each.command, *flags))) if each.command.startswith("specdec run ") else each
        for each in report.advice
    )
