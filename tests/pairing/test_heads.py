"""Draft heads: told apart from whole models, and compared with the target from the header."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from specdec_cli.errors import PairError
from specdec_cli.gguf.header import Header
from specdec_cli.gguf.kinds import is_draft_head
from specdec_cli.gguf.parse import TensorInfo
from specdec_cli.gguf.reader import read_header
from specdec_cli.pairing.findings import Rule, Verdict
from specdec_cli.pairing.heads import read_head
from specdec_cli.pairing.judge import Report, judge, require
from tests.pairing.test_judge import TENSORS, Changes, edited, tensor
from tests.pairing.written import SPM

FC = (tensor("fc.weight", 96, 16),)


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Header:
    header = read_header(SPM.write(tmp_path_factory.mktemp("heads") / "target.gguf", weights=True))
    return edited(header, {".block_count": 4, "general.name": "Base"}, tensors=TENSORS)


def eagle3(
    target: Header, width: int = 32, layers: tuple[int, ...] = (1, 2, 3), tensors: tuple[TensorInfo, ...] = FC
) -> Header:
    changes: Changes = {
        ".target_hidden_size": width,
        ".target_layers": np.array(layers, np.int32),
        ".embedding_length": 16,
        ".block_count": 1,
        "general.base_model.0.name": "Base",
    }
    return edited(target, changes, "eagle3", tensors=tensors)


def fit(report: Report) -> tuple[Verdict, str]:
    found = next(found for found in report.findings if found.rule is Rule.HEAD_FIT)
    return found.severity, found.sentence


def test_a_head_that_fits_is_sent_to_the_server(target: Header) -> None:
    report = judge(target, eagle3(target))
    assert report.verdict == Verdict.INCOMPATIBLE
    assert any("EAGLE-3" in found.sentence for found in report.findings if found.rule is Rule.HEAD)
    severity, sentence = fit(report)
    assert severity == Verdict.COMPATIBLE
    assert "width 32, the target's have 32" in sentence
    assert "layers 1, 2, 3 of 4" in sentence
    assert any("'Base'" in found.why for found in report.findings)
    assert report.advice[0].command.startswith("llama-server -m ")
    assert report.advice[0].command.endswith("--spec-type draft-eagle3")
    assert [each.drafter for each in report.drafters] == ["model", "ngram"]
    for force in (False, True):
        with pytest.raises(PairError, match="does not fit"):
            require(report, force)


@pytest.mark.parametrize(
    ("head", "words"),
    [
        ({"width": 64}, "width 64, the target's have 32"),
        ({"layers": (1, 2, 9)}, "layers 1, 2, 9 of 4"),
        ({"layers": (-1, 2, 3)}, "layers -1, 2, 3 of 4"),
        ({"tensors": (*FC, TensorInfo("d2t", (5000,), "I64", 0, 40_000))}, "5,000 of the target's 300 tokens"),
    ],
)
def test_a_head_that_does_not_fit_says_what_disagrees(target: Header, head: dict[str, object], words: str) -> None:
    report = judge(target, eagle3(target, **head))  # type: ignore[arg-type]
    severity, sentence = fit(report)
    assert severity == Verdict.INCOMPATIBLE
    assert sentence.startswith("It does not belong to this target")
    assert words in sentence
    assert not any("llama-server" in each.command for each in report.advice)


def test_the_layer_behind_the_last_is_the_output(target: Header) -> None:
    assert fit(judge(target, eagle3(target, layers=(1, 2, 4))))[0] == Verdict.COMPATIBLE


def test_a_table_of_draft_tokens_is_counted(target: Header) -> None:
    table = (*FC, TensorInfo("d2t", (100,), "I64", 0, 800))
    assert "100 of the target's 300 tokens" in fit(judge(target, eagle3(target, tensors=table)))[1]


def test_dflash_takes_the_width_of_its_target(target: Header) -> None:
    layers = {".target_layers": np.array([1, 3], np.int32)}
    head = read_head(edited(target, layers, "dflash", tensors=FC))
    assert head is not None
    assert (head.what, head.server_type, head.n_embd, head.layers) == ("DFlash", "draft-dflash", 32, (1, 3))
    markov = read_head(edited(target, layers, "dflash", tensors=(*FC, tensor("markov_w1.weight", 32))))
    assert markov is not None
    assert markov.server_type == "draft-dspark"


def test_gemma_4s_assistant_belongs_to_gemma_4(target: Header) -> None:
    changes = {".embedding_length_out": 32, ".embedding_length": 16}
    severity, sentence = fit(judge(target, edited(target, changes, "gemma4-assistant", tensors=FC)))
    assert severity == Verdict.INCOMPATIBLE
    assert "made for a 'gemma4' model, the target is 'llama'" in sentence
    assert "width" not in sentence  # that agrees


def test_prediction_layers_in_a_file_of_their_own_are_a_head(target: Header) -> None:
    mtp = (tensor("blk.4.nextn.eh_proj.weight", 64, 32), tensor("blk.4.attn_norm.weight", 32))
    header = edited(target, {".nextn_predict_layers": 1, ".block_count": 5}, tensors=mtp)
    assert is_draft_head(header)
    assert not is_draft_head(replace(header, tensors=(*TENSORS, *mtp)))
    report = judge(target, header)
    assert fit(report)[0] == Verdict.COMPATIBLE
    assert report.advice[0].command.endswith("draft-mtp")
    as_target = judge(header, None)
    assert (as_target.verdict, as_target.drafters) == (Verdict.INCOMPATIBLE, ())


def test_a_whole_model_is_no_head(target: Header) -> None:
    assert read_head(target) is None
