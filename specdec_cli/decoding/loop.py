"""The round, once, for every drafter and for plain decoding."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field
from time import perf_counter

from specdec_cli.decoding.contracts import (
    Constraint,
    Drafter,
    Ended,
    FinishReason,
    Governor,
    Offer,
    PassAborted,
    PassResult,
    Plan,
    PromptPass,
    Proposal,
    Round,
    Sampler,
    SamplingParams,
    Target,
    Verdict,
)
from specdec_cli.decoding.text import TextStream
from specdec_cli.decoding.verification import Rule, samplers, verifier

Event = PromptPass | Round | Ended
NOTHING = Proposal("none")


@dataclass(frozen=True, slots=True)
class Job:
    """What a run is to do. Everything but the model, the drafter and the governor."""

    prompt: tuple[int, ...]
    n_predict: int  # tokens to emit at most; negative: until the end or a full context
    params: SamplingParams
    rule: Rule
    n_ctx: int  # tokens that the context may hold
    end_tokens: frozenset[int]
    piece: Callable[[int], bytes]  # token id -> its text
    stops: tuple[str, ...] = ()
    constraint: Constraint | None = None


@dataclass(slots=True)
class Sequence:
    """One generation under way. Before a round the target's cache holds every token of context but the last."""

    job: Job
    context: list[int] = field(init=False)
    text: TextStream = field(init=False)
    constraint: Constraint | None = field(init=False)
    n_rounds: int = 0
    n_shown: int = 0  # tokens of context that the drafter has been shown
    finish: FinishReason | None = None

    def __post_init__(self) -> None:
        self.context = list(self.job.prompt)
        self.text = TextStream(self.job.stops)
        self.constraint = self.job.constraint.copy() if self.job.constraint is not None else None
        if self.job.n_predict == 0:
            self.finish = FinishReason.LENGTH

    @property
    def n_emitted(self) -> int:
        return len(self.context) - len(self.job.prompt)

    @property
    def budget(self) -> int | float:
        """Tokens that may still be emitted."""
        return self.job.n_predict - self.n_emitted if self.job.n_predict >= 0 else math.inf


@dataclass(frozen=True, slots=True)
class PassRequest:
    """What a round asks of the target: one pass over tokens, a row of logits for each."""

    tokens: tuple[int, ...]
    plan: Plan
    proposal: Proposal
    n_invalid: int
    sampler: Sampler
    started_s: float


def begin(sequence: Sequence, target: Target, drafter: Drafter | None, governor: Governor) -> PassRequest:
    """The first half of a round: plan, propose, trim. Raises PassAborted."""
    started_s = perf_counter()
    job, context = sequence.job, sequence.context
    for_drafter, for_verifier = samplers(job.rule, job.params, sequence.constraint, sequence.n_rounds)
    room = min(job.n_ctx - len(context), target.max_pass - 1, sequence.budget - 1)
    proposal = NOTHING
    offers: Mapping[str, Offer] = {}
    if drafter is not None and room > 0:
        offers = drafter.offers(context, sequence.n_shown)
        sequence.n_shown = len(context)
    plan = governor.plan(int(room), sequence.budget, offers)
    if drafter is not None and plan.n_max > 0:
        proposal = drafter.propose(context, sequence.n_shown, plan, for_drafter)
        proposal = governor.trim(proposal.cut(plan.n_max))
    proposal, n_valid = _admit(proposal, target.n_vocab, job.end_tokens)
    tokens = (context[-1], *proposal.tokens[:n_valid])
    return PassRequest(tokens, plan, proposal, len(proposal) - n_valid, for_verifier, started_s)


