"""Downloads that do not go well: cut, silent, interrupted, damaged, and what is left for the next run."""

from __future__ import annotations

import hashlib
import shutil
from collections import namedtuple
from pathlib import Path

import huggingface_hub
import pytest
from filelock import FileLock

from specdec_cli.errors import ModelFileError
from specdec_cli.hub import resolve, transfer
from tests.hub.standin import COMMIT, Fault, StandIn

CONTENT = b"GGUF" + bytes(range(256)) * 2000
STORAGE = "X-Signature"  # in every address of the storage host
REFERENCE = "hf:owner/repo/m.gguf"


@pytest.fixture(autouse=True)
def repo(hub: StandIn) -> None:
    hub.add("owner/repo", **{"m.gguf": CONTENT})


def partial(cache: Path) -> Path:
    return cache / "models--owner--repo" / "blobs" / f"{hashlib.sha256(CONTENT).hexdigest()}.incomplete"


def leave(cache: Path, content: bytes) -> None:
    partial(cache).parent.mkdir(parents=True)
    partial(cache).write_bytes(content)


def test_a_cut_connection_is_taken_up_where_it_ended(hub: StandIn) -> None:
    hub.faults += [Fault("cut", STORAGE, at=at, times=1) for at in (100_000, 50_000)]
    said: list[str] = []
    assert resolve(REFERENCE, "model", lambda label, fraction: said.append(label)).read_bytes() == CONTENT
    assert hub.ranges() == [None, "bytes=100000-", "bytes=150000-"]
    assert sum("trying again" in label for label in said) == 2


def test_a_silent_server_is_given_up_and_what_came_is_kept(hub: StandIn, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "N_TRIES", 2)
    hub.faults += [Fault("stall", STORAGE, at=100_000, times=1), Fault("stall", STORAGE)]
    with pytest.raises(ModelFileError) as caught:
        resolve(REFERENCE)
    assert "did not answer in time" in caught.value.why
    assert "goes on where it stopped" in caught.value.fix
    assert partial(cache).read_bytes() == CONTENT[:100_000]


def test_a_connection_cut_again_and_again_is_given_up(hub: StandIn, cache: Path) -> None:
    hub.faults += [Fault("cut", STORAGE, at=5_000, times=1), Fault("cut", STORAGE, at=0)]
    with pytest.raises(ModelFileError) as caught:
        resolve(REFERENCE)
    assert "was cut" in caught.value.why
    assert "very-secret" not in str(caught.value)
    assert partial(cache).read_bytes() == CONTENT[:5_000]
    assert len(hub.ranges()) == 1 + transfer.N_TRIES


def test_ctrl_c_leaves_a_part_that_the_next_run_goes_on_from(hub: StandIn, cache: Path) -> None:
    def interrupt(label: str, fraction: float) -> None:
        if fraction > 0.3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        resolve(REFERENCE, "model", interrupt)
    n_left = partial(cache).stat().st_size
    assert 0 < n_left < len(CONTENT)
    shown: list[float] = []
    assert resolve(REFERENCE, "model", lambda label, fraction: shown.append(fraction)).read_bytes() == CONTENT
    assert hub.ranges() == [None, f"bytes={n_left}-"]
    assert next(fraction for fraction in shown if fraction) == pytest.approx(n_left / len(CONTENT))


def test_a_server_that_ignores_ranges_sends_the_whole_file_again(hub: StandIn, cache: Path) -> None:
    leave(cache, CONTENT[:1000])
    hub.faults.append(Fault("ignore_range", STORAGE))
    shown: list[float] = []
    assert resolve(REFERENCE, "model", lambda label, fraction: shown.append(fraction)).read_bytes() == CONTENT
    assert max(shown) == 1.0


@pytest.mark.parametrize("left", [b"x" * 1000, CONTENT[:-1] + b"x", b"x" * len(CONTENT), CONTENT + b"x", b""])
def test_what_an_earlier_run_left_is_of_no_harm(cache: Path, left: bytes) -> None:
    leave(cache, left)
    assert resolve(REFERENCE).read_bytes() == CONTENT
    assert not partial(cache).exists()


@pytest.mark.skipif(huggingface_hub.__version__.startswith("1."), reason="earlier releases insist on a size")
@pytest.mark.parametrize("left", [b"", CONTENT[:1000], CONTENT])
def test_a_size_that_the_hub_does_not_tell_is_no_hindrance(hub: StandIn, cache: Path, left: bytes) -> None:
    hub.tells_sizes = False
    leave(cache, left)
    hub.faults.append(Fault("cut", STORAGE, at=100, times=1))
    shown: list[float] = []
    assert resolve(REFERENCE, "model", lambda label, fraction: shown.append(fraction)).read_bytes() == CONTENT
    assert shown[-1] == 1.0


