"""The lines of a trace, as frozen records. Their fields are the keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from specdec_cli.bench.results import Machine, ModelFile
from specdec_cli.decoding.contracts import FinishReason, Kind, Why

SCHEMA = "specdec.trace/1"


class Line(StrEnum):
    """What a line is."""

    HEAD = "head"  # the first of a file
    RUN = "run"  # a generation begins
    ROUND = "round"
    END = "end"  # a generation is over
    CLOSED = "closed"  # the last of a file


@dataclass(frozen=True, slots=True)
class Head:
    """What all runs of the file share."""

    created: str  # ISO 8601, UTC
    version: str
    build: str | None
    machine: Machine
    models: Mapping[str, ModelFile]  # by role
    settings: Mapping[str, str]  # by name, as text


@dataclass(frozen=True, slots=True)
class RunLine:
    """One generation."""

    run: int
    n_prompt: int
    prompt_sha256: str  # of the prompt's tokens
    drafter: str
    rule: str
    temperature: float
    seed: int
    task: str | None = None  # of a benchmark
    variant: str | None = None
    repeat: int | None = None


@dataclass(frozen=True, slots=True)
class Drafted:
    """A draft token."""

    id: int
    text: str
    q: float  # of the distribution that it was drawn from; 1 where the drafter is deterministic
    peak: float | None  # what the drafter knew of its certainty before the draw
    p: float | None = None  # of the target's processed distribution; None: not judged
    rank: int | None = None  # among the target's logits; 1 is the largest
    softmax: float | None = None  # of the target's logits as they are; of the refused token alone
    special: bool = False


@dataclass(frozen=True, slots=True)
class Chosen:
    """The token that the target added."""

    id: int
    text: str
    p: float
    rank: int
    softmax: float | None  # None: nothing was drafted
    special: bool = False


@dataclass(frozen=True, slots=True)
class Cached:
    """Tokens in the caches after the round."""

    target: int
    draft: int | None = None


@dataclass(frozen=True, slots=True)
class RoundLine:
    """One round."""

    run: int
    index: int
    position: int
    drafter: str | None  # None: nothing was drafted
    asked: int  # the longest draft that was planned
    why: Why | None
    drafted: tuple[Drafted, ...]
    accepted: int
    kind: Kind
    chosen: Chosen | None
    gap: float | None  # between the two largest logits of the row that decided
    residual: float | None
    invalid: int
    emitted: tuple[int, ...]
    text: str
    width: int
    draft_s: float
    pass_s: float
    host_s: float
    at_s: float  # since the run began
    cache: Cached
    rss: int

    @property
    def refused(self) -> Drafted | None:
        return self.drafted[self.accepted] if self.accepted < len(self.drafted) else None


@dataclass(frozen=True, slots=True)
class EndLine:
    """The totals of a generation."""

    run: int
    finish: FinishReason | None  # None: an error ended it, or whoever read it went away
    rounds: int
    emitted: int
    drafted: int
    accepted: int
    prompt_s: float
    draft_s: float
    pass_s: float
    host_s: float
    generation_tps: float | None


@dataclass(frozen=True, slots=True)
class ClosedLine:
    """The file is complete."""

    runs: int
    rounds: int


AnyLine = Head | RunLine | RoundLine | EndLine | ClosedLine
KINDS: Mapping[Line, type[AnyLine]] = {
    Line.HEAD: Head,
    Line.RUN: RunLine,
    Line.ROUND: RoundLine,
    Line.END: EndLine,
    Line.CLOSED: ClosedLine,
}
LINES: Mapping[type[AnyLine], Line] = {kind: line for line, kind in KINDS.items()}
