"""The two languages that model servers speak: llama-server's own, with its timings, and OpenAI's chat completions."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from specdec_cli.bench.answers import Answer, Timings, bursts, spread_over
from specdec_cli.bench.transport import Connection, ServerError, Stream
from specdec_cli.bench.workloads import Prepared
from specdec_cli.decoding.contracts import FinishReason, SamplingParams

_LLAMA_FINISH = {"eos": FinishReason.END, "word": FinishReason.STOP, "limit": FinishReason.LENGTH}
_OPENAI_FINISH = {"stop": FinishReason.END, "length": FinishReason.LENGTH}
# The order of the processed distribution of specdec. What is not named here is off.
_SAMPLERS = ("penalties", "top_k", "top_p", "min_p", "temperature")
_MOST = 1 << 31  # more tokens, or milliseconds, than a run can have
_LONG = 8000  # characters of a prompt that may have to be cut


@dataclass(frozen=True, slots=True)
class Request:
    """A request that only has to be sent."""

    path: str
    body: Mapping[str, Any]
    n_prompt: int | None


@dataclass(frozen=True, slots=True)
class About:
    """What a server tells about itself."""

    kind: str  # llama-server, OpenAI
    model: str | None
    path: str | None  # of the model's file, on the server's machine
    build: str | None
    n_ctx: int | None  # of one request
    n_slots: int | None  # requests that it works on at a time


class Dialect(Protocol):
    """How a server is asked, and how its answers are read."""

    @property
    def about(self) -> About: ...

    def encode(self, connection: Connection, prompt: str, system: str | None, *, raw: bool) -> tuple[int, ...]:
        """The ids of a prompt; none where the server does not tell them."""

    def request(self, work: Prepared, params: SamplingParams) -> Request: ...

    def measure(self, connection: Connection, request: Request) -> Answer: ...


@dataclass(frozen=True, slots=True)
class LlamaServer:
    """POST /completion with the prompt's token ids: rendered and tokenised by the server itself, before the clock runs."""

    about: About

    def encode(self, connection: Connection, prompt: str, system: str | None, *, raw: bool) -> tuple[int, ...]:
        text = prompt
        if not raw:
            found = connection.ask("/apply-template", {"messages": _messages(prompt, system)})
            text = _field(connection, found, "prompt", str)
        # As specdec does it: special tokens are read, and a start token is added where the model asks for one.
        asked = {"content": text, "add_special": True, "parse_special": True}
        return tuple(_field(connection, connection.ask("/tokenize", asked), "tokens", list))

    def request(self, work: Prepared, params: SamplingParams) -> Request:
        body = {
            "prompt": list(work.prompt),
            "n_predict": work.task.n_predict,
            "stream": True,
            "cache_prompt": False,
            "ignore_eos": True,
            "return_tokens": True,
            "timings_per_token": True,  # says how many tokens a piece holds
            **_llama_sampling(params),
        }
        return Request("/completion", body, len(work.prompt))

    def measure(self, connection: Connection, request: Request) -> Answer:
        stream = connection.stream(request.path, request.body)
        text: list[str] = []
        tokens: list[int] = []
        arrivals: list[tuple[float, int]] = []
        n_seen, end = 0, stream.sent
        last: Mapping[str, Any] | None = None
        for now, event in _documents(connection, stream):
            text.append(str(event.get("content") or ""))
            tokens += _tokens(connection, event)
            if event.get("stop"):
                last, end = event, now
                continue
            n_total = _count(connection, _object(connection, event, "timings"), "predicted_n")
            if n_total is None:
                n_total = n_seen + (1 if event.get("content") else 0)
            arrivals.append((now - stream.sent, n_total - n_seen))
            n_seen = n_total
        if last is None:
            raise connection.cut()
        return self._ended(connection, last, request, "".join(text), tokens, arrivals, stream.sent, end)

    def _ended(
        self,
        connection: Connection,
        event: Mapping[str, Any],
        request: Request,
        text: str,
        tokens: list[int],
        arrivals: list[tuple[float, int]],
        sent: float,
        end: float,
    ) -> Answer:
        timings = _timings(connection, event)
        n_tokens = timings.predicted_n if timings else _count(connection, event, "tokens_predicted")
        if n_tokens is None:
            n_tokens = sum(n for _, n in arrivals)
        arrivals.append((end - sent, n_tokens - sum(n for _, n in arrivals)))  # a last token that was held back
        finish = FinishReason.CONTEXT if event.get("truncated") else _LLAMA_FINISH.get(str(event.get("stop_type")))
        return Answer(
            text=text,
            tokens=tuple(tokens) if len(tokens) == n_tokens else None,
            n_prompt=request.n_prompt,
            n_cached=_count(connection, _object(connection, event, "timings"), "cache_n") or 0,
            n_tokens=n_tokens,
            counted=True,
            bursts=bursts(arrivals),
            finish=finish or FinishReason.LENGTH,
            sent=sent,
            end=end,
            timings=timings,
        )


