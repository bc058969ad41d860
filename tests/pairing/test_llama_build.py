"""The names that one build of llama.cpp knows: they stand in the library of that build."""

from __future__ import annotations

from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import pytest

from specdec_cli.pairing.llama_build import ARCHITECTURES, HYBRID, RECURRENT, VERSION


def test_architectures_that_cannot_go_back_are_among_those_known() -> None:
    assert RECURRENT | HYBRID < ARCHITECTURES
    assert not RECURRENT & HYBRID


@pytest.mark.skipif(version("llama-cpp-python") != VERSION, reason="another build is installed")
def test_every_name_stands_in_the_installed_library() -> None:
    spec = find_spec("llama_cpp")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    libraries = (Path(spec.submodule_search_locations[0]) / "lib").glob("*llama.*")
    code = next(path for path in libraries if path.suffix in (".so", ".dylib", ".dll")).read_bytes()
    # The end of a longer text may serve as a shorter one, so that only the zero byte behind it is certain.
    assert [name for name in sorted(ARCHITECTURES) if name.encode() + b"\0" not in code] == []
