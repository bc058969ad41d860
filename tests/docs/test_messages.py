"""The messages in the page of troubleshooting are those of the program."""

from __future__ import annotations

import io
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import specdec_cli
from specdec_cli.cli import app
from tests.cli.models import write_recurrent
from tests.docs.pages import DOCS, Block, blocks
from tests.docs.shell import commands_in
from tests.pairing.small_models import OTHER_TOKENS, write_model

_ANY = "..."  # on the page: what differs from machine to machine
_FOUND = [block for block in blocks(DOCS / "troubleshooting.md") if block.language in ("console", "text")]
SHOWN = [block for block in _FOUND if block.language == "console"]
QUOTED = [block for block in _FOUND if block.language == "text"]
_JOIN = re.compile(r'"\s*\n\s*f?"')  # of a string that the source has in two lines


@pytest.fixture(scope="module")
def folder(smollm2: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with all that the page's commands name."""
    path = tmp_path_factory.mktemp("trouble")
    model = path / "target.gguf"
    try:
        model.hardlink_to(smollm2)
    except OSError:  # another disk
        shutil.copyfile(smollm2, model)
    write_model(path / "stranger.gguf", 32, "Stranger", OTHER_TOKENS)
    write_recurrent(path / "mamba.gguf")
    (path / "page.gguf").write_text("<!DOCTYPE html><html><body>A model</body></html>", encoding="utf-8")
    with smollm2.open("rb") as file:
        (path / "cut.gguf").write_bytes(file.read(5_000_000))
    _write_first_part(path / "part-00001-of-00002.gguf")
    (path / "long.txt").write_text("one two three four five " * 40, encoding="utf-8")
    (path / "latin.txt").write_bytes("café".encode("latin-1"))
    (path / "result.json").write_text("{}", encoding="utf-8")
    yield path
    model.unlink()


def _write_first_part(path: Path) -> None:
    from gguf import GGUFWriter

    writer = GGUFWriter(path, "llama")
    writer.add_uint16("split.no", 0)
    writer.add_uint16("split.count", 2)
    writer.add_int32("split.tensors.count", 0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()


def _pattern(line: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, line.split(_ANY))) + r"\Z")


def test_the_page_has_the_likeliest_messages() -> None:
    assert len(_FOUND) > 20


@pytest.mark.model
@pytest.mark.parametrize("shown", SHOWN, ids=lambda block: f"line {block.line}")
def test_the_program_says_what_the_page_shows(
    shown: Block, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(), encoding="utf-8"))
    (command,) = commands_in(shown)
    assert command.specdec is not None
    code = app.main(command.specdec)
    said = capsys.readouterr().err
    for line in shown.lines[1:]:
        assert any(_pattern(line).match(other) for other in said.splitlines()), f"{line!r} is not in:\n{said}"
    assert (code != 0) == any(line.startswith("error:") for line in shown.lines)


@pytest.mark.parametrize("quoted", QUOTED, ids=lambda block: f"line {block.line}")
def test_a_message_without_a_command_stands_in_the_source(quoted: Block) -> None:
    package = Path(specdec_cli.__file__).parent
    source = "".join(_JOIN.sub("", path.read_text(encoding="utf-8")) for path in sorted(package.rglob("*.py")))
    for line in quoted.lines:
        assert line.strip().removeprefix("error: ") in source
