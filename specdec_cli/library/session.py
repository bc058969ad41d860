"""A loaded model as a program holds it: load, generate, chat, statistics."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from types import TracebackType
from typing import Literal, Self, Unpack

from specdec_cli.chat.conversation import Ask, Conversation
from specdec_cli.chat.room import ContextPolicy
from specdec_cli.chat.talk import Talk
from specdec_cli.decoding.contracts import PromptPass, SamplingParams
from specdec_cli.decoding.loop import Event
from specdec_cli.errors import UsageError
from specdec_cli.library.chat import Chat
from specdec_cli.library.generation import Desk, Generation, Step, undisturbed
from specdec_cli.library.given import GenerationOptions, Value, check_messages, check_text, load_settings, with_options
from specdec_cli.library.totals import SessionStats
from specdec_cli.llama.interrupt import Interrupt
from specdec_cli.opening import constraint, session_options
from specdec_cli.prompts import check_length
from specdec_cli.session import Request
from specdec_cli.session import Session as Engine
from specdec_cli.settings.build import sampling_values
from specdec_cli.settings.resolve import Settings, changed, with_metadata
from specdec_cli.settings.table import Policy
from specdec_cli.signals import Watcher, can_handle

_log = logging.getLogger("specdec_cli")

Progress = Callable[[str, float | None], None]


class _Listener:
    """Keeps and logs what a session has to say. Prints nothing."""

    def __init__(self, progress: Progress | None) -> None:
        self.notices: list[str] = []
        self._progress = progress

    def notice(self, sentence: str, /) -> None:
        if sentence not in self.notices:
            self.notices.append(sentence)
            _log.info(sentence)

    def progress(self, label: str, fraction: float | None, /) -> None:
        if self._progress is not None:
            self._progress(label, fraction)


class Session:
    """A target, what drafts for it, and their caches. Made by load(); a context manager, since models are freed by close().

    It may be used by any thread, but by one at a time, and one generation at a time runs. Ctrl-C during a generation stops the
    pass under way, in the main thread, and raises KeyboardInterrupt; the session can be used further.

    All errors are SpecdecErrors: what failed, why, and a fix.
    """

    def __init__(self, engine: Engine, settings: Settings, listener: _Listener, interrupt: Interrupt) -> None:
        """Programs use load()."""
        self._engine = engine
        self._settings = settings
        self._listener = listener
        self._desk = Desk(interrupt)

    @classmethod
    def load(
        cls,
        model: str | Path,
        draft: str | Path | Sequence[str | Path] = "auto",
        *,
        n_ctx: int | None = None,
        n_threads: int | None = None,
        n_gpu_layers: int | None = None,
        draft_max: int | None = None,
        exact: bool | None = None,
        settings: Mapping[str, Value] | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Load a model, and what drafts for it. Fetches what is not on this machine.

        model: a GGUF file, a hub reference ("owner/repository:Q4_K_M"), or "demo".
        draft: likewise; or "ngram" (what the text repeats), "none" (plain decoding), or "auto" (the best draft that is on this
            machine already, if one promises a gain, and ngram); a model and "ngram" together as a list.
        n_ctx: tokens of context, prompt and output; 0 is the trained length. n_gpu_layers: -1 is as many as fit, -2 is all.
        draft_max: longest draft; each is as long as pays. exact: byte for byte the text of plain decoding.
        settings: any other setting of `specdec run`, named as its long flag: {"cache_type_k": "q8_0", "temp": 0}. Those of
            sampling are the defaults of every generation.
        progress: called with what is being fetched, loaded or measured, and how much of it is done (0 to 1, or None). It must
            not raise.

        What is decided on the way is in notices, and logged to "specdec_cli" at level INFO. Raises SpecdecError.
        """
        named: dict[str, Value | None] = {
            "n_ctx": n_ctx,
            "n_threads": n_threads,
            "n_gpu_layers": n_gpu_layers,
            "draft_max": draft_max,
            "exact": exact,
        }
        if progress is not None and not callable(progress):
            raise UsageError(f"progress cannot be {progress!r}.", "It takes Callable[[str, float | None], None].")
        chosen = load_settings(model, draft, named, settings if settings is not None else {})
        listener, interrupt = _Listener(progress), Interrupt()
        engine = _opened(chosen, listener, interrupt)
        try:
            chosen = with_metadata(chosen, engine.model.metadata)
            for sentence in chosen.notices:
                listener.notice(sentence)
            return cls(engine, chosen, listener, interrupt)
        except BaseException:
            engine.close()
            raise

    @property
    def model(self) -> Path:
        """The target's file."""
        return self._engine.options.target.path

    @property
    def drafter(self) -> str:
        """What really drafts: "model", "ngram", "model,ngram" or "none". notices say why it is not what was asked for."""
        return self._engine.drafter_name

    @property
    def n_ctx(self) -> int:
        """Tokens that a prompt and its output may have together."""
        return self._engine.n_ctx

    @property
    def notices(self) -> tuple[str, ...]:
        """What was decided so far, a sentence each."""
        return tuple(self._listener.notices)

    @property
    def stats(self) -> SessionStats:
        """Totals over all generations that are over."""
        return self._desk.stats

    def generate(
        self,
        prompt: str | Sequence[Mapping[str, str]],
        *,
        system: str | None = None,
        raw: bool = False,
        **options: Unpack[GenerationOptions],
    ) -> Generation:
        """Say on from a prompt; iterate over what is returned for the text. Nothing is passed before the first piece is taken.

        prompt: a question, sent through the model's chat template where it has one (raw: as it is); or the messages of a talk,
            each with "role" and "content". system: the system message before a question.
        A prompt that begins like the last one is passed from where it differs. Raises PromptError, GrammarError, UsageError;
        while text comes also BackendError.
        """
        self._desk.check_free()
        ask = self._ask(options, "generate")
        ids = self._encoded(prompt, system, raw=raw)
        check_length(ids, self.n_ctx)
        request = Request(ids, ask.params, ask.n_predict, ask.stops, ask.constraint, ask.ignore_eos)
        return Generation(_steps(self._engine.generate(request)), self._desk, ask.params.seed)

    def chat(self, system: str | None = None, *, context: Literal["full", "trim"] = "full") -> Chat:
        """Begin a talk. context: what happens when it is full: the next question is refused, or the oldest turns are left out.

        Raises PromptError for a model without a chat template.
        """
        self._desk.check_free()
        if system is not None:
            check_text("system", system)
        policy = changed(self._settings, "context", context, "context").value("context", Policy)
        system = system if system is not None else self._settings.maybe("system_prompt", str)
        conversation = Conversation(self._engine, Talk(system or None), ContextPolicy(policy.value))
        return Chat(conversation, self._desk, self._ask, self._listener.notice)

    def close(self) -> None:
        """Free the models. A generation under way ends."""
        self._desk.close()
        self._engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()

    def _encoded(self, prompt: str | Sequence[Mapping[str, str]], system: str | None, *, raw: bool) -> tuple[int, ...]:
        if system is not None:
            check_text("system", system)
        if isinstance(prompt, str):
            system = system if system is not None else self._settings.maybe("system_prompt", str)
            return self._engine.encode(prompt, system, raw=raw or self._settings.value("raw", bool))
        if system is not None or raw:
            raise UsageError(
                f"{'system' if system is not None else 'raw'} goes with a prompt that is a text.",
                "Messages bring their system message themselves, and need the chat template.",
                'Begin the messages with {"role": "system", "content": ...}, or join them to one text.',
            )
        check_messages(prompt)
        return self._engine.encode_messages(prompt).ids

    def _ask(self, options: GenerationOptions, function: str) -> Ask:
        settings = with_options(self._settings, options, function)
        return Ask(
            params=SamplingParams(**sampling_values(settings)),
            n_predict=settings.value("predict", int),
            stops=settings.value("stop", tuple),
            constraint=constraint(settings, self._engine.model, self._listener),
            ignore_eos=settings.value("ignore_eos", bool),
        )


def _opened(settings: Settings, listener: _Listener, interrupt: Interrupt) -> Engine:
    """Fetch and load. Raises SpecdecError, and KeyboardInterrupt at Ctrl-C with nothing left open."""
    options = session_options(settings, listener)
    with ExitStack() as opened:
        watcher = opened.enter_context(closing(Watcher(interrupt))) if can_handle() else None
        with ExitStack() as unfinished:
            with undisturbed(interrupt, watcher):
                engine = unfinished.enter_context(Engine(options, listener, interrupt))
            unfinished.pop_all()
        return engine


def _steps(events: Iterator[Event]) -> Iterator[Step]:
    for event in events:
        yield Step(event, "" if isinstance(event, PromptPass) else event.text)
