"""What chat does once its settings are known: load, then read turns and answer them until there are no more."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import platformdirs

from specdec_cli.cli import slash
from specdec_cli.cli.chatroom import Chat
from specdec_cli.cli.recording import open_trace
from specdec_cli.cli.sessions import Kept
from specdec_cli.cli.signals import interruptible
from specdec_cli.decoding.contracts import PassAborted
from specdec_cli.errors import EXIT_ANSWER_IS_NO, EXIT_DONE, EXIT_INTERRUPTED, SpecdecError
from specdec_cli.llama.interrupt import Interrupt
from specdec_cli.settings.resolve import Settings
from specdec_cli.tracing.writing import TraceFile
from specdec_cli.ui.answer import Look, Stage, open_stage
from specdec_cli.ui.chatted import greeting
from specdec_cli.ui.line import Line, keys_held, open_line
from specdec_cli.ui.output import OutputClosed


def execute(settings: Settings, kept: Kept | None) -> int:
    """Talk until the person leaves; returns the exit code."""
    interrupt = Interrupt()
    look = Look(
        quiet=settings.value("quiet", bool),
        live=settings.value("live", bool),
        markdown=settings.value("markdown", bool),
        hide_thinking=settings.value("hide_thinking", bool),
    )
    stage = open_stage(look, (sys.stdout, sys.stderr), os.environ, as_json=settings.value("json", bool))
    line = _line(settings)
    try:
        with (
            open_trace(settings, stage) as trace,
            _loaded(settings, stage, interrupt, kept, trace, edits=line.edits) as chat,
        ):
            return _talk(chat, line, interrupt)
    except PassAborted:
        return EXIT_INTERRUPTED
    except OutputClosed as closed:
        raise BrokenPipeError from closed
    except SpecdecError:
        if interrupt.requested:
            return EXIT_INTERRUPTED
        raise
    finally:
        stage.close()


def _line(settings: Settings) -> Line:
    history = settings.maybe("history", Path) or platformdirs.user_data_path("specdec", appauthor=False) / "history"
    return open_line(
        (sys.stdin, sys.stdout, sys.stderr),
        os.environ,
        commands={name: command.completes for name, command in slash.COMMANDS.items()},
        history=history.expanduser(),
        vi=settings.value("vi", bool),
        whole=settings.value("single", bool),
    )


def _loaded(
    settings: Settings, stage: Stage, interrupt: Interrupt, kept: Kept | None, trace: TraceFile | None, *, edits: bool
) -> Chat:
    """A talk that is ready for its first question."""
    with interruptible(interrupt):
        chat = Chat(settings, stage, interrupt, kept, trace, edits=edits)
        try:
            if (file := settings.maybe("file", Path)) is not None:
                chat.attach(str(file))
        except BaseException:
            chat.session.close()
            raise
    if edits:
        talk, session = chat.conversation.talk, chat.session
        name = session.model.options.path.name
        stage.aside(greeting(name, session.drafter_name, session.n_ctx, len(talk.turns), talk.n_dropped))
    return chat


def _talk(chat: Chat, line: Line, interrupt: Interrupt) -> int:
    while not chat.leaving:
        first, chat.next_line = chat.next_line, ""
        chat.stage.close()  # the line is drawn where a footer may be
        try:
            text = line.read(first)
        except SpecdecError as error:
            chat.failed = True
            chat.stage.error(error, of_turn=True)
            continue
        if text is None:
            break
        interrupt.clear()
        chat.interrupted = False
        with interruptible(interrupt, ends=False), keys_held(sys.stdin):
            _take(chat, text)
        if chat.interrupted and not line.edits:
            return EXIT_INTERRUPTED
    return EXIT_ANSWER_IS_NO if chat.failed and not line.edits else EXIT_DONE


def _take(chat: Chat, text: str) -> None:
    """A line: a command, a question, or nothing."""
    if not text.strip():
        if chat.editing:
            chat.editing = False
            chat.stage.say("The last question stays as it was.")
    elif slash.is_command(text):
        chat.editing = False
        slash.run(chat, text)
    else:
        chat.question(slash.as_text(text))
