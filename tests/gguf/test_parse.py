"""Header bytes to metadata and tensor table: every value type, every bound, and hostile counts."""

from __future__ import annotations

import struct
import tracemalloc
from dataclasses import dataclass
from pathlib import Path

import gguf
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specdec_cli.errors import ModelFileError
from specdec_cli.gguf.faults import Subject
from specdec_cli.gguf.parse import Part, StringArray, read_part
from tests.gguf_files import Tensors, write_gguf, write_vocab_gguf

KINDS = gguf.GGUFValueType
U64_MAX = (1 << 64) - 1


@dataclass(frozen=True)
class Bytes:
    """A source in memory."""

    data: bytes

    @property
    def size(self) -> int:
        return len(self.data)

    @property
    def n_most(self) -> int:
        return len(self.data)

    def ahead(self, n_have: int, n_least: int) -> int:
        return n_least

    def read(self, offset: int, n: int) -> bytes:
        return self.data[offset : offset + n]


def parse(data: bytes) -> Part:
    return read_part(Bytes(data), Subject(Path("model.gguf"), "draft"))


def fault(data: bytes) -> ModelFileError:
    with pytest.raises(ModelFileError) as caught:
        parse(data)
    assert "The draft model model.gguf" in caught.value.what
    assert caught.value.why
    assert caught.value.fix
    return caught.value


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def head(n_tensors: int = 0, n_keys: int = 0, version: int = 3) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, n_tensors, n_keys)


def key(name: str, kind: int, value: bytes) -> bytes:
    return text(name) + struct.pack("<I", kind) + value


def tensor(name: str, shape: tuple[int, ...], kind: int, offset: int) -> bytes:
    return text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, offset)


def file_with_tensors(*rows: bytes, n_data: int = 0, keys: bytes = b"", n_keys: int = 0) -> bytes:
    table = head(len(rows), n_keys) + keys + b"".join(rows)
    return table + bytes(-len(table) % 32) + bytes(n_data)


ALL_KINDS: dict[str, tuple[object, ...]] = {
    "a.u8": (KINDS.UINT8, 255),
    "a.i8": (KINDS.INT8, -128),
    "a.u16": (KINDS.UINT16, 65535),
    "a.i16": (KINDS.INT16, -32768),
    "a.u32": (KINDS.UINT32, 4294967295),
    "a.i32": (KINDS.INT32, -2147483648),
    "a.f32": (KINDS.FLOAT32, 0.5),
    "a.bool": (KINDS.BOOL, True),
    "a.text": (KINDS.STRING, "naïve 漢字"),
    "a.empty": (KINDS.STRING, ""),
    "a.u64": (KINDS.UINT64, U64_MAX),
    "a.i64": (KINDS.INT64, -(1 << 63)),
    "a.f64": (KINDS.FLOAT64, 1e300),
    "b.u8": (KINDS.ARRAY, [0, 255], KINDS.UINT8),
    "b.i8": (KINDS.ARRAY, [-128, 127], KINDS.INT8),
    "b.u16": (KINDS.ARRAY, [65535], KINDS.UINT16),
    "b.i16": (KINDS.ARRAY, [-1], KINDS.INT16),
    "b.u32": (KINDS.ARRAY, [1, 2, 3], KINDS.UINT32),
    "b.i32": (KINDS.ARRAY, [-1, 2], KINDS.INT32),
    "b.f32": (KINDS.ARRAY, [0.25, -4.0], KINDS.FLOAT32),
    "b.bool": (KINDS.ARRAY, [True, False, True], KINDS.BOOL),
    "b.text": (KINDS.ARRAY, ["", "a", "Ġthe", "é" * 300], KINDS.STRING),
    "b.u64": (KINDS.ARRAY, [U64_MAX], KINDS.UINT64),
    "b.i64": (KINDS.ARRAY, [-(1 << 63)], KINDS.INT64),
    "b.f64": (KINDS.ARRAY, [1e-300], KINDS.FLOAT64),
}


