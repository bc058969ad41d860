"""The shipped tasks are whole, and a person's own prompts are read or refused with the place of what is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from specdec_cli.bench.workloads import LONG, Workload, chosen, from_files, prepare, shipped
from specdec_cli.errors import PromptError, UsageError


def words(prompt: str, system: str | None) -> tuple[int, ...]:
    """A tokenizer for which every word is a token, after one for the start."""
    return (1, *map(len, f"{system or ''} {prompt}".split()))


def _prepared(*workloads: Workload, n_room: int = 100_000, n_predict: int = 16) -> list[tuple[int, ...]]:
    return [each.prompt for each in prepare(workloads, words, n_room=n_room, n_predict=n_predict, temperature=0.0, seed=0)]


def test_the_shipped_tasks_cover_what_people_do_in_several_languages() -> None:
    kinds = [each.kind for each in shipped()]
    assert {kind: kinds.count(kind) for kind in dict.fromkeys(kinds)} == {
        "code": 3, "json": 1, "edit": 1, "summary": 1, "translation": 2, "prose": 2, "chat": 1, "long": 1,
    }  # fmt: skip
    assert {"English", "German", "Chinese"} <= {each.language for each in shipped()}
    assert len({each.name for each in shipped()}) == len(shipped())
    assert all(len(each.name) <= 8 for each in shipped())  # a table has room for so many characters


def test_tasks_are_chosen_by_name_or_kind() -> None:
    assert [each.name for each in chosen(["prose", "code-2"])] == ["code-2", "story", "poem"]
    assert chosen([]) == shipped()
    with pytest.raises(UsageError, match="no task 'prosa'") as caught:
        chosen(["prosa"])
    assert "prose" in caught.value.why


def test_the_long_prompt_fills_what_it_may_and_keeps_its_question() -> None:
    (long,) = chosen(["long"])
    (prompt,) = prepare([long], words, n_room=100_000, n_predict=16, temperature=0.0, seed=0)
    assert LONG - 200 < len(prompt.prompt) <= LONG
    assert prompt.text.rstrip().endswith("with their dates.")
    assert "{document}" not in prompt.text
    (short,) = prepare([long], words, n_room=1000, n_predict=16, temperature=0.0, seed=0)
    assert 800 < len(short.prompt) <= 1000 - 16
    assert short.task.prompt_sha256 != prompt.task.prompt_sha256
    assert prompt.text.startswith(short.text[:2000])


def test_a_prompt_that_does_not_fit_is_refused_with_the_context_it_needs() -> None:
    with pytest.raises(PromptError, match="long enough does not fit: 101 tokens of prompt and 16") as caught:
        _prepared(Workload("long enough", "own", "", "word " * 100), n_room=110)
    assert "-c 181" in caught.value.fix


@pytest.mark.parametrize("n_predict", [-1, 0, 1])
def test_a_rate_needs_two_tokens(n_predict: int) -> None:
    with pytest.raises(UsageError, match="cannot be measured"):
        _prepared(Workload("a", "own", "", "word"), n_predict=n_predict)


def test_own_prompts_come_from_text_files_and_lines_of_json(tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_bytes("\ufeffFirst\r\nline\n".encode())
    (tmp_path / "more.jsonl").write_text(
        '{"prompt": "second"}\n\n'
        + json.dumps(
            {"prompt": "third", "name": "mine", "system": "Be brief.", "n_predict": 7, "kind": "chat", "language": "de"}
        ),
        encoding="utf-8",
    )
    found = from_files([tmp_path / "one.txt", tmp_path / "more.jsonl"])
    assert found == (
        Workload("one", "own", "", "First\nline"),
        Workload("more-1", "own", "", "second"),
        Workload("mine", "chat", "de", "third", "Be brief.", 7),
    )
    tasks = [each.task for each in prepare(found, words, n_room=100, n_predict=16, temperature=0.5, seed=3)]
    assert [(task.name, task.n_prompt, task.n_predict) for task in tasks] == [("one", 3, 16), ("more-1", 2, 16), ("mine", 4, 7)]


def test_prompts_of_one_name_are_told_apart(tmp_path: Path) -> None:
    for folder in ("x", "y"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "p.txt").write_text(folder, encoding="utf-8")
    assert [each.name for each in from_files([tmp_path / "x" / "p.txt", tmp_path / "y" / "p.txt"])] == ["p", "p-2"]


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("a.txt", b"", "is empty"),
        ("a.txt", b"\xff\xfe\xfa", "is not text"),
        ("a.jsonl", b"", "There are no prompts"),
        ("a.jsonl", b'{"prompt": "x"}\n{"prompt": ', "a.jsonl, line 2: this is not JSON"),
        ("a.jsonl", b'["x"]', "line 1: there is no prompt"),
        ("a.jsonl", b'{"prompt": ""}', "line 1: there is no prompt"),
        ("a.jsonl", b'{"prompt": "x", "tokens": 3}', "line 1: 'tokens' means nothing here"),
        ("a.jsonl", b'{"prompt": "x", "n_predict": 1}', "line 1: n_predict is 1"),
        ("a.jsonl", b'{"prompt": "x", "n_predict": true}', "line 1: n_predict is True"),
        ("a.jsonl", b'{"prompt": "x", "system": 4}', "line 1: system is no text"),
        ("a.jsonl", rb'{"prompt": "x", "name": "\ud800"}', "line 1: name has half a character"),
    ],
)
def test_prompts_that_cannot_be_read_are_refused_with_their_place(
    tmp_path: Path, name: str, content: bytes, sentence: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(PromptError) as caught:
        from_files([tmp_path / name])
    assert sentence in caught.value.what


def test_a_prompt_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(PromptError, match=r"There is no prompt file .*none\.txt"):
        from_files([tmp_path / "none.txt"])


def test_prompts_are_read_in_the_encodings_that_editors_write(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Grüße\n", encoding="utf-16")
    (tmp_path / "b.txt").write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\n")
    (tmp_path / "c.jsonl").write_bytes('{"prompt": "a\u2028b"}\r\n{"prompt": "c"}\r\n'.encode())
    found = from_files([tmp_path / "a.txt", tmp_path / "b.txt", tmp_path / "c.jsonl"])
    assert [each.prompt for each in found] == ["Grüße", "one\ntwo", "a\u2028b", "c"]
