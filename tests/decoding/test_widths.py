"""--exact on fakes whose rows depend on the width of their pass, as real kernels' rows do."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from specdec_cli.decoding.contracts import PassResult, Rows
from specdec_cli.decoding.widths import PaddedTarget, WidthReport, probe
from tests.fakes.target import Table, TableTarget, hashed

N_CTX = 2048


class RoundingTarget(TableTarget):
    """A target whose rows are shifted by what the width of the pass, the row's index and its position say."""

    def __init__(self, table: Table, shift: Callable[[int, int, int], float], **options: int) -> None:
        super().__init__(table, n_ctx=N_CTX, max_pass=options.get("max_pass", 17), max_piece=512)
        self._shift = shift
        self.widths: list[int] = []

    def decode(self, tokens: Sequence[int], *, last_only: bool = False) -> PassResult:
        n_before = self.n_cached
        result = super().decode(tokens, last_only=last_only)
        self.widths.append(len(tokens))
        rows: Rows = result.rows
        for i in range(len(rows)):
            rows[i] += np.float32(self._shift(len(tokens), i, n_before + i))
        seconds = 0.01 * len(tokens)
        return PassResult(rows, seconds, result.width)


def report_of(target: RoundingTarget, n_max: int, anchor: int | None = None) -> WidthReport:
    *steps, report = probe(target, n_max, anchor=anchor)
    assert isinstance(report, WidthReport)
    progress = [step for step in steps if isinstance(step, float)]
    assert progress == sorted(progress)
    assert progress[-1] == 1.0
    return report


def table() -> Table:
    return hashed(8, order=3)


def test_equal_widths_are_one_class() -> None:
    report = report_of(RoundingTarget(table(), lambda width, i, position: 0.0), 6)
    assert report.classes == ((1, 2, 3, 4, 5, 6),)
    assert report.widths == (1, 2, 3, 4, 5, 6)


def test_width_one_apart_leaves_the_wider_ones() -> None:
    report = report_of(RoundingTarget(table(), lambda width, i, position: 0.125 * (width == 1)), 6)
    assert report.classes == ((1,), (2, 3, 4, 5, 6))
    assert report.anchor == 2


def test_the_class_with_the_cheapest_smallest_width_is_taken_not_the_largest() -> None:
    group = {1: 0, 2: 1, 3: 1, 4: 2, 5: 2, 6: 2}
    report = report_of(RoundingTarget(table(), lambda width, i, position: group[width] * 0.125), 6)
    assert report.classes == ((1,), (2, 3), (4, 5, 6))
    assert report.widths == (2, 3)


def test_a_difference_in_the_last_row_alone_separates_a_width() -> None:
    report = report_of(RoundingTarget(table(), lambda width, i, position: 0.125 * (width == 5 and i == 4)), 6)
    assert report.classes == ((1, 2, 3, 4, 6), (5,))


def test_a_difference_only_where_a_multiple_of_256_is_crossed_is_seen() -> None:
    def shift(width: int, i: int, position: int) -> float:
        start = position - i
        return 0.125 * (start < 512 <= start + width - 1)

    report = report_of(RoundingTarget(table(), shift), 6)
    assert len(report.classes) > 1


def test_a_difference_only_in_long_contexts_is_seen() -> None:
    report = report_of(RoundingTarget(table(), lambda width, i, position: 0.125 * (width == 1 and position > 1030)), 4)
    assert report.classes == ((1,), (2, 3, 4))


def test_a_row_that_depends_on_its_companions_separates_its_width() -> None:
    class Leaky(RoundingTarget):
        def decode(self, tokens: Sequence[int], *, last_only: bool = False) -> PassResult:
            result = super().decode(tokens, last_only=last_only)
            if len(tokens) == 4:
                result.rows[0] += np.float32(0.125 * tokens[-1])
            return result

    report = report_of(Leaky(table(), lambda width, i, position: 0.0), 5)
    assert report.classes == ((1, 2, 3, 5), (4,))


def test_at_least_64_positions_are_compared_and_the_cache_ends_empty() -> None:
    target = RoundingTarget(table(), lambda width, i, position: 0.0)
    assert report_of(target, 4).n_positions >= 64
    assert target.n_cached == 0


def test_a_width_that_agrees_with_no_other_is_a_class_of_its_own() -> None:
    report = report_of(RoundingTarget(table(), lambda width, i, position: 0.125 * width), 4)
    assert report.classes == ((1,), (2,), (3,), (4,))
    assert report.widths == (2,)


def test_where_no_width_allows_a_draft_there_is_no_class_to_use() -> None:
    alone = report_of(RoundingTarget(table(), lambda width, i, position: 0.0), 1)
    assert alone.anchor is None
    assert alone.widths == ()


def test_an_earlier_choice_stays() -> None:
    report = report_of(RoundingTarget(table(), lambda width, i, position: 0.125 * (width > 3)), 8, anchor=4)
    assert report.widths == (4, 5, 6, 7, 8)


def padded(shift: Callable[[int, int, int], float], widths: Sequence[int]) -> tuple[RoundingTarget, PaddedTarget, list[int]]:
    mismatches: list[int] = []
    inner = RoundingTarget(table(), shift)
    return inner, PaddedTarget(inner, widths, n_ctx=1024, on_mismatch=mismatches.append), mismatches


def test_passes_are_rounded_up_and_the_throw_away_tokens_are_gone() -> None:
    inner, target, _ = padded(lambda width, i, position: 0.125 * (width == 1), (2, 4, 8))
    target.feed([1, 2, 3])
    for n in range(1, 9):
        result = target.decode(list(range(n)) if n < 8 else [0] * 8)
        assert len(result.rows) == n
        assert result.width == min(width for width in (2, 4, 8) if width >= n)
        assert target.n_cached == 3 + n
        target.keep(3)
    assert set(inner.widths) == {2, 4, 8}


def test_rows_do_not_depend_on_how_many_tokens_were_asked_for() -> None:
    _, target, _ = padded(lambda width, i, position: 0.125 * (width == 1), (2, 4))
    target.feed([1, 2])
    alone = target.decode([3]).rows[0].copy()
    target.keep(2)
    assert np.array_equal(target.decode([3, 4, 5]).rows[0], alone)


def test_the_running_check_finds_a_width_that_drifts() -> None:
    _, target, mismatches = padded(lambda width, i, position: 0.125 * (width == 4 and position > 100), (2, 4))
    target.feed([1])
    for _ in range(300):
        target.decode([2])
    assert mismatches
    assert min(mismatches) > 100


def test_the_running_check_is_silent_where_all_is_well() -> None:
    inner, target, mismatches = padded(lambda width, i, position: 0.0, (2, 4))
    target.feed([1])
    for _ in range(300):
        target.decode([2])
    assert mismatches == []
    assert inner.widths.count(4) == 300 // 64


@pytest.mark.parametrize("last_only", [False, True])
def test_last_only_gives_the_last_asked_row(last_only: bool) -> None:
    _, target, _ = padded(lambda width, i, position: 0.0, (4,))
    target.feed([1])
    rows = target.decode([2, 3], last_only=last_only).rows
    assert len(rows) == (1 if last_only else 2)
    assert np.array_equal(rows[-1], table()((1, 2, 3)))
