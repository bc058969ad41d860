#!/usr/bin/env python3
"""Run the same files, prompts and token counts through llama-server and through specdec, in turns, and print a table.

    scripts/compare_llama_server.py TARGET DRAFT [--binary llama-server] [--tasks code,prose] [-n 128] [--repeats 3]
        [-t N] [-c N] [--k 3 5 8] [--p-min 0 0.75] [--no-ngram] [--rest FLAG ...] --out FOLDER

The server runs plainly, with its defaults, with every K and p-min, and with each n-gram type that its --help offers. Each
contender has a result file in the folder and gets one repeat of all tasks at a time, in alternating order; run again with
the same folder, the script goes on where it stopped. Figures are medians; ratios have their 95 % interval.
"""

from __future__ import annotations

import argparse
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from urllib.error import URLError
from urllib.request import urlopen

from specdec_cli.bench import results
from specdec_cli.bench.results import PLAIN, Ratio, Results, Run
from specdec_cli.bench.serving import VARIANT
from specdec_cli.bench.statistics import overall
from specdec_cli.errors import SpecdecError

SPECDEC = (sys.executable, "-m", "specdec_cli.cli.app", "bench")
WAIT_S = 600.0  # for a server to load its models
REMOVED = "has been removed"


@dataclass
class Offer:
    """An option of llama-server, as its --help has it."""

    names: list[str]
    text: str

    @property
    def default(self) -> str | None:
        found = re.search(r"\(default: ([^)]+)\)", self.text)
        return found[1] if found else None


@dataclass
class Contender:
    """What takes its turn: a server with these flags, or specdec where there are none."""

    name: str
    flags: list[str] | None = None
    draws: str = ""  # draft or ngram: what it drafts with
    file: Path = field(default_factory=Path)


def offers(binary: str) -> list[Offer]:
    done = subprocess.run([binary, "--help"], capture_output=True, encoding="utf-8", errors="replace", check=False)
    found = read_help(done.stdout + done.stderr)
    if not found:
        sys.exit(f"{binary} --help offers no options:\n{done.stderr[-2000:]}")
    return found


def read_help(text: str) -> list[Offer]:
    """The options of a --help text, without those that it says were removed."""
    found: list[Offer] = []
    for line in text.splitlines():
        if re.match(r"-{1,2}[a-zA-Z]", line):
            found.append(Offer(re.findall(r"(?<![\w-])-{1,2}[a-zA-Z][\w-]*", re.split(r"\s{3,}", line)[0]), line))
        elif found:
            found[-1].text += " " + line.strip()
    return [offer for offer in found if REMOVED not in offer.text]


def offered(found: Sequence[Offer], *names: str) -> Offer | None:
    """The first of these options that this build has."""
    return next((offer for name in names for offer in found if name in offer.names), None)


def spelled(found: Sequence[Offer], *names: str) -> str:
    offer = offered(found, *names)
    if offer is None:
        sys.exit(f"This llama-server has none of {', '.join(names)}.")
    return next(name for name in names if name in offer.names)


def ngram_types(found: Sequence[Offer]) -> list[str]:
    offer = offered(found, "--spec-type")
    return list(dict.fromkeys(re.findall(r"ngram-[a-z0-9-]+", offer.text.split("(default")[0]))) if offer else []


def contenders(args: argparse.Namespace, found: Sequence[Offer]) -> list[Contender]:
    """specdec, and the server with each setting. The one that is the default anyway is not run twice."""
    every = [Contender("specdec"), Contender("server plain", [])]
    if args.draft is not None:
        kind = offered(found, "--spec-type")
        draft = [spelled(found, "-md"), str(args.draft)]
        draft += ["--spec-type", "draft-simple"] if kind is not None and "draft-simple" in kind.text else []
        every.append(Contender("server default", draft, "draft"))
        longest, least = spelled(found, "--spec-draft-n-max", "--draft-max"), spelled(found, "--draft-p-min")
        usual = [(offered(found, name) or Offer([], "")).default for name in (longest, least)]
        for k in args.k:
            for p in args.p_min:
                if [str(k), f"{p:.2f}"] != usual:
                    flags = [*draft, longest, str(k), least, str(p)]
                    every.append(Contender(f"server K {k} p-min {p:g}", flags, "draft"))
    if args.ngram:
        every += [Contender(f"server {kind}", ["--spec-type", kind], "ngram") for kind in ngram_types(found)]
    for each in every:
        each.file = args.out / f"{each.name.replace(' ', '-')}.json"
    return every


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        return int(unused.getsockname()[1])


