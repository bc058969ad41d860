"""From settings to a session: references become files, names become drafters, a grammar becomes a constraint."""

from __future__ import annotations

from pathlib import Path

from specdec_cli import auto, drafters, room
from specdec_cli.decoding.verification import Rule
from specdec_cli.errors import GrammarError, ModelFileError, SpecdecError
from specdec_cli.gguf.header import Header
from specdec_cli.gguf.kinds import check_runnable
from specdec_cli.gguf.reader import read_header
from specdec_cli.hub.resolving import resolve
from specdec_cli.llama.grammar import Grammar
from specdec_cli.llama.model import Model
from specdec_cli.llama.schema import grammar_from_schema, unenforced_keywords
from specdec_cli.named import named_drafters
from specdec_cli.options import Listener, SessionOptions
from specdec_cli.settings.build import context_options, model_options
from specdec_cli.settings.resolve import Settings
from specdec_cli.settings.table import Verify


def session_options(settings: Settings, listener: Listener) -> SessionOptions:
    """What a session is built from. Fetches what is not on this machine. Raises SpecdecError."""
    offline = settings.value("offline", bool)
    target = resolve(settings.value("model", str), "target", listener.progress, offline=offline)
    reference, names = named_drafters(settings)
    draft = None
    if reference is not None:
        draft = _draft(reference, settings, listener)
    elif names == (drafters.AUTO,):
        draft, names = _best_draft(target, settings, listener), (drafters.NGRAM,)
    return SessionOptions(
        target=model_options(settings, target),
        context=context_options(settings),
        drafters=(*((drafters.MODEL,) if draft is not None else ()), *(name for name in names if name == drafters.NGRAM)),
        draft=model_options(settings, draft, draft=True) if draft is not None else None,
        draft_context=context_options(settings, draft=True),
        ngram_corpus=_corpus(names, settings, listener),
        n_max=settings.value("draft_max", int),
        shadow=settings.value("shadow", bool),
        governed=settings.maybe("draft_fixed", int) is None,
        n_min=settings.value("draft_min", int),
        p_min=settings.value("draft_p_min", float),
        rule=Rule(settings.value("verify", Verify)),
        exact=settings.value("exact", bool),
        force=settings.value("force", bool),
        draft_optional=settings.value("draft_optional", bool),
    )


def constraint(settings: Settings, model: Model, listener: Listener) -> Grammar | None:
    """The grammar, from whichever of its four settings is given."""
    grammar = settings.maybe("grammar", str) or _read(settings.maybe("grammar_file", Path), "grammar")
    schema = settings.maybe("json_schema", str) or _read(settings.maybe("json_schema_file", Path), "JSON schema")
    if schema is not None:
        grammar = grammar_from_schema(schema)
        if loose := unenforced_keywords(schema):
            listener.notice(f"The JSON schema is followed but for what no grammar can hold: {', '.join(loose)}.")
    return Grammar(model.vocabulary.handle, grammar) if grammar is not None else None


def _corpus(names: tuple[str, ...], settings: Settings, listener: Listener) -> Path | None:
    """The file of --ngram-corpus, where there is a drafter for it."""
    file = settings.maybe("ngram_corpus", Path)
    if file is None or drafters.NGRAM in names:
        return file
    listener.notice("--ngram-corpus is not used: the drafter ngram is not asked for (--draft ngram, or --draft MODEL,ngram).")
    return None


def _best_draft(target: Path, settings: Settings, listener: Listener) -> Path | None:
    """The draft that --draft auto takes of those on this machine, or None; says which, or what there would be."""
    model, context = model_options(settings, target), context_options(settings)
    try:
        header = read_header(target, "target")
        check_runnable(header, "target")
        if not auto.can_go_back(header):
            return None
        here = room.this_machine()
        on_cpu = not here.gpus or model.n_gpu_layers == 0

        def fits(draft: Header) -> bool:
            options = model_options(settings, draft.path, draft=True)
            draft_context = context_options(settings, draft=True)
            plan = room.plan_for(header, model, context, draft, options, draft_context, machine=here)
            return plan.draft_fits is True

        found = auto.local_draft(target, header, on_cpu=on_cpu, fits=fits)
        known = auto.known_draft(header, on_cpu=on_cpu) if found is None else None
    except SpecdecError:  # the session says what is wrong with the target, as it does where its cache cannot go back
        return None
    if found is not None:
        gain = (found.on_cpu if on_cpu else found.estimate).speed_up
        listener.notice(f"Drafting with {found.candidate.reference} (--draft auto): about {gain:.1f}x is to be expected.")
        return found.candidate.header.path
    to_try = f"--draft {known.draft.reference} is known to" if known is not None else "specdec suggest names some that may"
    listener.notice(
        f"No draft model here promises a gain (--draft auto), so what the text repeats is drafted (ngram); {to_try}."
    )
    return None


def _draft(reference: str, settings: Settings, listener: Listener) -> Path | None:
    """The draft's file; None where it cannot be had and --draft-optional allows that."""
    offline = settings.value("offline", bool)
    try:
        return resolve(reference, "draft", listener.progress, offline=offline, other_forms=drafters.NAMES)
    except ModelFileError as error:
        if not settings.value("draft_optional", bool):
            raise
        listener.notice(f"Decoding plainly: {error.what} {error.why}".strip())
        return None


def _read(path: Path | None, what: str) -> str | None:
    if path is None:
        return None
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise GrammarError(
            f"The {what} file {path} cannot be read.", f"{reason}.", "Check the path; it must be UTF-8."
        ) from None
