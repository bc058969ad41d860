"""Whatever stops a run, at whatever pass: both caches are left at the last committed state, and it can go on from there."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, replace

import numpy as np
import pytest

from specdec_cli.decoding.contracts import Drafter, FinishReason, PromptPass, Round
from specdec_cli.decoding.governor import FixedGovernor
from specdec_cli.decoding.loop import Event, Job, generate
from specdec_cli.decoding.loop import Sequence as Generation
from specdec_cli.decoding.verification import Rule
from specdec_cli.drafters.model import ModelDrafter
from specdec_cli.drafters.ngram import NgramDrafter
from specdec_cli.errors import BackendError
from tests.fakes.constraint import FakeConstraint, hashed_grammar
from tests.fakes.drafters import Oracle
from tests.fakes.runs import SEEDED, checked, collect, job, plain, run
from tests.fakes.target import TableTarget, blended, hashed

N_VOCAB = 6
TABLE = hashed(N_VOCAB, seed=1, order=3)
DRAFT = blended(TABLE, hashed(N_VOCAB, seed=2), 0.25)
ASKED = job(prompt=[1, 2, 3, 4, 5, 0, 1, 2, 3, 1], n_predict=14, params=SEEDED)
WHOLE = plain(ASKED, TABLE)


@dataclass
class Stage:
    """A target, a drafter, and the drafter's own model where it has one."""

    target: TableTarget
    drafter: Drafter | None
    draft: TableTarget | None = None


def with_model() -> Stage:
    draft = TableTarget(DRAFT, max_piece=4)
    drafter = ModelDrafter(draft, N_VOCAB, np.array([], dtype=np.int64), frozenset())
    return Stage(TableTarget(TABLE, max_piece=4), drafter, draft)


def with_oracle() -> Stage:
    oracle = Oracle((*ASKED.prompt, *WHOLE.tokens), N_VOCAB, wrong_at=frozenset({12, 16, 17}))
    return Stage(TableTarget(TABLE, max_piece=4), oracle)


def with_ngram() -> Stage:
    return Stage(TableTarget(TABLE, max_piece=4), NgramDrafter())


def alone() -> Stage:
    return Stage(TableTarget(TABLE, max_piece=4), None)


every_stage = pytest.mark.parametrize("make", [alone, with_oracle, with_ngram, with_model])
K = 3


def assert_committed(stage: Stage, context: list[int]) -> None:
    """No cache holds anything but a beginning of the committed tokens, without the last."""
    for model in (stage.target, stage.draft):
        if model is not None:
            assert model.n_cached < len(context)
            assert model.cached == context[: model.n_cached]


def go_on(stage: Stage, context: list[int], asked: Job = ASKED) -> tuple[int, ...]:
    """All tokens emitted, when the run goes on from a context with the same caches."""
    assert_committed(stage, context)
    n_before = len(context) - len(asked.prompt)
    rest = replace(asked, prompt=tuple(context), n_predict=asked.n_predict - n_before)
    outcome = run(rest, stage.target, stage.drafter, K)
    return (*context[len(asked.prompt) :], *outcome.tokens)


@every_stage
@pytest.mark.parametrize("left_over", [0, 1, 3])
def test_an_interruption_at_any_pass_of_the_target(make: Callable[[], Stage], left_over: int) -> None:
    whole = make()
    run(ASKED, whole.target, whole.drafter, K)
    for at in range(len(whole.target.passes)):
        stage = make()
        stage.target.abort_at, stage.target.left_over = at, left_over
        generation = Generation(ASKED)
        outcome = collect(list(checked(generation, stage.target, stage.drafter, FixedGovernor(K))))
        assert outcome.finish is FinishReason.INTERRUPTED
        assert outcome.tokens == WHOLE.tokens[: len(outcome.tokens)]
        assert outcome.tokens == () if at < 3 else stage.target.n_cached == len(generation.context) - 1
        assert go_on(stage, generation.context) == WHOLE.tokens


@pytest.mark.parametrize("left_over", [0, 1])
def test_an_interruption_at_any_pass_of_the_draft(left_over: int) -> None:
    whole = with_model()
    run(ASKED, whole.target, whole.drafter, K)
    assert whole.draft is not None
    for at in range(len(whole.draft.passes)):
        stage = with_model()
        assert stage.draft is not None
        stage.draft.abort_at, stage.draft.left_over = at, left_over
        generation = Generation(ASKED)
        outcome = collect(list(checked(generation, stage.target, stage.drafter, FixedGovernor(K))))
        assert outcome.finish is FinishReason.INTERRUPTED
        assert stage.target.n_cached == len(generation.context) - 1
        assert go_on(stage, generation.context) == WHOLE.tokens


