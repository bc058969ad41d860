"""At temperature 0: every token is the best of the row that decided it, and that row knows nothing of what was refused."""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle, product

from specdec_cli.decoding.contracts import Governor, Round, SamplingParams
from specdec_cli.decoding.replay import Cause, explain, first_difference
from specdec_cli.proof.laws import reference
from specdec_cli.proof.report import Check, Difference, Findings, State, state
from specdec_cli.proof.subject import Clock, Forced, Prompt, Seen, Watched, Witness, Work, rounds, verified_by
from specdec_cli.session import Request

N_TOKENS = 48  # of a run
_LENGTHS: tuple[int | None, ...] = (4, None, 1, 8, 16)  # of forced drafts; None: as long as the session's own governor says


def check(work: Work, params: SamplingParams, clock: Clock, tell: Callable[[float], None]) -> Check:
    """Run prompts plainly and with drafts until the time is over. params: with a temperature of 0."""
    faults, differences, plain = Findings(), dict[str, Difference](), dict[str, list[int]]()
    counts = dict.fromkeys(("runs", "tokens", "drafted", "accepted", "refused", "same", "replayed"), 0)
    longest = work.subject.n_draft_max
    lengths = dict.fromkeys(None if n is None else min(n, longest) for n in _LENGTHS)
    with verified_by(work.subject, work.rules[0]) as watched:
        turns = product(lengths, work.prompts)
        for length, prompt in cycle(turns):
            if not clock.goes_on() or counts["runs"] == len(lengths) * len(work.prompts):
                break
            tell(clock.share)
            request = Request(prompt.tokens, params, N_TOKENS)
            if prompt.name not in plain:
                plain[prompt.name], _, _ = _run(work, watched, request, Forced(0), Findings(), prompt, "plain")
            said = "as it pays" if length is None else str(length)
            governor = None if length is None else Forced(length)
            tokens, done, witness = _run(work, watched, request, governor, faults, prompt, said)
            _count(counts, tokens, done)
            index = first_difference(plain[prompt.name], tokens)
            counts["same"] += index is None
            if not done:
                continue
            job = work.subject.job(request)
            found = explain(work.subject.target, job, witness, done, max(len(tokens) - 1, 0))
            counts["replayed"] += len(done)
            if found.cause is Cause.FAULT:
                faults.add(found.why, f"{prompt.name}, drafts {said}, token {found.position - len(prompt.tokens) + 1}")
            elif index is not None:
                if index < len(tokens) - 1:
                    found = explain(work.subject.target, job, witness, done, index)
                if index == len(tokens):
                    faults.add("a text ended before the plain one", f"{prompt.name}, drafts {said}")
                cause = Cause.FAULT if work.subject.options.exact else found.cause
                if work.subject.options.exact:
                    faults.add("under --exact a text is not the plain one", f"{prompt.name}, drafts {said}, token {index + 1}")
                name = f"{prompt.name}, {said}"
                differences[name] = Difference(prompt.name, said, index, cause.value, found.gap, found.noise)
            work.subject.forget()
    return _told(faults, counts, tuple(differences.values()), exact=work.subject.options.exact)


def _run(
    work: Work,
    watched: Watched | None,
    request: Request,
    governor: Governor | None,
    faults: Findings,
    prompt: Prompt,
    said: str,
) -> tuple[list[int], list[Round], Witness]:
    """One run, each of its tokens held against the row that decided it."""
    work.subject.forget()
    witness, tokens, done = Witness(work.subject.target), list[int](), list[Round]()
    params = work.subject.job(request).params
    for seen in rounds(work.subject, watched, request, witness, governor):
        where = f"{prompt.name}, drafts {said}, token {len(tokens) + 1}"
        for i, token in enumerate(seen.done.emitted):
            best = reference(seen.rows[i], (*seen.context, *seen.done.emitted[:i]), params)
            if token not in best.possible:
                faults.add("a token is not the best of the row that decided it", where)
        in_line(seen, faults, where)
        tokens += seen.done.emitted
        done.append(seen.done)
    return tokens, done, witness


def in_line(seen: Seen, faults: Findings, where: str) -> None:
    """Before a round the cache holds every token of the context but the last."""
    if seen.start != len(seen.context) - 1:
        faults.add("before a pass the cache did not hold all tokens but the last", where)


def _count(counts: dict[str, int], tokens: list[int], done: list[Round]) -> None:
    counts["runs"] += 1
    counts["tokens"] += len(tokens)
    counts["drafted"] += sum(each.n_drafted for each in done)
    counts["accepted"] += sum(each.n_accepted for each in done)
    counts["refused"] += sum(each.n_accepted < each.n_drafted for each in done)


def _told(faults: Findings, counts: dict[str, int], differences: tuple[Difference, ...], *, exact: bool) -> Check:
    found = state(faults.all(), seen=counts["refused"] > 0 and counts["accepted"] > 0)
    n_rounding = sum(each.cause == Cause.ROUNDING for each in differences)
    sentence = (
        f"{counts['tokens']} tokens of {counts['runs']} runs are the best of the rows that decided them;"
        f" {counts['replayed']} passes came back bit for bit with other refused tokens."
    )
    if n_rounding:
        sentence += f" {n_rounding} texts part from the plain one by rounding."
    elif exact:
        sentence += " All texts are the plain ones, byte for byte."
    if found is State.FAULT:
        first = faults.all()[0]
        sentence = f"{first.what[0].upper()}{first.what[1:]} ({first.where})."
    elif found is State.UNSEEN:
        sentence = f"{counts['runs']} runs had {counts['accepted']} accepted drafts and {counts['refused']} refusals: too few."
    return Check("greedy", found, sentence, faults.all(), counts, differences)
