"""Whether a draft speaks its target's language: a graded verdict on two vocabularies, and the ids never to draft."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from specdec_cli.gguf.constants import TokenType
from specdec_cli.gguf.parse import StringArray
from specdec_cli.gguf.vocabulary import Vocabulary
from specdec_cli.pairing.findings import N_EXAMPLES, Example, Finding, Ids, Rule, finding
from specdec_cli.pairing.findings import Verdict as Verdict

# How tokens that stand for nothing are spelled where a file does not type them UNUSED.
_PLACEHOLDER = re.compile(rb"(<\|?|\[)[a-z_]*(unused|reserved|pad|extra|dummy|placeholder)[a-z_]*-?\d+(\|?>|\])", re.IGNORECASE)

_TEXT = frozenset({TokenType.NORMAL, TokenType.BYTE, TokenType.UNDEFINED})
_SPECIAL = frozenset({TokenType.CONTROL, TokenType.UNKNOWN})
_SPELLED = _TEXT | {TokenType.USER_DEFINED}
_ADDED = frozenset({TokenType.USER_DEFINED})
_ONE_TOKENIZER = "Text is tokenised once, by the target; the draft is given the same ids."
_OTHER_CUTS = "Only the target's is used. The draft may see text cut in ways that it was not trained on, and agree less."
_SWITCH = {True: "yes", False: "no", None: "not said"}
_BYTE_LEVEL = "gpt2"
_N_UNCOMPARED = 5  # the first ids, which llama.cpp's own rule passes over (SPEC_VOCAB_CHECK_START_TOKEN_ID)


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
    other_text = any(found.severity is Verdict.INCOMPATIBLE for found in shared)
    findings = [*_tokenizer(target, draft, other_text), *shared, *_tail(target, draft), *_rules(target, draft)]
    return Compatibility(tuple(findings), target.n_vocab, draft.n_vocab, undraftable)


def _tokenizer(target: Vocabulary, draft: Vocabulary, other_text: bool) -> list[Finding]:
    """Kinds of tokenizer. Where all text agrees token by token, how it would have been cut is no bar."""
    if target.model == draft.model:
        return []
    sentence = f"The target's tokenizer is {target.model!r}, the draft's is {draft.model!r}."
    if other_text:
        return [finding(Rule.TOKENIZER, Verdict.INCOMPATIBLE, sentence, "The same id means another text in each.")]
    return [finding(Rule.TOKENIZER, Verdict.NOTES, sentence, f"The same id means the same text in each. {_OTHER_CUTS}")]


def _shared_tokens(target: Vocabulary, draft: Vocabulary, n: int) -> tuple[list[Finding], Ids]:
    """What differs among the ids that both have, and which of these must not be drafted."""
    spelled, differ = _differing(target, draft, n)
    pad_t, pad_d = padding(target, differ, n), padding(draft, differ, n)
    text_t, text_d = _of_type(target, _TEXT, n) & ~pad_t, _of_type(draft, _TEXT, n) & ~pad_d
    special_t, special_d = _of_type(target, _SPECIAL, n) & ~pad_t, _of_type(draft, _SPECIAL, n) & ~pad_d
    either_pad, both_pad = pad_t | pad_d, pad_t & pad_d
    either_special = special_t | special_d

    unused = (differ & either_pad & ~both_pad) & (text_t | text_d)
    other_control = (differ & ~either_pad & either_special) & ~(text_t | text_d)
    typed_otherwise = ~differ & ~either_pad & (special_t != special_d)
    control = other_control | typed_otherwise | (differ & either_pad & ~both_pad & ~unused)
    added = differ & ~either_pad & _of_type(target, _ADDED, n) & _of_type(draft, _ADDED, n)
    text = differ & ~either_pad & ~other_control & ~added

    found = []
    if (text & spelled).any():
        found.append(_text_finding(target, draft, np.flatnonzero(text & spelled)))
    if (text & ~spelled).any():
        found.append(_reading_finding(target, draft, np.flatnonzero(text & ~spelled)))
    if added.any():
        found.append(_added_finding(target, draft, np.flatnonzero(added)))
    if control.any():
        found.append(_control_finding(target, draft, np.flatnonzero(control)))
    if unused.any():
        found.append(_unused_finding(target, draft, np.flatnonzero(unused), pad_t))
    undraftable = text | added | control | unused | either_pad
    if undraftable.all():
        found.append(
            finding(Rule.TEXT, Verdict.INCOMPATIBLE, "No token of the draft can be used.", "There is nothing to draft.")
        )
    return found, np.flatnonzero(undraftable).astype(np.int64)


def _text_finding(target: Vocabulary, draft: Vocabulary, ids: Ids) -> Finding:
    few = bool(ids[-1] < _N_UNCOMPARED)
    return _about_tokens(
        Rule.TEXT,
        Verdict.PARTIAL if few else Verdict.INCOMPATIBLE,
        f"{_count(ids, 'token')} of text {_differs(ids)}; {_first(target, draft, ids)}.",
        "Never drafted; all other text agrees." if few else "The draft would propose other text than it means.",
        target,
        draft,
        ids,
    )


def _reading_finding(target: Vocabulary, draft: Vocabulary, ids: Ids) -> Finding:
    return _about_tokens(
        Rule.READING,
        Verdict.PARTIAL,
        f"{_count(ids, 'token')} of text {'is' if len(ids) == 1 else 'are'} spelled alike and read otherwise;"
        f" {_first(target, draft, ids)}.",
        "Never drafted.",
        target,
        draft,
        ids,
    )


def _added_finding(target: Vocabulary, draft: Vocabulary, ids: Ids) -> Finding:
    return _about_tokens(
        Rule.ADDED,
        Verdict.PARTIAL,
        f"{_count(ids, 'added token')} {_differs(ids)}; {_first(target, draft, ids)}.",
        "Never drafted: models of one vocabulary add tokens of their own, for tools or for thinking.",
        target,
        draft,
        ids,
    )


def _control_finding(target: Vocabulary, draft: Vocabulary, ids: Ids) -> Finding:
    return _about_tokens(
        Rule.CONTROL,
        Verdict.NOTES,
        f"{_count(ids, 'control token')} {_differs(ids)}; {_first(target, draft, ids)}.",
        "Never drafted; the target writes what it needs of them itself.",
        target,
        draft,
        ids,
    )


def _unused_finding(target: Vocabulary, draft: Vocabulary, ids: Ids, pad_t: npt.NDArray[np.bool_]) -> Finding:
    where = "the target" if pad_t[ids].all() else "the draft" if not pad_t[ids].any() else "one of the two"
    return _about_tokens(
        Rule.UNUSED,
        Verdict.PARTIAL,
        f"{_count(ids, 'token')} of text {'is' if len(ids) == 1 else 'are'} padding in {where}; {_first(target, draft, ids)}.",
        "Never drafted.",
        target,
        draft,
        ids,
    )


def _tail(target: Vocabulary, draft: Vocabulary) -> list[Finding]:
    """What the larger vocabulary has beyond the smaller one."""
    n = min(target.n_vocab, draft.n_vocab)
    larger, owner = (target, "target") if target.n_vocab > n else (draft, "draft")
    beyond = np.arange(larger.n_vocab) >= n
    pad = padding(larger, beyond, larger.n_vocab) & beyond
    special = _of_type(larger, _SPECIAL, larger.n_vocab) & beyond & ~pad
    text = beyond & ~pad & ~special
    gap = f"Never drafted: the {'draft' if owner == 'target' else 'target'} has no such ids."
    kinds: list[tuple[npt.NDArray[np.bool_], Rule, Verdict, str, str]] = [
        (text, Rule.EXTRA_TEXT, Verdict.PARTIAL, "text token", gap),
        (special, Rule.EXTRA_CONTROL, Verdict.NOTES, "control token", gap),
        (pad, Rule.PADDING, Verdict.COMPATIBLE, "padding token", "Never drafted: padding stands for no text."),
    ]
    return [
        _about_tokens(
            rule,
            severity,
            f"The {owner} has {_count(ids, noun)} more, from id {ids[0]:,} ({larger.shown(int(ids[0]))}).",
            why,
            target,
            draft,
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
            finding(
                Rule.PRE,
                Verdict.NOTES,
                f"The target's pre-tokenizer is {pre_t!r}, the draft's is {pre_d!r}.",
                _OTHER_CUTS,
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
        (
            Rule.ADD_EOS,
            target.add_eos == draft.add_eos,
            f"An end token after each text: {_SWITCH[target.add_eos]} for the target, {_SWITCH[draft.add_eos]} for the draft.",
            _ONE_TOKENIZER,
        ),
    ]
    return found + [finding(rule, Verdict.COMPATIBLE, text, why) for rule, same, text, why in told if not same]


def _differing(target: Vocabulary, draft: Vocabulary, n: int) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Which of the first n ids the two spell otherwise, and which they read otherwise."""
    a, b = target.tokens, draft.tokens
    if a.raw[: len(b.raw)] == b.raw[: len(a.raw)]:  # the usual case, settled by one comparison of bytes
        spelled = np.zeros(n, np.bool_)
    else:
        pairs = zip(a.items, b.items, strict=False)
        spelled = np.fromiter((one != other for one, other in pairs), np.bool_, n)
    # Spelling, type and tokenizer together make the text: "<0x0A>" is a newline as a byte token and six letters as any
    # other, a user-defined token spells its spaces plainly, and byte-level BPE its letters beyond ASCII otherwise.
    differ = spelled.copy()
    plain = _of_type(target, _SPELLED, n) & _of_type(draft, _SPELLED, n)
    doubtful = plain & (target.types[:n] != draft.types[:n])
    if (target.model == _BYTE_LEVEL) != (draft.model == _BYTE_LEVEL):
        items = a.items
        doubtful |= plain & ~spelled & np.fromiter((not items[i].isascii() for i in range(n)), np.bool_, n)
    for i in np.flatnonzero(doubtful):
        differ[i] = target.piece(int(i)) != draft.piece(int(i))
    return spelled & differ, differ


