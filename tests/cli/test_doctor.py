"""specdec doctor: facts to paste, warnings with what to do, and no secret among them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from specdec_cli.cli.warning import rebuild, warnings_of
from tests.cli.command import specdec

PAGE = Path(__file__).parents[2] / "docs" / "json" / "doctor.md"
FACTS: dict[str, Any] = {
    "versions": {"llama-cpp-python": "1.2.3"},
    "llama_cpp": {"error": None, "backends": ["CPU"], "features": ["AVX2", "OPENMP"], "devices": [{"gpu": False}]},
    "processor": {"unused_features": [], "threads": 4, "threads_batch": 4, "usable_cores": 4, "load": 0.1},
    "gpus": [],
    "memory": {"total": 8_000_000_000, "available": 4_000_000_000, "limit_leaves": None},
    "caches": [{"what": "hub", "folder": "~/hub", "bytes": 0, "disk_free": 10**12}],
    "settings": {"environment": {}, "notices": []},
}
GPU = {"maker": "NVIDIA", "name": "A GPU", "backend": "CUDA", "option": "-DGGML_CUDA=on"}


def warned(**changes: Any) -> list[tuple[str, str]]:
    facts = {
        key: {**value, **changes[key]} if key in changes and isinstance(value, dict) else changes.get(key, value)
        for key, value in FACTS.items()
    }
    return warnings_of(facts)


def test_a_machine_in_order_is_not_warned_of() -> None:
    assert warned() == []


@pytest.mark.parametrize(
    ("changes", "what", "fix"),
    [
        ({"processor": {"unused_features": ["AVX512"]}}, "AVX512", rebuild("1.2.3", "-DGGML_NATIVE=on")),
        ({"gpus": [GPU]}, "no code for it", rebuild("1.2.3", "-DGGML_CUDA=on")),
        ({"gpus": [GPU], "llama_cpp": {"backends": ["CUDA", "CPU"]}}, "finds no device", "Check the driver"),
        ({"llama_cpp": {"error": "OSError: x"}}, "cannot be loaded. OSError: x", "llama-cpp-python==1.2.3"),
        ({"processor": {"threads": 8}}, "only 4 cores", "-t 4"),
        ({"processor": {"threads_batch": 9}}, "9 threads", "SPECDEC_THREADS=4"),
        ({"processor": {"load": 2.5}}, "load 2.5 on 4 cores", "OMP_WAIT_POLICY=PASSIVE"),
        ({"memory": {"limit_leaves": 10**9}}, "leaves 1.00 GB of memory", "specdec check"),
        ({"caches": [{"what": "hub", "folder": "~/hub", "bytes": 0, "disk_free": 10**9}]}, "Only 1.00 GB", "HF_HOME"),
        ({"settings": {"notices": ["SPECDEC_X in the environment sets nothing."]}}, "SPECDEC_X", "Correct the environment"),
    ],
)
def test_each_fault_has_one_warning_and_what_to_do(changes: dict[str, Any], what: str, fix: str) -> None:
    ((said, todo),) = warned(**changes)
    assert what in said
    assert fix in todo


@pytest.mark.parametrize(
    "changes",
    [
        {"processor": {"load": 2.5}, "settings": {"environment": {"OMP_WAIT_POLICY": "passive"}}},
        {"processor": {"load": 2.5}, "llama_cpp": {"features": ["AVX2"]}},
        {"processor": {"load": 2.5, "threads": 1}},
        {"gpus": [GPU], "llama_cpp": {"devices": [{"gpu": True}]}},
        {"memory": {"limit_leaves": 5_000_000_000}},
        {"caches": [{"what": "hub", "folder": "~/hub", "bytes": 0, "disk_free": None}]},
    ],
)
def test_what_does_no_harm_is_not_warned_of(changes: dict[str, Any]) -> None:
    assert warned(**changes) == []


def test_the_json_document_is_whole_described_and_keeps_secrets(tmp_path: Path) -> None:
    env = {
        "HOME": str(tmp_path),
        "USERPROFILE": str(tmp_path),
        "HF_HOME": str(tmp_path / "hf"),
        "HF_TOKEN": "hf_secretsecret",
        "HF_ENDPOINT": "https://me:password@hub.example",
        "HTTPS_PROXY": "http://me:password@proxy.example",
        "SPECDEC_GRAMMAR_FILE": str(tmp_path / "g.gbnf"),
        "SPECDEC_SYSTEM_PROMPT": "use hf_secretsecret",
        "SPECDEC_CACHE": str(tmp_path / "cache"),
    }
    done = specdec("doctor", "--json", env=env)
    assert done.code == 0
    text = json.dumps(done.document)
    assert str(tmp_path) not in text
    assert "secretsecret" not in text
    assert "password" not in text
    document = done.document
    assert document["schema"] == "specdec.doctor/1"
    assert document["hub"] == {"endpoint": "https://***@hub.example", "offline": False, "token": True}
    assert document["settings"]["environment"]["HTTPS_PROXY"] == "set"
    assert Path(document["settings"]["environment"]["SPECDEC_GRAMMAR_FILE"]) == Path("~") / "g.gbnf"
    assert document["llama_cpp"]["devices"]
    assert document["llama_cpp"]["features"]
    page = PAGE.read_text(encoding="utf-8")
    rows = [document, *document["caches"], *document["gpus"], *document["warnings"], document["llama_cpp"]["devices"][0]]
    rows += [document[key] for key in ("llama_cpp", "processor", "memory", "hub", "settings", "terminal", "system")]
    assert not [key for row in rows for key in row if f"`{key}`" not in page]


def test_the_text_is_plain_and_its_first_line_names_the_version() -> None:
    done = specdec("doctor")
    assert done.code == 0
    assert done.text.startswith("specdec ")
    assert "llama-cpp-python" in done.text
    assert "\x1b" not in done.text


def test_a_setting_in_the_environment_that_is_wrong_is_told_and_stops_nothing() -> None:
    done = specdec("doctor", env={"SPECDEC_THREADS": "many", "SPECDEC_NOTHING": "1"})
    assert done.code == 0
    assert "warning: SPECDEC_THREADS=many is not an integer." in done.text


def test_a_llama_cpp_that_does_not_load_is_told_and_ends_with_2(tmp_path: Path) -> None:
    (tmp_path / "llama_cpp").mkdir()
    (tmp_path / "llama_cpp" / "__init__.py").write_text("raise OSError('libgomp.so.1: cannot open')\n", encoding="utf-8")
    done = specdec("doctor", env={"PYTHONPATH": str(tmp_path)})
    assert done.code == 2
    assert "cannot be loaded: OSError: libgomp.so.1: cannot open" in done.text
    assert "packages " in done.text
