"""Statistics of a run: counters are kept, everything else is derived."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from time import perf_counter

from specdec_cli.decoding.contracts import Ended, FinishReason, Kind, PromptPass, Round


def ratio(part: float, whole: float) -> float | None:
    """part / whole; None where there is no whole."""
    return part / whole if whole > 0 else None


@dataclass(slots=True)
class RunStats:
    """Counts of one run. Rates are None where nothing was counted."""

    started_s: float = field(default_factory=perf_counter)
    n_prompt: int = 0  # prompt tokens passed, without those taken over from the cache
    n_reused: int = 0
    prompt_s: float = 0.0
    n_rounds: int = 0
    n_emitted: int = 0
    n_drafted: int = 0
    n_accepted: int = 0
    n_invalid: int = 0
    n_recovered: int = 0
    n_bonus: int = 0
    n_drafting_rounds: int = 0
    draft_s: float = 0.0
    pass_s: float = 0.0
    host_s: float = 0.0
    n_verified_at: Counter[int] = field(default_factory=Counter)  # rounds that judged position i
    n_accepted_at: Counter[int] = field(default_factory=Counter)
    drafters: Counter[str] = field(default_factory=Counter)  # rounds whose draft each drafter began
    n_drafted_by: Counter[str] = field(default_factory=Counter)  # tokens of each drafter, wherever in a draft
    n_accepted_by: Counter[str] = field(default_factory=Counter)
    finish: FinishReason | None = None
    n_first: int = 0  # tokens of the first round
    first_s: float | None = None
    last_s: float | None = None

    def add(self, event: PromptPass | Round | Ended) -> None:
        """Count one event of a run."""
        match event:
            case PromptPass():
                self.n_reused = event.n_reused
                self.n_prompt = event.n_done - event.n_reused
                self.prompt_s += event.seconds
            case Round():
                self._add_round(event)
            case Ended():
                self.finish = event.finish

    def _add_round(self, done: Round) -> None:
        if self.first_s is None:
            self.first_s = done.at_s
            self.n_first = len(done.emitted)
        self.last_s = done.at_s
        self.n_rounds += 1
        self.n_emitted += len(done.emitted)
        self.n_drafted += done.n_drafted
        self.n_accepted += done.n_accepted
        self.n_invalid += done.n_invalid
        self.n_recovered += done.kind is Kind.RECOVERED
        self.n_bonus += done.kind is Kind.BONUS and done.n_drafted > 0
        self.n_drafting_rounds += done.n_drafted > 0
        self.draft_s += done.draft_s
        self.pass_s += done.pass_s
        self.host_s += done.host_s
        self.n_verified_at.update(range(len(done.p)))
        self.n_accepted_at.update(range(done.n_accepted))
        if done.n_drafted:
            self.drafters[done.proposal.drafter] += 1
        left = done.n_accepted
        for part in done.proposal.by_drafter:
            if part:
                self.n_drafted_by[part.drafter] += len(part)
                self.n_accepted_by[part.drafter] += max(min(left, len(part)), 0)
            left -= len(part)

    @property
    def acceptance_rate(self) -> float | None:
        """accepted / drafted."""
        return ratio(self.n_accepted, self.n_drafted)

    @property
    def mean_acceptance_length(self) -> float | None:
        """Tokens per target pass: 1 + accepted / rounds."""
        return 1 + self.n_accepted / self.n_rounds if self.n_rounds else None

    @property
    def acceptance_by_position(self) -> list[float]:
        """accepted at i / rounds that verified i, for i = 0, 1, ..."""
        return [self.n_accepted_at[i] / n for i, n in sorted(self.n_verified_at.items())]

    @property
    def ttft_s(self) -> float | None:
        """Seconds to the first token, prompt pass included."""
        return self.first_s - self.started_s if self.first_s is not None else None

    @property
    def prompt_tps(self) -> float | None:
        return ratio(self.n_prompt, self.prompt_s)

    @property
    def generation_tps(self) -> float | None:
        """Tokens after the first round / seconds since it. Plain decoding's first round is its first token, so there this
        is (n - 1) / time from first to last token, as llama-server counts."""
        if self.first_s is None or self.last_s is None or self.last_s <= self.first_s:
            return None
        return ratio(self.n_emitted - self.n_first, self.last_s - self.first_s)
