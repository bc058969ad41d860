"""The report on a pair, and on a target alone: every rule beside those of the vocabularies, what may run, what to do."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from specdec_cli.errors import PairError
from specdec_cli.gguf.header import Header
from specdec_cli.gguf.kinds import check_runnable
from specdec_cli.gguf.parse import TensorInfo, Value
from specdec_cli.gguf.reader import read_header
from specdec_cli.pairing.findings import Finding, Rule, Verdict
from specdec_cli.pairing.judge import Report, judge, require, to_json
from specdec_cli.pairing.llama_build import VERSION
from specdec_cli.ui.document import plain
from tests.pairing.written import BPE, SPM, Written

Changes = Mapping[str, Value]


def tensor(name: str, *shape: int, n_bytes: int = 4000) -> TensorInfo:
    return TensorInfo(name, shape, "F32", 0, n_bytes)


TENSORS = (tensor("token_embd.weight", 32, 300), tensor("blk.0.attn_norm.weight", 32), tensor("output.weight", 32, 300))
HEAD_TENSORS = (tensor("blk.4.nextn.eh_proj.weight", 64, 32), TensorInfo("d2t", (100,), "I64", 0, 800))
SMALL = tuple(replace(each, n_bytes=1000) for each in TENSORS)


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Header]:
    folder = tmp_path_factory.mktemp("written")
    written: dict[str, Written] = {"spm": SPM, "bpe": BPE, "swapped": SPM.swapped(270, 275)}
    return {name: read_header(each.write(folder / f"{name}.gguf", weights=True)) for name, each in written.items()}


@pytest.fixture
def target(read: dict[str, Header]) -> Header:
    return replace(read["spm"], tensors=TENSORS)


@pytest.fixture
def draft(read: dict[str, Header]) -> Header:
    return replace(read["spm"], tensors=SMALL)


def edited(header: Header, changes: Changes, architecture: str | None = None, **fields: object) -> Header:
    """The header with other metadata. Keys that begin with a dot are the architecture's own."""
    metadata = dict(header.metadata)
    if architecture is not None:
        metadata = {(f"{architecture}{key[5:]}" if key.startswith("llama.") else key): value for key, value in metadata.items()}
        metadata["general.architecture"] = architecture
    name = metadata["general.architecture"]
    metadata |= {(f"{name}{key}" if key.startswith(".") else key): value for key, value in changes.items()}
    return replace(header, metadata=metadata, **fields)  # type: ignore[arg-type]


def by_rule(report: Report, rule: Rule) -> Finding:
    found = [found for found in report.findings if found.rule is rule]
    assert len(found) == 1, report.findings
    return found[0]


def rules(report: Report) -> set[Rule]:
    return {found.rule for found in report.findings}


def test_a_pair_that_fits_says_what_a_token_costs_and_the_command(target: Header, draft: Header) -> None:
    report = judge(target, draft)
    assert (report.verdict, rules(report)) == (Verdict.COMPATIBLE, {Rule.SIZE})
    assert "25 % of it" in by_rule(report, Rule.SIZE).sentence
    assert [each.drafter for each in report.drafters] == ["model", "ngram"]
    command = report.advice[0].command
    assert command.startswith("specdec run")
    assert str(target.path) in command
    assert "--draft" in command
    require(report)


def test_a_hub_model_is_called_by_its_reference(target: Header, draft: Header) -> None:
    report = judge(replace(target, reference="hf:a/b/c.gguf"), draft)
    assert "specdec run hf:a/b/c.gguf --draft" in report.advice[0].command


@pytest.mark.parametrize(("n_bytes", "severity"), [(2000, Verdict.COMPATIBLE), (2001, Verdict.NOTES), (4000, Verdict.NOTES)])
def test_a_draft_above_half_of_its_target_is_a_note(target: Header, draft: Header, n_bytes: int, severity: Verdict) -> None:
    report = judge(target, replace(draft, tensors=tuple(replace(each, n_bytes=n_bytes) for each in TENSORS)))
    assert by_rule(report, Rule.SIZE).severity == severity
    assert ("suggest" in report.advice[0].command) == (severity == Verdict.NOTES)
    assert ("nothing faster" in by_rule(report, Rule.SIZE).why) == (n_bytes == 4000)


