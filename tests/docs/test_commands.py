"""Every command in README.md and docs/ is one that the programs take, and those that can are run."""

from __future__ import annotations

import contextlib
import importlib
import io
import itertools
import re
import runpy
import shutil
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import typer

from specdec_cli import cli
from specdec_cli.cli import app
from specdec_cli.settings import profiles
from tests.cli.command import specdec
from tests.docs.pages import DOCS, PAGES, ROOT
from tests.docs.shell import COMMANDS, Command

_FAILING = DOCS / "troubleshooting.md"  # its commands are meant to fail, and test_messages runs them
_STANDING = {
    "TARGET": "target.gguf",
    "DRAFT": "draft.gguf",
    "[DRAFT]": "draft.gguf",
    "MODEL": "target.gguf",
    "REF": "target.gguf",
    "FILE": "run.jsonl",
    "URL": "http://127.0.0.1:8080",
}
_INLINE = re.compile(r"`specdec (\w[^`|]*)`")
_BODY = re.compile(r"^ +from specdec_cli\.cli import (\w+)", re.MULTILINE)  # what a command imports once it is to run

OURS = [command for command in COMMANDS if command.specdec is not None and command.page != _FAILING]
OTHERS = [command for command in COMMANDS if command.specdec is None]


class _Nothing(ModuleType):
    """In the place of the module that does a command's work."""

    def __getattr__(self, name: str) -> object:
        return lambda *args, **options: 0


