"""What demo does: one prompt with no drafter, with the n-gram drafter and with a draft model, side by side."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from specdec_cli import cache, drafters
from specdec_cli.cli.running import open_display
from specdec_cli.cli.signals import interruptible
from specdec_cli.decoding.contracts import FinishReason, PassAborted, Round, SamplingParams
from specdec_cli.decoding.replay import Cause, Recorder, explain, first_difference
from specdec_cli.decoding.stats import RunStats
from specdec_cli.errors import EXIT_ANSWER_IS_NO, EXIT_DONE, EXIT_INTERRUPTED
from specdec_cli.llama.interrupt import Interrupt
from specdec_cli.llama.quantise import FileType, quantise
from specdec_cli.opening import session_options
from specdec_cli.session import Request, Session
from specdec_cli.settings.resolve import Settings
from specdec_cli.ui.output import OutputClosed, colour_allowed
from specdec_cli.ui.sinks import Sink
from specdec_cli.ui.tables import Compared, comparison_table

N_REPEATS = 3  # timed runs of each, in turn; their median counts
N_PREDICT = 120
NOISE = 0.03  # a ratio closer to one is no difference
PROMPT = """Copy this text and correct its spelling mistakes:

The lighthouse stood at the edge of the clif. Every evning the keeper climbed the narrow stairs and lit the lamp. The lamp \
turned slowly, and its light swept over the dark water. Ships far out at sea saw the light and kept away from the rocks. In \
the morning the keeper put out the lamp and went down the narrow stairs agan."""


@dataclass(slots=True)
class Entry:
    """One way of decoding: its session and what its runs gave."""

    label: str
    session: Session
    tokens: tuple[int, ...] = ()
    stats: RunStats | None = None
    rates: tuple[float, ...] = ()  # tokens per second of the timed runs

    @property
    def rate(self) -> float | None:
        return median(self.rates) if self.rates else None

    def times(self, plain: Entry) -> list[float]:
        """Rates over those of plain decoding, turn by turn: what else the machine does in a turn slows both."""
        return [own / other for own, other in zip(self.rates, plain.rates, strict=False)]


def execute(settings: Settings) -> int:
    """Run the demonstration; returns the exit code."""
    interrupt = Interrupt()
    try:
        with open_display(settings) as sink, interruptible(interrupt), ExitStack() as opened:
            entries = _open(settings, sink, interrupt, opened)
            return _compare(settings, entries, sink)
    except PassAborted:
        return EXIT_INTERRUPTED
    except OutputClosed as closed:
        raise BrokenPipeError from closed


def _open(settings: Settings, sink: Sink, interrupt: Interrupt, opened: ExitStack) -> list[Entry]:
    plain = session_options(settings, sink)
    smaller = _smaller_draft(plain.target.path, sink)
    draft = replace(plain.target, path=smaller)
    ways = [
        ("no drafter", plain),
        ("--draft ngram", replace(plain, drafters=(drafters.NGRAM,))),
        ("--draft FILE (Q4_0)", replace(plain, drafters=(drafters.MODEL,), draft=draft, draft_context=plain.context)),
    ]
    return [Entry(label, opened.enter_context(Session(options, sink, interrupt))) for label, options in ways]


def _smaller_draft(source: Path, sink: Sink) -> Path:
    """The same model in Q4_0, made once."""
    target = cache.folder() / "models" / f"smollm2-135m-q4_0-{cache.file_hash(source)[:8]}.gguf"
    if not target.exists():
        sink.notice(f"Making the draft once: {target}")
        quantise(source, target, FileType.Q4_0)
    return target


def _compare(settings: Settings, entries: Sequence[Entry], sink: Sink) -> int:
    given = settings.value("predict", int)
    prompt = entries[0].session.encode(PROMPT, None, raw=False)
    request = Request(prompt, SamplingParams(temperature=0), given if given >= 0 else N_PREDICT)
    for turn in range(N_REPEATS):
        for entry in entries if turn % 2 == 0 else reversed(entries):
            if turn == 0:
                sink.notice(f"{entry.label}:")
            if _run(entry, request, sink, shown=turn == 0) is FinishReason.INTERRUPTED:
                return EXIT_INTERRUPTED
    plain = entries[0]
    rows = [_row(entry, plain) for entry in entries]
    times = {entry.label: entry.times(plain) for entry in entries[1:]}
    sink.report(comparison_table(rows, colour=colour_allowed(sys.stderr, os.environ)))
    faults = [_difference(entry, plain, request, sink) for entry in entries[1:]]
    sink.report(verdict(times))
    return EXIT_ANSWER_IS_NO if any(faults) else EXIT_DONE


def _run(entry: Entry, request: Request, sink: Sink, *, shown: bool) -> FinishReason | None:
    stats = RunStats()
    tokens: list[int] = []
    entry.session.forget()
    for event in entry.session.generate(request):
        stats.add(event)
        if isinstance(event, Round):
            tokens.extend(event.emitted)
        if shown:
            sink.event(event, stats)
    if shown:
        sink.end_text()
        entry.tokens, entry.stats = tuple(tokens), stats
    if stats.generation_tps is not None:
        entry.rates = (*entry.rates, stats.generation_tps)
    return stats.finish


def _row(entry: Entry, plain: Entry) -> Compared:
    stats = entry.stats or RunStats()
    times = entry.times(plain)
    ratio = median(times) if times else None
    same = None if entry is plain else entry.tokens == plain.tokens
    return Compared(entry.label, entry.rate, ratio, stats.n_accepted, stats.n_drafted, stats.n_rounds, same)


def _difference(entry: Entry, plain: Entry, request: Request, sink: Sink) -> bool:
    """Explain where a text differs from the plain one; True for a fault."""
    index = first_difference(entry.tokens, plain.tokens)
    if index is None:
        return False
    recorder = Recorder(entry.session.target)
    entry.session.forget()
    rounds = [event for event in entry.session.generate(request, target=recorder) if isinstance(event, Round)]
    found = explain(entry.session.target, entry.session.job(request), recorder, rounds, index)
    if found.cause is Cause.FAULT:
        sink.report(f"{entry.label}: a fault at token {index}: {found.why}. Please report it.")
        return True
    sink.report(
        f"{entry.label}: the text differs from token {index} on, proven to be rounding: the two best logits are"
        f" {found.gap:.3f} apart there, and passes of other widths move them by {found.noise:.3f}. --exact rules it out."
    )
    return False


def verdict(times: Mapping[str, Sequence[float]]) -> str:
    """One honest sentence on what paid. times: label -> rates over plain decoding's, one a turn.

    Something paid, or was slower, only if it did in every turn.
    """
    rated = {label: ratios for label, ratios in times.items() if ratios}
    if not rated:
        return "Too few tokens to compare speeds."
    paid = [label for label, ratios in rated.items() if min(ratios) > 1 + NOISE]
    slower = [label for label, ratios in rated.items() if max(ratios) < 1 - NOISE]
    unclear = [label for label in rated if label not in (*paid, *slower)]
    parts = [f"{' and '.join(labels)} {said}" for labels, said in ((paid, "paid"), (slower, "made it slower")) if labels]
    parts += [f"{' and '.join(unclear)} made no difference that stands out of the noise"] if unclear else []
    figures = ", ".join(f"{label} {median(r):.2f}x ({min(r):.2f} to {max(r):.2f})" for label, r in rated.items())
    small = (
        " With a model this small a pass over several tokens costs nearly as much as the tokens one by one;"
        " larger targets gain more."
    )
    return f"On this machine and this prompt {'; '.join(parts)}: {figures}.{'' if paid else small}"
