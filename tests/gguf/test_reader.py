"""From a path to a header: each fault of a file has its own cause and next step."""

from __future__ import annotations

import os
import pickle
import re
import shutil
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import gguf
import numpy as np
import pytest

from specdec_cli.errors import ModelFileError
from specdec_cli.gguf.constants import Role
from specdec_cli.gguf.header import Header
from specdec_cli.gguf.parse import StringArray
from specdec_cli.gguf.reader import read_header
from tests.gguf_files import TINY, smollm2, write_gguf, write_vocab_gguf


def fault(path: Path, role: Role | None = "target") -> ModelFileError:
    with pytest.raises(ModelFileError) as caught:
        read_header(path, role)
    assert caught.value.what.startswith(f"The {role} model {path}" if role else f"The model file {path}")
    assert caught.value.why
    assert caught.value.fix
    return caught.value


@pytest.fixture(scope="module")
def real() -> Header:
    return read_header(smollm2())


def test_real_header_agrees_with_the_reference_reader(real: Header) -> None:
    reader = gguf.GGUFReader(smollm2())
    fields = {name: field for name, field in reader.fields.items() if not name.startswith("GGUF.")}
    assert list(real.metadata) == list(fields)
    for name, field in fields.items():
        value, expected = real.metadata[name], field.contents()
        if isinstance(value, StringArray):
            assert [item.decode() for item in value] == expected
        elif isinstance(value, np.ndarray):
            assert value.tolist() == expected
        else:
            assert value == expected
    assert [(t.name, t.shape, t.type_name, t.n_bytes) for t in real.tensors] == [
        (t.name, tuple(t.shape.tolist()), t.tensor_type.name, t.n_bytes) for t in reader.tensors
    ]


def test_header_says_what_people_ask_about(real: Header) -> None:
    assert (real.architecture, real.kind, real.quantisation) == ("llama", "model", "Q4_1")
    assert (real.n_vocab, real.n_ctx_train, real.n_layers, real.n_embd) == (49152, 8192, 30, 576)
    assert real.n_parameters == 134_515_008
    assert real.n_bytes_needed == real.size == smollm2().stat().st_size
    assert real.paths == (smollm2(),)
    assert real.chat_template is not None
    assert "im_start" in real.chat_template
    assert real.own("attention.head_count_kv") == 3


def test_header_without_extras_falls_back(tmp_path: Path) -> None:
    header = read_header(write_gguf(tmp_path / "plain.gguf", {"general.name": 3}, TINY))
    assert header.name == "plain"
    assert header.quantisation == "F32"
    assert header.n_vocab is None
    assert header.chat_template is None


@pytest.mark.parametrize("n", [10, 24, 500_000, 40_000_000, -1])
def test_truncated_model_says_how_many_bytes_are_missing(tmp_path: Path, real: Header, n: int) -> None:
    path = tmp_path / "cut.gguf"
    size = n if n > 0 else real.size - 1
    with smollm2().open("rb") as source, path.open("wb") as copy:
        copy.write(source.read(min(size, 2_000_000)))
        copy.truncate(size)
    error = fault(path, "draft")
    assert "truncated" in error.what
    assert f"and has {size:,}." in error.why
    if size >= 2_000_000:  # past the header: the tensor table knows the whole size
        assert error.why == f"It needs {real.size:,} bytes and has {size:,}."


def test_piece_of_a_file_that_was_cut_up_is_to_be_joined(tmp_path: Path) -> None:
    whole = write_vocab_gguf(tmp_path / "m.gguf", ["a"], tensors=TINY).read_bytes()
    first, second = tmp_path / "m.gguf.part1of2", tmp_path / "m.gguf.part2of2"
    first.write_bytes(whole[:300])
    second.write_bytes(whole[300:])
    assert "cat m.gguf.part* > m.gguf" in fault(first).fix
    assert "cat m.gguf.part* > m.gguf" in fault(second).fix


def test_missing_file_suggests_what_may_have_been_meant(tmp_path: Path) -> None:
    for name in ("Qwen2.5-Coder-0.5B-Q4_K_M.gguf", "smollm2-q4_1.gguf", "notes.txt"):
        (tmp_path / name).write_bytes(b"x")
    assert "Qwen2.5-Coder-0.5B-Q4_K_M.gguf" in fault(tmp_path / "qwen2.5-coder-0.5b-q4_k_s.gguf").fix
    assert "smollm2-q4_1.gguf" in fault(tmp_path / "smollm2").fix
    other = fault(tmp_path / "zzzzzz.gguf")
    assert "smollm2-q4_1.gguf" in other.fix
    assert "notes.txt" not in str(other)
    assert "no folder" in fault(tmp_path / "nowhere" / "m.gguf").why


def test_folder_lists_its_models(tmp_path: Path) -> None:
    assert "no .gguf file" in fault(tmp_path).why
    (tmp_path / "b.gguf").write_bytes(b"")
    (tmp_path / "a.gguf").write_bytes(b"")
    error = fault(tmp_path)
    assert "a.gguf, b.gguf" in error.why
    assert str(tmp_path / "a.gguf") in error.fix