@dataclass(frozen=True, slots=True)
class OpenAi:
    """POST /v1/chat/completions. It has no timings of its own, and the server applies the chat template."""

    about: About
    root: str  # before /chat/completions
    strict: bool = False  # it refuses what OpenAI's own interface does not have

    def encode(self, connection: Connection, prompt: str, system: str | None, *, raw: bool) -> tuple[int, ...]:
        """Which they are is not told. Of a long prompt it is told how many, for the price of a token: so many zeros."""
        if raw:
            raise ServerError(
                "--raw is not possible with this server.",
                "OpenAI's chat completions always use the model's chat template.",
                "Leave --raw out.",
            )
        if len(prompt) < _LONG:
            return ()
        body = {"messages": _messages(prompt, system), "max_tokens": 1, **self._model()}
        usage = _field(connection, connection.ask(f"{self.root}/chat/completions", body), "usage", dict)
        return (0,) * (_count(connection, usage, "prompt_tokens") or 0)

    def request(self, work: Prepared, params: SamplingParams) -> Request:
        body: dict[str, Any] = {
            "messages": _messages(work.text, work.system),
            "max_tokens": work.task.n_predict,
            "temperature": max(params.temperature, 0.0),
            "top_p": params.top_p,
            "presence_penalty": params.presence_penalty,
            "frequency_penalty": params.frequency_penalty,
            "seed": params.seed % (1 << 31),
            "stream": True,
            "stream_options": {"include_usage": True},
            **self._model(),
        }
        if not self.strict:
            body |= {"ignore_eos": True, "top_k": params.top_k, "min_p": params.min_p, "cache_prompt": False}
        return Request(f"{self.root}/chat/completions", body, None)

    def measure(self, connection: Connection, request: Request) -> Answer:
        stream = connection.stream(request.path, request.body)
        text: list[str] = []
        arrivals: list[tuple[float, int]] = []
        finish: str | None = None
        usage: Mapping[str, Any] = {}
        timings, end = None, stream.sent
        for now, event in _documents(connection, stream):
            usage = _object(connection, event, "usage") or usage
            timings = _timings(connection, event) or timings
            for choice in _objects(connection, event, "choices"):
                piece = _piece(_object(connection, choice, "delta"))
                text.append(piece)
                arrivals.append((now - stream.sent, 1 if piece else 0))
                finish = choice.get("finish_reason") or finish
                end = now
        if finish is None and not usage:
            raise connection.cut()
        n_pieces = sum(n for _, n in arrivals)
        n_tokens = _count(connection, usage, "completion_tokens")
        details = _object(connection, usage, "prompt_tokens_details")
        return Answer(
            text="".join(text),
            tokens=None,
            n_prompt=_count(connection, usage, "prompt_tokens"),
            n_cached=_count(connection, details, "cached_tokens") or 0,
            n_tokens=n_pieces if n_tokens is None else n_tokens,
            counted=n_tokens is not None,
            bursts=bursts(spread_over(arrivals, n_pieces if n_tokens is None else n_tokens)),
            finish=_OPENAI_FINISH.get(str(finish or "length"), FinishReason.END),
            sent=stream.sent,
            end=end,
            timings=timings,
        )

    def _model(self) -> dict[str, str]:
        return {"model": self.about.model} if self.about.model is not None else {}


def _messages(prompt: str, system: str | None) -> list[dict[str, str]]:
    first = [{"role": "system", "content": system}] if system is not None else []
    return [*first, {"role": "user", "content": prompt}]


