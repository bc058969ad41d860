"""How other servers are started to do what was found best here: command lines of llama-server and vLLM."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from specdec_cli.gguf.header import Header

_ON_HUB = re.compile(r"https?://(?:www\.)?huggingface\.co/([A-Za-z0-9_][\w.-]*/[\w.-]+?)/?\Z")
_REPOSITORY = re.compile(r"[A-Za-z0-9_][\w.-]*/[\w.-]+\Z")
# Where a file may say which repository its weights come from; what it was made from comes last, for it may be another model.
_OWN = ("general.source.huggingface.repository", "general.source.repo_url", "general.repo_url")
_MADE_FROM = "general.base_model.0.repo_url"
_NOTE_WEIGHTS = "vLLM serves the original weights, not the GGUF file."
_NOTE_NGRAM = "Its n-gram types look for other matches than specdec's; ngram-simple is the nearest one."


@dataclass(frozen=True, slots=True)
class Command:
    """A line to copy."""

    program: str
    line: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Served:
    """What is to be served."""

    target: Header
    draft: Header | None  # the draft model
    ngram: bool
    n_draft: int  # tokens of each draft; servers know no others
    averaged: bool  # n_draft is the average of what was drafted here
    n_ctx: int
    n_threads: int
    flags: Sequence[str] = ()  # of context and devices, as llama.cpp spells them


def commands(served: Served) -> tuple[Command, ...]:
    """The same for llama-server and for vLLM."""
    return _llama_server(served), _vllm(served)


def shell(words: Sequence[str]) -> str:
    """Words as a shell of this system takes them."""
    return subprocess.list2cmdline(words) if os.name == "nt" else shlex.join(words)


def hub_name(header: Header) -> tuple[str | None, bool]:
    """The repository of a model's original weights as its file tells it, and whether it may be but what it was made from."""
    for key in (*_OWN, _MADE_FROM):
        told = header.text(key) or ""
        match = _ON_HUB.match(told)
        name = match[1] if match else told if key == _OWN[0] and _REPOSITORY.match(told) else None
        if name is not None:
            return name, key == _MADE_FROM
    return None, False


def _llama_server(served: Served) -> Command:
    words = ["llama-server", "-m", str(served.target.path), "-c", str(served.n_ctx), "-t", str(served.n_threads), *served.flags]
    kinds = (["ngram-simple"] if served.ngram else []) + (["draft-simple"] if served.draft is not None else [])
    if served.draft is not None:
        words += ["-md", str(served.draft.path)]
    if kinds:
        words += ["--spec-type", ",".join(kinds)]
    if served.draft is not None:
        words += ["--spec-draft-n-max", str(served.n_draft)]
    if served.ngram:
        words += ["--spec-ngram-simple-size-m", str(served.n_draft)]
    return Command("llama-server", shell(words), (*_averaged(served), *((_NOTE_NGRAM,) if served.ngram else ())))


def _vllm(served: Served) -> Command:
    target, notes = _named(served.target, "TARGET_ON_HUGGING_FACE", "target")
    words = ["vllm", "serve", target, "--max-model-len", str(served.n_ctx)]
    notes = [_NOTE_WEIGHTS, *notes]
    config: dict[str, object] = {}
    if served.draft is not None:
        draft, more = _named(served.draft, "DRAFT_ON_HUGGING_FACE", "draft")
        config = {"method": "draft_model", "model": draft, "num_speculative_tokens": served.n_draft}
        notes += more
        if served.ngram:
            notes.append("It takes one kind of drafter; this is the model without ngram.")
    elif served.ngram:
        config = {"method": "ngram", "num_speculative_tokens": served.n_draft, "prompt_lookup_max": 4}
    if config:
        words += ["--speculative-config", json.dumps(config)]
    return Command("vllm", shell(words), (*notes, *_averaged(served)))


def _named(header: Header, placeholder: str, role: str) -> tuple[str, list[str]]:
    name, made_from = hub_name(header)
    if name is None:
        return placeholder, [f"Put the name of the {role}'s repository in the place of {placeholder}: its file names none."]
    if made_from:
        return name, [f"{name} is what the {role}'s file says that it was made from; check that it is the same model."]
    return name, []


def _averaged(served: Served) -> tuple[str, ...]:
    if not served.averaged or (served.draft is None and not served.ngram):
        return ()
    tokens = "1 token" if served.n_draft == 1 else f"{served.n_draft} tokens"
    return (f"It drafts one length, where specdec drafts as far as pays: {tokens} is the average of that here.",)