def test_a_draft_of_a_shorter_trained_context_is_a_note(target: Header, draft: Header) -> None:
    short = edited(draft, {".context_length": 128})
    report = judge(target, short)
    found = by_rule(report, Rule.CONTEXT)
    assert (report.verdict, found.severity) == (Verdict.NOTES, Verdict.NOTES)
    assert "512" in found.sentence
    assert "Past 128 tokens" in found.why
    assert Rule.CONTEXT not in rules(judge(short, target))


@pytest.mark.parametrize(
    ("ours", "theirs", "sentence", "why"),
    [
        ("{{a}}", "{{b}}", "differ", "Only the target's"),
        ("{{a}}", None, "The draft has no chat template", "Only the target's"),
        (None, "{{a}}", "The target has no chat template", "as they are"),
    ],
)
def test_other_chat_templates_are_harmless(
    target: Header, draft: Header, ours: str | None, theirs: str | None, sentence: str, why: str
) -> None:
    def with_template(header: Header, template: str | None) -> Header:
        return header if template is None else edited(header, {"tokenizer.chat_template": template})

    report = judge(with_template(target, ours), with_template(draft, theirs))
    found = by_rule(report, Rule.TEMPLATE)
    assert report.verdict == Verdict.COMPATIBLE
    assert sentence in found.sentence
    assert why in found.why


def test_other_ends_of_generation_are_information(target: Header, draft: Header) -> None:
    report = judge(target, edited(draft, {"tokenizer.ggml.eot_token_id": 260}))
    assert report.verdict == Verdict.COMPATIBLE
    assert "2 '</s>' in the target, 2 '</s>', 260 ' word1' in the draft" in by_rule(report, Rule.ENDS).sentence


@pytest.mark.parametrize(("architecture", "kind"), [("mamba", "recurrent"), ("rwkv7", "recurrent"), ("jamba", "hybrid")])
def test_a_draft_whose_cache_cannot_go_back_is_refused_even_when_forced(
    target: Header, draft: Header, architecture: str, kind: str
) -> None:
    report = judge(target, edited(draft, {}, architecture))
    assert report.verdict == Verdict.INCOMPATIBLE
    assert kind in by_rule(report, Rule.DRAFT_CACHE).sentence
    assert [each.drafter for each in report.drafters] == ["model", "ngram"]
    for force in (False, True):
        with pytest.raises(PairError, match="does not fit") as caught:
            require(report, force)
        assert "cannot drop tokens" in caught.value.why


def test_with_a_target_whose_cache_cannot_go_back_nothing_can_draft_and_a_run_is_plain(target: Header, draft: Header) -> None:
    recurrent = edited(target, {}, "mamba")
    for report in (judge(recurrent, draft), judge(recurrent, None)):
        assert report.verdict == Verdict.INCOMPATIBLE
        assert "n-gram" in by_rule(report, Rule.TARGET_CACHE).why
        assert report.drafters == ()
        assert [each.command.split()[-1] for each in report.advice] == ["none"]
        require(report)  # the run decodes plainly, and says why


def test_a_sliding_window_is_information(target: Header, draft: Header) -> None:
    report = judge(edited(target, {".attention.sliding_window": 512}), draft)
    assert report.verdict == Verdict.COMPATIBLE
    assert "512" in by_rule(report, Rule.WINDOW).sentence


@pytest.mark.parametrize(
    ("changes", "architecture", "words"),
    [
        ({"general.type": "mmproj"}, None, "projector"),
        ({"general.type": "adapter"}, None, "LoRA"),
        ({}, "bert", "embedding"),
        ({}, "t5", "encoder-decoder"),
        ({".pooling_type": 1}, None, "embedding"),
        ({".attention.causal": False}, None, "left to right"),
    ],
)
def test_a_file_of_the_wrong_kind_is_refused_even_when_forced(
    target: Header, draft: Header, changes: Changes, architecture: str | None, words: str
) -> None:
    report = judge(target, edited(draft, changes, architecture))
    found = by_rule(report, Rule.KIND)
    assert (report.verdict, found.about) == (Verdict.INCOMPATIBLE, "draft")
    assert words in found.sentence
    assert report.compatibility is None
    with pytest.raises(PairError) as caught:
        require(report, force=True)
    assert caught.value.fix == report.advice[0].sentence
    alone = judge(edited(target, changes, architecture), None)
    assert (alone.verdict, alone.drafters) == (Verdict.INCOMPATIBLE, ())
    assert judge(edited(target, changes, architecture), draft).advice[0].sentence


