"""Runs of the loop on fakes, and a plain run written without it to compare with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from specdec_cli.decoding.contracts import (
    Constraint,
    Drafter,
    Ended,
    FinishReason,
    Governor,
    Offer,
    Plan,
    PromptPass,
    Proposal,
    Round,
    SamplingParams,
    Target,
)
from specdec_cli.decoding.governor import FixedGovernor
from specdec_cli.decoding.loop import Event, Job, generate
from specdec_cli.decoding.loop import Sequence as Generation
from specdec_cli.decoding.noise import noise_for
from specdec_cli.decoding.sampling import draw, processed
from specdec_cli.decoding.verification import Rule
from tests.fakes.constraint import FakeConstraint
from tests.fakes.target import Table, TableTarget

GREEDY = SamplingParams(temperature=0.0)
SEEDED = SamplingParams(temperature=1.0, seed=7)
PURE = SamplingParams(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0)  # p is softmax(row)


def letter(token: int) -> bytes:
    """Token 0 is "a", 1 is "b", and so on."""
    return bytes([ord("a") + token])


def job(
    prompt: Sequence[int] = (1, 2, 3),
    n_predict: int = 24,
    params: SamplingParams = GREEDY,
    rule: Rule = Rule.MATCH,
    *,
    n_ctx: int = 64,
    end_tokens: frozenset[int] = frozenset(),
    piece: Callable[[int], bytes] = letter,
    stops: tuple[str, ...] = (),
    constraint: Constraint | None = None,
) -> Job:
    """A job with what most tests want."""
    return Job(tuple(prompt), n_predict, params, rule, n_ctx, end_tokens, piece, stops, constraint)


@dataclass(frozen=True)
class Outcome:
    """What a run said, and how it went."""

    tokens: tuple[int, ...]
    text: str
    finish: FinishReason | None
    rounds: tuple[Round, ...] = ()
    prompt_passes: tuple[PromptPass, ...] = ()

    @property
    def said(self) -> tuple[tuple[int, ...], str, FinishReason | None]:
        return self.tokens, self.text, self.finish


def collect(events: Sequence[Event]) -> Outcome:
    """The outcome of a run from its events."""
    rounds = tuple(event for event in events if isinstance(event, Round))
    ended = [event for event in events if isinstance(event, Ended)]
    assert len(ended) <= 1
    assert not ended or events[-1] is ended[0]
    return Outcome(
        tuple(token for done in rounds for token in done.emitted),
        "".join(event.text for event in events if not isinstance(event, PromptPass)),
        ended[0].finish if ended else None,
        rounds,
        tuple(event for event in events if isinstance(event, PromptPass)),
    )


def run(asked: Job, target: Target, drafter: Drafter | None = None, how_far: int | Governor = 0) -> Outcome:
    """A whole run through generate(), checked after each round; how_far: a fixed K, or a governor."""
    governor = FixedGovernor(how_far) if isinstance(how_far, int) else how_far
    return collect(list(checked(Generation(asked), target, drafter, governor)))


def checked(generation: Generation, target: Target, drafter: Drafter | None, governor: Governor) -> Iterator[Event]:
    """generate(), and after each round: the cache holds all tokens but the last, the grammar took the emitted ones."""
    for event in generate(generation, target, drafter, governor):
        if isinstance(event, Round):
            context, emitted = generation.context, generation.context[len(generation.job.prompt) :]
            assert target.n_cached == len(context) - 1
            assert not isinstance(target, TableTarget) or target.cached == context[:-1]
            assert tuple(context[event.position :]) == event.emitted
            assert not isinstance(generation.constraint, FakeConstraint) or generation.constraint.taken == tuple(emitted)
        yield event


def plain(asked: Job, table: Table) -> Outcome:
    """The plain run, token by token and without the loop: what every run under match has to say."""
    context, text, params = list(asked.prompt), b"", asked.params
    constraint = asked.constraint.copy() if asked.constraint is not None else None
    finish = FinishReason.LENGTH if asked.n_predict == 0 else None
    while finish is None:
        n_recent = len(context) if params.repeat_last_n < 0 else params.repeat_last_n
        recent = context[max(len(context) - n_recent, 0) :]
        token = draw(processed(table(tuple(context)), recent, params, constraint), noise_for(params.seed), len(context))
        if token is None:
            finish = FinishReason.GRAMMAR
            break
        context.append(token)
        if constraint is not None:
            constraint.advance(token)
        if token in asked.end_tokens:
            finish = FinishReason.END
            break
        text += asked.piece(token)
        if any(stop in text.decode("utf-8", "ignore") for stop in asked.stops):
            finish = FinishReason.STOP
        elif len(context) - len(asked.prompt) == asked.n_predict:
            finish = FinishReason.LENGTH
        elif len(context) > asked.n_ctx:
            finish = FinishReason.CONTEXT
    shown = text.decode("utf-8", "ignore")
    for stop in asked.stops:
        shown = shown.split(stop)[0]
    return Outcome(tuple(context[len(asked.prompt) :]), shown, finish)


class ScriptedGovernor:
    """Plans a given length for each round, then none. Remembers the rooms it was told and the rounds it saw."""

    def __init__(self, lengths: Sequence[int], *, n_min: int = 0, p_min: float = 0.0) -> None:
        self._lengths = list(lengths)
        self._n_min, self._p_min = n_min, p_min
        self.rooms: list[int] = []
        self.observed: list[Round] = []

    def plan(self, room: int, left: float, offers: Mapping[str, Offer]) -> Plan:
        self.rooms.append(room)
        n_max = self._lengths[len(self.observed)] if len(self.observed) < len(self._lengths) else 0
        return Plan(max(min(n_max, room), 0), self._n_min, self._p_min)

    def trim(self, proposal: Proposal) -> Proposal:
        return proposal

    def observe(self, done: Round) -> None:
        self.observed.append(done)