def test_every_value_type_reads_as_the_reference_reader_reads_it(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "kinds.gguf", ALL_KINDS)
    part = parse(path.read_bytes())
    fields = gguf.GGUFReader(path).fields
    assert list(part.metadata) == [name for name in fields if not name.startswith("GGUF.")]
    for name, value in part.metadata.items():
        expected = fields[name].contents()
        if isinstance(value, StringArray):
            assert [item.decode() for item in value] == expected
        elif isinstance(value, np.ndarray):
            assert value.tolist() == expected
        else:
            assert value == expected
            assert isinstance(value, bool) == isinstance(expected, bool)


def test_tensor_table_reads_as_the_reference_reader_reads_it(tmp_path: Path) -> None:
    tensors: Tensors = {
        "a": np.zeros((3, 5), np.float32),
        "b": np.zeros((2, 3, 4), np.float16),
        "c": np.zeros(7, np.int8),
    }
    path = write_gguf(tmp_path / "tensors.gguf", {}, tensors)
    part = parse(path.read_bytes())
    reader = gguf.GGUFReader(path)
    assert [(t.name, t.shape, t.type_name, t.n_bytes, t.n_elements) for t in part.tensors] == [
        (t.name, tuple(t.shape.tolist()), t.tensor_type.name, t.n_bytes, t.n_elements) for t in reader.tensors
    ]
    assert [t.offset for t in part.tensors] == [t.data_offset - reader.data_offset for t in reader.tensors]
    assert part.n_bytes_needed == reader.tensors[-1].data_offset + reader.tensors[-1].n_bytes


def test_version_2_has_the_same_layout() -> None:
    part = parse(head(n_keys=1, version=2) + key("a", KINDS.UINT32, struct.pack("<I", 7)))
    assert (part.version, part.metadata) == (2, {"a": 7})


def test_text_that_is_not_utf8_is_read_with_replacements_and_tokens_stay_bytes() -> None:
    tokens = struct.pack("<IQ", KINDS.STRING, 1) + struct.pack("<Q", 2) + b"\xff\xfe"
    part = parse(head(n_keys=2) + key("a", KINDS.STRING, struct.pack("<Q", 1) + b"\xff") + key("t", KINDS.ARRAY, tokens))
    assert part.metadata["a"] == "\ufffd"
    assert list(part.metadata["t"]) == [b"\xff\xfe"]  # type: ignore[arg-type]


def test_any_byte_but_zero_is_true() -> None:
    part = parse(head(n_keys=1) + key("a", KINDS.ARRAY, struct.pack("<IQ", KINDS.BOOL, 3) + b"\x00\x02\x01"))
    assert np.asarray(part.metadata["a"]).view(np.uint8).tolist() == [0, 1, 1]


def test_string_arrays_longer_than_one_read_are_whole() -> None:
    words = [f"word{i}" * (1 + i % 50) for i in range(20_000)]
    body = struct.pack("<IQ", KINDS.STRING, len(words)) + b"".join(map(text, words))
    part = parse(head(n_keys=2) + key("w", KINDS.ARRAY, body) + key("z", KINDS.UINT8, b"\x09"))
    assert [item.decode() for item in part.metadata["w"]] == words  # type: ignore[union-attr]
    assert part.metadata["z"] == 9


