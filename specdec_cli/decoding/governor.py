"""How far to draft: the fixed choice."""

from __future__ import annotations

from specdec_cli.decoding.contracts import Plan, Proposal, Round


class FixedGovernor:
    """Drafts the same length in every round, as far as there is room."""

    def __init__(self, n_max: int, n_min: int = 0, p_min: float = 0.0) -> None:
        self._plan = Plan(n_max, n_min, p_min)

    def plan(self, room: int) -> Plan:
        if room >= self._plan.n_max:
            return self._plan
        return Plan(max(room, 0), self._plan.n_min, self._plan.p_min)

    def trim(self, proposal: Proposal) -> Proposal:
        return proposal

    def observe(self, done: Round) -> None:
        """A fixed choice learns nothing."""
