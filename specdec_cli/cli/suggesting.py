"""What suggest does once its settings are known: find models, judge them, show the best."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from specdec_cli import candidates, room
from specdec_cli.candidates import Found
from specdec_cli.cli import answering
from specdec_cli.errors import EXIT_ANSWER_IS_NO, EXIT_DONE, ModelFileError, SpecdecError
from specdec_cli.gguf.header import Header
from specdec_cli.gguf.kinds import check_runnable
from specdec_cli.gguf.reader import read_header
from specdec_cli.gguf.vocabulary import vocabulary
from specdec_cli.headers import open_header
from specdec_cli.hub.choosing import split_name
from specdec_cli.hub.references import HubFile, HubRepo, parse
from specdec_cli.pairing import pairs, suggest
from specdec_cli.pairing.advice import command
from specdec_cli.pairing.facts import ModelFacts
from specdec_cli.pairing.findings import Rule, Verdict
from specdec_cli.pairing.judge import judge
from specdec_cli.pairing.pairs import Family
from specdec_cli.pairing.planned import Machine
from specdec_cli.pairing.suggest import Candidate, Estimate, Known, LeftOut, Suggestion
from specdec_cli.settings import profiles
from specdec_cli.settings.build import context_options, model_options
from specdec_cli.settings.resolve import Settings
from specdec_cli.ui.suggested import render_suggested

SCHEMA = "specdec.suggest/1"
_NGRAM = "Guesses that text repeats: code edits, summaries with quotes, answers about a document in the prompt."


def execute(settings: Settings, reference: str) -> int:
    """Show the drafts for one target; returns the exit code."""
    with answering.open_display(settings) as sink:
        target = open_header(reference, "target", sink.progress, offline=settings.value("offline", bool))
        found = candidates.gather(_local_path(target), settings.value("folders", tuple))
        read, unreadable = [], []
        for i, each in enumerate(found):
            sink.progress("reading headers", i / len(found))
            try:
                read.append(Candidate(read_header(each.path, "draft"), each.reference, each.n_bytes))
            except ModelFileError as error:
                unreadable.append({"draft": each.reference, "sentence": error.what})
        document = suggested(settings, reference, target, read, found) | {"unreadable": unreadable}
    if settings.value("json", bool):
        answering.answer_json(document)
    else:
        answering.answer(render_suggested(document, colour=answering.colour(), columns=answering.columns()))
    return EXIT_DONE if document["drafts"] or document["known"] else EXIT_ANSWER_IS_NO


def suggested(
    settings: Settings, reference: str, target: Header, read: Sequence[Candidate], found: Sequence[Found]
) -> dict[str, object]:
    """The answer as a document. Raises ModelFileError for a target that is no model."""
    check_runnable(target, "target")
    families, wrong = pairs.load(profiles.folders())
    machine = room.this_machine()
    alone = judge(target, None)
    barred = [f"{each.sentence} {each.why}" for each in alone.findings if each.severity is Verdict.INCOMPATIBLE]
    notices = [f"{error.what} {error.why}".strip() for error in wrong] + barred
    notices += [f"{each.sentence} {each.why}" for each in alone.findings if each.rule is Rule.INNER_HEAD]
    can_draft = bool(alone.drafters)
    ranking = suggest.rank(target, read, families, lambda draft: _fits(settings, target, draft, machine))
    known = suggest.known_drafts(target, families)
    return {
        "schema": SCHEMA,
        "target": _target(target, alone.target, families),
        "drafts": [_draft(reference, each) for each in ranking.drafts if can_draft],
        "known": [_known(reference, each, found) for each in known if can_draft],
        "not_worth": [_draft(reference, each) for each in ranking.not_worth],
        "left_out": [_left_out(each) for each in ranking.left_out],
        "draft_free": [{"draft": "ngram", "what": _NGRAM, "command": _command(reference, "ngram")}] if can_draft else [],
        "gpus": [gpu.name for gpu in machine.gpus],
        "notices": notices,
    }


def _fits(settings: Settings, target: Header, draft: Header, machine: Machine) -> bool:
    """Whether there is room for a draft beside the target."""
    plan = room.plan_for(
        target,
        model_options(settings, target.path),
        context_options(settings),
        draft,
        model_options(settings, draft.path, draft=True),
        context_options(settings, draft=True),
        machine=machine,
    )
    return plan.fits and plan.draft_fits is not False


def _local_path(target: Header) -> Path | None:
    return target.path if target.path.is_file() else None


def _target(target: Header, about: ModelFacts, families: Sequence[Family]) -> dict[str, object]:
    family = pairs.family_of(target, vocabulary(target, "target"), families)
    return {
        "label": about.label,
        "reference": target.reference,
        "name": about.name,
        "family": family.name if family is not None else None,
        "architecture": about.architecture,
        "quantisation": about.quantisation,
        "parameters": about.n_parameters,
        "bytes": about.n_bytes,
        "bytes_per_token": about.n_bytes_per_token,
        "tokenizer": about.tokenizer,
        "pre_tokenizer": about.pre,
        "tokens": about.n_vocab,
        "mtp_layers": about.n_inner_heads,
    }


def _draft(reference: str, each: Suggestion) -> dict[str, object]:
    header = each.candidate.header
    return {
        "draft": each.candidate.reference,
        "path": str(header.path),
        "name": header.name,
        "quantisation": header.quantisation,
        "parameters": header.n_parameters,
        "bytes": each.candidate.n_bytes,
        "verdict": each.verdict.name.lower(),
        "findings": each.findings,
        "same_family": each.kin,
        "coverage": each.coverage,
        **_estimate(each.estimate, each.on_cpu),
        "fits_memory": each.fits,
        "command": _command(reference, each.candidate.reference),
    }


def _known(reference: str, each: Known, found: Iterable[Found]) -> dict[str, object]:
    here = next((one for one in found if _is_of(one, each.draft.reference)), None)
    return {
        "draft": each.draft.reference,
        "name": each.draft.name,
        "family": each.family,
        "same_family": each.kin,
        "parameters": each.draft.n_parameters,
        "bytes": each.n_bytes,
        "licence": each.draft.licence,
        "source": each.draft.source,
        "note": each.draft.note or None,
        "here": str(here.path) if here is not None else None,
        **_estimate(each.estimate, each.on_cpu),
        "command": _command(reference, each.draft.reference),
    }


def _estimate(estimate: Estimate, on_cpu: Estimate) -> dict[str, object]:
    return {
        "cost": estimate.cost,
        "acceptance": estimate.acceptance,
        "draft_length": estimate.n_draft,
        "speed_up": estimate.speed_up,
        "cpu_draft_length": on_cpu.n_draft,
        "cpu_speed_up": on_cpu.speed_up,
    }


def _left_out(each: LeftOut) -> dict[str, object]:
    return {"draft": each.candidate.reference, "reason": each.reason.value, "sentence": each.sentence}


def _is_of(found: Found, reference: str) -> bool:
    """Whether a model of the hub cache is what a known reference leads to."""
    try:
        wanted, there = parse(reference), parse(found.reference)
    except SpecdecError:
        return False
    if not isinstance(there, HubRepo | HubFile) or not isinstance(wanted, HubRepo | HubFile) or wanted.repo != there.repo:
        return False
    if isinstance(wanted, HubFile):
        return found.path.name == Path(wanted.filename).name
    return wanted.quant is None or wanted.quant.upper() == split_name(found.path.name).quant


def _command(reference: str, draft: str) -> str:
    return command("specdec", "run", reference, "--draft", draft)
