"""The cost curve is that of the passes, and the lengths worth trying follow from it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from specdec_cli.bench.curve import best_lengths, measure, measure_step
from specdec_cli.decoding.contracts import PassResult


class Timed:
    """A cache whose passes take what a table says; every fifth one three times as long."""

    def __init__(self, n_ctx: int = 4096) -> None:
        self.n_cached, self.n_ctx, self.n_vocab = 0, n_ctx, 50
        self.now_s = 0.0
        self.widths: list[int] = []

    def seconds(self, n: int) -> float:
        return 0.01 * (1 + 0.25 * (n - 1))

    def decode(self, tokens: Sequence[int], /) -> PassResult:
        assert all(0 <= token < self.n_vocab for token in tokens)
        self.n_cached += len(tokens)
        assert self.n_cached <= self.n_ctx
        self.widths.append(len(tokens))
        seconds = self.seconds(len(tokens)) * (3 if len(self.widths) % 5 == 0 else 1)
        self.now_s += seconds
        return PassResult(np.zeros((len(tokens), self.n_vocab), np.float32), seconds, len(tokens))

    def feed(self, tokens: Sequence[int], /) -> float:
        self.n_cached += len(tokens)
        return 0.0

    def keep(self, n: int, /) -> None:
        self.n_cached = n

    def clear(self) -> None:
        self.n_cached = 0

    def clock(self) -> float:
        return self.now_s


@pytest.mark.parametrize("n_ctx", [32, 4096])
def test_the_median_of_several_passes_of_each_width(n_ctx: int) -> None:
    context = Timed(n_ctx)
    costs = measure(context, 17, 100.0, lambda _done: None, context.clock)
    assert [cost.n_tokens for cost in costs] == list(range(1, 18))
    assert [cost.seconds for cost in costs] == pytest.approx([context.seconds(n) for n in range(1, 18)])
    assert {cost.n_passes for cost in costs} == {5}
    assert context.n_cached == 0


def test_widths_take_turns() -> None:
    context = Timed()
    measure(context, 8, 100.0, lambda _done: None, context.clock)
    assert context.widths[1:9] == context.widths[9:17][::-1]
    assert sorted(context.widths[1:9]) == list(range(1, 9))


def test_when_the_time_is_over_one_token_is_known_and_the_rest_is_left_out() -> None:
    context = Timed()
    costs = measure(context, 17, 0.0, lambda _done: None, context.clock)
    assert [cost.n_tokens for cost in costs] == [1]
    costs = measure(context, 17, 0.05, lambda _done: None, context.clock)
    assert [cost.n_tokens for cost in costs][:3] == [1, 2, 4]


def test_one_row_of_a_draft() -> None:
    assert measure_step(Timed()) == pytest.approx(0.01)


def test_lengths_follow_from_the_costs() -> None:
    flat, steep = dict.fromkeys(range(1, 18), 1.0), {n: float(n) for n in range(1, 18)}
    assert best_lengths(flat, 0.0, 16) == (16,)
    assert best_lengths(steep, 0.0, 16) == ()
    cheap, dear = best_lengths(flat, 0.05, 16), best_lengths(flat, 0.4, 16)
    assert max(cheap) > max(dear) > 0
    assert max(best_lengths(flat, 0.01, 4)) == 4


def test_a_step_in_the_costs_is_used_to_its_end() -> None:
    stepped = {n: float(-(-n // 8)) for n in range(1, 18)}
    assert 7 in best_lengths(stepped, 0.0, 16)
