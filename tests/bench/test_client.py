"""Model servers are found, measured the same in any pieces, and what is wrong with them is said."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from specdec_cli.bench.answers import Answer, Burst, bursts, spread_over
from specdec_cli.bench.client import Endpoint, find, run_level, throughput, trial
from specdec_cli.bench.results import Task
from specdec_cli.bench.transport import Limits, ServerError, address
from specdec_cli.bench.workloads import Prepared
from specdec_cli.decoding.contracts import FinishReason, SamplingParams
from specdec_cli.errors import SpecdecError, UsageError
from tests.bench.server_standin import WORDS, Fault, ServerStandIn

QUICK = Limits(connect_s=2, answer_s=2, first_s=2, stall_s=0.3)
GREEDY = SamplingParams(temperature=0)
N = 7
TEXT = "".join(WORDS[:N])


@pytest.fixture
def standin() -> Iterator[ServerStandIn]:
    server = ServerStandIn()
    yield server
    server.close()


@contextmanager
def served(**how: Any) -> Iterator[ServerStandIn]:
    server = ServerStandIn(**how)
    try:
        yield server
    finally:
        server.close()


def endpoint(server: ServerStandIn, key: str | None = None, model: str | None = None, path: str = "") -> Endpoint:
    return find(address(server.url + path, key), lambda _: None, model, QUICK)


def prepared(found: Endpoint, prompt: str = "hi", system: str | None = None, n: int = N) -> Prepared:
    ids = found.encode(prompt, system)
    return Prepared(Task("a", "own", "", len(ids), "", n, 0, 0), ids, prompt, system)


def asked(found: Endpoint, times: int = 1, workers: int = 1, params: SamplingParams = GREEDY) -> list[Answer]:
    return run_level(found, [found.dialect.request(prepared(found), params)] * times, workers)


def refused(call: Callable[[], object]) -> str:
    with pytest.raises(SpecdecError) as error:
        call()
    assert error.value.what.endswith(".")
    assert error.value.fix
    return str(error.value)


def test_llama_server_is_known_by_what_it_tells(standin: ServerStandIn) -> None:
    about = endpoint(standin).about
    assert (about.kind, about.model, about.n_ctx, about.n_slots, about.build) == ("llama-server", "small", 512, 4, "b1-abc")
    assert endpoint(standin, path="/v1/").about == about


def test_the_ids_of_the_rendered_prompt_go_in_as_they_are(standin: ServerStandIn) -> None:
    found = endpoint(standin)
    ids = found.encode("hi", "be brief")
    assert ids == (7, *b"<system>be brief<user>hi<assistant>")
    assert found.encode("hi", None, raw=True) == (7, *b"hi")
    run_level(found, [found.dialect.request(prepared(found, "hi", "be brief"), GREEDY)], 1)
    (body,) = standin.bodies("/completion")
    assert body["prompt"] == list(ids)
    assert (body["n_predict"], body["cache_prompt"], body["ignore_eos"], body["stream"]) == (N, False, True, True)
    assert (body["temperature"], body["samplers"], body["top_k"]) == (0, ["top_k"], 1)


def test_sampling_goes_by_the_steps_of_specdec(standin: ServerStandIn) -> None:
    asked(endpoint(standin), params=SamplingParams(temperature=0.7, top_k=9, min_p=0.1, seed=2**33 + 5))
    (body,) = standin.bodies("/completion")
    assert body["samplers"] == ["penalties", "top_k", "top_p", "min_p", "temperature"]
    assert (body["temperature"], body["top_k"], body["min_p"], body["seed"]) == (0.7, 9, 0.1, 5)


def test_both_clocks_are_kept(standin: ServerStandIn) -> None:
    (answer,) = asked(endpoint(standin))
    assert (answer.text, answer.tokens, answer.n_tokens, answer.counted) == (TEXT, tuple(range(N)), N, True)
    assert answer.timings is not None
    assert (answer.timings.prompt_s, answer.timings.predicted_n, answer.timings.predicted_s) == (0.01, N, 0.12)
    assert (answer.timings.draft_n, answer.timings.draft_n_accepted) == (2 * N, N)
    assert answer.ttft_s is not None
    assert 0 < answer.ttft_s <= answer.bursts[-1].at_s <= answer.end - answer.sent
    assert sum(burst.n for burst in answer.bursts) == N
    assert answer.finish is FinishReason.LENGTH


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    pieces=st.lists(st.integers(1, 200), min_size=1, max_size=8),
    chunked=st.booleans(),
    llama=st.booleans(),
)
def test_an_answer_is_the_same_in_any_pieces(standin: ServerStandIn, pieces: list[int], chunked: bool, llama: bool) -> None:
    standin.pieces, standin.chunked, standin.llama = pieces, chunked, llama
    for answer in asked(endpoint(standin), times=2):
        assert (answer.text, answer.n_tokens, answer.finish) == (TEXT, N, FinishReason.LENGTH)
        assert sum(burst.n for burst in answer.bursts) == N


def test_an_open_ai_server_is_measured_by_this_sides_clock() -> None:
    with served(llama=False, burst=3) as server:
        found = endpoint(server)
        assert (found.about.kind, found.about.model) == ("OpenAI", "small")
        (answer,) = asked(found)
        assert (answer.text, answer.n_tokens, answer.timings, answer.tokens) == (TEXT, N, None, None)
        assert sum(burst.n for burst in answer.bursts) == N  # of three pieces
        (body,) = server.bodies("/v1/chat/completions")
        assert body["messages"] == [{"role": "user", "content": "hi"}]
        assert (body["max_tokens"], body["stream_options"]) == (N, {"include_usage": True})


def test_tokens_that_nobody_counted_are_said_to_be_pieces() -> None:
    with served(llama=False, burst=3, usage=False) as server:
        (answer,) = asked(endpoint(server))
        assert (answer.n_tokens, answer.counted) == (3, False)


def test_a_server_that_knows_only_open_ais_interface_is_asked_again_in_the_strict_way() -> None:
    with served(llama=False, strict=True) as server:
        found = endpoint(server)
        found = trial(found, prepared(found), GREEDY)
        assert len(found.notices) == 1
        assert asked(found)[0].text == TEXT
        assert "ignore_eos" not in server.bodies("/v1/chat/completions")[-1]


def test_how_long_a_long_prompt_is_only_the_server_can_tell() -> None:
    with served(llama=False) as server:
        found = endpoint(server)
        assert found.encode("short", None) == ()
        assert len(found.encode("word " * 2000, None)) > 2000


def test_of_several_models_one_has_to_be_named() -> None:
    with served(llama=False, models=("large", "small")) as server:
        assert "large, small" in refused(lambda: endpoint(server))
        assert endpoint(server, model="small").about.model == "small"
        assert "does not list" in endpoint(server, model="other").notices[0]


def test_so_many_requests_run_side_by_side_each_on_a_connection_of_its_own() -> None:
    with served(pass_s=0.02) as server:
        found = endpoint(server)
        request = found.dialect.request(prepared(found), GREEDY)
        before = server.n_connections
        answers = run_level(found, [request] * 6, 3)
        assert server.most_at_once == 3
        assert server.n_connections == before + 3
        assert [answer.text for answer in answers] == [TEXT] * 6
        rate = throughput(answers)
        assert rate is not None
        assert rate > 0


def test_a_connection_that_went_stale_is_opened_again() -> None:
    with served(drops=True) as server:
        found = endpoint(server)
        before = server.n_connections
        assert [answer.text for answer in asked(found, times=3)] == [TEXT] * 3
        assert server.n_connections == before + 1 + 3  # one for the prompt's ids


def test_a_model_that_is_loading_is_waited_for(standin: ServerStandIn) -> None:
    loading = b'{"error": {"message": "Loading model", "type": "unavailable_error", "code": 503}}'
    standin.faults.append(Fault("status", "/props", status=503, body=loading, times=1))
    said: list[str] = []
    found = find(address(standin.url), said.append, None, QUICK)
    assert found.about.kind == "llama-server"
    assert len(said) == 1
    standin.faults.append(Fault("status", "/props", status=503, body=loading))
    text = refused(lambda: find(address(standin.url), said.append, None, QUICK, loading_s=0))
    assert "503" in text
    assert "Loading model" in text


def test_nobody_at_the_address() -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    text = refused(lambda: find(address(f"http://127.0.0.1:{port}"), lambda _: None, None, QUICK))
    assert f"There is no server at http://127.0.0.1:{port}." in text


def test_https_where_there_is_none(standin: ServerStandIn) -> None:
    secure = standin.url.replace("http:", "https:")
    assert "The encrypted connection failed" in refused(lambda: find(address(secure), lambda _: None, None, QUICK))


def test_what_is_no_http() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            peer, _ = server.accept()
            peer.recv(1000)
            peer.sendall(b"SSH-2.0-OpenSSH_9.6\r\n")
            peer.close()

        threading.Thread(target=answer, daemon=True).start()
        text = refused(lambda: find(address(f"http://127.0.0.1:{server.getsockname()[1]}"), lambda _: None, None, QUICK))
    assert "not HTTP" in text


@pytest.mark.parametrize(
    "url", ["ftp://x", "http://", "http://x:port", "http://user:pass@x", "http://x/?key=1", "http://[::1", "http://a..b"]
)
def test_what_is_no_address(url: str) -> None:
    with pytest.raises(UsageError):
        address(url)


def test_a_key_is_sent_and_never_shown() -> None:
    with served(key="sk-secret") as server:
        assert "wants an API key" in refused(lambda: endpoint(server))
        text = refused(lambda: endpoint(server, "sk-wrong"))
        assert "did not accept the API key" in text
        assert "sk-wrong" not in text
        assert asked(endpoint(server, "sk-secret"))[0].text == TEXT
        server.faults.append(Fault("status", "/completion", status=400, body=b'{"error": "who is sk-secret?"}'))
        text = refused(lambda: asked(endpoint(server, "sk-secret")))
        assert "who is ***?" in text
        assert "sk-secret" not in repr(address(server.url, "sk-secret"))


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (Fault("status", "/completion", 404), ["HTTP 404", "it broke"]),
        (Fault("status", "/completion", 429, headers={"Retry-After": "20"}), ["HTTP 429", "Retry after 20 s"]),
        (Fault("status", "/completion", 500), ["HTTP 500", "it broke"]),
        (Fault("status", "/completion", 502, b"<html>bad gateway</html>"), ["HTTP 502", "Bad Gateway"]),
        (Fault("status", "/completion", 503), ["HTTP 503", "not ready"]),
        (Fault("status", "/completion", 302, headers={"Location": "http://x.test/"}), ["http://x.test/"]),
        (Fault("html", "/completion"), ["web page", "log in"]),
        (Fault("no_sse", "/completion"), ["application/json"]),
        (Fault("no_json", "/completion"), ["certainly!"]),
        (Fault("error_event", "/completion"), ["Context size has been exceeded"]),
        (Fault("cut", "/completion"), ["ended the connection in the middle"]),
        (Fault("stall", "/completion"), ["stopped sending", "0.3 s"]),
        (Fault("comments", "/completion"), ["stopped sending", "0.3 s"]),
        (Fault("silent", "/completion"), ["without an answer"]),
    ],
    ids=lambda value: f"{value.kind}-{value.status}" if isinstance(value, Fault) else "",
)
@pytest.mark.parametrize("chunked", [True, False])
def test_each_fault_has_its_words(standin: ServerStandIn, fault: Fault, words: Sequence[str], chunked: bool) -> None:
    found = endpoint(standin)
    standin.chunked = chunked
    standin.faults.append(Fault(fault.kind, fault.path, fault.status, fault.body, fault.headers))
    text = refused(lambda: asked(found, times=3, workers=2))
    for word in words:
        assert word in text


def test_a_stream_without_its_last_event_is_cut() -> None:
    with served(llama=False, chunked=False, usage=False) as server:
        found = endpoint(server)
        server.faults.append(Fault("cut", "/v1/chat"))
        assert "without its last event" in refused(lambda: asked(found))


def test_a_web_page_where_a_server_should_be(standin: ServerStandIn) -> None:
    standin.faults.append(Fault("html"))
    assert "a proxy or login page" in refused(lambda: endpoint(standin))


def test_a_status_travels_with_the_error(standin: ServerStandIn) -> None:
    found = endpoint(standin)
    standin.faults.append(Fault("status", "/completion", 418))
    with pytest.raises(ServerError) as error:
        asked(found)
    assert error.value.status == 418


def test_arrivals_of_one_pass_are_one_burst() -> None:
    assert bursts([(1.0, 1), (1.0001, 2), (1.1, 1), (1.105, 1), (1.2, 3), (1.2, 0)]) == (
        Burst(1.0, 3),
        Burst(1.1, 2),
        Burst(1.2, 3),
    )
    assert bursts([]) == ()


@given(st.lists(st.tuples(st.floats(0, 9), st.integers(0, 3)), max_size=9), st.integers(0, 50))
def test_every_token_arrives_once(arrivals: list[tuple[float, int]], n_tokens: int) -> None:
    shared = spread_over(arrivals, n_tokens)
    assert [at for at, _ in shared] == [at for at, _ in arrivals]
    if any(n for _, n in arrivals):
        assert sum(n for _, n in shared) == n_tokens


def _last(**timings: Any) -> dict[str, Any]:
    usual = {"prompt_n": 3, "prompt_ms": 1.0, "predicted_n": N, "predicted_ms": 10.0}
    return {"content": "", "stop": True, "timings": usual | timings}


def _choice(**found: Any) -> dict[str, Any]:
    return {"choices": [{"delta": {"content": "a"}, "finish_reason": "length"}], **found}


@pytest.mark.parametrize(
    ("llama", "event", "words"),
    [
        (True, _last(predicted_ms="x"), 'predicted_ms is "x"'),
        (True, _last(predicted_ms=float("nan")), "predicted_ms is NaN"),
        (True, _last(prompt_ms=None), "prompt_ms is null"),
        (True, _last(predicted_n=-5), "predicted_n is -5"),
        (True, _last(predicted_n=10**400), "predicted_n is 1000"),
        (True, {"content": "a", "timings": [1]}, "timings is [1]"),
        (True, {"content": "a", "tokens": ["x"]}, 'tokens is ["x"]'),
        (False, {"choices": "abc"}, 'choices is "abc"'),
        (False, {"choices": [{"delta": "x"}]}, 'delta is "x"'),
        (False, _choice(usage=[1]), "usage is [1]"),
        (False, _choice(usage={"completion_tokens": "x"}), 'completion_tokens is "x"'),
        (False, _choice(usage={"completion_tokens": 1, "prompt_tokens_details": [1]}), "prompt_tokens_details is [1]"),
    ],
)
def test_figures_that_no_server_can_mean_are_named(llama: bool, event: dict[str, Any], words: str) -> None:
    with served(llama=llama) as server:
        found = endpoint(server)
        server.events = [event]
        assert f"Its {words}" in refused(lambda: asked(found))


def test_an_address_is_spelled_as_it_can_be_sent() -> None:
    assert address("http://h:0").shown == "http://h:0"
    assert address("http://h/ä b/").shown == "http://h/%C3%A4%20b"
