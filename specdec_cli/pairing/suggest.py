"""Which of several models drafts best for a target, and what it may bring, judged from headers alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from specdec_cli.errors import ModelFileError
from specdec_cli.gguf.constants import TokenType
from specdec_cli.gguf.header import Header
from specdec_cli.gguf.parse import StringArray
from specdec_cli.gguf.vocabulary import Vocabulary, vocabulary
from specdec_cli.pairing.facts import facts
from specdec_cli.pairing.findings import Finding, Rule, Verdict
from specdec_cli.pairing.judge import judge
from specdec_cli.pairing.pairs import Family, KnownDraft, family_of, speaks
from specdec_cli.units import size

CLEAR_GAIN = 1.2  # from which speed-up on a draft is worth taking unasked
_WORTH = 1.05  # from which one it is worth trying
_LONGEST = 16  # longest draft that is considered
_TOKENS = "tokenizer.ggml.tokens"
_MOST_PLANNED = 5  # drafts whose memory is planned
_N_FIRST = 2000  # tokens that are looked at before whole vocabularies are taken apart

# Mean acceptance of a draft a third of its target's size: 0.70 was measured with Qwen2.5-Coder 0.5B beside 1.5B.
_KIN = 0.70
_STRANGER = 0.55  # of another training, with the same tokens
# Smaller ones agree less: 0.61 is reported for a draft of 0.5B beside 24B, five to six halvings below a third.
_PER_HALVING = 0.02
_MEASURED_RATIO = 1 / 3

# What each further token adds to a pass on a CPU, in passes over one token, by the start of the target's quantisation:
# unpacking is arithmetic, which wider passes do again. Measured on two cores of one machine.
_CPU_SLOPES = (("F", 0.13), ("BF16", 0.13), ("Q8_0", 0.47))
_CPU_SLOPE = 0.8

# Bits a weight takes with its scales, by the start of a quantisation's name.
_BITS = (("Q2", 2.9), ("Q3", 3.9), ("Q4", 4.8), ("Q5", 5.6), ("Q6", 6.6), ("Q8", 8.5), ("IQ4", 4.5), ("BF16", 16), ("F16", 16))
_BITS_UNSAID = 4.8  # where no quantisation is named, llama.cpp's rule takes Q4_K_M


class Reason(StrEnum):
    """Why a model is no draft for the target."""

    SAME = "same"  # it is the target
    SIZE = "size"  # it is as large
    VOCABULARY = "vocabulary"  # its tokens are others
    KIND = "kind"  # it is no model that writes text
    STATE = "state"  # its cache cannot drop tokens again


_REASONS = {
    Rule.KIND: Reason.KIND,
    Rule.HEAD: Reason.KIND,
    Rule.WEIGHTS: Reason.KIND,
    Rule.DRAFT_CACHE: Reason.STATE,
    Rule.TOKENIZER: Reason.VOCABULARY,
    Rule.TEXT: Reason.VOCABULARY,
}


@dataclass(frozen=True, eq=False)
class Candidate:
    """A model that might draft."""

    header: Header
    reference: str  # what stands behind --draft
    n_bytes: int  # of its files


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a draft may bring. Not measured: see estimate()."""

    cost: float  # of a draft step, in passes of the target
    acceptance: float  # of each drafted token
    n_draft: int  # the length that is best then
    speed_up: float


@dataclass(frozen=True, eq=False)
class Suggestion:
    """A model that can draft for the target."""

    candidate: Candidate
    verdict: Verdict
    findings: tuple[str, ...]  # what a person should know about the two
    kin: bool  # of the target's own family
    coverage: float  # share of the target's ids that it can draft
    estimate: Estimate  # where a pass over several tokens is as cheap as over one: on a GPU
    on_cpu: Estimate
    fits: bool | None  # in memory, beside the target; None where that is not known

    @property
    def is_worth_it(self) -> bool:
        return self.estimate.speed_up >= _WORTH


@dataclass(frozen=True, eq=False)
class LeftOut:
    candidate: Candidate
    reason: Reason
    sentence: str


@dataclass(frozen=True, eq=False)
class Ranking:
    """All candidates, judged."""

    drafts: tuple[Suggestion, ...]  # the best first
    not_worth: tuple[Suggestion, ...]  # they fit, and would make it no faster
    left_out: tuple[LeftOut, ...]


