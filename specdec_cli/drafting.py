"""Builds the drafter that settings ask for, beside a target that is open."""

from __future__ import annotations

import dataclasses
import functools

from specdec_cli import drafters, gate
from specdec_cli.corpus import corpus_tokens
from specdec_cli.decoding.contracts import Drafter
from specdec_cli.drafters.model import ModelDrafter
from specdec_cli.drafters.ngram import NgramDrafter
from specdec_cli.drafters.several import SeveralDrafters
from specdec_cli.errors import ModelFileError, PairError
from specdec_cli.gate import Admitted
from specdec_cli.llama.context import RollbackKind, find_rollback
from specdec_cli.llama.model import Model
from specdec_cli.loading import Loader
from specdec_cli.options import SessionOptions


def asks_for_drafts(options: SessionOptions, admitted: Admitted) -> bool:
    """Whether there is anything to draft with."""
    return options.n_max > 0 and (drafters.NGRAM in options.drafters or admitted.pair is not None)


def any_token(target: Model) -> int:
    """A token for a trial pass."""
    return max(target.vocabulary.bos, 0)


def open_drafter(loader: Loader, options: SessionOptions, admitted: Admitted, target: Model, corpus: str) -> Drafter | None:
    """Those that were asked for and can be had, as one. Raises SpecdecError, PassAborted."""
    found: list[Drafter] = []
    if (model := _model_drafter(loader, options, admitted, target)) is not None:
        found.append(model)
    if drafters.NGRAM in options.drafters:
        found.append(NgramDrafter(_corpus_tokens(loader, options, target, corpus)))
    if len(found) > 1:
        return SeveralDrafters(found, target.vocabulary.end_tokens)
    return found[0] if found else None


def _corpus_tokens(loader: Loader, options: SessionOptions, target: Model, corpus: str) -> list[int]:
    if options.ngram_corpus is None:
        return []
    tokenize = functools.partial(target.vocabulary.tokenize, add_special=False, parse_special=False)
    return corpus_tokens(corpus, options.ngram_corpus, tokenize, loader.listener, loader.interrupt)


def _model_drafter(loader: Loader, options: SessionOptions, admitted: Admitted, target: Model) -> Drafter | None:
    pair = admitted.pair
    if pair is None or options.draft is None:
        return None
    try:
        model = loader.model(admitted.placed(options.draft, "draft"), "draft")
        n_ctx = options.context.n_ctx or target.n_ctx_train
        asked = dataclasses.replace(options.draft_context or options.context, n_ctx=n_ctx)
        context = loader.context(model, asked, n_rows=1)
        if find_rollback(context, any_token(target)) is RollbackKind.NONE:
            raise PairError(
                f"The draft {options.draft.path.name} cannot be used.",
                "Its cache cannot drop tokens again (a recurrent or hybrid model), which every refused token needs.",
                "Choose another draft, or use --draft ngram.",
            )
    except (ModelFileError, PairError) as error:
        gate.without_draft(error, options, loader.listener)
        return None
    loader.note_trained(model, n_ctx)
    vocabulary = target.vocabulary
    return ModelDrafter(context, pair.n_shared, pair.undraftable, vocabulary.end_tokens, max(model.vocabulary.eos, 0))
