"""Measures a model server with the same work as specdec's own runs, at several loads, into the same result file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path

from specdec_cli import cache
from specdec_cli.bench.answers import Answer
from specdec_cli.bench.client import Endpoint, run_level
from specdec_cli.bench.dialects import Request
from specdec_cli.bench.machine import this_machine
from specdec_cli.bench.results import (
    Clock,
    Machine,
    ModelFile,
    Results,
    Run,
    text_sha256,
    tokens_sha256,
)
from specdec_cli.bench.workloads import Prepared

VARIANT = "server"  # its runs, in its result file

_NOTABLE_S = 0.5  # less may be the connection, or this machine being busy
_UNLIMITED = 1 << 24  # tokens, where the server does not tell its context


Keep = Callable[[Results], None]  # is handed the results as often as there are more
Progress = Callable[[str, float | None], None]  # is told what goes on, and how far it is


@dataclass(frozen=True, slots=True)
class Load:
    """How often the list of tasks is run at each of the levels: requests at a time."""

    levels: tuple[int, ...]
    repeats: int


@dataclass(frozen=True, slots=True)
class Block:
    """The list of tasks, once."""

    repeat: int
    concurrency: int


def n_room(endpoint: Endpoint) -> int:
    """Tokens that prompt and output may hold together."""
    return endpoint.about.n_ctx or _UNLIMITED


def fresh(endpoint: Endpoint, label: str, work: Sequence[Prepared], settings: Mapping[str, str]) -> Results:
    """The result file of a server, before its first run."""
    about = endpoint.about
    here = _is_here(endpoint.server.host)
    # Zero tokens of prompt: how many there are was not told, and stays unknown.
    tasks = tuple(each.task if each.prompt else replace(each.task, n_prompt=None) for each in work)
    return Results(
        label=label,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        machine=this_machine() if here else Machine(),
        build=" ".join(part for part in (about.kind, about.build) if part),
        models={"target": _model_file(about.path if here else None, about.model)},
        settings=settings,
        tasks=tasks,
        variants=(VARIANT,),
    )


def notices(endpoint: Endpoint, levels: Sequence[int]) -> list[str]:
    """What a person should know before it is measured."""
    found = list(endpoint.notices)
    n_slots = endpoint.about.n_slots
    if n_slots is not None and max(levels) > n_slots:
        found.append(
            f"The server works on {n_slots} at a time: of {max(levels)} requests, the others wait"
            f" (llama-server -np {max(levels)})."
        )
    if endpoint.about.kind == "OpenAI":
        found.append("The server tells no timings of its own: all times are those of this side's clock.")
    return found


def doubts(results: Results) -> Iterator[str]:
    """What should be known of the runs that were made: work that was not what was asked for, timings that cannot be."""
    asked = {task.name: task.n_predict for task in results.tasks}
    other = list(dict.fromkeys(run.task for run in results.runs if run.n_tokens != asked[run.task]))
    if other:
        first = next(run for run in results.runs if run.task == other[0] and run.n_tokens != asked[run.task])
        yield (
            f"The server did not write as many tokens as were asked for ({', '.join(other)}):"
            f" {first.n_tokens} in the place of {asked[first.task]}."
        )
    for run in results.runs:
        told_s, seen_s = run.generation_s, run.client.generation_s if run.client is not None else None
        if told_s is not None and seen_s is not None and seen_s > max(2 * told_s, _NOTABLE_S):
            yield (
                f"The server says that {run.task} took {told_s:.2f} s; by this side's clock its tokens came over"
                f" {seen_s:.2f} s. The rates are the server's own."
            )
            return


def measure(
    endpoint: Endpoint, requests: Sequence[Request], results: Results, load: Load, keep: Keep, progress: Progress
) -> Results:
    """The results with the runs that they lacked. requests: one for each task of the results, in their order.

    A block that was not finished is done again as a whole: its load would not be the same with fewer requests.
    """
    tasks = [task.name for task in results.tasks]
    blocks = [Block(repeat, level) for repeat in range(load.repeats) for level in load.levels[:: -1 if repeat % 2 else 1]]
    for i, block in enumerate(blocks):
        wanted = {(task, VARIANT, block.repeat, block.concurrency) for task in tasks}
        if wanted <= results.done():
            continue
        at_a_time = f", {block.concurrency} at a time" if max(load.levels) > 1 else ""
        progress(f"{results.label}, round {i + 1} of {len(blocks)}{at_a_time}:", i / len(blocks))
        answers = run_level(endpoint, requests, block.concurrency)
        kept = tuple(run for run in results.runs if run.key not in wanted)
        results = replace(results, runs=(*kept, *_runs(tasks, answers, block, len(kept))))
        keep(results)
    return results


def _runs(tasks: Sequence[str], answers: Sequence[Answer], block: Block, order: int) -> list[Run]:
    start = min(answer.sent for answer in answers)
    by_start = sorted(range(len(answers)), key=lambda index: answers[index].sent)
    places = {index: place for place, index in enumerate(by_start)}
    return [
        _run(task, answer, block, order + places[index], start)
        for index, (task, answer) in enumerate(zip(tasks, answers, strict=True))
    ]


def _run(task: str, answer: Answer, block: Block, order: int, start: float) -> Run:
    """The server's own timings where it has some, this side's clock elsewhere; TTFT and waits always by this side's clock."""
    timings = answer.timings
    prompt_s = generation_s = prompt_tps = None
    generation_tps = answer.generation_tps
    if timings is not None:
        prompt_s, generation_s = timings.prompt_s, timings.predicted_s
        prompt_tps = timings.prompt_n / prompt_s if prompt_s > 0 else None
        n_after_first = timings.predicted_n - 1
        generation_tps = n_after_first / generation_s if generation_s > 0 and n_after_first > 0 else None
    else:
        generation_s = answer.generation_s
    return Run(
        task=task,
        variant=VARIANT,
        repeat=block.repeat,
        order=order,
        n_prompt=answer.n_prompt,
        n_tokens=answer.n_tokens,
        prompt_s=prompt_s,
        ttft_s=answer.ttft_s,
        generation_s=generation_s,
        generation_tps=generation_tps,
        prompt_tps=prompt_tps,
        itl_s=answer.itl_s,
        accepted=timings.draft_n_accepted if timings is not None else None,
        drafted=timings.draft_n if timings is not None else None,
        tokens=answer.tokens or (),
        tokens_sha256=tokens_sha256(answer.tokens) if answer.tokens is not None else None,
        text_sha256=text_sha256(answer.text),
        finish=answer.finish,
        concurrency=block.concurrency,
        client=Clock(
            start_s=answer.sent - start,
            end_s=answer.end - start,
            generation_s=answer.generation_s,
            generation_tps=answer.generation_tps,
            counted=answer.counted,
        ),
    )


def _model_file(path: str | None, description: str | None) -> ModelFile:
    """The model behind a server. Of one on this machine the file itself can be looked at."""
    if path is None or not Path(path).is_file():
        return ModelFile(description=description)
    file = Path(path)
    return ModelFile(file.name, file.stat().st_size, cache.file_hash(file), description if description != path else None)


def _is_here(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
