"""Profiles: which file counts, what is in it, and what is wrong with it, by its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from specdec_cli.errors import UsageError
from specdec_cli.settings import profiles
from specdec_cli.settings.resolve import Source, resolve
from specdec_cli.settings.table import SETTINGS

SHIPPED = profiles.folders()[-1]


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's folder, before the shipped one."""
    monkeypatch.setattr(profiles, "folders", lambda: (tmp_path, SHIPPED))
    return tmp_path


def _write(folder: Path, text: str | bytes, name: str = "mine") -> Path:
    path = folder / f"{name}.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def _error(folder: Path, text: str | bytes) -> UsageError:
    _write(folder, text)
    with pytest.raises(UsageError) as caught:
        resolve({"profile": "mine"}, {})
    assert caught.value.exit_code == 2
    return caught.value


@pytest.mark.parametrize("path", sorted(SHIPPED.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_shipped_profile_describes_itself_and_can_be_used(path: Path) -> None:
    profile = profiles.read(path)
    assert profile.description
    settings = resolve({"profile": path.stem}, {})
    assert profile.entries
    assert all(settings.decided[name].source is Source.PROFILE for name in profile.entries)


def test_the_shipped_presets_are_found() -> None:
    assert {"greedy", "precise", "balanced", "creative"} <= set(profiles.available())


def test_greedy_is_greedy() -> None:
    assert resolve({"profile": "greedy"}, {}).value("temp", float) == 0


def test_a_profile_of_the_users_own_hides_a_shipped_one(own: Path) -> None:
    _write(own, "settings:\n  temp: 0.3\n", "greedy")
    assert resolve({"profile": "greedy"}, {}).value("temp", float) == 0.3


def test_values_read_as_they_would_on_a_command_line(own: Path) -> None:
    _write(
        own,
        "description: All kinds.\n"
        "settings:\n"
        "  temp: 1e-1\n"
        "  flash-attn: on\n"
        "  mmap: no\n"
        "  gpu_layers: all\n"
        "  stop: ['###', \"\\n\\n\", x]\n"
        "  logit-bias: 5-inf\n"
        "  tensor-split: [3, 1]\n"
        "  system-prompt: ''\n"
        "  draft: owner/repo:Q4_K_M\n",
    )
    settings = resolve({"profile": "mine"}, {})
    assert settings.value("temp", float) == 0.1
    assert settings.decided["flash_attn"].value == "on"
    assert settings.value("mmap", bool) is False
    assert settings.value("gpu_layers", int) == -2
    assert settings.value("stop", tuple) == ("###", "\n\n", "x")
    assert settings.value("tensor_split", tuple) == (3.0, 1.0)
    assert settings.value("system_prompt", str) == ""
    assert settings.value("draft", tuple) == ("owner/repo:Q4_K_M",)


@pytest.mark.parametrize("text", ["", "# nothing\n", "settings:\n", "description: x\n"])
def test_a_profile_may_say_nothing(own: Path, text: str) -> None:
    _write(own, text)
    assert resolve({"profile": "mine"}, {}).decided["temp"].origin == "default"


def test_an_unknown_key_is_named_with_its_line_and_the_nearest(own: Path) -> None:
    error = _error(own, "settings:\n  temp: 0\n  topk: 5\n")
    assert error.what.endswith("mine.yaml, line 3: there is no topk.")
    assert error.fix == "Use top-k."


def test_an_unknown_section_is_named_with_its_line(own: Path) -> None:
    error = _error(own, "description: x\nsetings:\n  temp: 0\n")
    assert error.what.endswith("mine.yaml, line 2: there is no setings.")
    assert error.fix == "Use settings."


@pytest.mark.parametrize("name", [name for name, setting in SETTINGS.items() if not setting.profile])
def test_what_belongs_to_one_call_has_no_place_in_a_profile(own: Path, name: str) -> None:
    assert f"there is no {name}" in _error(own, f"settings:\n  {name}: x\n").what


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("temp: hot", "temp: hot is not a finite number"),
        ("temp: -1", "temp: -1 is out of range"),
        ("temp: .nan", "is not a finite number"),
        ("top-k: 1.9", "top-k: 1.9 is not an integer"),
        ("top-k: true", "is not an integer"),
        ("mmap: 3", "is neither on nor off"),
        ("verify: guess", "is not among the choices"),
        ("temp: [1, 2]", "temp takes one value"),
        ("temp: {a: 1}", "temp takes one value"),
        ("stop: {a: 1}", "stop takes one value"),
        ("stop: [[a]]", "stop takes one value"),
        ("temp:", "temp has no value"),
        ("stop: [~]", "stop has no value"),
        ("stop: ['']", "is empty"),
    ],
)
def test_a_value_of_the_wrong_kind_is_named_with_its_line(own: Path, line: str, says: str) -> None:
    error = _error(own, f"settings:\n  seed: 1\n  {line}\n")
    assert "line 3" in error.what
    assert says in error.what


