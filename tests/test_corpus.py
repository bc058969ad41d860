"""A corpus file becomes tokens; what cannot be one says why, before anything is loaded."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from specdec_cli import corpus
from specdec_cli.corpus import corpus_text, corpus_tokens
from specdec_cli.decoding.contracts import PassAborted
from specdec_cli.errors import PromptError
from specdec_cli.llama.interrupt import Interrupt


@dataclass
class Heard:
    """A listener that remembers."""

    notices: list[str] = field(default_factory=list)

    def notice(self, sentence: str, /) -> None:
        self.notices.append(sentence)

    def progress(self, label: str, fraction: float | None, /) -> None: ...


def letters(text: str) -> list[int]:
    return [ord(letter) for letter in text]


def written(folder: Path, data: bytes) -> Path:
    path = folder / "notes.txt"
    path.write_bytes(data)
    return path


def fault(file: Path) -> PromptError:
    with pytest.raises(PromptError) as caught:
        corpus_text(file)
    return caught.value


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_a_corpus_is_read_in_the_encodings_that_editors_write(encoding: str, tmp_path: Path) -> None:
    assert corpus_text(written(tmp_path, "d\u00e9j\u00e0\r\nvu\n".encode(encoding))) == "d\u00e9j\u00e0\nvu\n"


def test_a_missing_corpus_is_named_with_the_option() -> None:
    error = fault(Path("no-such-corpus.txt"))
    assert error.what == "There is no corpus file no-such-corpus.txt."
    assert "--ngram-corpus FILE" in error.fix


def test_a_folder_is_no_corpus(tmp_path: Path) -> None:
    assert "is a folder" in fault(tmp_path).what


def test_a_corpus_that_is_no_text_is_refused(tmp_path: Path) -> None:
    error = fault(written(tmp_path, b"abc\xff"))
    assert "is not text" in error.what
    assert "Its byte 3" in error.why


@pytest.mark.parametrize("data", [b"", b"\xef\xbb\xbf"])
def test_an_empty_corpus_is_refused(data: bytes, tmp_path: Path) -> None:
    assert "is empty" in fault(written(tmp_path, data)).what


@pytest.mark.parametrize("text", ["a", "ab\ncd\n" * 9, "abcdefghij" * 9, "\n" * 40])
def test_all_of_a_text_is_tokenised_whatever_its_lines(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus, "_PIECE", 8)
    heard = Heard()
    assert corpus_tokens(text, Path("notes.txt"), letters, heard, Interrupt()) == letters(text)
    assert heard.notices == []


def test_a_long_corpus_is_cut_and_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus, "_PIECE", 8)
    monkeypatch.setattr(corpus, "MAX_TOKENS", 20)
    heard, text = Heard(), "abcdefg\n" * 10
    assert corpus_tokens(text, Path("notes.txt"), letters, heard, Interrupt()) == letters(text)[:20]
    assert heard.notices == ["Only the first 20 tokens of the corpus notes.txt count (25% of it)."]


def test_a_slow_reading_says_how_long_it_took(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus, "_LONG_S", -1.0)
    heard = Heard()
    corpus_tokens("abc", Path("notes.txt"), letters, heard, Interrupt())
    assert [notice.partition(" took ")[0] for notice in heard.notices] == ["Reading the corpus notes.txt"]


def test_reading_can_be_interrupted() -> None:
    interrupt = Interrupt()
    interrupt.request()
    with pytest.raises(PassAborted):
        corpus_tokens("abc", Path("notes.txt"), letters, Heard(), interrupt)
