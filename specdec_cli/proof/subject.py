"""What is verified, and what watches it: the session as it is used, with a look at its passes and its drafts."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from time import monotonic
from typing import Protocol

from specdec_cli.decoding.contracts import (
    Drafter,
    Ended,
    FinishReason,
    Governor,
    Ids,
    Offer,
    PassAborted,
    PassResult,
    Plan,
    Proposal,
    Round,
    Rows,
    Sampler,
    SamplingParams,
    Target,
    Verdict,
)
from specdec_cli.decoding.loop import Event, Job
from specdec_cli.decoding.replay import Recorder
from specdec_cli.decoding.verification import Rule
from specdec_cli.options import SessionOptions
from specdec_cli.session import Request


class Subject(Protocol):
    """A session, as far as it is verified."""

    options: SessionOptions
    drafter: Drafter | None
    target: Target

    @property
    def n_draft_max(self) -> int: ...

    def job(self, request: Request, /) -> Job: ...

    def forget(self) -> None: ...

    def generate(
        self, request: Request, /, *, target: Target | None = None, governor: Governor | None = None
    ) -> Iterator[Event]: ...


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt with a name for people."""

    name: str
    tokens: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Work:
    """What is verified, with which prompts and settings.

    fresh: makes a cache of its own over the target's model, and one over the draft's, None where there is no draft model.
    n_shared, undraftable: which of the draft's tokens may be drafted.
    """

    subject: Subject
    prompts: tuple[Prompt, ...]
    params: tuple[SamplingParams, ...]  # of sampling: each with a temperature above 0
    fresh: Callable[[], Target]
    fresh_draft: Callable[[], Target] | None = None
    n_shared: int = 0
    undraftable: Ids | None = None
    seed: int = 0

    @property
    def rules(self) -> tuple[Rule, ...]:
        return (Rule.MATCH,) if self.subject.options.exact else (Rule.REJECT, Rule.MATCH)


@dataclass(slots=True)
class Clock:
    """Time for one check. At least one go is always made."""

    seconds: float
    started_s: float = 0.0
    n: int = 0

    def goes_on(self) -> bool:
        if self.n == 0:
            self.started_s = monotonic()
        self.n += 1
        return self.n == 1 or not self.over

    @property
    def over(self) -> bool:
        return monotonic() - self.started_s >= self.seconds

    @property
    def share(self) -> float:
        return min((monotonic() - self.started_s) / max(self.seconds, 1e-9), 1.0)


class Witness(Recorder):
    """The target of one run. Keeps the rows of the last pass, and where it began."""

    def __init__(self, inner: Target) -> None:
        super().__init__(inner)
        self.rows: Rows | None = None
        self.start = 0

    def decode(self, tokens: Sequence[int], *, last_only: bool = False) -> PassResult:
        self.start = self.n_cached
        result = super().decode(tokens, last_only=last_only)
        self.rows = result.rows.copy()
        return result


class Watched:
    """A drafter, and what the last round gave it to draw with."""

    def __init__(self, inner: Drafter) -> None:
        self._inner = inner
        self.sampler: Sampler | None = None

    @property
    def name(self) -> str:
        return self._inner.name

    def propose(self, context: Sequence[int], changed: int, plan: Plan, sampler: Sampler) -> Proposal:
        self.sampler = sampler
        return self._inner.propose(context, changed, plan, sampler)

    def offers(self, context: Sequence[int], changed: int) -> Mapping[str, Offer]:
        return self._inner.offers(context, changed)

    def observe(self, result: PassResult, verdict: Verdict) -> None:
        self._inner.observe(result, verdict)

    def settle(self, n: int) -> None:
        self._inner.settle(n)


class Forced:
    """Drafts of one length in every round, by all drafters in turn: so that drafts do happen, and nothing goes by the clock."""

    def __init__(self, n_max: int, n_min: int = 0, p_min: float = 0.0) -> None:
        self._n_max, self._n_min, self._p_min = n_max, n_min, p_min
        self._n_rounds = 0

    def plan(self, room: int, left: float, offers: Mapping[str, Offer]) -> Plan:  # noqa: ARG002
        names = sorted(offers)
        name = names[self._n_rounds % len(names)] if names else ""
        self._n_rounds += 1
        return Plan(max(min(room, self._n_max), 0), self._n_min, self._p_min, name)

    def trim(self, proposal: Proposal) -> Proposal:
        return proposal

    def observe(self, done: Round) -> None:
        """Nothing that happens changes the next plan."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A round, with what decided it."""

    done: Round
    context: tuple[int, ...]  # before it
    rows: Rows
    start: int  # tokens in the cache before its pass
    drawn_with: Sampler | None  # the drafter's; None where nobody was asked


@contextmanager
def verified_by(subject: Subject, rule: Rule) -> Iterator[Watched | None]:
    """The subject under a rule, its drafter watched."""
    options, drafter = subject.options, subject.drafter
    watched = Watched(drafter) if drafter is not None else None
    subject.options, subject.drafter = replace(options, rule=rule), watched
    try:
        yield watched
    finally:
        subject.options, subject.drafter = options, drafter


def rounds(
    subject: Subject, watched: Watched | None, request: Request, witness: Witness, governor: Governor | None
) -> Generator[Seen]:
    """Run a request, round by round. Raises PassAborted where the person asked for the end."""
    context = list(request.prompt)
    for event in subject.generate(request, target=witness, governor=governor):
        if isinstance(event, Ended) and event.finish is FinishReason.INTERRUPTED:
            raise PassAborted
        if isinstance(event, Round):
            assert witness.rows is not None
            sampler = watched.sampler if watched is not None and event.n_drafted else None
            yield Seen(event, tuple(context), witness.rows, witness.start, sampler)
            context.extend(event.emitted)
