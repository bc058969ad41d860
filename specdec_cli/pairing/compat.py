"""Whether a draft speaks its target's language: a graded verdict on two vocabularies, and the ids never to draft."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum, StrEnum

import numpy as np
import numpy.typing as npt

from specdec_cli.errors import PairError
from specdec_cli.gguf.constants import TokenType
from specdec_cli.gguf.parse import StringArray
from specdec_cli.gguf.vocabulary import Vocabulary

Ids = npt.NDArray[np.int64]

# How tokens that stand for nothing are spelled where a file does not type them UNUSED.
_PLACEHOLDER = re.compile(rb"(<\|?|\[)[a-z_]*(unused|reserved|pad|extra|dummy|placeholder)[a-z_]*-?\d+(\|?>|\])", re.IGNORECASE)

_TEXT = frozenset({TokenType.NORMAL, TokenType.BYTE, TokenType.UNDEFINED})
_SPECIAL = frozenset({TokenType.CONTROL, TokenType.UNKNOWN})
_SPELLED = _TEXT | {TokenType.USER_DEFINED}
_ONE_TOKENIZER = "Text is tokenised once, by the target; the draft is given the same ids."
_SWITCH = {True: "yes", False: "no", None: "not said"}


class Verdict(IntEnum):
    """How well a draft suits a target; the largest severity among the findings decides."""

    COMPATIBLE = 0  # nothing that matters
    NOTES = 1  # usable, and a person should know what differs
    PARTIAL = 2  # usable in part: some real text is never drafted
    INCOMPATIBLE = 3


class Rule(StrEnum):
    """What a finding is about."""

    TOKENIZER = "tokenizer"  # kinds of tokenizer
    TEXT = "text"  # tokens of text
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


@dataclass(frozen=True, eq=False)
class Finding:
    """One difference between two vocabularies."""

    rule: Rule
    severity: Verdict
    sentence: str
    why: str  # it matters, or not
    ids: Ids  # the tokens concerned, rising; empty where it is about the whole


@dataclass(frozen=True, eq=False)
class Compatibility:
    """What came of comparing a target's vocabulary with a draft's."""

    findings: tuple[Finding, ...]
    n_target: int
    n_draft: int
    undraftable: Ids  # below n_shared, rising: never to be drafted

    @property
    def verdict(self) -> Verdict:
        return max((finding.severity for finding in self.findings), default=Verdict.COMPATIBLE)

    @property
    def n_shared(self) -> int:
        """Ids that both vocabularies have."""
        return min(self.n_target, self.n_draft)

    @property
    def n_draftable(self) -> int:
        return self.n_shared - len(self.undraftable)

    def forbidden(self, n: int) -> npt.NDArray[np.bool_]:
        """Which of the ids 0 to n - 1 must never be drafted; (n,)."""
        mask = np.arange(n) >= self.n_shared
        mask[self.undraftable[self.undraftable < n]] = True
        return mask


def compare(target: Vocabulary, draft: Vocabulary) -> Compatibility:
    """Compare two vocabularies, token by token and rule by rule."""
    n = min(target.n_vocab, draft.n_vocab)
    shared, undraftable = _shared_tokens(target, draft, n)
    findings = [*_tokenizer(target, draft), *shared, *_tail(target, draft), *_rules(target, draft)]
    return Compatibility(tuple(findings), target.n_vocab, draft.n_vocab, undraftable)


def require_compatible(
    target: Vocabulary, draft: Vocabulary, target_name: str, draft_name: str, force: bool = False
) -> Compatibility:
    """The verdict on a pair that may be used. Raises PairError for one that may not, unless forced.

    A forced pair is safe: every id that the two read otherwise is among the undraftable ones.
    """
    result = compare(target, draft)
    if result.verdict < Verdict.INCOMPATIBLE or force:
        return result
    worst = [finding for finding in result.findings if finding.severity == Verdict.INCOMPATIBLE]
    raise PairError(
        f"The draft {draft_name} does not fit the target {target_name}.",
        " ".join(finding.sentence for finding in worst),
        "Choose a draft of the target's own family, or use --draft ngram, which needs no second model. With --force only"
        f" the {result.n_draftable:,} ids that agree are drafted; the text is still the target's.",
    )


def _tokenizer(target: Vocabulary, draft: Vocabulary) -> list[Finding]:
    if target.model == draft.model:
        return []
    return [
        _finding(
            Rule.TOKENIZER,
            Verdict.INCOMPATIBLE,
            f"The target's tokenizer is {target.model!r}, the draft's is {draft.model!r}.",
            "The same id means another text in each.",
        )
    ]


def _shared_tokens(target: Vocabulary, draft: Vocabulary, n: int) -> tuple[list[Finding], Ids]:
    """What differs among the ids that both have, and which of these must not be drafted."""
    differ = _differing(target, draft, n)
    pad_t, pad_d = _padding(target, differ, n), _padding(draft, differ, n)
    text_t, text_d = _of_type(target, _TEXT, n) & ~pad_t, _of_type(draft, _TEXT, n) & ~pad_d
    special_t, special_d = _of_type(target, _SPECIAL, n) & ~pad_t, _of_type(draft, _SPECIAL, n) & ~pad_d
    either_pad, both_pad = pad_t | pad_d, pad_t & pad_d
    either_special = special_t | special_d

    unused = (differ & either_pad & ~both_pad) & (text_t | text_d)
    other_control = (differ & ~either_pad & either_special) & ~(text_t | text_d)
    typed_otherwise = ~differ & ~either_pad & (special_t != special_d)
    control = other_control | typed_otherwise | (differ & either_pad & ~both_pad & ~unused)
    text = differ & ~either_pad & ~other_control

    found = []
    if text.any():
        found.append(_text_finding(target, draft, np.flatnonzero(text)))
    if control.any():
        found.append(_control_finding(target, draft, np.flatnonzero(control)))
    if unused.any():
        found.append(_unused_finding(target, draft, np.flatnonzero(unused), pad_t))
    undraftable = text | control | unused | either_pad
    if undraftable.all():
        found.append(
            _finding(Rule.TEXT, Verdict.INCOMPATIBLE, "No token of the draft can be used.", "There is nothing to draft.")
        )
    return found, np.flatnonzero(undraftable).astype(np.int64)


def _text_finding(target: Vocabulary, draft: Vocabulary, ids: Ids) -> Finding:
    return _finding(
        Rule.TEXT,
        Verdict.INCOMPATIBLE,
        f"{_count(ids, 'token')} of text {_differs(ids)}; {_first(target, draft, ids)}.",
        "The draft would propose other text than it means.",
        ids,
    )


def _control_finding(target: Vocabulary, draft: Vocabulary, ids: Ids) -> Finding:
    return _finding(
        Rule.CONTROL,
        Verdict.NOTES,
        f"{_count(ids, 'control token')} {_differs(ids)}; {_first(target, draft, ids)}.",
        "These are never drafted; the target writes them itself.",
        ids,
    )


def _unused_finding(target: Vocabulary, draft: Vocabulary, ids: Ids, pad_t: npt.NDArray[np.bool_]) -> Finding:
    where = "the target" if pad_t[ids].all() else "the draft" if not pad_t[ids].any() else "one of the two"
    return _finding(
        Rule.UNUSED,
        Verdict.PARTIAL,
        f"{_count(ids, 'token')} of text {'is' if len(ids) == 1 else 'are'} padding in {where}; {_first(target, draft, ids)}.",
        "These are never drafted.",
        ids,
    )


def _tail(target: Vocabulary, draft: Vocabulary) -> list[Finding]:
    """What the larger vocabulary has beyond the smaller one."""
    n = min(target.n_vocab, draft.n_vocab)
    larger, owner = (target, "target") if target.n_vocab > n else (draft, "draft")
    beyond = np.arange(larger.n_vocab) >= n
    pad = _padding(larger, beyond, larger.n_vocab) & beyond
    special = _of_type(larger, _SPECIAL, larger.n_vocab) & beyond & ~pad
    text = beyond & ~pad & ~special
    gap = "The draft does not have them." if owner == "target" else "The target does not have them."
    kinds: list[tuple[npt.NDArray[np.bool_], Rule, Verdict, str, str]] = [
        (text, Rule.EXTRA_TEXT, Verdict.PARTIAL, "text token", f"{gap} They are never drafted."),
        (special, Rule.EXTRA_CONTROL, Verdict.NOTES, "control token", f"{gap} They are never drafted."),
        (pad, Rule.PADDING, Verdict.COMPATIBLE, "padding token", "They stand for no text and are never drafted."),
    ]
    return [
        _finding(
            rule,
            severity,
            f"The {owner} has {_count(ids, noun)} more, from id {ids[0]:,} ({larger.shown(int(ids[0]))}).",
            why,
            ids,
        )
        for chosen, rule, severity, noun, why in kinds
        if len(ids := np.flatnonzero(chosen))
    ]


def _rules(target: Vocabulary, draft: Vocabulary) -> list[Finding]:
    """Everything beside the tokens. None of it can make a pair unusable: the draft is given the target's ids."""
    pre_t, pre_d = target.pre or "default", draft.pre or "default"
    found = []
    if pre_t != pre_d:
        found.append(
            _finding(
                Rule.PRE,
                Verdict.NOTES,
                f"The target's pre-tokenizer is {pre_t!r}, the draft's is {pre_d!r}.",
                "Only the target's is used. The draft may see text cut in ways that it was not trained on, and agree less.",
            )
        )
    told = [
        (
            Rule.MERGES,
            target.merges is None or draft.merges is None or target.merges == draft.merges,
            f"The merge rules differ: {_size(target.merges)} in the target, {_size(draft.merges)} in the draft.",
            _ONE_TOKENIZER,
        ),
        (Rule.SCORES, _same_scores(target, draft), "The scores of the tokens differ.", _ONE_TOKENIZER),
        (
            Rule.EOS,
            target.eos == draft.eos,
            f"The end tokens differ: {_named(target, target.eos)} in the target, {_named(draft, draft.eos)} in the draft.",
            "The target's end tokens decide where the text ends.",
        ),
        (
            Rule.BOS,
            target.bos == draft.bos,
            f"The start tokens differ: {_named(target, target.bos)} in the target, {_named(draft, draft.bos)} in the draft.",
            _ONE_TOKENIZER,
        ),
        (
            Rule.ADD_BOS,
            target.add_bos == draft.add_bos,
            "A start token before each text:"
            f" {_SWITCH[target.add_bos]} for the target, {_SWITCH[draft.add_bos]} for the draft.",
            _ONE_TOKENIZER,
        ),
    ]
    return found + [_finding(rule, Verdict.COMPATIBLE, text, why) for rule, same, text, why in told if not same]


