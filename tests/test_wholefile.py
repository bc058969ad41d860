"""A file is written whole or not at all."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from specdec_cli.wholefile import write_whole

POSIX = pytest.mark.skipif(sys.platform == "win32", reason="permissions of another kind")


def test_a_file_is_made_and_written_over(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_whole(path, b"one")
    write_whole(path, b"two")
    assert path.read_bytes() == b"two"
    assert list(path.parent.iterdir()) == [path]


def test_what_cannot_be_finished_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b"old")

    def full(_handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_whole(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_in_its_place_stays(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    with pytest.raises(OSError):
        write_whole(tmp_path / "a", b"new")
    assert [each.name for each in tmp_path.iterdir()] == ["a"]


@POSIX
@pytest.mark.parametrize(("private", "mode"), [(True, 0o600), (False, 0o640)])
def test_permissions_are_those_of_any_new_file_or_the_owners_alone(tmp_path: Path, private: bool, mode: int) -> None:
    before = os.umask(0o027)
    try:
        write_whole(tmp_path / "a", b"", private=private)
    finally:
        os.umask(before)
    assert (tmp_path / "a").stat().st_mode & 0o777 == mode


def test_a_name_of_the_greatest_length_can_be_written(tmp_path: Path) -> None:
    path = tmp_path / ("a" * 250)
    write_whole(path, b"x")
    assert path.read_bytes() == b"x"
