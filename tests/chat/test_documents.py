"""Files that go with a question."""

from __future__ import annotations

from pathlib import Path

import pytest

from specdec_cli.chat.documents import read_document
from specdec_cli.errors import PromptError


def test_encodings_and_line_ends_are_those_of_a_prompt_file(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    for encoding in ("utf-8", "utf-8-sig", "utf-16", "utf-32"):
        file.write_bytes("Grüße\r\n".encode(encoding))
        document = read_document(file)
        assert (document.name, document.text) == ("a.txt", "Grüße\n")


def test_what_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_bytes(b"")
    (tmp_path / "binary").write_bytes(b"\xff\x00\x81")
    for name in ("empty.txt", "binary", "missing.txt", "."):
        with pytest.raises(PromptError):
            read_document(tmp_path / name)
