"""Caches and buffers: sizes worked out by hand, for every kind of attention and state."""

from __future__ import annotations

from pathlib import Path

import pytest

from specdec_cli.pairing.buffers import ContextSize, cache_bytes, graph_bytes, n_cells, output_bytes, work_bytes
from specdec_cli.pairing.shape import Shape, shape_of
from tests.pairing.plans import header_of

GQA = {
    "block_count": 2,
    "embedding_length": 64,
    "context_length": 1000,
    "attention.head_count": 8,
    "attention.head_count_kv": 2,
    "feed_forward_length": 128,
}


def made(folder: Path, architecture: str = "llama", **own: object) -> Shape:
    return shape_of(header_of(folder, architecture, GQA | {key.replace("__", "."): value for key, value in own.items()}))


def test_grouped_heads_share_a_cache(tmp_path: Path) -> None:
    # 2 heads of 64 / 8 elements, K and V, 2 bytes each, for 512 cells
    assert cache_bytes(made(tmp_path), ContextSize(500)) == (512 * 2 * 8 * 2 * 2,) * 2


def test_a_context_is_rounded_up_to_256_and_0_is_the_trained_length(tmp_path: Path) -> None:
    shape = made(tmp_path)
    assert [n_cells(shape, ContextSize(n)) for n in (1, 256, 257, 0)] == [256, 256, 512, 1024]


def test_padding_makes_the_cache_longer(tmp_path: Path) -> None:
    assert n_cells(made(tmp_path), ContextSize(256, n_padding=8)) == 512


@pytest.mark.parametrize(
    ("name", "n_bytes"), [("f32", 128), ("f16", 64), ("bf16", 64), ("q8_0", 34), ("q4_0", 18), ("q4_1", 20), ("q5_1", 24)]
)
def test_the_types_of_a_cache_count(tmp_path: Path, name: str, n_bytes: int) -> None:
    shape = made(tmp_path, attention__key_length=16, attention__value_length=16)
    assert cache_bytes(shape, ContextSize(256, type_k=name, type_v=name)) == (256 * 2 * n_bytes,) * 2
    assert cache_bytes(shape, ContextSize(256, type_k=name)) == (256 * (n_bytes + 64),) * 2


def test_each_layer_has_its_own_heads(tmp_path: Path) -> None:
    shape = made(tmp_path, block_count=3, attention__head_count_kv=[2, 0, 1])
    assert cache_bytes(shape, ContextSize(256)) == (256 * 16 * 4, 0, 256 * 8 * 4)


def test_without_flash_attention_every_v_is_as_wide_as_the_widest(tmp_path: Path) -> None:
    shape = made(tmp_path, block_count=2, attention__head_count_kv=[4, 1])
    assert cache_bytes(shape, ContextSize(256, flash_attn=False)) == (256 * (32 + 32) * 2, 256 * (8 + 32) * 2)


def test_latent_attention_keeps_k_alone(tmp_path: Path) -> None:
    own = {
        "attention__head_count_kv": 1,
        "attention__key_length": 576,
        "attention__value_length": 512,
        "attention__key_length_mla": 192,
        "attention__value_length_mla": 128,
    }
    assert cache_bytes(made(tmp_path, "deepseek2", **own), ContextSize(256)) == (256 * 576 * 2,) * 2


def test_latent_attention_of_older_files_keeps_whole_heads(tmp_path: Path) -> None:
    own = {"attention__head_count_kv": 8, "attention__key_length": 192, "attention__value_length": 128}
    assert cache_bytes(made(tmp_path, "deepseek2", **own), ContextSize(256)) == (256 * 8 * (192 + 128) * 2,) * 2


def test_a_window_does_not_make_the_cache_shorter(tmp_path: Path) -> None:
    # The full-size window cache is what lets it go back.
    shape = made(tmp_path, "gemma3", attention__sliding_window=64)
    assert cache_bytes(shape, ContextSize(1024)) == (1024 * 16 * 2 * 2,) * 2


def test_layers_with_a_window_may_have_other_heads(tmp_path: Path) -> None:
    own = {
        "attention__sliding_window": 64,
        "attention__sliding_window_pattern": [True, False],
        "attention__key_length": 16,
        "attention__value_length": 16,
        "attention__key_length_swa": 8,
        "attention__value_length_swa": 4,
    }
    assert cache_bytes(made(tmp_path, "gemma4", **own), ContextSize(256)) == (256 * 2 * 12 * 2, 256 * 2 * 32 * 2)