def padding(vocabulary: Vocabulary, where: npt.NDArray[np.bool_], n: int) -> npt.NDArray[np.bool_]:
    """Which of the first n ids stand for nothing. Spellings are looked at only where asked."""
    pad: npt.NDArray[np.bool_] = vocabulary.types[:n] == TokenType.UNUSED
    for i in np.flatnonzero(where & ~pad):
        token = vocabulary.tokens[int(i)]
        pad[i] = not token or _PLACEHOLDER.fullmatch(token) is not None
    return pad


def _of_type(vocabulary: Vocabulary, types: frozenset[TokenType], n: int) -> npt.NDArray[np.bool_]:
    return np.isin(vocabulary.types[:n], [int(kind) for kind in types])


def _same_scores(target: Vocabulary, draft: Vocabulary) -> bool:
    n = min(target.n_vocab, draft.n_vocab)
    return target.scores is None or draft.scores is None or np.array_equal(target.scores[:n], draft.scores[:n])


def _size(merges: StringArray | None) -> str:
    return f"{len(merges or ()):,}"


def _about_tokens(
    rule: Rule, severity: Verdict, sentence: str, why: str, target: Vocabulary, draft: Vocabulary, ids: Ids
) -> Finding:
    examples = tuple(Example(i, *_both(target, draft, i)) for i in ids[:N_EXAMPLES].tolist())
    return Finding(rule, severity, sentence, why, ids, examples)


