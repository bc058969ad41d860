"""choose(): llama.cpp's rule for owner/repo[:quant]."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdec_cli.hub.choosing import choose, parts_of, quants, split_name

REPO = ["README.md", "m-BF16.gguf", "m-F16.gguf", "m-Q2_K.gguf", "m-Q4_K_M.gguf", "m-Q8_0.gguf", "mmproj-F16.gguf"]


@pytest.mark.parametrize(
    ("paths", "quant", "chosen"),
    [
        (REPO, None, "m-Q4_K_M.gguf"),
        ([path for path in REPO if "Q4" not in path], None, "m-Q8_0.gguf"),
        (["m-BF16.gguf", "m-F16.gguf"], None, "m-BF16.gguf"),
        (["m.gguf"], None, "m.gguf"),
        (REPO, "q2_k", "m-Q2_K.gguf"),
        (REPO, "Q5_K_M", None),
        (["m-Q4_K_M.gguf"], "Q4_K", None),  # a quantization is named in full
        (["m.q4_k_m.gguf"], None, "m.q4_k_m.gguf"),
        (["Q4_0-old/a.gguf", "b-Q4_0.gguf"], "Q4_0", "Q4_0-old/a.gguf"),  # anywhere in the path
        (["a-Q4_K_M-v2.gguf"], None, "a-Q4_K_M-v2.gguf"),
        (REPO, "F16", "m-F16.gguf"),  # not BF16, although it comes first
        (["m-BF16.gguf"], "F16", "m-BF16.gguf"),
        (["m-Q4_K_M.GGUF"], None, None),
        (["README.md"], None, None),
        ([], None, None),
    ],
)
def test_the_file_of_a_quantization(paths: list[str], quant: str | None, chosen: str | None) -> None:
    assert choose(paths, quant) == chosen


@pytest.mark.parametrize("sidecar", ["mmproj-Q4_K_M", "m-imatrix-Q4_K_M", "mtp-m-Q4_K_M", "eagle3-m-Q4_K_M", "dflash-m-Q4_K_M"])
def test_files_that_accompany_a_model_are_not_chosen(sidecar: str) -> None:
    assert choose([f"sub/{sidecar}.gguf"], "Q4_K_M") is None
    assert choose([f"sub/{sidecar}.gguf", "m-F16.gguf"], None) == "m-F16.gguf"


def test_of_a_split_model_the_first_part_is_chosen_whatever_the_order() -> None:
    parts = [f"Q4_K_M/m-Q4_K_M-0000{index}-of-00003.gguf" for index in (3, 1, 2)]
    assert choose(parts, None) == parts[1]
    assert parts_of(parts[0]) == sorted(parts)
    assert parts_of("m.gguf") == ["m.gguf"]


def test_the_quantizations_on_offer_are_named_once_and_in_order() -> None:
    listing = [*REPO, "m-Q6_K-00001-of-00002.gguf", "m-Q6_K-00002-of-00002.gguf", "more/m-F16.gguf"]
    assert quants(listing) == ["BF16", "F16", "Q2_K", "Q4_K_M", "Q8_0", "Q6_K"]


@given(index=st.integers(1, 99999), n_parts=st.integers(1, 99999), quant=st.sampled_from(["Q4_K_M", "F16", "IQ2_XXS"]))
def test_a_split_name_is_taken_apart(index: int, n_parts: int, quant: str) -> None:
    split = split_name(f"dir/m-{quant.lower()}-{index:05d}-of-{n_parts:05d}.gguf")
    assert (split.prefix, split.quant, split.index, split.n_parts) == (f"dir/m-{quant.lower()}", quant, index, n_parts)
