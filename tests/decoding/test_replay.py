"""Rounding told from a fault, on fakes with rounding and with planted faults."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from specdec_cli.decoding.contracts import (
    Drafter,
    Offer,
    PassResult,
    Plan,
    Proposal,
    Round,
    Sampler,
    SamplingParams,
    Target,
    Verdict,
)
from specdec_cli.decoding.governor import FixedGovernor
from specdec_cli.decoding.loop import Job, generate
from specdec_cli.decoding.loop import Sequence as Run
from specdec_cli.decoding.replay import Cause, Recorder, explain, first_difference
from specdec_cli.decoding.verification import Rule
from tests.fakes.target import TableTarget, hashed

N = 60


class ShiftedTarget(TableTarget):
    """Adds to each row what shift(tokens of the pass, index) says: rounding, or a leak from the other tokens."""

    def __init__(self, shift: Callable[[Sequence[int], int], float]) -> None:
        super().__init__(hashed(7, order=4), n_ctx=256, max_pass=9)
        self._shift = shift
        self._direction = np.arange(7, dtype=np.float32) - 3

    def decode(self, tokens: Sequence[int], *, last_only: bool = False) -> PassResult:
        result = super().decode(tokens, last_only=last_only)
        for i in range(len(result.rows)):
            result.rows[i] += np.float32(self._shift(tokens, i)) * self._direction
        return result


class Guesser:
    """Proposes tokens that are sometimes right: a function of the context alone."""

    name = "guesser"

    def offers(self, context: Sequence[int], changed: int) -> Mapping[str, Offer]:
        return {self.name: Offer()}

    def propose(self, context: Sequence[int], changed: int, plan: Plan, sampler: Sampler) -> Proposal:
        table = hashed(7, order=4)
        tokens: list[int] = []
        for i in range(plan.n_max):
            best = int(table((*context, *tokens)[-4:]).argmax())
            tokens.append(best if (len(context) + i) % 3 else (best + 1) % 7)
        n = len(tokens)
        return Proposal(self.name, tuple(tokens), (None,) * n, (1.0,) * n, (1.0,) * n)

    def observe(self, result: PassResult, verdict: Verdict) -> None: ...

    def settle(self, n: int) -> None: ...


def job(params: SamplingParams, rule: Rule = Rule.MATCH) -> Job:
    return Job(
        prompt=(1, 2, 3, 4, 5),
        n_predict=N,
        params=params,
        rule=rule,
        n_ctx=256,
        end_tokens=frozenset(),
        piece=lambda token: str(token).encode(),
    )


GREEDY = SamplingParams(temperature=0)


def run(target: Target, spec: Job, drafter: Drafter | None) -> tuple[list[int], list[Round]]:
    sequence = Run(spec)
    events = list(generate(sequence, target, drafter, FixedGovernor(4 if drafter else 0)))
    rounds = [event for event in events if isinstance(event, Round)]
    return sequence.context[len(spec.prompt) :], rounds


def differ(shift: Callable[[Sequence[int], int], float], spec: Job) -> tuple[Recorder, list[Round], int, ShiftedTarget]:
    plain, _ = run(ShiftedTarget(shift), spec, None)
    target = ShiftedTarget(shift)
    recorder = Recorder(target)
    tokens, rounds = run(recorder, spec, Guesser())
    index = first_difference(plain, tokens)
    assert index is not None
    target.keep(0)
    return recorder, rounds, index, target


def by_width(tokens: Sequence[int], i: int) -> float:
    return 0.3 * (len(tokens) > 1)


def by_companion(tokens: Sequence[int], i: int) -> float:
    return 0.3 * (tokens[-1] % 2) * (i < len(tokens) - 1)


def test_a_difference_by_width_is_rounding() -> None:
    recorder, rounds, index, target = differ(by_width, job(GREEDY))
    found = explain(target, job(GREEDY), recorder, rounds, index)
    assert found.cause is Cause.ROUNDING
    assert found.position == 5 + index
    assert found.noise > 0


def test_a_row_that_depends_on_rejected_tokens_is_a_fault() -> None:
    recorder, rounds, index, target = differ(by_companion, job(GREEDY))
    found = explain(target, job(GREEDY), recorder, rounds, index)
    assert found.cause is Cause.FAULT
    assert "rejected" in found.why


def test_a_token_that_is_not_the_rules_answer_is_a_fault() -> None:
    spec = job(GREEDY)
    target = ShiftedTarget(lambda tokens, i: 0.0)
    recorder = Recorder(target)
    tokens, rounds = run(recorder, spec, Guesser())
    chosen = next(i for i, done in enumerate(rounds) if done.position > 20)
    wrong = rounds[chosen]
    other = (wrong.emitted[-1] + 1) % 7
    rounds[chosen] = Round(
        **{**{name: getattr(wrong, name) for name in wrong.__slots__}, "emitted": (*wrong.emitted[:-1], other)}
    )
    index = wrong.position + len(wrong.emitted) - 1 - len(spec.prompt)
    target.keep(0)
    found = explain(target, spec, recorder, rounds, index)
    assert found.cause is Cause.FAULT
    assert "rule" in found.why
    assert tokens[index] != other


def test_seeded_sampling_is_replayed_with_its_own_noise() -> None:
    for rule in Rule:
        spec = job(SamplingParams(temperature=0.8, seed=5), rule)
        target = ShiftedTarget(by_width)
        recorder = Recorder(target)
        tokens, rounds = run(recorder, spec, Guesser())
        target.keep(0)
        found = explain(target, spec, recorder, rounds, len(tokens) - 1)
        assert found.cause is Cause.ROUNDING


def test_a_run_that_ends_early_is_a_fault() -> None:
    spec = job(GREEDY)
    target = ShiftedTarget(by_width)
    recorder = Recorder(target)
    tokens, rounds = run(recorder, spec, Guesser())
    target.keep(0)
    found = explain(target, spec, recorder, rounds, len(tokens))
    assert found.cause is Cause.FAULT


def test_first_difference() -> None:
    assert first_difference([1, 2, 3], [1, 2, 3]) is None
    assert first_difference([1, 2, 3], [1, 4, 3]) == 1
    assert first_difference([1, 2], [1, 2, 3]) == 2
    assert first_difference([], []) is None
