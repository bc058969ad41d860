#!/usr/bin/env python3
"""Time a talk's turns, from the question to the first token, here and in llama-server with its prompt cache.

    scripts/compare_chat.py TARGET DRAFT --binary llama-server [-n 48] [-t N] [-c 4096]

Ten turns, greedy. The server is sent the same talk, with the answers that were given here.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from urllib.request import Request as Post
from urllib.request import urlopen

from compare_llama_server import free_port, healthy
from measure import Silent

from specdec_cli import drafters
from specdec_cli.chat.conversation import Ask, Conversation, Finished, Spoken
from specdec_cli.decoding.contracts import SamplingParams
from specdec_cli.llama.interrupt import Interrupt
from specdec_cli.llama.options import ContextOptions, ModelOptions
from specdec_cli.options import SessionOptions
from specdec_cli.session import Session

WAIT_S = 300.0
QUESTIONS = (
    "Write a Python function that reverses a string.",
    "Add a docstring and type hints.",
    "Now handle None.",
    "Write a test for it.",
    "Make it a class.",
    "Add a method for palindromes.",
    "How fast is it?",
    "Show a usage example.",
    "Rename the class.",
    "Summarise what we did in one sentence.",
)


def here(args: argparse.Namespace) -> tuple[list[float], list[str]]:
    """Seconds to the first token of each turn, and the answers."""
    context = ContextOptions(n_ctx=args.ctx_size, n_threads=args.threads)
    options = SessionOptions(
        target=ModelOptions(args.target),
        context=context,
        drafters=(drafters.MODEL,),
        draft=ModelOptions(args.draft),
        draft_context=context,
        changeable=True,
    )
    waits, answers = [], []
    with Session(options, Silent(), Interrupt()) as session:
        talk = Conversation(session)
        for question in QUESTIONS:
            started_s, first_s = time.perf_counter(), None
            for event in talk.ask(question, Ask(SamplingParams(temperature=0), n_predict=args.n)):
                if first_s is None and isinstance(event, Spoken) and event.round is not None:
                    first_s = time.perf_counter()
                if isinstance(event, Finished):
                    report = event.report
            waits.append((first_s or time.perf_counter()) - started_s)
            answers.append(report.turn.answer)
            print(
                f"specdec  turn {len(waits):2}  {waits[-1]:.3f} s  {report.n_passed} of {report.n_prompt} prompt tokens passed",
                flush=True,
            )
    return waits, answers


def there(args: argparse.Namespace, answers: Sequence[str]) -> list[float]:
    """The same of the server."""
    url = f"http://127.0.0.1:{(port := free_port())}"
    command = [args.binary, "-m", str(args.target), "-md", str(args.draft), "--spec-type", "draft-simple", "--parallel", "1"]
    command += ["--host", "127.0.0.1", "--port", str(port), "-c", str(args.ctx_size)]
    command += ["-t", str(args.threads)] if args.threads else []
    waits: list[float] = []
    with TemporaryDirectory() as folder, (Path(folder) / "log").open("wb") as log:
        server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            until = time.monotonic() + WAIT_S
            while not healthy(url):
                if server.poll() is not None or time.monotonic() > until:
                    sys.exit(f"llama-server did not start: {' '.join(command)}")
                time.sleep(0.2)
            messages: list[dict[str, str]] = []
            for question, answer in zip(QUESTIONS, answers, strict=True):
                messages.append({"role": "user", "content": question})
                waits.append(first_token_s(url, messages, args.n))
                messages.append({"role": "assistant", "content": answer})
                print(f"server   turn {len(waits):2}  {waits[-1]:.3f} s", flush=True)
        finally:
            server.terminate()
            server.wait()
    return waits


def first_token_s(url: str, messages: Sequence[dict[str, str]], n: int) -> float:
    body = json.dumps({"messages": messages, "stream": True, "temperature": 0, "max_tokens": n, "cache_prompt": True})
    post = Post(f"{url}/v1/chat/completions", body.encode(), {"Content-Type": "application/json"})
    started_s, first_s = time.perf_counter(), None
    with urlopen(post) as response:
        for line in response:
            choices = json.loads(line[6:]).get("choices") if line.startswith(b"data: {") else None
            if first_s is None and choices and choices[0]["delta"].get("content"):
                first_s = time.perf_counter()
    return (first_s or time.perf_counter()) - started_s


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", type=Path)
    parser.add_argument("draft", type=Path)
    parser.add_argument("--binary", required=True)
    parser.add_argument("-n", type=int, default=48)
    parser.add_argument("-t", "--threads", type=int)
    parser.add_argument("-c", "--ctx-size", type=int, default=4096)
    args = parser.parse_args()
    waits, answers = here(args)
    ratios = [ours / theirs for ours, theirs in zip(waits, there(args, answers), strict=True)]
    print(f"specdec / server: turn 10 {ratios[-1]:.2f}, median of turns 2 to 10 {median(ratios[1:]):.2f}")


if __name__ == "__main__":
    main()
