"""The graded report on a target and a draft, or on a target alone, from headers: what differs, does it matter, what to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from specdec_cli.errors import ModelFileError, PairError
from specdec_cli.gguf.header import Header
from specdec_cli.gguf.kinds import check_runnable, is_draft_head
from specdec_cli.gguf.vocabulary import Vocabulary, vocabulary
from specdec_cli.pairing import architecture
from specdec_cli.pairing.advice import Advice, advise, advise_alone
from specdec_cli.pairing.compat import Compatibility, compare
from specdec_cli.pairing.ends import end_tokens
from specdec_cli.pairing.facts import ModelFacts, facts
from specdec_cli.pairing.family import family
from specdec_cli.pairing.findings import Finding, Rule, Verdict, finding
from specdec_cli.pairing.heads import judge_head, read_head
from specdec_cli.units import count, size

# A draft that costs more than this share of its target leaves little to win.
LARGEST_SHARE = 0.5

# Rules of the two vocabularies: whatever differs there is never drafted, so the text stays the target's.
_FORCEABLE = frozenset({Rule.TOKENIZER, Rule.TEXT})
# What llama.cpp itself decides when it loads the model, and what a run answers by decoding plainly.
_NO_BAR = frozenset({Rule.ARCHITECTURE, Rule.TOKENIZER_NAME, Rule.PRE_NAME, Rule.TARGET_CACHE})


@dataclass(frozen=True, slots=True)
class Allowed:
    """A kind of drafter that a target allows, and what it takes."""

    drafter: str  # a name of drafters: model, ngram
    sentence: str


@dataclass(frozen=True, eq=False)
class Report:
    """What there is to say about a pair, or about a target alone."""

    target: ModelFacts
    draft: ModelFacts | None
    findings: tuple[Finding, ...]  # the worst first
    compatibility: Compatibility | None  # of the vocabularies, where there are two to compare
    drafters: tuple[Allowed, ...]  # for the target; none where it can only decode plainly
    advice: tuple[Advice, ...]

    @property
    def verdict(self) -> Verdict:
        return max((found.severity for found in self.findings), default=Verdict.COMPATIBLE)


def judge(target: Header, draft: Header | None, installed: str | None = None) -> Report:
    """Everything that headers tell about a pair, or about a target alone.

    installed: the version of llama-cpp-python on this machine, where it is known.
    """
    ours = facts(target, "target")
    of_target, fixes = _judge_one(target, ours, alone=draft is None)
    of_target += architecture.names(ours, installed)
    drafters = _drafters(target, ours, of_target)
    if draft is None:
        findings = [*of_target, *_alone(ours)]
        return Report(ours, None, _sorted(findings), None, drafters, advise_alone(ours, findings, fixes))
    theirs = facts(draft, "draft")
    head = read_head(draft)
    if head is not None:
        of_draft = judge_head(head, ours)
    else:
        of_draft, more_fixes = _judge_one(draft, theirs)
        fixes += more_fixes
    findings = of_target + of_draft
    compatibility = None
    if not any(found.severity is Verdict.INCOMPATIBLE and found.rule in (Rule.KIND, Rule.HEAD) for found in findings):
        one, other = vocabulary(target, "target"), vocabulary(draft, "draft")
        compatibility = compare(one, other)
        findings += [*compatibility.findings, *_ends(target, one, draft, other), *_around(target, draft, ours, theirs)]
    findings += architecture.names(theirs, installed)
    advice = advise(ours, theirs, findings, compatibility, head, fixes)
    return Report(ours, theirs, _sorted(findings), compatibility, drafters, advice)


def require(report: Report, force: bool = False) -> None:
    """Pass a pair that a run may use. Raises PairError for one that it may not.

    force passes what differs in the vocabularies, and nothing else: every id that the two read otherwise is among those never
    drafted, while a file of the wrong kind, or a draft that cannot drop tokens again, cannot be used at all.
    """
    barred = [found for found in report.findings if _bars(found)]
    forceable = all(found.rule in _FORCEABLE for found in barred)
    if report.draft is None or not barred or (force and forceable):
        return
    if force:
        barred = [found for found in barred if found.rule not in _FORCEABLE]
    fix = "Choose a draft of the target's own family, or use --draft ngram, which needs no second model."
    n = report.compatibility.n_draftable if report.compatibility is not None else 0
    if forceable and n:
        fix += f" With --force only the {n:,} ids that agree are drafted; the text is still the target's."
    elif any(found.rule is Rule.KIND for found in barred):
        fix = report.advice[0].sentence
    raise PairError(
        f"The draft {report.draft.label} does not fit the target {report.target.label}.",
        " ".join(found.sentence for found in barred),
        fix,
    )


def to_json(report: Report) -> dict[str, Any]:
    """The report as plain values; docs/json/check.md describes them."""
    shared = report.compatibility
    return {
        "verdict": report.verdict.name.lower(),
        "target": _model(report.target),
        "draft": _model(report.draft) if report.draft is not None else None,
        "findings": [
            {
                "rule": found.rule.value,
                "severity": found.severity.name.lower(),
                "about": found.about,
                "sentence": found.sentence,
                "why": found.why,
                "tokens": len(found.ids),
                "first_tokens": [{"id": each.token, "target": each.target, "draft": each.draft} for each in found.examples],
            }
            for found in report.findings
        ],
        "vocabularies": {
            "target": shared.n_target,
            "draft": shared.n_draft,
            "shared": shared.n_shared,
            "draftable": shared.n_draftable,
        }
        if shared is not None
        else None,
        "drafters": [{"drafter": allowed.drafter, "sentence": allowed.sentence} for allowed in report.drafters],
        "advice": [{"sentence": each.sentence, "command": each.command or None} for each in report.advice],
    }


def _model(model: ModelFacts) -> dict[str, Any]:
    return {
        "label": model.label,
        "source": model.place,
        "name": model.name,
        "architecture": model.architecture,
        "quantisation": model.quantisation,
        "parameters": model.n_parameters,
        "active_parameters": model.n_active_parameters,
        "bytes": model.n_bytes,
        "bytes_per_token": model.n_bytes_per_token,
        "layers": model.n_layers,
        "embedding": model.n_embd,
        "trained_context": model.n_ctx_train,
        "tokens": model.n_vocab,
        "tokenizer": model.tokenizer,
        "pre_tokenizer": model.pre,
        "chat_template": model.has_template,
        "window": model.n_window,
        "inner_heads": model.n_inner_heads,
    }


def _bars(found: Finding) -> bool:
    return found.rule is Rule.WEIGHTS or (found.severity is Verdict.INCOMPATIBLE and found.rule not in _NO_BAR)


def _judge_one(header: Header, about: ModelFacts, *, alone: bool = False) -> tuple[list[Finding], list[Advice]]:
    """Whether a model can write text at all, and drop it again."""
    role = about.role
    try:
        check_runnable(header, role, weights=False)
    except ModelFileError as error:
        why = error.why or "It cannot be used."
        rule = Rule.HEAD if is_draft_head(header) else Rule.KIND
        return [finding(rule, Verdict.INCOMPATIBLE, error.what, why, role)], [Advice(error.fix)]
    if not header.tensors:
        severity = Verdict.INCOMPATIBLE if alone else Verdict.NOTES
        sentence = f"The {role} {header.label} holds a vocabulary only."
        why = "It cannot run." if alone else "It cannot run: the verdict is about the tokens."
        return [finding(Rule.WEIGHTS, severity, sentence, why, role)], []
    return architecture.cache(about), []


def _alone(model: ModelFacts) -> list[Finding]:
    """What only matters where there is no draft to compare with."""
    found = []
    if not model.has_template:
        sentence = "The model has no chat template."
        found.append(finding(Rule.TEMPLATE, Verdict.COMPATIBLE, sentence, "Prompts are passed as they are.", "target"))
    return found + _inner_heads(model)


def _around(target: Header, draft: Header, ours: ModelFacts, theirs: ModelFacts) -> list[Finding]:
    """Everything beside the vocabularies that a pair may differ in."""
    found = _size(ours, theirs)
    long, short = ours.n_ctx_train, theirs.n_ctx_train
    if long and short and short < long:
        found.append(
            finding(
                Rule.CONTEXT,
                Verdict.NOTES,
                f"The target was trained for {long:,} tokens of context, the draft for {short:,}.",
                f"Past {short:,} tokens the draft guesses worse; the text is the target's all the same.",
            )
        )
    if target.chat_template != draft.chat_template:
        sentence = "The chat templates differ."
        if not (ours.has_template and theirs.has_template):
            sentence = f"The {'draft' if ours.has_template else 'target'} has no chat template."
        why = "Only the target's is used." if ours.has_template else "Prompts are passed as they are."
        found.append(finding(Rule.TEMPLATE, Verdict.COMPATIBLE, sentence, why))
    return found + _inner_heads(ours)


def _size(ours: ModelFacts, theirs: ModelFacts) -> list[Finding]:
    """What a token costs in each: generating is as fast as weights are read."""
    if not (ours.n_bytes_per_token and theirs.n_bytes_per_token):
        return []
    share = theirs.n_bytes_per_token / ours.n_bytes_per_token
    sentence = (
        f"A token takes the draft {size(theirs.n_bytes_per_token)} of weights"
        f" ({count(theirs.n_active_parameters)} parameters), the target {size(ours.n_bytes_per_token)}"
        f" ({count(ours.n_active_parameters)}): {100 * share:.0f} % of it."
    )
    if share >= 1:
        return [finding(Rule.SIZE, Verdict.NOTES, sentence, "A draft that costs as much as its target makes nothing faster.")]
    if share > LARGEST_SHARE:
        why = f"Above {100 * LARGEST_SHARE:.0f} % there is little to win, however well it guesses."
        return [finding(Rule.SIZE, Verdict.NOTES, sentence, why)]
    return [finding(Rule.SIZE, Verdict.COMPATIBLE, sentence, "The smaller this share, the more an accepted token saves.")]


def _ends(target: Header, ours: Vocabulary, draft: Header, theirs: Vocabulary) -> list[Finding]:
    one, other = end_tokens(target, ours), end_tokens(draft, theirs)
    if one == other:
        return []
    return [
        finding(
            Rule.ENDS,
            Verdict.COMPATIBLE,
            f"Other tokens end a generation: {_listed(ours, one)} in the target, {_listed(theirs, other)} in the draft.",
            "The target's decide where the text ends.",
        )
    ]


def _listed(words: Vocabulary, tokens: frozenset[int]) -> str:
    return ", ".join(f"{token:,} {words.shown(token)}" for token in sorted(tokens)) or "none"


def _inner_heads(model: ModelFacts) -> list[Finding]:
    if not model.n_inner_heads:
        return []
    what = "layer that predicts" if model.n_inner_heads == 1 else "layers that predict"
    return [
        finding(
            Rule.INNER_HEAD,
            Verdict.COMPATIBLE,
            f"The target has {model.n_inner_heads} {what} further tokens (MTP).",
            "specdec does not draft with them; llama.cpp's server does (--spec-type draft-mtp).",
            "target",
        )
    ]


def _drafters(header: Header, model: ModelFacts, of_target: list[Finding]) -> tuple[Allowed, ...]:
    if any(found.severity is Verdict.INCOMPATIBLE or found.rule is Rule.WEIGHTS for found in of_target):
        return ()
    largest = size(round(LARGEST_SHARE * model.n_bytes_per_token))
    kin = family(vocabulary(header, "target"))
    return (
        Allowed("model", f"a model with the same tokens (family {kin}) that reads less than {largest} a token"),
        Allowed("ngram", "what the prompt and the text already say, without a second model"),
    )


def _sorted(findings: list[Finding]) -> tuple[Finding, ...]:
    return tuple(sorted(findings, key=lambda found: -found.severity))
