"""Headers from a place that is no disk: the same header whatever the pieces it comes in, and never more than is allowed."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import gguf
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specdec_cli.errors import ModelFileError
from specdec_cli.gguf import source
from specdec_cli.gguf.faults import Subject
from specdec_cli.gguf.header import Header
from specdec_cli.gguf.reader import read_from, read_header
from specdec_cli.gguf.source import Place
from tests.gguf_files import Tensors, smollm2, write_gguf

REFERENCE = "hf:owner/repo/folder/m.gguf"


@dataclass
class Far:
    """A source that counts its bytes and reads ahead by chance."""

    data: bytes
    size: int
    random: Random
    n_most: int = 1 << 40
    n_read: int = 0
    reads: list[tuple[int, int]] = field(default_factory=list)

    def ahead(self, n_have: int, n_least: int) -> int:
        return self.random.choice([0, n_have + 1, n_least, n_have + self.random.randrange(1 << self.random.randrange(1, 18))])

    def read(self, offset: int, n: int) -> bytes:
        assert offset == self.n_read, "each byte is read once"
        assert 0 < n <= self.size - offset
        self.n_read += n
        self.reads.append((offset, n))
        return self.data[offset : offset + n].ljust(n, b"\0")


def place(sources: dict[str, Far]) -> Place:
    @contextmanager
    def open_far(subject: Subject) -> Iterator[Far]:
        yield sources[subject.path.name]

    return Place(open_far, lambda path: path.name in sources)


def seen(header: Header) -> tuple[object, ...]:
    metadata = [(key, value.tolist() if isinstance(value, np.ndarray) else value) for key, value in header.metadata.items()]
    return header.version, metadata, header.tensors, header.n_bytes_needed, header.size


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[bytes, int, Header]]:
    """By name: the bytes of a header, the file's size, the header as it is read from the disk."""
    folder = tmp_path_factory.mktemp("far")
    tensors: Tensors = {"a": np.zeros((4, 8), np.float32), "b": np.zeros(5, np.float16)}
    words: dict[str, object] = {"w": [f"word{i}" * (i % 9) for i in range(9000)], "n": [0.5] * 3000, "t": "x" * 5000}
    found = {}
    for path in (smollm2(), write_gguf(folder / "words.gguf", words, tensors), write_gguf(folder / "none.gguf", {})):
        head = path.read_bytes()[: gguf.GGUFReader(path).data_offset]
        found[path.name] = head, path.stat().st_size, read_header(path)
    return found


@settings(derandomize=True, max_examples=60, deadline=None)
@given(seed=st.integers(0, 1 << 32), which=st.integers(0, 2))
def test_the_header_is_the_same_in_whatever_pieces_it_comes(
    files: dict[str, tuple[bytes, int, Header]], seed: int, which: int
) -> None:
    name, (head, size, here) = list(files.items())[which]
    far = Far(head, size, Random(seed))
    header = read_from(place({name: far}), Subject(Path(name), "target", REFERENCE))
    assert seen(header) == seen(here)
    assert header.reference == header.label == REFERENCE
    assert sum(n for _, n in far.reads) == far.n_read <= size


def test_a_source_that_reads_nothing_ahead_is_asked_for_the_header_and_no_more(
    files: dict[str, tuple[bytes, int, Header]],
) -> None:
    class Exact(Far):
        def ahead(self, n_have: int, n_least: int) -> int:
            return 0

    head, size, here = files["words.gguf"]
    far = Exact(head, size, Random(0))
    assert seen(read_from(place({"words.gguf": far}), Subject(Path("words.gguf")))) == seen(here)
    assert len(head) - 32 < far.n_read <= len(head)


def test_a_header_longer_than_the_source_allows_is_refused_before_it_is_read() -> None:
    head = b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 1) + b"a" + struct.pack("<IQ", 8, 10**10)
    far = Far(head, 1 << 35, Random(0), n_most=1 << 20)
    with pytest.raises(ModelFileError) as caught:
        read_from(place({"m.gguf": far}), Subject(Path("m.gguf"), "draft", REFERENCE))
    assert caught.value.what == f"The draft model {REFERENCE} has a header that is too long."
    assert "10,000,0" in caught.value.why
    assert far.n_read <= 1 << 20


def test_a_header_that_grows_past_what_is_allowed_is_refused_there() -> None:
    keys = b"".join(struct.pack("<Q8sIQ", 8, b"%08d" % i, 8, 1000) + bytes(1000) for i in range(200))
    far = Far(b"GGUF" + struct.pack("<IQQ", 3, 0, 200) + keys, 1 << 30, Random(1), n_most=100_000)
    with pytest.raises(ModelFileError, match="too long"):
        read_from(place({"m.gguf": far}), Subject(Path("m.gguf")))
    assert far.n_read <= 100_000


def test_a_file_here_is_not_taken_into_memory_either(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(source, "MAX_HEADER", 3000)
    keys = struct.pack("<Q", 1) + b"a" + struct.pack("<IQ", 8, 5000)
    path = tmp_path / "m.gguf"
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + keys + bytes(5000))
    with pytest.raises(ModelFileError, match="too long") as caught:
        read_header(path)
    assert "5,045 bytes; 3,000 are allowed" in caught.value.why


def test_parts_that_are_not_there_are_named() -> None:
    key = struct.pack("<Q", 11) + b"split.count" + struct.pack("<IH", 2, 2) + struct.pack("<Q", 8) + b"split.no"
    head = b"GGUF" + struct.pack("<IQQ", 3, 0, 2) + key + struct.pack("<IH", 2, 0)
    name = "m-00001-of-00002.gguf"
    with pytest.raises(ModelFileError, match="1 of them is missing") as caught:
        read_from(place({name: Far(head, len(head), Random(2))}), Subject(Path(name), "target"))
    assert "m-00002-of-00002.gguf" in caught.value.why
