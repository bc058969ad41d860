"""Finds out what speaks at an address, waits until it is ready, and runs lists of work through it side by side."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from specdec_cli.bench.answers import Answer
from specdec_cli.bench.dialects import About, Dialect, LlamaServer, OpenAi, Request
from specdec_cli.bench.transport import PATIENT, Address, Connection, Limits, ServerError
from specdec_cli.bench.workloads import Prepared
from specdec_cli.decoding.contracts import SamplingParams
from specdec_cli.errors import UsageError

LOADING_S = 600.0  # a large model from a slow disk

_PAUSE_S = 0.5
_N_TRIAL = 8  # tokens
_WAKE_S = 0.2  # Ctrl-C is seen as often as that

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A server that is ready."""

    server: Address
    dialect: Dialect
    limits: Limits
    notices: tuple[str, ...] = ()

    @property
    def about(self) -> About:
        return self.dialect.about

    def encode(self, prompt: str, system: str | None, *, raw: bool = False) -> tuple[int, ...]:
        """The ids of a prompt as the server reads it; none where it does not tell them. Raises ServerError."""
        connection = Connection(self.server, self.limits)
        try:
            return self.dialect.encode(connection, prompt, system, raw=raw)
        finally:
            connection.close()


def find(
    server: Address, say: Say, model: str | None = None, limits: Limits = PATIENT, loading_s: float = LOADING_S
) -> Endpoint:
    """The server at an address, once its model is loaded. Raises ServerError.

    model: its name, for a server that has several. say: told when there is something to wait for.
    """
    connection = Connection(replace(server, path=server.path.removesuffix("/v1")), limits)
    try:
        found = _props(connection, say, loading_s)
        if found is not None:
            return Endpoint(connection.server, LlamaServer(_about_llama(found)), limits)
        return _open_ai(connection, model, limits)
    finally:
        connection.close()


def trial(endpoint: Endpoint, work: Prepared, params: SamplingParams) -> Endpoint:
    """A few tokens, as a warm-up; an OpenAI-compatible server that refuses what is not OpenAI's is asked in the strict way."""
    short = replace(work, task=replace(work.task, n_predict=min(_N_TRIAL, work.task.n_predict)))
    try:
        run_level(endpoint, [endpoint.dialect.request(short, params)], 1)
    except ServerError as error:
        dialect = endpoint.dialect
        if not isinstance(dialect, OpenAi) or dialect.strict or error.status not in (400, 422):
            raise
        note = "The server refuses ignore_eos and top_k: its answers may end early, and it may sample otherwise."
        strict = replace(endpoint, dialect=replace(dialect, strict=True), notices=(*endpoint.notices, note))
        return trial(strict, work, params)
    return endpoint


def run_level(endpoint: Endpoint, jobs: Sequence[Request], n_workers: int) -> list[Answer]:
    """The answers to the jobs, n_workers at a time, each with its own connection that is open before the clock runs.

    The first fault ends all of it. Raises ServerError, KeyboardInterrupt.
    """
    waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
    for index in range(len(jobs)):
        waiting.put(index)
    done: queue.SimpleQueue[tuple[int, Answer | BaseException]] = queue.SimpleQueue()
    connections = [Connection(endpoint.server, endpoint.limits) for _ in range(min(n_workers, len(jobs)))]
    stop = threading.Event()

    def work(connection: Connection) -> None:
        while not stop.is_set():
            try:
                index = waiting.get_nowait()
            except queue.Empty:
                return
            try:
                done.put((index, endpoint.dialect.measure(connection, jobs[index])))
            except Exception as error:
                done.put((index, error))
                return

    found: dict[int, Answer] = {}
    try:
        for connection in connections:
            connection.connect()
        for connection in connections:
            threading.Thread(target=work, args=(connection,), daemon=True).start()
        while len(found) < len(jobs):
            try:
                index, answer = done.get(timeout=_WAKE_S)
            except queue.Empty:
                continue
            if isinstance(answer, BaseException):
                raise answer
            found[index] = answer
    finally:
        stop.set()
        for connection in connections:
            connection.close()
    return [found[index] for index in range(len(jobs))]


def throughput(answers: Sequence[Answer]) -> float | None:
    """Tokens of all answers, per second from the first request to the last token."""
    if not answers:
        return None
    seconds = max(answer.end for answer in answers) - min(answer.sent for answer in answers)
    return sum(answer.n_tokens for answer in answers) / seconds if seconds > 0 else None


def _props(connection: Connection, say: Say, loading_s: float) -> dict[str, Any] | None:
    """What llama-server tells about itself; None where something else answers."""
    until, waits = time.monotonic() + loading_s, False
    while True:
        try:
            found = connection.ask("/props")
        except ServerError as error:
            if error.status == 503 and time.monotonic() < until:
                if not waits:
                    say(f"Waiting for {connection.server.shown} to load its model.")
                waits = True
                time.sleep(_PAUSE_S)
                continue
            if error.status in (0, 401, 403, 503):
                raise
            return None
        known = isinstance(found, dict) and ("default_generation_settings" in found or "build_info" in found)
        return found if known else None


def _about_llama(props: dict[str, Any]) -> About:
    path = _text(props.get("model_path"))
    name = _text(props.get("model_alias")) or (path.replace("\\", "/").rpartition("/")[2] if path else None)
    settings = props.get("default_generation_settings")
    n_ctx = settings.get("n_ctx") if isinstance(settings, dict) else None
    return About("llama-server", name, path, _text(props.get("build_info")), _count(n_ctx), _count(props.get("total_slots")))


def _open_ai(connection: Connection, model: str | None, limits: Limits) -> Endpoint:
    """An OpenAI-compatible server, and which of its models answers."""
    root = "/v1" if not connection.server.path or connection.server.path.endswith("/api") else ""
    notices: list[str] = []
    names: list[str] = []
    try:
        found = connection.ask(f"{root}/models")
        listed = found.get("data") if isinstance(found, dict) else None
        names = [str(each.get("id")) for each in listed or [] if isinstance(each, dict)]
    except ServerError as error:
        if model is None or error.status not in (404, 405, 501):
            raise
    if model is None and len(names) != 1:
        some = f"It has {', '.join(names[:8])}{' and more' if len(names) > 8 else ''}." if names else "It lists none."
        raise UsageError(
            f"{connection.server.shown} does not say which model to measure.", some, "Name one with --served-model."
        )
    if model is not None and names and model not in names:
        notices.append(f"The server does not list the model {model}; it is asked for all the same.")
    about = About("OpenAI", model or names[0], None, None, None, None)
    return Endpoint(connection.server, OpenAi(about, root), limits, tuple(notices))


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and value > 0 else None
