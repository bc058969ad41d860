"""The command tune, from end to end."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from specdec_cli.bench.results import PLAIN
from specdec_cli.bench.tuned import Profile
from specdec_cli.bench.tuning import Search, Trial
from specdec_cli.cli import tuning
from specdec_cli.cli.app import main
from specdec_cli.decoding.contracts import PassAborted
from specdec_cli.settings import profiles
from tests.cli.command import Done, environment, specdec

PAGE = Path(__file__).parents[2] / "docs" / "json" / "tune.md"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tune")


def _folders(home: Path) -> dict[str, str]:
    """Where a process of its own keeps its profiles, on each system."""
    return {name: str(home) for name in ("XDG_CONFIG_HOME", "HOME", "USERPROFILE", "LOCALAPPDATA", "APPDATA")}


@pytest.fixture(scope="module")
def tuned(home: Path, smollm2: Path) -> Done:
    """One small run of the real thing."""
    (home / "p.txt").write_text("Say it again: one two three four. one two three four. one two", encoding="utf-8")
    arguments = ("--draft", "ngram", "--prompts", home / "p.txt", "--budget", "4", "-n", "24", "-t", "1", "-c", "512")
    return specdec("tune", smollm2, *arguments, "--draft-max", "4", "--profile", "mine", "--json", env=_folders(home))


@pytest.mark.model
def test_a_document_holds_the_costs_the_candidates_and_the_verdict(tuned: Done) -> None:
    assert tuned.code == 0, tuned.err
    assert tuned.text.count("\n") == 1
    document = tuned.document
    assert document["schema"] == "specdec.tune/1"
    assert [cost["n_tokens"] for cost in document["curve"]] == [1, 2, 3, 4, 5]
    names = [each["name"] for each in document["candidates"]]
    assert names[:1] == [PLAIN]
    assert "ngram" in names
    assert document["verdict"]["best"] in names
    assert document["complete"]
    assert [each["program"] for each in document["commands"]] == ["specdec", "llama-server", "vllm"]


@pytest.mark.model
def test_the_profile_runs_and_is_never_written_over(tuned: Done, home: Path, smollm2: Path) -> None:
    path = Path(tuned.document["profile"]["path"])
    text = path.read_text(encoding="utf-8")
    assert text.startswith("# Written by specdec tune")
    assert tuned.document["verdict"]["sentence"] in text
    assert profiles.faults(path) == []
    entries = profiles.read(path).entries
    assert (entries["model"].texts, entries["threads"].texts, entries["ctx_size"].texts) == (str(smollm2), "1", "512")
    assert "draft" in entries
    done = specdec("run", "--profile", "mine", "Say hi.", "-n", "3", "--temp", "0", env=_folders(home))
    assert done.code == 0, done.err
    again = specdec("tune", smollm2, "--draft", "ngram", "--profile", "mine", env=_folders(home))
    assert (again.code, again.out) == (2, b"")
    assert "There is a profile mine already." in again.err
    assert "--overwrite" in again.err


@pytest.mark.model
def test_every_key_of_a_document_stands_in_its_page(tuned: Done) -> None:
    page = PAGE.read_text(encoding="utf-8")
    document = tuned.document
    document["left_out"] = document["left_out"] or [{"name": "", "sentence": ""}]
    document["drafts"] = document["drafts"] or [document["target"]]
    assert [key for key in sorted(_keys(document)) if f"`{key}`" not in page] == []


def _keys(value: Any) -> set[str]:
    if isinstance(value, dict):
        return set(value).union(*map(_keys, value.values()))
    return set().union(*map(_keys, value)) if isinstance(value, list) else set()


@pytest.mark.model
def test_a_target_that_cannot_go_back_has_nothing_to_tune(recurrent: Path, home: Path) -> None:
    done = specdec("tune", recurrent, "--draft", "ngram", "-c", "256", "--profile", "none", env=_folders(home))
    assert (done.code, done.out) == (2, b"")
    assert "cannot be drafted for" in done.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "There is no model"),
        (("demo", "--draft", "none"), "nothing to tune"),
        (("demo", "--draft-max", "0"), "nothing to tune"),
        (("demo", "--budget", "0"), "out of range"),
        (("demo", "--profile", "a/b"), "cannot be the name of a profile"),
        (("demo", "--profile", "greedy"), "There is a profile greedy already"),
        (("demo", "--draft", "ngram", "--tasks", "nope", "--profile", "new-one"), "There is no task 'nope'"),
        (("demo", "--draft-fixed", "3"), "does not take --draft-fixed"),
    ],
)
def test_what_cannot_be_meant_ends_with_2(arguments: tuple[str, ...], words: str, home: Path) -> None:
    done = specdec("tune", *arguments, env=_folders(home))
    assert (done.code, done.out) == (2, b"")
    assert words in done.err


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from specdec_cli.cli.app import main; main(['tune', '--help']);"
        "sys.exit(bool({'numpy', 'rich', 'llama_cpp', 'huggingface_hub'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, env=environment(), check=False)
    assert done.returncode == 0
    assert "--budget" in done.stdout.decode("utf-8")


@pytest.mark.model
def test_interrupted_the_best_so_far_is_shown_and_nothing_is_written(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def stopped(names: list[str], *_rest: object) -> Iterator[Search]:
        speeds = {PLAIN: 10.0, names[0]: 20.0}
        trials = [Trial(name, "a", 0, turn, 8, tps, 1.0) for turn in range(2) for name, tps in speeds.items()]
        yield Search(tuple(names), tuple(trials))
        raise PassAborted

    monkeypatch.setattr(tuning, "search", stopped)
    path = tmp_path / "kept.yaml"
    monkeypatch.setattr(tuning, "_profile", lambda *_arguments: Profile("kept", str(path)))
    assert (
        main(["tune", "demo", "--draft", "ngram", "--tasks", "story", "--budget", "1", "--draft-max", "2", "-c", "512"]) == 130
    )
    text = capsys.readouterr().out
    assert "Interrupted;" in text
    assert "ngram" in text
    assert "2.00" in text
    assert not path.exists()


def test_what_was_measured_is_shown_although_the_profile_cannot_be_written(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def searched(names: list[str], *_rest: object) -> Iterator[Search]:
        yield Search(tuple(names), (Trial(PLAIN, "a", 0, 0, 8, 10.0, 1.0), Trial(names[0], "a", 0, 0, 8, 20.0, 1.0)))

    monkeypatch.setattr(tuning, "search", searched)
    (tmp_path / "file").write_text("", encoding="utf-8")
    monkeypatch.setattr(tuning, "_profile", lambda *_arguments: Profile("kept", str(tmp_path / "file" / "kept.yaml")))
    assert main(["tune", "demo", "--draft", "ngram", "--tasks", "story", "--budget", "1", "--draft-max", "2", "-c", "512"]) == 2
    done = capsys.readouterr()
    assert "No profile was written." in done.out
    assert "cannot be written" in done.err