@dataclass(frozen=True, slots=True)
class Known:
    """A draft that is known for the target's family, or for another one of its vocabulary."""

    draft: KnownDraft
    family: str
    kin: bool
    n_bytes: int  # as known, or else reckoned from parameters and quantisation
    estimate: Estimate
    on_cpu: Estimate


def rank(
    target: Header,
    candidates: Sequence[Candidate],
    families: Sequence[Family] = (),
    fits: Callable[[Header], bool] | None = None,
) -> Ranking:
    """Judge candidates for a target. fits: whether a draft has room beside it, asked of the best few.

    Raises ModelFileError for a target without a vocabulary.
    """
    judged = [weigh(target, candidate, families) for candidate in candidates]
    usable = sorted((each for each in judged if isinstance(each, Suggestion)), key=_order)
    drafts = [each for each in usable if each.is_worth_it]
    if fits is not None:
        planned = [replace(each, fits=fits(each.candidate.header)) for each in drafts[:_MOST_PLANNED]]
        drafts = sorted([*planned, *drafts[_MOST_PLANNED:]], key=_order)
    return Ranking(
        drafts=tuple(drafts),
        not_worth=tuple(each for each in usable if not each.is_worth_it),
        left_out=tuple(each for each in judged if isinstance(each, LeftOut)),
    )


def weigh(target: Header, candidate: Candidate, families: Sequence[Family] = ()) -> Suggestion | LeftOut:
    """Judge one candidate. Cheap tests come first. Raises ModelFileError for a target without a vocabulary."""
    draft = candidate.header
    if _is_same(target, draft):
        return LeftOut(candidate, Reason.SAME, "It is the target itself.")
    ours, theirs = facts(target, "target"), facts(draft, "draft")
    if theirs.n_bytes_per_token >= ours.n_bytes_per_token > 0:
        sentence = f"It reads {size(theirs.n_bytes_per_token)} for each token, the target {size(ours.n_bytes_per_token)}."
        return LeftOut(candidate, Reason.SIZE, sentence)
    words = vocabulary(target, "target")
    draft = _sharing(draft, target)
    try:
        others = vocabulary(draft, "draft")
    except ModelFileError as error:
        return LeftOut(candidate, Reason.KIND, error.what)
    if sentence := _plainly_other(words, others):
        return LeftOut(candidate, Reason.VOCABULARY, sentence)
    report = judge(target, draft)
    for found in report.findings:
        if found.rule in _REASONS and (found.severity is Verdict.INCOMPATIBLE or found.rule is Rule.WEIGHTS):
            return LeftOut(candidate, _REASONS[found.rule], found.sentence)
    kin, shared = _is_kin(target, words, draft, others, families), report.compatibility
    coverage = shared.n_draftable / shared.n_target if shared is not None else 0.0
    cost = theirs.n_bytes_per_token / max(ours.n_bytes_per_token, 1)
    accepted = acceptance(kin, theirs.n_active_parameters / max(ours.n_active_parameters, 1), coverage)
    return Suggestion(
        candidate=candidate,
        verdict=report.verdict,
        findings=tuple(found.sentence for found in report.findings if _is_news(found)),
        kin=kin,
        coverage=coverage,
        estimate=estimate(cost, accepted),
        on_cpu=estimate(cost, accepted, cpu_slope(target)),
        fits=None,
    )


def known_drafts(target: Header, families: Sequence[Family]) -> list[Known]:
    """The drafts that are known for a target and would make it faster, the best first.

    Those of its own family; where its name is of none, those of every family with its vocabulary.
    Raises ModelFileError for a target without a vocabulary.
    """
    ours = vocabulary(target, "target")
    own, about = family_of(target, ours, families), facts(target, "target")
    chosen = [own] if own is not None else [family for family in families if speaks(family, ours)]
    found: dict[str, Known] = {}
    for family in chosen:
        for draft in family.drafts:
            share = draft.n_parameters / max(about.n_active_parameters, 1)
            n_bytes = draft.n_bytes or round(draft.n_parameters * _bits(draft.reference) / 8)
            cost, accepted = n_bytes / max(about.n_bytes_per_token, 1), acceptance(own is not None, share, 1.0)
            guess, on_cpu = estimate(cost, accepted), estimate(cost, accepted, cpu_slope(target))
            if share < 1 and guess.speed_up >= _WORTH:
                found.setdefault(draft.reference, Known(draft, family.name, own is not None, n_bytes, guess, on_cpu))
    return sorted(found.values(), key=lambda known: -known.estimate.speed_up)