@contextmanager
def serving(args: argparse.Namespace, found: Sequence[Offer], each: Contender) -> Iterator[str]:
    """The address of a server that is ready; it is stopped again."""
    url, log = f"http://127.0.0.1:{(port := free_port())}", each.file.with_suffix(".log")
    command = [args.binary, "-m", str(args.target), "--host", "127.0.0.1", "--port", str(port), "--parallel", "1"]
    command += ["-c", str(args.ctx_size), "-t", str(args.threads), *(each.flags or []), *args.rest]
    if offered(found, "--cache-ram"):
        command += ["--cache-ram", "0"]  # saving prompts for later would only cost it time
    with log.open("w", encoding="utf-8") as file:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file)
        try:
            until = time.monotonic() + WAIT_S
            while not healthy(url):
                if process.poll() is not None or time.monotonic() > until:
                    sys.exit(f"llama-server did not start: {' '.join(command)}\n{log.read_text(encoding='utf-8')[-2000:]}")
                time.sleep(0.2)
            yield url
        finally:
            process.terminate()
            process.wait()


def healthy(url: str) -> bool:
    try:
        with urlopen(f"{url}/health", timeout=5) as answer:
            return bool(answer.status == 200)
    except (URLError, OSError):
        return False


def measure(args: argparse.Namespace, found: Sequence[Offer], each: Contender, repeats: int) -> None:
    """One repeat more of all tasks, into the contender's file."""
    work = ["-n", str(args.n), "--repeats", str(repeats), "--resume", "-o", str(each.file), "--format", "csv"]
    work += ["--tasks", args.tasks] if args.tasks else []
    for path in args.prompts:
        work += ["--prompts", str(path)]
    if each.flags is None:
        draft = ["--draft", str(args.draft)] if args.draft is not None else ["--draft", "ngram"]
        draft += ["--against", "ngram"] if args.draft is not None and args.ngram else []
        own = [str(args.target), *draft, "-t", str(args.threads), "-c", str(args.ctx_size), *args.rest]
        run([*SPECDEC, *own, "--label", each.name, *work])
        return
    with serving(args, found, each) as url:
        run([*SPECDEC, "--server", url, "--label", each.name, *work])


def run(command: list[str]) -> None:
    if subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode not in (0, 1):
        sys.exit(f"This failed: {' '.join(command)}")


@dataclass
class Column:
    head: str
    runs: dict[str, list[Run]]  # by task; where the best is taken, of the one that is best at the task
    names: dict[str, str] = field(default_factory=dict)  # whose they are, where that depends on the task


def column(head: str, measured: Results, variant: str) -> Column:
    return Column(head, {task.name: measured.of(variant, task.name) for task in measured.tasks})


def best(head: str, every: Sequence[tuple[str, Results]]) -> Column:
    found = Column(head, {})
    for task in every[0][1].tasks:
        rated = [(rate(each.of(VARIANT, task.name)) or 0.0, name, each) for name, each in every]
        _, name, each = max(rated, key=lambda rating: rating[0])
        found.runs[task.name] = each.of(VARIANT, task.name)
        found.names[task.name] = name.removeprefix("server ")
    return found


def rate(runs: Sequence[Run]) -> float | None:
    known = [run.generation_tps for run in runs if run.generation_tps is not None]
    return median(known) if known else None


