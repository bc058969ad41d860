"""The first bytes of a file on the hub by range: what is asked, what is sent, and servers that do something else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import huggingface_hub
import pytest

from specdec_cli.errors import ModelFileError
from specdec_cli.hub import resolve, transfer
from specdec_cli.hub.references import HubFile, HubRepo, parse
from specdec_cli.hub.remote import N_MOST, HubModel, RemoteFile, look
from tests.hub.standin import COMMIT, Fault, Long, StandIn

T = TypeVar("T")

TOKEN = "hf_secretsecretsecret"
CONTENT = b"GGUF" + bytes(range(256)) * 2000
STORAGE = "X-Signature"  # in every address of the storage host
REFERENCE = "hf:owner/repo/m.gguf"


@pytest.fixture(autouse=True)
def repo(hub: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    hub.add("owner/repo", **{"m.gguf": CONTENT})


def ignore(label: str, fraction: float) -> None:
    """Progress that nobody looks at."""


def looked_at(
    read: Callable[[HubModel], T],
    reference: str = REFERENCE,
    progress: Callable[[str, float], None] = ignore,
    offline: bool = False,
) -> T:
    wanted = parse(reference)
    assert isinstance(wanted, HubFile | HubRepo)
    return look(wanted, "draft", progress, offline=offline, read=read)


def with_file(use: Callable[[RemoteFile], T], progress: Callable[[str, float], None] = ignore) -> T:
    def read(model: HubModel) -> T:
        with model.open(model.paths[0]) as file:
            return use(file)

    return looked_at(read, progress=progress)


def pieces(*ends: int) -> bytes:
    """The file up to the last of these places, read piece by piece."""

    def use(file: RemoteFile) -> bytes:
        data = b""
        for end in ends:
            data += file.read(len(data), end - len(data))
        return data

    return with_file(use)


def failure(use: Callable[[RemoteFile], object] = lambda file: file.read(0, 1000)) -> ModelFileError:
    with pytest.raises(ModelFileError) as caught:
        with_file(use)
    assert caught.value.what == f"Cannot fetch the draft {REFERENCE}."
    for secret in (TOKEN, "very-secret", "goes on where it stopped", "{"):
        assert secret not in str(caught.value)
    return caught.value


def test_each_piece_is_one_request_on_one_connection(hub: StandIn, cache: Path) -> None:
    assert pieces(1000, 70_000, 100_000) == CONTENT[:100_000]
    assert hub.ranges() == ["bytes=0-999", "bytes=1000-69999", "bytes=70000-99999"]
    assert hub.n_sent == 100_000
    assert hub.n_connections == {"hub": 1, "storage": 1}
    assert len(hub.paths("GET", "/resolve/")) == 1
    assert not cache.exists()


def test_the_token_goes_to_the_hub_and_not_to_the_storage_host(hub: StandIn) -> None:
    pieces(1000, 2000)
    assert {(asked.host, asked.headers.get("authorization")) for asked in hub.asked} == {
        ("hub", f"Bearer {TOKEN}"),
        ("storage", None),
    }


def test_a_mirror_that_sends_files_itself_gets_the_token_each_time(hub: StandIn) -> None:
    hub.redirects = False
    assert pieces(1000, 2000) == CONTENT[:2000]
    assert {asked.headers.get("authorization") for asked in hub.asked} == {f"Bearer {TOKEN}"}
    assert len(hub.asked) == 3


def test_an_address_that_has_expired_is_asked_for_again(hub: StandIn) -> None:
    def use(file: RemoteFile) -> bytes:
        first = file.read(0, 1000)
        hub.faults.append(Fault("status", STORAGE, status=403, times=1))
        return first + file.read(1000, 1000)

    assert with_file(use) == CONTENT[:2000]
    assert len(hub.paths("GET", "/resolve/")) == 2


def test_of_a_server_without_ranges_only_what_is_needed_is_taken_and_in_one_answer(hub: StandIn) -> None:
    hub.add("owner/repo", **{"m.gguf": Long(CONTENT, 1 << 32)})
    hub.faults.append(Fault("ignore_range", STORAGE))
    assert pieces(1000, 70_000, 300_000) == CONTENT[:300_000]
    assert len(hub.ranges()) == 1
    assert hub.n_sent < 50_000_000  # what the sockets' buffers hold


def test_a_server_that_loses_its_ranges_half_way_is_read_on(hub: StandIn) -> None:
    def use(file: RemoteFile) -> bytes:
        first = file.read(0, 1000)
        hub.faults.append(Fault("ignore_range", STORAGE))
        return first + file.read(1000, 99_000) + file.read(100_000, len(CONTENT) - 100_000)

    assert with_file(use) == CONTENT


def test_a_cut_connection_is_taken_up_where_it_ended(hub: StandIn) -> None:
    hub.faults += [Fault("cut", STORAGE, at=at, times=1) for at in (70_000, 50_000)]
    said: list[str] = []
    assert with_file(lambda file: file.read(0, 200_000), lambda label, _: said.append(label)) == CONTENT[:200_000]
    assert hub.ranges() == ["bytes=0-199999", "bytes=70000-199999", "bytes=120000-199999"]
    assert said.count("owner/repo: reading the header: connection lost, trying again") == 2


def test_a_connection_cut_again_and_again_is_given_up(hub: StandIn) -> None:
    hub.faults.append(Fault("cut", STORAGE))
    assert "was cut" in failure().why
    assert len(hub.ranges()) == transfer.N_TRIES


def test_a_silent_server_is_given_up(hub: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "N_TRIES", 2)
    hub.faults.append(Fault("stall", STORAGE))
    error = failure()
    assert "did not answer in time" in error.why
    assert "run the same command again." in error.fix


def test_a_storage_host_in_trouble_is_asked_again(hub: StandIn) -> None:
    hub.faults.append(Fault("status", STORAGE, status=503, times=2))
    assert pieces(1000) == CONTENT[:1000]


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        (Fault("status", status=401), "no repository owner/repo, or it is private"),
        (Fault("status", status=403, headers={"X-Error-Code": "GatedRepo"}), "is gated"),
        (Fault("status", STORAGE, status=403, headers={"X-Error-Message": f"{TOKEN} may not"}), "may not"),
        (Fault("status", STORAGE, status=404), "no repository owner/repo"),
        (Fault("status", STORAGE, status=416), "has 512,004 bytes, and no byte 0"),
        (Fault("status", STORAGE, status=429, headers={"Retry-After": "17"}), "limits the number of requests"),
        (Fault("status", status=502), "failed with status 502"),
        (Fault("status", STORAGE, status=502), "failed with status 502"),
        (Fault("status", STORAGE, status=204), "status 204"),
        (Fault("status", STORAGE, status=206, headers={"Content-Encoding": "gzip"}), "gzip content"),
        (Fault("html", STORAGE), "begins with b'<!DOCTYPE"),
        (Fault("html"), "Something other than the hub answered"),
        (Fault("wrong_range", STORAGE), "it answers with 'bytes 1-999/512004'"),
    ],
)
def test_what_servers_answer(hub: StandIn, fault: Fault, why: str) -> None:
    hub.faults.append(fault)
    assert why in failure().why


@pytest.mark.parametrize("ranges", [True, False])
@pytest.mark.parametrize("redirects", [True, False])
@pytest.mark.parametrize(
    "other", [CONTENT[:-1] + b"x", CONTENT + b"x", CONTENT[:5000], CONTENT[:500]], ids=["same", "longer", "shorter", "short"]
)
def test_a_file_that_changes_between_two_pieces_is_noticed(hub: StandIn, other: bytes, redirects: bool, ranges: bool) -> None:
    hub.redirects = redirects

    def use(file: RemoteFile) -> bytes:
        file.read(0, 1000)
        hub.add("owner/repo", **{"m.gguf": other})
        if not ranges:
            hub.faults.append(Fault("ignore_range"))
        return file.read(1000, 1000)

    assert "does not agree: m.gguf" in failure(use).why


@pytest.mark.parametrize("kind", ["longer", "ignore_range"])
def test_a_file_of_another_size_than_the_hub_tells_is_refused(hub: StandIn, kind: str) -> None:
    hub.faults.append(Fault(kind, STORAGE))

    def use(file: RemoteFile) -> bytes:
        if kind == "ignore_range":
            hub.add("owner/repo", **{"m.gguf": CONTENT + b"more"})
        return file.read(0, 1000)

    assert "m.gguf has 512,004 bytes, and then 512" in failure(use).why


@pytest.mark.skipif(huggingface_hub.__version__.startswith("1."), reason="earlier releases insist on a size")
def test_a_size_that_the_hub_does_not_tell_is_said(hub: StandIn) -> None:
    hub.tells_sizes = False
    assert "lacks the size of m.gguf" in failure().why


def test_ctrl_c_ends_the_waiting_and_leaves_nothing(hub: StandIn, cache: Path) -> None:
    hub.faults.append(Fault("cut", STORAGE, at=100))

    def interrupt(label: str, fraction: float) -> None:
        if "trying again" in label:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        with_file(lambda file: file.read(0, 1000), interrupt)
    assert len(hub.ranges()) == 1
    assert not cache.exists()


def test_reading_ahead_never_asks_for_much_more_than_is_needed() -> None:
    part = transfer.Part("m.gguf", COMMIT, "etag", 1 << 30)
    file = RemoteFile(part, None, lambda note: None)  # type: ignore[arg-type]  # nothing is asked
    n_have = n_reads = 0
    while n_have < 6_000_000:
        n_next = file.ahead(n_have, n_have + 1)
        assert n_have < n_next <= max(1 << 16, 1.4 * n_have)
        n_have, n_reads = n_next, n_reads + 1
    assert n_reads < 20
    assert file.ahead(n_have, 7 * n_have) == 7 * n_have  # what is sure to be needed comes at once
    assert file.n_most == N_MOST


def test_a_model_in_the_cache_is_read_there_as_long_as_it_is_the_hubs(hub: StandIn) -> None:
    path = resolve(REFERENCE)
    for reference in (REFERENCE, "owner/repo", f"hf:owner/repo@{COMMIT}/m.gguf"):
        model = looked_at(lambda model: model, reference)
        assert model.is_here
        assert model.paths == (path,)
    assert looked_at(lambda model: model.reference, "owner/repo") == REFERENCE
    hub.revisions["main"] = "f" * 40
    assert not looked_at(lambda model: model.is_here)
    assert looked_at(lambda model: model.is_here, offline=True)


def test_a_commit_in_the_cache_needs_no_network(hub: StandIn) -> None:
    resolve(REFERENCE)
    n_asked = len(hub.asked)
    assert looked_at(lambda model: model.is_here, f"hf:owner/repo@{COMMIT}/m.gguf")
    assert len(hub.asked) == n_asked


def test_offline_and_not_in_the_cache(hub: StandIn) -> None:
    with pytest.raises(ModelFileError, match="offline mode is on"):
        looked_at(lambda model: model, offline=True)
    assert hub.asked == []


def test_an_earlier_copy_stands_in_when_the_storage_host_fails(hub: StandIn) -> None:
    resolve(REFERENCE)
    hub.revisions["main"] = "f" * 40
    hub.faults.append(Fault("status", STORAGE, status=429))
    said: list[str] = []

    def read(model: HubModel) -> bytes:
        if model.is_here:
            return model.paths[0].read_bytes()
        with model.open(model.paths[0]) as file:
            return file.read(0, 10)

    assert looked_at(read, progress=lambda label, _: said.append(label)) == CONTENT
    assert "the copy in the cache" in said[-1]


def test_a_split_model_is_known_from_any_part_and_only_whole_in_the_cache(hub: StandIn) -> None:
    hub.add("owner/split", **{f"sub/m-0000{i}-of-00002.gguf": CONTENT + bytes([i]) for i in (1, 2)})
    model = looked_at(lambda model: model, "hf:owner/split/sub/m-00002-of-00002.gguf")
    assert model.reference == "hf:owner/split/sub/m-00001-of-00002.gguf"
    assert [path.name for path in model.paths] == ["m-00001-of-00002.gguf", "m-00002-of-00002.gguf"]
    assert resolve("owner/split") == model.paths[0]
    assert looked_at(lambda model: model.is_here, "owner/split")
    model.paths[1].unlink()
    assert not looked_at(lambda model: model.is_here, "owner/split")
