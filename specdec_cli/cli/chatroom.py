"""A talk under way: its models, settings and session file, and how a turn is answered."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from specdec_cli.chat import store
from specdec_cli.chat.conversation import Ask, ChatEvent, Conversation, Finished, Spoken, model_names
from specdec_cli.chat.documents import read_document
from specdec_cli.chat.room import ContextPolicy
from specdec_cli.chat.store import Saved
from specdec_cli.chat.talk import Talk
from specdec_cli.cli.recording import begin
from specdec_cli.cli.running import say_settings
from specdec_cli.cli.sessions import Kept, kept_settings
from specdec_cli.decoding.contracts import Ended, FinishReason, PassAborted, SamplingParams
from specdec_cli.decoding.loop import Event
from specdec_cli.errors import SpecdecError
from specdec_cli.llama.grammar import Grammar
from specdec_cli.llama.interrupt import Interrupt
from specdec_cli.opening import constraint, session_options
from specdec_cli.options import SessionOptions
from specdec_cli.session import Request, Session
from specdec_cli.settings.build import sampling_values
from specdec_cli.settings.resolve import Settings, with_metadata
from specdec_cli.settings.table import Policy
from specdec_cli.tracing.recording import traced
from specdec_cli.tracing.writing import TraceFile
from specdec_cli.ui.answer import Stage
from specdec_cli.ui.chatted import expected


class Chat:
    """A talk: what the loop and the commands work on. A context manager; leaving it frees the models."""

    def __init__(
        self,
        settings: Settings,
        stage: Stage,
        interrupt: Interrupt,
        kept: Kept | None,
        trace: TraceFile | None = None,
        *,
        edits: bool,
    ) -> None:
        """Loads the models. trace: where the rounds are written. Raises SpecdecError, PassAborted."""
        self.stage = stage
        self.settings = settings  # as the person decided them
        self.edits = edits  # whether the line can be edited
        self.leaving = False
        self.failed = False  # whether anything went wrong
        self.interrupted = False  # whether the last turn was stopped
        self.editing = False  # whether the next turn replaces the last one
        self.next_line = ""  # what the line will hold already
        self.cleared: Talk | None = None  # what /clear took away last
        self.last_events: list[Event] = []  # of the last answer
        self._interrupt = interrupt
        self._kept = kept
        self._constraint: Grammar | None = None
        self._trace = trace
        self.session = self._open(settings, session_options(settings, stage))
        try:
            begin(trace, self.effective, self.session, stage)
            self._saved = kept.saved if kept is not None else None
            talk = self._saved.talk if self._saved is not None else Talk()
            if (system := settings.maybe("system_prompt", str)) is not None:
                talk = replace(talk, system=system or None)
            policy = ContextPolicy(settings.value("context", Policy).value)
            self.conversation = Conversation(self.session, talk, policy, self._generate)
            if self._saved is not None and (note := store.other_models(self._saved, model_names(self.session))):
                stage.notice(note)
        except BaseException:
            self.session.close()
            raise

    def __enter__(self) -> Chat:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.session.close()

    @property
    def effective(self) -> Settings:
        """The settings with what the model asks for itself."""
        return with_metadata(self.settings, self.session.model.metadata)

    def ask_now(self) -> Ask:
        """How the next answer is generated."""
        settings = self.effective
        return Ask(
            params=SamplingParams(**sampling_values(settings)),
            n_predict=settings.value("predict", int),
            stops=settings.value("stop", tuple),
            constraint=self._constraint,
            ignore_eos=settings.value("ignore_eos", bool),
        )

    def question(self, text: str) -> None:
        """Answer a question, or the last one in these new words."""
        editing, self.editing = self.editing, False
        if editing:
            self.answer(self.conversation.edit(text, self.ask_now()))
        else:
            self.answer(self.conversation.ask(text, self.ask_now()))

    def answer(self, events: Iterator[ChatEvent]) -> None:
        """Show a turn, and keep it. Whatever goes wrong is told, and the talk goes on. Raises OutputClosed."""
        shown: list[Event] = []
        try:
            for event in events:
                self.stage.event(event)
                if isinstance(event, Spoken) and event.round is not None:
                    shown.append(event.round)
                elif isinstance(event, Spoken):
                    shown.append(Ended(FinishReason.END, "".join(piece.text for piece in event.pieces)))
                elif isinstance(event, Finished):
                    self.interrupted = event.report.stats.finish is FinishReason.INTERRUPTED
                    self.last_events, self.cleared = shown, None
                    self.save()
        except PassAborted:
            self._stopped()
        except SpecdecError as error:
            if self._interrupt.requested:  # what went wrong because of Ctrl-C is no news
                self._stopped()
            else:
                self.failed = True
                self.stage.error(error, of_turn=True)

    def _stopped(self) -> None:
        self.interrupted = True
        self.stage.close()
        self.stage.notice("Stopped.")

    def save(self) -> None:
        """Write the session's file, if there is one."""
        if self._kept is None:
            return
        created = self._saved.created if self._saved is not None else ""
        models = model_names(self.session)
        before = self._kept.store.path
        try:
            now = self._kept.store.save(Saved(self.conversation.talk, kept_settings(self.settings), models, created))
        except SpecdecError as error:
            self.failed = True
            self.stage.error(error)
            return
        if now != before:
            self.stage.notice(f"Another process wrote {before.stem} meanwhile; this talk is kept as {now.stem} from now on.")

    def attach(self, name: str) -> None:
        """Put a document into the next question, and say how much it is. Raises PromptError."""
        document, before = read_document(Path(name).expanduser()), self.conversation.pending
        self.conversation.attach(document)
        try:
            count = self.conversation.count()
        except SpecdecError:
            self.conversation.detach()
            for each in before:
                self.conversation.attach(each)
            raise
        self.stage.notice(f"{document.name} goes with the next question: {expected(count.n_new, count.expected_s)}.")

    def _generate(self, session: Session, request: Request) -> Iterator[Event]:
        return traced(self._trace, session, request)

    def switch_drafter(self, settings: Settings) -> None:
        """Draft as the settings say from now on. Raises SpecdecError, PassAborted: the old drafter stays."""
        options = session_options(settings, self.stage)
        self.session.change_drafter(options.drafters, options.draft, options.draft_context, options.ngram_corpus)
        self.settings = settings

    def switch_model(self, settings: Settings) -> None:
        """Go on with the target of the settings; one target at a time is in memory.

        A draft that does not fit the new one is left out. Raises SpecdecError, PassAborted: the old target is back.
        """
        # What cannot be found is told before the old one goes.
        before, options = self.session.options, replace(session_options(settings, self.stage), draft_optional=True)
        self.session.close()
        try:
            self.session = self._open(settings, options)
            try:
                self.conversation.resume(self.session)
            except BaseException:
                self.session.close()
                raise
        except (SpecdecError, PassAborted):
            self._interrupt.clear()
            self.session = self._open(self.settings, before)
            self.conversation.resume(self.session)
            raise
        self.settings = settings
        if self._trace is not None:
            self._trace = None
            self.stage.notice("The trace ends here: it is one of the model before.")

    def _open(self, settings: Settings, options: SessionOptions) -> Session:
        session = Session(replace(options, changeable=True, shadow=False), self.stage, self._interrupt)
        try:
            settings = with_metadata(settings, session.model.metadata)
            say_settings(settings, self.stage)
            if settings.value("verbose", bool):
                for sentence in session.plan.sentences:
                    self.stage.notice(sentence)
            self._constraint = constraint(settings, session.model, self.stage)
        except BaseException:
            session.close()
            raise
        return session
