"""The numbers of a report's plots: what is known is added up, and what a file lacks is said in words."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from specdec_cli.bench.comparison import compare
from specdec_cli.bench.curve import Cost
from specdec_cli.bench.figures import Bars, Costs, Figure, Plot, Rates, Ratios, Waits, of_comparison, of_results, of_tuned
from specdec_cli.bench.results import Curve, Results
from specdec_cli.bench.statistics import summarised
from tests.bench import made, tuned_files
from tests.bench.result_files import measured


def whole() -> Results:
    found = made.results({"a": ([10, 11], [20, 21]), "b": ([10, 10], [9, 9])})
    runs = [
        replace(run, verified_at=(3, 2), accepted_at=(2, 1), lengths=(1, 0, 3)) if run.variant == "ngram" else run
        for run in found.runs
    ]
    return replace(found, runs=tuple(runs), curves={"ngram": Curve(((4, 0.02), (1, 0.01)), None, 90)})


def _by_plot(results: Results) -> dict[Plot, Figure]:
    return {each.plot: each for each in of_results(results)}


def test_every_plot_of_a_whole_file() -> None:
    found = _by_plot(whole())
    assert set(found) == set(Plot)
    kinds = {plot: type(figure.data) for plot, figure in found.items()}
    assert kinds == {
        Plot.SPEEDUP: Ratios, Plot.ACCEPTANCE: Rates, Plot.COST: Costs, Plot.LATENCY: Waits, Plot.TIME: Bars, Plot.MEMORY: Bars,
    }  # fmt: skip
    assert all(figure.table.rows and figure.says and figure.how for figure in found.values())


def test_acceptance_is_added_up_by_position() -> None:
    data = _by_plot(whole())[Plot.ACCEPTANCE].data
    assert isinstance(data, Rates)
    assert data.lines[0].points == ((1.0, 2 / 3), (2.0, 1 / 2))


def test_costs_stand_beside_the_share_of_rounds() -> None:
    figure = _by_plot(whole())[Plot.COST]
    assert isinstance(figure.data, Costs)
    assert figure.data.lines[0].points == ((1.0, 10.0), (4.0, 20.0))
    assert figure.data.chosen[0].points == ((1.0, 0.25), (2.0, 0.0), (3.0, 0.75))
    assert figure.says == "Drafted a round, on average: ngram 1.5 tokens, none in 25 % of 16 rounds."


def test_the_last_row_of_ratios_is_over_all_tasks() -> None:
    data = _by_plot(whole())[Plot.SPEEDUP].data
    assert isinstance(data, Ratios)
    assert [name for name, _ in data.rows] == ["a", "b", "all tasks"]


def test_what_an_older_file_lacks_is_said() -> None:
    found = _by_plot(made.results({"a": ([10], [20])}))
    for plot in (Plot.ACCEPTANCE, Plot.COST):
        assert found[plot].data is None
        assert "does not hold" in found[plot].says
    assert found[Plot.SPEEDUP].data is not None


@pytest.mark.parametrize(
    ("results", "said"),
    [
        (replace(made.results({"a": ([], [])}), planned_bytes={}), "Nothing was measured yet."),
        (measured("theirs", {"server": 10.0}), "A server does not tell"),
        (measured("plain", {"plain": 10.0}), "Only plain decoding was measured."),
    ],
)
def test_what_cannot_be_had_is_said(results: Results, said: str) -> None:
    found = _by_plot(replace(results, summaries=summarised(results)))
    assert said in found[Plot.ACCEPTANCE].says
    assert found[Plot.ACCEPTANCE].data is found[Plot.SPEEDUP].data is None


def test_numbers_that_cannot_be_drawn_are_left_out() -> None:
    odd = [replace(run, itl_s=((0.0, 1), (math.inf, 1)), draft_s=math.inf, n_tokens=0) for run in whole().runs]
    found = _by_plot(replace(whole(), runs=tuple(odd), curves={"ngram": Curve(((1, math.nan), (0, 1.0)), None, 0)}))
    assert found[Plot.LATENCY].data is found[Plot.TIME].data is None
    costs = found[Plot.COST].data
    assert isinstance(costs, Costs)
    assert costs.lines == ()


def test_files_side_by_side() -> None:
    figure = of_comparison(compare([measured("one", {"plain": 10.0}), measured("two", {"plain": 20.0})], ["1", "2"]))
    assert isinstance(figure.data, Ratios)
    assert figure.data.series == ("two",)
    assert "two is 2.00x" in figure.says


def test_what_tune_found() -> None:
    speedup, cost = of_tuned(tuned_files.found())
    assert isinstance(speedup.data, Ratios)
    assert speedup.says == "Use ngram."
    assert isinstance(cost.data, Costs)
    assert cost.data.lines[0].points == ((1.0, 10.0), (2.0, 12.0))
    bare = replace(tuned_files.found(), curve=(Cost(1, math.nan, 0, 0, 1),), candidates=())
    assert [each.data for each in of_tuned(bare)] == [None, None]
