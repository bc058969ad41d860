"""Several drafters as one: each round the governor's plan names the one that proposes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from specdec_cli.decoding.contracts import Drafter, Offer, PassResult, Plan, Proposal, Sampler, Verdict


class SeveralDrafters:
    """All are shown each context when they are asked for offers, so none loses track while another drafts."""

    def __init__(self, drafters: Sequence[Drafter]) -> None:
        self._drafters = {drafter.name: drafter for drafter in drafters}
        self._last = next(iter(self._drafters))

    @property
    def name(self) -> str:
        return ",".join(self._drafters)

    def offers(self, context: Sequence[int], changed: int) -> Mapping[str, Offer]:
        found: dict[str, Offer] = {}
        for drafter in self._drafters.values():
            found |= drafter.offers(context, changed)
        return found

    def propose(self, context: Sequence[int], changed: int, plan: Plan, sampler: Sampler) -> Proposal:
        self._last = plan.drafter or self._last
        return self._drafters[self._last].propose(context, changed, plan, sampler)

    def observe(self, result: PassResult, verdict: Verdict) -> None:
        self._drafters[self._last].observe(result, verdict)

    def settle(self, n: int) -> None:
        for drafter in self._drafters.values():
            drafter.settle(n)
