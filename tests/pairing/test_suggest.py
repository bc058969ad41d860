"""Ranking: which models are drafts at all, in which order, and what they are expected to bring."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdec_cli.gguf.header import Header
from specdec_cli.gguf.reader import read_header
from specdec_cli.pairing import pairs, suggest
from specdec_cli.pairing.findings import Verdict
from specdec_cli.pairing.pairs import Family
from specdec_cli.pairing.suggest import Candidate, LeftOut, Reason, Suggestion
from tests.pairing.small_models import OTHER_TOKENS, PAIRS, TOKENS, write_model


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def target(folder: Path) -> Header:
    return read_header(write_model(folder / "target.gguf", 1024, "Toy Big"))


@pytest.fixture(scope="module")
def toy(folder: Path) -> Family:
    path = folder / "toy.yaml"
    path.write_text(PAIRS, encoding="utf-8")
    return pairs.read(path)


def _candidate(path: Path) -> Candidate:
    return Candidate(read_header(path), str(path), path.stat().st_size)


def _weighed(target: Header, path: Path, *families: Family) -> Suggestion:
    judged = suggest.weigh(target, _candidate(path), families)
    assert isinstance(judged, Suggestion), judged
    return judged


def _left_out(target: Header, path: Path) -> LeftOut:
    judged = suggest.weigh(target, _candidate(path))
    assert isinstance(judged, LeftOut), judged
    return judged


def test_smaller_models_come_first(target: Header, folder: Path) -> None:
    paths = [write_model(folder / f"order-{width}.gguf", width, "Toy Small") for width in (512, 128, 256)]
    ranking = suggest.rank(target, [_candidate(path) for path in paths])
    assert [each.candidate.header.path.stem for each in ranking.drafts] == ["order-128", "order-256", "order-512"]
    gains = [each.estimate.speed_up for each in ranking.drafts]
    assert gains == sorted(gains, reverse=True)
    assert all(each.on_cpu.speed_up <= each.estimate.speed_up for each in ranking.drafts)


def test_the_target_itself_is_left_out(target: Header, folder: Path) -> None:
    assert _left_out(target, target.path).reason is Reason.SAME
    link = folder / "link.gguf"
    link.hardlink_to(target.path)
    assert _left_out(target, link).reason is Reason.SAME


def test_a_model_as_large_as_the_target_is_left_out(target: Header, folder: Path) -> None:
    left = _left_out(target, write_model(folder / "large.gguf", 1024, "Toy Small"))
    assert left.reason is Reason.SIZE
    assert "MB for each token" in left.sentence


def test_a_model_of_other_tokens_is_left_out(target: Header, folder: Path) -> None:
    left = _left_out(target, write_model(folder / "other.gguf", 64, "Toy Small", OTHER_TOKENS))
    assert left.reason is Reason.VOCABULARY
    assert "in the target" in left.sentence


def test_a_model_of_which_one_token_differs_is_left_out(target: Header, folder: Path) -> None:
    tokens = [*TOKENS[:150], "zzzz", *TOKENS[151:]]
    left = _left_out(target, write_model(folder / "one.gguf", 64, "Toy Small", tokens))
    assert left.reason is Reason.VOCABULARY
    assert "150" in left.sentence


def test_what_is_no_model_is_left_out(target: Header, folder: Path) -> None:
    projector = write_model(folder / "mmproj.gguf", 64, "Toy Small", metadata={"general.type": "mmproj"})
    embedder = write_model(folder / "embed.gguf", 64, "Toy Small", metadata={"llama.pooling_type": 1})
    assert _left_out(target, projector).reason is Reason.KIND
    assert _left_out(target, embedder).reason is Reason.KIND


def test_a_draft_that_hardly_costs_less_is_not_worth_it(target: Header, folder: Path) -> None:
    ranking = suggest.rank(target, [_candidate(write_model(folder / "almost.gguf", 960, "Toy Small"))])
    assert not ranking.drafts
    assert ranking.not_worth[0].estimate.speed_up < 1.05
    assert ranking.not_worth[0].findings == ()  # what it costs is said by the estimate


def test_a_draft_with_fewer_tokens_is_used_in_part(target: Header, folder: Path) -> None:
    fewer = _weighed(target, write_model(folder / "fewer.gguf", 64, "Toy Small", TOKENS[:150]))
    whole = _weighed(target, write_model(folder / "whole.gguf", 64, "Toy Small"))
    assert fewer.verdict is Verdict.PARTIAL
    assert fewer.findings
    assert fewer.coverage == pytest.approx(150 / len(TOKENS))
    assert fewer.estimate.acceptance < whole.estimate.acceptance


def test_kin_are_expected_to_agree_more(target: Header, folder: Path, toy: Family) -> None:
    kin = _weighed(target, write_model(folder / "kin.gguf", 64, "Toy Small"), toy)
    stranger = _weighed(target, write_model(folder / "stranger.gguf", 64, "Chatty"), toy)
    assert kin.kin
    assert not stranger.kin
    assert kin.estimate.speed_up > stranger.estimate.speed_up


def test_without_known_families_the_makers_name_tells_kin(folder: Path) -> None:
    named = {"general.basename": "Chatty"}
    big = read_header(write_model(folder / "chatty-big.gguf", 1024, "Chatty Big", metadata=named))
    assert _weighed(big, write_model(folder / "chatty-small.gguf", 64, "Chatty Small", metadata=named)).kin


def test_what_does_not_fit_comes_last(target: Header, folder: Path) -> None:
    paths = [write_model(folder / f"room-{width}.gguf", width, "Toy Small") for width in (128, 256)]
    ranking = suggest.rank(target, [_candidate(path) for path in paths], fits=lambda draft: draft.path.stem != "room-128")
    assert [(each.candidate.header.path.stem, each.fits) for each in ranking.drafts] == [
        ("room-256", True),
        ("room-128", False),
    ]


def test_experts_count_as_far_as_a_token_uses_them(folder: Path) -> None:
    experts = {"blk.0.ffn_up_exps.weight": (8, 512, 512)}
    mixture = {"llama.expert_count": 8, "llama.expert_used_count": 2}
    sparse = read_header(write_model(folder / "moe.gguf", 64, "Toy Big", metadata=mixture, architecture_tensors=experts))
    draft = _weighed(sparse, write_model(folder / "for-moe.gguf", 128, "Toy Small"))
    rest = 4 * (64 * 64 + 32 * len(TOKENS) + 32)
    expected = 4 * (128 * 128 + 32 * len(TOKENS) + 32) / (rest + 2 / 8 * 4 * 8 * 512 * 512)
    assert draft.estimate.cost == pytest.approx(expected)


def test_known_drafts_of_the_family_are_named(target: Header, toy: Family) -> None:
    known = suggest.known_drafts(target, [toy])
    assert [each.draft.reference for each in known] == ["owner/Toy-Small-GGUF:Q4_0"]
    assert known[0].kin
    assert known[0].n_bytes == pytest.approx(1000 * 4.8 / 8)


def test_a_target_of_no_known_name_gets_those_of_its_vocabulary(folder: Path, toy: Family) -> None:
    nameless = read_header(write_model(folder / "nameless.gguf", 1024, "Chatty"))
    known = suggest.known_drafts(nameless, [toy])
    assert [(each.family, each.kin) for each in known] == [("Toy", False)]


def test_a_known_draft_as_large_as_the_target_is_not_named(folder: Path, toy: Family) -> None:
    tiny = read_header(write_model(folder / "tiny.gguf", 1, "Toy Small", TOKENS[:201]))
    grown = Family(toy.name, "", toy.path, toy.signs, toy.targets, tuple(_grown(toy)))
    assert suggest.known_drafts(tiny, [grown]) == []


def _grown(family: Family) -> list[pairs.KnownDraft]:
    draft = family.drafts[0]
    return [pairs.KnownDraft(draft.reference, draft.name, 10**9, None, draft.licence, draft.source, draft.note)]


def test_the_estimate_is_the_papers() -> None:
    """Leviathan et al. 2023, section 3.3, at alpha 0.8, c 0.1: 3.69 tokens in 1.5 passes with five drafted tokens."""
    best = suggest.estimate(0.1, 0.8)
    by_hand = {k: (1 - 0.8 ** (k + 1)) / (0.2 * (k * 0.1 + 1)) for k in range(1, 17)}
    assert by_hand[5] == pytest.approx(3.68928 / 1.5)
    assert best.speed_up == pytest.approx(max(by_hand.values()))
    assert by_hand[best.n_draft] == pytest.approx(best.speed_up)


def test_a_draft_that_cannot_pay_is_not_drafted_with() -> None:
    assert suggest.estimate(0.8, 0.5) == suggest.Estimate(0.8, 0.5, 0, 1.0)


@given(st.floats(0, 2), st.floats(0, 0.95), st.floats(0, 1))
def test_dearer_steps_never_promise_more(cost: float, accepted: float, slope: float) -> None:
    here = suggest.estimate(cost, accepted, slope).speed_up
    assert here >= 1
    assert suggest.estimate(cost + 0.1, accepted, slope).speed_up <= here
    assert suggest.estimate(cost, accepted, slope + 0.1).speed_up <= here
    assert suggest.estimate(cost, min(accepted + 0.04, 0.99), slope).speed_up >= here


@given(st.booleans(), st.floats(0, 1), st.floats(0, 1))
def test_acceptance_is_a_share(kin: bool, share: float, coverage: float) -> None:
    assert 0 <= suggest.acceptance(kin, share, coverage) <= 0.9
    assert suggest.acceptance(True, share, coverage) >= suggest.acceptance(False, share, coverage)
