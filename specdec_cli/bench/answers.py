"""What a model server answered, with the times of a clock on this side and of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

# Tokens of one pass come as events of their own, one right after the other: nearer than this, or than a share of the usual
# wait where a busy machine holds them up.
_SAME_BURST_S = 5e-4
_SAME_BURST_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class Timings:
    """What the server itself measured. prompt_n: tokens it passed, without those from its cache."""

    prompt_n: int
    prompt_s: float
    predicted_n: int
    predicted_s: float  # from the first token to the last
    draft_n: int | None  # None where it did not draft
    draft_n_accepted: int | None


@dataclass(frozen=True, slots=True)
class Burst:
    """Tokens that came together."""

    at_s: float  # since the request was sent
    n: int


@dataclass(frozen=True, slots=True)
class Answer:
    """One generation, as it came."""

    text: str
    tokens: tuple[int, ...] | None  # None where the server does not tell all of them
    n_prompt: int | None
    n_cached: int
    n_tokens: int
    counted: bool  # by the server; else these are pieces of the stream
    bursts: tuple[Burst, ...]
    finish: str
    sent: float  # time.perf_counter() when the request had been sent
    end: float
    timings: Timings | None = None

    @property
    def ttft_s(self) -> float | None:
        return self.bursts[0].at_s if self.bursts else None

    @property
    def generation_s(self) -> float | None:
        """From the first burst to the last, by the clock on this side."""
        return self.bursts[-1].at_s - self.bursts[0].at_s if len(self.bursts) > 1 else None

    @property
    def generation_tps(self) -> float | None:
        """Tokens after the first burst, per second since it, by the clock on this side."""
        seconds = self.generation_s
        return sum(burst.n for burst in self.bursts[1:]) / seconds if seconds else None

    @property
    def itl_s(self) -> tuple[tuple[float, int], ...]:
        """Of each burst after the first: seconds since the last one, tokens in it."""
        return tuple((b.at_s - a.at_s, b.n) for a, b in pairwise(self.bursts))


def bursts(arrivals: Sequence[tuple[float, int]]) -> tuple[Burst, ...]:
    """Arrivals (seconds, tokens) put together where they came from one pass. Those without tokens are none."""
    known = [(at_s, n) for at_s, n in arrivals if n > 0]
    waits = [b - a for (a, _), (b, _) in pairwise(known) if b - a > _SAME_BURST_S]
    least_s = max(_SAME_BURST_S, _SAME_BURST_SHARE * median(waits)) if waits else _SAME_BURST_S
    found: list[Burst] = []
    last_s = 0.0
    for at_s, n in known:
        if found and at_s - last_s < least_s:
            found[-1] = Burst(found[-1].at_s, found[-1].n + n)
        else:
            found.append(Burst(at_s, n))
        last_s = at_s
    return tuple(found)


def spread_over(arrivals: Sequence[tuple[float, int]], n_tokens: int) -> list[tuple[float, int]]:
    """Arrivals of pieces that hold n_tokens in all: each gets its share, whole tokens, none lost."""
    n_pieces = sum(n for _, n in arrivals)
    if n_pieces == n_tokens or not n_pieces:
        return list(arrivals)
    shared, n_seen, n_given = [], 0, 0
    for at_s, n in arrivals:
        n_seen += n
        share = n_tokens * n_seen // n_pieces - n_given
        n_given += share
        shared.append((at_s, share))
    return shared
