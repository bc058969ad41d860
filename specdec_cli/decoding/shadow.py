"""What speculation would have brought: a drafter proposes beside plain decoding, and the text itself is the judge."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from specdec_cli.decoding.contracts import Drafter, Governor, Kind, Plan, Proposal, Round, Sampler
from specdec_cli.decoding.stats import RunStats

_NOTHING = Proposal("none")


@dataclass(frozen=True, slots=True)
class _Pending:
    """A draft that the text has not reached the end of yet."""

    start: int  # length of the context that it was made for
    proposal: Proposal


class Shadow:
    """Follows a plain run. Drafts where a speculative run would have, and counts what that run would have taken.

    A token counts as accepted where the plain run wrote the same one: that is the rule under match and greedy; under reject it
    is an estimate. pass_s: T(n), seconds of a pass of n tokens. stats: of the run that was not made, without its prompt.
    """

    def __init__(self, drafter: Drafter, governor: Governor, pass_s: Callable[[int], float], max_draft: int) -> None:
        self.stats = RunStats()
        self.seconds = 0.0  # of that run's rounds
        self.plain_s = 0.0  # of plain decoding for the same tokens, at the same prices
        self._drafter, self._governor, self._pass_s, self._max_draft = drafter, governor, pass_s, max_draft
        self._pending: _Pending | None = None
        self._n_shown = 0

    def follow(self, context: Sequence[int], sampler: Sampler, left: float) -> None:
        """The plain run has come so far; sampler: as the drafter would be given it. Raises PassAborted."""
        if self._pending is not None:
            n_written = len(context) - self._pending.start
            tokens = self._pending.proposal.tokens
            n_accepted = _n_common(tokens, context[self._pending.start :])
            if n_written <= min(n_accepted, len(tokens)):
                return  # every token so far is as drafted, and the pass would give one more
            self._count(self._pending, n_accepted, context)
        self._pending = _Pending(len(context), self._draft(context, sampler, left))

    def _draft(self, context: Sequence[int], sampler: Sampler, left: float) -> Proposal:
        room = int(min(self._max_draft, left - 1))
        if room < 1:
            return _NOTHING
        offers = self._drafter.offers(context, self._n_shown)
        self._n_shown = len(context)
        plan: Plan = self._governor.plan(room, left, offers)
        if plan.n_max < 1:
            return _NOTHING
        return self._governor.trim(self._drafter.propose(context, self._n_shown, plan, sampler).cut(plan.n_max))

    def _count(self, pending: _Pending, n_accepted: int, context: Sequence[int]) -> None:
        proposal = pending.proposal
        pass_s = self._pass_s(len(proposal) + 1)
        unknown = (math.nan,) * min(n_accepted + 1, len(proposal))  # a plain pass gives no row for a draft
        self.seconds += proposal.pass_s + pass_s
        self.plain_s += (n_accepted + 1) * self._pass_s(1)
        done = Round(
            index=self.stats.n_rounds,
            position=pending.start,
            proposal=proposal,
            n_accepted=n_accepted,
            kind=Kind.BONUS if n_accepted == len(proposal) else Kind.RECOVERED,
            emitted=tuple(context[pending.start : pending.start + n_accepted + 1]),
            text="",
            p=unknown,
            q=unknown,
            width=len(proposal) + 1,
            n_invalid=0,
            draft_s=proposal.pass_s,
            pass_s=pass_s,
            host_s=0.0,
            at_s=self.seconds,
        )
        self.stats.add(done)
        self._governor.observe(done)


def _n_common(drafted: Sequence[int], written: Sequence[int]) -> int:
    """How many of the drafted tokens were written."""
    for i, (x, t) in enumerate(zip(drafted, written, strict=False)):
        if x != t:
            return i
    return min(len(drafted), len(written))
