"""What a judgement is made of: findings, each with the rule it is about, how bad it is, and why it matters or not."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum

import numpy as np
import numpy.typing as npt

from specdec_cli.gguf.constants import Role

Ids = npt.NDArray[np.int64]

N_EXAMPLES = 5  # differing tokens that a finding shows


class Verdict(IntEnum):
    """How well a draft suits a target; the largest severity among the findings decides."""

    COMPATIBLE = 0  # nothing that matters
    NOTES = 1  # usable, and a person should know what differs
    PARTIAL = 2  # usable in part: some real text is never drafted
    INCOMPATIBLE = 3


class Rule(StrEnum):
    """What a finding is about."""

    # The two vocabularies.
    TOKENIZER = "tokenizer"  # kinds of tokenizer
    TEXT = "text"  # tokens of text
    READING = "reading"  # tokens spelled alike and read otherwise, because their types differ
    ADDED = "added"  # tokens that were added to the vocabulary by whoever trained on
    CONTROL = "control"  # control tokens
    UNUSED = "unused"  # text in one, padding in the other
    PADDING = "padding"  # one vocabulary ends in more padding
    EXTRA_CONTROL = "extra control"  # one vocabulary has more control tokens
    EXTRA_TEXT = "extra text"  # one vocabulary has more text tokens
    PRE = "pre"  # pre-tokenizers
    MERGES = "merges"
    SCORES = "scores"
    EOS = "eos"
    BOS = "bos"
    ADD_BOS = "add bos"
    ADD_EOS = "add eos"
    ENDS = "ends"  # all that ends a generation
    # The models around them.
    KIND = "kind"  # a file that cannot write text
    WEIGHTS = "weights"  # a file of a vocabulary only
    HEAD = "head"  # a draft head
    HEAD_FIT = "head fit"  # and whether it belongs to the target
    ARCHITECTURE = "architecture"  # one that llama.cpp may not know
    PRE_NAME = "pre name"  # a pre-tokenizer that llama.cpp may not know
    TOKENIZER_NAME = "tokenizer name"
    TARGET_CACHE = "target cache"  # cannot drop tokens again
    DRAFT_CACHE = "draft cache"
    WINDOW = "window"  # attention looks back so far only
    CONTEXT = "context"  # trained lengths
    TEMPLATE = "template"
    SIZE = "size"  # what a token costs in each
    INNER_HEAD = "inner head"  # layers inside that predict more tokens


@dataclass(frozen=True, slots=True)
class Example:
    """A token as each of the two reads it; None where one has no such id."""

    token: int
    target: str | None
    draft: str | None


@dataclass(frozen=True, eq=False)
class Finding:
    """One thing that somebody who pairs two models may want to know."""

    rule: Rule
    severity: Verdict
    sentence: str
    why: str  # it matters, or not
    ids: Ids  # the tokens concerned, rising; empty where it is about the whole
    examples: tuple[Example, ...] = ()  # the first of them
    about: Role | None = None  # the model that it is about, where it is one alone


def finding(rule: Rule, severity: Verdict, sentence: str, why: str, about: Role | None = None) -> Finding:
    """A finding that is about no tokens."""
    return Finding(rule, severity, sentence, why, np.empty(0, np.int64), about=about)
