"""All checks one after the other, within a budget of time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from specdec_cli.errors import BackendError
from specdec_cli.proof import cache, greedy, sampled
from specdec_cli.proof.report import Check, Fault, State
from specdec_cli.proof.subject import Clock, Work

CHECKS = ("greedy", "cache", "sampling")
_SHARES = (0.25, 0.15, 0.6)  # of the budget


def checks(work: Work, seconds: float, tell: Callable[[str, float], None]) -> Iterator[Check]:
    """Each check when it is done. tell: hears its name and how much of it is over. Raises PassAborted, SpecdecError."""
    for name, share in zip(CHECKS, _SHARES, strict=True):
        try:
            yield _check(name, work, Clock(seconds * share), partial(tell, name))
        except BackendError as error:  # a cache that is not as long as it should be ends like this
            sentence = f"It broke off: {error.what} {error.why}".strip()
            yield Check(name, State.FAULT, sentence, (Fault(error.what, name),))


def _check(name: str, work: Work, clock: Clock, tell: Callable[[float], None]) -> Check:
    match name:
        case "greedy":
            return greedy.check(work, replace(work.params[0], temperature=0.0), clock, tell)
        case "cache":
            return cache.check(work, clock, tell)
        case _:
            return sampled.check(work, clock, tell)
