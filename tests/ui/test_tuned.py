"""The plot, the table and the lines to copy fit the terminal, and are ASCII where it has no more."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specdec_cli.bench.curve import Cost
from specdec_cli.bench.elsewhere import Command
from specdec_cli.bench.results import PLAIN, Machine, Ratio, Spread
from specdec_cli.bench.tuned import LeftOut, Model, Profile, Standing, Tuned, Verdict
from specdec_cli.ui.tuned import render_tuned, told

CURVE = tuple(Cost(n, 0.01 * (1 + (n - 1) / 4), 0.01, 0.02, 5) for n in range(1, 18))
FOUND = Tuned(
    created="2030-01-01T00:00:00+00:00",
    machine=Machine(),
    build="build 3",
    target=Model("target.gguf", "target.gguf", 1000),
    drafts=(Model("draft.gguf", "draft.gguf", 100, 0.002),),
    tasks=("code",),
    temperature=0.0,
    budget_s=120.0,
    used_s=118.0,
    complete=True,
    curve=CURVE,
    candidates=(
        Standing(PLAIN, "none", None, None, 6, Spread(20.0, 19.0, 21.0)),
        Standing("draft", "draft.gguf", 16, None, 6, Spread(31.0, 30.0, 32.0), Ratio(1.55, 1.5, 1.6), Spread(1.55, 1.45, 1.62)),
        Standing("ngram", "ngram", 16, None, 1, Spread(19.0, 19.0, 19.0), Ratio(0.95), Spread(0.95, 0.95, 0.95), 1),
    ),
    left_out=(LeftOut("other", "It does not fit."),),
    verdict=Verdict(
        "Use draft: 1.55x (1.50 to 1.60) as fast as plain decoding on these tasks.", "draft", Ratio(1.55, 1.5, 1.6)
    ),
    profile=Profile("target", "target.yaml"),
    commands=(Command("llama-server", "llama-server -m target.gguf " + "--flag " * 20, ("A note.",)),),
)


def _drawn(columns: int = 80, *, drawn: bool = False) -> str:
    return render_tuned(FOUND, colour=False, columns=columns, drawn=drawn)


def test_a_bar_for_each_width_with_the_plain_cost_as_a_mark() -> None:
    lines = _drawn().splitlines()
    rows = {int(line.split()[0]): line for line in lines if line[:4].strip().isdigit()}
    assert list(rows) == list(range(1, 18))
    assert rows[5].split()[:3] == ["5", "20.0", "2.00"]
    bars = {n: row[23:] for n, row in rows.items()}
    assert all(bars[n].count("|") == 1 for n in rows)
    assert len(bars[17]) > len(bars[9]) > len(bars[2])  # the mark stands at n
    assert bars[17].count("=") > bars[9].count("=") > bars[2].count("=")
    assert bars[17].rstrip().endswith("|")  # a pass over 17 is cheaper than 17 passes


def test_passes_that_are_dearer_than_plain_ones_go_past_the_mark() -> None:
    dear = replace(FOUND, curve=(Cost(1, 0.01, 0.01, 0.01, 1), Cost(2, 0.05, 0.05, 0.05, 1)))
    row = next(
        line for line in render_tuned(dear, colour=False, columns=80, drawn=False).splitlines() if line.startswith("   2 ")
    )
    assert row.endswith("=")


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_it_fits_but_for_the_lines_to_copy(columns: int) -> None:
    text = _drawn(columns)
    assert "\x1b" not in text
    assert text.isascii()
    wide = [line for line in text.splitlines() if len(line) > columns]
    assert all(line.startswith(("  llama-server", "Written")) for line in wide)
    assert FOUND.commands[0].line.strip() in text  # in one piece


def test_lines_are_drawn_where_the_terminal_has_them() -> None:
    assert "━" in _drawn(drawn=True)
    assert "|" not in _drawn(drawn=True)
    assert "\x1b" in render_tuned(FOUND, colour=True, columns=80, drawn=True)


def test_every_candidate_has_a_line_and_the_best_is_named() -> None:
    text = _drawn()
    lines = {line.split()[0]: " ".join(line.split()) for line in text.splitlines() if line.strip()}
    assert lines["plain"] == "plain 20.0 6"
    assert lines["draft"] == "draft 31.0 1.55 (1.45-1.62) 6 best"
    assert lines["ngram"] == "ngram 19.0 0.95 1 out in round 1"
    assert "other is left out: It does not fit." in text
    assert "draft.gguf costs 2.0 ms, 0.20 passes" in text
    assert 'specdec run --profile target "PROMPT"' in text


def test_what_was_interrupted_says_so_and_names_no_profile() -> None:
    text = render_tuned(replace(FOUND, complete=False, profile=None), colour=False, columns=80, drawn=False)
    assert "Interrupted;" in text
    assert "No profile was written." in text


def test_names_that_steer_a_terminal_are_spelled_out() -> None:
    odd = replace(FOUND, candidates=(replace(FOUND.candidates[1], name="a\x1b[2J"),), commands=(Command("x", "y\x1b[2J"),))
    assert "\x1b" not in render_tuned(odd, colour=False, columns=80, drawn=False)


@pytest.mark.parametrize(
    ("used_s", "line"),
    [
        (0, "[....................] 2:00 left, x"),
        (60, "[##########..........] 1:00 left, x"),
        (300, "[####################] 0:00 left, x"),
    ],
)
def test_the_state_in_a_line(used_s: float, line: str) -> None:
    assert told(used_s, 120, "x") == line
