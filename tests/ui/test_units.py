"""Sizes as people say them, and text out of files that can do a terminal no harm."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdec_cli.ui.units import from_home, lines, one_line, percent
from specdec_cli.units import count, size


@pytest.mark.parametrize(
    ("n_bytes", "expected"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.00 kB"), (98_362_432, "98.4 MB"), (999_600, "1.00 MB"), (1_117_320_736, "1.12 GB")],
)
def test_sizes_have_three_digits(n_bytes: int, expected: str) -> None:
    assert size(n_bytes) == expected


def test_counts_and_shares() -> None:
    assert (count(12), count(134_515_008), count(1_777_088_000)) == ("12", "135 M", "1.78 B")
    assert (percent(0, 9), percent(1, 900), percent(1, 3), percent(0, 0)) == ("0 %", "<1 %", "33 %", "0 %")


@given(st.text(max_size=60))
def test_nothing_in_one_line_steers_a_terminal(text: str) -> None:
    shown = one_line(text, 40)
    assert all(unicodedata.category(char) not in ("Cc", "Cf", "Cs", "Zl", "Zp") for char in shown)
    assert all(char.isprintable() or char in "\n\t" for char in lines(text))


def test_long_text_is_cut_and_says_so() -> None:
    shown = one_line("x" * 10**6, 10)
    assert shown == "x" * 10 + "... (999,990 characters more)"


def test_escapes_are_spelled_out() -> None:
    assert one_line("a\x1b[31m\u202eb\n c", 40) == "a\\x1b[31m\\u202eb c"
    assert lines("a\r\n\tb\x1b\r") == "a\n\tb\\x1b\\r"


def test_the_home_folder_is_not_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    assert from_home(str(tmp_path / "models")).startswith("~")
    assert from_home(str(tmp_path)) == "~"
    assert from_home(f"{tmp_path}-other") == f"{tmp_path}-other"
    assert from_home("owner/repo:Q4_0") == "owner/repo:Q4_0"
