"""A server's result file: the same tasks, both clocks, every load, and nothing measured twice."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from specdec_cli.bench import results
from specdec_cli.bench.client import Endpoint, find
from specdec_cli.bench.results import Results, text_sha256, tokens_sha256
from specdec_cli.bench.serving import Load, doubts, fresh, measure, notices
from specdec_cli.bench.statistics import summarised
from specdec_cli.bench.transport import ServerError, address
from specdec_cli.bench.workloads import Prepared, Workload, prepare
from specdec_cli.decoding.contracts import SamplingParams
from tests.bench.server_standin import WORDS, Fault, ServerStandIn

N = 7
GREEDY = SamplingParams(temperature=0)


@pytest.fixture
def standin() -> Iterator[ServerStandIn]:
    server = ServerStandIn()
    yield server
    server.close()


def endpoint(server: ServerStandIn) -> Endpoint:
    return find(address(server.url), lambda _: None)


def work(found: Endpoint) -> list[Prepared]:
    tasks = [Workload("a", "own", "", "hello"), Workload("b", "own", "", "there", system="be brief")]
    encode = partial(found.encode, raw=False)
    return prepare(tasks, encode, n_room=400, n_predict=N, temperature=0, seed=0)


def measured(found: Endpoint, before: Results | None = None, levels: Sequence[int] = (1, 2), repeats: int = 2) -> Results:
    tasks = work(found)
    before = before or fresh(found, "theirs", tasks, {})
    requests = [found.dialect.request(each, GREEDY) for each in tasks]
    return measure(found, requests, before, Load(tuple(levels), repeats), lambda _: None, lambda _label, _fraction: None)


def test_every_task_is_measured_at_every_load(standin: ServerStandIn) -> None:
    done = measured(endpoint(standin))
    assert done.done() == {(task, "server", repeat, level) for task in "ab" for repeat in range(2) for level in (1, 2)}
    assert sorted(run.order for run in done.runs) == list(range(8))
    assert [(summary.task, summary.concurrency) for summary in summarised(done)] == [("a", 1), ("a", 2), ("b", 1), ("b", 2)]
    assert [task.n_prompt for task in done.tasks] == [
        1 + len(b"<user>hello<assistant>"),
        1 + len(b"<system>be brief<user>there<assistant>"),
    ]


def test_a_run_has_the_servers_timings_and_this_sides_clock(standin: ServerStandIn) -> None:
    run = measured(endpoint(standin)).runs[0]
    assert (run.n_tokens, run.accepted, run.drafted, run.finish) == (N, N, 2 * N, "length")
    assert (run.prompt_s, run.generation_s) == (0.01, 0.02 * (N - 1))
    assert run.generation_tps == pytest.approx(50)
    assert run.client is not None
    assert run.ttft_s is not None
    assert 0 <= run.client.start_s < run.client.end_s
    assert run.ttft_s <= run.client.end_s - run.client.start_s
    assert run.tokens_sha256 == tokens_sha256(range(N))
    assert run.text_sha256 == text_sha256("".join(WORDS[:N]))


def test_the_clock_of_this_side_is_all_there_is_of_other_servers() -> None:
    server = ServerStandIn(llama=False, pass_s=0.02, usage=False)
    try:
        done = measured(endpoint(server))
    finally:
        server.close()
    run = done.runs[0]
    assert [task.n_prompt for task in done.tasks] == [None, None]
    assert (run.prompt_s, run.prompt_tps, run.drafted, run.tokens) == (None, None, None, ())
    assert run.client is not None
    assert run.client.counted is False
    assert run.generation_tps == run.client.generation_tps
    assert run.generation_tps is not None


def test_what_a_file_has_already_is_not_measured_again(standin: ServerStandIn, tmp_path: Path) -> None:
    found = endpoint(standin)
    once = measured(found, levels=(1,), repeats=1)
    results.write(tmp_path / "r.json", once)
    n_before = len(standin.bodies("/completion"))
    again = measured(found, results.resumed(tmp_path / "r.json", fresh(found, "theirs", work(found), {})), (1,), 2)
    assert len(standin.bodies("/completion")) == n_before + 2
    assert again.runs[:2] == once.runs
    partly = replace(again, runs=again.runs[:3])
    assert measured(found, partly, (1,), 2).done() == again.done()


def test_what_was_measured_before_a_fault_is_kept(standin: ServerStandIn) -> None:
    found = endpoint(standin)
    tasks = work(found)
    kept: list[Results] = []

    def keep(so_far: Results) -> None:
        kept.append(so_far)
        standin.faults.append(Fault("cut", "/completion"))

    requests = [found.dialect.request(each, GREEDY) for each in tasks]
    with pytest.raises(ServerError):
        measure(found, requests, fresh(found, "theirs", tasks, {}), Load((1,), 3), keep, lambda _label, _fraction: None)
    assert len(kept[-1].runs) == 2


def test_the_model_behind_a_server_on_this_machine_is_known_by_its_hash(standin: ServerStandIn, tmp_path: Path) -> None:
    (tmp_path / "small.gguf").write_bytes(b"GGUF")
    standin.model_path = str(tmp_path / "small.gguf")
    found = endpoint(standin)
    target = fresh(found, "theirs", work(found), {}).models["target"]
    assert (target.file, target.bytes, target.sha256) == ("small.gguf", 4, hashlib.sha256(b"GGUF").hexdigest())
    standin.model_path = "/nowhere/small.gguf"
    found = endpoint(standin)
    target = fresh(found, "theirs", work(found), {}).models["target"]
    assert (target.file, target.sha256, target.description) == (None, None, "small")


def test_more_requests_than_a_server_works_on_is_worth_a_notice(standin: ServerStandIn) -> None:
    found = endpoint(standin)
    assert notices(found, (1, 4)) == []
    assert "works on 4 at a time: of 8 requests, the others wait (llama-server -np 8)." in notices(found, (1, 8))[0]


def test_what_cannot_be_believed_is_said(standin: ServerStandIn) -> None:
    found = measured(endpoint(standin), fresh(endpoint(standin), "theirs", work(endpoint(standin)), {}), (1,), 1)
    assert list(doubts(found)) == []
    run = found.runs[0]
    assert run.client is not None
    quick = replace(run, generation_s=1.0, client=replace(run.client, generation_s=9.0))
    assert list(doubts(replace(found, runs=(quick, *found.runs[1:])))) == [
        f"The server says that {run.task} took 1.00 s; by this side's clock its tokens came over 9.00 s."
        " The rates are the server's own."
    ]
    short = replace(found, runs=(replace(run, n_tokens=run.n_tokens - 1), *found.runs[1:]))
    assert list(doubts(short)) == [
        f"The server did not write as many tokens as were asked for ({run.task}):"
        f" {run.n_tokens - 1} in the place of {run.n_tokens}."
    ]
