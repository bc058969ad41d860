"""specdec run from end to end: what it writes, what it reads, and that drafting changes no text."""

from __future__ import annotations

from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from specdec_cli.settings.table import RUN
from tests.cli.command import Done, run
from tests.cli.models import patched, words

pytestmark = pytest.mark.model

STORY = ("Once upon a time there was a lighthouse", "--raw")  # as it is: the process of a chat template costs time
HI = ("Hi", "--raw")
N = "20"
SAMPLED = ("--temp", "0.8", "-s", "11")
EXACT = ("--exact", "-c", "64")  # one context size, so that widths are probed once; a short one, so that it is quick
FIXED = ("--draft-fixed", "4")  # the governor would soon see that these models are no drafts for each other
EMOJI = "\U0001f600\u6f22\u5b57e\u0301\u00e9\U0001f469\u200d\U0001f469\u200d\U0001f467"


def ok(done: Done) -> Done:
    assert done.code == 0, done.err
    return done


def greedy(*arguments: str | Path) -> Done:
    return ok(run("demo", *arguments, "--temp", "0"))


def document(*arguments: str | Path) -> dict[str, Any]:
    done = ok(run(*arguments, "--json"))
    assert done.out.count(b"\n") == 1
    return done.document


@pytest.fixture(scope="module")
def story() -> Done:
    """A plain greedy run."""
    return greedy(*STORY, "-n", N)


@pytest.fixture(scope="module")
def drafted(smollm2_q4_0: Path) -> dict[str, Any]:
    """The same with a draft model, as a document."""
    return document("demo", *STORY, "-n", N, "--temp", "0", *FIXED, "--draft", smollm2_q4_0)


def test_the_text_alone_goes_to_standard_output_and_ends_in_one_newline(story: Done) -> None:
    assert story.text.endswith("\n")
    assert not story.text.endswith("\n\n")
    assert 50 < len(story.text) < 200
    assert greedy(*STORY, "-n", N, "-q") == Done(0, story.out, "")


def test_the_summary_and_the_notices_go_to_standard_error(story: Done) -> None:
    for part in ("note: No draft model here", "generation t/s", "finish", "drafter", "seed"):
        assert part in story.err
    assert "\x1b" not in story.err
    assert "\r" not in story.err


def test_a_document_tells_all_of_a_run(story: Done, drafted: dict[str, Any], smollm2: Path, smollm2_q4_0: Path) -> None:
    assert drafted["text"] + "\n" == story.text
    assert drafted["drafter"] == "model"
    assert len(drafted["tokens"]) == drafted["statistics"]["emitted"] == int(N)
    assert drafted["statistics"]["finish"] == "length"
    assert drafted["seed"] == int(drafted["settings"]["seed"]["value"])
    assert drafted["models"]["target"]["file"] == str(smollm2)
    assert drafted["models"]["draft"]["file"] == str(smollm2_q4_0)
    assert [notice for notice in drafted["notices"] if "93 % of it" not in notice] == []
    statistics, rounds = drafted["statistics"], drafted["rounds"]
    assert [token for done in rounds for token in done["emitted"]] == drafted["tokens"]
    assert sum(len(done["drafted"]) for done in rounds) == statistics["drafted"] > 0
    assert sum(done["accepted"] for done in rounds) == statistics["accepted"] > 0
    assert statistics["acceptance_rate"] == statistics["accepted"] / statistics["drafted"]


def test_a_document_has_every_setting_with_its_source(smollm2_q4_0: Path) -> None:
    found = ok(
        run("demo", *HI, "-n", "1", "-tb", "1", "-td", "1", "--draft", smollm2_q4_0, "--json", env={"SPECDEC_TEMP": "0.25"})
    ).document["settings"]
    assert set(found) == set(RUN)
    assert found["threads"] == {"value": "1", "source": "--threads"}
    assert found["threads_batch"] == {"value": "1", "source": "--threads-batch"}
    assert found["threads_draft"] == {"value": "1", "source": "--threads-draft"}
    assert found["threads_batch_draft"] == {"value": "", "source": "default"}
    assert found["temp"] == {"value": "0.25", "source": "SPECDEC_TEMP"}
    assert found["top_k"] == {"value": "40", "source": "default"}
    assert found["seed"]["source"] == "random"


