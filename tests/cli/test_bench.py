"""The command bench, from end to end."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from specdec_cli.bench.measure import Interrupted
from specdec_cli.bench.results import Results, load
from specdec_cli.cli import benching
from specdec_cli.cli.app import main
from tests.bench import made
from tests.cli.command import Done, environment, specdec

PAGE = Path(__file__).parents[2] / "docs" / "json" / "bench.md"
FOUND = replace(made.results({"code": ([10, 10], [20, 20]), "prose": ([10, 10], [9, 9])}), summaries=())


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[Done, Path]:
    """One small run of the real thing."""
    folder = tmp_path_factory.mktemp("bench")
    (folder / "p.jsonl").write_text(
        '{"name": "count", "prompt": "Count: one, two, three, four. Again: one, two,", "system": "Be brief."}\n',
        encoding="utf-8",
    )
    arguments = ("--draft", "ngram", "--prompts", folder / "p.jsonl", "-n", "16", "--repeats", "1", "-t", "1", "-c", "512")
    done = specdec("bench", "demo", *arguments, "-o", folder / "r.json", "--json", "--require-equal", "--max-memory", "2G")
    return done, folder


@pytest.mark.model
def test_a_document_holds_the_runs_and_what_they_say(measured: tuple[Done, Path]) -> None:
    done, folder = measured
    assert done.code == 0, done.err
    assert done.text.count("\n") == 1
    document = done.document
    assert document["schema"] == "specdec.bench/1"
    assert [(run["task"], run["variant"], run["n_tokens"]) for run in document["runs"]] == [
        ("count", "plain", 16),
        ("count", "ngram", 16),
    ]
    assert [check["passed"] for check in document["verdict"]["checks"]] == [True, True]
    assert len(document["models"]["target"]["sha256"]) == 64
    assert document["planned_bytes"]["ngram"] >= document["planned_bytes"]["plain"] > 90_000_000
    assert load(folder / "r.json").runs[0].tokens
    assert json.loads((folder / "r.json").read_text(encoding="utf-8")) == document


@pytest.mark.model
def test_a_file_is_taken_up_again_and_never_written_over(measured: tuple[Done, Path]) -> None:
    _, folder = measured
    same = ("--draft", "ngram", "--prompts", folder / "p.jsonl", "-n", "16", "--repeats", "1", "-t", "1", "-c", "512")
    again = specdec("bench", "demo", *same, "-o", folder / "r.json", "--resume", "--format", "csv")
    assert again.code == 0, again.err
    assert len(again.text.splitlines()) == 3  # nothing was measured anew
    other = specdec("bench", "demo", *same, "-o", folder / "r.json", "--resume", "--temp", "0.5")
    assert (other.code, other.out) == (2, b"")
    assert "temp was 0, and is 0.5." in other.err
    over = specdec("bench", "demo", *same, "-o", folder / "r.json")
    assert over.code == 2
    assert "is there already" in over.err


@pytest.mark.model
def test_every_key_of_a_document_stands_in_its_page(measured: tuple[Done, Path]) -> None:
    page = PAGE.read_text(encoding="utf-8")
    document = measured[0].document
    named = ("settings", "models", "planned_bytes", "drafters", "curves")  # their keys are names of other things
    assert [key for key in sorted(_keys(document, named)) if f"`{key}`" not in page] == []


def _keys(value: Any, named: tuple[str, ...]) -> set[str]:
    if isinstance(value, dict):
        inner = [list(each.values()) if key in named else each for key, each in value.items()]
        return set(value).union(*(_keys(each, named) for each in inner))
    return set().union(*(_keys(each, named) for each in value)) if isinstance(value, list) else set()


@pytest.mark.model
def test_a_target_that_cannot_go_back_has_nothing_to_measure_beside_plain_decoding(recurrent: Path, tmp_path: Path) -> None:
    (tmp_path / "p.txt").write_text("abc", encoding="utf-8")
    done = specdec("bench", recurrent, "--draft", "ngram", "--prompts", tmp_path / "p.txt", "-n", "4", "-c", "256")
    assert done.code == 2
    assert "cannot be drafted for" in done.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "There is no model"),
        (("demo", "--tasks", "nope"), "There is no task 'nope'"),
        (("demo", "--prompts", "none.txt"), "There is no prompt file none.txt"),
        (("demo", "--tasks", "code", "--prompts", "none.txt"), "cannot be used together"),
        (("demo", "--resume"), "--resume needs a file"),
        (("demo", "--max-memory", "lots"), "does not read as a size"),
        (("demo", "--draft", "none", "--require-speedup", "2"), "nothing to hold against the thresholds"),
        (("demo", "--draft", "ngram", "--temp", "1", "--require-equal"), "cannot hold when --verify reject samples"),
        (("demo", "-o", "."), "It is no file"),
        (("demo", "-o", ".", "--resume"), "It is no file"),
        (("demo", "-o", "none/r.json"), "There is no folder none"),
        (("demo", "--grammar", "x"), "does not take --grammar"),
        (("demo", "--shadow"), "does not take --shadow"),
        (("demo", "--draft", "ngram", "-n", "1"), "-n 1 cannot be measured"),
        (("demo", "-n", "many"), "Use --predict 128, the default"),
    ],
)
def test_what_cannot_be_meant_ends_with_2(arguments: tuple[str, ...], words: str) -> None:
    done = specdec("bench", *arguments)
    assert (done.code, done.out) == (2, b"")
    assert words in done.err


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from specdec_cli.cli.app import main; main(['bench', '--help']);"
        "sys.exit(bool({'numpy', 'rich', 'llama_cpp', 'huggingface_hub'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, env=environment(), check=False)
    assert done.returncode == 0
    text = " ".join(done.stdout.decode("utf-8").split())
    assert "tokens to generate; -1 = until the end [128]" in text  # the default is this command's own
    assert "temperature; 0 = greedy [0]" in text


class Stub:
    """What comes from measuring, and how it ends."""

    def __init__(self, found: list[Results], end: BaseException | None = None) -> None:
        self._found, self._end = found, end

    def __call__(self, *_arguments: object) -> Iterator[Results]:
        yield from self._found
        if self._end is not None:
            raise self._end


@pytest.mark.parametrize(
    ("thresholds", "code"),
    [((), 0), (("--require-speedup", "1.3"), 0), (("--require-speedup", "1.5"), 1), (("--max-memory", "100MB"), 1)],
)
def test_a_threshold_that_is_missed_ends_with_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], thresholds: tuple[str, ...], code: int
) -> None:
    monkeypatch.setattr(benching, "_measured", Stub([FOUND]))
    assert main(["bench", "demo", *thresholds]) == code
    text = capsys.readouterr().out
    assert "Worth it here: ngram is 1.34x" in text
    assert ("Missed." in text) == (code == 1)


@pytest.mark.parametrize("end", [Interrupted(), KeyboardInterrupt()])
def test_what_was_measured_before_an_interruption_is_kept_and_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, end: BaseException
) -> None:
    some = replace(FOUND, runs=FOUND.runs[:3])
    monkeypatch.setattr(benching, "_measured", Stub([replace(FOUND, runs=()), some], end))
    assert main(["bench", "demo", "-o", str(tmp_path / "r.json")]) == 130
    assert "code" in capsys.readouterr().out
    assert load(tmp_path / "r.json").runs == some.runs


def test_interrupted_before_anything_was_measured_there_is_nothing_to_show(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(benching, "_measured", Stub([], Interrupted()))
    assert main(["bench", "demo"]) == 130
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(("form", "begins"), [("markdown", "**made up**"), ("csv", "task,variant"), ("json", '{"schema"')])
def test_every_format_goes_to_standard_output(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], form: str, begins: str
) -> None:
    monkeypatch.setattr(benching, "_measured", Stub([FOUND]))
    assert main(["bench", "demo", "--format", form]) == 0
    assert capsys.readouterr().out.startswith(begins)
