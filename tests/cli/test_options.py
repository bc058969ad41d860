"""Commands made from the table: what a body gets, and what --help shows."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer

from specdec_cli.cli.options import Given, model_reference, settings_command
from specdec_cli.errors import UsageError
from specdec_cli.settings import profiles
from specdec_cli.settings.resolve import resolve
from specdec_cli.settings.table import PANELS, SETTINGS, spellings


def _call(*arguments: str, words: tuple[str, ...] = ("model", "prompt")) -> dict[str, object]:
    """What the body of a command with every setting is given."""
    seen: dict[str, object] = {}

    @settings_command("try", SETTINGS, words)
    def app(given: Given) -> int:
        """Try."""
        seen.update(given)
        return 7

    command = typer.main.get_command(app)
    with command.make_context("specdec try", list(arguments)) as context:
        assert command.invoke(context) == 7
    return seen


def _help(capsys: pytest.CaptureFixture[str], takes: tuple[str, ...] = tuple(SETTINGS)) -> str:
    @settings_command("try", takes, ("model", "prompt"))
    def app(given: Given) -> int:
        """Try everything."""
        return len(given)

    command = typer.main.get_command(app)
    with pytest.raises(typer.Exit), command.make_context("specdec try", ["--help"]):
        pass
    return capsys.readouterr().out


def test_a_body_gets_only_what_was_given_and_unread() -> None:
    assert _call() == {}
    assert _call("-c", "what") == {"ctx_size": "what"}


def test_words_are_the_model_and_the_prompt() -> None:
    assert _call("m.gguf") == {"model": "m.gguf"}
    assert _call("m.gguf", "hello there") == {"model": "m.gguf", "prompt": "hello there"}
    assert _call("-n", "5", "m.gguf", "--exact", "hello") == {
        "model": "m.gguf",
        "prompt": "hello",
        "predict": "5",
        "exact": True,
    }


def test_a_model_given_by_its_flag_leaves_the_word_to_the_prompt() -> None:
    assert _call("-m", "m.gguf", "hello") == {"model": "m.gguf", "prompt": "hello"}


@pytest.mark.parametrize("word", ["hello", "Say hi.", "What is 3/4 of it?"])
def test_a_model_given_by_a_profile_leaves_the_word_to_the_prompt(
    word: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(profiles, "folders", lambda: (tmp_path,))
    (tmp_path / "mine.yaml").write_text("settings:\n  model: m.gguf\n", encoding="utf-8")
    (tmp_path / "none.yaml").write_text("settings:\n  temp: 0\n", encoding="utf-8")
    assert _call("--profile", "mine", word) == {"profile": "mine", "prompt": word}
    assert _call("--profile", "none", word) == {"profile": "none", "model": word}
    assert _call("--profile", "mine", "other.gguf") == {"profile": "mine", "model": "other.gguf"}
    assert _call("--profile", "mine", "other.gguf", word) == {"profile": "mine", "model": "other.gguf", "prompt": word}


def test_a_hyphen_for_the_prompt_is_standard_input() -> None:
    assert _call("m.gguf", "-") == {"model": "m.gguf", "file": "-"}
    assert _call("m.gguf", "-p", "-") == {"model": "m.gguf", "prompt": "-"}


def test_a_prompt_behind_two_hyphens_may_begin_with_one() -> None:
    assert _call("m.gguf", "--", "-5 degrees") == {"model": "m.gguf", "prompt": "-5 degrees"}


def test_a_prompt_in_several_words_is_refused_and_quotes_are_named() -> None:
    with pytest.raises(UsageError, match="no use for the word there") as caught:
        _call("m.gguf", "hello", "there")
    assert "quotes" in caught.value.why


def test_a_prompt_as_a_word_and_by_flag_is_refused_by_both_names() -> None:
    with pytest.raises(UsageError, match="--prompt and the word hello"):
        _call("m.gguf", "hello", "-p", "x")


def test_a_command_without_words_refuses_them() -> None:
    with pytest.raises(UsageError, match="no use for the word hello"):
        _call("hello", words=())


@pytest.mark.parametrize("flag", [flag for flag, _ in spellings(SETTINGS)])
def test_every_spelling_of_every_flag_reaches_its_setting(flag: str) -> None:
    setting = dict(spellings(SETTINGS))[flag]
    if not setting.takes_value:
        assert _call(flag) == {setting.name: flag in setting.positive}
    elif setting.repeats:
        assert _call(flag, "-1", flag, "--x") == {setting.name: ["-1", "--x"]}
    else:
        assert _call(flag, "a", flag, "-1") == {setting.name: "-1"}


def test_a_later_switch_undoes_an_earlier_one() -> None:
    assert _call("--exact", "--no-exact") == {"exact": False}


def test_help_shows_every_shown_flag_under_its_panel_with_its_default(capsys: pytest.CaptureFixture[str]) -> None:
    text = _help(capsys)
    assert "Usage: specdec try [MODEL] [PROMPT] [OPTIONS]" in text
    assert "Try everything." in text
    for panel, settings in PANELS.items():
        assert f"\n{panel}:\n" in text
        for setting in settings:
            for flag in setting.shown_flags:
                spelled = f"--[no-]{flag[2:]}" if flag.startswith("--") and not setting.takes_value else flag
                assert spelled in text
    words = " ".join(text.split())
    assert "--draft-max N longest draft, in tokens; each is as long as pays; 0 = plain decoding [16]" in words
    assert "-ngl, --gpu-layers N layers on the GPU: a number, auto or all [auto]" in words
    assert "--[no-]mmap map the file instead of reading it [on]" in words
    assert "-td, --threads-draft N as --threads, for the draft [as --threads]" in words


def test_help_is_plain_ascii_of_80_columns(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    text = _help(capsys)
    assert text.isascii()
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) <= 80


def test_help_of_a_command_shows_only_what_it_takes(capsys: pytest.CaptureFixture[str]) -> None:
    text = _help(capsys, ("temp", "seed"))
    assert "--temp" in text
    assert "--threads" not in text
    assert "Context:" not in text


def test_the_model_is_asked_for_where_nobody_named_one() -> None:
    assert model_reference(resolve({"model": "demo"}, {})) == "demo"
    assert model_reference(resolve({}, {"SPECDEC_MODEL": "m.gguf"})) == "m.gguf"
    with pytest.raises(UsageError, match="There is no model"):
        model_reference(resolve({}, {}))


def test_only_the_table_speaks_of_settings() -> None:
    """No command declares a flag of its own."""
    source = Path(__file__).parents[2] / "specdec_cli" / "cli"
    declaring = [path.name for path in source.glob("*.py") if "typer.Option(" in path.read_text(encoding="utf-8")]
    assert declaring == ["options.py"]