def _first(target: Vocabulary, draft: Vocabulary, ids: Ids) -> str:
    """The first of the ids, as each of the two reads it."""
    i = int(ids[0])
    one, other = _both(target, draft, i)
    return f"the first is id {i:,}: {one} in the target, {other} in the draft"


def _both(target: Vocabulary, draft: Vocabulary, i: int) -> tuple[str | None, str | None]:
    """A token as each of the two shows it, with type and spelling where it would look the same."""
    one, other = (side.shown(i) if i < side.n_vocab else None for side in (target, draft))
    if one is not None and other is not None and (one == other or target.tokens[i] == draft.tokens[i]):
        return f"{one} ({_spelled(target, i)})", f"{other} ({_spelled(draft, i)})"
    return one, other


def _spelled(vocabulary: Vocabulary, token: int) -> str:
    return f"{TokenType(int(vocabulary.types[token])).name} {vocabulary.tokens[token]!r}"


def _named(vocabulary: Vocabulary, token: int | None) -> str:
    return "none given" if token is None else f"{token:,} {vocabulary.shown(token)}"


def _count(ids: Ids, noun: str) -> str:
    return f"{len(ids):,} {noun}{'' if len(ids) == 1 else 's'}"


def _differs(ids: Ids) -> str:
    return "differs" if len(ids) == 1 else "differ"