def test_layers_that_share_a_cache_have_none(tmp_path: Path) -> None:
    shape = made(tmp_path, "gemma4", block_count=4, attention__shared_kv_layers=3)
    assert [n > 0 for n in cache_bytes(shape, ContextSize(256))] == [True, False, False, False]
    assert sum(n > 0 for n in cache_bytes(made(tmp_path, "gemma3n", block_count=30), ContextSize(256))) == 20


def test_layers_that_predict_further_tokens_have_none(tmp_path: Path) -> None:
    shape = made(tmp_path, "glm4moe", block_count=3, nextn_predict_layers=1)
    assert [n > 0 for n in cache_bytes(shape, ContextSize(256))] == [True, True, False]


MAMBA = {"ssm__conv_kernel": 4, "ssm__inner_size": 128, "ssm__state_size": 16, "ssm__group_count": 0}
STATE = (3 * 128 + 16 * 128) * 4


def test_a_recurrent_state_does_not_grow_with_the_context(tmp_path: Path) -> None:
    shape = made(tmp_path, "mamba", **MAMBA, attention__head_count=0)
    assert cache_bytes(shape, ContextSize(256)) == cache_bytes(shape, ContextSize(4096)) == (STATE,) * 2


def test_hybrids_have_a_state_where_they_do_not_attend(tmp_path: Path) -> None:
    cache = 256 * 16 * 2 * 2
    by_heads = made(tmp_path, "jamba", **MAMBA, attention__head_count_kv=[2, 0])
    assert cache_bytes(by_heads, ContextSize(256)) == (cache, STATE)
    by_interval = made(tmp_path, "qwen3next", **MAMBA, full_attention_interval=2)
    assert cache_bytes(by_interval, ContextSize(256)) == (STATE, cache)
    both = made(tmp_path, "falcon-h1", **MAMBA)
    assert cache_bytes(both, ContextSize(256)) == (STATE + cache,) * 2
    one_part_each = made(
        tmp_path, "nemotron_h", **MAMBA, block_count=3, attention__head_count_kv=[2, 0, 0], feed_forward_length=[0, 0, 128]
    )
    assert cache_bytes(one_part_each, ContextSize(256)) == (cache, STATE, 0)


def test_other_states(tmp_path: Path) -> None:
    assert cache_bytes(made(tmp_path, "rwkv7", wkv__head_size=32), ContextSize(256)) == ((2 + 32) * 64 * 4,) * 2
    lfm2 = made(tmp_path, "lfm2", shortconv__l_cache=3, attention__head_count_kv=[0, 2])
    assert cache_bytes(lfm2, ContextSize(256)) == (2 * 64 * 4, 256 * 16 * 2 * 2)
    kda = made(tmp_path, "kimi-linear", kda__head_dim=4, ssm__conv_kernel=4, attention__head_count_kv=[0, 2])
    assert cache_bytes(kda, ContextSize(256))[0] == (3 * 3 * 8 * 4 + 4 * 4 * 8) * 4


def test_a_graph_grows_with_what_a_pass_computes(tmp_path: Path) -> None:
    shape = made(tmp_path)
    base = graph_bytes(shape, ContextSize(1024))
    # gate, up and product of 128, four times 64 for the residual and its norms; a mask of 1024 cells in 2 bytes
    assert base == 512 * (3 * 128 + 4 * 64) * 4 + 1024 * 512 * 2
    assert graph_bytes(shape, ContextSize(1024, n_ubatch=256)) == base // 2
    scores = graph_bytes(shape, ContextSize(1024, flash_attn=False))
    assert scores == 1024 * 512 * 4 + 1024 * 512 * 8 * 4 + 512 * (5 * 64 + 2 * 16) * 4


def test_rows_of_logits_count_in_graph_and_output(tmp_path: Path) -> None:
    shape = made(tmp_path, vocab_size=100_000)
    assert output_bytes(shape, ContextSize(256, n_rows=5)) == 5 * 100_000 * 4
    few, many = (graph_bytes(shape, ContextSize(256, n_rows=n)) for n in (1, 200))
    assert many - few > 150 * 100_000 * 4


def test_experts_count_as_many_as_a_token_uses(tmp_path: Path) -> None:
    dense = made(tmp_path, feed_forward_length=0)
    sparse = made(tmp_path, feed_forward_length=0, expert_feed_forward_length=256, expert_used_count=4, expert_count=64)
    assert graph_bytes(sparse, ContextSize(256)) - graph_bytes(dense, ContextSize(256)) > 256 * 2 * 256 * 4 * 4


def test_work_space_follows_the_type_that_weights_are_multiplied_with(tmp_path: Path) -> None:
    shape = made(tmp_path)
    sizes = [work_bytes(shape, ContextSize(512), name) for name in ("F32", "F16", "Q4_0")]
    assert sizes == [0, 512 * 128 * 2, 512 * 128 * 36 // 32]
