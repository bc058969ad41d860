"""Events of runs that never took place."""

from __future__ import annotations

from collections.abc import Iterable

from specdec_cli.decoding.contracts import Ended, FinishReason, Kind, PromptPass, Proposal, Round
from specdec_cli.decoding.loop import Event
from specdec_cli.decoding.stats import RunStats
from specdec_cli.ui.sinks import Sink
from specdec_cli.ui.summary import Summary


def a_round(
    index: int,
    text: str,
    *,
    drafted: tuple[int, ...] = (),
    n_accepted: int = 0,
    emitted: tuple[int, ...] = (7,),
    kind: Kind = Kind.BONUS,
    prob: tuple[float, ...] = (),
) -> Round:
    """A round that took 0.25 s: 0.05 drafting where it did, 0.15 or 0.2 verifying, 0.05 on the host."""
    n_judged = min(n_accepted + 1, len(drafted))
    return Round(
        index=index,
        position=10 + index,
        proposal=Proposal("model" if drafted else "none", drafted, (None,) * len(drafted), prob, prob),
        n_accepted=n_accepted,
        kind=kind,
        emitted=emitted,
        text=text,
        p=(0.5,) * n_judged,
        q=(1.0,) * n_judged,
        width=1 + len(drafted),
        n_invalid=0,
        draft_s=0.05 if drafted else 0.0,
        pass_s=0.15 if drafted else 0.2,
        host_s=0.05,
        at_s=101.0 + 0.25 * index,
    )


def a_run(texts: Iterable[str], finish: FinishReason = FinishReason.END, held: str = "") -> list[Event]:
    """A run whose rounds show these texts."""
    rounds = [a_round(i, text) for i, text in enumerate(texts)]
    return [PromptPass(8, 8, 0, 0.5), *rounds, Ended(finish, held)]


def play(sink: Sink, events: Iterable[Event]) -> Summary:
    """Let a sink show a run that started at 100 s, as the command line does."""
    stats = RunStats(started_s=100.0)
    summary = Summary(stats, drafter="model", seed=42)
    with sink:
        for event in events:
            stats.add(event)
            sink.event(event, stats)
        sink.finish(summary)
    return summary
