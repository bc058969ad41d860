#!/usr/bin/env python3
"""Prove --exact on real files: every drafter and draft length against --draft none --exact, byte for byte.

    scripts/prove_exact.py TARGET [--draft DRAFT] [--k 1 2 4 8 16] [--threads 1 2] [--prompts 20 300 1500] [--n 300]

Without --exact the same runs are compared with plain decoding, and each first difference is put to the replay (--default).
Exits with 1 when a text differs under --exact, or when a difference is a fault.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from pathlib import Path

from measure import Silent

from specdec_cli import drafters
from specdec_cli.decoding.contracts import Round, SamplingParams, Target
from specdec_cli.decoding.replay import Cause, Recorder, explain, first_difference
from specdec_cli.llama.interrupt import Interrupt
from specdec_cli.llama.options import ContextOptions, ModelOptions
from specdec_cli.options import SessionOptions
from specdec_cli.session import Request, Session

TEXT = (
    "The harbour was quiet that morning. A boat came in with the tide, and the men on the quay counted the boxes as they "
    "were lifted out: herring, mackerel, two of crab. Nobody spoke of the storm. It had taken three roofs and the old "
    "elm by the church, and left the lighthouse as it was. "
)


def run(session: Session, request: Request, target: Target | None = None) -> tuple[list[int], list[Round]]:
    session.forget()
    rounds = [event for event in session.generate(request, target=target) if isinstance(event, Round)]
    return [token for done in rounds for token in done.emitted], rounds


def open_session(args: argparse.Namespace, threads: int, drafter: str, draft: Path | None) -> Session:
    context = ContextOptions(n_ctx=max(args.prompts) + args.n + 64, n_threads=threads)
    return Session(
        SessionOptions(
            target=ModelOptions(args.target),
            context=context,
            drafters=(drafter,) if drafter != drafters.NONE else (),
            governed=False,
            draft=ModelOptions(draft) if draft is not None else None,
            draft_context=context,
            n_max=max(args.k),
            exact=not args.default,
        ),
        Silent(),
        Interrupt(),
    )


def explained(session: Session, request: Request, index: int) -> str:
    recorder = Recorder(session.target)
    _, rounds = run(session, request, recorder)
    found = explain(session.target, session.job(request), recorder, rounds, index)
    return f"{found.cause} at token {index} (gap {found.gap:.4f}, noise {found.noise:.4f})"


def compare(args: argparse.Namespace, threads: int) -> int:
    n_bad = 0
    ways = [(drafters.NGRAM, None), (drafters.MODEL, args.target)]
    ways += [(drafters.MODEL, args.draft)] if args.draft is not None else []
    with open_session(args, threads, drafters.NONE, None) as plain:
        text = plain.model.vocabulary.tokenize(TEXT * (max(args.prompts) // 50 + 2), add_special=True, parse_special=False)
        for params in (SamplingParams(temperature=0), SamplingParams(temperature=0.8, seed=7)):
            references = {}
            for n in args.prompts:
                request = Request(tuple(text[:n]), params, args.n, ignore_eos=True)
                references[n] = request, run(plain, request)[0]
            for drafter, draft in ways:
                with open_session(args, threads, drafter, draft) as session:
                    label = draft.name if draft is not None else drafter
                    for k in args.k:
                        session.options = dataclasses.replace(session.options, n_max=k)
                        for n, (request, expected) in references.items():
                            index = first_difference(expected, run(session, request)[0])
                            said = "equal"
                            if index is not None:
                                said = explained(session, request, index)
                                n_bad += not args.default or Cause.FAULT in said
                            print(
                                f"threads {threads}  temperature {params.temperature}  {label:40} K {k:2}  prompt {n:4}",
                                said,
                                flush=True,
                            )
    return n_bad


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", type=Path)
    parser.add_argument("--draft", type=Path)
    parser.add_argument("--k", type=int, nargs="+", default=[1, 2, 4, 8, 16])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--prompts", type=int, nargs="+", default=[20, 300, 1500])
    parser.add_argument("--n", type=int, default=300)
    parser.add_argument("--default", action="store_true", help="without --exact: put differences to the replay")
    args = parser.parse_args()
    return 1 if sum(compare(args, threads) for threads in args.threads) else 0


if __name__ == "__main__":
    sys.exit(main())
