"""The work that is measured: the tasks that are shipped, or the person's own prompts, as requests for one target."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from specdec_cli.bench.results import Task, text_sha256
from specdec_cli.errors import PromptError, UsageError
from specdec_cli.textfile import decoded, read_bytes

LONG = 4096  # tokens of the long prompt, the chat template included
OWN = "own"  # the kind of a person's own prompts

_SHIPPED = "tasks"
_PLACE = "{document}"
_LEAST = 2  # tokens; a rate needs two points in time
_SURROGATE = re.compile("[\ud800-\udfff]")
_KEYS = ("prompt", "name", "kind", "language", "system", "n_predict")


@dataclass(frozen=True, slots=True)
class Workload:
    """A prompt, before any model has seen it."""

    name: str
    kind: str
    language: str
    prompt: str
    system: str | None = None
    n_predict: int | None = None  # None: as all others
    document: str | None = None  # what stands at {document} in the prompt, as far as it fits


Encode = Callable[[str, str | None], tuple[int, ...]]  # prompt, system message -> ids


@dataclass(frozen=True, slots=True)
class Prepared:
    """A task, and its prompt as the target reads it."""

    task: Task
    prompt: tuple[int, ...]
    text: str
    system: str | None


@cache
def shipped() -> tuple[Workload, ...]:
    """All tasks of the package."""
    folder = files("specdec_cli.bench") / _SHIPPED
    found = []
    for entry in json.loads((folder / "tasks.json").read_text(encoding="utf-8")):
        document = entry.pop("document", None)
        text = (folder / document).read_text(encoding="utf-8") if document is not None else None
        found.append(Workload(**entry, document=text))
    return tuple(found)


def chosen(words: Sequence[str]) -> tuple[Workload, ...]:
    """The shipped tasks with one of these names or kinds; all of them for no words. Raises UsageError."""
    known = {word for each in shipped() for word in (each.name, each.kind)}
    if strangers := [word for word in words if word not in known]:
        names = ", ".join(each.name for each in shipped())
        kinds = ", ".join(dict.fromkeys(each.kind for each in shipped()))
        raise UsageError(
            f"There is no task {strangers[0]!r}.", f"The tasks are {names}; their kinds {kinds}.", "specdec bench --tasks code"
        )
    return tuple(each for each in shipped() if not words or each.name in words or each.kind in words)


def from_files(paths: Iterable[Path]) -> tuple[Workload, ...]:
    """A person's own prompts: text files with one each, and .jsonl files with one a line. Raises PromptError."""
    found: list[Workload] = []
    for path in paths:
        text = _read(path)
        if path.suffix.lower() in (".jsonl", ".ndjson"):
            found += _lines(path, text)
        elif not text.strip():
            raise PromptError(f"The prompt file {path} is empty.", "", "Leave it out.")
        else:
            found.append(Workload(path.stem, OWN, "", text.removesuffix("\n")))
    if not found:
        raise PromptError("There are no prompts.", "The files hold none.", "Write one a line: " + '{"prompt": "..."}')
    return tuple(_named_apart(found))


def check_length(n_predict: int) -> None:
    """Raises UsageError where so few tokens have no rate."""
    if n_predict < _LEAST:
        raise UsageError(
            f"-n {n_predict} cannot be measured.", f"A rate needs {_LEAST} tokens or more, and their number.", "Use -n 128."
        )


def prepare(
    workloads: Iterable[Workload],
    encode: Encode,
    *,
    n_room: int,
    n_predict: int,
    temperature: float,
    seed: int,
) -> list[Prepared]:
    """The workloads for one target. n_room: tokens that prompt and output may hold together.

    A document is cut until its prompt fits; of anything else that does not fit a PromptError is raised.
    """
    check_length(n_predict)
    found = []
    for each in workloads:
        n = each.n_predict or n_predict
        text, prompt = _fitted(each, encode, min(LONG, n_room - n))
        if len(prompt) + n > n_room:
            raise PromptError(
                f"The task {each.name} does not fit: {len(prompt)} tokens of prompt and {n} to generate.",
                f"The context holds {n_room}.",
                f"Use -c {len(prompt) + n + 64}, or leave it out.",
            )
        sha256 = text_sha256(each.system, text)
        task = Task(each.name, each.kind, each.language, len(prompt), sha256, n, temperature, seed)
        found.append(Prepared(task, prompt, text, each.system))
    return found


def _fitted(workload: Workload, encode: Encode, limit: int) -> tuple[str, tuple[int, ...]]:
    """The prompt with as many paragraphs of its document as the limit allows."""
    if workload.document is None:
        return workload.prompt, encode(workload.prompt, workload.system)
    paragraphs = workload.document.strip().split("\n\n")

    def with_first(n: int) -> tuple[str, tuple[int, ...]]:
        text = workload.prompt.replace(_PLACE, "\n\n".join(paragraphs[:n]))
        return text, encode(text, workload.system)

    low, high = 1, len(paragraphs)
    while low < high:
        middle = (low + high + 1) // 2
        if len(with_first(middle)[1]) <= limit:
            low = middle
        else:
            high = middle - 1
    return with_first(low)


def _read(path: Path) -> str:
    return decoded(read_bytes(path, "prompt file", "Check the path."), f"The prompt file {path}") or ""


def _lines(path: Path, text: str) -> Iterator[Workload]:
    # Not splitlines(): it would also end a line at the separators that JSON leaves unescaped.
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                entry = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise PromptError(f"{path}, line {number}: this is not JSON.", f"{error}.") from None
            yield _workload(entry, f"{path}, line {number}", f"{path.stem}-{number}")


def _workload(entry: Any, place: str, name: str) -> Workload:
    if not isinstance(entry, dict) or not isinstance(entry.get("prompt"), str) or not entry["prompt"]:
        raise PromptError(f"{place}: there is no prompt.", "", 'Write {"prompt": "..."}.')
    given: Mapping[str, Any] = {"name": name, "kind": OWN, "language": "", **entry}
    if strangers := [key for key in entry if key not in _KEYS]:
        raise PromptError(f"{place}: {strangers[0]!r} means nothing here.", f"Known are {', '.join(_KEYS)}.")
    n = given.get("n_predict")
    if n is not None and (not isinstance(n, int) or isinstance(n, bool) or n < _LEAST):
        raise PromptError(f"{place}: n_predict is {n!r}.", f"It is a number of tokens, {_LEAST} or more.")
    for key in ("name", "kind", "language", "system"):
        if key in entry and not isinstance(entry[key], str):
            raise PromptError(f"{place}: {key} is no text.")
    if broken := [key for key in _KEYS if isinstance(entry.get(key), str) and _SURROGATE.search(entry[key])]:
        raise PromptError(f"{place}: {broken[0]} has half a character.", r"A surrogate (\ud800 to \udfff) stands alone in it.")
    return Workload(
        given["name"] or name, given["kind"], given["language"], given["prompt"], given.get("system"), given.get("n_predict")
    )


def _named_apart(workloads: Sequence[Workload]) -> Iterator[Workload]:
    """Each with a name of its own."""
    taken: set[str] = set()
    for each in workloads:
        name, n = each.name, 1
        while name in taken:
            n += 1
            name = f"{each.name}-{n}"
        taken.add(name)
        yield replace(each, name=name)