@every_stage
@pytest.mark.parametrize("left_over", [0, 2])
def test_a_failure_at_any_pass_of_the_target(make: Callable[[], Stage], left_over: int) -> None:
    whole = make()
    run(ASKED, whole.target, whole.drafter, K)
    for at in range(len(whole.target.passes)):
        stage = make()
        stage.target.fail_at, stage.target.left_over = at, left_over
        generation = Generation(ASKED)
        with pytest.raises(BackendError, match="The pass failed"):
            list(checked(generation, stage.target, stage.drafter, FixedGovernor(K)))
        assert go_on(stage, generation.context) == WHOLE.tokens


def test_a_failure_at_any_pass_of_the_draft() -> None:
    whole = with_model()
    run(ASKED, whole.target, whole.drafter, K)
    assert whole.draft is not None
    for at in range(len(whole.draft.passes)):
        stage = with_model()
        assert stage.draft is not None
        stage.draft.fail_at = at
        generation = Generation(ASKED)
        with pytest.raises(BackendError, match="The pass failed"):
            list(checked(generation, stage.target, stage.drafter, FixedGovernor(K)))
        assert go_on(stage, generation.context) == WHOLE.tokens


class Nuisance(Exception):
    """Raised by whoever consumes the run."""


@every_stage
@pytest.mark.parametrize("leave", ["close", "throw", "Ctrl-C"])
def test_a_consumer_that_leaves_after_any_event(make: Callable[[], Stage], leave: str) -> None:
    whole = make()
    n_events = len(list(checked(Generation(ASKED), whole.target, whole.drafter, FixedGovernor(K))))
    for n in range(1, n_events):
        stage, generation = make(), Generation(ASKED)
        events = generate(generation, stage.target, stage.drafter, FixedGovernor(K))
        assert isinstance(events, Generator)
        seen: list[Event] = [next(events) for _ in range(n)]
        if leave == "close":
            events.close()
        else:
            error = Nuisance() if leave == "throw" else KeyboardInterrupt()
            with pytest.raises(type(error)):
                events.throw(error)
        n_emitted = sum(len(event.emitted) for event in seen if isinstance(event, Round))
        assert len(generation.context) == len(ASKED.prompt) + n_emitted
        assert go_on(stage, generation.context) == WHOLE.tokens


@every_stage
def test_a_run_that_is_over_leaves_the_same_state(make: Callable[[], Stage]) -> None:
    half = replace(ASKED, n_predict=6)
    stage, generation = make(), Generation(half)
    list(checked(generation, stage.target, stage.drafter, FixedGovernor(K)))
    assert go_on(stage, generation.context, ASKED) == WHOLE.tokens


@pytest.mark.parametrize("rule", list(Rule))
def test_an_interrupted_grammar_has_taken_the_emitted_tokens_alone(rule: Rule) -> None:
    asked = replace(ASKED, rule=rule, constraint=FakeConstraint(hashed_grammar(N_VOCAB, 1, length=30)))
    whole = with_model()
    run(asked, whole.target, whole.drafter, K)
    assert len(whole.target.passes) > 6
    for at in range(len(whole.target.passes)):
        stage = with_model()
        stage.target.abort_at = at
        generation = Generation(asked)
        outcome = collect(list(checked(generation, stage.target, stage.drafter, FixedGovernor(K))))
        assert outcome.finish is FinishReason.INTERRUPTED
        assert isinstance(generation.constraint, FakeConstraint)
        assert generation.constraint.taken == outcome.tokens


def test_an_interruption_shows_the_text_that_was_held_back() -> None:
    stop = plain(ASKED, TABLE).text[3:5]
    asked = replace(ASKED, stops=(stop + "zz",))
    shown = []
    for at in range(3, 3 + 14):
        outcome = run(asked, TableTarget(TABLE, max_piece=4, abort_at=at))
        assert outcome.text == WHOLE.text[: len(outcome.tokens)]
        shown.append(len(outcome.tokens))
    assert shown == list(range(14))


def test_prompt_passes_tell_how_far_they_came() -> None:
    events = list(checked(Generation(ASKED), TableTarget(TABLE, max_piece=4), None, FixedGovernor(0)))
    progress = [(event.n_done, event.n_total, event.n_reused) for event in events if isinstance(event, PromptPass)]
    assert progress == [(4, 9, 0), (8, 9, 0), (9, 9, 0)]


@pytest.mark.parametrize("at", range(4))
def test_nothing_is_passed_over_a_cache_that_did_not_go_back(at: int) -> None:
    """The fake raises BrokenPromise, not BackendError, at a pass after the failure."""
    oracle = Oracle((*ASKED.prompt, *WHOLE.tokens), N_VOCAB, n_right=1)
    target = TableTarget(TABLE, fail_keep_at=at)
    with pytest.raises(BackendError, match="did not go back"):
        run(ASKED, target, oracle, K)
