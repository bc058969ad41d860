"""open_header(): the same header from a file here and from the hub, for hardly more bytes than the header has."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path

import gguf
import numpy as np
import pytest

from specdec_cli.errors import ModelFileError
from specdec_cli.gguf.header import Header
from specdec_cli.gguf.kinds import check_runnable
from specdec_cli.gguf.parse import Value
from specdec_cli.gguf.reader import read_header
from specdec_cli.headers import open_header
from specdec_cli.hub import resolve
from specdec_cli.hub.remote import N_MOST
from tests.gguf_files import TINY, smollm2, write_gguf
from tests.hub.conftest import cache, hub  # noqa: F401
from tests.hub.standin import Fault, Long, StandIn

# ruff: noqa: F811  # fixtures are imported and then asked for by name


def plain(metadata: Mapping[str, Value]) -> dict[str, object]:
    return {key: value.tolist() if isinstance(value, np.ndarray) else value for key, value in metadata.items()}


def assert_same(header: Header, other: Header) -> None:
    """But for where they were read."""
    for field in fields(Header):
        if field.name not in ("metadata", "paths", "reference"):
            assert getattr(header, field.name) == getattr(other, field.name)
    assert plain(header.metadata) == plain(other.metadata)


@pytest.fixture(scope="module")
def real() -> Header:
    return read_header(smollm2())


@pytest.fixture(scope="module")
def real_file() -> Long:
    """The real file as a server has it, with nothing for its tensors."""
    with smollm2().open("rb") as file:
        return Long(file.read(gguf.GGUFReader(smollm2()).data_offset), smollm2().stat().st_size)


@pytest.fixture
def split(tmp_path: Path) -> dict[str, bytes]:
    """A model in three parts, as llama.cpp's tools split it."""
    writer = gguf.GGUFWriter(tmp_path / "m.gguf", "llama", split_max_tensors=1)
    writer.add_context_length(512)
    for name in ("a", "b", "c"):
        writer.add_tensor(name, np.zeros(8, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return {path.name: path.read_bytes() for path in sorted(tmp_path.glob("*.gguf"))}


def fault(reference: str) -> ModelFileError:
    with pytest.raises(ModelFileError) as caught:
        open_header(reference, "draft")
    assert caught.value.why
    assert caught.value.fix
    return caught.value


def test_a_local_file_and_the_demo_model_are_read_here(real: Header) -> None:
    for reference in (str(smollm2()), "demo"):
        header = open_header(reference, "target")
        assert_same(header, real)
        assert header.reference is None
        assert header.label == smollm2().name


def test_a_model_that_is_not_here_is_read_on_the_hub(hub: StandIn, cache: Path, real: Header, real_file: Long) -> None:
    hub.add("owner/repo", **{"sub/m-Q4_K_M.gguf": real_file})
    said: list[tuple[str, float]] = []
    header = open_header("owner/repo", "draft", lambda label, fraction: said.append((label, fraction)))
    assert_same(header, real)
    assert header.label == header.reference == "hf:owner/repo/sub/m-Q4_K_M.gguf"
    assert said[-1] == ("owner/repo: reading the header", 1.0)
    assert not cache.exists()


def test_hardly_more_than_the_headers_bytes_are_fetched(hub: StandIn, real_file: Long) -> None:
    n_header = len(real_file.head)
    hub.add("owner/repo", **{"m.gguf": real_file})
    open_header("owner/repo")
    assert n_header <= hub.n_sent < 1.4 * n_header
    assert len(hub.ranges()) < 9
    assert hub.n_connections == {"hub": 1, "storage": 1}
    asked = [tuple(map(int, (text or "").removeprefix("bytes=").split("-"))) for text in hub.ranges()]
    assert [first for first, _ in asked] == [0, *(last + 1 for _, last in asked[:-1])]  # nothing twice
    assert asked[-1][1] < 1.4 * n_header


def test_of_a_server_without_ranges_the_header_is_read_all_the_same(hub: StandIn, real: Header, real_file: Long) -> None:
    hub.add("owner/repo", **{"m.gguf": real_file})
    hub.faults.append(Fault("ignore_range", "X-Signature"))
    assert_same(open_header("owner/repo"), real)
    assert len(hub.ranges()) == 1
    assert hub.n_sent < real_file.size / 2


def test_what_is_in_the_cache_is_read_there(hub: StandIn, tmp_path: Path) -> None:
    content = write_gguf(tmp_path / "m.gguf", {"general.name": "small"}, TINY).read_bytes()
    hub.add("owner/repo", **{"m.gguf": content})
    path = resolve("owner/repo")
    n_sent = hub.n_sent
    for offline in (False, True):
        header = open_header("owner/repo", offline=offline)
        assert header.paths == (path,)
        assert header.reference == "hf:owner/repo/m.gguf"
    assert hub.n_sent == n_sent
    path.write_bytes(content[:-1])
    error = fault("owner/repo")
    assert str(path) in error.what
    assert "Download it again" in error.fix


@pytest.mark.parametrize("given", ["owner/repo", "hf:owner/repo/{0}", "hf:owner/repo/{2}"])
def test_a_split_model_is_read_from_any_part(hub: StandIn, tmp_path: Path, split: dict[str, bytes], given: str) -> None:
    hub.add("owner/repo", **split)
    names = list(split)
    header = open_header(given.format(*names))
    assert_same(header, read_header(tmp_path / names[0]))
    assert [path.name for path in header.paths] == names
    assert header.reference == f"hf:owner/repo/{names[0]}"
    assert [(tensor.name, tensor.part) for tensor in header.tensors] == [("a", 0), ("b", 1), ("c", 2)]


def test_faults_of_a_part_on_the_hub_name_it(hub: StandIn, split: dict[str, bytes]) -> None:
    names = list(split)
    hub.add("owner/repo", **split | {names[2]: split[names[2]][:-1]})
    error = fault("owner/repo")
    assert error.what == f"The draft model hf:owner/repo/{names[2]} is truncated."
    assert "like this on the hub" in error.fix
    hub.add("owner/repo", **{names[2]: split[names[1]]})
    error = fault("owner/repo")
    assert error.what == f"The draft model hf:owner/repo/{names[2]} is damaged."
    assert "split.no is 1" in error.why
    hub.add("owner/other", **{"m.gguf": split[names[1]]})
    assert error.fix == fault("owner/other").fix


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (b"GGUF", "is truncated"),
        (struct.pack("<Q", 20) + b'{"__metadata__":{}}  ' + bytes(64), "is a safetensors file"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 98362432\n", "is a Git LFS pointer"),
        (b"GGUF" + struct.pack("<IQQ", 4, 0, 0), "newer than this program"),
    ],
)
def test_a_file_on_the_hub_that_is_no_model_is_named_by_its_reference(hub: StandIn, content: bytes, said: str) -> None:
    hub.add("owner/repo", **{"m.gguf": content})
    error = fault("owner/repo")
    assert error.what.startswith("The draft model hf:owner/repo/m.gguf ")
    assert said in error.what


def key(name: bytes, kind: int, value: bytes) -> bytes:
    return struct.pack("<Q", len(name)) + name + struct.pack("<I", kind) + value


HOSTILE = {
    "a text of 10 GB": key(b"a", 8, struct.pack("<Q", 10**10)),
    "an array of 10 GB": key(b"a", 9, struct.pack("<IQ", 0, 10**10)),
    "a billion texts": key(b"a", 9, struct.pack("<IQ", 8, 10**9)),
    "a billion keys": b"",
    "a name of 10 GB": struct.pack("<Q", 10**10),
}


@pytest.mark.parametrize("keys", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_header_that_asks_for_gigabytes_is_not_fetched(hub: StandIn, keys: bytes) -> None:
    head = b"GGUF" + struct.pack("<IQQ", 3, 0, 1 if keys else 10**9) + keys
    hub.add("owner/repo", **{"m.gguf": Long(head, 20 * 10**9)})
    error = fault("owner/repo")
    assert "too long" in error.what
    assert f"{N_MOST:,}" in error.why
    assert hub.n_sent < 100_000


def test_a_header_that_asks_for_more_than_there_is_is_not_fetched(hub: StandIn) -> None:
    head = b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + key(b"a", 8, struct.pack("<Q", 1 << 48))
    hub.add("owner/repo", **{"m.gguf": Long(head, 20 * 10**9)})
    assert "is damaged" in fault("owner/repo").what
    assert hub.n_sent < 100_000


def test_what_is_no_reference_is_said_with_the_forms_that_are() -> None:
    with pytest.raises(ModelFileError, match="a drafter: ngram") as caught:
        open_header("nothing", "draft", other_forms=("ngram",))
    assert "draft" in caught.value.what


def test_what_is_wrong_with_a_model_on_the_hub_is_said_of_its_reference(hub: StandIn, tmp_path: Path) -> None:
    extra = {"bert.context_length": 512}
    content = write_gguf(tmp_path / "m.gguf", extra, TINY, architecture="bert").read_bytes()
    hub.add("owner/repo", **{"m.gguf": content})
    with pytest.raises(ModelFileError) as caught:
        check_runnable(open_header("owner/repo", "draft"), "draft")
    assert caught.value.what.startswith("The draft model hf:owner/repo/m.gguf is")
