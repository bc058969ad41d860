"""A result file comes back as it was written, and one that is damaged or of other work is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from specdec_cli.bench.results import Cause, Difference, Machine, ModelFile, Results, load, resumed, write
from specdec_cli.bench.verdict import Thresholds, judge
from specdec_cli.errors import UsageError
from tests.bench import made


@pytest.fixture
def whole() -> Results:
    found = made.results(
        {"a": ([10, 11], [20, 21]), "b": ([9], [])}, differences=[Difference("a", "ngram", 3, Cause.ROUNDING, 0.1)]
    )
    return replace(found, verdict=judge(found, Thresholds(speedup=1.5)))


def test_a_file_comes_back_as_it_was_written(tmp_path: Path, whole: Results) -> None:
    write(tmp_path / "r.json", whole)
    assert load(tmp_path / "r.json") == whole
    assert [path.name for path in tmp_path.iterdir()] == ["r.json"]


def test_what_is_not_known_is_null_and_no_number_is_lost(tmp_path: Path, whole: Results) -> None:
    write(tmp_path / "r.json", replace(whole, runs=(replace(whole.runs[0], generation_tps=float("nan"), energy_j=None),)))
    found = json.loads((tmp_path / "r.json").read_text(encoding="utf-8"), parse_constant=lambda word: pytest.fail(word))
    assert found["runs"][0]["generation_tps"] is None
    assert found["runs"][0]["itl_s"] == [[0.1, 1], [0.2, 1], [0.4, 2]]


def test_a_file_that_cannot_be_written_is_told_and_leaves_nothing(tmp_path: Path, whole: Results) -> None:
    (tmp_path / "folder.json").mkdir()
    with pytest.raises(UsageError, match="cannot be written"):
        write(tmp_path / "folder.json", whole)
    with pytest.raises(UsageError, match="cannot be written"):
        write(tmp_path / "none" / "r.json", whole)
    assert [path.name for path in tmp_path.iterdir()] == ["folder.json"]


def _drop(key: str) -> Callable[[dict[str, Any]], object]:
    return lambda document: document.pop(key)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (_drop("schema"), "It has no schema"),
        (lambda document: document.update(schema="specdec.bench/9"), "specdec.bench/9"),
        (_drop("machine"), "the file has no machine"),
        (lambda document: document.update(runs={}), "the file.runs is"),
        (lambda document: document["runs"][0].update(n_tokens="many"), "the file.runs[0].n_tokens is 'many', not int"),
        (lambda document: document["runs"][0].update(n_tokens=True), "not int"),
        (lambda document: document["runs"][0].update(generation_tps=10**400), "the file.runs[0].generation_tps is too large"),
        (lambda document: document["runs"][0].update(itl_s=[[1.0]]), "the file.runs[0].itl_s[0] has 1 values, not 2"),
        (lambda document: document["runs"][0].update(task="zz"), "a run of 'zz', which is none of its tasks"),
        (lambda document: document["runs"][0].update(variant="zz"), "a run of 'zz', which is none of its variants"),
        (lambda document: document["runs"].append(document["runs"][0]), "a run twice"),
        (lambda document: document["tasks"].append(document["tasks"][0]), "the task 'a' twice"),
        (lambda document: document["variants"].append("ngram"), "the variant 'ngram' twice"),
        (lambda document: document["runs"][0].update(generation_tps=-2.0), "figures that cannot be"),
        (lambda document: document["runs"][0].update(concurrency=0), "figures that cannot be"),
        (lambda document: document["differences"][0].update(cause="weather"), "not one of rounding, fault, sampling"),
        (lambda document: document["models"].update(target=3), "the file.models.target is no object"),
    ],
)
def test_a_damaged_file_is_refused_with_what_is_wrong(
    tmp_path: Path, whole: Results, damage: Callable[[dict[str, Any]], object], words: str
) -> None:
    path = tmp_path / "r.json"
    write(path, whole)
    document = json.loads(path.read_text(encoding="utf-8"))
    damage(document)
    path.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        load(path)
    assert words in str(caught.value)


@pytest.mark.parametrize("text", ["", "[", "[]", "3", "[" * 100_000])
def test_what_is_no_document_is_no_result_file(tmp_path: Path, text: str) -> None:
    (tmp_path / "r.json").write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match="no result file"):
        load(tmp_path / "r.json")


def test_bytes_that_are_no_text_are_told_plainly(tmp_path: Path) -> None:
    (tmp_path / "r.json").write_bytes(b"\xf2\x00")
    with pytest.raises(UsageError) as caught:
        load(tmp_path / "r.json")
    assert (caught.value.why, caught.value.fix) == ("It is no UTF-8.", "specdec bench -o FILE.json")


def test_what_is_no_file_is_not_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no file at all"):
        load(tmp_path)


def test_a_name_that_is_no_text_is_kept(tmp_path: Path, whole: Results) -> None:
    write(tmp_path / "r.json", replace(whole, label="a\udcff"))
    assert load(tmp_path / "r.json").label == "a\udcff"


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        load(tmp_path / "r.json")


def test_the_same_work_goes_on_with_its_runs(tmp_path: Path, whole: Results) -> None:
    write(tmp_path / "r.json", whole)
    fresh = replace(whole, runs=(), differences=(), verdict=None, machine=replace(whole.machine, load=3.0), created="later")
    found = resumed(tmp_path / "r.json", fresh)
    assert found.runs == whole.runs
    assert found.differences == whole.differences
    assert found.verdict is None
    assert ("a", "ngram", 1, 1) in found.done()
    assert ("b", "ngram", 0, 1) not in found.done()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"models": {"target": ModelFile("other.gguf", 1000, "b" * 64)}}, "The target was target.gguf (aaaaaaaaaaaa)"),
        ({"models": {}}, "One of its models was the target"),
        ({"settings": {"temp": "0.8", "draft_max": "16"}}, "temp was 0, and is 0.8"),
        ({"settings": {"temp": "0"}}, "draft_max was 16, and is not set"),
        ({"tasks": (made.task("a"),)}, "It has the tasks b"),
        ({"tasks": (made.task("a"), made.task("b"), made.task("c"))}, "It lacks the tasks c"),
        ({"tasks": (made.task("a"), made.task("b", "0" * 64))}, "The task b was another one (its prompt differs)"),
        ({"tasks": (made.task("a"), replace(made.task("b"), n_predict=9))}, "n_predict 16, now 9"),
        ({"variants": ("plain", "model")}, "The variants were plain, ngram, and are plain, model"),
        ({"build": "build 4"}, "The build was build 3, and is build 4"),
        ({"machine": Machine("System 1", "Processor 7", 4)}, "The machine was Processor 2, and is Processor 7"),
    ],
)
def test_other_work_is_refused_with_what_differs(tmp_path: Path, whole: Results, change: dict[str, Any], words: str) -> None:
    write(tmp_path / "r.json", whole)
    with pytest.raises(UsageError) as caught:
        resumed(tmp_path / "r.json", replace(whole, **change))
    assert words in caught.value.why
