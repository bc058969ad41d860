"""How far to draft, and with which drafter: the choice that costs least by the clock, and the fixed choice."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from specdec_cli.decoding.acceptance import Calibration
from specdec_cli.decoding.contracts import Offer, Plan, Proposal, Reason, Round, Why
from specdec_cli.decoding.costs import CostCurve

_MEMORY = 0.9  # of a drafter's realised rate, for each of its rounds
_PERFECT = 0.98  # nobody's drafts are accepted more often
_GAIN = 1.02  # what a probe hopes for, times what would be had without it
_N_PROBES, _N_FORCED = 5, 2  # rounds of a probe; of these, the first, that draft whatever the drafter says of its certainty
_PROBE_SHARE = 0.012  # of the time without drafting that may go into probes
_GAIN_SHARE = 0.25  # of the time that drafting has gained that may go into probes
_FIRST_WAIT, _LONGEST_WAIT = 8, 128  # rounds between probes, doubled after each that finds nothing
_FAR, _DRIFT = 1.25, 0.1  # a row of the drafter counts for no more than this factor, and with this weight
_HORIZON = 256  # tokens that are expected to follow where nobody said how many
_WINDOW, _PROBE_WINDOW = 2048, 128  # tokens that a drafter catches up on at the most, in earnest and on trial
_LONG = 32  # tokens of a catching up that tell what a token of it costs


class FixedGovernor:
    """Drafts the same length in every round, as far as there is room."""

    def __init__(self, n_max: int, n_min: int = 0, p_min: float = 0.0) -> None:
        self._plan = Plan(n_max, n_min, p_min)

    def plan(self, room: int, left: float, offers: Mapping[str, Offer]) -> Plan:  # noqa: ARG002
        n_max = min(max(room, 0), self._plan.n_max)
        return Plan(n_max, self._plan.n_min, self._plan.p_min, next(iter(offers), ""))

    def trim(self, proposal: Proposal) -> Proposal:
        return proposal

    def observe(self, done: Round) -> None:
        """A fixed choice learns nothing."""


@dataclass(slots=True)
class Account:
    """What is known of one drafter."""

    step_s: float  # one row of it; 0 for a drafter without a model
    feed_s: float  # one token of a context that it catches up on
    by_peak: Calibration = field(default_factory=Calibration)  # acceptance by what is known before a draw
    by_prob: Calibration = field(default_factory=Calibration)  # and by what is known after it
    tokens: float = 0.0  # of its rounds, the old ones fading
    seconds: float = 0.0
    n_probes: int = 0  # rounds left of the probe under way
    purse_s: float = 0.0  # time that probes may cost: a share of the time without it, and of what it has gained
    n_waited: int = 0  # rounds since its last
    n_wait: int = _FIRST_WAIT  # rounds before the next probe, at the least

    @property
    def realised(self) -> float:
        """Tokens per second of its rounds lately."""
        return self.tokens / self.seconds if self.seconds else 0.0


@dataclass(frozen=True, slots=True)
class Prices:
    """What a round can cost, as it stands before the round."""

    pass_s: tuple[float, ...]  # of a pass of 1, 2, ... tokens; one more than the longest draft
    step_s: float  # one row of the drafter
    n_min: int = 0  # drafts are not shorter
    rate: float = 0.0  # lambda: tokens that a second is worth
    floor: float = 0.0  # a lower chance is taken for this one: what a probe supposes
    entry_s: float = 0.0  # before the first of its rows that is not paid for

    def best_length(self, chances: Sequence[float], n_rows: int, beyond: float, n_least: int = 0) -> int:
        """The length of a draft that is worth most: of all from n_least on, E[tokens] - lambda E[time].

        chances: that each of the first tokens is accepted, given those before it; beyond: of every later one; n_rows: rows of
        the drafter that are paid for already.
        """
        alive = tokens = 1.0
        best_n, best = n_least, -math.inf
        n_known, floor, rate, step_s = len(chances), self.floor, self.rate, self.step_s
        for n, cost_s in enumerate(self.pass_s):
            if n:
                chance = chances[n - 1] if n <= n_known else beyond
                alive *= chance if chance > floor else floor
                tokens += alive
            if n < n_least:
                continue
            if n > n_rows:
                cost_s += self.entry_s + (n - n_rows) * step_s
            worth = tokens - rate * cost_s
            if worth > best:
                best_n, best = n, worth
        return best_n

    def best_rate(self, chance: float) -> float:
        """Tokens per second at the best length, if every token is accepted with this chance."""
        _, tokens, seconds = self.best_draft(chance)
        return tokens / seconds if seconds else 0.0

    def best_draft(self, chance: float) -> tuple[int, float, float]:
        """The length with most tokens per second, if every token is accepted with this chance, its tokens and its seconds."""
        alive = tokens = 1.0
        best, found = 0.0, (0, 1.0, 0.0)
        for n in range(1, len(self.pass_s)):
            alive *= chance
            tokens += alive
            if n >= self.n_min:
                seconds = self.pass_s[n] + n * self.step_s
                if tokens > best * seconds:
                    best, found = tokens / seconds, (n, tokens, seconds)
        return found

    def least_chance(self, rate: float) -> float:
        """The lowest chance with which drafts bring more tokens per second than this; 0 if no drafter is that good."""
        low, high = 0.0, _PERFECT
        if self.best_rate(high) <= rate:
            return 0.0
        for _ in range(6):
            middle = (low + high) / 2
            low, high = (low, middle) if self.best_rate(middle) > rate else (middle, high)
        return high


class Governor:
    """Drafts as far as that pays by the clock, with the drafter that promises most; plainly where none does.

    trims: whether the rule of verification allows dropping sampled tokens from a proposal (match and greedy).
    """

    def __init__(
        self,
        costs: CostCurve,
        accounts: Mapping[str, Account],
        n_max: int,
        n_min: int = 0,
        p_min: float = 0.0,
        *,
        trims: bool,
    ) -> None:
        self.costs = costs
        self.accounts = dict(accounts)
        self._n_max, self._n_min, self._p_min = n_max, n_min, p_min
        self._trims = trims
        self._draft = self._reins("", Prices((0.0,), 0.0), 0.0)  # of the round under way

    def plan(self, room: int, left: float, offers: Mapping[str, Offer]) -> Plan:
        n_max = max(min(room, self._n_max), 0)
        pass_s = tuple(self.costs(n + 1) for n in range(n_max + 1))
        best = plain = 1 / pass_s[0]
        chosen, floor = "", 0.0
        why = Why(Reason.NO_OFFER if n_max else Reason.NO_ROOM, plain)
        prices: dict[str, Prices] = {}
        for name, offer in offers.items():
            account = self.accounts[name]
            prices[name] = Prices(pass_s, account.step_s, min(self._n_min, n_max))
            rate = _promised(account, offer, prices[name])
            returns = rate > best and _comes_back(account, offer, left, plain, rate, _WINDOW)
            if returns or not why.length:
                reason = Reason.PAYS if returns else Reason.CATCH_UP if rate > best else Reason.NO_GAIN
                why = Why(reason, best, *prices[name].best_draft(account.by_peak.rate(offer.certainty)))
            if returns:
                best, chosen = rate, name
        without, window = best, _PROBE_WINDOW
        for name, offer in offers.items():
            account = self.accounts[name]
            if name == chosen:
                account.n_probes, account.n_wait = 0, _FIRST_WAIT
            elif (supposed := _supposed(account, offer, prices[name], best, left)) is not None:
                chosen, floor = name, supposed
                why = Why(Reason.PROBE, best, *prices[name].best_draft(account.by_peak.rate(offer.certainty)))
                break
        else:
            without, window = plain, _WINDOW
        if not chosen:
            return Plan(0, why=why)
        self._draft = self._reins(chosen, replace(prices[chosen], rate=best, floor=floor), without)
        return Plan(n_max, self._n_min, self._p_min, chosen, window, self._draft, why)

    def trim(self, proposal: Proposal) -> Proposal:
        return self._draft.trim(proposal)

    def observe(self, done: Round) -> None:
        self.costs.observe(done.width, done.pass_s)
        parts = [part for part in done.proposal.by_drafter if part.drafter in self.accounts and (part.n_passes or part)]
        for name, account in self.accounts.items():
            if all(part.drafter != name for part in parts):
                account.purse_s += _PROBE_SHARE * self.costs(1) * len(done.emitted)
                account.n_waited += 1
        n_accepted = done.n_accepted
        for i, part in enumerate(parts):
            account = self.accounts[part.drafter]
            if i == 0:
                self._settle(account, part, min(n_accepted, len(part)))
            self._learn(account, part, n_accepted)
            account.n_waited = 0
            n_accepted -= len(part)

    def _reins(self, drafter: str, prices: Prices, without: float) -> _Draft:
        return _Draft(self.accounts, drafter, prices, without, trims=self._trims)

    def _settle(self, account: Account, proposal: Proposal, n_accepted: int) -> None:
        """Book a round of the drafter that began it, as if nobody had drafted on behind it, and at the prices it should have
        had: a clock also measures what else the machine did."""
        spent_s = proposal.n_passes * account.step_s + self.costs(len(proposal) + 1)
        # What was to be expected of these certainties tells as much as what came, which is half chance.
        expected = alive = 1.0
        for chance in _chances(account, proposal):
            alive *= chance
            expected += alive
        account.tokens = account.tokens * _MEMORY + (expected + n_accepted + 1) / 2
        account.seconds = account.seconds * _MEMORY + spent_s
        gained_s = (n_accepted + 1) / self._draft.without - spent_s
        if account.n_probes:
            account.n_probes -= 1
            gained_s -= proposal.n_fed * account.feed_s
        account.purse_s += gained_s * (_GAIN_SHARE if gained_s > 0 else 1.0)
        if proposal.n_passes:
            ratio = (proposal.pass_s - proposal.feed_s) / proposal.n_passes / account.step_s
            account.step_s *= min(max(ratio, 1 / _FAR), _FAR) ** _DRIFT

    def _learn(self, account: Account, proposal: Proposal, n_accepted: int) -> None:
        """n_accepted: tokens accepted from the start of the drafter's part on; negative where its first was not reached."""
        for i in range(min(n_accepted + 1, len(proposal))):
            account.by_peak.observe(proposal.peak[i], i < n_accepted)
            account.by_prob.observe(proposal.prob[i], i < n_accepted)
        peaks = self._draft.peaks.get(proposal.drafter, ())
        if len(proposal) < min(n_accepted + 1, len(peaks)):
            account.by_peak.look(peaks[len(proposal)])
        if proposal.n_fed >= _LONG:
            account.feed_s = proposal.feed_s / proposal.n_fed