def test_a_key_that_stands_there_twice_is_refused(own: Path) -> None:
    error = _error(own, "settings:\n  temp: 0\n  temp: 1\n")
    assert "line 3: temp stands there twice" in error.what
    assert error.why == "It came first in line 2."


@pytest.mark.parametrize(
    "text", ["- a\n", "just words\n", "settings: [a]\n", "settings: 5\n", "[a]: 5\n", "settings:\n  ? [a]\n  : 1\n"]
)
def test_anything_but_keys_and_values_is_refused(own: Path, text: str) -> None:
    assert "line" in _error(own, text).what


@pytest.mark.parametrize("text", ["a: [\n", "a: b: c\n", "\t- x", "settings: *nobody\n", b"\xff\xfe\x00", b"a: \x80\n"])
def test_what_is_not_yaml_or_not_text_is_refused(own: Path, text: str | bytes) -> None:
    assert "mine.yaml" in _error(own, text).what


def test_a_profile_may_begin_with_a_byte_order_mark(own: Path) -> None:
    _write(own, b"\xef\xbb\xbfsettings:\r\n  temp: 0.5\r\n")
    assert resolve({"profile": "mine"}, {}).value("temp", float) == 0.5


def test_an_unknown_profile_is_met_with_those_there_are(own: Path) -> None:
    with pytest.raises(UsageError) as caught:
        profiles.load("gredy")
    assert caught.value.what == "There is no profile gredy."
    assert "greedy" in caught.value.why
    assert str(own) in caught.value.why
    assert caught.value.fix == "Use --profile greedy."


@pytest.mark.parametrize("name", ["../greedy", "", ".", "greedy.yaml", "a/b", "a\0b"])
def test_a_name_that_is_a_path_is_no_profile(own: Path, name: str) -> None:
    with pytest.raises(UsageError, match="There is no profile"):
        profiles.load(name)


def test_check_tells_all_faults_and_their_lines(own: Path) -> None:
    path = _write(own, "settings:\n  temp: hot\n  topk: 5\n  top-p: [1]\n  mmap: maybe\nsetings: 1\n")
    lines = sorted(int(fault.what.partition("line ")[2].partition(":")[0]) for fault in profiles.faults(path))
    assert lines == [2, 3, 4, 5, 6]


def test_check_finds_what_cannot_be_used_together(own: Path) -> None:
    path = _write(own, "settings:\n  grammar: a\n  temp: 1\n  json-schema: b\n")
    (fault,) = profiles.faults(path)
    assert "line 4: json-schema and grammar cannot be used together" in fault.what
    assert fault.why == "grammar stands in line 2."


@pytest.mark.parametrize("path", sorted(SHIPPED.glob("*.yaml")), ids=lambda path: path.stem)
def test_check_finds_nothing_in_a_shipped_profile(path: Path) -> None:
    assert profiles.faults(path) == []


def test_a_fault_in_the_yaml_has_its_line(own: Path) -> None:
    assert "mine.yaml, line 2: this is not YAML" in _error(own, "settings:\n  - a: b: c\n").what
