"""Plain decoding and the variants beside it: names, options, and whether they can be in memory together."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from specdec_cli.bench.variants import draft_files, fit_together, variants
from specdec_cli.gguf.constants import Role
from specdec_cli.llama.options import ContextOptions, ModelOptions
from specdec_cli.options import SessionOptions
from specdec_cli.pairing.planned import Gpu, Machine, ModelPlan, Parts, Plan
from specdec_cli.pairing.weights import HOST

NGRAM = SessionOptions(ModelOptions(Path("t.gguf")), ContextOptions(), drafters=("ngram",))
MODEL = replace(NGRAM, drafters=("model",), draft=ModelOptions(Path("d.gguf")), draft_context=ContextOptions())
BOTH = replace(MODEL, drafters=("model", "ngram"))
NONE = replace(NGRAM, drafters=())


def test_plain_decoding_comes_first_and_loads_no_draft() -> None:
    found = variants([MODEL, NGRAM, BOTH])
    assert [each.name for each in found] == ["plain", "model", "ngram", "model+ngram"]
    assert found[0].options == replace(NGRAM, drafters=(), draft_context=ContextOptions())
    assert [each.options for each in found[1:]] == [MODEL, NGRAM, BOTH]
    assert draft_files(found) == {"draft": Path("d.gguf"), "draft of model+ngram": Path("d.gguf")}


def test_exact_variants_bring_an_exact_plain_one_whose_speed_is_not_the_measure() -> None:
    found = variants([replace(NGRAM, exact=True)])
    assert [(each.name, each.options.exact) for each in found] == [("plain", False), ("plain-exact", True), ("ngram", True)]


def test_two_draft_models_are_told_apart_by_their_files() -> None:
    other = replace(MODEL, draft=ModelOptions(Path("e.gguf")))
    assert [each.name for each in variants([MODEL, other])] == ["plain", "d", "e"]
    assert [each.name for each in variants([MODEL, MODEL])] == ["plain", "d", "d-2"]


def test_without_a_drafter_there_is_only_plain_decoding() -> None:
    assert [each.name for each in variants([NONE])] == ["plain"]
    assert [each.name for each in variants([replace(NGRAM, n_max=0)])] == ["plain"]


def _plan(*models: tuple[Role, int, int], n_free: int, gpu: tuple[int, int] | None = None) -> Plan:
    """models: role, bytes of pages, bytes that cannot be dropped."""
    made = []
    for role, mapped, fixed in models:
        on = {HOST: Parts(mapped=mapped, cache=fixed)}
        if gpu is not None:
            on["GPU0"] = Parts(loaded=gpu[0])
        made.append(ModelPlan(role, role, 512, 512, 0, 5, on, True, False))
    gpus = (Gpu("GPU0", gpu[1]),) if gpu is not None else ()
    return Plan(tuple(made), Machine(n_free, frozenset(), gpus, 10), True, None, False, None, None, None)


def test_variants_share_the_pages_of_the_targets_file_and_nothing_else() -> None:
    for n_free, fits in ((1000 + 200 + 50 + 50 + 20 + 10, True), (1000 + 200 + 50 + 50 + 20 + 9, False)):
        plain = _plan(("target", 1000, 50), n_free=n_free)
        drafted = _plan(("target", 1000, 50), ("draft", 200, 20), n_free=n_free)
        assert fit_together({"plain": plain, "model": drafted}) is fits


def test_the_memory_of_a_gpu_is_shared_by_nobody() -> None:
    for n_free, fits in ((200, True), (199, False)):
        plans = {name: _plan(("target", 0, 0), n_free=10_000, gpu=(100, n_free)) for name in ("plain", "ngram")}
        assert fit_together(plans) is fits
