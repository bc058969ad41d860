#!/usr/bin/env python3
"""Measure drafts as long as pays beside plain decoding and fixed lengths, on the tasks of specdec bench, in turns.

    scripts/governed.py TARGET [DRAFT] [--ngram] [--tasks code,story] [--k 3 5 8] [-n 128] [--repeats 2] [-c 8192] [-t N]
                        [--temp 0.8]

One session runs everything, so that all share one copy of the weights: plain; governed, knowing nothing of the pair; warm,
knowing what the run before learned; and each fixed length, the best of which is the best in hindsight. With --temp: plain,
governed with the default rule, and governed with match and an arg-max draft, which is llama.cpp's way. Medians, as ratios to
plain, with their range.
"""

from __future__ import annotations

import argparse
import copy
import dataclasses
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

from measure import ArgmaxDraft, Silent, spread

from specdec_cli import drafters
from specdec_cli.bench import workloads
from specdec_cli.decoding.contracts import SamplingParams
from specdec_cli.decoding.governor import FixedGovernor
from specdec_cli.decoding.stats import RunStats
from specdec_cli.decoding.verification import Rule
from specdec_cli.llama.interrupt import Interrupt
from specdec_cli.llama.options import ContextOptions, ModelOptions
from specdec_cli.options import SessionOptions
from specdec_cli.session import Request, Session

PLAIN, GOVERNED, WARM, ARGMAX = "plain", "governed", "warm", "match, arg-max draft"


@dataclass
class Bench:
    """One session, and the runs of each task and way."""

    session: Session
    temperature: float

    def __post_init__(self) -> None:
        ledger = self.session.ledger
        assert ledger is not None
        self._costs, self._accounts = copy.deepcopy((ledger.costs, ledger.accounts))

    def run(self, way: str, prompt: tuple[int, ...], n: int, seed: int) -> RunStats:
        session, stats = self.session, RunStats()
        session.forget()
        request = Request(prompt, SamplingParams(temperature=self.temperature, seed=seed), n, ignore_eos=True)
        governor = FixedGovernor(0) if way == PLAIN else FixedGovernor(int(way[2:])) if way.startswith("K ") else None
        if way in (GOVERNED, ARGMAX):
            self._forget()
        with self._as_llama_cpp() if way == ARGMAX else _as_it_is():
            for event in session.generate(request, governor=governor):
                stats.add(event)
        return stats

    def _forget(self) -> None:
        """Know no more than at the start: what passes cost, and nothing of the pair."""
        ledger = self.session.ledger
        assert ledger is not None
        ledger.costs, ledger.accounts = copy.deepcopy((self._costs, self._accounts))

    @contextmanager
    def _as_llama_cpp(self) -> Iterator[None]:
        session, options, drafter = self.session, self.session.options, self.session.drafter
        assert drafter is not None
        session.options, session.drafter = dataclasses.replace(options, rule=Rule.MATCH), ArgmaxDraft(drafter, drafter.name)
        try:
            yield
        finally:
            session.options, session.drafter = options, drafter


@contextmanager
def _as_it_is() -> Iterator[None]:
    yield


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", type=Path)
    parser.add_argument("draft", type=Path, nargs="?")
    parser.add_argument("--ngram", action="store_true")
    parser.add_argument("--tasks", default="code,prose")
    parser.add_argument("--k", type=int, nargs="*", default=[3, 5, 8])
    parser.add_argument("-n", type=int, default=128)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("-c", "--ctx-size", type=int, default=8192)
    parser.add_argument("-t", "--threads", type=int)
    parser.add_argument("--temp", type=float, default=0.0)
    args = parser.parse_args()
    names = (*([drafters.MODEL] if args.draft else []), *([drafters.NGRAM] if args.ngram else []))
    if not names:
        parser.error("nothing to draft with: name a DRAFT, or --ngram")
    context = ContextOptions(n_ctx=args.ctx_size, n_threads=args.threads)
    options = SessionOptions(
        target=ModelOptions(args.target),
        context=context,
        drafters=names,
        draft=ModelOptions(args.draft) if args.draft else None,
        draft_context=context,
        rule=Rule.REJECT if args.temp > 0 else Rule.MATCH,
    )
    ways = [PLAIN, GOVERNED, ARGMAX] if args.temp > 0 else [PLAIN, GOVERNED, WARM, *(f"K {k}" for k in args.k)]
    with Session(options, Silent(), Interrupt()) as session:
        measure(Bench(session, args.temp), ways, args)


def measure(bench: Bench, ways: Sequence[str], args: argparse.Namespace) -> None:
    tasks = workloads.chosen(args.tasks.split(","))
    encode = partial(bench.session.encode, raw=False)
    n_ctx, temperature = bench.session.n_ctx, bench.temperature
    prepared = workloads.prepare(tasks, encode, n_room=n_ctx, n_predict=args.n, temperature=temperature, seed=0)
    bench.run(PLAIN, prepared[0].prompt, 16, 0)  # the first run of a process is slower
    for task in prepared:
        rates: dict[str, list[float]] = defaultdict(list)
        accepted: dict[str, str] = {}
        for repeat in range(args.repeats):
            for way in ways if repeat % 2 == 0 else reversed(ways):
                stats = bench.run(way, task.prompt, args.n, repeat)
                rates[way].append(stats.generation_tps or math.nan)
                accepted[way] = f"{stats.n_accepted}/{stats.n_drafted} accepted"
        print(f"{task.task.name}: plain {median(rates[PLAIN]):.2f} t/s")
        for way in ways[1:]:
            ratios = [fast / slow for fast, slow in zip(rates[way], rates[PLAIN], strict=True)]
            print(f"  {way:21} x plain {spread(ratios)}  {accepted[way]}", flush=True)


if __name__ == "__main__":
    main()
