"""What the comparison with llama-server makes of a build's own --help."""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

NEW = """
----- speculative params -----

-np,   --parallel N                     number of server slots (default: -1, -1 = auto)
--spec-draft-n-max N                    number of tokens to draft for speculative decoding (default: 3)
                                        (env: LLAMA_ARG_SPEC_DRAFT_N_MAX)
--spec-draft-p-min, --draft-p-min P     minimum speculative decoding probability (greedy) (default: 0.00)
--spec-draft-model, -md, --model-draft FNAME
                                        draft model for speculative decoding (default: unused)
--spec-type none,draft-simple,draft-mtp,ngram-simple,ngram-map-k
                                        comma-separated list of types of speculative decoding to use (default:
                                        none)
--draft, --draft-n, --draft-max N       the argument has been removed. use --spec-draft-n-max or
                                        --spec-ngram-mod-n-max
"""
OLD = """
-md,   --model-draft FNAME              draft model for speculative decoding (default: unused)
--draft-max, --draft, --draft-n N       number of tokens to draft for speculative decoding (default: 16)
--draft-p-min P                         minimum speculative decoding probability (greedy) (default: 0.8)
"""


@pytest.fixture
def script() -> Iterator[ModuleType]:
    path = Path(__file__).parents[1] / "scripts" / "compare_llama_server.py"
    spec = importlib.util.spec_from_file_location("compare_llama_server", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["compare_llama_server"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules["compare_llama_server"]


def flags(script: ModuleType, text: str, draft: Path | None = Path("d.gguf")) -> dict[str, list[str] | None]:
    args = argparse.Namespace(draft=draft, k=[3, 5], p_min=[0.0, 0.75], ngram=True, out=Path("out"))
    return {each.name: each.flags for each in script.contenders(args, script.read_help(text))}


def test_a_new_build_is_asked_in_its_own_words_and_its_default_once(script: ModuleType) -> None:
    found = flags(script, NEW)
    draft = ["-md", "d.gguf", "--spec-type", "draft-simple"]
    assert found["server plain"] == []
    assert found["server default"] == draft
    assert "server K 3 p-min 0" not in found
    assert found["server K 5 p-min 0.75"] == [*draft, "--spec-draft-n-max", "5", "--draft-p-min", "0.75"]
    assert found["server ngram-map-k"] == ["--spec-type", "ngram-map-k"]
    assert [name for name in found if "ngram" in name] == ["server ngram-simple", "server ngram-map-k"]


def test_an_old_build_too(script: ModuleType) -> None:
    found = flags(script, OLD)
    assert found["server default"] == ["-md", "d.gguf"]
    assert found["server K 3 p-min 0"] == ["-md", "d.gguf", "--draft-max", "3", "--draft-p-min", "0.0"]
    assert [name for name in found if "ngram" in name] == []


def test_without_a_draft_only_what_needs_none_runs(script: ModuleType) -> None:
    assert list(flags(script, NEW, None)) == ["specdec", "server plain", "server ngram-simple", "server ngram-map-k"]
