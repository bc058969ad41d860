"""specdec pull: one line on standard output that says where the model lies, whatever it took to get it there."""

from __future__ import annotations

import hashlib
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command import COMMAND, LIMIT_S, Done, environment, specdec
from tests.gguf_files import TINY, smollm2, write_gguf, write_vocab_gguf
from tests.hub.standin import COMMIT, Fault, StandIn

PAGE = Path(__file__).parents[2] / "docs" / "json" / "pull.md"
N_BEFORE_STALL = 50_000


@pytest.fixture
def standin() -> Iterator[StandIn]:
    hub = StandIn()
    yield hub
    hub.close()


@pytest.fixture
def env(standin: StandIn, tmp_path: Path) -> dict[str, str]:
    return {"HF_ENDPOINT": standin.endpoint, "HF_HOME": str(tmp_path / "home"), "NO_PROXY": "127.0.0.1"}


@pytest.fixture
def content(tmp_path: Path) -> bytes:
    return write_vocab_gguf(tmp_path / "m.gguf", [f"word{i}" for i in range(20_000)], tensors=TINY).read_bytes()


def pull(env: dict[str, str], *arguments: str | Path) -> Done:
    return specdec("pull", *arguments, env=env)


def place(env: dict[str, str], name: str) -> Path:
    return Path(env["HF_HOME"]) / "hub" / "models--owner--repo" / "snapshots" / COMMIT / name


def test_a_model_is_fetched_and_its_path_printed(standin: StandIn, env: dict[str, str], content: bytes) -> None:
    standin.add("owner/repo", **{"m-F16.gguf": b"GGUF", "m-Q4_K_M.gguf": content})
    done = pull(env, "owner/repo:q4_k_m")
    assert done.code == 0, done.err
    assert done.text == f"{place(env, 'm-Q4_K_M.gguf')}\n"
    assert Path(done.text.strip()).read_bytes() == content
    assert "160 parameters, llama, SHA-256 checked." in done.err
    assert 'Next: specdec run owner/repo:q4_k_m "PROMPT"' in done.err


def test_what_is_here_already_is_not_fetched_again(standin: StandIn, env: dict[str, str], content: bytes) -> None:
    standin.add("owner/repo", **{"m-Q4_K_M.gguf": content})
    first = pull(env, "owner/repo")
    n_fetched = len(standin.ranges())
    again = pull(env, "owner/repo")
    assert again.out == first.out
    assert len(standin.ranges()) == n_fetched
    assert "was here already" in again.err
    assert "SHA-256" not in again.err


def test_without_the_hub_the_copy_that_is_here_does_and_that_is_said(
    standin: StandIn, env: dict[str, str], content: bytes
) -> None:
    standin.add("owner/repo", **{"m-Q4_K_M.gguf": content})
    first = pull(env, "owner/repo")
    standin.close()
    done = pull(env, "owner/repo")
    assert (done.code, done.out) == (0, first.out)
    assert "the hub could not be asked" in done.err
    assert "as the hub has it now" not in done.err


def test_the_json_document_is_whole_and_described(standin: StandIn, env: dict[str, str], content: bytes) -> None:
    standin.add("owner/repo", **{"m-Q4_K_M.gguf": content})
    document = pull(env, "owner/repo", "--json").document
    path = str(place(env, "m-Q4_K_M.gguf"))
    assert document == {
        "schema": "specdec.pull/1",
        "reference": "owner/repo",
        "path": path,
        "files": [path],
        "bytes": len(content),
        "fetched": True,
    }
    assert not [key for key in document if f"`{key}`" not in PAGE.read_text(encoding="utf-8")]


def test_a_file_that_cannot_run_is_fetched_and_named(standin: StandIn, env: dict[str, str], tmp_path: Path) -> None:
    standin.add("owner/repo", **{"mmproj.gguf": write_gguf(tmp_path / "p.gguf", {}, TINY, "clip").read_bytes()})
    done = pull(env, "hf:owner/repo/mmproj.gguf")
    assert done.code == 0
    assert "is a projector" in done.err
    assert "Next: specdec run" not in done.err


def test_offline_is_an_error_that_says_why(standin: StandIn, env: dict[str, str]) -> None:
    for done, reason in (
        (pull(env, "owner/repo", "--offline"), "--offline"),
        (pull(env | {"SPECDEC_OFFLINE": "1"}, "owner/repo"), "SPECDEC_OFFLINE"),
        (pull(env | {"HF_HUB_OFFLINE": "1"}, "owner/repo"), "HF_HUB_OFFLINE"),
    ):
        assert (done.code, done.out) == (2, b"")
        assert f"{reason} forbids it" in done.err
    assert standin.asked == []


def test_a_file_on_this_machine_needs_no_fetching(standin: StandIn, env: dict[str, str]) -> None:
    done = pull(env, smollm2())
    assert (done.code, done.text) == (0, f"{smollm2()}\n")
    assert "nothing to fetch" in done.err
    assert pull(env, "demo", "-q").text == f"{smollm2()}\n"
    assert standin.asked == []


def test_what_the_hub_does_not_have_and_no_reference_are_errors(standin: StandIn, env: dict[str, str]) -> None:
    assert pull(env).code == 2
    done = pull(env, "owner/none")
    assert (done.code, done.out) == (2, b"")
    assert "no repository owner/none" in done.err


@pytest.mark.skipif(sys.platform == "win32", reason="needs signals to one process")
def test_what_has_come_before_an_interruption_is_kept_for_the_next_try(
    standin: StandIn, env: dict[str, str], content: bytes
) -> None:
    assert len(content) > 2 * N_BEFORE_STALL
    standin.add("owner/repo", **{"m-Q4_K_M.gguf": content})
    standin.faults.append(Fault("stall", method="GET", path="X-Signature", at=N_BEFORE_STALL, times=1))
    child = subprocess.Popen(
        [*COMMAND, "pull", "owner/repo"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(env)
    )
    unfinished = place(env, "").parents[1] / "blobs" / f"{hashlib.sha256(content).hexdigest()}.incomplete"
    deadline = time.monotonic() + LIMIT_S
    while not (unfinished.exists() and unfinished.stat().st_size >= N_BEFORE_STALL // 2):
        assert child.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=LIMIT_S)
    assert child.returncode == 130
    assert out == b""
    assert b"Traceback" not in err
    assert b"specdec pull owner/repo" in err
    done = pull(env, "owner/repo")
    assert Path(done.text.strip()).read_bytes() == content
    start = int((standin.ranges()[-1] or "bytes=0-").removeprefix("bytes=").rstrip("-"))
    assert start >= N_BEFORE_STALL // 2
