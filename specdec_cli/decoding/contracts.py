"""The words the parts share: frozen records, and the protocols of target, drafter, constraint and governor."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Protocol

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.float32]
Ids = npt.NDArray[np.int64]


class FinishReason(StrEnum):
    """Why a run ended."""

    END = "end"  # an end-of-generation token
    STOP = "stop"  # a stop string
    LENGTH = "length"  # the token budget
    CONTEXT = "context"  # the context is full
    GRAMMAR = "grammar"  # nothing the grammar allows can follow
    INTERRUPTED = "interrupted"


class Kind(StrEnum):
    """Where the token that the target adds at the end of a round came from."""

    RECOVERED = "recovered"  # it replaces the first draft token that was not accepted
    BONUS = "bonus"  # all draft tokens were accepted (or there were none) and the last row gives one more


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """What turns a row of logits into the processed distribution. The defaults are llama.cpp's."""

    temperature: float = 0.8  # <= 0 is greedy
    top_k: int = 40  # <= 0 is off
    top_p: float = 0.95  # >= 1 is off
    min_p: float = 0.05  # <= 0 is off
    repeat_penalty: float = 1.0  # 1 is off
    repeat_last_n: int = 64  # tokens, prompt included; 0 is off, -1 the whole context
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: Mapping[int, float] = field(default_factory=dict)  # token id -> added to its logit; -inf forbids it
    seed: int = 0

    @property
    def greedy(self) -> bool:
        return self.temperature <= 0

    @property
    def penalised(self) -> bool:
        return self.repeat_last_n != 0 and (
            self.repeat_penalty != 1.0 or self.presence_penalty != 0.0 or self.frequency_penalty != 0.0
        )


@dataclass(frozen=True, slots=True)
class Law:
    """A processed distribution, sparse: ids (m,) in no promised order, probs (m,) float64 that sum to one.

    An empty law (m = 0) says that no token is legal.
    """

    ids: Ids
    probs: npt.NDArray[np.float64]

    def prob(self, token: int) -> float:
        """The probability of one token; 0 for a token outside the law."""
        at = np.flatnonzero(self.ids == token)
        return float(self.probs[at[0]]) if at.size else 0.0


class Reins(Protocol):
    """What a governor decides inside a draft. It is told no more than the rule of verification allows it to act on."""

    def draw(self, peak: float) -> bool:
        """Whether to draw a token from the row that was computed. Knows the row's peak, and nothing of the draw."""

    def extend(self, prob: float) -> bool:
        """Whether to compute one more row, now that a token of this q was drawn (NaN: deterministic)."""

    def trim(self, proposal: Proposal) -> Proposal:
        """Shorten what was drafted so far, only where that cannot bias."""

    def pass_on(self, proposal: Proposal, offers: Mapping[str, Offer]) -> str:
        """Who is to draft on behind this, of those who offer to; empty: nobody. From then on the reins are that drafter's."""


class Reason(StrEnum):
    """Why a governor lets a round draft, or not."""

    PAYS = "pays"  # drafting promises more tokens per second
    PROBE = "probe"  # it does not, but is tried
    NO_GAIN = "no gain"  # it does not
    CATCH_UP = "catch-up"  # it would, but what the drafter has to catch up on first does not come back before the end
    NO_OFFER = "no offer"  # no drafter has anything to propose
    NO_ROOM = "no room"  # no draft token fits: the last token of the budget, or of the context


@dataclass(frozen=True, slots=True)
class Why:
    """A governor's reason for a plan, in what was known before the round: of the drafter that promised most, if there was one.

    tokens / seconds is what its draft was to bring; rate is what it had to beat (lambda).
    """

    reason: Reason
    rate: float  # tokens per second that are had without it
    length: int = 0  # the draft that was to bring most
    tokens: float = 1.0  # expected of a round with it
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Plan:
    """How far to draft this round, and by whom. Made before anything of the round is sampled."""

    n_max: int  # longest draft; 0 is plain decoding
    n_min: int = 0  # do not stop before so many tokens
    p_min: float = 0.0  # stop before a token whose peak q is lower
    drafter: str = ""  # which of several; empty: the only one
    window: int | None = None  # catch up on so many of the last tokens at most; None: on all
    reins: Reins | None = None
    why: Why | None = None  # None: a fixed choice

    def draws(self, n: int, peak: float) -> bool:
        """Whether a draft of n tokens goes on to draw one more, from a row with this peak."""
        wanted = self.reins is None or self.reins.draw(peak)
        return n < self.n_min or (wanted and not peak < self.p_min)

    def extends(self, n: int, prob: float) -> bool:
        """Whether a draft of n tokens, the last one drawn with this q, needs another row."""
        if n >= self.n_max:
            return False
        wanted = self.reins is None or self.reins.extend(prob)
        return n < self.n_min or wanted

    def behind(self, proposal: Proposal, drafter: str) -> Plan:
        """What is left of this plan for another drafter, behind a proposal."""
        n = len(proposal)
        return replace(self, n_max=self.n_max - n, n_min=max(self.n_min - n, 0), drafter=drafter)