class _Draft:
    """The reins of one draft, whoever drafts."""

    def __init__(self, accounts: Mapping[str, Account], drafter: str, prices: Prices, without: float, *, trims: bool) -> None:
        """without: tokens per second that would be had without it."""
        self.prices, self.without = prices, without
        self.peaks: dict[str, list[float]] = {}  # of every row of a drafter, drawn from or not
        self._accounts, self._drafter = accounts, drafter
        self._trims = trims
        self._chances: list[float] = []
        self._n = 0  # the best length, as far as is known

    def draw(self, peak: float) -> bool:
        self.peaks.setdefault(self._drafter, []).append(peak)
        self._chances.append(self._account.by_peak.rate(peak))
        self._n = self._best()
        return self._n >= len(self._chances)

    def extend(self, prob: float) -> bool:
        if not math.isnan(prob):
            self._chances[-1] = self._account.by_prob.rate(prob)
            self._n = self._best()
        return self._n > len(self._chances)

    def trim(self, proposal: Proposal) -> Proposal:
        """Cut to the best length, where what is known of the draws may be acted on."""
        if any(part.drafter not in self._accounts for part in proposal.by_drafter):
            return proposal
        n_least = max(self.prices.n_min, 0 if self._trims else proposal.n_sampled)
        return proposal.cut(self.prices.best_length(self._known(proposal), len(self.prices.pass_s), 0.0, n_least))

    def pass_on(self, proposal: Proposal, offers: Mapping[str, Offer]) -> str:
        """To the first with whom a longer draft is worth more than the draft as it stands. A probe has to show what one alone
        is worth, so there to nobody."""
        if self._account.n_probes:
            return ""
        chances, n = self._known(proposal), len(proposal)
        # What the one that began had promised is the rate of a draft that goes on, and this one has ended.
        rate = min(self.prices.rate, max(self._account.realised or self.prices.rate, 1 / self.prices.pass_s[0]))
        for name, offer in offers.items():
            account = self._accounts[name]
            prices = replace(self.prices, rate=rate, step_s=account.step_s, entry_s=offer.n_behind * account.feed_s)
            if prices.best_length(chances, n, account.by_peak.rate(offer.certainty), n) > n:
                self.prices, self._drafter, self._chances = replace(prices, entry_s=0.0), name, chances
                return name
        return ""

    @property
    def _account(self) -> Account:
        return self._accounts[self._drafter]

    def _known(self, proposal: Proposal) -> list[float]:
        """The chance of each token by its own drafter's account."""
        return [chance for part in proposal.by_drafter for chance in _chances(self._accounts[part.drafter], part)]

    def _best(self) -> int:
        return self.prices.best_length(self._chances, len(self._chances), self._account.by_peak.lately)


