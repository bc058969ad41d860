"""What each sampled round says of the law its tokens follow: numbers that are uniform where nothing is wrong."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np

from specdec_cli.decoding.contracts import Ids, Kind, Law, SamplingParams
from specdec_cli.decoding.noise import noise_for
from specdec_cli.decoding.verification import Rule
from specdec_cli.proof.laws import Floats, Reference, aligned, coupled, overlap, reference
from specdec_cli.proof.report import Findings, Position
from specdec_cli.proof.statistics import happened, placed
from specdec_cli.proof.subject import Seen

DRAWN = "draft tokens are draws from q"
ACCEPTED = "drafts are accepted as often as p and q say"
EMITTED = "tokens at judged places are draws from p"
RECOVERED = "recovered tokens are draws from what p has more than q"
BONUS = "bonus tokens are draws from p"
APART = "the noise of drafter and verifier is independent"
NAMES = {Rule.REJECT: (DRAWN, ACCEPTED, EMITTED, RECOVERED, BONUS, APART), Rule.MATCH: (ACCEPTED, EMITTED, BONUS)}

_CERTAIN = 1 - 1e-9
_TIE = 1e-6  # scores that are nearer to each other may change places by rounding
_LARGEST = 2000  # ids of a law whose coupling is worked out


@dataclass(slots=True)
class Streams:
    """Collects them. A value is uniform given all before it, whatever the context: so rounds of all runs count together."""

    rule: Rule
    chance: np.random.Generator
    faults: Findings
    values: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    accepted: dict[int, list[tuple[bool, float]]] = field(default_factory=lambda: defaultdict(list))
    n_rounds: int = 0
    n_tokens: int = 0

    def take(self, seen: Seen, params: SamplingParams, where: str) -> tuple[Reference, ...]:
        """Take one round. Returns p at each place that was decided and emitted."""
        done, proposal = seen.done, seen.done.proposal
        self.n_rounds += 1
        self.n_tokens += len(done.emitted)
        if self.rule is Rule.REJECT:
            self._drawn(seen)
        laws = []
        for i, token in enumerate(done.emitted):
            p = reference(seen.rows[i], (*seen.context, *done.emitted[:i]), params)
            laws.append(p)
            place = f"{where}, token {done.position + i}"
            if token not in p.possible:
                self.faults.add("a token was emitted that the target's own law forbids", place)
                break
            if self.rule is Rule.MATCH and p.clear:
                self._must_be_own(p, token, done.position + i, params, place)
            if token not in p.ids:  # at the very edge of top-p or min-p
                continue
            if i < len(done.p):
                self._judged(seen, i, p, place)
            else:
                self._add(BONUS, placed(p.ids, p.probs, token, self.chance.random()))
                self._apart(seen, p.ids, p.probs, token, i)
        if self.rule is Rule.REJECT and proposal.n_passes > len(proposal) + 1:
            self.faults.add("a drafter computed rows for tokens that it did not propose", where)
        return tuple(laws)

    def positions(self) -> tuple[Position, ...]:
        """Acceptance by place in the draft, measured and predicted."""
        found = []
        for index, judged in sorted(self.accepted.items()):
            measured, predicted = (float(np.mean([each[k] for each in judged])) for k in (0, 1))
            found.append(Position(self.rule.value, index, len(judged), measured, predicted))
        return tuple(found)

    def _drawn(self, seen: Seen) -> None:
        """All draft tokens, those too that came behind a refused one."""
        proposal = seen.done.proposal
        for token, q in zip(proposal.tokens, proposal.q, strict=True):
            if q is None or q.ids.size < 2:
                continue
            order = np.argsort(-q.probs, kind="stable")
            if token not in q.ids:
                self.faults.add("a draft token has no chance in the q that it was drawn from", f"token {seen.done.position}")
            else:
                self._add(DRAWN, placed(q.ids[order], q.probs[order], token, self.chance.random()))

    def _judged(self, seen: Seen, i: int, p: Reference, place: str) -> None:
        """A place at which a draft token was judged: what was emitted, and whether that was the draft's."""
        x, token = seen.done.proposal.tokens[i], seen.done.emitted[i]
        given = seen.done.proposal.q[i]
        q = given if given is not None else Law(np.array([x]), np.ones(1))
        beside = aligned(p.ids, q)
        order: Ids = np.argsort(-beside / p.probs, kind="stable")  # what the draft likes too much stands first
        self._add(EMITTED, placed(p.ids[order], p.probs[order], token, self.chance.random()))
        accepted = i < seen.done.n_accepted
        if self.rule is Rule.REJECT or given is None:
            prob = overlap(p, q)
        else:
            prob = coupled(p, q) if max(p.ids.size, q.ids.size) <= _LARGEST else math.nan
        if not math.isnan(prob):
            self.accepted[i].append((accepted, prob))
            if prob < _CERTAIN:
                self._add(ACCEPTED, happened(accepted, prob, self.chance.random()))
        if accepted and token != x:
            self.faults.add("a draft token was accepted, and another one emitted", place)
        if self.rule is Rule.REJECT and seen.done.kind is Kind.RECOVERED and not accepted:
            self._recovered(seen, i, p, beside, order, place)

    def _recovered(self, seen: Seen, i: int, p: Reference, beside: Floats, order: Ids, place: str) -> None:
        token = seen.done.emitted[i]
        left = np.maximum(p.probs - beside, 0.0)[order]
        ids = p.ids[order]
        if left.sum() <= _TIE:
            return
        own = float(left[ids == token].sum())
        if own <= 0:
            if float(beside[p.ids == token].sum()) - p.prob(token) > _TIE:
                self.faults.add("a recovered token was one that q has too often already", place)
            return
        probs = left / left.sum()
        if probs.max() < _CERTAIN:
            self._add(RECOVERED, placed(ids, probs, token, self.chance.random()))
        self._apart(seen, ids, probs, token, i)

    def _apart(self, seen: Seen, ids: Ids, probs: Floats, token: int, i: int) -> None:
        """Under reject: is the token the one that the drafter's noise would have drawn, more often than by chance?"""
        if self.rule is not Rule.REJECT or seen.drawn_with is None or probs.max() >= _CERTAIN:
            return
        possible = probs > 0
        ids, probs = ids[possible], probs[possible]
        noise = seen.drawn_with.noise.gumbel(seen.done.position + i, ids)
        at = int(np.argmax(np.log(probs) + noise))
        self._add(APART, happened(token == ids[at], float(probs[at]), self.chance.random()))

    def _must_be_own(self, p: Reference, token: int, position: int, params: SamplingParams, place: str) -> None:
        """Under match the noise of the seed decides, and nothing of the draft."""
        scores = np.log(p.probs) + noise_for(params.seed).gumbel(position, p.ids)
        best = int(scores.argmax())
        own = scores[p.ids == token]
        if scores[best] - own[0] > _TIE:
            self.faults.add("a token is not the target's own draw for this seed", place)

    def _add(self, name: str, value: float) -> None:
        self.values[name].append(value)