def _differing(target: Vocabulary, draft: Vocabulary, n: int) -> npt.NDArray[np.bool_]:
    """Which of the first n ids the two read otherwise. One comparison of bytes settles the usual case."""
    a, b = target.tokens, draft.tokens
    if a.raw[: len(b.raw)] == b.raw[: len(a.raw)]:
        differ = np.zeros(n, np.bool_)
    else:
        pairs = zip(a.items, b.items, strict=False)
        differ = np.fromiter((one != other for one, other in pairs), np.bool_, n)
    # Spelling and type together make the text: "<0x0A>" is a newline as a byte token and six letters as any other, and a
    # user-defined token spells its spaces plainly.
    plain_t, plain_d = _of_type(target, _SPELLED, n), _of_type(draft, _SPELLED, n)
    for i in np.flatnonzero(plain_t & plain_d & (target.types[:n] != draft.types[:n])):
        differ[i] = target.piece(int(i)) != draft.piece(int(i))
    return differ


def _padding(vocabulary: Vocabulary, where: npt.NDArray[np.bool_], n: int) -> npt.NDArray[np.bool_]:
    """Which of the first n ids stand for nothing. Spellings are looked at only where asked."""
    pad: npt.NDArray[np.bool_] = vocabulary.types[:n] == TokenType.UNUSED
    tokens = vocabulary.tokens.items
    for i in np.flatnonzero(where & ~pad):
        token = tokens[i]
        pad[i] = not token or _PLACEHOLDER.fullmatch(token) is not None
    return pad


