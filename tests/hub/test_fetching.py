"""resolve() of hub references against a stand-in for the hub: what is fetched, where it lies, what is asked."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from huggingface_hub import constants, try_to_load_from_cache

from specdec_cli.errors import ModelFileError
from specdec_cli.hub import resolve, transfer
from tests.hub.standin import COMMIT, Fault, StandIn

OTHER = "f" * 40
CONTENT = b"GGUF" + bytes(range(256)) * 40


def test_a_repository_brings_its_default_quantization_into_the_shared_cache(hub: StandIn, cache: Path) -> None:
    hub.add("owner/repo", **{"m-F16.gguf": b"GGUF16", "sub/m-Q4_K_M.gguf": CONTENT})
    path = resolve("owner/repo")
    assert path.read_bytes() == CONTENT
    assert path == cache / "models--owner--repo" / "snapshots" / COMMIT / "sub" / "m-Q4_K_M.gguf"
    assert try_to_load_from_cache("owner/repo", "sub/m-Q4_K_M.gguf", cache_dir=cache) == str(path)
    assert not list(cache.rglob("*.incomplete"))


def test_a_quantization_is_matched_in_any_case_and_across_pages(hub: StandIn) -> None:
    hub.n_page = 2
    hub.add("owner/repo", **{f"m-Q{n}_0.gguf": CONTENT + bytes([n]) for n in range(9)})
    assert resolve("owner/repo:q8_0").name == "m-Q8_0.gguf"
    assert len(hub.paths("GET", "/tree/")) == 5


def test_a_file_in_a_folder_at_a_revision(hub: StandIn) -> None:
    hub.revisions["v2"] = OTHER
    hub.add("owner/repo", **{"sub/a b.gguf": CONTENT})
    path = resolve("hf:owner/repo@v2/sub/a b.gguf")
    assert path.read_bytes() == CONTENT
    assert path.parts[-3:] == (OTHER, "sub", "a b.gguf")
    assert hub.paths("GET", "/tree/") == []


@pytest.mark.parametrize("reference", ["owner/repo", "hf:owner/repo/m-00002-of-00003.gguf"])
def test_all_parts_of_a_split_model_come_and_the_first_is_returned(hub: StandIn, reference: str) -> None:
    parts = {f"m-0000{index}-of-00003.gguf": CONTENT + bytes([index]) for index in (1, 2, 3)}
    hub.add("owner/repo", **parts)
    shown: list[tuple[str, float]] = []
    path = resolve(reference, "model", lambda label, fraction: shown.append((label, fraction)))
    assert {file.name: file.read_bytes() for file in path.parent.iterdir()} == parts
    assert path.name == "m-00001-of-00003.gguf"
    fractions = [fraction for _, fraction in shown]
    assert fractions == sorted(fractions)
    assert fractions[-1] == 1.0
    # Later parts are asked for at the first one's commit, so that a push in between cannot mix two models.
    assert all(f"/resolve/{COMMIT}/" in asked for asked in hub.paths("HEAD") if "00001" not in asked)


def test_a_split_model_with_a_part_missing_in_the_repository_is_refused(hub: StandIn) -> None:
    hub.add("owner/repo", **{"m-00001-of-00002.gguf": CONTENT})
    with pytest.raises(ModelFileError) as caught:
        resolve("owner/repo")
    assert "lacks m-00002-of-00002.gguf" in caught.value.why
    assert hub.ranges() == []


def test_progress_names_the_file_and_its_size_and_ends_at_one(hub: StandIn) -> None:
    hub.add("owner/repo", **{"m.gguf": b"GGUF" + bytes(3_000_000)})
    shown: list[tuple[str, float]] = []
    resolve("owner/repo", "model", lambda label, fraction: shown.append((label, fraction)))
    assert shown[-1] == ("m.gguf (3 MB)", 1.0)
    assert len([fraction for _, fraction in shown if 0 < fraction < 1]) > 3


def test_a_file_in_the_cache_is_not_fetched_again(hub: StandIn) -> None:
    hub.add("owner/repo", **{"m.gguf": CONTENT})
    first = resolve("owner/repo")
    assert resolve("owner/repo") == first
    assert len(hub.ranges()) == 1


def test_an_unchanged_file_of_a_new_commit_is_not_fetched_again(hub: StandIn) -> None:
    hub.add("owner/repo", **{"m.gguf": CONTENT})
    resolve("owner/repo")
    hub.revisions["main"] = OTHER
    path = resolve("owner/repo")
    assert OTHER in path.parts
    assert path.read_bytes() == CONTENT
    assert len(hub.ranges()) == 1


def test_a_file_at_a_commit_needs_no_network_once_it_is_here(hub: StandIn) -> None:
    hub.add("owner/repo", **{"m.gguf": CONTENT})
    path = resolve("owner/repo")
    n_asked = len(hub.asked)
    assert resolve(f"hf:owner/repo@{COMMIT}/m.gguf") == path
    assert len(hub.asked) == n_asked


def test_what_was_fetched_by_commit_becomes_known_under_its_branch(hub: StandIn) -> None:
    hub.add("owner/repo", **{"m.gguf": CONTENT})
    path = resolve(f"hf:owner/repo@{COMMIT}/m.gguf")
    assert resolve("hf:owner/repo/m.gguf") == path
    assert resolve("hf:owner/repo/m.gguf", offline=True) == path
    assert len(hub.ranges()) == 1


def test_offline_takes_what_is_cached_and_asks_nothing(hub: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.add("owner/repo", **{"m-Q4_K_M.gguf": CONTENT})
    path = resolve("owner/repo")
    n_asked = len(hub.asked)
    assert resolve("owner/repo", offline=True) == path
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert resolve("hf:owner/repo/m-Q4_K_M.gguf") == path
    assert len(hub.asked) == n_asked


def test_offline_does_not_take_half_of_a_split_model(hub: StandIn) -> None:
    hub.add("owner/repo", **{f"m-0000{index}-of-00002.gguf": CONTENT + bytes([index]) for index in (1, 2)})
    resolve("owner/repo").with_name("m-00002-of-00002.gguf").unlink()
    with pytest.raises(ModelFileError, match="Cannot fetch"):
        resolve("owner/repo", offline=True)


def test_the_cache_stands_in_when_the_hub_fails_and_says_so(hub: StandIn) -> None:
    hub.add("owner/repo", **{"m.gguf": CONTENT})
    path = resolve("owner/repo")
    hub.faults.append(Fault("status", status=503))
    said: list[str] = []
    assert resolve("owner/repo", "model", lambda label, fraction: said.append(label)) == path
    assert "the copy in the cache" in said[-1]
    assert "503" in said[-1]


def test_the_token_goes_to_the_hub_and_not_to_the_storage_host(hub: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_abcdefghij")
    hub.add("owner/repo", **{"m.gguf": CONTENT})
    resolve("owner/repo")
    sent = {asked.host: asked.headers.get("authorization") for asked in hub.asked}
    assert sent == {"hub": "Bearer hf_abcdefghij", "storage": None}


def test_files_kept_in_xet_storage_come_over_plain_http(hub: StandIn) -> None:
    """Xet keeps nothing of an interrupted download, and needs a server of its own."""
    hub.xet = True
    hub.add("owner/repo", **{"m.gguf": CONTENT})
    assert resolve("owner/repo").read_bytes() == CONTENT
    assert not [asked for asked in hub.asked if "xet" in asked.path]


def test_a_file_too_large_for_plain_http_is_left_to_the_library(hub: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "LARGEST_PLAIN_FILE", 10)
    hub.add("owner/repo", **{"m.gguf": CONTENT})
    shown: list[float] = []
    assert resolve("owner/repo", "model", lambda label, fraction: shown.append(fraction)).read_bytes() == CONTENT
    assert shown[-1] == 1.0


def test_a_failure_of_xet_is_explained(hub: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> str:
        raise RuntimeError("Data processing error: CAS service")

    monkeypatch.setattr(transfer, "LARGEST_PLAIN_FILE", 10)
    monkeypatch.setattr(transfer, "hf_hub_download", broken)
    hub.add("owner/repo", **{"m.gguf": CONTENT})
    with pytest.raises(ModelFileError, match="Xet storage failed: Data processing error"):
        resolve("owner/repo")


def test_without_symbolic_links_there_is_one_copy(hub: StandIn, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "are_symlinks_supported", lambda folder: False)
    hub.add("owner/repo", **{"sub/m.gguf": CONTENT})
    path = resolve("owner/repo")
    assert path.read_bytes() == CONTENT
    assert not path.is_symlink()
    assert [file for file in cache.rglob("*") if file.is_file() and file.stat().st_size == len(CONTENT)] == [path]
    assert resolve("owner/repo", offline=True) == path


def test_the_environment_alone_decides_where_from_and_where_to(hub: StandIn, tmp_path: Path) -> None:
    hub.add("owner/repo", **{"m.gguf": CONTENT})
    program = "import sys\nfrom specdec_cli.hub import resolve\nprint(resolve(sys.argv[1]))"
    environment = os.environ | {
        "HF_HOME": str(tmp_path / "elsewhere"),
        "NO_PROXY": "127.0.0.1",
        "PYTHONIOENCODING": "utf-8",
    }
    for name in ("HF_HUB_CACHE", "HF_HUB_DISABLE_TELEMETRY", "DO_NOT_TRACK"):
        environment.pop(name, None)
    for offline in ("0", "1"):
        ran = subprocess.run(
            [sys.executable, "-c", program, "owner/repo"],
            env=environment | {"HF_HUB_OFFLINE": offline},
            capture_output=True,
            encoding="utf-8",
            check=True,
        )
        path = Path(ran.stdout.strip())
        assert path.read_bytes() == CONTENT
        assert path.is_relative_to(tmp_path / "elsewhere" / "hub")
        assert ran.stderr == ""
    assert len(hub.ranges()) == 1
    assert all("owner/repo/" in asked.path for asked in hub.asked)  # and nothing else, no telemetry
