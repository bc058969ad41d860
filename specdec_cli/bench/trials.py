"""Makes the runs that a search asks for, each in the session of its candidate."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from time import monotonic

from specdec_cli.bench.measure import Interrupted, generated
from specdec_cli.bench.results import PLAIN
from specdec_cli.bench.tuning import Trial
from specdec_cli.bench.ways import Engine, Sessions, Way
from specdec_cli.decoding.contracts import FinishReason
from specdec_cli.errors import SpecdecError
from specdec_cli.llama.interrupt import Interrupt
from specdec_cli.session import Request


@dataclass(frozen=True, slots=True)
class Trials:
    """Whoever runs one candidate after the other. told: hears of each run before it is made."""

    requests: Mapping[str, Request]  # by task
    ways: Sequence[Way]
    sessions: Sessions
    interrupt: Interrupt
    told: Callable[[str, str, int], None]  # candidate, task, rung

    def run(self, name: str, task: str, rung: int, n_tokens: int) -> Trial:
        """One run of at most so many tokens. Raises Interrupted, PassAborted, SpecdecError."""
        self.told(name, task, rung)
        way = next((way for way in self.ways if way.name == name), None)
        request = self.requests[task]
        request = replace(request, n_predict=min(request.n_predict, n_tokens))
        asked_s = monotonic()
        try:
            engine = Engine(self.sessions.get(way.session if way is not None else PLAIN), way)
            began_s = monotonic()
            # A prompt that is cached is not passed again: only what comes after it is compared.
            stats = generated(engine, request).stats
        except SpecdecError:
            if self.interrupt.requested:  # whoever asked for the end has no use for what went wrong meanwhile
                raise Interrupted from None
            raise
        if stats.finish in (FinishReason.INTERRUPTED, None):
            raise Interrupted
        # Where every turn loads its session anew, that is a part of what a run takes.
        wall_s = monotonic() - (began_s if self.sessions.together else asked_s)
        return Trial(
            candidate=name,
            task=task,
            rung=rung,
            turn=0,
            n_tokens=stats.n_emitted,
            tps=stats.generation_tps,
            wall_s=wall_s,
            n_drafted=stats.n_drafted,
            n_drafts=stats.n_drafting_rounds,
        )
