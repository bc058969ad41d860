"""What passes cost on this machine, and what is known of a pair's acceptance: measured or remembered between runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from typing import Any

from specdec_cli import __version__, cache
from specdec_cli.decoding.acceptance import Calibration
from specdec_cli.decoding.costs import CostCurve
from specdec_cli.decoding.governor import Account
from specdec_cli.decoding.noise import noise_for
from specdec_cli.drafters import MODEL
from specdec_cli.llama import library
from specdec_cli.llama.context import Context

_COSTS, _RATES = "costs", "acceptance"
_N_BEFORE = 32  # tokens in the cache before the passes that are timed
_WIDTHS = (1, 1, 2, 4, 8, 16, 3, 6, 12, 5, 24, 32)  # in the order of what they tell
_BUDGET_S = 0.6  # of a sweep over the widths
_N_SWEEPS = 2  # of which the shorter time counts: one that came too long would never be corrected, since nobody drafts to it
_STREAM = 5
_CHEAPER_FED = 4.0  # than a token drafted, a guess until a long prompt shows it


class Ledger:
    """The costs and accounts of one session, from earlier runs where there were any. keep() remembers them for later ones.

    contexts: the target's, and the draft's where there is one. seconds: of the target's passes, where they are known already;
    widen: see CostCurve. May pass tokens through the contexts, and leaves their caches empty.
    """

    def __init__(
        self,
        contexts: Sequence[Context],
        names: Sequence[str],
        n_max: int,
        seconds: Mapping[int, float] | None = None,
        widen: Callable[[int], int] = lambda n: n,
    ) -> None:
        self._target = contexts[0]
        self._pair = {"target": identity(contexts[0])} | {context.model.role: identity(context) for context in contexts[1:]}
        known = dict(seconds) if seconds is not None else _pass_costs(contexts[0], n_max + 1)
        self.costs = CostCurve(known, widen)
        self.accounts = {name: self._account(name, contexts) for name in names}

    def keep(self) -> None:
        """Remember everything for the next run."""
        costs = {str(width): seconds for width, seconds in self.costs.known().items()}
        cache.write(_COSTS, _name(self._target), costs)
        for name, account in self.accounts.items():
            record = {"peak": account.by_peak.known(), "prob": account.by_prob.known(), "feed_s": account.feed_s}
            cache.write(_RATES, self._key(name), record)

    def _account(self, name: str, contexts: Sequence[Context]) -> Account:
        record = cache.read(_RATES, self._key(name)) or {}
        step_s = _pass_costs(contexts[1], 1)[1] if name == MODEL else 0.0
        feed_s = record.get("feed_s")
        return Account(
            step_s,
            float(feed_s) if isinstance(feed_s, int | float) and feed_s >= 0 else step_s / _CHEAPER_FED,
            Calibration(_bins(record.get("peak"))),
            Calibration(_bins(record.get("prob"))),
        )

    def _key(self, name: str) -> str:
        return cache.key({"drafter": name, **self._pair})


def _pass_costs(context: Context, widest: int) -> dict[int, float]:
    """Seconds of passes by width: as the last run left them, else measured now in about a second."""
    known = _numbers(cache.read(_COSTS, _name(context)))
    return known if 1 in known else _measured(context, widest)


def identity(context: Context) -> dict[str, Any]:
    """What makes a model's passes as dear as they are, and its drafts as good. A file is known by its place, size and age: to
    read all of it would take longer than what is saved."""
    model = context.model
    file = model.options.path.stat()
    return {
        "specdec": __version__.split("+")[0],
        "build": library.build(),
        "model": dataclasses.asdict(model.options) | {"size": file.st_size, "mtime_ns": file.st_mtime_ns},
        "devices": [(device.name, device.description, device.memory_total) for device in library.devices()],
        "context": dataclasses.asdict(context.options) | {"n_ctx": 0},
        "threads": context.n_threads,
    }


def _name(context: Context) -> str:
    return cache.key(identity(context))


def _measured(context: Context, widest: int) -> dict[int, float]:
    noise = noise_for(0, _STREAM)
    widest = min(widest, context.n_ctx - 1)
    tokens = [int(noise.uniform(i) * context.n_vocab) for i in range(_N_BEFORE + widest)]
    n_before = max(min(_N_BEFORE, context.n_ctx - widest), 0)
    context.keep(0)
    while context.n_cached < n_before:
        context.feed(tokens[context.n_cached : min(context.n_cached + context.max_piece, n_before)])
    found: dict[int, float] = {}
    _timed(context, tokens[n_before : n_before + 1])  # the first pass of a context pays for much that no other pays for
    widths = (*(w for w in _WIDTHS if w < widest), widest)
    for _ in range(_N_SWEEPS):
        started_s = perf_counter()
        for width in widths:
            if width == 1 or perf_counter() - started_s < _BUDGET_S:
                seconds = _timed(context, tokens[n_before : n_before + width])
                found[width] = min(seconds, found.get(width, seconds))
    context.keep(0)
    return found


def _timed(context: Context, tokens: list[int]) -> float:
    n_before = context.n_cached
    seconds = context.decode(tokens).seconds
    context.keep(n_before)
    return seconds


def _numbers(record: Mapping[str, Any] | None) -> dict[int, float]:
    try:
        found = {int(width): float(seconds) for width, seconds in (record or {}).items()}
    except (TypeError, ValueError):
        return {}
    return found if all(width > 0 and seconds > 0 for width, seconds in found.items()) else {}


def _bins(record: Any) -> list[tuple[float, float]] | None:
    try:
        found = [(float(accepted), float(judged)) for accepted, judged in record]
    except (TypeError, ValueError):
        return None
    return found if all(0 <= accepted <= judged and judged > 0 for accepted, judged in found) else None