@pytest.mark.parametrize("n", [0, 1])
def test_what_nothing_was_counted_for_is_null_and_not_available(n: int) -> None:
    found = document("demo", *HI, "-n", str(n), "--draft", "ngram")
    statistics = found["statistics"]
    assert len(found["tokens"]) == n
    assert statistics["generation_tokens_per_s"] is None
    assert statistics["acceptance_rate"] is None
    assert statistics["acceptance_by_position"] == []
    assert (statistics["mean_acceptance_length"], statistics["ttft_s"] is None) == ((None, True) if n == 0 else (1.0, False))


def test_without_any_token_the_summary_says_what_is_not_available() -> None:
    shown = greedy(*HI, "-n", "0")
    assert shown.out == b"\n"
    assert "n/a (0/0)" in shown.err
    assert "nan" not in shown.err.lower()


def expected_marks(rounds: list[dict[str, Any]], smollm2: Path) -> str:
    vocabulary = words(smollm2)

    def spelled(token: int) -> str:
        return vocabulary.piece(token).decode("utf-8")

    shown = []
    for drafted, group in groupby(rounds, lambda done: bool(done["drafted"])):
        if not drafted:
            shown.append("".join(spelled(token) for done in group for token in done["emitted"]))
            continue
        for done in group:
            accepted = [spelled(token) for token in done["emitted"][: done["accepted"]]]
            rest = [spelled(token) for token in done["emitted"][done["accepted"] :]]
            sign = {"recovered": "~", "bonus": "*"}[done["kind"]]
            shown += [f"[+{'|'.join(accepted)}]"] * bool(accepted) + [f"[{sign}{''.join(rest)}]"] * bool(rest)
    return "".join(shown)


def test_marks_show_what_the_document_says_of_each_round(drafted: dict[str, Any], smollm2: Path, smollm2_q4_0: Path) -> None:
    shown = greedy(*STORY, "-n", N, *FIXED, "--draft", smollm2_q4_0, "--show-draft")
    kinds = {done["kind"] for done in drafted["rounds"]}
    assert kinds == {"recovered", "bonus"}
    assert shown.text == expected_marks(drafted["rounds"], smollm2) + "\n"


PROMPT = "Name a caf\u00e9 in\nRome."
WAYS: dict[str, tuple[list[str], bytes | None]] = {
    "word": ([PROMPT], None),
    "flag": (["-p", PROMPT], None),
    "file with a mark": (["-f", "FILE"], b"\xef\xbb\xbf" + PROMPT.encode()),
    "file in UTF-16": (["-f", "FILE"], PROMPT.encode("utf-16")),
    "file with CRLF": (["-f", "FILE"], PROMPT.replace("\n", "\r\n").encode() + b"\r\n"),
    "pipe": ([], PROMPT.encode() + b"\n"),
    "hyphen": (["-"], PROMPT.encode()),
}


@pytest.fixture(scope="module")
def answer() -> bytes:
    return greedy(PROMPT, "--raw", "-n", "6", "-q").out


@pytest.mark.parametrize("way", [way for way in WAYS if way != "word"])
def test_a_prompt_is_the_same_by_every_way(way: str, answer: bytes, tmp_path: Path) -> None:
    arguments, data = WAYS[way]
    if data is not None and "FILE" in arguments:
        file = tmp_path / "prompt.txt"
        file.write_bytes(data)
        arguments, data = ["-f", str(file)], None
    done = run("demo", *arguments, "--raw", "-n", "6", "-q", "--temp", "0", stdin=data)
    assert done == Done(0, answer, "")


@pytest.mark.parametrize(("prompt", "flags"), [("", ["--raw"]), (" ", ["--raw"]), ("\n", ["--raw"]), ("", [])])
def test_prompts_of_next_to_nothing_are_answered(prompt: str, flags: list[str]) -> None:
    found = document("demo", prompt, "-n", "2", "--ignore-eos", *flags)
    assert len(found["tokens"]) == 2
    if flags:
        assert found["rounds"][0]["position"] == 1  # after a single token, or the start token


def test_a_model_without_a_chat_template_gets_the_prompt_as_it_is_and_that_is_said(
    story: Done, smollm2: Path, tmp_path: Path
) -> None:
    path = patched(smollm2, tmp_path / "model.gguf", (b"tokenizer.chat_template", b"tokenizer.chat_templatx"))
    found = document(path, STORY[0], "-n", N, "--temp", "0")
    path.unlink()
    assert found["text"] + "\n" == story.text
    assert any("has no chat template" in notice for notice in found["notices"])


