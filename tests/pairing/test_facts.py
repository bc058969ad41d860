"""What a token costs a model, by its header."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from specdec_cli.gguf.header import Header
from specdec_cli.gguf.parse import Value
from specdec_cli.gguf.reader import read_header
from specdec_cli.pairing.facts import facts
from tests.gguf_files import smollm2
from tests.pairing.test_judge import edited, tensor
from tests.pairing.written import SPM

EMBEDDING, OUTPUT = tensor("token_embd.weight", 32, 300, n_bytes=1000), tensor("output.weight", 32, 300, n_bytes=900)
LAYER = tensor("blk.0.attn_q.weight", 32, 32, n_bytes=100)
EXPERTS = tensor("blk.0.ffn_up_exps.weight", 32, 32, 8, n_bytes=800)
SHARED = tensor("blk.0.ffn_up_shexp.weight", 32, 32, n_bytes=50)


@pytest.fixture(scope="module")
def header(tmp_path_factory: pytest.TempPathFactory) -> Header:
    return read_header(SPM.write(tmp_path_factory.mktemp("facts") / "m.gguf", weights=True))


def test_an_input_table_is_looked_up_unless_it_is_the_output_too(header: Header) -> None:
    assert facts(replace(header, tensors=(EMBEDDING, LAYER, OUTPUT)), "draft").n_bytes_per_token == 1000
    assert facts(replace(header, tensors=(EMBEDDING, LAYER)), "draft").n_bytes_per_token == 1100


@pytest.mark.parametrize("used", [2, np.array([1, 2], np.int32)])
def test_of_a_mixture_only_the_experts_in_use_are_read(header: Header, used: Value) -> None:
    mixture = edited(
        header, {".expert_count": 8, ".expert_used_count": used}, tensors=(EMBEDDING, LAYER, EXPERTS, SHARED, OUTPUT)
    )
    found = facts(mixture, "target")
    assert found.n_bytes_per_token == 900 + 100 + 200 + 50
    assert found.n_active_parameters == 32 * 300 + 32 * 32 + 2 * 32 * 32 + 32 * 32
    assert found.n_parameters == sum(each.n_elements for each in mixture.tensors)


def test_a_real_model(tmp_path: Path) -> None:
    found = facts(read_header(smollm2()), "draft")
    assert (found.architecture, found.n_vocab, found.n_ctx_train, found.has_template) == ("llama", 49_152, 8192, True)
    assert 90e6 < found.n_bytes_per_token <= found.n_bytes < 100e6
