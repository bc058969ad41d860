#!/usr/bin/env python3
"""Measure on this machine, with interleaved runs: what drafting brings, the two rules side by side, host time and memory.

    scripts/measure.py speed TARGET DRAFT [--k 5] [--n 128] [--repeats 3]
    scripts/measure.py rules TARGET DRAFT [--k 3] [--n 96] [--seeds 2]
    scripts/measure.py host TARGET DRAFT [--k 3] [--n 96]
    scripts/measure.py rows [--n-vocab 152064]
    scripts/measure.py memory TARGET [--draft DRAFT] [--contexts 2048 32768] [--caches f16 q8_0] [--tokens 700]

Runs alternate, so that a machine whose speed drifts is fair to all of them. Figures are medians, with their range.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter

import numpy as np

from specdec_cli import drafters
from specdec_cli.decoding.contracts import Drafter, Offer, PassResult, Plan, Proposal, Round, Sampler, SamplingParams, Verdict
from specdec_cli.decoding.noise import NoNoise
from specdec_cli.decoding.replay import Recorder, explain, first_difference
from specdec_cli.decoding.sampling import Walk
from specdec_cli.decoding.stats import RunStats
from specdec_cli.decoding.verification import Rule, samplers
from specdec_cli.gguf.reader import read_header
from specdec_cli.llama.interrupt import Interrupt
from specdec_cli.llama.options import CacheType, ContextOptions, ModelOptions
from specdec_cli.options import SessionOptions
from specdec_cli.room import plan_for
from specdec_cli.session import Request, Session

CODE = (
    "Write a Python class for a thread-safe LRU cache with get, put and a time to live for entries.",
    "Write a Python function that parses a CSV file without the csv module, with quoted fields, and tests for it.",
    "Implement Dijkstra's shortest path algorithm in Python with a priority queue, with type hints and docstrings.",
)
PROSE = (
    "Write the opening of a story about a lighthouse keeper who finds a letter that was never sent.",
    "Write a poem about rain on an old tin roof.",
)


class Silent:
    """Listens, and shows notices on standard error."""

    def notice(self, sentence: str, /) -> None:
        print(f"note: {sentence}", file=sys.stderr)

    def progress(self, label: str, fraction: float | None, /) -> None: ...


@dataclass
class ArgmaxDraft:
    """Drafts the most probable tokens although the run samples, as llama.cpp does."""

    inner: Drafter
    name: str = "arg-max draft"

    def offers(self, context: Sequence[int], changed: int) -> Mapping[str, Offer]:
        return self.inner.offers(context, changed)

    def propose(self, context: Sequence[int], changed: int, plan: Plan, sampler: Sampler) -> Proposal:
        return self.inner.propose(context, changed, plan, dataclasses.replace(sampler, noise=NoNoise()))

    def observe(self, result: PassResult, verdict: Verdict) -> None:
        self.inner.observe(result, verdict)

    def settle(self, n: int) -> None:
        self.inner.settle(n)


@dataclass
class Variant:
    label: str
    session: Session
    runs: list[tuple[RunStats, tuple[int, ...]]] = field(default_factory=list)

    def run(self, request: Request) -> None:
        self.session.forget()
        stats = RunStats()
        tokens: list[int] = []
        for event in self.session.generate(request):
            stats.add(event)
            if isinstance(event, Round):
                tokens.extend(event.emitted)
        self.runs.append((stats, tuple(tokens)))


def session(args: argparse.Namespace, drafter: str, rule: Rule = Rule.MATCH, k: int | None = None) -> Session:
    context = ContextOptions(n_ctx=2048, n_threads=args.threads)
    return Session(
        SessionOptions(
            target=ModelOptions(args.target),
            context=context,
            drafters=(drafter,) if drafter != drafters.NONE else (),
            governed=False,
            draft=ModelOptions(args.draft) if drafter == drafters.MODEL else None,
            draft_context=context,
            n_max=args.k if k is None else k,
            rule=rule,
            exact=args.exact,
        ),
        Silent(),
        Interrupt(),
    )


def spread(values: Sequence[float]) -> str:
    return f"{median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def interleave(variants: Sequence[Variant], requests: Sequence[Request], repeats: int) -> None:
    """Each request through each variant, in turn and in alternating order; the first pass over all is a warm-up."""
    for variant in variants:
        variant.run(dataclasses.replace(requests[0], n_predict=16))
        variant.runs.clear()
    for repeat in range(repeats):
        for request in requests:
            for variant in variants if repeat % 2 == 0 else reversed(variants):
                variant.run(request)


def speed(args: argparse.Namespace) -> None:
    variants = [Variant("plain", session(args, drafters.NONE)), Variant(f"K = {args.k}", session(args, drafters.MODEL))]
    plain, drafted = variants
    for kind, prompts in (("code", CODE), ("prose", PROSE)):
        for prompt in prompts:
            ids = plain.session.encode(prompt, None, raw=False)
            request = Request(ids, SamplingParams(temperature=0), args.n, ignore_eos=True)
            for variant in variants:
                variant.runs.clear()
            interleave(variants, [request], args.repeats)
            rates = [[stats.generation_tps or math.nan for stats, _ in variant.runs] for variant in variants]
            ratios = [fast / slow for slow, fast in zip(*rates, strict=True)]
            stats, tokens = drafted.runs[0]
            index = first_difference(plain.runs[0][1], tokens)
            print(
                f"{kind:5}  plain {median(rates[0]):6.2f} t/s  drafted {median(rates[1]):6.2f} t/s  ratio {spread(ratios)}"
                f"  acceptance {stats.acceptance_rate or 0:.3f} ({stats.n_accepted}/{stats.n_drafted})"
                f"  tokens/pass {stats.mean_acceptance_length or 0:.2f}"
                f"  text {'equal' if index is None else classified(drafted.session, request, index)}",
                flush=True,
            )


def classified(drafted: Session, request: Request, index: int) -> str:
    recorder = Recorder(drafted.target)
    drafted.forget()
    rounds = [event for event in drafted.generate(request, target=recorder) if isinstance(event, Round)]
    found = explain(drafted.target, drafted.job(request), recorder, rounds, index)
    return f"differs at token {index}: {found.cause} (gap {found.gap:.3f}, noise {found.noise:.3f})"


def rules(args: argparse.Namespace) -> None:
    argmax = session(args, drafters.MODEL)
    assert argmax.drafter is not None
    argmax.drafter = ArgmaxDraft(argmax.drafter)
    variants = [
        Variant("plain", session(args, drafters.NONE)),
        Variant("reject", session(args, drafters.MODEL, Rule.REJECT)),
        Variant("match, shared noise", session(args, drafters.MODEL)),
        Variant("match, arg-max draft", argmax),
    ]
    for temperature in (0.8, 1.0):
        requests = [
            Request(
                variants[0].session.encode(prompt, None, raw=False),
                SamplingParams(temperature=temperature, seed=seed),
                args.n,
                ignore_eos=True,
            )
            for prompt in (*CODE, *PROSE)
            for seed in range(args.seeds)
        ]
        for variant in variants:
            variant.runs.clear()
        interleave(variants, requests, 1)
        rates = {v.label: [stats.generation_tps or math.nan for stats, _ in v.runs] for v in variants}
        for variant in variants:
            accepted = sum(stats.n_accepted for stats, _ in variant.runs)
            drafted = sum(stats.n_drafted for stats, _ in variant.runs)
            rounds = sum(stats.n_rounds for stats, _ in variant.runs)
            ratios = [a / b for a, b in zip(rates[variant.label], rates["plain"], strict=True)]
            print(
                f"temperature {temperature}  {variant.label:21} x plain {spread(ratios)}"
                f"  total {sum(rates[variant.label]) / sum(rates['plain']):.3f}"
                f"  acceptance {accepted / max(drafted, 1):.3f} ({accepted}/{drafted})"
                f"  tokens/pass {1 + accepted / rounds:.2f}",
                flush=True,
            )


def host(args: argparse.Namespace) -> None:
    drafted = Variant("drafted", session(args, drafters.MODEL))
    for label, params in (("greedy", SamplingParams(temperature=0)), ("sampling", SamplingParams(temperature=0.8))):
        drafted.runs.clear()
        prompts = [drafted.session.encode(prompt, None, raw=False) for prompt in CODE]
        interleave([drafted], [Request(ids, params, args.n, ignore_eos=True) for ids in prompts], 1)
        shares = [s.host_s / (s.host_s + s.pass_s + s.draft_s) for s, _ in drafted.runs]
        print(f"{label}: host share of a round {100 * median(shares):.2f} % ({100 * max(shares):.2f} % at most)")


def rows(args: argparse.Namespace) -> None:
    """Milliseconds of host time a verified row at a large vocabulary."""
    generator = np.random.default_rng(0)
    made = [(generator.gumbel(size=args.n_vocab) * 2).astype(np.float32) for _ in range(32)]
    for label, params in (("greedy", SamplingParams(temperature=0)), ("sampling", SamplingParams())):
        walk = Walk(samplers(Rule.MATCH, params, None, 0)[1], [1])
        times = []
        for row in made * 4:
            started_s = perf_counter()
            walk.draw(walk.law(row))
            times.append((perf_counter() - started_s) * 1000)
        print(f"{label}: {median(times):.3f} ms a row ({max(times):.3f} at most), vocabulary {args.n_vocab}")


def memory(args: argparse.Namespace) -> None:
    """The memory plan beside the real peak of `specdec run`, for each context and cache type. Linux and macOS."""
    target, draft = read_header(args.target), read_header(args.draft) if args.draft else None
    text = "The keeper found a letter that was never sent, and read it twice by the light of the lamp. " * args.tokens
    with TemporaryDirectory() as folder:
        prompt = Path(folder, "prompt.txt")
        prompt.write_text(text[: args.tokens * 4], encoding="utf-8")
        for n_ctx in args.contexts:
            for name in args.caches:
                kind = CacheType(name)
                context = ContextOptions(n_ctx=n_ctx, type_k=kind, type_v=kind)
                draft_model = ModelOptions(args.draft) if args.draft else None
                n_rows = args.k + 1 if args.draft else 1
                planned = plan_for(target, ModelOptions(args.target), context, draft, draft_model, context, n_rows)
                options = [
                    "-f",
                    prompt,
                    "--raw",
                    "-n",
                    4,
                    "-c",
                    n_ctx,
                    "-ctk",
                    name,
                    "-ctv",
                    name,
                    "-ctkd",
                    name,
                    "-ctvd",
                    name,
                ]
                drafting = ["--draft", args.draft or "none", "--draft-max", args.k]
                real = peak(["run", args.target, *options, *drafting])
                print(
                    f"-c {n_ctx:6} {name:5} planned {planned.n_needed / 1e6:8.1f} MB  real {real / 1e6:8.1f} MB"
                    f"  planned / real {planned.n_needed / real:.3f}",
                    flush=True,
                )


def peak(arguments: Sequence[object]) -> int:
    """The largest resident size of a specdec process, in bytes."""
    started = "from specdec_cli.cli.app import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", started, *map(str, arguments)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    assert process.stderr is not None
    said = process.stderr.read().decode(errors="replace")
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"specdec ended with {process.returncode}: {said}")
    return usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    for name, function, k in (("speed", speed, 5), ("rules", rules, 3), ("host", host, 3)):
        command = commands.add_parser(name)
        command.set_defaults(function=function)
        command.add_argument("target", type=Path)
        command.add_argument("draft", type=Path)
        command.add_argument("--k", type=int, default=k)
        command.add_argument("--n", type=int, default=128 if name == "speed" else 96)
        command.add_argument("--repeats", type=int, default=3)
        command.add_argument("--seeds", type=int, default=2)
        command.add_argument("--threads", type=int, default=os.cpu_count() or 1)
        command.add_argument("--exact", action="store_true")
    command = commands.add_parser("rows")
    command.set_defaults(function=rows)
    command.add_argument("--n-vocab", type=int, default=152_064)
    command = commands.add_parser("memory")
    command.set_defaults(function=memory)
    command.add_argument("target", type=Path)
    command.add_argument("--draft", type=Path)
    command.add_argument("--k", type=int, default=4)
    command.add_argument("--contexts", type=int, nargs="+", default=[2048, 32768])
    command.add_argument("--caches", nargs="+", default=["f16", "q8_0"])
    command.add_argument("--tokens", type=int, default=700)
    args = parser.parse_args()
    args.function(args)


if __name__ == "__main__":
    main()
