"""Plain decoding and what is measured beside it: the options of each, what each needs, and whether all fit at once."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from specdec_cli import drafters, gate
from specdec_cli.bench.results import EXACT, PLAIN
from specdec_cli.options import SessionOptions
from specdec_cli.pairing.planned import Plan


@dataclass(frozen=True, slots=True)
class Variant:
    """A way to decode that is measured."""

    name: str
    options: SessionOptions


class _Deaf:
    """Listens to a plan that is made only to be looked at; the session says the same again."""

    def notice(self, sentence: str, /) -> None: ...

    def progress(self, label: str, fraction: float | None, /) -> None: ...


def variants(drafted: Sequence[SessionOptions]) -> list[Variant]:
    """Plain decoding, and each of the others under a short name of its own.

    The plain variant loads no draft, and its passes hold no row more than plain decoding needs. It is never exact: what
    exact passes cost is not to be hidden. So with --exact there is a second plain one, for the texts.
    """
    base = dataclasses.replace(drafted[0], drafters=(), draft=None, exact=False)
    found = [Variant(PLAIN, base)]
    if drafted[0].exact:
        found.append(Variant(EXACT, dataclasses.replace(base, exact=True)))
    drafting = [options for options in drafted if options.drafters and options.n_max > 0]
    n_with = Counter("+".join(options.drafters) for options in drafting)
    for options in drafting:
        name = "+".join(options.drafters)
        if n_with[name] > 1 and options.draft is not None:
            name = name.replace(drafters.MODEL, options.draft.path.stem)
        taken = {variant.name for variant in found}
        found.append(Variant(name if name not in taken else f"{name}-{len(found)}", options))
    return found


def plans(found: Iterable[Variant]) -> dict[str, Plan]:
    """What each variant needs by itself. Raises SpecdecError where one cannot run."""
    return {variant.name: gate.admit(variant.options, _Deaf()).plan for variant in found}


def fit_together(planned: Mapping[str, Plan]) -> bool:
    """Whether all variants can be in memory at once. They share the pages of the target's file."""
    each = list(planned.values())
    n_program = each[0].machine.n_program
    pages = [model for plan in each[:1] for model in plan.models] + [m for plan in each[1:] for m in plan.models[1:]]
    n_host = n_program + sum(plan.n_fixed - n_program for plan in each) + sum(m.n_host - m.n_host_fixed for m in pages)
    needed: Counter[str] = Counter()
    for plan in each:
        needed.update({gpu: n for gpu, (n, _) in plan.on_gpus.items()})
    free = {gpu: n for plan in each for gpu, (_, n) in plan.on_gpus.items()}
    return n_host <= each[0].n_free and all(needed[gpu] <= free[gpu] for gpu in needed)


def draft_files(found: Sequence[Variant]) -> dict[str, Path]:
    """The draft models by the role that a result file gives them: the first is the draft, others are named by their variant."""
    drafting = [variant for variant in found if variant.options.draft is not None]
    files: dict[str, Path] = {}
    for variant in drafting:
        assert variant.options.draft is not None
        files[f"draft of {variant.name}" if files else "draft"] = variant.options.draft.path
    return files
