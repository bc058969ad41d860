"""The command verify, from end to end, with and without faults planted into the decoder."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from specdec_cli.cli import verifying
from specdec_cli.cli.app import main
from specdec_cli.decoding.contracts import PassAborted
from specdec_cli.llama.context import Context
from specdec_cli.proof.report import Check, Fault, Report, State, Statistic
from tests.cli.command import Done, environment, specdec
from tests.proof import subjects
from tests.proof.subjects import Plant

PAGE = Path(__file__).parents[2] / "docs" / "json" / "verify.md"
QUICK = ("-t", "1", "-c", "1024", "-s", "3")
PROMPT = "Count: one, two, three, four. Again: one, two, three, four. Again: one, two,"


@pytest.fixture(scope="module")
def verified(smollm2_q4_0: Path) -> Done:
    """One short run of the real thing."""
    return specdec("verify", "demo", "--draft", smollm2_q4_0, "-p", PROMPT, "--seconds", "6", "--json", *QUICK)


@pytest.mark.model
def test_a_document_holds_the_checks_and_the_verdict(verified: Done) -> None:
    assert verified.code == 0, verified.err
    assert verified.text.count("\n") == 1
    document = verified.document
    assert document["schema"] == "specdec.verify/1"
    assert [check["name"] for check in document["checks"]] == ["greedy", "cache", "sampling"]
    assert [check for check in document["checks"] if check["state"] == "fault"] == []
    assert document["verdict"]["sound"] == all(check["state"] == "sound" for check in document["checks"])
    assert document["complete"] is True
    assert document["seed"] == 3


@pytest.mark.model
def test_every_key_of_a_document_stands_in_its_page(verified: Done) -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert [key for key in sorted(_keys(verified.document)) if f"`{key}`" not in page] == []


def _keys(value: Any) -> set[str]:
    if isinstance(value, dict):
        return set(value).union(*(_keys(each) for each in value.values()))
    return set().union(*(_keys(each) for each in value)) if isinstance(value, list) else set()


def one_less(patch: pytest.MonkeyPatch) -> None:
    """The target's cache goes back one token too far, and says that it did not; the next token takes its place."""
    right = Context.keep

    def faulty(self: Context, n: int) -> None:
        right(self, n - 1 if self.model.role == "target" and self.options.n_ctx == 1024 and 1 < n < self.n_cached else n)

    patch.setattr(Context, "keep", faulty)


@pytest.mark.model
@pytest.mark.parametrize("plant", [subjects.accept_all, subjects.residual_not_subtracted, one_less])
def test_a_planted_fault_ends_with_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], smollm2: Path, smollm2_q4_0: Path, plant: Plant
) -> None:
    plant(monkeypatch)
    assert main(["verify", str(smollm2), "--draft", str(smollm2_q4_0), "--seconds", "5", *QUICK]) == 1
    assert "FAULT: with model the output is not the target's own" in capsys.readouterr().out


@pytest.mark.model
def test_exact_text_is_compared_byte_for_byte(smollm2: Path) -> None:
    done = specdec("verify", smollm2, "--draft", "ngram", "--exact", "--draft-max", "2", "-p", PROMPT, "--seconds", "4", *QUICK)
    assert done.code == 0, done.err
    assert "under match" in done.text


@pytest.mark.model
def test_a_target_that_cannot_go_back_has_nothing_to_verify(recurrent: Path) -> None:
    done = specdec("verify", recurrent, "--draft", "ngram", "-c", "256")
    assert (done.code, done.out) == (2, b"")
    assert "cannot be drafted for" in done.err


@pytest.mark.model
def test_without_a_drafter_there_is_nothing_to_verify() -> None:
    done = specdec("verify", "demo", "--draft", "none", "-c", "256")
    assert (done.code, done.out) == (2, b"")
    assert "Use --draft ngram" in done.err


@pytest.mark.model
def test_a_context_that_is_too_small_is_told() -> None:
    done = specdec("verify", "demo", "--draft", "ngram", "-c", "64")
    assert (done.code, done.out) == (2, b"")
    assert "The prompts do not fit" in done.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "There is no model"),
        (("demo", "-f", "none.txt"), "none.txt"),
        (("demo", "--seconds", "0"), "--seconds 0 is out of range"),
        (("demo", "--grammar", "x"), "does not take --grammar"),
        (("demo", "--verify", "match"), "does not take --verify"),
    ],
)
def test_what_cannot_be_meant_ends_with_2(arguments: tuple[str, ...], words: str) -> None:
    done = specdec("verify", *arguments)
    assert (done.code, done.out) == (2, b"")
    assert words in done.err


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from specdec_cli.cli.app import main; main(['verify', '--help']);"
        "sys.exit(bool({'numpy', 'rich', 'llama_cpp', 'huggingface_hub'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, env=environment(), check=False)
    assert done.returncode == 0
    assert "--thorough" in done.stdout.decode("utf-8")


TEST = Statistic("tokens are draws from p", "reject", 200, 0.4, 1e-20, 0.2, alarm=True)
CHECK = Check("sampling", State.FAULT, "It does not hold.", (Fault("a token may not be", "story", 3),), tests=(TEST,))
REPORT = Report("2030-01-01T00:00:00+00:00", "build", {"target": "t.gguf"}, "model", (0.8, 1.0), 3, 60, 61, 1e-4, complete=True)


def _stub(monkeypatch: pytest.MonkeyPatch, *found: Report, end: BaseException | None = None) -> None:
    def reports(*_arguments: object) -> Iterator[Report]:
        yield from found
        if end is not None:
            raise end

    monkeypatch.setattr(verifying, "_reports", reports)


def test_a_fault_is_shown_with_where_it_was_seen(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    faulty = Report(**{name: getattr(REPORT, name) for name in REPORT.__slots__ if name != "checks"}, checks=(CHECK,))
    _stub(monkeypatch, faulty)
    assert main(["verify", "demo"]) == 1
    text = capsys.readouterr().out
    assert "a token may not be, 3 times, first at story" in text
    assert "40.0 %" in text
    assert text.endswith("FAULT: with model the output is not the target's own (sampling).\n")
    assert main(["verify", "demo", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["verdict"]["sound"] is False


@pytest.mark.parametrize("end", [PassAborted(), KeyboardInterrupt()])
def test_an_interruption_ends_with_130_and_shows_what_there_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], end: BaseException
) -> None:
    before = Report(**{name: getattr(REPORT, name) for name in REPORT.__slots__ if name != "complete"}, complete=False)
    _stub(monkeypatch, before, end=end)
    assert main(["verify", "demo"]) == 130
    assert "Interrupted" in capsys.readouterr().out
    _stub(monkeypatch, end=end)
    assert main(["verify", "demo"]) == 130
    assert capsys.readouterr().out == ""