def _of_type(vocabulary: Vocabulary, types: frozenset[TokenType], n: int) -> npt.NDArray[np.bool_]:
    return np.isin(vocabulary.types[:n], [int(kind) for kind in types])


def _same_scores(target: Vocabulary, draft: Vocabulary) -> bool:
    n = min(target.n_vocab, draft.n_vocab)
    return target.scores is None or draft.scores is None or np.array_equal(target.scores[:n], draft.scores[:n])


def _size(merges: StringArray | None) -> str:
    return f"{len(merges or ()):,}"


def _finding(rule: Rule, severity: Verdict, sentence: str, why: str, ids: Ids | None = None) -> Finding:
    return Finding(rule, severity, sentence, why, np.empty(0, np.int64) if ids is None else ids)


def _first(target: Vocabulary, draft: Vocabulary, ids: Ids) -> str:
    """The first of the ids, as each of the two reads it."""
    i = int(ids[0])
    one, other = target.shown(i), draft.shown(i)
    if one == other or target.tokens[i] == draft.tokens[i]:
        one += f" ({_spelled(target, i)})"
        other += f" ({_spelled(draft, i)})"
    return f"the first is id {i:,}: {one} in the target, {other} in the draft"


def _spelled(vocabulary: Vocabulary, token: int) -> str:
    return f"{TokenType(int(vocabulary.types[token])).name} {vocabulary.tokens[token]!r}"


def _named(vocabulary: Vocabulary, token: int | None) -> str:
    return "none given" if token is None else f"{token:,} {vocabulary.shown(token)}"


def _count(ids: Ids, noun: str) -> str:
    return f"{len(ids):,} {noun}{'' if len(ids) == 1 else 's'}"


def _differs(ids: Ids) -> str:
    return "differs" if len(ids) == 1 else "differ"