@pytest.mark.parametrize(
    ("variables", "draft"),
    [
        ({"PYTHONIOENCODING": "cp1252"}, "none"),
        ({"PYTHONIOENCODING": "ascii"}, "ngram"),
        ({"LC_ALL": "C"}, "FILE"),
    ],
    ids=["cp1252", "ascii", "C locale"],
)
def test_characters_of_several_tokens_come_out_whole_in_any_locale(
    variables: dict[str, str], draft: str, smollm2_q4_0: Path
) -> None:
    draft = str(smollm2_q4_0) if draft == "FILE" else draft
    grammar = f'root ::= "{EMOJI}"'
    done = run(
        "demo", "Emoji", "--raw", "-n", "100", "-q", "--temp", "0", "--draft", draft, "--grammar", grammar, env=variables
    )
    assert done == Done(0, f"{EMOJI}\n".encode(), "")


SCHEMA = '{"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": false}'
GRAMMARS = {
    "braces": ("--grammar", 'root ::= "{" "}"'),
    "digits": ("--grammar", "root ::= [0-9] [0-9] [0-9] [0-9] [0-9] [0-9] [0-9]"),
    "schema": ("--json-schema", SCHEMA),
}


@cache
def constrained(name: str) -> dict[str, Any]:
    """The plain text under a grammar."""
    return document("demo", *STORY, "-n", "30", *GRAMMARS[name], *EXACT, *SAMPLED)


@pytest.mark.parametrize(("name", "draft"), [("braces", "ngram"), ("digits", "FILE"), ("schema", "ngram"), ("schema", "FILE")])
def test_text_under_a_grammar_is_the_plain_one_and_stops_when_complete(name: str, draft: str, smollm2_q4_0: Path) -> None:
    flags, plain = GRAMMARS[name], constrained(name)
    assert plain["statistics"]["finish"] == "end"
    draft = str(smollm2_q4_0) if draft == "FILE" else draft
    found = document("demo", *STORY, "-n", "30", *flags, *EXACT, *SAMPLED, "--draft", draft)
    assert found["tokens"] == plain["tokens"]
    assert found["text"] == plain["text"]
    assert found["statistics"]["finish"] == "end"


@pytest.fixture(scope="module")
def seeded() -> Done:
    """A plain sampled run."""
    return ok(run("demo", *STORY, "-n", "30", *EXACT, *SAMPLED))


def test_a_seed_gives_the_same_text_with_every_drafter(seeded: Done, smollm2_q4_0: Path) -> None:
    for draft in ("ngram", str(smollm2_q4_0)):
        done = ok(run("demo", *STORY, "-n", "30", *EXACT, *SAMPLED, "--draft", draft))
        assert done.out == seeded.out
    other = ok(run("demo", *STORY, "-n", "30", *EXACT, "--temp", "0.8", "-s", "12", "-q"))
    assert other.out != seeded.out


def test_a_forced_pair_writes_the_targets_text_all_the_same(seeded: Done, swapped: Path) -> None:
    done = ok(run("demo", *STORY, "-n", "30", *EXACT, *SAMPLED, *FIXED, "--draft", swapped, "--force", "--json"))
    assert (done.document["text"] + "\n").encode() == seeded.out
    assert done.document["statistics"]["accepted"] > 0
    assert any("2 tokens of text differ" in notice for notice in done.document["notices"])


@pytest.mark.parametrize("role", ["draft", "target"])
def test_padding_tokens_make_no_difference(role: str, story: Done, padded: Path, smollm2: Path) -> None:
    target, draft = (smollm2, padded) if role == "draft" else (padded, smollm2)
    found = document(target, *STORY, "-n", N, "--temp", "0", *FIXED, "--draft", draft)
    assert found["text"] + "\n" == story.text
    # But for padding the two are one model, which agrees with itself.
    assert found["statistics"]["acceptance_rate"] == 1.0
    assert found["statistics"]["invalid"] == 0


def test_a_target_whose_cache_cannot_go_back_decodes_plainly_and_says_why(recurrent: Path) -> None:
    flags = ("one two one two one", "-n", "40", *SAMPLED)
    plain = document(recurrent, *flags, "--draft", "none")
    found = document(recurrent, *flags, "--draft", "ngram")
    assert found["tokens"] == plain["tokens"]
    assert len(plain["tokens"]) > 5
    assert found["drafter"] == "none"
    assert found["statistics"]["drafted"] == 0
    assert any(notice.startswith("Decoding plainly: the target's cache cannot drop tokens") for notice in found["notices"])
    assert run(recurrent, "one", "--exact", "-q").code == 2


