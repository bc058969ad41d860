"""A chat as a program holds it: questions, answers as iterators of text, and a file to keep it in."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Unpack

from specdec_cli.chat import store
from specdec_cli.chat.conversation import Ask, ChatEvent, Conversation, Finished, Spoken, model_names
from specdec_cli.chat.store import Saved
from specdec_cli.chat.talk import Turn
from specdec_cli.chat.thinking import Part, Piece
from specdec_cli.decoding.contracts import Ended, PromptPass
from specdec_cli.library.generation import Desk, Generation, Step
from specdec_cli.library.given import GenerationOptions, check_text


class Chat:
    """A talk with a model. Several of one session share its caches: each question passes what differs from the last one's.

    An error leaves the talk as it was. An answer that is left before its end (break, Ctrl-C) stays, as far as it came, as the
    answer of its turn; undo() takes it back.
    """

    def __init__(
        self,
        conversation: Conversation,
        desk: Desk,
        ask: Callable[[GenerationOptions, str], Ask],
        say: Callable[[str], None],
    ) -> None:
        """Made by Session.chat()."""
        self._conversation = conversation
        self._desk = desk
        self._ask = ask
        self._say = say
        self._saved: Saved | None = None  # the file that the talk was loaded from

    @property
    def system(self) -> str | None:
        """The system prompt; another one holds from the next question on."""
        return self._conversation.talk.system

    @system.setter
    def system(self, text: str | None) -> None:
        self._desk.check_free()
        self._conversation.set_system(text)

    @property
    def turns(self) -> tuple[Turn, ...]:
        """Questions, answers, and what each of them cost."""
        return self._conversation.talk.turns

    def say(self, question: str, **options: Unpack[GenerationOptions]) -> Generation:
        """Ask; iterate over what is returned for the answer. The question is sent with the first piece.

        Raises UsageError; while the answer comes also PromptError (the context is full) and BackendError.
        """
        self._desk.check_free()
        check_text("question", question)
        ask = self._ask(options, "say")
        return Generation(_steps(self._conversation.ask(question, ask)), self._desk, ask.params.seed)

    def undo(self) -> Turn:
        """Take the last turn back, and return it. Raises UsageError where there is none."""
        self._desk.check_free()
        return self._conversation.undo()

    def save(self, path: str | Path) -> None:
        """Write the talk to a file, all at once, over what is there; `specdec chat` reads it too. Raises UsageError."""
        talk, models = self._conversation.talk, model_names(self._conversation.session)
        saved = dataclasses.replace(self._saved or Saved(talk), talk=talk, models=models)
        store.write(Path(path), saved, overwrite=True)

    def load(self, path: str | Path) -> None:
        """Go on with the talk of a file, in place of this one. Raises UsageError."""
        self._desk.check_free()
        self._saved = store.read(Path(path))
        self._conversation.load(self._saved.talk)
        if note := store.other_models(self._saved, model_names(self._conversation.session)):
            self._say(note)


def _steps(events: Iterator[ChatEvent]) -> Iterator[Step]:
    """The events of a turn as those of any run."""
    held: tuple[Piece, ...] = ()
    for event in events:
        match event:
            case PromptPass():
                yield Step(event)
            case Spoken(pieces, None):
                held = pieces
            case Spoken(pieces, done) if done is not None:
                yield Step(done, _of(Part.ANSWER, pieces), _of(Part.THINKING, pieces))
            case Finished(report):
                yield Step(Ended(report.turn.finish, ""), _of(Part.ANSWER, held), _of(Part.THINKING, held))


def _of(part: Part, pieces: tuple[Piece, ...]) -> str:
    return "".join(piece.text for piece in pieces if piece.part is part)
