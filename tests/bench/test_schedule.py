"""The order of runs is fair: nobody is always first, and everything is measured equally often."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from specdec_cli.bench.schedule import remaining, schedule


def _order(tasks: str, variants: str, repeats: int, *, together: bool = True) -> str:
    return " ".join(slot.task + slot.variant for slot in schedule(tasks, variants, repeats, together=together))


def test_variants_take_turns_in_alternating_order() -> None:
    assert _order("x", "AB", 3) == "xA xB xB xA xA xB"
    assert _order("xy", "AB", 2) == "xA xB yB yA xB xA yA yB"


def test_variants_that_do_not_fit_together_take_turns_at_all_tasks() -> None:
    assert _order("xy", "AB", 2, together=False) == "xA yA xB yB xB yB xA yA"


@given(st.integers(1, 5), st.integers(1, 4), st.integers(1, 6), st.booleans())
def test_every_task_is_measured_equally_often_with_every_variant(
    n_tasks: int, n_variants: int, repeats: int, together: bool
) -> None:
    tasks, variants = "pqrst"[:n_tasks], "ABCD"[:n_variants]
    slots = schedule(tasks, variants, repeats, together=together)
    assert [slot.order for slot in slots] == list(range(n_tasks * n_variants * repeats))
    assert Counter(slot.key for slot in slots) == Counter(
        (task, variant, repeat, 1) for task in tasks for variant in variants for repeat in range(repeats)
    )


@given(st.integers(1, 4), st.integers(1, 4))
def test_over_an_even_number_of_repeats_each_variant_is_first_equally_often(n_tasks: int, half: int) -> None:
    slots = schedule("pqrs"[:n_tasks], "AB", 2 * half)
    firsts = Counter((slot.task, slot.variant) for slot in slots[::2])
    assert set(firsts.values()) == {half}


def test_what_has_been_measured_is_left_out() -> None:
    slots = schedule("xy", "AB", 2)
    assert remaining(slots, {slot.key for slot in slots[:5]}) == slots[5:]
