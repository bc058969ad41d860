"""What is kept of the settings, and the lines to copy, mean the same another time and from another folder."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from specdec_cli.bench.tuned import Standing
from specdec_cli.cli.keeping import kept, lines
from specdec_cli.settings.resolve import Raw, resolve

GOVERNED = Standing("d", "d.gguf,ngram", 16, None, draft_length=3.6)
FIXED = Standing("d, fixed 5", "d.gguf", None, 5)
PLAIN = Standing("plain", "none", None, None)


def test_what_was_given_is_kept_and_what_belongs_to_one_call_is_not() -> None:
    given: dict[str, Raw] = {"model": "hf:a/b:Q4_0", "threads": "3", "mmap": False, "predict": "64", "seed": "7", "temp": "0.5"}
    settings = resolve(given | {"lora": ["x", "y"]}, {"SPECDEC_CTX_SIZE": "512"}, command="tune")
    found = kept(settings, GOVERNED)
    assert found.pop("lora") == ["x", "y"]
    assert found == {
        "model": "hf:a/b:Q4_0", "draft": "d.gguf,ngram", "draft-max": 16, "temp": "0.5", "ctx-size": 512, "threads": 3,
        "mmap": "off",
    }  # fmt: skip


@pytest.mark.parametrize(("best", "draft"), [(FIXED, {"draft": "d.gguf", "draft-fixed": 5}), (PLAIN, {"draft": "none"})])
def test_the_length_is_kept_as_its_own_flag(best: Standing, draft: dict[str, object]) -> None:
    assert kept(resolve({"model": "demo"}, {}, command="tune"), best) == {"model": "demo", **draft}


def test_a_file_is_found_from_another_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("t.gguf", "d.gguf"):
        (tmp_path / name).write_bytes(b"")
    found = kept(resolve({"model": "t.gguf"}, {}, command="tune"), GOVERNED)
    assert found["model"] == str(tmp_path / "t.gguf")
    assert found["draft"] == f"{tmp_path / 'd.gguf'},ngram"


@pytest.mark.model
def test_lines_carry_the_settings_of_context_and_devices(smollm2: Path) -> None:
    given: dict[str, Raw] = {"model": "demo", "gpu_layers": "0", "threads": "3", "temp": "0.5", "threads_draft": "2"}
    settings = resolve(given, {}, command="tune")
    own, llama_server, vllm = (shlex.split(each.line) for each in lines(settings, GOVERNED, smollm2, smollm2, 512, 3))
    assert own[:7] == ["specdec", "run", "demo", "--draft", "d.gguf,ngram", "--draft-max", "16"]
    assert {"--gpu-layers", "--threads", "--temp", "--threads-draft"} <= set(own)
    assert llama_server[5:7] == ["-t", "3"]
    assert {"--gpu-layers", "--threads-draft"} <= set(llama_server)
    assert not {"--threads", "--temp"} & set(llama_server)
    assert llama_server[llama_server.index("--spec-draft-n-max") + 1] == "4"  # the average
    assert vllm[:2] == ["vllm", "serve"]
    alone = shlex.split(lines(settings, PLAIN, smollm2, None, 512, 3)[1].line)
    assert "--threads-draft" not in alone
