"""The shell commands in the documentation's code blocks."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.docs.pages import PAGES, ROOT, Block, blocks

_PROMPT = "$ "
_STARTS = re.compile(r"([A-Z_]+=\S* +)*(\./)?(scripts/|specdec |pip |git |llama-server |\.venv/)")
_NO_SHELL = frozenset({"json", "python", "text", "yaml"})


@dataclass(frozen=True)
class Command:
    """One line of a shell: words of each program in its pipeline."""

    page: Path
    line: int
    text: str

    @property
    def programs(self) -> tuple[tuple[str, ...], ...]:
        lexer = shlex.shlex(self.text, posix=True, punctuation_chars="|")
        lexer.whitespace_split = True
        found: list[list[str]] = [[]]
        for word in lexer:
            if word == "|":
                found.append([])
            else:
                found[-1].append(word)
        return tuple(tuple(words) for words in found)

    @property
    def specdec(self) -> tuple[str, ...] | None:
        """The arguments of specdec, where it is among the programs."""
        return next((words[1:] for words in self.programs if words[0] == "specdec"), None)

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT).as_posix()}:{self.line}: {self.text}"


def commands_in(block: Block) -> Iterator[Command]:
    """The commands of a block: lines behind a prompt, or all of them where it begins with one."""
    if block.language in _NO_SHELL or not block.lines:
        return
    session = any(line.startswith(_PROMPT) for line in block.lines)
    if not session and not _STARTS.match(block.lines[0]):
        return
    at = 0
    while at < len(block.lines):
        start, text = at, block.lines[at]
        while text.endswith("\\"):
            at += 1
            text = f"{text[:-1].rstrip()} {block.lines[at].strip()}"
        at += 1
        if text.strip() and (not session or text.startswith(_PROMPT)):
            yield Command(block.page, block.line + start, text.removeprefix(_PROMPT) if session else text)


COMMANDS = tuple(command for page in PAGES for block in blocks(page) for command in commands_in(block))
