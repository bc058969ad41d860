"""What a verification found, as frozen records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

SCHEMA = "specdec.verify/1"
ALPHA = 1e-4  # the chance that a run without a fault raises an alarm, all its statistical tests together


class State(StrEnum):
    SOUND = "sound"
    FAULT = "fault"
    UNSEEN = "unseen"  # too little was seen to say anything


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that may not be. Each kind is kept once, with how often it was seen."""

    what: str
    where: str  # the prompt, the rule, the place
    n: int = 1


@dataclass(frozen=True, slots=True)
class Difference:
    """A greedy text that is not the plain one, and why."""

    prompt: str
    length: str  # of the drafts
    index: int  # of the first token that differs
    cause: str  # rounding or fault
    gap: float  # between the two largest logits there
    noise: float  # the largest difference of that row from one of width 1


@dataclass(frozen=True, slots=True)
class Statistic:
    """One statistical test."""

    name: str
    rule: str
    n: int  # draws
    distance: float  # of what was drawn from what ought to be
    p_value: float
    sees: float  # the distance from which it raises an alarm
    alarm: bool


@dataclass(frozen=True, slots=True)
class Position:
    """Acceptance at one place of the drafts."""

    rule: str
    index: int
    n: int  # tokens judged there
    measured: float
    predicted: float  # what p and q say


@dataclass(frozen=True, slots=True)
class SamePrefix:
    """Many runs from one prefix, beside draws from the target's own law there."""

    rule: str
    prefix: str
    n: int
    chi_square: float
    dof: int
    p_value: float
    total_variation: float  # of the first token's law
    alarm: bool


@dataclass(frozen=True, slots=True)
class Check:
    """One of the checks, and what it says."""

    name: str
    state: State
    sentence: str
    faults: tuple[Fault, ...] = ()
    counts: Mapping[str, float] = field(default_factory=dict)
    differences: tuple[Difference, ...] = ()
    tests: tuple[Statistic, ...] = ()
    positions: tuple[Position, ...] = ()
    prefixes: tuple[SamePrefix, ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """All checks of a run."""

    created: str
    build: str
    models: Mapping[str, str]
    drafter: str
    temperatures: tuple[float, ...]
    seed: int
    budget_s: float
    used_s: float
    alpha: float
    complete: bool
    checks: tuple[Check, ...] = ()

    @property
    def sound(self) -> bool:
        """Whether every check was made, saw enough, and found nothing."""
        return self.complete and all(check.state is State.SOUND for check in self.checks)

    @property
    def faulty(self) -> bool:
        return any(check.state is State.FAULT for check in self.checks)


@dataclass(slots=True)
class Findings:
    """Faults as they are found, each kind once."""

    found: dict[str, Fault] = field(default_factory=dict)

    def add(self, what: str, where: str) -> None:
        before = self.found.get(what)
        self.found[what] = Fault(what, where) if before is None else Fault(what, before.where, before.n + 1)

    def all(self) -> tuple[Fault, ...]:
        return tuple(self.found.values())


def state(faults: Iterable[Fault], *, seen: bool, alarm: bool = False) -> State:
    """What a check may say: a fault where there is one, nothing where it saw nothing."""
    if alarm or any(True for _ in faults):
        return State.FAULT
    return State.SOUND if seen else State.UNSEEN


def verdict(report: Report) -> str:
    """The answer in a sentence."""
    faulty = [check.name for check in report.checks if check.state is State.FAULT]
    unseen = [check.name for check in report.checks if check.state is State.UNSEEN]
    if faulty:
        return f"FAULT: with {report.drafter} the output is not the target's own ({', '.join(faulty)})."
    if not report.complete:
        return "Interrupted: nothing wrong was found until then."
    if unseen:
        return f"No fault found, but there was too little to see of: {', '.join(unseen)}."
    return f"Sound: with {report.drafter} these files decode as the target alone, as far as this could see."
