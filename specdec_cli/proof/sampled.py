"""When sampling: every token is a draw from the target's own processed law, over many contexts and at the same prefix."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import count

import numpy as np

from specdec_cli.decoding.contracts import SamplingParams
from specdec_cli.decoding.verification import Rule
from specdec_cli.proof.greedy import in_line
from specdec_cli.proof.laws import Reference, overlap
from specdec_cli.proof.report import ALPHA, Check, Findings, SamePrefix, State, Statistic, state
from specdec_cli.proof.statistics import chance_of, chi_square, chi_square_tail, distance, total_variation, visible_from
from specdec_cli.proof.streams import NAMES, Streams
from specdec_cli.proof.subject import Clock, Forced, Prompt, Seen, Watched, Witness, Work, rounds, verified_by
from specdec_cli.session import Request

N_TOKENS = 24  # of a run over changing contexts
_LENGTHS = (4, 1, 2, 7)  # of forced drafts there
_AT_ONE = 3  # and at the same prefix
_N_PREFIXES = 2
_SPREAD = 2.5  # likely tokens that a prefix ought to have, as the exponential of the entropy
_PEAK = 0.8  # of the first q's peak: the limit stays below that, so that only later tokens miss it
_ENOUGH = 3  # peaks of second tokens, to choose a limit that half of them miss
_PEAKED = 0.5  # of q, at the second prefix
_EDGE = 0.05  # peaks that are nearer to the limit may fall on either side by rounding
_LEAST = 60  # draws without which a test says nothing


@dataclass(slots=True)
class _Prefix:
    """One place, met again and again."""

    name: str
    tokens: tuple[int, ...]
    params: SamplingParams
    peak: float
    first: Counter[int] = field(default_factory=Counter)
    first_expected: dict[int, float] = field(default_factory=lambda: defaultdict(float))
    second: dict[int, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    second_expected: dict[int, dict[int, float]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(float)))
    limit: float = 0.0  # on the peaks of q, in every other run; chosen once
    later: list[float] = field(default_factory=list)  # peaks of q at second tokens
    # Under one limit, behind the same draft tokens: was there one more? with its peak where there was
    went_on: dict[tuple[float, tuple[int, ...]], list[float | None]] = field(default_factory=lambda: defaultdict(list))


def check(work: Work, clock: Clock, tell: Callable[[float], None]) -> Check:
    """Sample until the time is over: half of it over changing contexts, half of it at prefixes found there."""
    faults, chance = Findings(), np.random.default_rng(work.seed)
    streams = {rule: Streams(rule, chance, faults) for rule in work.rules}
    seeds = count(work.seed + 1)
    wander = Clock(clock.seconds / 2)
    found = _wander(work, streams, wander, seeds, lambda share: tell(share / 2))
    stay = Clock(clock.seconds - wander.seconds)
    met = _stay(work, streams, stay, found, seeds, lambda share: tell((1 + share) / 2))
    names = [(rule, name) for rule in work.rules for name in NAMES[rule]]
    alpha = ALPHA / (len(names) + len(work.rules) * _N_PREFIXES)
    tests = tuple(_tested(rule, name, streams[rule].values[name], alpha) for rule, name in names)
    prefixes = tuple(_compared(rule, prefix, alpha) for rule, at in met.items() for prefix in at if prefix.first)
    return _told(work, faults, streams, tests, prefixes)


def _wander(
    work: Work, streams: dict[Rule, Streams], clock: Clock, seeds: count[int], tell: Callable[[float], None]
) -> list[_Prefix]:
    """Runs over changing contexts. Returns prefixes worth staying at, the best first."""
    longest = work.subject.n_draft_max
    worth: list[tuple[float, _Prefix]] = []
    turn = 0
    while clock.goes_on() or turn < len(work.rules):
        tell(clock.share)
        rule = work.rules[turn % len(work.rules)]
        params = work.params[turn // len(work.rules) % len(work.params)]
        prompt = work.prompts[turn // (len(work.rules) * len(work.params)) % len(work.prompts)]
        length = min(_LENGTHS[turn // len(work.rules) % len(_LENGTHS)], longest)
        turn += 1
        seeded = replace(params, seed=next(seeds))
        with verified_by(work.subject, rule) as watched:
            for seen, laws in _run(work, watched, streams[rule], prompt, seeded, Forced(length), N_TOKENS):
                if (prefix := _candidate(prompt, seen, laws, params)) is not None:
                    worth.append(prefix)
                if clock.over:
                    break
    worth.sort(key=lambda each: -each[0])
    # One where the draft is of another mind, and one where its peak leaves room for a limit between it and later ones.
    peaked = [prefix for _, prefix in worth[1:] if prefix.peak >= _PEAKED] or [prefix for _, prefix in worth[1:]]
    return [prefix for _, prefix in worth[:1]] + peaked[: _N_PREFIXES - 1]


def _stay(
    work: Work,
    streams: dict[Rule, Streams],
    clock: Clock,
    found: Sequence[_Prefix],
    seeds: count[int],
    tell: Callable[[float], None],
) -> dict[Rule, list[_Prefix]]:
    """Many short runs from the same prefixes, under each rule, with and without a limit on the peaks of q."""
    met = {rule: [_Prefix(each.name, each.tokens, each.params, each.peak) for each in found] for rule in work.rules}
    length, turn = min(_AT_ONE, work.subject.n_draft_max), 0
    while found and (clock.goes_on() or turn < 4):
        tell(clock.share)
        # Of four runs three are under reject, where what a drafter may leave out is narrower.
        rule = work.rules[-1] if turn % 4 == 3 else work.rules[0]
        prefix = met[rule][turn // 4 % len(found)]
        limit = prefix.limit if turn % 2 else 0.0
        turn += 1
        seeded = replace(prefix.params, seed=next(seeds))
        tokens: list[int] = []
        place = Prompt(prefix.name, prefix.tokens)
        with verified_by(work.subject, rule) as watched:
            for seen, laws in _run(work, watched, streams[rule], place, seeded, Forced(length, 0, limit), length + 3):
                if not tokens and rule is Rule.REJECT:
                    _follow(prefix, limit, seen)
                for token, law in zip(seen.done.emitted, laws, strict=False):
                    _count(prefix, tokens, token, law)
                    tokens.append(token)
                if len(tokens) >= 2:
                    break
    for prefix in met.get(Rule.REJECT, ()):
        _judge_lengths(prefix, streams[Rule.REJECT].faults)
    return met


def _run(
    work: Work,
    watched: Watched | None,
    streams: Streams,
    prompt: Prompt,
    params: SamplingParams,
    governor: Forced,
    n: int,
) -> Iterator[tuple[Seen, tuple[Reference, ...]]]:
    """The rounds of one run with p at each of their places."""
    request = Request(prompt.tokens, params, n)
    where = f"{prompt.name}, {streams.rule}, seed {params.seed}"
    full = work.subject.job(request).params
    witness = Witness(work.subject.target)
    with closing(rounds(work.subject, watched, request, witness, governor)) as found:
        for seen in found:
            in_line(seen, streams.faults, where)
            yield seen, streams.take(seen, full, where)


def _candidate(prompt: Prompt, seen: Seen, laws: Sequence[Reference], params: SamplingParams) -> tuple[float, _Prefix] | None:
    """A prefix at which faults would show: several likely tokens, and a draft that is of another mind."""
    if not laws:
        return None
    p, proposal = laws[0], seen.done.proposal
    entropy = float(-(p.probs * np.log(p.probs)).sum())
    if entropy < np.log(_SPREAD):
        return None
    q = proposal.q[0] if len(proposal) else None
    apart = 1 - overlap(p, q) if q is not None else (0.5 if len(proposal) else 0.0)
    name = f"{prompt.name} + {len(seen.context) - len(prompt.tokens)}"
    return min(apart, 0.5) + 0.05 * entropy, _Prefix(name, seen.context, params, proposal.peak[0] if q is not None else 0.0)


def _count(prefix: _Prefix, before: Sequence[int], token: int, law: Reference) -> None:
    """One more first or second token, and what its law expected."""
    if len(before) > 1:
        return
    counted = prefix.second[before[0]] if before else prefix.first
    expected = prefix.second_expected[before[0]] if before else prefix.first_expected
    counted[token] += 1
    for each, prob in zip(law.ids.tolist(), law.probs.tolist(), strict=True):
        expected[each] += prob


def _follow(prefix: _Prefix, limit: float, seen: Seen) -> None:
    """Whether there was a draft token at all, and one more behind each. A drafter without q may shorten as it likes."""
    proposal = seen.done.proposal
    if prefix.peak == 0.0 or (proposal.q and proposal.q[0] is None):
        return
    if limit == prefix.limit == 0.0 and len(proposal) > 1:
        prefix.later.append(proposal.peak[1])
        if len(prefix.later) == _ENOUGH:
            prefix.limit = min(float(np.median(prefix.later)), _PEAK * prefix.peak)
    for i in range(_AT_ONE):
        there = i < len(proposal)
        prefix.went_on[limit, proposal.tokens[:i]].append(proposal.peak[i] if there else None)
        if not there:
            break


def _judge_lengths(prefix: _Prefix, faults: Findings) -> None:
    """Behind the same tokens a draft goes on always or never: all that may stop it is known before the draw."""
    for (limit, before), peaks in prefix.went_on.items():
        there = [peak for peak in peaks if peak is not None]
        if there and len(there) < len(peaks) and min(there) > limit + _EDGE:
            faults.add(
                "a draft token was left out after it was drawn",
                f"{prefix.name}: {len(there)} of {len(peaks)} drafts went on behind {len(before)} tokens",
            )


def _tested(rule: Rule, name: str, values: Sequence[float], alpha: float) -> Statistic:
    found = distance(values)
    p_value = chance_of(found, len(values))
    return Statistic(name, rule.value, len(values), found, p_value, visible_from(alpha, len(values)), p_value < alpha)


def _compared(rule: Rule, prefix: _Prefix, alpha: float) -> SamePrefix:
    """The first token's law, and the second's after each first."""
    statistic, dof = chi_square(prefix.first, prefix.first_expected)
    for first, counted in prefix.second.items():
        more, n_more = chi_square(counted, prefix.second_expected[first])
        statistic, dof = statistic + more, dof + n_more
    p_value = chi_square_tail(statistic, dof)
    apart = total_variation(prefix.first, prefix.first_expected)
    n = sum(prefix.first.values())
    return SamePrefix(rule.value, prefix.name, n, statistic, dof, p_value, apart, p_value < alpha)


def _told(
    work: Work,
    faults: Findings,
    streams: dict[Rule, Streams],
    tests: tuple[Statistic, ...],
    prefixes: tuple[SamePrefix, ...],
) -> Check:
    alarms = [test for test in tests if test.alarm]
    found = state(
        faults.all(),
        seen=all(test.n >= _LEAST for test in tests if test.name == NAMES[Rule.MATCH][1]),
        alarm=bool(alarms) or any(each.alarm for each in prefixes),
    )
    counts = {
        "rounds": sum(each.n_rounds for each in streams.values()),
        "tokens": sum(each.n_tokens for each in streams.values()),
        "prefix_runs": sum(each.n for each in prefixes),
    }
    shown = [test for test in tests if test.n]
    sees = max((test.sees for test in shown), default=1.0)
    if found is State.FAULT:
        sentence = _wrong(faults, alarms, prefixes)
    elif found is State.UNSEEN:
        sentence = f"Only {counts['tokens']} tokens were sampled: too few to tell a law from another."
    else:
        best = min((test.sees for test in shown), default=1.0)
        sentence = (
            f"{counts['tokens']} tokens follow the target's law under {' and '.join(work.rules)}; a fault that moves more than"
            f" {100 * best:.0f} % of a law (for the rarest kind of token {100 * sees:.0f} %) would have shown."
        )
    positions = tuple(each for one in streams.values() for each in one.positions())
    return Check("sampling", found, sentence, faults.all(), counts, (), tests, positions, prefixes)


def _wrong(faults: Findings, alarms: Sequence[Statistic], prefixes: Sequence[SamePrefix]) -> str:
    """The first thing that is wrong, in a sentence."""
    if alarms:
        worst = min(alarms, key=lambda test: test.p_value)
        return f"It does not hold under {worst.rule} that {worst.name}: off by {100 * worst.distance:.0f} % in {worst.n} draws."
    if faults.all():
        first = faults.all()[0]
        return f"{first.what[0].upper()}{first.what[1:]} ({first.where})."
    worst_at = min(prefixes, key=lambda each: each.p_value)
    return (
        f"At one prefix ({worst_at.prefix}) {worst_at.n} runs under {worst_at.rule} do not follow the target's law:"
        f" chi-square {worst_at.chi_square:.0f} with {worst_at.dof} degrees of freedom."
    )
