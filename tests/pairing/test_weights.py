"""Which memory each tensor goes to."""

from __future__ import annotations

import pytest

from specdec_cli.gguf.parse import TensorInfo
from specdec_cli.pairing.weights import HOST, Placed, Placement, is_repacked, place
from tests.pairing.plans import AVX2, MB, big_header

NONE = frozenset[str]()
ARM = frozenset({"REPACK", "NEON", "DOTPROD"})


def tensor(type_name: str, *shape: int, name: str = "blk.0.attn_q.weight") -> TensorInfo:
    return TensorInfo(name, shape, type_name, 0, 1)


@pytest.mark.parametrize(
    ("type_name", "features", "expected"),
    [
        ("Q4_0", AVX2, True),
        ("Q4_K", AVX2, True),
        ("IQ4_NL", AVX2, True),
        ("MXFP4", AVX2, True),
        ("Q6_K", AVX2, False),
        ("Q8_0", AVX2, False),
        ("Q4_1", AVX2, False),
        ("F16", AVX2, False),
        ("Q2_K", AVX2, False),
        ("Q2_K", AVX2 | {"AVX512"}, True),
        ("Q4_0", ARM, True),
        ("Q8_0", ARM, True),
        ("Q6_K", ARM, True),
        ("Q5_0", ARM, False),
        ("Q4_0", frozenset({"AVX2"}), False),  # a build without repacking
        ("Q4_1", AVX2 | {"AMX_INT8", "AVX512_VNNI"}, True),
        ("Q4_0", NONE, False),
    ],
)
def test_the_processor_decides_which_types_are_repacked(type_name: str, features: frozenset[str], expected: bool) -> None:
    assert is_repacked(tensor(type_name, 256, 512), features) is expected


def test_only_what_is_multiplied_is_repacked() -> None:
    assert not is_repacked(tensor("Q4_0", 256, name="blk.0.attn_norm.weight"), AVX2)
    assert not is_repacked(tensor("Q4_0", 256, 512, name="token_embd.weight"), AVX2)
    assert is_repacked(tensor("Q4_0", 256, 512, name="token_embd.weight"), AVX2, as_output=True)
    assert is_repacked(tensor("Q4_0", 256, 512, 8, name="blk.0.ffn_up_exps.weight"), AVX2)
    assert not is_repacked(tensor("Q4_0", 256, 512, 8, name="blk.0.attn_k_b.weight"), AVX2)
    assert not is_repacked(tensor("Q4_0", 256, 510), AVX2)  # rows come in eights


def test_layers_go_to_the_gpu_from_the_last_one_on() -> None:
    placement = Placement(("CUDA0",), (1.0,), 3, 4)
    assert [placement.of(i) for i in range(5)] == [HOST, HOST, "CUDA0", "CUDA0", "CUDA0"]


def test_layers_are_spread_by_shares() -> None:
    placement = Placement(("CUDA0", "CUDA1"), (3.0, 1.0), 8, 7)
    assert [placement.of(i) for i in range(8)] == ["CUDA0"] * 6 + ["CUDA1"] * 2


def test_embeddings_stay_with_the_processor() -> None:
    found = place(big_header(), Placement(("CUDA0",), (1.0,), 5, 4), (), NONE, mapped=True, pinned=False)
    assert found == {HOST: Placed(mapped=50 * MB), "CUDA0": Placed(loaded=450 * MB)}


def test_an_embedding_that_is_the_output_too_is_copied_to_the_gpu() -> None:
    found = place(big_header(tied=True), Placement(("CUDA0",), (1.0,), 1, 4), (), NONE, mapped=True, pinned=False)
    assert found == {HOST: Placed(mapped=450 * MB), "CUDA0": Placed(loaded=50 * MB)}


def test_overrides_send_tensors_back_to_the_processor() -> None:
    overrides = ((r"blk\.[01]\.ffn", "CPU"), (r"blk\.1\.", "CUDA0"), ("(", "CPU"))
    found = place(big_header(), Placement(("CUDA0",), (1.0,), 5, 4), overrides, NONE, mapped=True, pinned=False)
    assert found == {HOST: Placed(mapped=250 * MB), "CUDA0": Placed(loaded=250 * MB)}


def test_weights_that_are_not_mapped_or_are_pinned_cannot_be_dropped() -> None:
    placement = Placement((), (), 0, 4)
    assert place(big_header(), placement, (), NONE, mapped=False, pinned=False) == {HOST: Placed(loaded=500 * MB)}
    assert place(big_header(), placement, (), NONE, mapped=True, pinned=True) == {HOST: Placed(loaded=500 * MB)}
