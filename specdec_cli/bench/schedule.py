"""The order of the runs: variants in turn and in alternating order, so that a machine whose speed drifts is fair to all."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from specdec_cli.bench.results import Key


@dataclass(frozen=True, slots=True)
class Slot:
    """One run to be made."""

    task: str
    variant: str
    repeat: int
    order: int  # its place, from 0

    @property
    def key(self) -> Key:
        return (self.task, self.variant, self.repeat, 1)


def schedule(tasks: Sequence[str], variants: Sequence[str], repeats: int, *, together: bool = True) -> list[Slot]:
    """Every task with every variant, so many times.

    Of neighbouring tasks, and of one task from repeat to repeat, the order of the variants is reversed. together: all variants
    are loaded at once, and take turns at each task; else each takes its turn at all the tasks, so that it is loaded once a
    repeat.
    """
    cells: list[tuple[str, str, int]] = []
    for repeat in range(repeats):
        if together:
            for i, task in enumerate(tasks):
                cells += [(task, variant, repeat) for variant in _turned(variants, repeat + i)]
        else:
            cells += [(task, variant, repeat) for variant in _turned(variants, repeat) for task in tasks]
    return [Slot(task, variant, repeat, order) for order, (task, variant, repeat) in enumerate(cells)]


def remaining(slots: Sequence[Slot], done: Collection[Key]) -> list[Slot]:
    """What is still to be made."""
    return [slot for slot in slots if slot.key not in done]


def _turned(variants: Sequence[str], n: int) -> Sequence[str]:
    return variants if n % 2 == 0 else variants[::-1]
