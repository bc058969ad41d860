"""specdec bench --server and specdec bench compare, as a person meets them."""

from __future__ import annotations

import csv
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from specdec_cli.bench import results
from specdec_cli.bench.results import ModelFile, load
from tests.bench.result_files import measured
from tests.bench.server_standin import Fault, ServerStandIn
from tests.cli.command import COMMAND, LIMIT_S, environment, specdec

PAGE = Path(__file__).parents[2] / "docs" / "json" / "compare.md"


@pytest.fixture
def standin() -> Iterator[ServerStandIn]:
    server = ServerStandIn()
    yield server
    server.close()


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    a, b = tmp_path / "a.json", tmp_path / "b.json"
    results.write(a, measured("theirs", {"server": 10.0}, levels=(1, 2)))
    results.write(b, measured())
    return a, b


def test_two_files_side_by_side(files: tuple[Path, Path]) -> None:
    done = specdec("bench", "compare", *files)
    assert (done.code, done.err) == (0, "")
    assert "(15.0-15.3)  1.50 (1.50-1.50)" in done.text
    assert done.text.splitlines()[-1] == "ours, model is 1.50x (1.50 to 1.50) as fast as theirs over 2 tasks."


def test_unequal_work_is_refused_and_said_first_where_it_is_forced(files: tuple[Path, Path]) -> None:
    other = replace(measured("other"), models={"target": ModelFile("/models/u.gguf", 1, "c" * 64)})
    results.write(files[1], other)
    done = specdec("bench", "compare", *files)
    assert (done.code, done.out) == (2, b"")
    assert "The targets differ: t.gguf (aaaaaaaaaaaa) in a.json, u.gguf (cccccccccccc) in b.json." in done.err
    assert "--force" in done.err
    forced = specdec("bench", "compare", *files, "--force")
    assert forced.code == 0
    assert forced.text.startswith("The work is not the same")
    assert forced.text.splitlines()[-1].startswith("Of unequal work: ")
    page = specdec("bench", "compare", *files, "--force", "--format", "markdown").text
    assert page.startswith("- **Not the same work:** The targets differ")


def test_json_has_no_key_that_its_page_does_not_explain(files: tuple[Path, Path]) -> None:
    document = specdec("bench", "compare", *files, "--json").document
    assert document["schema"] == "specdec.compare/1"
    page = PAGE.read_text(encoding="utf-8")
    assert [key for key in _keys(document) if f"`{key}`" not in page] == []
    assert document["columns"][2]["ratio"]["value"] == pytest.approx(1.5)
    assert [load["concurrency"] for load in document["loads"]] == [1, 2]
    assert document["loads"][0]["total_tps"]["median"] > 0


def _keys(document: Any) -> set[str]:
    if isinstance(document, dict):
        return set(document) | {key for value in document.values() for key in _keys(value)}
    return {key for value in document for key in _keys(value)} if isinstance(document, list) else set()


def test_other_forms(files: tuple[Path, Path]) -> None:
    page = specdec("bench", "compare", *files, "--format", "markdown").text
    assert "(15.0-15.3) | 1.50 (1.50-1.50) | 0.20 | 0.75 | same |" in page
    rows = list(csv.DictReader(StringIO(specdec("bench", "compare", *files, "--format", "csv").text)))
    assert [row["run"] for row in rows] == ["theirs", "ours, plain", "ours, model"] * 2
    assert float(rows[2]["ratio"]) == pytest.approx(1.5)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "There were none."),
        (["a.json"], "There was one."),
        (["a.json", "./a.json"], "named twice"),
        (["a.json", "none.json"], "none.json cannot be read"),
        (["a.json", "text.json"], "is no result file"),
        (["a.json", "."], "It is no file at all."),
        (["a.json", "--ctx-size", "5"], "specdec bench compare does not take --ctx-size"),
    ],
)
def test_what_cannot_be_compared(
    files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, words: list[str], said: str
) -> None:
    monkeypatch.chdir(files[0].parent)
    Path("text.json").write_text("{}", encoding="utf-8")
    done = specdec("bench", "compare", *words)
    assert (done.code, done.out) == (2, b"")
    assert said in done.err