def columns(every: Sequence[Contender]) -> tuple[list[Column], list[Column]]:
    """Ours, and the server's."""
    measured = {each.name: results.load(each.file) for each in every}
    ours = [column(f"specdec {variant}", measured["specdec"], variant) for variant in measured["specdec"].variants]
    theirs = [column("server plain", measured["server plain"], VARIANT)]
    if "server default" in measured:
        theirs.append(column("server default", measured["server default"], VARIANT))
    for draws in ("draft", "ngram"):
        those = [(each.name, measured[each.name]) for each in every if each.draws == draws]
        if those:
            theirs.append(best(f"server best {draws}", those))
    return ours, theirs


def pairs(ours: Column, other: Column, task: str) -> list[float]:
    base = {run.repeat: run.generation_tps for run in other.runs.get(task, [])}
    return [run.generation_tps / beside for run in ours.runs[task] if run.generation_tps and (beside := base.get(run.repeat))]


def shown(ratio: Ratio | None) -> str:
    if ratio is None:
        return "n/a"
    return f"{ratio.value:.2f}" + (f" ({ratio.low:.2f}-{ratio.high:.2f})" if ratio.low and ratio.high else "")


def cell(each: Column, task: str) -> str:
    runs = each.runs.get(task, [])
    known = [run.generation_tps for run in runs if run.generation_tps is not None]
    if not known:
        return "n/a"
    name = f", {each.names[task]}" if each.names else ""
    return f"{median(known):.1f} ({min(known):.1f}-{max(known):.1f}{name})"


def table(every: Sequence[Contender]) -> str:
    """Tokens per second, then how many times as fast specdec is as each of the others; the last line is over all tasks."""
    ours, theirs = columns(every)
    tasks = list(theirs[0].runs)
    lines = [["tokens/s", *(each.head for each in (*ours, *theirs))]]
    lines += [[task, *(cell(each, task) for each in (*ours, *theirs))] for task in tasks]
    blocks = [lines]
    for own in ours:
        others = [each for each in (*ours, *theirs) if each is not own and (each.head == f"specdec {PLAIN}" or each in theirs)]
        lines = [[f"{own.head}, x", *(each.head for each in others)]]
        lines += [[task, *(shown(overall([pairs(own, each, task)])) for each in others)] for task in tasks]
        lines.append(["all", *(shown(overall([pairs(own, each, task) for task in tasks])) for each in others)])
        blocks.append(lines)
    return "\n\n".join(
        "\n".join(f"| {' | '.join(row)} |" for row in (lines[0], ["---", *["---:"] * (len(lines[0]) - 1)], *lines[1:]))
        for lines in blocks
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", type=Path)
    parser.add_argument("draft", type=Path, nargs="?")
    parser.add_argument("--binary", default="llama-server", help="a path, else it is looked for")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--tasks")
    parser.add_argument("--prompts", type=Path, action="append", default=[])
    parser.add_argument("-n", type=int, default=128)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("-t", "--threads", type=int, required=True)
    parser.add_argument("-c", "--ctx-size", type=int, default=4608)
    parser.add_argument("--k", type=int, nargs="+", default=[3, 5, 8])
    parser.add_argument("--p-min", type=float, nargs="+", default=[0.0, 0.75])
    parser.add_argument("--ngram", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--rest", nargs=argparse.REMAINDER, default=[], help="flags for both, such as -ngl 99; comes last")
    args = parser.parse_args()
    if args.repeats < 1:
        parser.error("--repeats needs 1 or more")
    args.binary = shutil.which(args.binary) or sys.exit(f"There is no {args.binary}.")
    args.out.mkdir(parents=True, exist_ok=True)
    found = offers(args.binary)
    every = contenders(args, found)
    for repeat in range(args.repeats):
        for i, each in enumerate(every if repeat % 2 == 0 else every[::-1]):
            print(f"repeat {repeat + 1} of {args.repeats}, {i + 1} of {len(every)}: {each.name}", file=sys.stderr)
            measure(args, found, each, repeat + 1)
    print(table(every))


if __name__ == "__main__":
    try:
        main()
    except SpecdecError as error:
        sys.exit(f"error: {error.what}\n  {error.why}")
    except KeyboardInterrupt:
        sys.exit(130)  # each contender's file is whole, and the next run goes on with it