def test_alignment_of_the_file_is_honoured() -> None:
    keys = key("general.alignment", KINDS.UINT32, struct.pack("<I", 64))
    rows = tensor("a", (2,), 0, 0) + tensor("b", (2,), 0, 64)
    table = head(2, 1) + keys + rows
    part = parse(table + bytes(-len(table) % 64) + bytes(72))
    assert part.n_bytes_needed == part.size


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (head(n_keys=1) + key("general.alignment", KINDS.UINT32, struct.pack("<I", 48)), "48"),
        (head(n_keys=1) + key("general.alignment", KINDS.UINT32, struct.pack("<I", 0)), "power of two"),
        (head(n_keys=1) + key("general.alignment", KINDS.UINT64, struct.pack("<Q", 32)), "UINT32"),
        (head(n_keys=1) + key("split.no", KINDS.UINT32, struct.pack("<I", 0)), "UINT16"),
        (head(n_keys=2) + 2 * key("a", KINDS.UINT8, b"\x01"), "twice"),
        (head(n_keys=1) + key("", KINDS.UINT32, bytes(4)), "without name"),
        (head(n_keys=1) + key("a", 13, bytes(8)), "type 13"),
        (head(n_keys=1) + key("a", KINDS.ARRAY, struct.pack("<IQ", KINDS.ARRAY, 0)), "ARRAY"),
        (file_with_tensors(tensor("a", (2,), 0, 0), tensor("a", (2,), 0, 32), n_data=64), "twice"),
        (file_with_tensors(tensor("a", (2,), 0, 0), tensor("b", (2,), 0, 0), n_data=64), "its place is 32"),
        (file_with_tensors(tensor("a", (2,), 0, 0), tensor("b", (2,), 0, 8), n_data=64), "its place is 32"),
        (file_with_tensors(tensor("a", (2,), 0, 0), tensor("b", (2,), 0, 64), n_data=99), "its place is 32"),
        (file_with_tensors(tensor("a", (31,), 2, 0), n_data=64), "31 elements"),
        (file_with_tensors(tensor("a", (1, 1, 1, 1, 1), 0, 0), n_data=64), "5 dimensions"),
        (file_with_tensors(tensor("a" * 64, (1,), 0, 0), n_data=64), "64 bytes"),
        (file_with_tensors(tensor("a", (1 << 40, 1 << 40), 0, 0), n_data=64), "no memory"),
        (file_with_tensors(tensor("a", (U64_MAX, 0), 0, 0), n_data=64), "no memory"),
        (file_with_tensors(tensor("a", (32,), 31, 0), n_data=64), "type 31"),
    ],
)
def test_broken_rules_are_named(data: bytes, words: str) -> None:
    assert words in str(fault(data))


def test_tensor_type_newer_than_the_table_is_left_to_llama_cpp() -> None:
    part = parse(file_with_tensors(tensor("a", (64,), 99, 0), tensor("b", (2,), 0, 96), n_data=104))
    assert [(t.type_name, t.n_bytes) for t in part.tensors] == [("type 99", 96), ("F32", 8)]


@pytest.mark.parametrize("n_have", [4, 10, 24, 40, 60])
def test_header_that_ends_early_says_how_much_is_missing(n_have: int) -> None:
    whole = file_with_tensors(tensor("a", (8,), 0, 0), n_data=32, keys=key("a", KINDS.UINT8, b"\x01"), n_keys=1)
    error = fault(whole[:n_have])
    assert "truncated" in error.what
    assert f"and has {n_have:,}" in error.why
    assert "at least" in error.why


@pytest.mark.parametrize("n_missing", [1, 31, 32])
def test_missing_tensor_data_is_counted_exactly(n_missing: int) -> None:
    whole = file_with_tensors(tensor("a", (8,), 0, 0), n_data=32)
    assert f"It needs {len(whole):,} bytes and has {len(whole) - n_missing:,}." in fault(whole[:-n_missing]).why


