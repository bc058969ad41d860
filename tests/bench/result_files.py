"""Result files as a measurement would leave them, without one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from specdec_cli.bench.results import PLAIN, Clock, Machine, ModelFile, Results, Run, Task, text_sha256

TARGET = ModelFile("/models/t.gguf", 100, "a" * 64, "llama Q4_1")


def task(name: str, n_predict: int = 10) -> Task:
    return Task(name, "own", "", 5, text_sha256(None, name), n_predict, 0.0, 0)


def run(of: Task, variant: str, repeat: int, tps: float, tokens: Sequence[int], concurrency: int = 1) -> Run:
    return Run(
        task=of.name,
        variant=variant,
        repeat=repeat,
        order=0,
        n_prompt=of.n_prompt,
        n_tokens=of.n_predict,
        prompt_s=0.1,
        ttft_s=0.2,
        generation_s=(of.n_predict - 1) / tps,
        generation_tps=tps,
        prompt_tps=50.0,
        accepted=None if variant == PLAIN else 6,
        drafted=None if variant == PLAIN else 8,
        tokens=tuple(tokens),
        text_sha256=text_sha256(str(tokens)),
        concurrency=concurrency,
        client=Clock(0.0, of.n_predict / tps, None, tps, counted=True) if variant == "server" else None,
    )


def measured(
    label: str = "ours",
    speeds: dict[str, float] | None = None,
    tasks: Sequence[str] = ("a", "b"),
    levels: Sequence[int] = (1,),
    repeats: int = 3,
    tokens: Sequence[int] = range(10),
) -> Results:
    """speeds: tokens per second of each variant; repeats differ by one percent, loads divide it."""
    speeds = speeds or {PLAIN: 10.0, "model": 15.0}
    found = Results(
        label=label,
        created="2026-01-01T00:00:00+00:00",
        machine=Machine("Linux", "A processor", 2, 1 << 30, 0.0),
        build="b1",
        models={"target": TARGET},
        settings={"threads": "2"},
        tasks=tuple(task(name) for name in tasks),
        variants=tuple(speeds),
    )
    runs = [
        run(of, variant, repeat, tps * (1 + repeat / 100) / level, tokens, level)
        for of in found.tasks
        for variant, tps in speeds.items()
        for level in levels
        for repeat in range(repeats)
    ]
    return replace(found, runs=tuple(runs))
