"""After each rollback: is the next row what a cache gives that never went back, up to what widths round?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace

import numpy as np

from specdec_cli.decoding.contracts import Law, Rows, SamplingParams, Target
from specdec_cli.proof.greedy import in_line
from specdec_cli.proof.laws import reference
from specdec_cli.proof.report import Check, Findings, State, state
from specdec_cli.proof.subject import Clock, Forced, Seen, Witness, Work, rounds, verified_by
from specdec_cli.session import Request

N_TOKENS = 32
_LENGTHS = (4, 1, 7, 2)
_PIECE = 32  # tokens: a prompt whose beginning was in the cache already is passed in other pieces than a fresh one
_TIMES = 4.0  # the largest noise measured; a cache that is off by one token is off by ten and more
_LEAST_NOISE = 0.05  # of a row's own spread: noise is not measured at all places
_LEAST_APART = 0.25  # of total variation, where the draft's law is compared


@dataclass(slots=True)
class _Compared:
    """Distances of one model: of its rows from fresh ones, and of fresh ones from each other at two widths."""

    least: float
    noise: list[float] = field(default_factory=list)
    found: list[tuple[float, str]] = field(default_factory=list)

    @property
    def limit(self) -> float:
        return max(_TIMES * max(self.noise, default=0.0), self.least)


def check(work: Work, clock: Clock, tell: Callable[[float], None]) -> Check:
    """Sample with drafts of several lengths, then pass the same tokens through caches that never go back."""
    faults = Findings()
    target, draft = _Compared(_LEAST_NOISE), _Compared(_LEAST_APART)
    counts = dict.fromkeys(("runs", "rows", "rollbacks", "in_a_row", "all_accepted", "draft_rows"), 0)
    fresh, fresh_draft = work.fresh(), work.fresh_draft() if work.fresh_draft is not None else None
    hot = replace(work.params[-1], temperature=max(work.params[-1].temperature, 1.0))
    turn = 0
    while clock.goes_on() or turn < 2:
        tell(clock.share)
        prompt = work.prompts[turn % len(work.prompts)]
        length = min(_LENGTHS[turn % len(_LENGTHS)], work.subject.n_draft_max)
        params = replace(hot, seed=work.seed + turn)
        request = Request(prompt.tokens, params, N_TOKENS)
        where = f"{prompt.name}, drafts of {length}"
        seen: list[Seen] = []
        turn += 1
        with verified_by(work.subject, work.rules[0]) as watched:
            witness = Witness(work.subject.target)
            with closing(rounds(work.subject, watched, request, witness, Forced(length))) as found:
                for each in found:
                    in_line(each, faults, where)
                    seen.append(replace(each, rows=each.rows[:1].copy()))
        if not seen:
            continue
        _count(counts, seen)
        text = (*seen[-1].context, *seen[-1].done.emitted)
        n = len(prompt.tokens)
        alone, wide = (_fresh_rows(fresh, text, n, width) for width in (1, min(length + 1, fresh.max_pass)))
        spread = float(alone.std())
        target.noise += [_apart(a, b) / spread for a, b in zip(alone, wide, strict=True)]
        for each in seen:
            at = len(each.context) - n
            off = min(_apart(each.rows[0], alone[at]), _apart(each.rows[0], wide[at])) / spread
            target.found.append((off, f"{where}, token {at + 1}"))
        if fresh_draft is not None and max(text) < fresh_draft.n_vocab:
            _compare_draft(work, fresh_draft, seen, text, n, work.subject.job(request).params, draft, where)
    counts["rows"], counts["draft_rows"] = len(target.found), len(draft.found)
    for name, compared in (("target", target), ("draft", draft)):
        for off, place in compared.found:
            if off > compared.limit:
                what = "a row is not that of a fresh cache" if name == "target" else "q is not what a fresh cache gives"
                faults.add(f"of the {name} {what}", place)
    if draft.noise and np.mean([off for off, _ in draft.found]) > _TIMES * np.mean(draft.noise) + _LEAST_NOISE:
        faults.add("on average the draft's q is not the law that its rows give when processed like p", "all runs")
    return _told(faults, counts, target, draft)


def _fresh_rows(fresh: Target, text: Sequence[int], n: int, width: int) -> Rows:
    """Rows (len(text) - n + 1, n_vocab) behind the first n tokens of the text and each later one; nothing is rolled back."""
    fresh.keep(0)
    piece = fresh.max_piece if width == 1 else min(_PIECE, fresh.max_piece)
    while fresh.n_cached < n - 1:
        fresh.feed(text[fresh.n_cached : min(fresh.n_cached + piece, n - 1)])
    found = []
    while fresh.n_cached < len(text):
        found.append(fresh.decode(text[fresh.n_cached : fresh.n_cached + width]).rows.copy())
    return np.concatenate(found)


def _apart(a: Rows, b: Rows) -> float:
    """The root of the mean square difference of two rows; what is added to all logits alike changes no law."""
    kept = np.isfinite(a) & np.isfinite(b)
    return float((a[kept].astype(np.float64) - b[kept]).std())


def _compare_draft(
    work: Work,
    fresh: Target,
    seen: Sequence[Seen],
    text: Sequence[int],
    n: int,
    params: SamplingParams,
    draft: _Compared,
    where: str,
) -> None:
    """q, wherever what it was drawn behind became text, beside the law of a fresh row."""
    alone, wide = (_fresh_rows(fresh, text, n, width)[:, : work.n_shared] for width in (1, min(4, fresh.max_pass)))
    if work.undraftable is not None:
        alone[:, work.undraftable] = wide[:, work.undraftable] = -np.inf
    for each in seen:
        proposal, done = each.done.proposal, each.done
        for i in range(min(len(proposal), done.n_accepted + 1)):
            q, at = proposal.q[i], len(each.context) + i
            if q is None or at >= len(text):
                break
            own, other = (reference(rows[at - n], text[:at], params) for rows in (alone, wide))
            draft.noise.append(_variation(Law(other.ids, other.probs), Law(own.ids, own.probs)))
            draft.found.append((_variation(q, Law(own.ids, own.probs)), f"{where}, token {at - n + 1}"))


def _variation(a: Law, b: Law) -> float:
    """The total variation between two laws."""
    ids = np.union1d(a.ids, b.ids)
    both = np.zeros((2, ids.size))
    for row, law in zip(both, (a, b), strict=True):
        row[np.searchsorted(ids, law.ids)] = law.probs
    return float(np.abs(both[0] - both[1]).sum() / 2)


def _count(counts: dict[str, int], seen: Sequence[Seen]) -> None:
    in_a_row = 0
    for each in seen:
        back = each.done.n_drafted - each.done.n_invalid > each.done.n_accepted
        in_a_row = in_a_row + 1 if back else 0
        counts["rollbacks"] += back
        counts["in_a_row"] = max(counts["in_a_row"], in_a_row)
        counts["all_accepted"] += each.done.n_drafted > 0 and not back
    counts["runs"] += 1


def _told(faults: Findings, counts: dict[str, int], target: _Compared, draft: _Compared) -> Check:
    found = state(faults.all(), seen=counts["rollbacks"] > 0)
    if found is State.FAULT:
        first = faults.all()[0]
        sentence = f"{first.what[0].upper()}{first.what[1:]} ({first.where}; seen {first.n} times)."
    elif found is State.UNSEEN:
        sentence = f"{counts['runs']} runs needed no rollback."
    else:
        sentence = (
            f"{counts['rows']} rows, behind {counts['rollbacks']} rollbacks ({counts['in_a_row']} in a row at the most) and"
            f" {counts['all_accepted']} rounds without one, are those of a fresh cache: at most"
            f" {100 * max(off for off, _ in target.found):.1f} % of their spread off, where widths alone make"
            f" {100 * max(target.noise):.1f} %."
        )
        if draft.found:
            sentence += f" So are {counts['draft_rows']} laws of the draft."
    largest = max((off for off, _ in target.found), default=0.0)
    largest_draft = max((off for off, _ in draft.found), default=0.0)
    measured = {
        "largest": largest,
        "noise": max(target.noise, default=0.0),
        "limit": target.limit,
        "draft_largest": largest_draft,
        "draft_noise": max(draft.noise, default=0.0),
        "draft_limit": draft.limit,
    }
    return Check("cache", found, sentence, faults.all(), {**counts, **measured})
