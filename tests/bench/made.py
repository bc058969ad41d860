"""Results made up for tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from specdec_cli.bench.results import PLAIN, Difference, Machine, ModelFile, Results, Run, Task, tokens_sha256
from specdec_cli.bench.statistics import summarised


def task(name: str = "a", prompt_sha256: str = "f" * 64) -> Task:
    return Task(name, "code", "Python", 12, prompt_sha256, 16, 0.0, 0)


def run(
    task: str = "a", variant: str = PLAIN, repeat: int = 0, tps: float = 10.0, tokens: Sequence[int] = (1, 2, 3), order: int = 0
) -> Run:
    drafting = variant != PLAIN
    return Run(
        task=task,
        variant=variant,
        repeat=repeat,
        order=order,
        n_prompt=12,
        n_tokens=len(tokens),
        prompt_s=0.5,
        ttft_s=0.6,
        generation_s=len(tokens) / tps,
        generation_tps=tps,
        prompt_tps=24.0,
        itl_s=((0.1, 1), (0.2, 1), (0.4, 2)),
        accepted=6 if drafting else 0,
        drafted=8 if drafting else 0,
        rounds=4,
        drafters={variant: 4} if drafting else {},
        draft_s=0.1,
        pass_s=0.8,
        host_s=0.01,
        peak_bytes=300_000_000,
        tokens=tuple(tokens),
        tokens_sha256=tokens_sha256(tokens),
        text_sha256="0" * 64,
        finish="length",
    )


def results(
    rates: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    *,
    differences: Sequence[Difference] = (),
    variant: str = "ngram",
    planned: Mapping[str, int] | None = None,
) -> Results:
    """Results with, for each task, tokens per second of the plain and of the drafted run of each repeat."""
    runs = []
    for name, (plain, drafted) in rates.items():
        runs += [run(name, PLAIN, i, tps) for i, tps in enumerate(plain)]
        runs += [run(name, variant, i, tps) for i, tps in enumerate(drafted)]
    made = Results(
        label="made up",
        created="2030-01-01T00:00:00+00:00",
        machine=Machine("System 1", "Processor 2", 4, 16_000_000_000, 0.1),
        build="build 3",
        models={"target": ModelFile("target.gguf", 1000, "a" * 64, "llama Q4_1")},
        settings={"temp": "0", "draft_max": "16"},
        tasks=tuple(map(task, rates)),
        variants=(PLAIN, variant),
        runs=tuple(runs),
        differences=tuple(differences),
        planned_bytes=planned or {PLAIN: 100_000_000, variant: 200_000_000},
    )
    return replace(made, summaries=summarised(made))
