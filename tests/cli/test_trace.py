"""--trace and the command trace, as a person meets them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from specdec_cli.tracing.form import SCHEMA
from tests.cli.command import Done, run, specdec
from tests.tracing.made import a_trace, head, run_line, written

PAGE = Path(__file__).parents[2] / "docs" / "json" / "trace.md"
PROMPT = "Count: one, two, three, four. Again: one, two,"
FEW = ("-n", "16", "--temp", "0", "-c", "512", "--raw")


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> tuple[Done, Path]:
    """One small run of the real thing."""
    path = tmp_path_factory.mktemp("trace") / "t.jsonl"
    return run("demo", PROMPT, "--draft", "ngram", "--draft-fixed", "3", *FEW, "--trace", path), path


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.mark.model
def test_a_run_is_traced_and_its_text_stays_the_same(traced: tuple[Done, Path]) -> None:
    done, path = traced
    assert done.code == 0, done.err
    bare = run("demo", PROMPT, "--draft", "ngram", "--draft-fixed", "3", *FEW)
    assert bare.out == done.out
    found = rows(path)
    assert [found[0]["schema"], found[0]["line"], found[-1]["line"]] == [SCHEMA, "head", "closed"]
    assert len(found[0]["models"]["target"]["sha256"]) == 64
    assert "prompt" not in found[0]["settings"]
    assert PROMPT not in path.read_text(encoding="utf-8")
    assert found[-2]["finish"] == "length"
    assert sum(len(row["emitted"]) for row in found if row["line"] == "round") == found[-2]["emitted"] == 16


@pytest.mark.model
def test_a_governed_run_has_reasons(tmp_path: Path) -> None:
    done = run("demo", PROMPT, "--draft", "ngram", *FEW, "--trace", tmp_path / "t.jsonl", "-q")
    assert (done.code, done.err) == (0, "")
    reasons = [row["why"] for row in rows(tmp_path / "t.jsonl") if row["line"] == "round"]
    assert all(why["rate"] > 0 and why["reason"] for why in reasons)


@pytest.mark.model
def test_every_key_of_a_trace_stands_in_its_page(traced: tuple[Done, Path]) -> None:
    page = PAGE.read_text(encoding="utf-8")
    named = ("settings", "models", "drafters", "reasons", "reasons_of_none", "finish")  # their keys are names of other things
    summary = specdec("trace", traced[1], "--json").document
    assert [key for key in sorted(_keys([rows(traced[1]), summary], named)) if f"`{key}`" not in page] == []


def _keys(value: Any, named: tuple[str, ...]) -> set[str]:
    if isinstance(value, list):
        return set().union(*(_keys(each, named) for each in value))
    if not isinstance(value, dict):
        return set()
    inner = (
        _keys(list(each.values()) if key in named and isinstance(each, dict) else each, named) for key, each in value.items()
    )
    return set(value).union(*inner)


@pytest.mark.model
def test_a_benchmark_is_traced_run_by_run(tmp_path: Path) -> None:
    (tmp_path / "p.jsonl").write_text(json.dumps({"name": "count", "prompt": PROMPT}) + "\n", encoding="utf-8")
    asked = ("--draft", "ngram", "--prompts", tmp_path / "p.jsonl", "-n", "12", "--repeats", "2", "-t", "1", "-c", "512")
    done = specdec("bench", "demo", *asked, "--trace", tmp_path / "t.jsonl", "--json")
    assert done.code == 0, done.err
    found = rows(tmp_path / "t.jsonl")
    names = [(row["task"], row["variant"], row["repeat"]) for row in found if row["line"] == "run"]
    assert sorted(names) == sorted((run["task"], run["variant"], run["repeat"]) for run in done.document["runs"])
    assert (found[-1]["line"], found[-1]["runs"]) == ("closed", 4)
    shown = specdec("trace", tmp_path / "t.jsonl")
    assert shown.code == 0
    assert "run 0: count, plain, repeat 0" in shown.text


@pytest.mark.model
def test_a_talk_is_traced_turn_by_turn_until_another_model_goes_on(tmp_path: Path) -> None:
    file = tmp_path / "talk.jsonl"
    talk = b"One to five?\nAnd on?\n/model demo\nAnd on?\n"
    done = specdec("chat", "demo", "--temp", "0", "-n", "8", "-c", "512", "--ignore-eos", "--trace", file, stdin=talk)
    assert done.code == 0, done.err
    assert "The trace ends here" in done.err
    lines = rows(file)
    kinds = [line["line"] for line in lines]
    assert (kinds[0], kinds[-1]) == ("head", "closed")
    assert (kinds.count("run"), kinds.count("end")) == (2, 2)
    assert [line["emitted"] for line in lines if line["line"] == "end"] == [8, 8]


@pytest.mark.model
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="has no /dev/full")
@pytest.mark.parametrize("quiet", [(), ("-q",)])
def test_a_full_disk_loses_the_trace_and_not_the_run(traced: tuple[Done, Path], quiet: tuple[str, ...]) -> None:
    done = run("demo", PROMPT, "--draft", "ngram", "--draft-fixed", "3", *FEW, "--trace", "/dev/full", *quiet)
    assert (done.code, done.out) == (0, traced[0].out)
    assert done.err.count("The trace /dev/full ends after 0 lines: No space left on device.") == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--trace", "-"), "--trace cannot write to -."),
        (("--trace", "missing/t.jsonl"), "cannot be written."),
        (("--trace", PAGE), "It is no trace"),
    ],
)
def test_a_trace_that_cannot_be_written_is_refused_before_anything_loads(words: tuple[str, ...], said: str) -> None:
    done = specdec("run", "no-such-model.gguf", "hello", *words)
    assert (done.code, done.out) == (2, b"")
    assert said in done.err


def test_a_trace_and_results_cannot_share_a_file(tmp_path: Path) -> None:
    done = specdec("bench", "no-such-model.gguf", "-o", tmp_path / "r.json", "--trace", tmp_path / "r.json")
    assert done.code == 2
    assert "The results go there (-o)." in done.err


def test_a_model_that_does_not_load_leaves_no_trace_behind(tmp_path: Path) -> None:
    assert specdec("run", "no-such-model.gguf", "hello", "--trace", tmp_path / "t.jsonl").code == 2
    assert not (tmp_path / "t.jsonl").exists()


def test_a_file_is_shown_with_its_rounds(tmp_path: Path) -> None:
    path = written(tmp_path / "t.jsonl", a_trace())
    done = specdec("trace", path)
    assert (done.code, done.err) == (0, "")
    assert "acceptance by position" in done.text
    assert "[+,][- two][- 3]\n" in done.text
    assert "[+ and][+\\n][*end]" in done.text
    assert "\x1b" not in done.text
    some = specdec("trace", path, "--rounds", "1:2")
    assert "[- two]" in some.text
    assert "[*end]" not in some.text
    assert some.text.endswith("1 more: --rounds 2:3\n")
    assert "There is no round 9: the trace has 3." in specdec("trace", path, "--rounds", "9:").text


def test_a_trace_without_rounds_says_so(tmp_path: Path) -> None:
    done = specdec("trace", written(tmp_path / "t.jsonl", [head(), run_line()]))
    assert done.text.endswith("The trace has no rounds.\n")


def test_failures_and_differences_are_shown(tmp_path: Path) -> None:
    path, other = written(tmp_path / "a.jsonl", a_trace()), written(tmp_path / "b.jsonl", [*a_trace()[:3]])
    assert "dearest refusal" in specdec("trace", path, "--worst", "--top", "1").text
    same = specdec("trace", "--diff", path, path)
    assert (same.code, same.text.split("\n")[0]) == (0, "The emitted tokens are the same, all 6 of them.")
    apart = specdec("trace", path, "--diff", other)
    assert apart.code == 1
    assert "B (has ended)" in apart.text
    unlike = specdec("trace", "--diff", path, written(tmp_path / "c.jsonl", [head("b" * 64), run_line()]))
    assert unlike.code == 1
    assert unlike.text.startswith("These traces cannot be compared")


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("a", "b"),
        ("--diff", "a"),
        ("a", "--worst", "--json"),
        ("a", "--rounds", "5"),
        ("a", "--rounds", "5:2"),
        ("missing.jsonl",),
    ],
)
def test_what_cannot_be_meant_is_refused(words: tuple[str, ...]) -> None:
    done = specdec("trace", *words)
    assert (done.code, done.out) == (2, b"")
    assert done.err.startswith("error: ")


def test_a_damaged_trace_is_shown_with_a_note(tmp_path: Path) -> None:
    path = written(tmp_path / "t.jsonl", a_trace())
    path.write_bytes(path.read_bytes().replace(b'"index": 1', b'"index": "x"')[:-30])
    done = specdec("trace", path)
    assert done.code == 0
    assert "note: Line 4 is left out: round.index is 'x', not int." in done.text
    assert "note: The trace is cut" in done.text
    assert len(specdec("trace", path, "--json").document["notes"]) == 2