def test_vocabulary_only_files_are_compared_and_cannot_run(read: dict[str, Header]) -> None:
    spm, swapped = (replace(read[name], tensors=()) for name in ("spm", "swapped"))
    same = judge(spm, spm)
    assert same.verdict == Verdict.NOTES
    assert {found.about for found in same.findings if found.rule is Rule.WEIGHTS} == {"target", "draft"}
    assert judge(spm, swapped).verdict == Verdict.INCOMPATIBLE
    for force in (False, True):
        with pytest.raises(PairError, match="does not fit"):
            require(same, force)
    alone = judge(spm, None)
    assert (alone.verdict, alone.drafters) == (Verdict.INCOMPATIBLE, ())


def test_other_tokens_are_refused_and_can_be_forced(read: dict[str, Header], target: Header) -> None:
    report = judge(target, replace(read["swapped"], tensors=SMALL))
    assert report.verdict == Verdict.INCOMPATIBLE
    with pytest.raises(PairError) as caught:
        require(report)
    assert "id 270" in caught.value.why
    assert "' word11'" in caught.value.why
    assert "' word16'" in caught.value.why
    assert "298 ids" in caught.value.fix
    require(report, force=True)
    assert report.compatibility is not None
    assert np.flatnonzero(report.compatibility.forbidden(300)).tolist() == [270, 275]
    commands = [each.command for each in report.advice]
    assert [word in command for word, command in zip(("suggest", "ngram", "--force"), commands, strict=True)] == [True] * 3


def test_forcing_is_not_offered_where_nothing_agrees(read: dict[str, Header], target: Header) -> None:
    with pytest.raises(PairError) as caught:
        require(judge(target, replace(read["bpe"], tensors=SMALL)))
    assert "--force" not in caught.value.fix


def test_the_worst_findings_come_first(read: dict[str, Header], target: Header) -> None:
    severities = [found.severity for found in judge(target, replace(read["bpe"], tensors=SMALL)).findings]
    assert severities == sorted(severities, reverse=True)


@pytest.mark.parametrize("installed", [None, VERSION, "99.0"])
@pytest.mark.parametrize(
    ("changes", "architecture", "rule", "word"),
    [
        ({}, "newfangled", Rule.ARCHITECTURE, "architecture 'newfangled'"),
        ({"tokenizer.ggml.pre": "newfangled"}, None, Rule.PRE_NAME, "pre-tokenizer 'newfangled'"),
        ({"tokenizer.ggml.model": "newfangled"}, None, Rule.TOKENIZER_NAME, "tokenizer 'newfangled'"),
    ],
)
def test_what_llama_cpp_may_not_know_is_named_and_left_to_it(
    read: dict[str, Header], changes: Changes, architecture: str | None, rule: Rule, word: str, installed: str | None
) -> None:
    strange = edited(replace(read["bpe"], tensors=TENSORS), changes, architecture)
    report = judge(strange, replace(strange, tensors=SMALL), installed)
    named = [found for found in report.findings if found.rule is rule]
    assert [found.about for found in named] == ["target", "draft"]
    assert all(word in found.sentence and VERSION in found.sentence for found in named)
    sure = installed == VERSION
    assert report.verdict == (Verdict.INCOMPATIBLE if sure else Verdict.NOTES)
    assert any("llama-cpp-python" in each.command for each in report.advice) == sure
    require(report)
    assert rule in rules(judge(strange, None, installed))


def test_known_names_are_not_mentioned(target: Header, read: dict[str, Header]) -> None:
    for header in (target, read["bpe"]):
        assert not rules(judge(header, None, VERSION)) & {Rule.ARCHITECTURE, Rule.PRE_NAME, Rule.TOKENIZER_NAME}


