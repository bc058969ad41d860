"""What tune compares: every drafter alone and with ngram, and what cannot run is left out with its sentence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from specdec_cli.bench.results import PLAIN
from specdec_cli.bench.variants import Variant
from specdec_cli.bench.ways import Asked, Draft, Engine, Sessions, Way, asked, ready, ways
from specdec_cli.decoding.contracts import Ended, FinishReason, SamplingParams
from specdec_cli.errors import BackendError, UsageError
from specdec_cli.llama.interrupt import Interrupt
from specdec_cli.llama.options import ContextOptions, ModelOptions
from specdec_cli.options import SessionOptions
from specdec_cli.session import Request, Session


@dataclass
class Journal:
    lines: list[str] = field(default_factory=list)


def _make(journal: Journal, drafter: object = "ngram", broken: str = "") -> Callable[[SessionOptions], Session]:
    """Opens stand-ins for sessions, and notes it."""

    def make(options: SessionOptions) -> Session:
        name = "+".join(options.drafters) or PLAIN
        if name == broken:
            raise BackendError(f"{name} does not start.")
        journal.lines.append(f"open {name}")
        return cast(
            Session,
            SimpleNamespace(
                options=options,
                drafter=drafter,
                n_draft_max=4,
                encode=lambda *_arguments, **_more: (1, 2),
                generate=lambda _request, **_more: iter([Ended(FinishReason.LENGTH, "")]),
                close=lambda: journal.lines.append(f"close {name}"),
            ),
        )

    return make


BASE = SessionOptions(ModelOptions(Path("target.gguf")), ContextOptions(n_ctx=64))
VARIANTS = (
    Variant(PLAIN, BASE),
    Variant("ngram", replace(BASE, drafters=("ngram",))),
    Variant("d", replace(BASE, drafters=("model",))),
    Variant("d+ngram", replace(BASE, drafters=("model", "ngram"))),
)


def test_sessions_are_opened_once_and_all_are_closed() -> None:
    journal = Journal()
    with Sessions(VARIANTS, _make(journal), together=True) as sessions:
        assert sessions.get(PLAIN) is sessions.get(PLAIN)
        sessions.get("ngram")
    assert journal.lines == ["open plain", "open ngram", "close ngram", "close plain"]


def test_sessions_that_do_not_fit_together_are_never_open_together() -> None:
    journal = Journal()
    with Sessions(VARIANTS, _make(journal), together=False) as sessions:
        for name in (PLAIN, "ngram", PLAIN):
            sessions.get(name)
    assert journal.lines == ["open plain", "close plain", "open ngram", "close ngram", "open plain", "close plain"]


def test_what_does_not_start_is_left_out_and_so_is_what_needs_it() -> None:
    found = Asked(VARIANTS, {}, {}, {"x": "It does not fit."})
    with Sessions(VARIANTS, _make(Journal(), broken="model"), together=True) as sessions:
        found = ready(found, sessions)
    assert [each.name for each in found.variants] == [PLAIN, "ngram"]
    assert found.left_out == {"x": "It does not fit.", "d": "model does not start."}


def test_a_target_that_cannot_be_drafted_for_is_an_error() -> None:
    with Sessions(VARIANTS, _make(Journal(), drafter=None), together=True) as sessions, pytest.raises(UsageError):
        ready(Asked(VARIANTS, {}, {}, {}), sessions)


def test_fixed_lengths_stand_beside_what_pays() -> None:
    assert [(way.n_max, way.fixed) for way in ways("d", "d.gguf", 8, (3, 8, 12))] == [(8, False), (3, True), (8, True)]
    assert [way.fixed for way in ways("d+ngram", "d.gguf,ngram", 8, (3,))] == [False]
    assert len({way.name for way in ways("d", "d.gguf", 8, (3, 8))}) == 3


@pytest.mark.model
def test_every_drafter_alone_and_with_ngram(smollm2: Path, smollm2_q4_0: Path) -> None:
    base = SessionOptions(ModelOptions(smollm2), ContextOptions(n_ctx=256))
    drafts = [Draft("d.gguf", smollm2_q4_0, ModelOptions(smollm2_q4_0)), Draft("e", smollm2_q4_0, ModelOptions(smollm2_q4_0))]
    found = asked(base, drafts)
    names = [each.name for each in found.variants]
    assert names[:3] == [PLAIN, "ngram", smollm2_q4_0.stem]
    assert len(set(names)) == len(names) == 6
    assert found.drafts[f"{smollm2_q4_0.stem}+ngram"] == "d.gguf,ngram"
    assert set(found.plans) == set(names)
    assert found.left_out == {}


@pytest.mark.model
def test_a_draft_that_cannot_be_used_is_left_out_once(smollm2: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.gguf"
    other.write_bytes(b"no model")
    base = SessionOptions(ModelOptions(smollm2), ContextOptions(n_ctx=256))
    found = asked(base, [Draft("other.gguf", other, ModelOptions(other))])
    assert [each.name for each in found.variants] == [PLAIN, "ngram"]
    assert list(found.left_out) == ["other"]


@pytest.mark.model
def test_a_fixed_way_drafts_its_length(smollm2: Path) -> None:
    class Deaf:
        def notice(self, sentence: str, /) -> None: ...

        def progress(self, label: str, fraction: float | None, /) -> None: ...

    options = SessionOptions(ModelOptions(smollm2), ContextOptions(n_ctx=256, n_threads=1), ("ngram",), n_max=4)
    with Session(options, Deaf(), Interrupt()) as session:
        prompt = session.encode("one two three four one two three four one two", None, raw=True)
        request = Request(prompt, SamplingParams(temperature=0), 8, ignore_eos=True)
        engine = Engine(session, Way("x", "ngram", "ngram", 3, fixed=True))
        rounds = [event for event in engine.generate(request) if not isinstance(event, Ended)]
        assert max(getattr(each, "n_drafted", 0) for each in rounds) == 3
        plain = Engine(session, Way("y", "ngram", "ngram", 0, fixed=True))
        assert all(getattr(each, "n_drafted", 0) == 0 for each in plain.generate(request))
