"""What a recorder writes of a run: on fakes, and of sessions on a real model."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from specdec_cli import drafters
from specdec_cli.decoding.contracts import Drafter, Ended, Kind, Round, SamplingParams
from specdec_cli.decoding.governor import FixedGovernor
from specdec_cli.decoding.loop import Event, Job, generate
from specdec_cli.decoding.loop import Sequence as Generation
from specdec_cli.decoding.verification import Rule
from specdec_cli.session import Request
from specdec_cli.tracing.form import RoundLine
from specdec_cli.tracing.reading import Faults, lines
from specdec_cli.tracing.recording import Name, Recorder, Watched, traced
from specdec_cli.tracing.writing import create
from tests.fakes.drafters import Oracle, Planting, Scattered
from tests.fakes.runs import GREEDY, PURE, job, letter, plain
from tests.fakes.target import Table, TableTarget, hashed
from tests.test_session import LIST, ids, opened, options
from tests.tracing.made import deaf, head

N_VOCAB = 8
TABLE = hashed(N_VOCAB)


def recorded(
    asked: Job, drafter: Drafter | None, folder: Path, table: Table = TABLE, k: int = 4
) -> tuple[list[RoundLine], list[Event]]:
    """The lines of a run on fakes, and its events."""
    target = Watched(TableTarget(table))
    events: list[Event] = []
    with create(folder / "t.jsonl", deaf) as trace:
        trace.write(head())
        recorder = Recorder(trace, target, lambda token: (letter(token), ""), lambda: None, asked.rule)
        for event in generate(Generation(asked), target, drafter, FixedGovernor(k)):
            recorder.add(event)
            events.append(event)
        recorder.end()
    faults = Faults()
    found = [line for line in lines(folder / "t.jsonl", faults) if isinstance(line, RoundLine)]
    assert faults.sentences() == []
    return found, events


def test_a_line_tells_what_became_of_each_token(tmp_path: Path) -> None:
    asked = job()
    run = (*asked.prompt, *plain(asked, TABLE).tokens)
    found, events = recorded(asked, Oracle(run, N_VOCAB, wrong_at=frozenset(range(0, 99, 3))), tmp_path)
    rounds = [event for event in events if isinstance(event, Round)]
    assert len(found) == len(rounds)
    for line, done in zip(found, rounds, strict=True):
        assert tuple(token.id for token in line.drafted) == done.proposal.tokens
        assert (line.accepted, line.emitted, line.kind) == (done.n_accepted, done.emitted, done.kind)
        assert done.plan is not None
        assert line.asked == done.plan.n_max
        assert all(token.rank == 1 and token.p == 1.0 for token in line.drafted[: line.accepted])
        assert all(token.rank is None and token.p is None for token in line.drafted[line.accepted + 1 :])
        assert line.chosen is None or (line.chosen.rank, line.chosen.p) == (1, 1.0)
        if line.refused is not None:
            assert line.refused.rank is not None
            assert line.refused.rank > 1
            assert line.refused.p == 0.0
    assert any(line.refused is not None for line in found)


def test_rank_softmax_and_gap_are_those_of_the_row_that_decided(tmp_path: Path) -> None:
    asked = job()
    run = (*asked.prompt, *plain(asked, TABLE).tokens)
    found, _ = recorded(asked, Oracle(run, N_VOCAB, n_right=2), tmp_path)
    checked = 0
    for line in found:
        if line.refused is None or line.refused.softmax is None:
            continue
        row = TABLE(run[: line.position + line.accepted]).astype(np.float64)
        share = np.exp(row) / np.exp(row).sum()
        assert line.refused.rank == 1 + int((row > row[line.refused.id]).sum())
        assert line.refused.softmax == pytest.approx(share[line.refused.id], rel=1e-5)
        top = np.sort(row)[::-1]
        assert line.gap == pytest.approx(top[0] - top[1], abs=1e-5)
        if line.chosen is not None:
            assert line.chosen.softmax is not None
            assert line.chosen.softmax == pytest.approx(share[line.chosen.id], rel=1e-5)
        checked += 1
    assert checked > 3


def test_under_reject_a_refusal_has_its_residual_mass(tmp_path: Path) -> None:
    asked = job(n_predict=40, params=dataclasses.replace(PURE, seed=5), rule=Rule.REJECT)
    found, _ = recorded(asked, Scattered(N_VOCAB, spread=True), tmp_path)
    context = list(asked.prompt)
    n_refused = 0
    for line in found:
        if line.kind is Kind.BONUS:
            assert line.residual is None
        else:
            prefix = (*context, *line.emitted[: line.accepted])
            row = TABLE(prefix).astype(np.float64)
            p = np.exp(row - row.max()) / np.exp(row - row.max()).sum()
            assert line.residual == pytest.approx(np.maximum(p - 1 / N_VOCAB, 0).sum(), abs=1e-6)
            n_refused += 1
        context.extend(line.emitted)
    assert n_refused > 2


def test_ids_that_are_no_tokens_have_neither_text_nor_rank(tmp_path: Path) -> None:
    asked = job()
    run = (*asked.prompt, *plain(asked, TABLE).tokens)
    found, _ = recorded(asked, Planting(run, (2**31,), at=1), tmp_path)
    strange = [token for line in found for token in line.drafted if token.id == 2**31]
    assert strange
    assert all(token.text == "" and token.rank is None and token.softmax is None for token in strange)


def test_a_round_that_was_cut_has_no_chosen_token(tmp_path: Path) -> None:
    asked = job(n_predict=5, stops=("zz",))
    run = (*asked.prompt, *plain(asked, TABLE).tokens)
    ends = job(n_predict=-1, end_tokens=frozenset({run[4]}), n_ctx=40)
    found, events = recorded(ends, Oracle(run, N_VOCAB), tmp_path)
    assert isinstance(events[-1], Ended)
    assert found[-1].accepted >= len(found[-1].emitted)
    assert found[-1].chosen is None


@pytest.mark.model
@pytest.mark.parametrize(
    ("drafter", "rule", "temperature"),
    [
        (drafters.NGRAM, Rule.MATCH, 0.0),
        (drafters.NGRAM, Rule.REJECT, 0.9),
        (drafters.MODEL, Rule.MATCH, 0.9),
        (drafters.MODEL, Rule.REJECT, 0.9),
        (drafters.NONE, Rule.REJECT, 0.0),
    ],
)
def test_a_real_run_is_the_same_traced_or_not(
    drafter: str, rule: Rule, temperature: float, smollm2: Path, smollm2_q4_0: Path, tmp_path: Path
) -> None:
    chosen = options(smollm2, drafter, smollm2_q4_0 if drafter == drafters.MODEL else None, rule=rule)
    with opened(chosen) as session:
        request = Request(ids(session, LIST), SamplingParams(temperature=temperature, seed=3), 24)
        untraced = [e.emitted for e in traced(None, session, request) if isinstance(e, Round)]
        session.forget()
        with create(tmp_path / "t.jsonl", deaf) as trace:
            trace.write(head())
            events = list(traced(trace, session, request, Name("count", "v", 0)))
    assert [event.emitted for event in events if isinstance(event, Round)] == untraced
    rows = [json.loads(line) for line in (tmp_path / "t.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [row["line"] for row in rows] == ["head", "run", *["round"] * len(untraced), "end", "closed"]
    assert (rows[1]["task"], rows[1]["rule"], rows[1]["drafter"]) == ("count", rule.value, drafter)
    rounds = [row for row in rows if row["line"] == "round"]
    assert "".join(row["text"] for row in rounds) == "".join(e.text for e in events if isinstance(e, Round))
    assert rows[-2]["emitted"] == sum(map(len, untraced))
    assert all((row["cache"]["draft"] is not None) == (drafter == drafters.MODEL) for row in rounds)
    assert all(row["rss"] > 50_000_000 for row in rounds)
    for row in rounds:
        if row["kind"] == "recovered" and rule is Rule.REJECT:
            assert 0 < row["residual"] <= 1
        if row["chosen"] is not None and temperature == 0:
            assert row["chosen"]["rank"] == 1
    assert rounds[0]["gap"] >= 0


@pytest.mark.model
def test_a_run_that_nobody_reads_on_has_an_end_without_a_reason(smollm2: Path, tmp_path: Path) -> None:
    with opened(options(smollm2)) as session, create(tmp_path / "t.jsonl", deaf) as trace:
        trace.write(head())
        events = traced(trace, session, Request(ids(session, LIST), GREEDY, 8))
        next(event for event in events if isinstance(event, Round))
        events.close()  # type: ignore[attr-defined]
    rows = [json.loads(line) for line in (tmp_path / "t.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [row["line"] for row in rows] == ["head", "run", "round", "end", "closed"]
    assert (rows[-2]["finish"], rows[-2]["rounds"]) == (None, 1)