def test_alone_a_target_says_what_can_draft_for_it(target: Header) -> None:
    report = judge(target, None)
    assert report.verdict == Verdict.COMPATIBLE
    assert [each.drafter for each in report.drafters] == ["model", "ngram"]
    assert "same tokens (family" in report.drafters[0].sentence
    assert "no chat template" in by_rule(report, Rule.TEMPLATE).sentence
    assert [each.command.split()[1] for each in report.advice] == ["suggest", "run"]


def test_prediction_layers_inside_are_named_and_cost_nothing(target: Header) -> None:
    inside = (*TENSORS, tensor("blk.1.attn_norm.weight", 32), tensor("blk.1.nextn.eh_proj.weight", 64, 32))
    header = edited(target, {".nextn_predict_layers": 1, ".block_count": 2}, tensors=inside)
    check_runnable(header)
    report = judge(header, None)
    assert "1 layer that predicts" in by_rule(report, Rule.INNER_HEAD).sentence
    assert "draft-mtp" in by_rule(report, Rule.INNER_HEAD).why
    assert report.target.n_bytes_per_token == judge(target, None).target.n_bytes_per_token


def test_the_document_is_plain_and_counts_what_it_leaves_out(read: dict[str, Header], target: Header) -> None:
    document = to_json(judge(target, replace(read["bpe"], tensors=SMALL)))
    assert document["verdict"] == "incompatible"
    text = next(found for found in document["findings"] if found["rule"] == "text")
    assert text["tokens"] > len(text["first_tokens"]) == 5
    assert document["vocabularies"]["draftable"] <= document["vocabularies"]["shared"]
    assert to_json(judge(target, None))["draft"] is None


def test_a_written_model_without_weights_of_layers_is_judged_from_its_file(tmp_path: Path) -> None:
    path = SPM.write(tmp_path / "m.gguf", weights=True)
    report = judge(read_header(path), read_header(path))
    assert report.verdict == Verdict.NOTES
    assert "makes nothing faster" in by_rule(report, Rule.SIZE).why


values = st.one_of(
    st.integers(-(2**31), 2**32),
    st.booleans(),
    st.floats(),
    st.text(max_size=8),
    st.lists(st.integers(-(2**31), 2**31 - 1), max_size=4).map(lambda items: np.array(items, np.int32)),
)
KEYS = (
    *(".context_length", ".embedding_length", ".embedding_length_out", ".block_count", ".nextn_predict_layers"),
    *(".expert_count", ".expert_used_count", ".attention.sliding_window", ".attention.causal", ".pooling_type"),
    *(".target_layers", ".target_hidden_size", "general.type", "general.name", "general.base_model.0.name"),
    *("tokenizer.ggml.model", "tokenizer.ggml.pre", "tokenizer.chat_template", "tokenizer.ggml.eos_token_id"),
    *("tokenizer.ggml.eot_token_id", "tokenizer.ggml.fim_pad_token_id", "tokenizer.ggml.token_type"),
)
ARCHITECTURES = st.sampled_from([None, "eagle3", "dflash", "gemma4-assistant", "mamba", "bert", "newfangled"])


@settings(derandomize=True, max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(st.sampled_from(KEYS), values), ARCHITECTURES, st.sampled_from([(), TENSORS, HEAD_TENSORS]))
def test_headers_with_values_of_any_type_are_judged(
    read: dict[str, Header], changes: dict[str, Value], architecture: str | None, tensors: tuple[TensorInfo, ...]
) -> None:
    strange = edited(read["spm"], changes, architecture, tensors=tensors)
    base = read["spm"]
    pairs: list[tuple[Header, Header | None]] = [(strange, base), (base, strange), (strange, strange), (strange, None)]
    for one, other in pairs:
        report = judge(one, other, VERSION)
        assert report.advice
        assert all(found.sentence and found.why for found in report.findings)
        assert json.dumps(plain(to_json(report)), allow_nan=False)
        if report.verdict < Verdict.INCOMPATIBLE and other is not None:
            assert report.compatibility is not None
            assert report.compatibility.n_draftable > 0
