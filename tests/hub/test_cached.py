"""What is found in the hub cache and in folders: whole models, once each, whatever else lies there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from specdec_cli.errors import SpecdecError
from specdec_cli.hub import resolve
from specdec_cli.hub.cached import Cached, cache_folder, cached_models, models_in, unfinished
from tests.hub.standin import COMMIT, Fault, StandIn

OTHER = "f" * 40
links = pytest.mark.skipif(sys.platform == "win32", reason="needs links")


def put(cache: Path, repo: str, name: str, content: bytes, commit: str = COMMIT, ref: str | None = "main") -> Path:
    """A file as it lies in the cache where links cannot be made."""
    folder = cache / f"models--{repo.replace('/', '--')}"
    path = folder / "snapshots" / commit / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    if ref is not None:
        (folder / "refs" / ref).parent.mkdir(parents=True, exist_ok=True)
        (folder / "refs" / ref).write_text(commit, encoding="utf-8")
    return path


def references() -> list[str]:
    return [one.reference for one in cached_models()]


def test_what_resolve_has_fetched_is_found_with_the_reference_that_leads_to_it(hub: StandIn, cache: Path) -> None:
    hub.add("owner/repo", **{"m-Q8_0.gguf": b"GGUF8", "m-Q4_K_M.gguf": b"GGUF444"})
    path = resolve("owner/repo")
    assert cached_models() == [Cached(path, "owner/repo:Q4_K_M", 7)]
    assert resolve(cached_models()[0].reference, offline=True) == path


def test_the_folder_is_that_of_the_library(cache: Path) -> None:
    assert cache_folder() == cache


def test_without_a_cache_nothing_is_found(cache: Path) -> None:
    assert cached_models() == []
    assert unfinished() == []


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["m-Q4_K_M.gguf", "mmproj-F16.gguf"], ["owner/repo:Q4_K_M", "hf:owner/repo/mmproj-F16.gguf"]),
        (["a-Q8_0.gguf", "b-Q8_0.gguf"], ["owner/repo:Q8_0", "hf:owner/repo/b-Q8_0.gguf"]),
        (["sub/m-IQ4_XS.gguf"], ["owner/repo:IQ4_XS"]),
        (["model.gguf", "tiny-chat.gguf"], ["hf:owner/repo/model.gguf", "hf:owner/repo/tiny-chat.gguf"]),
        (["config.json", "m.safetensors"], []),
    ],
)
def test_the_short_reference_is_given_where_it_leads_to_the_file(cache: Path, names: list[str], expected: list[str]) -> None:
    paths = [put(cache, "owner/repo", name, b"GGUF") for name in names]
    assert references() == expected
    for one in cached_models():
        assert one.path in paths
        assert resolve(one.reference, offline=True) == one.path


def test_a_split_model_is_found_once_with_the_bytes_of_all_parts(cache: Path) -> None:
    paths = [put(cache, "owner/repo", f"m-Q8_0-0000{i}-of-00003.gguf", b"x" * i) for i in (3, 1, 2)]
    assert cached_models() == [Cached(paths[1], "owner/repo:Q8_0", 6)]
    assert unfinished() == []


def test_a_split_model_that_lacks_parts_is_told_apart(cache: Path) -> None:
    put(cache, "owner/repo", "m-Q8_0-00002-of-00003.gguf", b"xx")
    assert cached_models() == []
    (one,) = unfinished()
    assert (one.reference, one.n_bytes, one.reason) == ("hf:owner/repo/m-Q8_0-00001-of-00003.gguf", 2, "1 of 3 parts")


def test_an_interrupted_download_is_told_with_what_is_here(hub: StandIn, cache: Path) -> None:
    hub.add("owner/repo", **{"m-Q8_0.gguf": b"GGUF" * 100})
    hub.faults.append(Fault("cut", method="GET", path="X-Signature", at=40, times=1))
    hub.faults.append(Fault("status", method="GET", path="X-Signature", status=403))
    with pytest.raises(SpecdecError):
        resolve("owner/repo")
    (one,) = unfinished()
    assert (one.reference, one.n_bytes, one.reason) == ("owner/repo", 40, "an interrupted download")
    assert cached_models() == []


def test_other_revisions_are_named_and_main_comes_first(cache: Path) -> None:
    put(cache, "owner/repo", "m-Q8_0.gguf", b"new")
    put(cache, "owner/repo", "m-Q8_0.gguf", b"older", OTHER, "refs/pr/1")
    put(cache, "owner/repo", "m-Q8_0.gguf", b"nameless", "a" * 40, None)
    assert references() == ["owner/repo:Q8_0", "hf:owner/repo@refs/pr/1:Q8_0", f"hf:owner/repo@{'a' * 40}:Q8_0"]


@links
def test_a_file_that_several_revisions_share_is_found_once_under_main(cache: Path) -> None:
    first = put(cache, "owner/repo", "m-Q8_0.gguf", b"same", "0" * 40, None)
    shared = cache / "models--owner--repo" / "snapshots" / COMMIT / "m-Q8_0.gguf"
    shared.parent.mkdir()
    shared.symlink_to(first)
    (cache / "models--owner--repo" / "refs").mkdir()
    (cache / "models--owner--repo" / "refs" / "main").write_text(COMMIT, encoding="utf-8")
    assert cached_models() == [Cached(shared, "owner/repo:Q8_0", 4)]


@links
def test_broken_links_and_odd_folders_disturb_nothing(cache: Path) -> None:
    good = put(cache, "owner/repo", "m-Q8_0.gguf", b"good")
    (good.parent / "gone-Q4_0.gguf").symlink_to(good.parent / "nowhere")
    (good.parent / "round-Q4_1.gguf").symlink_to(good.parent / "round-Q4_1.gguf")
    (good.parent / "folder.gguf").mkdir()
    for odd in ("models--", "models--x", "models----", "datasets--a--b", "tmp"):
        (cache / odd / "snapshots" / COMMIT).mkdir(parents=True)
    (cache / "models--file--here").write_bytes(b"no folder")
    (cache / "models--owner--repo" / "refs" / "broken").write_bytes(b"\xff\xfe")
    assert cached_models() == [Cached(good, "owner/repo:Q8_0", 4)]


def test_a_repository_that_no_reference_can_name_is_given_by_its_path(cache: Path) -> None:
    path = put(cache, "own er/re po", "m-Q8_0.gguf", b"odd")
    assert references() == [str(path)]
    assert resolve(references()[0]) == path


def test_models_of_a_folder_are_found_below_it_and_sorted(tmp_path: Path) -> None:
    for name in ("b.gguf", "a.gguf", "deep/er/c.GGUF", ".hidden.gguf", ".hidden/d.gguf", "notes.txt", "mmproj-F16.gguf"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    found = [path.relative_to(tmp_path).as_posix() for path in models_in(tmp_path)]
    assert found == ["a.gguf", "b.gguf", "deep/er/c.GGUF", "mmproj-F16.gguf"]


def test_of_a_split_model_a_folder_gives_the_first_part_that_is_there(tmp_path: Path) -> None:
    for name in ("m-00001-of-00002.gguf", "m-00002-of-00002.gguf", "n-00002-of-00003.gguf", "n-00003-of-00003.gguf"):
        (tmp_path / name).write_bytes(b"")
    assert [path.name for path in models_in(tmp_path)] == ["m-00001-of-00002.gguf", "n-00002-of-00003.gguf"]


@links
def test_links_that_lead_in_circles_and_into_nothing_end(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.gguf").write_bytes(b"")
    (tmp_path / "sub" / "up").symlink_to(tmp_path)
    (tmp_path / "again").symlink_to(tmp_path / "sub")
    (tmp_path / "gone.gguf").symlink_to(tmp_path / "nowhere")
    assert len(models_in(tmp_path)) == 1


def test_a_folder_that_is_not_there_or_is_a_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.gguf").write_bytes(b"")
    with pytest.raises(SpecdecError, match="is not there"):
        models_in(tmp_path / "nowhere")
    with pytest.raises(SpecdecError, match="is no folder") as caught:
        models_in(tmp_path / "a.gguf")
    assert str(tmp_path) in caught.value.fix


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="needs permissions that hold")
def test_a_folder_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0)
    with pytest.raises(SpecdecError, match="cannot be read"):
        models_in(closed)
    assert models_in(tmp_path) == []


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"HF_HOME": "~/models/hf"},
        {"XDG_CACHE_HOME": "/caches"},
        {"HUGGINGFACE_HUB_CACHE": "/old", "HF_HOME": "/home"},
        {"HF_HUB_CACHE": "$HOME/new", "HUGGINGFACE_HUB_CACHE": "/old"},
    ],
    ids=str,
)
def test_the_cache_is_where_the_library_has_it(variables: dict[str, str]) -> None:
    names = ("HF_HOME", "XDG_CACHE_HOME", "HUGGINGFACE_HUB_CACHE", "HF_HUB_CACHE")
    inherited = {name: value for name, value in os.environ.items() if name not in names}
    code = (
        "from specdec_cli.hub.cached import cache_folder\nimport sys\nprint(cache_folder())\n"
        "assert 'huggingface_hub' not in sys.modules\nfrom huggingface_hub import constants\nprint(constants.HF_HUB_CACHE)"
    )
    done = subprocess.run([sys.executable, "-c", code], env=inherited | variables, capture_output=True, text=True, check=True)
    ours, theirs = done.stdout.splitlines()
    assert Path(ours) == Path(theirs)
