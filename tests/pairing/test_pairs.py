"""Known pairs: the shipped ones are whole, a person's own are read or told where they are wrong."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdec_cli.errors import UsageError
from specdec_cli.gguf.reader import read_header
from specdec_cli.gguf.vocabulary import vocabulary
from specdec_cli.hub.references import HubFile, HubRepo, parse
from specdec_cli.pairing import pairs
from specdec_cli.settings import profiles
from tests.pairing.small_models import OTHER_TOKENS, PAIRS, write_model

SHIPPED = profiles.folders()[-1]
FILES = sorted((SHIPPED / pairs.FOLDER).glob("*.yaml"))


def _write(folder: Path, text: str = PAIRS, name: str = "toy") -> Path:
    path = folder / f"{name}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_shipped_family_is_whole(path: Path) -> None:
    family = pairs.read(path)
    assert pairs.faults(path) == []
    assert pairs.is_pairs(path)
    assert family.description
    assert family.targets
    assert family.drafts
    assert family.signs.tokenizer
    assert family.signs.size
    for draft in family.drafts:
        assert isinstance(parse(draft.reference), HubRepo | HubFile)
        assert draft.licence
        assert draft.source.startswith("https://")


def test_the_shipped_families_have_names_of_their_own() -> None:
    families, wrong = pairs.load([SHIPPED])
    assert not wrong
    assert len({family.name for family in families}) == len(families) == len(FILES) >= 15


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("Qwen2.5 Coder 14B Instruct", "Qwen2.5-Coder"),
        ("Qwen2.5 72B Instruct", "Qwen2.5"),
        ("Qwen3 32B", "Qwen3"),
        ("Qwen3-30B-A3B", "Qwen3"),
        ("Qwen3 Coder 480B A35B Instruct", "Qwen3-Coder"),
        ("QwQ 32B", "QwQ"),
        ("DeepSeek R1 Distill Qwen 32B", "DeepSeek-R1-Distill-Qwen"),
        ("DeepSeek R1 Distill Llama 70B", "DeepSeek-R1-Distill-Llama"),
        ("DeepSeek R1 0528", "DeepSeek-R1"),
        ("Meta Llama 3.1 8B Instruct", "Llama 3"),
        ("Llama 3.3 70B Instruct", "Llama 3"),
        ("Gemma 2 27b It", "Gemma 2"),
        ("Gemma 3 12b It", "Gemma 3"),
        ("Mistral Small 24B Instruct 2501", "Mistral Small 3"),
        ("Devstral Small 2505", "Mistral Small 3"),
        ("Mistral Large Instruct 2411", "Mistral Large 2"),
        ("Smollm2 1.7B 8k Mix7", "SmolLM2"),
        ("Phi 3 Medium 4k Instruct", "Phi-3"),
        ("Granite 3.3 8b Instruct", "Granite 3"),
        ("Falcon3 10B Instruct", "Falcon3"),
        ("OLMo 2 0325 32B", "OLMo 2"),
        ("EXAONE 3.5 32B Instruct", "EXAONE 3.5"),
        ("Qwen3.5 27B", None),
        ("Gemma 3n E4B It", None),
        ("Llama 2 13B Chat", None),
        ("Somebody's Own 7B", None),
    ],
)
def test_a_models_name_leads_to_its_family(name: str, family: str | None) -> None:
    """By the names alone: as if it had every vocabulary."""
    families, _ = pairs.load([SHIPPED])
    plain = name.lower().replace(" ", "-")
    found = [(len(match[0]), each.name) for each in families for pattern in each.targets if (match := pattern.search(plain))]
    assert (max(found)[1] if found else None) == family


def test_a_file_of_ones_own_hides_a_shipped_one_of_its_name(tmp_path: Path) -> None:
    own, shipped = tmp_path / "own", tmp_path / "shipped"
    _write(shipped / pairs.FOLDER)
    _write(own / pairs.FOLDER, PAIRS.replace("family: Toy", "family: Mine"))
    families, _ = pairs.load([own, shipped])
    assert [family.name for family in families] == ["Mine"]


def test_a_broken_file_is_told_and_the_others_are_read(tmp_path: Path) -> None:
    _write(tmp_path / pairs.FOLDER)
    _write(tmp_path / pairs.FOLDER, "family: [", "broken")
    families, wrong = pairs.load([tmp_path])
    assert [family.name for family in families] == ["Toy"]
    assert "broken.yaml" in wrong[0].what


def test_a_family_is_known_by_vocabulary_and_name(tmp_path: Path) -> None:
    toy = pairs.read(_write(tmp_path))
    big = read_header(write_model(tmp_path / "a.gguf", 64, "Toy Big"))
    other = read_header(write_model(tmp_path / "b.gguf", 64, "Toy Big", OTHER_TOKENS))
    named_otherwise = read_header(write_model(tmp_path / "c.gguf", 64, "Something"))
    assert pairs.family_of(big, vocabulary(big), [toy]) is toy
    assert pairs.family_of(other, vocabulary(other), [toy]) is toy  # as far as the signs tell
    assert pairs.family_of(named_otherwise, vocabulary(named_otherwise), [toy]) is None
    assert pairs.speaks(toy, vocabulary(named_otherwise))


@pytest.mark.parametrize(
    ("sign", "other"),
    [
        ("tokenizer: gpt2", "tokenizer: llama"),
        ("pre: [toy, default]", "pre: qwen2"),
        ("200-300", "5000"),
        ("0: <|end|>", "0: '!'"),
    ],
)
def test_every_sign_of_a_vocabulary_counts(tmp_path: Path, sign: str, other: str) -> None:
    header = read_header(write_model(tmp_path / "a.gguf", 64, "Toy Big"))
    assert pairs.speaks(pairs.read(_write(tmp_path)), vocabulary(header))
    assert not pairs.speaks(pairs.read(_write(tmp_path, PAIRS.replace(sign, other))), vocabulary(header))


def test_the_longest_match_of_a_name_decides(tmp_path: Path) -> None:
    plain = pairs.read(_write(tmp_path, PAIRS.replace("toy-(big|small)", "toy"), "plain"))
    coder = pairs.read(_write(tmp_path, PAIRS.replace("toy-(big|small)", "toy-big"), "coder"))
    header = read_header(write_model(tmp_path / "a.gguf", 64, "Toy Big"))
    assert pairs.family_of(header, vocabulary(header), [plain, coder]) is coder


def test_what_a_model_came_from_is_asked_last(tmp_path: Path) -> None:
    toy = pairs.read(_write(tmp_path))
    extra = {"general.base_model.0.name": "Toy Small"}
    header = read_header(write_model(tmp_path / "tuned.gguf", 64, "Chatty", metadata=extra))
    assert pairs.family_of(header, vocabulary(header), [toy]) is toy


@pytest.mark.parametrize(
    ("before", "after", "line", "says"),
    [
        ("description:", "descripton:", 2, "there is no descripton"),
        ("  size:", "  sise:", 6, "there is no sise"),
        ("    licence:", "    license:", 15, "there is no license"),
        ("200-300", "300-200", 6, "neither a number of tokens nor a range"),
        ("200-300", "many", 6, "neither a number of tokens nor a range"),
        ("    0: ", "    first: ", 8, "first is no token id"),
        ("toy-(big|small)", "toy-(big", 10, "no regular expression"),
        ("owner/Toy-Small-GGUF:Q4_0", "toy.gguf", 12, "no reference to the hub"),
        ("owner/Toy-Small-GGUF:Q4_0", "'a/b/c'", 12, "no reference to the hub"),
        ("1K", "few", 14, "no number above 0"),
        ("1K", "0", 14, "no number above 0"),
        ("https://example.org/toy", "somewhere", 16, "no address of a page"),
        ("    name: Toy Small\n", "", 12, "name is missing"),
        ("    name: Toy Small\n", "    name: ''\n", 13, "name is empty"),
        ("family: Toy\n", "", 1, "family is missing"),
        ("  - toy-(big|small)\n", "", 9, "targets takes a list"),
        ("    note: It is small.", "    note: [a]", 17, "note takes one value"),
    ],
)
def test_each_fault_has_its_line(tmp_path: Path, before: str, after: str, line: int, says: str) -> None:
    assert before in PAIRS
    path = _write(tmp_path, PAIRS.replace(before, after))
    whats = [fault.what for fault in pairs.faults(path)]
    assert any(f"toy.yaml, line {line}: " in what and says in what for what in whats), whats
    with pytest.raises(UsageError):
        pairs.read(path)


def test_a_misspelled_key_is_met_with_the_nearest(tmp_path: Path) -> None:
    fault = pairs.faults(_write(tmp_path, PAIRS.replace("    licence:", "    license:")))[0]
    assert fault.fix == "Use licence."


def test_all_faults_are_told_at_once(tmp_path: Path) -> None:
    text = PAIRS.replace("1K", "few").replace("toy-(big|small)", "(").replace("description:", "decription:")
    assert len(pairs.faults(_write(tmp_path, text))) == 3


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        pairs.faults(tmp_path / "none.yaml")


@pytest.mark.parametrize(
    ("text", "written"),
    [("494M", 494_000_000), ("1.5B", 1_500_000_000), ("2k", 2000), ("808060", 808_060), ("1.24 B", 1_240_000_000)],
)
def test_numbers_read_as_people_write_them(tmp_path: Path, text: str, written: int) -> None:
    assert pairs.read(_write(tmp_path, PAIRS.replace("1K", text))).drafts[0].n_parameters == written


@given(st.text(max_size=60))
def test_no_text_brings_anything_but_faults(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzzed.yaml"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    for faults in (pairs.faults, profiles.faults):
        with suppress(UsageError):  # for what is no UTF-8
            assert all("fuzzed.yaml" in fault.what for fault in faults(path))


def test_nesting_without_end_is_a_fault(tmp_path: Path) -> None:
    assert "not YAML" in pairs.faults(_write(tmp_path, "[" * 20_000))[0].what


def test_the_examples_of_the_page_are_right(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "profiles.md").read_text(encoding="utf-8")
    settings, known = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    path = _write(tmp_path, settings, "settings")
    assert not pairs.is_pairs(path)
    assert profiles.faults(path) == []
    path = _write(tmp_path, known, "pairs")
    assert pairs.is_pairs(path)
    assert pairs.faults(path) == []
    assert pairs.read(path).drafts[0].n_bytes == 808_000_000