def test_a_server_is_measured_into_a_file(standin: ServerStandIn, tmp_path: Path) -> None:
    file = tmp_path / "s.json"
    words = [
        "bench",
        "--server",
        standin.url,
        "--label",
        "theirs",
        "--prompts",
        _prompts(tmp_path),
        "-n",
        "6",
        "--repeats",
        "2",
    ]
    done = specdec(*words, "-o", file)
    assert done.code == 0, done.err
    assert done.text.splitlines()[-1] == "theirs writes 50.0 tokens/s."
    found = load(file)
    assert (found.label, found.build, len(found.runs)) == ("theirs", "llama-server b1-abc", 2)
    assert specdec(*words, "-o", file).code == 2  # it is there already
    again = specdec(*words[:-1], "3", "-o", file, "--resume", "--json")
    assert again.code == 0, again.err
    assert len(again.document["runs"]) == 3
    assert load(file).runs[:2] == found.runs


def test_every_key_of_a_servers_document_stands_in_its_page(standin: ServerStandIn, tmp_path: Path) -> None:
    words = ["--prompts", _prompts(tmp_path), "-n", "6", "--repeats", "1", "--json"]
    document = specdec("bench", "--server", standin.url, *words).document
    page = (PAGE.parent / "bench.md").read_text(encoding="utf-8")
    del document["settings"]  # these keys are names of settings
    document["models"] = document["models"].pop("target")
    assert [key for key in _keys(document) if f"`{key}`" not in page] == []


def test_a_server_under_load(standin: ServerStandIn, tmp_path: Path) -> None:
    standin.pass_s = 0.02
    words = ["--prompts", _prompts(tmp_path, 4), "-n", "6", "--repeats", "1", "--concurrency", "1,4"]
    done = specdec("bench", "--server", standin.url, *words)
    assert done.code == 0, done.err
    assert "tokens/s in all" in done.text
    assert standin.most_at_once == 4
    assert "llama-server writes more with up to 4 requests at a time" in done.text


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--concurrency", "1,2"], "2 requests at a time need as many tasks."),
        (["-n", "900"], "Start the server with a longer context (llama-server -c)"),
        (["--draft-max", "3"], "--draft-max has no meaning with --server."),
        (["-o", "none/r.json"], "There is no folder none."),
    ],
)
def test_what_cannot_be_measured_is_said_at_once(standin: ServerStandIn, tmp_path: Path, flags: list[str], said: str) -> None:
    done = specdec("bench", "--server", standin.url, "--prompts", _prompts(tmp_path), *flags)
    assert (done.code, done.out) == (2, b"")
    assert said in done.err
    assert standin.bodies("/completion") == []


def test_a_key_stays_secret(tmp_path: Path) -> None:
    server = ServerStandIn(key="sk-secret", llama=False)
    try:
        words = ["bench", "--server", server.url, "--prompts", _prompts(tmp_path), "-n", "4", "--repeats", "1", "-v"]
        refused = specdec(*words, env={"OPENAI_API_KEY": "sk-wrong"})
        assert refused.code == 2
        assert "did not accept the API key" in refused.err
        done = specdec(*words, "-o", tmp_path / "s.json", "--api-key", "sk-secret", env={"OPENAI_API_KEY": "sk-wrong"})
        assert done.code == 0, done.err
        said = (done.text, done.err, refused.err, (tmp_path / "s.json").read_text(encoding="utf-8"))
        assert not [text for text in said if "sk-" in text]
    finally:
        server.close()


def test_a_server_that_fails_ends_it_with_what_was_measured_kept(standin: ServerStandIn, tmp_path: Path) -> None:
    standin.faults.append(Fault("status", "/completion", times=0))
    file = tmp_path / "s.json"
    words = ["bench", "--server", standin.url, "--prompts", _prompts(tmp_path), "-n", "6", "-o", str(file)]
    assert specdec(*words, "--repeats", "1").code == 0
    standin.faults[0].times = 10**6
    done = specdec(*words, "--repeats", "2", "--resume")
    assert done.code == 2
    assert "HTTP 500" in done.err
    assert len(load(file).runs) == 1


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signal for one process")
def test_ctrl_c_keeps_what_was_measured(standin: ServerStandIn, tmp_path: Path) -> None:
    file = tmp_path / "s.json"
    words = ["bench", "--server", standin.url, "--prompts", _prompts(tmp_path), "-n", "6", "--repeats", "1000", "-o", str(file)]
    standin.pass_s = 0.02
    process = subprocess.Popen([*COMMAND, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment())
    until = time.monotonic() + LIMIT_S
    while len(standin.bodies("/completion")) < 4 and time.monotonic() < until:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 130, err
    assert b"Traceback" not in err
    assert b"llama-server writes" in out
    assert load(file).runs


def _prompts(folder: Path, n: int = 1) -> str:
    file = folder / "prompts.jsonl"
    file.write_text("".join(json.dumps({"prompt": f"hello {i}"}) + "\n" for i in range(n)), encoding="utf-8")
    return str(file)