@dataclass(frozen=True, slots=True)
class Offer:
    """What a drafter says before it is asked to draft."""

    certainty: float = math.nan  # of its first token, as far as it is known before any pass or draw; NaN where it is not
    n_behind: int = 0  # tokens of the context that it would have to catch up on first


@dataclass(frozen=True, slots=True)
class Proposal:
    """What a drafter proposes: target token ids, and for each the distribution it was drawn from.

    q[i] is None where the drafter is deterministic (a point mass on tokens[i]). peak[i] = max q[i], known before the draw;
    prob[i] = q[i](tokens[i]), known after it; NaN where the drafter has neither. parents is None for a chain. Where
    others drafted on behind the first, drafter is that first one, and parts has what each proposed; the rest is of all.
    """

    drafter: str
    tokens: tuple[int, ...] = ()
    q: tuple[Law | None, ...] = ()
    peak: tuple[float, ...] = ()
    prob: tuple[float, ...] = ()
    parents: tuple[int, ...] | None = None
    pass_s: float = 0.0  # seconds of the drafter's own passes; 0 for a drafter without a model
    n_passes: int = 0  # rows that it computed; one more than tokens where it looked, and drew no more
    n_fed: int = 0  # tokens of the context that it had to catch up on in passes of their own
    feed_s: float = 0.0  # seconds of these; part of pass_s
    parts: tuple[Proposal, ...] = ()

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def by_drafter(self) -> tuple[Proposal, ...]:
        """What each drafter proposed, in order."""
        return self.parts or (self,)

    @property
    def n_sampled(self) -> int:
        """Length up to the last token that was drawn by chance."""
        return next((i for i in range(len(self.q), 0, -1) if self.q[i - 1] is not None), 0)

    def cut(self, n: int) -> Proposal:
        """The first n tokens of the proposal."""
        if n >= len(self.tokens):
            return self
        parts, left = [], n
        for part in self.parts:
            parts.append(part.cut(left))
            left -= len(parts[-1])
        return replace(self, tokens=self.tokens[:n], q=self.q[:n], peak=self.peak[:n], prob=self.prob[:n], parts=tuple(parts))

    def followed_by(self, more: Proposal) -> Proposal:
        """This, and behind it what another drafter proposed; one of the two alone where the other one did nothing."""
        if not (more or more.n_passes):
            return self
        if not (self or self.n_passes):
            return more
        return replace(
            self,
            tokens=self.tokens + more.tokens,
            q=self.q + more.q,
            peak=self.peak + more.peak,
            prob=self.prob + more.prob,
            pass_s=self.pass_s + more.pass_s,
            n_passes=self.n_passes + more.n_passes,
            n_fed=self.n_fed + more.n_fed,
            feed_s=self.feed_s + more.feed_s,
            parts=(*self.by_drafter, more),
        )


@dataclass(frozen=True, slots=True)
class Verdict:
    """What verification made of a proposal.

    next_token is None when no token is legal at that place. p and q hold the target's and the drafter's probability of each
    judged draft token: the accepted ones, and the one that was refused. law is the target's distribution at the place of
    next_token.
    """

    n_accepted: int
    next_token: int | None
    kind: Kind
    p: tuple[float, ...] = ()
    q: tuple[float, ...] = ()
    law: Law | None = None


@dataclass(frozen=True, slots=True)
class PassResult:
    """One pass through a model. rows: (n, n_vocab) float32, a view that the model's next pass overwrites."""

    rows: Rows
    seconds: float
    width: int  # tokens in the pass, throw-away tokens included


@dataclass(frozen=True, slots=True)
class PromptPass:
    """Progress of the prompt: a piece went through the target."""

    n_done: int  # prompt tokens in the cache now
    n_total: int  # prompt tokens that the prompt passes cover
    n_reused: int  # of these, taken over from the cache
    seconds: float  # of this piece