def _llama_sampling(params: SamplingParams) -> dict[str, Any]:
    """Sampling by the same steps as specdec's. Greedy needs only the largest logit: nothing is sorted."""
    penalties = {
        "repeat_penalty": params.repeat_penalty,
        "repeat_last_n": params.repeat_last_n,
        "presence_penalty": params.presence_penalty,
        "frequency_penalty": params.frequency_penalty,
    }
    bias = [[token, False if value == float("-inf") else value] for token, value in params.logit_bias.items()]
    shared = {**penalties, "logit_bias": bias, "seed": params.seed % (1 << 32)}
    if params.greedy:
        samplers = ["penalties", "top_k"] if params.penalised else ["top_k"]
        return {**shared, "samplers": samplers, "top_k": 1, "temperature": 0.0}
    chosen = {"top_k": params.top_k, "top_p": params.top_p, "min_p": params.min_p, "temperature": params.temperature}
    return {**shared, **chosen, "samplers": list(_SAMPLERS)}


def _documents(connection: Connection, stream: Stream) -> Iterator[tuple[float, Mapping[str, Any]]]:
    """The events as JSON objects, up to the one that says that all have come. Raises ServerError for a fault among them."""
    for now, event in stream.events:
        if event.strip() == "[DONE]":
            continue  # read on: the connection is used again only when its answer has been read whole
        try:
            found = json.loads(event)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise connection.unreadable(event)
        if found.get("error"):
            raise connection.reported(found)
        yield now, found


def _timings(connection: Connection, event: Mapping[str, Any]) -> Timings | None:
    """llama-server's timings. Some OpenAI-compatible servers send them too."""
    found = _object(connection, event, "timings")
    prompt_n, predicted_n, drafted = (_count(connection, found, name) for name in ("prompt_n", "predicted_n", "draft_n"))
    if prompt_n is None or predicted_n is None or not {"prompt_ms", "predicted_ms"} <= set(found):
        return None
    return Timings(
        prompt_n=prompt_n,
        prompt_s=_milliseconds(connection, found, "prompt_ms") / 1000,
        predicted_n=predicted_n,
        predicted_s=_milliseconds(connection, found, "predicted_ms") / 1000,
        draft_n=drafted,
        draft_n_accepted=None if drafted is None else _count(connection, found, "draft_n_accepted") or 0,
    )


def _piece(delta: Mapping[str, Any]) -> str:
    """The text of a delta; what a model thinks is text that it wrote."""
    return "".join(str(delta.get(key) or "") for key in ("reasoning_content", "reasoning", "content"))


def _object(connection: Connection, found: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """An object in an answer; empty where there is none."""
    value = found.get(name)
    if not isinstance(value, dict | None):
        raise _strange(connection, name, value)
    return value or {}


def _objects(connection: Connection, found: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    """A list of objects in an answer; empty where there is none."""
    value = found.get(name) or []
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise _strange(connection, name, value)
    return value


def _tokens(connection: Connection, event: Mapping[str, Any]) -> list[int]:
    value = event.get("tokens") or []
    if not isinstance(value, list) or not all(type(each) is int and 0 <= each < _MOST for each in value):
        raise _strange(connection, "tokens", value)
    return value


def _count(connection: Connection, found: Mapping[str, Any], name: str) -> int | None:
    """A number of tokens in an answer; None where there is none."""
    value = found.get(name)
    if value is not None and not (type(value) is int and 0 <= value < _MOST):
        raise _strange(connection, name, value)
    return value


def _milliseconds(connection: Connection, found: Mapping[str, Any], name: str) -> float:
    value = found[name]
    if type(value) not in (int, float) or not 0 <= value < _MOST:
        raise _strange(connection, name, value)
    return float(value)


def _strange(connection: Connection, name: str, value: object) -> ServerError:
    """What to raise for a figure that no server can mean."""
    return ServerError(
        f"{connection.server.shown} answers as no model server does.",
        f"Its {name} is {connection.quoted(json.dumps(value))}.",
        "Update the server, or look at its log.",
    )


def _field(connection: Connection, found: Any, name: str, kind: type[Any]) -> Any:
    value = found.get(name) if isinstance(found, dict) else None
    if not isinstance(value, kind):
        raise ServerError(
            f"{connection.server.shown} answers as no llama-server does.", f"Its answer has no {name}.", "Update the server."
        )
    return value
