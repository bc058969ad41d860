"""Result files side by side: the right ratios, and no unequal work in silence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from specdec_cli.bench.comparison import Comparison, compare
from specdec_cli.bench.results import Machine, ModelFile, Results
from specdec_cli.errors import UsageError
from tests.bench.result_files import TARGET, measured, run, task

NAMES = ("a.json", "b.json")


def side_by_side(a: Results, b: Results) -> Comparison:
    return compare([a, b], NAMES)


def test_ratios_are_to_the_judged_variant_of_the_first_file() -> None:
    found = side_by_side(measured("theirs", {"server": 10.0}), measured())
    assert [column.label for column in found.columns] == ["theirs", "ours, plain", "ours, model"]
    assert [column.judged for column in found.columns] == [True, False, True]
    assert found.reference == 0
    ratios = [ratio.value if ratio else None for ratio in found.ratios]
    assert ratios == [None, pytest.approx(1.0), pytest.approx(1.5)]
    assert found.unequal == ()
    assert found.sentence == "ours, model is 1.50x (1.50 to 1.50) as fast as theirs over 2 tasks."


def test_of_a_file_that_drafts_the_drafted_runs_are_the_measure() -> None:
    found = side_by_side(measured(), measured("theirs", {"server": 10.0}))
    assert found.columns[found.reference].variant == "model"
    assert "theirs is 0.67x" in found.sentence


def test_more_than_two_files() -> None:
    speeds: dict[str, float] = {"server": 20.0}
    found = compare([measured(), measured("x", speeds), measured("x", {"server": 30.0})], ["a", "b", "c"])
    assert [column.label for column in found.columns[2:]] == ["x (b)", "x (c)"]
    assert "x (b) is 1.33x" in found.sentence
    assert "x (c) is 2.00x" in found.sentence


def test_the_sentence_counts_where_it_gains_and_where_not() -> None:
    fast, slow = measured(speeds={"server": 20.0}, tasks=("a",)), measured(speeds={"server": 5.0}, tasks=("b",))
    mixed = replace(fast, tasks=(*fast.tasks, *slow.tasks), runs=(*fast.runs, *slow.runs))
    assert "(faster on 1, slower on 1)" in side_by_side(measured("base", {"server": 10.0}), mixed).sentence


def test_texts_are_compared_token_by_token_where_both_tell_them() -> None:
    base = measured(speeds={"server": 10.0})
    other = measured("other", {"server": 10.0}, tokens=[0, 1, 2, 9, 4, 5, 6, 7, 8, 9])
    assert {row.cells[1].text for row in side_by_side(base, base).rows if row.cells[1]} == {"same"}
    assert {row.cells[1].text for row in side_by_side(base, other).rows if row.cells[1]} == {"differs at 3"}
    hashes_only = replace(other, runs=tuple(replace(each, tokens=()) for each in other.runs))
    assert {row.cells[1].text for row in side_by_side(base, hashes_only).rows if row.cells[1]} == {"differs"}
    nothing = replace(other, runs=tuple(replace(each, tokens=(), text_sha256=None) for each in other.runs))
    assert {row.cells[1].text for row in side_by_side(base, nothing).rows if row.cells[1]} == {None}


def _with_task(**changes: object) -> Callable[[Results], Results]:
    return lambda found: replace(found, tasks=tuple(replace(each, **changes) for each in found.tasks))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda found: replace(found, models={"target": replace(TARGET, sha256="b" * 64)}), "The targets differ: t.gguf (aaaa"),
        (_with_task(prompt_sha256="other"), "The prompts of a and b differ"),
        (_with_task(n_prompt=6), "The prompts of a and b differ"),
        (_with_task(n_predict=12), "Tokens to generate differ for a and b: 10 in a.json, 12 in b.json."),
        (_with_task(temperature=0.8), "Temperatures differ for a and b: 0 in a.json, 0.8 in b.json."),
        (
            lambda found: replace(found, runs=tuple(replace(each, n_tokens=7) for each in found.runs)),
            "a and b did not write the same number of tokens: 10 in a.json, 7 in b.json.",
        ),
    ],
)
def test_unequal_work_is_named(change: Callable[[Results], Results], words: str) -> None:
    found = side_by_side(measured(), change(measured("other")))
    assert [sentence for sentence in found.unequal if words in sentence], found.unequal
    assert found.sentence.startswith("Of unequal work: ")


def test_seeds_count_only_where_something_is_drawn() -> None:
    assert side_by_side(measured(), _with_task(seed=1)(measured("other"))).unequal == ()
    hot = _with_task(temperature=0.8)
    assert "The seeds" in side_by_side(hot(measured()), _with_task(seed=1)(hot(measured("other")))).unequal[0]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda found: replace(found, models={"target": ModelFile(description="small")}), "b.json measured cannot be verified"),
        (lambda found: replace(found, machine=Machine(cpu="Another", cores=8)), "The machines differ: A processor, 2 cores"),
        (lambda found: replace(found, machine=Machine()), "same machine is not known"),
        (lambda found: replace(found, settings={"threads": "4"}), "threads is 2 in a.json and 4 in b.json."),
        (lambda found: replace(found, settings={"draft_max": "4"}), ""),
    ],
)
def test_what_else_differs_is_noted(change: Callable[[Results], Results], words: str) -> None:
    found = side_by_side(measured(), change(measured("other")))
    assert found.unequal == ()
    assert words in " ".join(found.notes)
    assert bool(found.notes) == bool(words)


def test_only_common_tasks_and_loads_are_compared_and_the_rest_is_named() -> None:
    a, b = measured(tasks=("a", "b", "c")), measured("other", {"server": 10.0}, tasks=("b", "d"), levels=(1, 2))
    found = side_by_side(a, b)
    assert [(row.task, row.concurrency) for row in found.rows] == [("b", 1)]
    notes = " ".join(found.notes)
    assert "Only a.json has a and c, which are left out." in notes
    assert "Only b.json has d, which is left out." in notes
    assert "Only b.json was measured with 2 requests at a time." in notes


def test_nothing_in_common_is_no_comparison() -> None:
    with pytest.raises(UsageError, match="no task in common"):
        side_by_side(measured(tasks=("a",)), measured("other", tasks=("b",)))
    with pytest.raises(UsageError, match="no runs yet"):
        side_by_side(measured(), replace(measured("other"), runs=()))


def test_it_is_said_at_which_load_a_gain_ends() -> None:
    plain = measured("plain", {"server": 10.0}, levels=(1, 2, 4))
    drafted = measured("drafted", {"server": 15.0}, levels=(1, 2))
    at_four = [run(task(name), "server", repeat, 2.5, range(10), 4) for name in ("a", "b") for repeat in range(3)]
    drafted = replace(drafted, runs=(*drafted.runs, *at_four))
    found = side_by_side(plain, drafted)
    assert "drafted is 1.50x (1.50 to 1.50) as fast as plain over 2 tasks." in found.sentence
    assert "1.50x with 2, 0.99x with 4; the gain ends at 4." in found.sentence
    load = next(load for load in found.loads if (load.column, load.concurrency) == (0, 2))
    assert load.total_tps is not None
    assert load.total_tps.median == pytest.approx(2 * 5.05)  # two requests of ten tokens, both over after ten tokens' time
