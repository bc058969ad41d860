"""Several drafters as one: the governor's plan names the one that proposes, and its reins who drafts on behind that one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from specdec_cli.decoding.contracts import Drafter, Offer, PassResult, Plan, Proposal, Sampler, Verdict


class SeveralDrafters:
    """All are shown each context when they are asked for offers, so none loses track while another drafts.

    Who drafts on behind another is shown the drafted tokens as if they were committed; the next time it is shown anything, all
    that was not committed then counts as changed. end_tokens: nobody drafts on behind one.
    """

    def __init__(self, drafters: Sequence[Drafter], end_tokens: frozenset[int] = frozenset()) -> None:
        self._drafters = {drafter.name: drafter for drafter in drafters}
        self._end_tokens = end_tokens
        self._acting = [next(iter(self._drafters))]  # who was asked for a part of the last proposal
        self._text: list[int] = []  # the context, and behind it what was drafted last
        self._n_committed = 0  # of these, tokens of the context
        self._n_known = dict.fromkeys(self._drafters, 0)  # of these, tokens that each was shown as they still are

    @property
    def name(self) -> str:
        return ",".join(self._drafters)

    def offers(self, context: Sequence[int], changed: int) -> Mapping[str, Offer]:
        self._follow(context, changed)
        return self._offers(self._drafters)

    def propose(self, context: Sequence[int], changed: int, plan: Plan, sampler: Sampler) -> Proposal:
        self._follow(context, changed)
        self._acting = [plan.drafter or self._acting[0]]
        proposal = self._propose(self._acting[0], plan, sampler)
        while plan.reins is not None:
            proposal = plan.reins.trim(proposal)
            others = [name for name in self._drafters if name not in self._acting]
            if not others or len(proposal) >= plan.n_max or not self._end_tokens.isdisjoint(proposal.tokens):
                break
            self._text[self._n_committed :] = proposal.tokens
            name = plan.reins.pass_on(proposal, self._offers(others))
            if not name:
                break
            self._acting.append(name)
            more = self._propose(name, plan.behind(proposal, name), _after(sampler, proposal.tokens))
            proposal = proposal.followed_by(more)
        return proposal

    def observe(self, result: PassResult, verdict: Verdict) -> None:
        for name in self._acting:
            self._drafters[name].observe(result, verdict)

    def settle(self, n: int) -> None:
        self._keep(n)
        for drafter in self._drafters.values():
            drafter.settle(n)

    def _follow(self, context: Sequence[int], changed: int) -> None:
        """Become the context, of which nothing below changed differs from the last one."""
        self._keep(changed)
        self._text += context[self._n_committed :]
        self._n_committed = len(self._text)

    def _keep(self, n: int) -> None:
        """Keep the first n tokens, of those that are committed."""
        self._n_committed = min(self._n_committed, n)
        del self._text[self._n_committed :]
        self._n_known = {name: min(n_known, self._n_committed) for name, n_known in self._n_known.items()}

    def _offers(self, names: Iterable[str]) -> dict[str, Offer]:
        found: dict[str, Offer] = {}
        for name in names:
            found |= self._drafters[name].offers(self._text, self._n_known[name])
            self._n_known[name] = self._n_committed
        return found

    def _propose(self, name: str, plan: Plan, sampler: Sampler) -> Proposal:
        proposal = self._drafters[name].propose(self._text, self._n_known[name], plan, sampler)
        self._n_known[name] = self._n_committed
        return proposal


def _after(sampler: Sampler, tokens: Sequence[int]) -> Sampler:
    """The sampler for a place behind drafted tokens."""
    if sampler.constraint is None:
        return sampler
    constraint = sampler.constraint.copy()
    for token in tokens:
        constraint.advance(token)
    return replace(sampler, constraint=constraint)
