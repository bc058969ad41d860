"""A governor whose clock is a table, so that a run on fakes is the same every time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from specdec_cli.decoding.contracts import Proposal, Round
from specdec_cli.decoding.costs import CostCurve
from specdec_cli.decoding.governor import Account, Governor


class PricedGovernor(Governor):
    """The real one, told that a pass of n tokens took pass_s(n), and a row of a drafter what its account began with."""

    def __init__(
        self,
        pass_s: Callable[[int], float],
        accounts: Mapping[str, Account],
        n_max: int,
        n_min: int = 0,
        p_min: float = 0.0,
        *,
        trims: bool,
    ) -> None:
        costs = CostCurve({n: pass_s(n) for n in range(1, n_max + 2)})
        super().__init__(costs, accounts, n_max, n_min, p_min, trims=trims)
        self._pass_s = pass_s
        self._step_s = {name: account.step_s for name, account in accounts.items()}
        self.seen: list[Round] = []

    def observe(self, done: Round) -> None:
        self.seen.append(done)
        proposal = replace(self._priced(done.proposal), parts=tuple(self._priced(part) for part in done.proposal.parts))
        super().observe(replace(done, proposal=proposal, pass_s=self._pass_s(done.width), draft_s=0.0, host_s=0.0))

    def _priced(self, proposal: Proposal) -> Proposal:
        """draft_s is left out: the governor reads what each part says that it cost."""
        return replace(proposal, pass_s=self._step_s.get(proposal.drafter, 0.0) * proposal.n_passes, feed_s=0.0)
