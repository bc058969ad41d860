"""The command profile: list, show and check, and what it says where a word is misspelled."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from specdec_cli.cli.app import main
from specdec_cli.settings import profiles
from tests.cli.command import specdec
from tests.pairing.small_models import PAIRS

PAGE = Path(__file__).parents[2] / "docs" / "json" / "profile.md"
SHIPPED = profiles.folders()[-1]


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A person's own folder, with one profile of each kind and a broken one."""
    (tmp_path / "pairs").mkdir()
    (tmp_path / "pairs" / "toy.yaml").write_text(PAIRS, encoding="utf-8")
    (tmp_path / "calm.yaml").write_text("description: Calm.\nsettings:\n  temp: 0.3\n  stop: [a, b]\n", encoding="utf-8")
    (tmp_path / "broken.yaml").write_text("settings:\n  topk: 1\n", encoding="utf-8")
    monkeypatch.setattr(profiles, "folders", lambda: (tmp_path, SHIPPED))
    return tmp_path


def _out(capfd: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    assert main(list(words)) == code
    return capfd.readouterr().out


def _document(capfd: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    found = json.loads(_out(capfd, *words, "--json"))
    assert isinstance(found, dict)
    return found


def test_the_list_has_both_kinds() -> None:
    done = specdec("profile", "list", "--json")
    found = {(each["kind"], each["name"], each["origin"]) for each in done.document["profiles"]}
    assert {("settings", "greedy", "shipped"), ("pairs", "llama-3", "shipped")} <= found
    assert all(
        each["fault"] is None and each["description"] for each in done.document["profiles"] if each["origin"] == "shipped"
    )


def test_ones_own_are_listed_and_a_broken_one_is_told(own: Path, capfd: pytest.CaptureFixture[str]) -> None:
    listed = {each["name"]: each for each in _document(capfd, "profile", "list")["profiles"]}
    assert listed["calm"]["origin"] == listed["toy"]["origin"] == "own"
    assert "line 2: there is no topk" in listed["broken"]["fault"]
    text = _out(capfd, "profile", "list")
    assert "Calm." in text
    assert str(own) in text


def test_settings_are_shown(own: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert _document(capfd, "profile", "show", "calm")["settings"] == {"temp": "0.3", "stop": ["a", "b"]}
    text = _out(capfd, "profile", "show", "calm")
    assert str(own / "calm.yaml") in text
    assert "0.3" in text


def test_pairs_are_shown_with_licence_and_source(own: Path, capfd: pytest.CaptureFixture[str]) -> None:
    draft = _document(capfd, "profile", "show", "toy")["drafts"][0]
    assert (draft["draft"], draft["licence"]) == ("owner/Toy-Small-GGUF:Q4_0", "MIT")
    text = _out(capfd, "profile", "show", "toy")
    assert "https://example.org/toy" in text
    assert "MIT" in text


def test_a_name_of_both_kinds_means_settings_and_pairs_can_be_named(own: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (own / "toy.yaml").write_text("settings:\n  temp: 1\n", encoding="utf-8")
    assert _document(capfd, "profile", "show", "toy")["kind"] == "settings"
    assert _document(capfd, "profile", "show", "pairs/toy")["kind"] == "pairs"


def test_a_broken_profile_is_not_shown(own: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", "show", "broken"]) == 2
    assert "line 2: there is no topk" in capfd.readouterr().err


def test_check_tells_every_fault_with_its_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("settings:\n  temp: hot\n  topk: 5\n  grammar: a\n  json-schema: b\n", encoding="utf-8")
    text = _out(capfd, "profile", "check", str(path), code=1)
    assert "line 2: temp: hot is not a finite number" in text
    assert "line 3: there is no topk" in text
    assert "Use top-k." in text
    assert "line 5: json-schema and grammar cannot be used together" in text


def test_check_knows_pairs_by_what_is_in_them(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(PAIRS, encoding="utf-8")
    assert "a profile of pairs" in _out(capfd, "profile", "check", str(path))
    path.write_text(PAIRS.replace("1K", "few"), encoding="utf-8")
    assert "line 14" in _out(capfd, "profile", "check", str(path), code=1)


def test_check_takes_names_and_several_files(own: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = _out(capfd, "profile", "check", "greedy", "llama-3", str(own / "calm.yaml"))
    assert text.count("nothing is wrong") == 3


def test_a_file_that_cannot_be_read_is_told_and_the_others_are_checked(own: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = _out(capfd, "profile", "check", str(own / "none.yaml"), str(own / "broken.yaml"), code=2)
    assert "cannot be read" in text
    assert "there is no topk" in text


@pytest.mark.parametrize("path", sorted(SHIPPED.rglob("*.yaml")), ids=lambda path: path.stem)
def test_nothing_is_wrong_with_what_is_shipped(path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert "nothing is wrong" in _out(capfd, "profile", "check", str(path))


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "list, show, check"),
        (["lists"], "specdec profile list"),
        (["chek", "x"], "specdec profile check"),
        (["show"], "no profile to show"),
        (["show", "gredy"], "specdec profile show greedy"),
        (["show", "a", "b"], "no use for the word b"),
        (["show", "../greedy"], "There is no profile"),
        (["check"], "no profile to check"),
        (["list", "--jsn"], "Use --json."),
        (["check", "--json", "x"], "does not take --json"),
        (["--json"], "They are list"),
    ],
)
def test_what_cannot_be_meant_is_refused(words: list[str], says: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", *words]) == 2
    assert says in capfd.readouterr().err


@pytest.mark.parametrize("words", [[], ["list"], ["show"], ["check"]])
def test_every_command_has_help(words: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    text = _out(capfd, "profile", *words, "--help")
    assert text.startswith(f"Usage: specdec {' '.join(['profile', *words])} ")


def test_a_broken_profile_in_the_environment_is_no_bar(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SPECDEC_PROFILE", "none-of-this-name")
    assert "greedy" in _out(capfd, "profile", "list")


def test_the_page_names_every_key(own: Path, capfd: pytest.CaptureFixture[str]) -> None:
    page = PAGE.read_text(encoding="utf-8")
    lists = _document(capfd, "profile", "list")
    shown = [_document(capfd, "profile", "show", name) for name in ("calm", "toy")]
    shown[0]["settings"] = {}  # whose keys are those of the settings
    keys = {key for document in (lists, *shown) for key in _keys(document)}
    assert [key for key in sorted(keys) if f"`{key}`" not in page] == []


def _keys(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from _keys(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _keys(inner)