def _promised(account: Account, offer: Offer, prices: Prices) -> float:
    """Tokens per second that the drafter promises. A certainty that is known before the draft says more than earlier rounds."""
    promised = prices.best_rate(account.by_peak.rate(offer.certainty))
    return max(promised, account.realised) if math.isnan(offer.certainty) else promised


def _comes_back(account: Account, offer: Offer, left: float, without: float, rate: float, window: int) -> bool:
    """Whether what it costs to catch up comes back before the text ends."""
    return min(left, _HORIZON) * (1 / without - 1 / rate) >= min(offer.n_behind, window) * account.feed_s


def _supposed(account: Account, offer: Offer, prices: Prices, without: float, left: float) -> float | None:
    """What a probe supposes of every token: at first the lowest chance that pays, then nothing, so that a drafter which knows
    when it is right can show that. None: no probe is under way, and none can be paid for."""
    # What will have been saved up by the text's end may be spent at once: the sooner, the less there is to catch up on.
    purse_s = account.purse_s + _PROBE_SHARE * min(left, _HORIZON) / without
    if not account.n_probes and (purse_s <= 0 or account.n_waited < account.n_wait):
        return None
    chance = prices.least_chance(_GAIN * without)
    if not chance or not _comes_back(account, offer, left, without, _GAIN * without, _PROBE_WINDOW):
        return None
    if not account.n_probes:
        n = replace(prices, rate=without).best_length((), 0, chance)
        loss_s = prices.pass_s[n] + n * prices.step_s + min(offer.n_behind, _PROBE_WINDOW) * account.feed_s - 1 / without
        if purse_s < loss_s:
            return None
        account.n_probes, account.n_wait = _N_PROBES, min(2 * account.n_wait, _LONGEST_WAIT)
    return chance if account.n_probes > _N_PROBES - _N_FORCED else 0.0


def _chances(account: Account, proposal: Proposal) -> list[float]:
    """The chance of each drawn token, by what is known of it."""
    return [
        account.by_peak.rate(peak) if math.isnan(prob) else account.by_prob.rate(prob)
        for peak, prob in zip(proposal.peak, proposal.prob, strict=True)
    ]