@dataclass(frozen=True, slots=True)
class Round:
    """One round, as it was committed."""

    index: int  # 0 for the first round of a run
    position: int  # of the first emitted token, in tokens from the start of the context
    proposal: Proposal  # as it was verified
    n_accepted: int  # draft tokens that verification accepted
    kind: Kind
    emitted: tuple[int, ...]  # committed tokens, after cutting
    text: str  # newly shown text (what may still become a stop string or half a character is held back)
    p: tuple[float, ...]
    q: tuple[float, ...]
    width: int  # tokens in the target's pass, throw-away tokens included
    n_invalid: int  # drafted ids that are not tokens of the target: counted as drafted and refused
    draft_s: float  # the drafter's own passes
    pass_s: float  # the target's pass
    host_s: float  # everything else of the round
    at_s: float  # time.perf_counter() when it was committed
    plan: Plan | None = None  # what the governor had planned; None: no round of the loop
    law: Law | None = None  # the target's distribution at the place of the token that it added

    @property
    def n_drafted(self) -> int:
        return len(self.proposal)


@dataclass(frozen=True, slots=True)
class Ended:
    """The last thing a run yields: why it ended, and text that was held back until now."""

    finish: FinishReason
    text: str


class PassAborted(Exception):
    """A pass was stopped because the person asked for it. The caches are truncated by whoever catches it."""


class Constraint(Protocol):
    """A grammar: which tokens may follow. The committed state advances by emitted tokens; others work on copies."""

    def allowed(self, ids: Ids) -> npt.NDArray[np.bool_]:
        """Whether each of the ids may follow; ids: (m,), result: (m,)."""

    def advance(self, token: int) -> None:
        """Take one token, which allowed() must have found legal."""

    def copy(self) -> Constraint: ...


class Noise(Protocol):
    """Counter-based randomness: a pure function of its key and what it is asked for."""

    def gumbel(self, position: int, ids: Ids) -> npt.NDArray[np.float64]: ...

    def uniform(self, position: int) -> float: ...


@dataclass(frozen=True, slots=True)
class Sampler:
    """How a token is drawn at a place: the processing, the noise, and the constraint's state at the committed context."""

    params: SamplingParams
    noise: Noise
    constraint: Constraint | None = None


class Target(Protocol):
    """A model with a cache of one sequence."""

    @property
    def n_vocab(self) -> int: ...

    @property
    def n_ctx(self) -> int:
        """Tokens that the cache may hold."""

    @property
    def max_pass(self) -> int:
        """Rows of logits that one pass may ask for."""

    @property
    def max_piece(self) -> int:
        """Tokens that one prompt pass may hold."""

    @property
    def n_cached(self) -> int:
        """Tokens in the cache."""

    def decode(self, tokens: Sequence[int], *, last_only: bool = False) -> PassResult:
        """Append tokens to the cache in one pass that returns a row of logits for each, or for the last only.

        Raises PassAborted, BackendError.
        """

    def feed(self, tokens: Sequence[int]) -> float:
        """Append tokens in one pass without logits; returns seconds. Raises PassAborted, BackendError."""

    def keep(self, n: int) -> None:
        """Truncate the cache to its first n tokens. Raises BackendError when the cache cannot go back."""


class Drafter(Protocol):
    """Proposes tokens. Brings its own state into line with the context it is given."""

    @property
    def name(self) -> str: ...

    def propose(self, context: Sequence[int], changed: int, plan: Plan, sampler: Sampler) -> Proposal:
        """Propose up to plan.n_max tokens to follow context; fewer, or none, is normal.

        context: all committed tokens. changed: the lowest position that may differ from what this drafter was shown last, here
        or in offers().
        sampler: the processing and noise to draw with; its constraint is the drafter's own copy. Raises PassAborted.
        """

    def offers(self, context: Sequence[int], changed: int) -> Mapping[str, Offer]:
        """By name, who has something to propose. Costs next to nothing; arguments as for propose()."""

    def observe(self, result: PassResult, verdict: Verdict) -> None:
        """See the target's pass over the last proposal, and what came of it."""

    def settle(self, n: int) -> None:
        """Keep nothing beyond the first n tokens of the context (after an interruption)."""


class Governor(Protocol):
    """Decides how far to draft."""

    def plan(self, room: int, left: float, offers: Mapping[str, Offer]) -> Plan:
        """The plan of the next round, of which at most room draft tokens fit. Has seen no sampled token of it.

        left: tokens that may still be emitted, infinite where nobody knows. offers: who has something to propose.
        """

    def trim(self, proposal: Proposal) -> Proposal:
        """Shorten a proposal before its pass, only where that cannot bias."""

    def observe(self, done: Round) -> None: ...
