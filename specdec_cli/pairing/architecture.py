"""What a model's architecture means for drafting: whether llama.cpp knows it, and whether its cache can go back."""

from __future__ import annotations

from specdec_cli.gguf.constants import Role
from specdec_cli.pairing.facts import ModelFacts
from specdec_cli.pairing.findings import Finding, Rule, Verdict, finding
from specdec_cli.pairing.llama_build import ARCHITECTURES, HYBRID, PRE_TOKENIZERS, RECURRENT, TOKENIZERS, VERSION


def names(model: ModelFacts, installed: str | None) -> list[Finding]:
    """What of the model llama.cpp may not know by name. installed: the version of llama-cpp-python on this machine.

    Where that is the version of our tables, they are sure; another one may know more.
    """
    found = []
    if model.architecture and model.architecture not in ARCHITECTURES:
        found.append(_unknown(Rule.ARCHITECTURE, f"architecture {model.architecture!r}", model.role, installed))
    if model.tokenizer and model.tokenizer not in TOKENIZERS:
        found.append(_unknown(Rule.TOKENIZER_NAME, f"tokenizer {model.tokenizer!r}", model.role, installed))
    if model.pre and TOKENIZERS.get(model.tokenizer or "") == "byte-pair" and model.pre not in PRE_TOKENIZERS:
        found.append(_unknown(Rule.PRE_NAME, f"pre-tokenizer {model.pre!r}", model.role, installed))
    return found


def _unknown(rule: Rule, what: str, role: Role, installed: str | None) -> Finding:
    if installed == VERSION:
        return finding(
            rule,
            Verdict.INCOMPATIBLE,
            f"The llama.cpp of llama-cpp-python {installed} does not know the {role}'s {what}.",
            "It refuses to load the model.",
            role,
        )
    here = f"Here is {installed}, which may know it" if installed else "The one installed may know it"
    return finding(
        rule,
        Verdict.NOTES,
        f"The {role}'s {what} is not in the list of llama-cpp-python {VERSION}, the newest that specdec has.",
        f"{here}; else it refuses to load the model.",
        role,
    )


def cache(model: ModelFacts) -> list[Finding]:
    """Whether the model's cache can drop the tokens that were refused."""
    found = []
    kind = "recurrent" if model.architecture in RECURRENT else "hybrid" if model.architecture in HYBRID else None
    if kind is not None:
        of_target = model.role == "target"
        found.append(
            finding(
                Rule.TARGET_CACHE if of_target else Rule.DRAFT_CACHE,
                Verdict.INCOMPATIBLE,
                f"The {model.role}'s cache cannot drop tokens again: {model.architecture!r} is a {kind} architecture.",
                "Every refused draft token has to be dropped."
                + (" So specdec decodes plainly: no draft model can be used, nor n-gram." if of_target else ""),
                model.role,
            )
        )
    elif model.n_window:
        found.append(
            finding(
                Rule.WINDOW,
                Verdict.COMPATIBLE,
                f"The {model.role} has a sliding window of {model.n_window:,} tokens.",
                "The cache is kept at full size all the same, so that tokens can be dropped again.",
                model.role,
            )
        )
    return found
