"""Sums up a trace: how long drafts were and why, what came of them, and where the time went."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from specdec_cli.bench.records import to_json
from specdec_cli.decoding.contracts import Kind, Reason
from specdec_cli.decoding.stats import ratio
from specdec_cli.tracing.form import AnyLine, EndLine, Head, RoundLine, RunLine

SCHEMA = "specdec.trace-summary/1"
_LAST_POSITION = 512  # nobody drafts further
UNSURE, FIXED, PLAIN = "unsure", "fixed", "plain"  # reasons of a drafter and of fixed lengths, beside those of a governor


@dataclass(slots=True)
class Totals:
    """Counts over rounds. Everything else is derived."""

    n_runs: int = 0
    n_rounds: int = 0
    n_emitted: int = 0
    n_drafted: int = 0
    n_accepted: int = 0
    n_recovered: int = 0
    n_bonus: int = 0
    n_invalid: int = 0
    draft_s: float = 0.0
    pass_s: float = 0.0
    host_s: float = 0.0
    span_s: float = 0.0  # from the first round of each run to its last
    n_timed: int = 0  # tokens of these rounds but the first
    judged_at: Counter[int] = field(default_factory=Counter)
    accepted_at: Counter[int] = field(default_factory=Counter)
    lengths: Counter[int] = field(default_factory=Counter)  # rounds by tokens drafted
    drafters: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)  # of the rounds that drafted
    reasons_of_none: Counter[str] = field(default_factory=Counter)  # of those that did not
    n_expected: int = 0  # rounds for which a draft was expected to bring something, and that drafted
    expected_tokens: float = 0.0
    expected_s: float = 0.0
    came_tokens: int = 0
    came_s: float = 0.0
    largest_rss: int = 0
    finishes: Counter[str] = field(default_factory=Counter)
    _last_s: float = 0.0

    def add(self, line: AnyLine) -> None:
        match line:
            case RunLine():
                self.n_runs += 1
            case RoundLine():
                self._add_round(line)
            case EndLine():
                self.finishes[line.finish.value if line.finish is not None else "unfinished"] += 1

    def _add_round(self, line: RoundLine) -> None:
        if line.index == 0:
            self._last_s = line.at_s
        else:
            self.span_s += max(line.at_s - self._last_s, 0.0)
            self.n_timed += len(line.emitted)
            self._last_s = line.at_s
        n = len(line.drafted)
        self.n_rounds += 1
        self.n_emitted += len(line.emitted)
        self.n_drafted += n
        self.n_accepted += line.accepted
        self.n_recovered += line.kind is Kind.RECOVERED
        self.n_bonus += line.kind is Kind.BONUS and n > 0
        self.n_invalid += line.invalid
        self.draft_s += line.draft_s
        self.pass_s += line.pass_s
        self.host_s += line.host_s
        self.judged_at.update(range(min(line.accepted + 1, n, _LAST_POSITION)))
        self.accepted_at.update(range(min(line.accepted, _LAST_POSITION)))
        self.lengths[min(n, _LAST_POSITION)] += 1
        self.largest_rss = max(self.largest_rss, line.rss)
        (self.reasons if n else self.reasons_of_none)[reason(line)] += 1
        if n and line.drafter is not None:
            self.drafters[line.drafter[:40]] += 1
        if n and line.why is not None:
            self.n_expected += 1
            self.expected_tokens += line.why.tokens
            self.expected_s += line.why.seconds
            self.came_tokens += line.accepted + 1
            self.came_s += line.draft_s + line.pass_s

    @property
    def tokens_per_pass(self) -> float | None:
        return ratio(self.n_emitted, self.n_rounds)

    @property
    def acceptance(self) -> float | None:
        return ratio(self.n_accepted, self.n_drafted)

    @property
    def tps(self) -> float | None:
        """Tokens after the first round of each run / seconds since it, as the summary of a run has it."""
        return ratio(self.n_timed, self.span_s)


@dataclass(slots=True)
class Summary:
    """A trace as a whole."""

    head: Head
    runs: list[RunLine]  # as many as are shown
    totals: Totals


_MOST_RUNS = 10_000


def summed(lines: Iterable[AnyLine]) -> Summary:
    """The sum of a trace, whose first line is its head."""
    head: Head | None = None
    runs: list[RunLine] = []
    totals = Totals()
    for line in lines:
        if isinstance(line, Head):
            head = line
        elif isinstance(line, RunLine) and len(runs) < _MOST_RUNS:
            runs.append(line)
        totals.add(line)
    assert head is not None
    return Summary(head, runs, totals)


def reason(line: RoundLine) -> str:
    """Why the draft was so long, in a word."""
    if line.why is None:
        return FIXED if line.drafted else Reason.NO_OFFER.value if line.asked else PLAIN
    if not line.drafted and line.why.reason in (Reason.PAYS, Reason.PROBE):
        return UNSURE  # the drafter's first row made the draft not worth its while, or it had no token
    return line.why.reason.value


def document(summary: Summary, notes: Iterable[str]) -> dict[str, Any]:
    """The summary as a JSON document."""
    totals = summary.totals
    total_s = totals.draft_s + totals.pass_s + totals.host_s
    return {
        "schema": SCHEMA,
        **to_json(summary.head),
        "runs": totals.n_runs,
        "rounds": totals.n_rounds,
        "emitted": totals.n_emitted,
        "drafted": totals.n_drafted,
        "accepted": totals.n_accepted,
        "recovered": totals.n_recovered,
        "bonus": totals.n_bonus,
        "invalid": totals.n_invalid,
        "acceptance": totals.acceptance,
        "tokens_per_pass": totals.tokens_per_pass,
        "generation_tps": totals.tps,
        "by_position": [{"judged": n, "accepted": totals.accepted_at[i]} for i, n in sorted(totals.judged_at.items())],
        "by_length": [{"length": n, "rounds": count} for n, count in sorted(totals.lengths.items())],
        "drafters": dict(totals.drafters),
        "reasons": dict(totals.reasons),
        "reasons_of_none": dict(totals.reasons_of_none),
        "expected": {
            "rounds": totals.n_expected,
            "tokens": totals.expected_tokens,
            "seconds": totals.expected_s,
            "came_tokens": totals.came_tokens,
            "came_seconds": totals.came_s,
        },
        "draft_s": totals.draft_s,
        "pass_s": totals.pass_s,
        "host_s": totals.host_s,
        "draft_share": ratio(totals.draft_s, total_s),
        "pass_share": ratio(totals.pass_s, total_s),
        "host_share": ratio(totals.host_s, total_s),
        "largest_rss": totals.largest_rss,
        "finish": dict(totals.finishes),
        "notes": list(notes),
    }
