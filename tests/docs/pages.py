"""The pages of the documentation, and the code blocks in them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = (ROOT / "README.md", *sorted(DOCS.rglob("*.md")))

_FENCE = re.compile(r"(?P<indent> *)```(?P<language>\w*)\s*\Z")


@dataclass(frozen=True)
class Block:
    """A code block: where it stands, its language where one is named, and its lines without the indent."""

    page: Path
    line: int  # of its first line, from 1
    language: str
    lines: tuple[str, ...]

    @property
    def text(self) -> str:
        return "".join(f"{line}\n" for line in self.lines)


def blocks(page: Path) -> Iterator[Block]:
    """The code blocks of a page, between fences or indented by four."""
    lines = page.read_text(encoding="utf-8").splitlines()
    at = 0
    while at < len(lines):
        start = at
        if fence := _FENCE.match(lines[at]):
            indent = fence["indent"]
            at = lines.index(f"{indent}```", at + 1)
            inside = tuple(line.removeprefix(indent) for line in lines[start + 1 : at])
            yield Block(page, start + 2, fence["language"], inside)
        elif lines[at].startswith("    ") and (at == 0 or not lines[at - 1].strip()):
            while at < len(lines) and (lines[at].startswith("    ") or not lines[at].strip()):
                at += 1
            inside = tuple(line[4:] for line in lines[start:at])
            yield Block(page, start + 1, "", tuple("\n".join(inside).rstrip().splitlines()))
            continue
        at += 1


def block(name: str, language: str) -> Block:
    """The one code block of a page in a language."""
    (found,) = [each for each in blocks(DOCS / name) if each.language == language]
    return found