def test_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_gguf(tmp_path / "m.gguf", {})

    def refuse(*args: object, **kwargs: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    error = fault(path)
    assert "may not be read" in error.what
    assert "permission" in error.why


def test_path_that_cannot_exist(tmp_path: Path) -> None:
    fault(Path("a\0b.gguf"))
    fault(tmp_path / ("x" * 5000))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
@pytest.mark.timeout(10)
def test_pipe_is_refused_without_waiting_for_its_writer(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    assert "a pipe" in fault(path).what


def test_link_to_nothing_says_where_it_points(tmp_path: Path) -> None:
    path = tmp_path / "link.gguf"
    try:
        path.symlink_to("gone.gguf")
    except OSError:
        pytest.skip("no symbolic links here")
    assert "gone.gguf" in fault(path).why


def _zip_of(name: str) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(name, "x")

    return write


def _bytes(data: bytes) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        path.write_bytes(data)

    return write


SAFETENSORS = struct.pack("<Q", 20) + b'{"__metadata__":{}}  ' + bytes(64)
LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 98362432\n"
NOT_GGUF: dict[str, tuple[Callable[[Path], None], str, str]] = {
    "empty": (_bytes(b""), "is empty", "Download it again"),
    "web page": (_bytes(b"<!DOCTYPE html>\n<html><body>Sign in</body></html>"), "a web page", "/resolve/"),
    "web page with blanks": (_bytes(b"\xef\xbb\xbf \n<html>"), "a web page", "/resolve/"),
    "text": (_bytes(b"Entry not found"), "'Entry not found'", "address"),
    "Git LFS pointer": (_bytes(LFS), "98,362,432", "git lfs pull"),
    "safetensors": (_bytes(SAFETENSORS), "a safetensors file", "convert_hf_to_gguf.py"),
    "PyTorch": (_zip_of("archive/data.pkl"), "a PyTorch checkpoint", "convert_hf_to_gguf.py"),
    "zip": (_zip_of("model.gguf"), "a zip archive", "Unpack"),
    "pickle": (_bytes(pickle.dumps({"a": list(range(99))}, protocol=2)), "a pickle file", "convert_hf_to_gguf.py"),
    "gzip": (_bytes(b"\x1f\x8b\x08" + bytes(99)), "a gzip archive", "Unpack"),
    "ggml": (_bytes(b"tjgg" + bytes(99)), "before GGUF", "newer conversion"),
    "zeros": (_bytes(bytes(4096)), "a block of zeros", "Download it again"),
    "one byte": (_bytes(b"\x01"), "some other file", "path"),
    "noise": (_bytes(bytes(range(1, 200))), "some other file", "path"),
    "version 1": (_bytes(b"GGUF" + struct.pack("<III", 1, 0, 0)), "version 1", "convert it again"),
    "version 0": (_bytes(b"GGUF" + struct.pack("<IQQ", 0, 0, 0)), "version 0", "again"),
    "version 4": (_bytes(b"GGUF" + struct.pack("<IQQ", 4, 0, 0)), "newer than this program", "pip install -U"),
    "big endian": (_bytes(b"GGUF" + struct.pack(">IQQ", 3, 0, 0)), "big-endian", "little-endian"),
}


@pytest.mark.parametrize(("write", "said", "fix"), NOT_GGUF.values(), ids=NOT_GGUF.keys())
def test_other_files_are_recognised(tmp_path: Path, write: Callable[[Path], None], said: str, fix: str) -> None:
    path = tmp_path / "model.gguf"
    write(path)
    error = fault(path)
    assert said in str(error)
    assert fix in error.fix


def test_error_without_a_role_speaks_of_the_file(tmp_path: Path) -> None:
    fault(tmp_path / "m.gguf", None)


@pytest.fixture
def split(tmp_path: Path) -> list[Path]:
    """A model in three parts, as llama.cpp's tools split it."""
    writer = gguf.GGUFWriter(tmp_path / "m.gguf", "llama", split_max_tensors=1)
    writer.add_context_length(512)
    for name in ("a", "b", "c"):
        writer.add_tensor(name, np.zeros(8, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return sorted(tmp_path.glob("*.gguf"))


@pytest.mark.parametrize("given", [0, 1, 2])
def test_split_model_is_found_from_any_part(split: list[Path], given: int) -> None:
    header = read_header(split[given])
    assert header.path == split[0]
    assert header.paths == tuple(split)
    assert [(t.name, t.part) for t in header.tensors] == [("a", 0), ("b", 1), ("c", 2)]
    assert header.architecture == "llama"
    assert header.size == sum(path.stat().st_size for path in split)


def test_missing_part_is_named(split: list[Path]) -> None:
    split[1].unlink()
    for path in (split[0], split[2]):
        error = fault(path)
        assert "1 of them is missing" in error.what
        assert split[1].name in error.why


def test_truncated_part_is_named(split: list[Path]) -> None:
    split[2].write_bytes(split[2].read_bytes()[:-1])
    with pytest.raises(ModelFileError, match=re.escape(split[2].name)) as caught:
        read_header(split[0], "target")
    assert "truncated" in caught.value.what


def test_renamed_part_is_told_its_name(split: list[Path]) -> None:
    renamed = split[1].with_name("second.gguf")
    split[1].rename(renamed)
    assert "NAME-00002-of-00003.gguf" in fault(renamed).fix


def test_part_in_the_place_of_another_is_refused(split: list[Path]) -> None:
    shutil.copyfile(split[1], split[2])
    with pytest.raises(ModelFileError, match=r"split\.no is 1"):
        read_header(split[0])


@pytest.mark.parametrize("changed", ["split.count", "split.tensors.count"])
@pytest.mark.parametrize("value", [[3, 3], "3", "x" * 100_000, 3.0])
def test_numbers_of_parts_that_are_none_are_refused(split: list[Path], changed: str, value: object) -> None:
    index = 1 if changed == "split.count" else 0
    numbers: dict[str, object] = {"split.no": (gguf.GGUFValueType.UINT16, index), "split.count": 3, "split.tensors.count": 3}
    write_gguf(split[index], numbers | {changed: value}, {"ab"[index]: np.zeros(8, np.float32)})
    with pytest.raises(ModelFileError, match=changed) as caught:
        read_header(split[0])
    assert len(caught.value.why) < 200