def estimate(cost: float, acceptance: float, slope: float = 0.0) -> Estimate:
    """The speed-up over plain decoding that theory allows, and the draft length that brings it.

    With acceptance a of each drafted token, k tokens a draft and a draft step that costs c passes of the target, it is
    (1 - a^(k+1)) / ((1 - a)(k c + 1)): Leviathan et al., Fast Inference from Transformers via Speculative Decoding, 2023,
    section 3.3. That takes for granted that each token is accepted with the same chance, that c is the ratio of the bytes
    which the two models read for a token, and that a pass over k + 1 tokens takes as long as one over a single token. Where
    it does not, slope is what each further token adds to it, in passes over one token.
    """
    best = Estimate(cost, acceptance, 0, 1.0)
    for k in range(1, _LONGEST + 1):
        speed_up = (1 - acceptance ** (k + 1)) / ((1 - acceptance) * (k * (cost + slope) + 1))
        if speed_up > best.speed_up:
            best = Estimate(cost, acceptance, k, speed_up)
    return best


def acceptance(kin: bool, size: float, coverage: float) -> float:
    """How often a drafted token is expected to be accepted: an assumption, taken from a few measured pairs.

    kin: of one family; size: the draft's parameters over the target's; coverage: the share of ids that it can draft.
    """
    halvings = math.log2(_MEASURED_RATIO / size) if size > 0 else 0.0
    return min(max((_KIN if kin else _STRANGER) - _PER_HALVING * max(halvings, 0.0), 0.3), 0.9) * coverage


def cpu_slope(target: Header) -> float:
    """What each further token adds to a pass of the target on a CPU with few cores, in passes over one token."""
    quantisation = target.quantisation
    return next((slope for start, slope in _CPU_SLOPES if quantisation.startswith(start)), _CPU_SLOPE)


def _plainly_other(ours: Vocabulary, theirs: Vocabulary) -> str:
    """Why two vocabularies have little in common; empty if they may be alike. A full comparison takes far longer."""
    n = min(_N_FIRST, ours.n_vocab, theirs.n_vocab)
    one, other = _beginning(ours, n), _beginning(theirs, n)
    ids = np.flatnonzero((one.types == TokenType.NORMAL) & (other.types == TokenType.NORMAL)).tolist()
    differing = [i for i in ids if one.tokens[i] != other.tokens[i]]
    if len(differing) <= len(ids) / 2:
        return ""
    first = differing[0]
    return (
        f"{len(differing):,} of the first {len(ids):,} tokens of text differ; id {first:,} is {one.shown(first)} in the target,"
        f" {other.shown(first)} in the draft."
    )


def _beginning(vocabulary: Vocabulary, n: int) -> Vocabulary:
    """The first n tokens of a vocabulary, without taking the others apart."""
    return replace(vocabulary, tokens=StringArray(vocabulary.tokens.raw, n), types=vocabulary.types[:n])


def _sharing(draft: Header, target: Header) -> Header:
    """The draft's header, with the target's own array of tokens where they are the same, so that they are taken apart once."""
    tokens = target.strings(_TOKENS)
    if tokens is None or draft.strings(_TOKENS) != tokens:
        return draft
    return replace(draft, metadata={**draft.metadata, _TOKENS: tokens})


def _is_news(found: Finding) -> bool:
    """Whether a finding is worth a line beside a suggestion: it matters, is about the draft, and not what the cost says."""
    return found.severity >= Verdict.NOTES and found.about != "target" and found.rule is not Rule.SIZE


def _is_same(target: Header, draft: Header) -> bool:
    if target.path == draft.path or (target.reference is not None and target.reference == draft.reference):
        return True
    try:
        return target.path.samefile(draft.path)
    except OSError:  # one of them is on the hub
        return False


def _is_kin(target: Header, ours: Vocabulary, draft: Header, theirs: Vocabulary, families: Sequence[Family]) -> bool:
    """Whether two models are of one family: by the known pairs, or else by the name that their makers gave it."""
    own, other = family_of(target, ours, families), family_of(draft, theirs, families)
    if own is not None and other is not None:
        return own is other
    name, draft_name = target.text("general.basename"), draft.text("general.basename")
    return name is not None and draft_name is not None and name.lower() == draft_name.lower()


def _order(each: Suggestion) -> tuple[bool, float, int]:
    return (each.fits is False, -each.estimate.speed_up, each.candidate.n_bytes)


def _bits(reference: str) -> float:
    quant = reference.rpartition(":")[2].upper()
    return next((bits for start, bits in _BITS if quant.startswith(start)), _BITS_UNSAID)
