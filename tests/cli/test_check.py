"""The command check, from end to end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import COMMAND, environment, specdec
from tests.gguf_files import write_gguf
from tests.hub.standin import Long, StandIn
from tests.pairing.written import BPE, SPM

PAGES = Path(__file__).parents[2] / "docs" / "json"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("checked")
    paths = {
        "spm": SPM.write(folder / "spm.gguf", weights=True),
        "padded": SPM.padded(128).write(folder / "padded.gguf", weights=True),
        "renamed": SPM.changed(1, "<bos>").write(folder / "renamed.gguf", weights=True),
        "partial": SPM.grown(("▁more", 1)).write(folder / "partial.gguf", weights=True),
        "swapped": SPM.swapped(270, 275).write(folder / "swapped.gguf", weights=True),
        "bpe": BPE.write(folder / "bpe.gguf", weights=True),
        "words": SPM.write(folder / "words.gguf"),
        "projector": write_gguf(folder / "mmproj.gguf", {"general.type": "mmproj"}),
    }
    return {name: str(path) for name, path in paths.items()}


@pytest.mark.parametrize(
    ("draft", "code", "verdict"),
    [
        ("padded", 0, "notes"),  # as large as the target
        ("renamed", 0, "notes"),
        ("partial", 0, "partial"),
        ("swapped", 1, "incompatible"),
        ("bpe", 1, "incompatible"),
        ("words", 1, "notes"),  # the tokens fit, and there is nothing to run
        ("projector", 1, "incompatible"),
    ],
)
def test_exit_code_and_verdict(files: dict[str, str], draft: str, code: int, verdict: str) -> None:
    done = specdec("check", files["spm"], files[draft], "--json")
    assert (done.code, done.document["verdict"]) == (code, verdict)
    assert done.err == ""
    assert (done.document["memory"] is None) == (draft in ("words", "projector"))


def test_the_report_goes_to_standard_output_without_escape_codes(files: dict[str, str]) -> None:
    done = specdec("check", files["spm"], files["swapped"])
    assert done.code == 1
    assert done.err == ""
    assert "\x1b" not in done.text
    assert done.text.endswith("\n")
    assert "incompatible" in done.text
    assert "id 270: ' word11' in the target, ' word16' in the draft" in done.text
    assert f"specdec run {files['spm']} --draft {files['swapped']} --force" in done.text


@pytest.mark.parametrize("choice", [(), ("--draft", "ngram"), ("--draft", "none"), ("--draft", "auto")])
def test_a_target_alone(files: dict[str, str], choice: tuple[str, ...]) -> None:
    done = specdec("check", files["spm"], *choice, "--json")
    assert done.code == 0
    assert done.document["draft"] is None
    assert [each["drafter"] for each in done.document["drafters"]] == ["model", "ngram"]


def test_a_vocabulary_alone_cannot_be_drafted_for(files: dict[str, str]) -> None:
    done = specdec("check", files["words"])
    assert done.code == 1
    assert "vocabulary only" in done.text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "no model"),
        (("missing.gguf",), "missing.gguf"),
        (("demo", "missing.gguf"), "missing.gguf"),
        (("demo", "demo", "more"), "more"),
        (("demo", "-c", "-3"), "--ctx-size"),
    ],
)
def test_what_cannot_be_read_or_meant_ends_with_2(arguments: tuple[str, ...], words: str) -> None:
    done = specdec("check", *arguments)
    assert (done.code, done.out) == (2, b"")
    assert words in done.err


def test_what_does_not_fit_in_memory_ends_with_1() -> None:
    done = specdec("check", "demo", "-c", "16000000", "--json")
    assert done.code == 1
    assert done.document["verdict"] == "compatible"
    assert done.document["memory"]["fits"] is False


def test_a_recurrent_target_is_decoded_plainly(recurrent: Path) -> None:
    done = specdec("check", recurrent, "--draft", "ngram", "--json")
    assert done.code == 1
    assert done.document["drafters"] == []
    assert done.document["findings"][0]["rule"] == "target cache"


def test_every_key_of_a_document_stands_in_its_page(files: dict[str, str]) -> None:
    pages = "".join((PAGES / name).read_text(encoding="utf-8") for name in ("check.md", "memory.md"))
    documents = [specdec("check", *pair, "--json").document for pair in ((files["spm"], files["swapped"]), (files["spm"],))]
    assert {document["schema"] for document in documents} == {"specdec.check/1"}
    assert [key for document in documents for key in sorted(_keys(document)) if f"`{key}`" not in pages] == []
    rules = {found["rule"] for document in documents for found in document["findings"]}
    assert all(f"`{rule}`" in pages for rule in rules)


def _keys(value: Any) -> set[str]:
    if isinstance(value, dict):
        return set(value).union(*map(_keys, value.values()))
    return set().union(*map(_keys, value)) if isinstance(value, list) else set()


def test_standard_output_holds_one_document_and_nothing_else(files: dict[str, str]) -> None:
    done = specdec("check", files["spm"], files["padded"], "--json")
    assert done.text.count("\n") == 1
    json.loads(done.text)


def test_no_model_is_loaded_and_tokens_are_judged_without_llama_cpp(files: dict[str, str]) -> None:
    """Where there is no memory to plan, the library is not even imported."""
    code = (
        "import sys; from specdec_cli.cli.app import main;"
        f"main(['check', {files['words']!r}, {files['words']!r}]);"
        "sys.exit('llama_cpp' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, env=environment(), check=False)
    assert done.returncode == 0, done.stderr


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from specdec_cli.cli.app import main; main(['check', '--help']);"
        "sys.exit(bool({'numpy', 'rich', 'llama_cpp', 'huggingface_hub'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, env=environment(), check=False).returncode == 0


@pytest.mark.skipif(os.name == "nt", reason="a closed pipe is another matter there")
def test_a_reader_that_leaves_is_no_error() -> None:
    with subprocess.Popen(
        [*COMMAND, "check", "demo"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


def test_a_pair_on_the_hub_is_judged_from_its_headers(smollm2: Path, tmp_path: Path) -> None:
    with smollm2.open("rb") as file:
        head = file.read(4 << 20)  # more than its header takes
    hub = StandIn()
    try:
        hub.add("a/pair", **{"draft.gguf": Long(head, smollm2.stat().st_size)})
        env = {"HF_ENDPOINT": hub.endpoint, "HF_HOME": str(tmp_path / "home"), "HF_HUB_OFFLINE": "0", "NO_PROXY": "127.0.0.1"}
        done = specdec("check", "demo", "hf:a/pair/draft.gguf", "--json", env=env)
    finally:
        hub.close()
    assert done.code == 0, done.err
    assert done.document["draft"]["label"] == "hf:a/pair/draft.gguf"
    assert done.document["vocabularies"]["draftable"] == done.document["vocabularies"]["target"]
    assert done.document["advice"][-1]["command"].endswith("--draft hf:a/pair/draft.gguf")
    assert not list((tmp_path / "home").rglob("*.gguf"))


def test_advice_repeats_the_flags_that_were_judged(files: dict[str, str]) -> None:
    done = specdec("check", files["spm"], files["padded"], "-c", "512", "-ctk", "q8_0", "--json", "--offline")
    commands = [each["command"] for each in done.document["advice"] if each["command"] and " run " in each["command"]]
    assert commands
    assert all(command.endswith("--offline --ctx-size 512 --cache-type-k q8_0") for command in commands)


def test_what_does_not_fit_is_told_what_to_change_and_not_to_be_used(files: dict[str, str]) -> None:
    done = specdec("check", "demo", "demo", "-c", "10000000")
    assert done.code == 1
    assert "Use the pair" not in done.text
    assert "Use -c" in done.text


def test_a_word_that_could_be_a_drafter_is_pasted_as_a_path(files: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "ngram").write_bytes(Path(files["spm"]).read_bytes())
    process = subprocess.run(
        [*COMMAND, "check", "./ngram", "--json"], cwd=tmp_path, capture_output=True, env=environment(), timeout=60, check=False
    )
    commands = [each["command"] for each in json.loads(process.stdout)["advice"]]
    assert all("./ngram" in command.split() for command in commands)
