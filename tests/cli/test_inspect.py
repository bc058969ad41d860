"""specdec inspect: what any GGUF is, its tokens by pattern, and files that mean harm."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

from specdec_cli.cli.describing import described, kind_of, listed_tokens
from specdec_cli.cli.matching import matching
from specdec_cli.errors import UsageError
from specdec_cli.gguf.constants import TokenType
from specdec_cli.gguf.reader import read_header
from specdec_cli.gguf.vocabulary import vocabulary
from tests.cli.command import specdec
from tests.gguf_files import TINY, smollm2, write_gguf, write_vocab_gguf
from tests.hub.standin import StandIn

T = TokenType
WORDS = ["<s>", "hello", "Ġworld", "Ċ", "<|tool|>", "\x1b[2J", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaab"]
TYPES = [T.CONTROL, T.NORMAL, T.NORMAL, T.NORMAL, T.USER_DEFINED, T.USER_DEFINED, T.NORMAL]
PAGE = Path(__file__).parents[2] / "docs" / "json" / "inspect.md"


@pytest.fixture
def words(tmp_path: Path) -> Path:
    return write_vocab_gguf(tmp_path / "words.gguf", WORDS, TYPES, tensors=TINY)


def document(path: Path) -> dict[str, Any]:
    return described(read_header(path))


def test_a_model_is_shown_for_people() -> None:
    done = specdec("inspect", smollm2())
    assert (done.code, done.err) == (0, "")
    shown = dict(re.findall(r"^(\S[\w -]*?) {2,}(.+)$", done.text, re.MULTILINE))
    assert shown["size"] == "98.4 MB"
    assert shown["architecture"] == "llama"
    assert shown["parameters"] == "135 M (134,515,008)"
    assert shown["quantisation"] == "Q4_1, 5.74 bits per weight"
    assert shown["tensors"] == "272: Q4_1 69 %, Q8_0 31 %, F32 <1 %"
    assert shown["heads"] == "9, 3 for keys and values"
    assert shown["context"] == "8,192 tokens"
    assert shown["licence"] == "apache-2.0"
    assert re.fullmatch(r"smollm 49,135 \w{6}", shown["family"])
    assert "eos 2 '<|im_end|>' (ends)" in done.text
    assert "0 '<|endoftext|>' (ends)" in done.text


def test_verbose_shows_the_chat_template_whole() -> None:
    template = read_header(smollm2()).chat_template
    assert template is not None
    assert template.strip() in specdec("inspect", "demo", "-v").text
    assert template.strip() not in specdec("inspect", "demo").text


def test_the_json_document_is_whole_and_described() -> None:
    found = specdec("inspect", "demo", "--json", "--tokens", "^<.im_end").document
    assert found["schema"] == "specdec.inspect/1"
    assert found["tokens"] == [{"id": 2, "type": "control", "text": "'<|im_end|>'"}]
    assert sum(kind["bytes"] for kind in found["tensor_types"]) < found["bytes"]
    assert sum(found["vocabulary"]["types"].values()) == found["vocabulary"]["tokens"] == 49152
    rows = [
        found,
        found["rope"],
        found["vocabulary"],
        found["chat_template"],
        found["special_tokens"][0],
        found["tensor_types"][0],
    ]
    page = PAGE.read_text(encoding="utf-8")
    assert not [key for row in rows for key in row if f"`{key}`" not in page]


@pytest.mark.parametrize(
    ("pattern", "ids"),
    [
        ("hello", [1]),
        ("^ world$", [2]),
        (r"^\n$", [3]),
        (r"^\\n$", [3]),
        (r"\x1b", [5]),
        (r"^\\x1b", [5]),
        ("^<", [0, 4]),
        ("nowhere", []),
    ],
)
def test_tokens_are_found_by_what_they_write_and_by_how_they_are_shown(words: Path, pattern: str, ids: list[int]) -> None:
    assert matching(vocabulary(read_header(words)), pattern) == ids


def test_tokens_are_listed_with_id_type_and_harmless_text(words: Path) -> None:
    done = specdec("inspect", words, "--tokens", "world|tool|x1b")
    assert done.text == "2  normal        ' world'\n4  user_defined  '<|tool|>'\n5  user_defined  '\\x1b[2J'\n"
    assert specdec("inspect", words, "--tokens", "nowhere").text == "no token matches\n"


@pytest.mark.parametrize("pattern", ["(", "*", "[a", "(?P<n>a)(?P<n>b)", "a{99999999999999999999}"])
def test_what_is_no_pattern_is_a_usage_error(words: Path, pattern: str) -> None:
    with pytest.raises(UsageError, match="is no regular expression"):
        matching(vocabulary(read_header(words)), pattern)


def test_a_pattern_that_would_never_end_is_ended(words: Path) -> None:
    with pytest.raises(UsageError, match="takes too long"):
        matching(vocabulary(read_header(words)), "^(a+)+$", limit_s=1)


def test_texts_of_tokens_are_cut(tmp_path: Path) -> None:
    path = write_vocab_gguf(tmp_path / "m.gguf", ["x" * 100_000, "b"], tensors=TINY)
    (token,) = listed_tokens(vocabulary(read_header(path)), [0])
    assert len(token["text"]) < 3000


@pytest.mark.parametrize(
    ("metadata", "architecture", "tensors", "kind"),
    [
        ({"clip.projector_type": "mlp"}, "clip", TINY, "projector"),
        ({"general.type": "adapter", "adapter.type": "lora", "adapter.lora.alpha": 16.0}, "llama", TINY, "LoRA adapter"),
        ({"general.type": "imatrix"}, "llama", TINY, "importance matrix"),
        ({}, "bert", TINY, "embedding model"),
        ({}, "eagle3", TINY, "draft head"),
        ({}, "llama", None, "vocabulary only"),
    ],
)
def test_files_that_cannot_run_say_what_they_are(
    tmp_path: Path, metadata: dict[str, object], architecture: str, tensors: Any, kind: str
) -> None:
    path = write_gguf(tmp_path / "m.gguf", metadata, tensors, architecture)
    found = document(path)
    assert (found["kind"], found["runs"]) == (kind, False)
    done = specdec("inspect", path)
    assert done.code == 0
    assert f"{kind}: it cannot run by itself" in done.text
    assert found["fix"] in done.text


def test_the_values_of_an_adapter_and_of_a_projector_are_shown(tmp_path: Path) -> None:
    lora = write_gguf(
        tmp_path / "l.gguf", {"general.type": "adapter", "adapter.type": "lora", "adapter.lora.alpha": 16.0}, TINY
    )
    assert document(lora)["adapter"] == {"type": "lora", "lora.alpha": 16.0}
    clip = write_gguf(tmp_path / "c.gguf", {"clip.projector_type": "mlp"}, TINY, "clip")
    assert document(clip)["projector"] == {"projector_type": "mlp"}


def test_experts_make_the_active_parameters_fewer(tmp_path: Path) -> None:
    tensors = {
        "token_embd.weight": np.zeros((8, 32), np.float32),
        "blk.0.ffn_up_exps.weight": np.zeros((8, 4, 32), np.float32),
        "blk.0.ffn_up_shexp.weight": np.zeros((4, 32), np.float32),
    }
    numbers = {"llama.expert_count": 8, "llama.expert_used_count": 2}
    found = document(write_vocab_gguf(tmp_path / "m.gguf", WORDS, TYPES, extra=numbers, tensors=tensors))
    assert found["parameters"] == 8 * 32 + 8 * 128 + 128
    assert found["active_parameters"] == 8 * 32 + 2 * 128 + 128


def test_what_differs_by_layer_is_shown_from_least_to_most(tmp_path: Path) -> None:
    extra = {"llama.attention.head_count_kv": [1, 4, 1], "llama.attention.head_count": 8}
    path = write_vocab_gguf(tmp_path / "m.gguf", WORDS, TYPES, extra=extra, tensors=TINY)
    assert document(path)["kv_heads"] == [1, 4, 1]
    assert "8, 1 to 4 by layer for keys and values" in specdec("inspect", path).text


def test_sampling_rope_and_base_models_are_shown(tmp_path: Path) -> None:
    extra: dict[str, object] = {
        "general.sampling.temp": 0.6,
        "general.sampling.top_k": 20,
        "llama.rope.freq_base": 10000.0,
        "llama.rope.scaling.type": "yarn",
        "llama.rope.scaling.factor": 4.0,
        "llama.rope.scaling.original_context_length": 4096,
        "general.base_model.count": 1,
        "general.base_model.0.name": "Base",
        "general.base_model.0.repo_url": "https://hub/base",
    }
    text = specdec("inspect", write_vocab_gguf(tmp_path / "m.gguf", WORDS, TYPES, extra=extra, tensors=TINY)).text
    assert "temp 0.6, top_k 20" in text
    assert "base 10,000, scaling yarn, factor 4.0, from 4,096 tokens" in text
    assert "https://hub/base" in text


def test_the_parts_of_a_split_model_are_counted(tmp_path: Path) -> None:
    for i in range(2):
        numbers: dict[str, object] = {
            "split.no": (gguf.GGUFValueType.UINT16, i),
            "split.count": (gguf.GGUFValueType.UINT16, 2),
            "split.tensors.count": (gguf.GGUFValueType.INT32, 2),
        }
        name = tmp_path / f"m-0000{i + 1}-of-00002.gguf"
        write_gguf(name, numbers, dict([list(TINY.items())[i]]))
    done = specdec("inspect", tmp_path / "m-00002-of-00002.gguf", "--json")
    assert [Path(file).name for file in done.document["files"]] == ["m-00001-of-00002.gguf", "m-00002-of-00002.gguf"]
    assert "in 2 parts" in specdec("inspect", tmp_path / "m-00001-of-00002.gguf").text


def test_texts_without_end_and_with_escapes_do_a_terminal_no_harm(tmp_path: Path) -> None:
    evil = "\x1b[2J\u202e\x9b31m" + "x" * 3_000_000
    extra: dict[str, object] = {
        "general.name": evil,
        "general.license": evil,
        "general.sampling.temp": evil,
        "tokenizer.ggml.pre": evil,
        "tokenizer.chat_template": evil,
        "tokenizer.chat_template." + evil[:100]: evil,
        "tokenizer.ggml.eos_token_id": 5,
        "llama.rope.scaling.type": evil,
        **{f"general.sampling.key{i}": i for i in range(1000)},
    }
    path = write_vocab_gguf(tmp_path / "m.gguf", WORDS, TYPES, extra=extra, tensors=TINY)
    for arguments, n_most in (((), 15_000), (("--json",), 1_100_000), (("-v",), 1_100_000)):
        done = specdec("inspect", path, *arguments)
        assert done.code == 0
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", done.text)
        assert len(done.text) < n_most


def test_a_missing_model_is_a_usage_error_and_a_missing_file_says_so(tmp_path: Path) -> None:
    assert specdec("inspect").code == 2
    done = specdec("inspect", tmp_path / "no.gguf")
    assert (done.code, done.out) == (2, b"")
    assert "does not exist" in done.err


def test_the_kind_of_a_model_that_runs() -> None:
    assert kind_of(read_header(smollm2())) == ("model", None)


@pytest.fixture
def standin() -> Iterator[StandIn]:
    hub = StandIn()
    yield hub
    hub.close()


def test_a_model_on_the_hub_is_inspected_without_being_fetched(standin: StandIn, tmp_path: Path) -> None:
    standin.add("owner/repo", **{"m-Q4_1.gguf": smollm2().read_bytes()})
    env = {"HF_ENDPOINT": standin.endpoint, "HF_HOME": str(tmp_path), "NO_PROXY": "127.0.0.1"}
    done = specdec("inspect", "owner/repo", env=env)
    assert done.code == 0, done.err
    assert "hf:owner/repo/m-Q4_1.gguf" in done.text
    assert "135 M (134,515,008)" in done.text
    assert not list(tmp_path.rglob("*.gguf"))
