"""What all generations of a session came to."""

from __future__ import annotations

from dataclasses import dataclass

from specdec_cli.decoding.stats import RunStats, ratio


@dataclass(slots=True)
class SessionStats:
    """Counts over the generations of a session that are over. Rates are None where nothing was counted."""

    n_generations: int = 0
    n_prompt: int = 0  # prompt tokens passed, without those taken over from the cache
    n_reused: int = 0
    n_rounds: int = 0
    n_emitted: int = 0
    n_drafted: int = 0
    n_accepted: int = 0
    prompt_s: float = 0.0
    draft_s: float = 0.0
    pass_s: float = 0.0
    host_s: float = 0.0
    n_after_first: int = 0  # tokens that came after the first round of their generation
    after_first_s: float = 0.0

    def add(self, run: RunStats) -> None:
        """Count a generation that is over."""
        self.n_generations += 1
        self.n_prompt += run.n_prompt
        self.n_reused += run.n_reused
        self.n_rounds += run.n_rounds
        self.n_emitted += run.n_emitted
        self.n_drafted += run.n_drafted
        self.n_accepted += run.n_accepted
        self.prompt_s += run.prompt_s
        self.draft_s += run.draft_s
        self.pass_s += run.pass_s
        self.host_s += run.host_s
        if run.first_s is not None and run.last_s is not None:
            self.n_after_first += run.n_emitted - run.n_first
            self.after_first_s += run.last_s - run.first_s

    @property
    def acceptance_rate(self) -> float | None:
        """accepted / drafted."""
        return ratio(self.n_accepted, self.n_drafted)

    @property
    def mean_acceptance_length(self) -> float | None:
        """Tokens per target pass: 1 + accepted / rounds."""
        return 1 + self.n_accepted / self.n_rounds if self.n_rounds else None

    @property
    def prompt_tps(self) -> float | None:
        return ratio(self.n_prompt, self.prompt_s)

    @property
    def generation_tps(self) -> float | None:
        """Tokens a second, counted as in RunStats; the time that a program takes between two pieces is part of it."""
        return ratio(self.n_after_first, self.after_first_s)
