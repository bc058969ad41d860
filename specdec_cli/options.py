"""What a session is built from, and which of it cannot be meant."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from specdec_cli.decoding.verification import Rule
from specdec_cli.errors import UsageError
from specdec_cli.llama.options import ContextOptions, ModelOptions


class Listener(Protocol):
    """Whoever shows what a session does."""

    def notice(self, sentence: str, /) -> None: ...

    def progress(self, label: str, fraction: float | None, /) -> None: ...


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """What a session is built from."""

    target: ModelOptions
    context: ContextOptions
    drafters: tuple[str, ...] = ()  # names: model, ngram
    draft: ModelOptions | None = None  # for the drafter "model"
    draft_context: ContextOptions | None = None
    ngram_corpus: Path | None = None  # a text file for the drafter "ngram" to copy from
    n_max: int = 16  # longest draft
    governed: bool = True  # each round drafts as far as that pays; else always n_max
    n_min: int = 0
    p_min: float = 0.0
    shadow: bool = False  # decode plainly, and count what drafting would have brought
    rule: Rule = Rule.MATCH
    exact: bool = False
    force: bool = False  # draft although the vocabularies do not fit
    draft_optional: bool = False  # go on plainly when the draft cannot be used
    changeable: bool = False  # drafter and draft length may change later: the target has room for drafts from the start


def checked(options: SessionOptions) -> SessionOptions:
    """Refuse combinations that cannot be meant, and fill in what follows from others."""
    if options.exact and options.rule is Rule.REJECT:
        raise UsageError(
            "--exact and --verify reject exclude each other.",
            "Rejection sampling gives the target's distribution, not the text of plain decoding.",
            "Use --verify match, or leave --exact out.",
        )
    if options.n_min > options.n_max:
        raise UsageError(
            f"--draft-min {options.n_min} is more than --draft-max {options.n_max}.", "", "Lower the one or raise the other."
        )
    n_pass = min(options.context.n_batch, options.context.n_ubatch)
    if options.exact and n_pass == 1:
        raise UsageError("--exact is not possible with passes of one token.", "-b or -ub is 1.", "Use -b 32 -ub 32 or more.")
    if options.n_max >= n_pass:
        options = dataclasses.replace(options, n_max=n_pass - 1)
    return options
