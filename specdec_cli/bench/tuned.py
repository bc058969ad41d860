"""What tune found: the figures of every candidate, the verdict in a sentence, and how it becomes a JSON document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specdec_cli.bench.curve import Cost
from specdec_cli.bench.elsewhere import Command
from specdec_cli.bench.records import BadRecord, from_json, to_json
from specdec_cli.bench.results import PLAIN, Machine, Ratio, Spread
from specdec_cli.bench.statistics import Outcome, outcome, spread
from specdec_cli.bench.tuning import Search
from specdec_cli.bench.verdict import shown
from specdec_cli.bench.ways import Way
from specdec_cli.errors import UsageError

SCHEMA = "specdec.tune/1"


@dataclass(frozen=True, slots=True)
class Model:
    """A model that was measured."""

    name: str
    path: str
    bytes: int
    step_s: float | None = None  # of a draft: what one row of it takes


@dataclass(frozen=True, slots=True)
class Standing:
    """A candidate, and how it did. draft, draft_max and draft_fixed are the flags' values."""

    name: str
    draft: str
    draft_max: int | None
    draft_fixed: int | None
    n_runs: int = 0
    tokens_per_s: Spread | None = None
    ratio: Ratio | None = None  # to plain decoding, with its 95 % interval; None for plain decoding itself
    paired: Spread | None = None  # of the ratios that it is made of
    round: int | None = None  # that it left in, from 1; None: it stayed to the end, or was never compared
    draft_length: float | None = None  # tokens of a draft on average


@dataclass(frozen=True, slots=True)
class LeftOut:
    name: str
    sentence: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer."""

    sentence: str
    best: str | None  # the name of a candidate, plain decoding among them; None where nothing was compared
    speedup: Ratio | None  # of the best one that drafts


@dataclass(frozen=True, slots=True)
class Profile:
    name: str
    path: str


@dataclass(frozen=True, slots=True)
class Tuned:
    """All of it."""

    created: str  # ISO 8601, UTC
    machine: Machine
    build: str | None
    target: Model
    drafts: tuple[Model, ...]
    tasks: tuple[str, ...]
    temperature: float
    budget_s: float
    used_s: float
    complete: bool  # False: interrupted
    curve: tuple[Cost, ...]
    candidates: tuple[Standing, ...]  # plain decoding first, then the best first
    left_out: tuple[LeftOut, ...]
    verdict: Verdict
    profile: Profile | None = None
    commands: tuple[Command, ...] = ()


def document(tuned: Tuned) -> dict[str, object]:
    """As JSON's own types."""
    return {"schema": SCHEMA, **to_json(tuned)}


def checked(path: Path, found: Any) -> Tuned:
    """What tune found, from a file's JSON. Raises UsageError."""
    try:
        return from_json(Tuned, found, "the file")
    except BadRecord as bad:
        raise UsageError(f"The file {path} of specdec tune is damaged.", f"{bad}.", "Tune again, with --json.") from None


def standings(found: Search, ways: Sequence[Way]) -> tuple[Standing, ...]:
    """Plain decoding, and the candidates that ran: the best first, then those that left last."""
    by_name = {way.name: way for way in ways}
    left = sorted(found.out_in, key=lambda name: (-found.out_in[name], -_value(found.ratio(name))))
    rows = [Standing(PLAIN, "none", None, None, _n_runs(found, PLAIN), found.speed(PLAIN))]
    return (*rows, *(_standing(found, by_name[name]) for name in (*found.alive, *left)))


def judge(found: Search, ways: Sequence[Way]) -> Verdict:
    """Which one to use. No difference that the runs can tell counts as plain decoding's win: it is the simpler one."""
    best, ratio = found.best, found.verdict
    if best is None or ratio is None:
        return Verdict("Nothing was measured that could be compared.", None, None)
    n = len({trial.candidate for trial in found.trials} - {PLAIN})
    of = f"the best of {n} candidates, {best}," if n > 1 else f"the only candidate, {best},"
    figures = f"{shown(ratio)} as fast"
    match outcome(ratio) if ratio.low is not None else Outcome.EQUAL:  # one run tells nothing
        case Outcome.FASTER:
            way = next(way for way in ways if way.name == best)
            how = f" with drafts of {way.n_max} tokens" if way.fixed else f", with drafts as long as pays, up to {way.n_max}"
            return Verdict(f"Use {way.session}{how}: {figures} as plain decoding on these tasks.", best, ratio)
        case Outcome.SLOWER:
            return Verdict(f"Plain decoding wins here: {of} is {figures}.", PLAIN, ratio)
        case Outcome.EQUAL if ratio.low is None:
            said = f"Plain decoding it is: {of} ran once beside it, {figures}, which decides nothing. A longer --budget does."
            return Verdict(said, PLAIN, ratio)
        case Outcome.EQUAL:
            said = f"Plain decoding it is: {of} makes no difference that these runs can tell, {figures}."
            return Verdict(said, PLAIN, ratio)


def left_out(before: Mapping[str, str], found: Search) -> tuple[LeftOut, ...]:
    """What could not be measured, and why."""
    return tuple(LeftOut(name, sentence) for name, sentence in {**before, **found.failed}.items())


def draft_length(found: Search, name: str) -> float | None:
    """Tokens of a draft on average; None where there was none."""
    own = [trial for trial in found.trials if trial.candidate == name]
    n_drafts = sum(trial.n_drafts for trial in own)
    return sum(trial.n_drafted for trial in own) / n_drafts if n_drafts else None


def _standing(found: Search, way: Way) -> Standing:
    ratios = [ratio for each in found.pairs(way.name).values() for ratio in each]
    ratio = found.verdict if way.name == found.best else found.ratio(way.name)
    rung = found.out_in.get(way.name)
    return Standing(
        name=way.name,
        draft=way.draft,
        draft_max=None if way.fixed else way.n_max,
        draft_fixed=way.n_max if way.fixed else None,
        n_runs=_n_runs(found, way.name),
        tokens_per_s=found.speed(way.name),
        ratio=ratio,
        paired=spread(ratios),
        round=rung + 1 if rung is not None else None,
        draft_length=draft_length(found, way.name),
    )


def _n_runs(found: Search, name: str) -> int:
    return sum(trial.candidate == name for trial in found.trials)


def _value(ratio: Ratio | None) -> float:
    return ratio.value if ratio is not None else 0.0
