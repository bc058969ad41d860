"""Compares two traces: whether they may be compared, the first emitted token that differs, and the sums of both."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest

from specdec_cli.tracing.form import AnyLine, RoundLine, RunLine
from specdec_cli.tracing.summary import Summary

_N_CONTEXT = 60  # characters before the difference
# Settings that decide the text. How it is drafted does not.
_DECISIVE = (
    "temp", "top_k", "top_p", "min_p", "repeat_penalty", "repeat_last_n", "presence_penalty", "frequency_penalty",
    "logit_bias", "grammar", "grammar_file", "json_schema", "json_schema_file", "lora", "lora_scaled", "override_kv",
    "ignore_eos", "stop",
)  # fmt: skip
_IN_SHORT = 12  # digits of a hash


@dataclass(frozen=True, slots=True)
class Token:
    """An emitted token."""

    id: int
    text: str
    position: int
    round: int
    source: str  # accepted, recovered, bonus


@dataclass(frozen=True, slots=True)
class Difference:
    """The first emitted token that differs."""

    run: int
    index: int  # among the emitted tokens of the run
    context: str
    a: Token | None  # None: the run had ended
    b: Token | None


def unequal(a: Summary, b: Summary) -> list[str]:
    """Why two traces cannot be compared token by token; nothing where they can."""
    found = []
    hashes = [(each.head.models["target"].sha256 or "") if "target" in each.head.models else "" for each in (a, b)]
    if hashes[0] != hashes[1]:
        found.append(f"The targets differ: {hashes[0][:_IN_SHORT] or 'none'} and {hashes[1][:_IN_SHORT] or 'none'}.")
    if len(a.runs) != len(b.runs):
        found.append(f"They hold {len(a.runs)} and {len(b.runs)} runs.")
    elif prompts := [i for i, (x, y) in enumerate(zip(a.runs, b.runs, strict=True)) if x.prompt_sha256 != y.prompt_sha256]:
        where = f" of run {prompts[0]}" if len(a.runs) > 1 else ""
        x, y = a.runs[prompts[0]], b.runs[prompts[0]]
        found.append(f"The prompts{where} differ ({x.n_prompt} and {y.n_prompt} tokens).")
    found += [f"{name} is {x or 'not set'} and {y or 'not set'}." for name, x, y in _settings(a.head.settings, b.head.settings)]
    if a.runs and b.runs and a.runs[0].temperature > 0 and a.runs[0].seed != b.runs[0].seed:
        found.append(f"The seeds differ: {a.runs[0].seed} and {b.runs[0].seed}.")
    return found


def draws_anew(a: Summary, b: Summary) -> bool:
    """Whether the texts differ by the nature of the rule."""
    return any(run.rule == "reject" and run.temperature > 0 for run in (*a.runs, *b.runs))


def first_difference(a: Iterable[AnyLine], b: Iterable[AnyLine]) -> Difference | None:
    """The first place at which the emitted tokens of two traces differ. Reads no further than it has to."""
    context, run, index = "", 0, 0
    for x, y in zip_longest(_emitted(a), _emitted(b)):
        here = max(each[0] for each in (x, y) if each is not None)
        if x is not None and y is not None and x[0] != y[0]:  # one of the runs has ended
            here = min(x[0], y[0])
            x, y = (x if x[0] == here else None), (y if y[0] == here else None)
        if here != run:
            context, run, index = "", here, 0
        if x is None or y is None or x[1].id != y[1].id:
            return Difference(here, index, context, x[1] if x else None, y[1] if y else None)
        context = (context + x[1].text)[-_N_CONTEXT:]
        index += 1
    return None


def _emitted(lines: Iterable[AnyLine]) -> Iterator[tuple[int, Token]]:
    """Each emitted token with its run's number among those of the file."""
    run = -1
    for line in lines:
        run += isinstance(line, RunLine)
        if not isinstance(line, RoundLine):
            continue
        for i, token in enumerate(line.emitted):
            if i < line.accepted:
                text, source = line.drafted[i].text, "accepted"
            else:
                text = line.chosen.text if line.chosen is not None else ""
                source = line.kind.value if line.drafted else "no draft"
            yield max(run, 0), Token(token, text, line.position + i, line.index, source)


def _settings(a: Mapping[str, str], b: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    for name in _DECISIVE:
        if a.get(name, "") != b.get(name, ""):
            yield name, a.get(name, ""), b.get(name, "")
