"""Every example of docs/library.md runs as it stands there, with SmolLM2 in the place of its files."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from specdec_cli.library.given import GenerationOptions

_PAGE = (Path(__file__).parents[2] / "docs" / "library.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", _PAGE, re.MULTILINE | re.DOTALL)
LIMIT_S = 120


def test_the_page_has_examples() -> None:
    assert len(EXAMPLES) == _PAGE.count("```python") == _PAGE.count("```") / 2


def test_the_page_names_every_option() -> None:
    for name in GenerationOptions.__annotations__:
        assert f"`{name}`" in _PAGE, name


@pytest.mark.model
@pytest.mark.parametrize("example", EXAMPLES, ids=range(len(EXAMPLES)))
def test_an_example_runs(example: str, smollm2: Path, tmp_path: Path) -> None:
    for name in ("target", "draft"):
        example = example.replace(f'"{name}.gguf"', repr(str(smollm2)))
    script = tmp_path / "example.py"
    script.write_text(example, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, script.name],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
