"""Traces that no run has written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from specdec_cli.bench.results import Machine, ModelFile
from specdec_cli.decoding.contracts import FinishReason, Kind, Reason, Why
from specdec_cli.tracing.form import AnyLine, Cached, Chosen, Drafted, EndLine, Head, RoundLine, RunLine
from specdec_cli.tracing.writing import create

PAYS = Why(Reason.PAYS, 80.0, 4, 2.5, 0.02)
NO_GAIN = Why(Reason.NO_GAIN, 80.0, 1, 1.2, 0.03)


def head(sha256: str = "a" * 64, **settings: str) -> Head:
    return Head(
        "2030-01-01T00:00:00+00:00",
        "1.0",
        "llama",
        Machine(cpu="Some CPU"),
        {"target": ModelFile("/models/t.gguf", 1, sha256, "llama Q4_1")},
        {"draft": "ngram", "temp": "0", **settings},
    )


def run_line(run: int = 0, prompt: str = "p", **changes: object) -> RunLine:
    line = {"n_prompt": 8, "drafter": "ngram", "rule": "match", "temperature": 0.0, "seed": 0} | changes
    return RunLine(run=run, prompt_sha256=prompt, **line)  # type: ignore[arg-type]


def round_line(
    index: int,
    drafted: Sequence[str] = (),
    accepted: int = 0,
    added: str | None = "x",
    *,
    run: int = 0,
    why: Why | None = PAYS,
    peaks: Sequence[float] = (),
    special: bool = False,
) -> RoundLine:
    """A round of 30 ms. Ids of tokens follow from their texts; special: the first draft token."""
    tokens = tuple(
        Drafted(
            id=ident(text),
            text=text,
            q=1.0,
            peak=peaks[i] if i < len(peaks) else 0.5,
            p=(1.0 if i < accepted else 0.0) if i <= accepted else None,
            rank=(1 if i < accepted else 3) if i <= accepted else None,
            softmax=0.2 if i == accepted else None,
            special=special and i == 0,
        )
        for i, text in enumerate(drafted)
    )
    chosen = Chosen(ident(added), added, 1.0, 1, 0.6) if added is not None else None
    emitted = [ident(text) for text in drafted[:accepted]] + ([chosen.id] if chosen is not None else [])
    return RoundLine(
        run=run,
        index=index,
        position=8 + index,
        drafter="ngram" if drafted else None,
        asked=4,
        why=why,
        drafted=tokens,
        accepted=accepted,
        kind=Kind.RECOVERED if accepted < len(drafted) else Kind.BONUS,
        chosen=chosen,
        gap=0.5,
        residual=None,
        invalid=0,
        emitted=tuple(emitted),
        text="".join([*drafted[:accepted], added or ""]),
        width=1 + len(drafted),
        draft_s=0.005,
        pass_s=0.02,
        host_s=0.005,
        at_s=0.1 + 0.03 * index,
        cache=Cached(8 + index),
        rss=100_000_000,
    )


def end_line(run: int = 0) -> EndLine:
    return EndLine(run, FinishReason.LENGTH, 1, 1, 0, 0, 0.1, 0.0, 0.1, 0.0, None)


def ident(text: str) -> int:
    return sum(ord(char) << i for i, char in enumerate(text)) % 50_000


def deaf(sentence: str) -> None:
    """Hears nothing."""


def written(path: Path, lines: Iterable[AnyLine]) -> Path:
    """A complete file of these lines."""
    with create(path, deaf) as trace:
        for line in lines:
            trace.write(line)
    return path


def a_trace() -> list[AnyLine]:
    """A run of three rounds: one plain, one with a refusal, one accepted whole."""
    return [
        head(),
        run_line(),
        round_line(0, why=NO_GAIN, added="One"),
        round_line(1, [",", " two", " 3"], 1, " too"),
        round_line(2, [" and", "\n"], 2, "end"),
        end_line(),
    ]