def test_a_draft_whose_cache_cannot_go_back_is_refused(recurrent: Path) -> None:
    done = run("demo", *HI, "--draft", recurrent, "--force", "-n", "2")
    assert done.code == 2
    assert "The draft mamba.gguf does not fit" in done.err
    assert "cannot drop" in done.err


def test_a_temperature_next_to_zero_is_as_good_as_greedy(story: Done, smollm2_q4_0: Path) -> None:
    done = ok(run("demo", *STORY, "-n", N, "--temp", "0.0001", "-s", "5", "--draft", smollm2_q4_0, "-q"))
    assert done.out == story.out


def test_no_draft_at_all_loads_no_draft(story: Done, smollm2_q4_0: Path) -> None:
    found = document("demo", *STORY, "-n", N, "--temp", "0", "--draft", smollm2_q4_0, "--draft-max", "0")
    assert found["text"] + "\n" == story.text
    assert found["drafter"] == "none"
    assert "draft" not in found["models"]


def test_a_draft_stops_before_what_is_not_sure_and_not_before_its_shortest(story: Done, smollm2_q4_0: Path) -> None:
    flags = ("demo", *STORY, "-n", N, "--temp", "0", "--draft", smollm2_q4_0, "--draft-p-min", "0.99")
    seldom = document(*flags, *FIXED)
    always = document(*flags, "--draft-min", "3", "--draft-fixed", "3")
    assert seldom["text"] + "\n" == always["text"] + "\n" == story.text
    assert any(not done["drafted"] for done in seldom["rounds"])
    assert seldom["statistics"]["acceptance_rate"] in (None, 1.0)
    first = always["rounds"][0]["position"]
    for done in always["rounds"]:
        n_room = int(N) - (done["position"] - first) - 1
        assert len(done["drafted"]) == min(3, n_room)


def test_a_pass_never_exceeds_the_batch(story: Done) -> None:
    found = document("demo", *STORY, "-n", N, "--temp", "0", "--draft", "demo", "-b", "4", "--draft-fixed", "12")
    assert found["text"] + "\n" == story.text
    assert max(done["width"] for done in found["rounds"]) == 4
    assert any("3 tokens at most instead of 12" in notice for notice in found["notices"])


def test_verbose_says_each_setting_with_its_source() -> None:
    said = ok(run("demo", *HI, "-n", "1", "-v")).err
    assert "note: --threads = 1 (--threads)\n" in said
    assert "note: --threads-batch = as --threads (default)\n" in said
    assert "note: --ctx-size = 4096 (default)\n" in said


def test_a_full_context_ends_the_text_and_is_named() -> None:
    found = document("demo", *STORY, "-c", "32", "--ignore-eos", "--draft", "ngram")
    assert found["statistics"]["finish"] == "context"
    assert found["rounds"][-1]["position"] + len(found["rounds"][-1]["emitted"]) == 33


def test_a_stop_text_is_not_shown(story: Done) -> None:
    before, stop, _ = story.text.partition("built in")
    assert stop
    done = greedy(*STORY, "-n", N, "-r", stop, "--draft", "ngram", "-q")
    assert done.text == before + "\n"


def test_a_draft_that_cannot_pay_is_left_alone(story: Done) -> None:
    """As dear as its target: whatever the clock says, no length of draft can be worth it."""
    found = document("demo", *STORY, "-n", "40", "--temp", "0", "--draft", "demo")
    assert found["statistics"]["drafted"] == 0


def test_several_drafters_write_the_plain_text(story: Done, smollm2_q4_0: Path) -> None:
    found = document("demo", *STORY, "-n", N, "--temp", "0", "--draft", f"{smollm2_q4_0},ngram")
    assert found["text"] + "\n" == story.text
    assert found["drafter"] == "model,ngram"


def test_a_shadow_leaves_the_text_and_says_what_drafting_would_have_brought(story: Done) -> None:
    done = greedy(*STORY, "-n", N, "--draft", "ngram", "--shadow")
    assert done.out == story.out
    assert "drafting would have brought" in done.err
    assert "drafter                 none" in done.err


@pytest.mark.parametrize("draft", ["none,ngram", "auto,ngram", "a.gguf,b.gguf", "ngram,ngram"])
def test_drafters_that_cannot_go_together_are_refused(draft: str) -> None:
    done = run("demo", *HI, "-n", "1", "--draft", draft)
    assert done.code == 2
    assert "--draft cannot be" in done.err