def settle(sequence: Sequence, request: PassRequest, result: PassResult) -> tuple[Round, Verdict]:
    """The second half: verify, commit, cut. The caller truncates the cache to all tokens of context but the last."""
    job, proposal = sequence.job, request.proposal
    verdict = verifier(job.rule)(proposal, result.rows, sequence.context, request.sampler)
    position = len(sequence.context)
    emitted, text = _commit(sequence, proposal.tokens[: verdict.n_accepted], verdict.next_token)
    now_s = perf_counter()
    done = Round(
        index=sequence.n_rounds,
        position=position,
        proposal=proposal,
        n_accepted=verdict.n_accepted,
        kind=verdict.kind,
        emitted=emitted,
        text=text,
        p=verdict.p,
        q=verdict.q,
        width=result.width,
        n_invalid=request.n_invalid,
        draft_s=proposal.pass_s,
        pass_s=result.seconds,
        host_s=now_s - request.started_s - proposal.pass_s - result.seconds,
        at_s=now_s,
        plan=request.plan,
        law=verdict.law,
    )
    sequence.n_rounds += 1
    return done, verdict


def generate(sequence: Sequence, target: Target, drafter: Drafter | None, governor: Governor) -> Generator[Event]:
    """Run one sequence to its end: prompt passes, rounds, and why it ended.

    Whatever ends it, an exception or the consumer included, both caches are left at the last committed state.
    """
    try:
        yield from _pass_prompt(sequence, target)
        while sequence.finish is None:
            request = begin(sequence, target, drafter, governor)
            result = target.decode(request.tokens)
            done, verdict = settle(sequence, request, result)
            target.keep(len(sequence.context) - 1)
            if drafter is not None:
                drafter.observe(result, verdict)
            governor.observe(done)
            yield done
    except PassAborted:
        sequence.finish = FinishReason.INTERRUPTED
    finally:
        n_kept = len(sequence.context) - 1
        try:
            if drafter is not None:
                drafter.settle(n_kept)
        finally:
            if target.n_cached > n_kept:
                target.keep(n_kept)
    yield Ended(sequence.finish, sequence.text.finish())


def _pass_prompt(sequence: Sequence, target: Target) -> Iterator[PromptPass]:
    """Pass all but the last prompt token, in pieces, past what the cache holds already."""
    n_total = len(sequence.job.prompt) - 1
    n_reused = n_done = target.n_cached
    while sequence.finish is None and n_done < n_total:
        piece = sequence.job.prompt[n_done : min(n_done + target.max_piece, n_total)]
        seconds = target.feed(piece)
        n_done += len(piece)
        yield PromptPass(n_done, n_total, n_reused, seconds)


def _admit(proposal: Proposal, n_vocab: int, end_tokens: frozenset[int]) -> tuple[Proposal, int]:
    """Cut a proposal after its first end token, and at its first id that is no token of the target.

    Such an id stays as the last of the proposal, to be judged and refused like any other (only so is the correction drawn
    from the right residual), but it never reaches the pass. Returns the proposal and the number of its valid tokens.
    """
    for i, token in enumerate(proposal.tokens):
        if not 0 <= token < n_vocab:
            return proposal.cut(i + 1), i
        if token in end_tokens:
            return proposal.cut(i + 1), i + 1
    return proposal, len(proposal)


def _commit(sequence: Sequence, accepted: tuple[int, ...], next_token: int | None) -> tuple[tuple[int, ...], str]:
    """Append what the round emits, cut at an end token, a stop string, the budget, a full context.

    Returns the committed tokens and their shown text.
    """
    job, shown, n_before = sequence.job, [], len(sequence.context)
    for token in accepted if next_token is None else (*accepted, next_token):
        sequence.context.append(token)
        if sequence.constraint is not None:
            sequence.constraint.advance(token)
        if token in job.end_tokens:
            sequence.finish = FinishReason.END
            break
        shown.append(sequence.text.push(job.piece(token)))
        if sequence.text.stopped_by is not None:
            sequence.finish = FinishReason.STOP
            break
        if sequence.budget <= 0:
            sequence.finish = FinishReason.LENGTH
            break
        if len(sequence.context) > job.n_ctx:
            sequence.finish = FinishReason.CONTEXT
            break
    else:
        if next_token is None:
            sequence.finish = FinishReason.GRAMMAR
    return tuple(sequence.context[n_before:]), "".join(shown)