@pytest.fixture
def idle(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Commands read their line, and do nothing; returns the folder they are in."""
    for name in app.COMMANDS:
        module = Path(cli.__file__).with_name(f"{name}.py")
        for body in _BODY.findall(module.read_text(encoding="utf-8")):
            monkeypatch.setattr(cli, body, _Nothing(body), raising=False)
    monkeypatch.setattr(cli, "comparing", _Nothing("comparing"), raising=False)
    shipped = profiles.folders()[1:]
    monkeypatch.setattr(profiles, "folders", lambda: (tmp_path, *shipped))
    (tmp_path / "target.yaml").write_text("settings:\n  model: target.gguf\n", encoding="utf-8")
    (tmp_path / "question.txt").write_text("Why?", encoding="utf-8")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a pipe"), encoding="utf-8"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_there_are_commands_on_the_pages() -> None:
    assert len(OURS) > 40
    assert {command.page.name for command in OURS} >= {"README.md", "index.md", "first-speed-up.md", "profiles.md"}


@pytest.mark.usefixtures("idle")
@pytest.mark.parametrize("command", OURS, ids=str)
def test_specdec_takes_the_line(command: Command, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.specdec is not None
    assert app.main(command.specdec) == 0, capsys.readouterr().err


def _inline() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        for found in _INLINE.finditer(page.read_text(encoding="utf-8")):
            yield page.name, found[1]


@pytest.mark.parametrize(("page", "line"), sorted(set(_inline())))
def test_a_command_in_a_sentence_has_its_name_and_its_flags(page: str, line: str) -> None:
    name, *words = line.replace("'", "").split()
    module = "compare" if (name, *words[:1]) == ("bench", "compare") else name
    command = typer.main.get_command(importlib.import_module(f"specdec_cli.cli.{module}").app)
    with contextlib.suppress(typer.Exit):  # --help
        command.make_context(name, [_STANDING.get(word, word) for word in words])


@pytest.mark.parametrize("command", OTHERS, ids=str)
def test_other_programs_are_named_as_they_are(command: Command, capsys: pytest.CaptureFixture[str]) -> None:
    (words,) = command.programs
    words = words[1:] if "=" in words[0] else words
    match words[0].removeprefix("./").split("/"):
        case ["pip"]:
            _check_install(words)
        case ["llama-server"]:
            assert words[1:] == ("-m", "TARGET.gguf", "--port", "8080")
        case ["scripts", name]:
            assert (ROOT / "scripts" / name).is_file()
            if name.endswith(".py"):
                _check_script(ROOT / "scripts" / name, words[1:], capsys)
            else:
                assert all((ROOT / word).exists() for word in words[1:])
        case _:
            pytest.fail(f"no check for {command}")


def _check_install(words: tuple[str, ...]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert words[1] == "install"
    named = [word for word in words[2:] if not word.startswith(("-", "https://"))]
    extra = re.fullmatch(rf"{project['name']}(?:\[(\w+)\])?", named[-1])
    assert named[-1] == "llama-cpp-python" or extra is not None
    assert extra is None or extra[1] is None or extra[1] in project["optional-dependencies"]


def _check_script(script: Path, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """The script's help has every flag of the line, and its first word where that names one of its parts."""
    part = [word for word in words[:1] if word.islower() and "." not in word]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", [str(script), *part, "--help"])
        patch.syspath_prepend(str(script.parent))
        with pytest.raises(SystemExit, match=r"^0$"):
            runpy.run_path(str(script), run_name="__main__")
    shown = capsys.readouterr().out
    for flag in (word.strip("[]") for word in words if word.startswith(("-", "[-"))):
        assert re.search(rf"(?<!\S|\w){re.escape(flag)}\b", shown.replace("[", " ").replace(",", " ")), flag


# What is only parsed, by what stands in the line.
_NOT_RUN = {
    "Qwen/": "models of the hub",
    "--server": "a server beside it",
    "--exact": "compares widths for half a minute; tests/cli/test_run.py runs it",
    "verify ": "a minute at the least; tests/cli/test_verify.py runs it",
    "qwen2.5-coder-1.5b-instruct-q4_k_m": "the figures of record; the same flags are run elsewhere",
}
# What makes the others short. A later flag wins.
_SHORT = {
    "bench": ("--repeats", "1", "-n", "4"),
    "demo": ("-n", "16"),
    "run": ("-n", "8"),
    "tune": ("--tasks", "code-1", "--budget", "2"),
}
_MAY_SAY_NO = {"suggest", "--require-speedup"}
_SMALL = re.compile(r"(?i)draft|small|0\.5b")
_WRITES = {"-o", "--trace", "tune"}  # what the page goes on with


def _to_run() -> Iterator[Command]:
    """The commands to run. The same line is run once, unless it writes something."""
    seen: set[str] = set()
    for command in OURS:
        fresh = command.text not in seen or not _WRITES.isdisjoint(command.specdec or ())
        if fresh and not any(part in command.text for part in _NOT_RUN):
            seen.add(command.text)
            yield command


_RUN = tuple(_to_run())


@pytest.mark.model
@pytest.mark.parametrize("page", sorted({command.page for command in _RUN}), ids=lambda page: page.name)
def test_the_commands_of_a_page_run_one_after_the_other(
    page: Path, tmp_path: Path, smollm2: Path, smollm2_q4_0: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    config = {name: str(tmp_path) for name in ("XDG_CONFIG_HOME", "HOME", "USERPROFILE", "LOCALAPPDATA", "APPDATA")}
    _write_files(tmp_path)
    for command in (each for each in _RUN if each.page == page):
        words = command.specdec
        assert words is not None
        for word in {name for each in words for name in each.split(",") if name.endswith(".gguf")}:
            if not Path(word).exists():
                _place(smollm2_q4_0 if _SMALL.search(word) else smollm2, Path(word))
        written = [Path(word) for flag, word in itertools.pairwise(words) if flag in ("-o", "--trace")]
        for path in written:
            path.unlink(missing_ok=True)
        _stand_in([Path(word) for word in words if Path(word) not in written])
        shorter = _SHORT.get(words[0], ()) if words[1:2] != ("compare",) else ()
        if words[0] == "bench" and not {"--prompts", "--tasks", "compare"} & set(words):
            shorter = (*shorter, "--tasks", "code-1")
        done = specdec(*words, *shorter, stdin=b"a diff", env=config)
        assert done.code in ((0, 1) if _MAY_SAY_NO & set(words) else (0,)), f"{command}\n{done.err}"


def _write_files(folder: Path) -> None:
    (folder / "question.txt").write_text("Say: one, two, three, one, two, three.", encoding="utf-8")
    (folder / "letter.txt").write_text("Dear Ann, thank you for", encoding="utf-8")
    (folder / "mine.jsonl").write_text('{"prompt": "Count to three."}\n', encoding="utf-8")
    (folder / "FILE.yaml").write_text("settings:\n  temp: 0\n", encoding="utf-8")


def _place(model: Path, name: Path) -> None:
    try:
        name.hardlink_to(model)
    except OSError:  # another disk
        shutil.copyfile(model, name)


def _stand_in(paths: list[Path]) -> None:
    """Where a page speaks of a second file of results or rounds, the one that was made is as good."""
    for path in paths:
        if path.suffix in (".json", ".jsonl") and not path.exists():
            made = next(other for other in Path().glob(f"*{path.suffix}") if other.stem != "mine")
            shutil.copyfile(made, path)
