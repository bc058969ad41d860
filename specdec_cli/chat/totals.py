"""What a whole chat came to: counts over its turns, by drafter, and how far the governor drafted."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from specdec_cli.decoding.contracts import Round
from specdec_cli.decoding.stats import RunStats


@dataclass(slots=True)
class DrafterTotals:
    """What one drafter did."""

    n_rounds: int = 0
    n_drafted: int = 0
    n_accepted: int = 0
    draft_s: float = 0.0


@dataclass(slots=True)
class Totals:
    """Counts since the chat began."""

    n_turns: int = 0
    n_prompt: int = 0
    n_reused: int = 0
    n_passed: int = 0
    n_fed: int = 0
    n_emitted: int = 0
    prompt_s: float = 0.0
    decode_s: float = 0.0  # of all rounds
    drafters: dict[str, DrafterTotals] = field(default_factory=dict)
    lengths: Counter[int] = field(default_factory=Counter)  # draft length -> rounds; 0 is a plain round

    def add_round(self, done: Round) -> None:
        """Count a round by who drafted, and how far."""
        self.lengths[done.n_drafted] += 1
        if done.n_drafted:
            drafter = self.drafters.setdefault(done.proposal.drafter, DrafterTotals())
            drafter.n_rounds += 1
            drafter.n_drafted += done.n_drafted
            drafter.n_accepted += done.n_accepted
            drafter.draft_s += done.draft_s

    def add_turn(self, stats: RunStats, n_prompt: int, n_reused: int, n_passed: int, n_fed: int) -> None:
        """Count a turn that is over."""
        self.n_turns += 1
        self.n_prompt += n_prompt
        self.n_reused += n_reused
        self.n_passed += n_passed
        self.n_fed += n_fed
        self.n_emitted += stats.n_emitted
        self.prompt_s += stats.prompt_s
        self.decode_s += stats.draft_s + stats.pass_s + stats.host_s
