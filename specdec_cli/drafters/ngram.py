"""Drafts without a model: what followed the last tokens where they occurred before, in prompt and output, or in a corpus."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from specdec_cli.decoding.contracts import Constraint, Offer, PassResult, Plan, Proposal, Sampler, Verdict
from specdec_cli.drafters import NGRAM
from specdec_cli.drafters.occurrences import LENGTHS, Corpus, Growing, Occurrences

N_MATCHED = 32  # tokens of a match that are compared; a draft makes it longer
_HARDLY = 0.03  # chance of being reached below which a token is not looked up
N_LENGTHS = 2  # lengths of runs, the longest that occurred, that have a say
_AGAINST, _SHORT, _STRANGE = 2.0, 2.6, 2.0  # what certainty falls with; from measured rates of acceptance


@dataclass(frozen=True, slots=True)
class _Places:
    """Where to copy from: places in one text, the latest first, each with the length of its match."""

    text: Occurrences
    found: list[tuple[int, int]]
    strange: bool = False  # another text than the context

    def vote(self, drafted: Sequence[int]) -> tuple[float, int, _Places]:
        """The certainty and token of the majority (of the latest place, where there is none), and who voted for it, one
        token on. A place past the text's end reads from the draft."""
        n_text = len(self.text)
        said = [self.text[at] if at < n_text else drafted[at - n_text] for at, _ in self.found]
        token = max(said, key=said.count)
        on = [(at + 1, n + 1) for (at, n), one in zip(self.found, said, strict=True) if one == token]
        length = max(n for _, n in on) - 1
        return (
            certainty(length, len(on), len(said) - len(on), strange=self.strange),
            token,
            _Places(self.text, on, self.strange),
        )


class NgramDrafter:
    """Copies from up to four places at once, and follows the majority.

    For each token of a draft, these have a say: the places that it was copying from; and for each of the two longest runs
    at the text's end that occurred before, their latest four places. In a corpus the longest run counts, where it
    is longer than any in the context itself. Each of these groups names the token that most of its places go on with, and
    how certain that is; the most certain group is followed (of equals the one named first here), and those of its places
    that go on otherwise are left. The work of a round does not grow with the context.
    """

    name = NGRAM

    def __init__(self, corpus: Sequence[int] = ()) -> None:
        """corpus: tokens of a text to copy from, beside the context."""
        self._seen = Growing()
        self._corpus = Corpus(corpus) if corpus else None

    def offers(self, context: Sequence[int], changed: int) -> Mapping[str, Offer]:
        """Something where there is a match, with what that match promises."""
        self._seen.follow(context, changed)
        first = next(self._draft(), None)
        return {self.name: Offer(first[1])} if first is not None else {}

    def propose(self, context: Sequence[int], changed: int, plan: Plan, sampler: Sampler) -> Proposal:
        """Copy up to plan.n_max tokens; see the class, and Drafter.propose.

        The governor's reins are not asked token by token: a token costs nothing here, nothing of it is left to chance, and
        trimming the whole draft sees more than a decision at each step. Only what will hardly be reached is not looked up.
        """
        self._seen.follow(context, changed)
        constraint = sampler.constraint.copy() if sampler.constraint is not None else None
        tokens: list[int] = []
        peaks: list[float] = []
        reached = 1.0
        for token, peak in self._draft():
            reached *= peak
            if plan.reins is not None and reached < _HARDLY:
                break
            if not _takes(constraint, token) or (peak < plan.p_min and len(tokens) >= plan.n_min):
                break
            tokens.append(token)
            peaks.append(peak)
            if len(tokens) == plan.n_max:
                break
        n = len(tokens)
        return Proposal(self.name, tuple(tokens), (None,) * n, tuple(peaks), (math.nan,) * n)

    def observe(self, result: PassResult, verdict: Verdict) -> None:
        """The index is made from the context alone; nothing to do."""

    def settle(self, n: int) -> None:
        """Forget what lies past the first n tokens."""
        self._seen.truncate(n)

    def _draft(self) -> Iterator[tuple[int, float]]:
        """Tokens with their certainties, until nothing is found."""
        end, drafted = self._seen.last(N_MATCHED), list[int]()
        copied: _Places | None = None
        while True:
            groups = [*([copied] if copied is not None else ()), *self._found(end)]
            votes = [group.vote(drafted) for group in groups]
            if not votes:
                return
            peak, token, copied = max(votes, key=lambda vote: vote[0])
            if copied.strange and copied.found[0][0] == len(copied.text):
                copied = None  # at the end of the corpus
            drafted.append(token)
            end.append(token)
            yield token, peak

    def _found(self, end: Sequence[int]) -> Iterator[_Places]:
        """The groups of places where the end of the text occurred before."""
        longest = 0
        for i, (length, places) in enumerate(self._seen.find(end)):
            longest = max(longest, length)
            yield _Places(self._seen, [(at, _matched(self._seen, at, end, length)) for at in places])
            if i + 1 == N_LENGTHS:
                break
        if self._corpus is not None and longest < LENGTHS[0]:
            length, places = next(self._corpus.find(end), (0, []))
            if length > longest:
                yield _Places(self._corpus, [(at, _matched(self._corpus, at, end, length)) for at in places], strange=True)


def certainty(n_matched: int, n_for: int, n_against: int, *, strange: bool = False) -> float:
    """About how often such a token is accepted: rises with the length of the match and the places that agree, falls with
    those that do not, and is lower for another text."""
    return n_for / (n_for + _AGAINST * n_against + _SHORT * (_STRANGE if strange else 1) / n_matched)


def _matched(text: Occurrences, at: int, end: Sequence[int], n: int) -> int:
    """Tokens before a place that are those at the end, of which n are known to be."""
    most = min(N_MATCHED, at, len(end))
    while n < most and text[at - 1 - n] == end[-1 - n]:
        n += 1
    return n


def _takes(constraint: Constraint | None, token: int) -> bool:
    """Whether the constraint allows the token, which it then takes."""
    if constraint is None:
        return True
    if not constraint.allowed(np.array([token]))[0]:
        return False
    constraint.advance(token)
    return True