HOSTILE = {
    "2^63 keys": head(n_keys=1 << 63),
    "2^64 - 1 keys and a whole one": head(n_keys=U64_MAX) + key("a", KINDS.UINT8, b"\x01"),
    "2^63 tensors": head(n_tensors=1 << 63),
    "key of 2^48 bytes": head(n_keys=1) + struct.pack("<Q", 1 << 48) + bytes(64),
    "key of 2^64 - 1 bytes": head(n_keys=1) + struct.pack("<Q", U64_MAX) + bytes(64),
    "text of 2^48 bytes": head(n_keys=1) + key("a", KINDS.STRING, struct.pack("<Q", 1 << 48) + bytes(64)),
    "2^63 numbers": head(n_keys=1) + key("a", KINDS.ARRAY, struct.pack("<IQ", KINDS.FLOAT64, 1 << 63) + bytes(64)),
    "2^63 bytes": head(n_keys=1) + key("a", KINDS.ARRAY, struct.pack("<IQ", KINDS.UINT8, 1 << 63) + bytes(64)),
    "2^63 texts": head(n_keys=1) + key("a", KINDS.ARRAY, struct.pack("<IQ", KINDS.STRING, 1 << 63) + bytes(64)),
    "2^33 texts": head(n_keys=1) + key("a", KINDS.ARRAY, struct.pack("<IQ", KINDS.STRING, 1 << 33) + bytes(64)),
    "text of 2^63 bytes in an array": head(n_keys=1)
    + key("a", KINDS.ARRAY, struct.pack("<IQQ", KINDS.STRING, 2, 1 << 63) + bytes(64)),
    "tensor name of 2^48 bytes": head(n_tensors=1) + struct.pack("<Q", 1 << 48) + bytes(64),
    "2^32 - 1 dimensions": head(n_tensors=1) + text("a") + struct.pack("<I", 0xFFFFFFFF) + bytes(64),
    "2^20 keys, and bytes for them": head(n_keys=1 << 20) + bytes(14 << 20),
    "2^18 tensors, and bytes for them": head(n_tensors=1 << 18) + bytes(6 << 20),
    "tensor past the end": file_with_tensors(tensor("a", (1 << 60,), 24, 0), n_data=32),
}


@pytest.mark.timeout(10)
@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_counts_are_refused_without_allocating(data: bytes) -> None:
    tracemalloc.start()
    try:
        fault(data)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1 << 20


@settings(derandomize=True, max_examples=300, deadline=None)
@given(st.binary(max_size=400))
def test_random_bytes_give_a_model_file_error(data: bytes) -> None:
    fault(b"GGUF" + data if len(data) % 2 else data)


@pytest.fixture(scope="module")
def small_model(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    tensors: Tensors = {"a": np.zeros((4, 8), np.float32), "b": np.zeros(5, np.float16)}
    extra = {"general.alignment": 32, "tokenizer.ggml.scores": [0.0] * 3, "general.name": "small"}
    path = write_vocab_gguf(tmp_path_factory.mktemp("fuzz") / "m.gguf", ["a", "b", "c"], extra=extra, tensors=tensors)
    return path.read_bytes()


@settings(derandomize=True, max_examples=500, deadline=None)
@given(st.data())
def test_a_changed_header_is_read_or_refused_and_nothing_else(small_model: bytes, data: st.DataObject) -> None:
    changed = bytearray(small_model)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(changed) - 1))
        new = data.draw(st.one_of(st.binary(min_size=1, max_size=1), st.sampled_from([b"\xff" * 8, bytes(8)])))
        changed[at : at + len(new)] = new
    cut = data.draw(st.one_of(st.just(len(changed)), st.integers(0, len(changed))))
    try:
        part = parse(bytes(changed[:cut]))
    except ModelFileError:
        return
    assert part.n_bytes_needed <= part.size
    assert all(len(list(value)) == len(value) for value in part.metadata.values() if isinstance(value, StringArray))


def test_every_cut_of_a_header_is_refused(small_model: bytes) -> None:
    needed = parse(small_model).n_bytes_needed
    for n in range(needed):
        fault(small_model[:n])
    parse(small_model[:needed])


def test_every_cut_of_a_string_array_at_the_end_is_refused() -> None:
    body = struct.pack("<IQ", KINDS.STRING, 3) + text("one") + text("") + text("three")
    whole = head(n_keys=1) + key("a", KINDS.ARRAY, body)
    for n in range(len(whole)):
        fault(whole[:n])
    assert list(parse(whole).metadata["a"]) == [b"one", b"", b"three"]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "data",
    [
        head(n_keys=1) + key("k" * 100_000, 13, bytes(8)),
        head(n_keys=2) + 2 * key("k" * 100_000, KINDS.UINT8, b"\x01"),
        head(n_keys=1) + key("k" * 100_000, KINDS.ARRAY, struct.pack("<IQ", 13, 0)),
    ],
)
def test_a_sentence_stays_short_whatever_the_name(data: bytes) -> None:
    assert len(fault(data).why) < 200
