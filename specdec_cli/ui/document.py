"""One run as one JSON document: what --json writes.

Numbers that do not exist are null; infinities, which JSON has no number for, are the strings "Infinity" and "-Infinity".
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from numbers import Integral, Real

from specdec_cli.decoding.contracts import PromptPass, Round
from specdec_cli.decoding.loop import Event
from specdec_cli.decoding.stats import RunStats
from specdec_cli.ui.summary import Summary, summary_json


@dataclass(slots=True)
class Document:
    """Collects the events of one run."""

    texts: list[str] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    rounds: list[dict[str, object]] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)

    def add(self, event: Event, stats: RunStats) -> None:
        """Take an event. stats: those of the run."""
        if isinstance(event, PromptPass):
            return
        self.texts.append(event.text)
        if isinstance(event, Round):
            self.tokens.extend(event.emitted)
            self.rounds.append(_round(event, stats))

    def dump(self, summary: Summary) -> str:
        """The document, in one line without its newline."""
        document = {
            "text": "".join(self.texts),
            "tokens": self.tokens,
            "drafter": summary.drafter,
            "seed": summary.seed,
            "statistics": summary_json(summary.stats),
            "shadow": summary.shadow,
            "rounds": self.rounds,
            "models": summary.models,
            "settings": summary.settings,
            "notices": self.notices,
        }
        text = json.dumps(plain(document), ensure_ascii=False, allow_nan=False)
        # a lone surrogate, from a path that is no UTF-8, becomes the escape that JSON has for it
        return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _round(done: Round, stats: RunStats) -> dict[str, object]:
    proposal = done.proposal
    return {
        "index": done.index,
        "position": done.position,
        "drafter": proposal.drafter if done.n_drafted else None,
        "drafted": proposal.tokens,
        "drafted_by": [part.drafter for part in proposal.by_drafter for _ in part.tokens],
        "draft_peak": proposal.peak,
        "draft_prob": proposal.prob,
        "accepted": done.n_accepted,
        "kind": done.kind,
        "emitted": done.emitted,
        "text": done.text,
        "p": done.p,
        "q": done.q,
        "width": done.width,
        "invalid": done.n_invalid,
        "draft_s": done.draft_s,
        "verify_s": done.pass_s,
        "host_s": done.host_s,
        "at_s": done.at_s - stats.started_s,
    }


def plain(value: object) -> object:
    """The value in terms of what JSON has. Anything else is told in its own words."""
    match value:
        case Enum():
            return plain(value.value)
        case None | bool() | str():
            return value
        case Integral():  # numpy's integers too
            return int(value)
        case Real():
            return _finite(float(value))
        case Mapping():
            return {str(key): plain(item) for key, item in value.items()}
        case Iterable():
            return [plain(item) for item in value]
    return str(value)


def _finite(value: float) -> float | str | None:
    if math.isnan(value):
        return None
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value
