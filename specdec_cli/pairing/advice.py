"""What to do about a judgement, as sentences with commands that can be pasted."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable
from dataclasses import dataclass

from specdec_cli.pairing.compat import Compatibility
from specdec_cli.pairing.facts import ModelFacts
from specdec_cli.pairing.findings import Finding, Rule, Verdict
from specdec_cli.pairing.heads import DraftHead, fits

_UNKNOWN = frozenset({Rule.ARCHITECTURE, Rule.TOKENIZER_NAME, Rule.PRE_NAME})
_UPDATE = "pip install --upgrade llama-cpp-python"


@dataclass(frozen=True, slots=True)
class Advice:
    """What to do, and the command for it, if there is one."""

    sentence: str
    command: str = ""


def advise_alone(target: ModelFacts, findings: list[Finding], fixes: list[Advice]) -> tuple[Advice, ...]:
    """What to do with a target alone."""
    rules = _bad(findings)
    if fixes:
        return tuple(fixes)
    if Rule.WEIGHTS in {found.rule for found in findings}:
        return (Advice("Give the model itself; a file of its vocabulary can only be compared with another one."),)
    if Rule.TARGET_CACHE in rules:
        return (_plainly(target),)
    return (_update(),) if rules else (_suggest(target), _ngram(target))


def advise(
    target: ModelFacts,
    draft: ModelFacts,
    findings: list[Finding],
    compatibility: Compatibility | None,
    head: DraftHead | None,
    fixes: list[Advice],
) -> tuple[Advice, ...]:
    """What to do with a pair."""
    rules = _bad(findings)
    target_barred = any(found.about == "target" and found.rule in (Rule.KIND, Rule.HEAD) for found in findings)
    if target_barred:
        return tuple(fixes)
    if Rule.TARGET_CACHE in rules:
        return (*fixes, _plainly(target))
    if any(found.about == "target" and found.rule in _UNKNOWN and found.rule in rules for found in findings):
        return (_update(),)
    others = (_suggest(target), _ngram(target))
    if head is not None:
        return (*_served(target, draft, head), *others)
    if fixes:
        return (*fixes, *others)
    if Rule.WEIGHTS in {found.rule for found in findings}:
        given = Advice("Give the models themselves; files of vocabularies can only be compared.")
        return (given, *others) if target.n_bytes and rules else (given,)
    if rules & _UNKNOWN:
        return (_update(), *others)
    if not rules:
        dear = any(found.rule is Rule.SIZE and found.severity is Verdict.NOTES for found in findings)
        return (*((_suggest(target, "Look for a smaller draft."),) if dear else ()), _run(target, draft))
    if Rule.DRAFT_CACHE not in rules and compatibility is not None and 2 * compatibility.n_draftable > compatibility.n_shared:
        forced = command("specdec", "run", target.place, "--draft", draft.place, "--force")
        sentence = f"Or draft only the {compatibility.n_draftable:,} ids that agree; the text is still the target's."
        return (*others, Advice(sentence, forced))
    return others


def _bad(findings: Iterable[Finding]) -> set[Rule]:
    return {found.rule for found in findings if found.severity is Verdict.INCOMPATIBLE}


def _run(target: ModelFacts, draft: ModelFacts) -> Advice:
    return Advice("Use the pair.", command("specdec", "run", target.place, "--draft", draft.place))


def _suggest(target: ModelFacts, sentence: str = "Look for drafts that fit.") -> Advice:
    return Advice(sentence, command("specdec", "suggest", target.place))


def _ngram(target: ModelFacts) -> Advice:
    sentence = "Draft from the text itself, without a second model: good for code, quotes and edits."
    return Advice(sentence, command("specdec", "run", target.place, "--draft", "ngram"))


def _plainly(target: ModelFacts) -> Advice:
    return Advice("Decode plainly.", command("specdec", "run", target.place, "--draft", "none"))


def _update() -> Advice:
    return Advice("Update llama-cpp-python, which brings a newer llama.cpp.", _UPDATE)


def _served(target: ModelFacts, draft: ModelFacts, head: DraftHead) -> tuple[Advice, ...]:
    if not fits(head, target):
        return ()
    line = command("llama-server", "-m", target.place, "-md", draft.place, "--spec-type", head.server_type)
    return (Advice("Run the two in llama.cpp's server.", line),)


def command(*words: str) -> str:
    """Words as one line for a shell of this system."""
    if os.name != "nt":
        return shlex.join(words)
    return " ".join(f'"{word}"' if any(char in word for char in " &()^;,") else word for word in words)