def test_a_complete_part_is_checked_and_used(hub: StandIn, cache: Path) -> None:
    leave(cache, CONTENT)
    assert resolve(REFERENCE).read_bytes() == CONTENT
    assert hub.ranges() == []


@pytest.mark.parametrize("kind", ["corrupt", "longer"])
def test_damaged_content_is_fetched_once_more_and_then_refused(hub: StandIn, cache: Path, kind: str) -> None:
    hub.faults.append(Fault(kind, STORAGE, times=1))
    assert resolve(REFERENCE).read_bytes() == CONTENT
    hub.add("owner/repo", **{"other.gguf": CONTENT + b"2"})
    hub.faults.append(Fault(kind, STORAGE))
    with pytest.raises(ModelFileError, match="does not have the size and the hash"):
        resolve("hf:owner/repo/other.gguf")
    assert not list(cache.rglob("*.incomplete"))
    assert [file.name for file in cache.rglob("snapshots/*/*")] == ["m.gguf"]


def test_without_a_hash_the_size_is_checked(hub: StandIn) -> None:
    hub.etag = "v1"
    hub.faults.append(Fault("longer", STORAGE, times=2))
    with pytest.raises(ModelFileError, match="does not have the size"):
        resolve(REFERENCE)
    assert resolve(REFERENCE).read_bytes() == CONTENT


def test_a_proxys_page_does_not_replace_what_has_come(hub: StandIn, cache: Path) -> None:
    leave(cache, CONTENT[:100_000])
    hub.faults.append(Fault("html", STORAGE))
    with pytest.raises(ModelFileError) as caught:
        resolve(REFERENCE)
    assert "Something other than the hub answered" in caught.value.why
    assert "<!DOCTYPE" in caught.value.why
    assert partial(cache).read_bytes() == CONTENT[:100_000]


def test_a_storage_host_in_trouble_is_asked_again(hub: StandIn) -> None:
    hub.faults.append(Fault("status", STORAGE, status=503, times=2))
    assert resolve(REFERENCE).read_bytes() == CONTENT


def test_a_full_disk_is_noticed_before_the_first_byte(hub: StandIn, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage(10**9, 10**9, 400_000))
    with pytest.raises(ModelFileError) as caught:
        resolve(REFERENCE)
    assert "is full: 1 MB are needed and 0 MB are free" in caught.value.why
    assert "HF_HOME" in caught.value.fix
    assert hub.ranges() == []
    leave(cache, CONTENT[:200_000])  # what has come already needs no more room
    assert resolve(REFERENCE).read_bytes() == CONTENT


def test_a_disk_that_fills_while_fetching_keeps_what_came(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: transfer.Meter, n_bytes: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(transfer.Meter, "add", full)
    with pytest.raises(ModelFileError, match="is full: No space left") as caught:
        resolve(REFERENCE)
    assert "goes on where it stopped" in caught.value.fix
    assert partial(cache).stat().st_size > 0


def test_a_second_download_of_a_file_waits_for_the_first(cache: Path) -> None:
    lock = cache / ".locks" / "models--owner--repo" / f"{hashlib.sha256(CONTENT).hexdigest()}.lock"
    lock.parent.mkdir(parents=True)
    said: list[str] = []
    with FileLock(lock):

        def look(label: str, fraction: float) -> None:
            said.append(label)
            if "waiting for another download" in label:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            resolve(REFERENCE, "model", look)
    assert "m.gguf (1 MB): waiting for another download of it" in said
    assert resolve(REFERENCE).parts[-2] == COMMIT


@pytest.mark.parametrize("name", ["../../../escape", "..", "a/b"])
def test_names_from_the_hub_that_lead_out_of_the_cache_are_refused(hub: StandIn, name: str) -> None:
    hub.etag = name
    with pytest.raises(ModelFileError, match="Something other than the hub"):
        resolve(REFERENCE)
    hub.etag, hub.revisions["main"] = None, name
    with pytest.raises(ModelFileError, match="Something other than the hub"):
        resolve(REFERENCE)
    assert hub.ranges() == []


def test_a_listed_path_that_leads_out_of_the_cache_is_not_taken(hub: StandIn) -> None:
    hub.add("owner/other", **{"../../m-Q4_K_M.gguf": CONTENT, "..\\m-Q4_K_M.gguf": CONTENT, "m-F16.gguf": CONTENT})
    assert resolve("owner/other").name == "m-F16.gguf"
