"""The commands of a talk that work on what was said."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from specdec_cli.chat import store
from specdec_cli.chat.conversation import model_names
from specdec_cli.chat.export import markdown
from specdec_cli.chat.store import Saved
from specdec_cli.chat.talk import Talk
from specdec_cli.cli.chatroom import Chat
from specdec_cli.cli.sessions import kept_settings
from specdec_cli.errors import UsageError
from specdec_cli.ui.clipboard import copy as copy_text
from specdec_cli.ui.units import one_line

KEYS = """Alt-Enter, or a backslash at the end of a line: a new line in the turn
Tab: completes; Ctrl-R: searches what was typed before
Ctrl-C: stops an answer, clears the line; Ctrl-D: leaves
Commands may be shortened; //text sends text that begins with a slash."""

_SHOWN = 50  # characters of a question in a message


def read(chat: Chat, rest: str) -> None:
    """/read FILE"""
    chat.attach(_file(rest, "/read"))


def regen(chat: Chat, _rest: str) -> None:
    """/regen"""
    chat.answer(chat.conversation.regen(chat.ask_now()))


def edit(chat: Chat, rest: str) -> None:
    """/edit [TEXT]"""
    last = chat.conversation.last()
    if rest:
        chat.answer(chat.conversation.edit(rest, chat.ask_now()))
    elif chat.edits:
        chat.editing, chat.next_line = True, last.question
    else:
        raise UsageError("/edit needs the new question.", "There is no line to change it in.", "/edit NEW QUESTION")


def undo(chat: Chat, _rest: str) -> None:
    """/undo; documents that wait for a question go first, and right after /clear it brings the talk back."""
    if waiting := chat.conversation.pending:
        chat.conversation.detach()
        chat.stage.say(f"Taken back: {one_line(', '.join(document.name for document in waiting), _SHOWN)}")
        return
    if not chat.conversation.talk.turns and chat.cleared is not None:
        chat.conversation.load(chat.cleared)
        chat.cleared = None
        chat.stage.say(f"Back: {_turns(chat.conversation.talk)}.")
        return
    turn = chat.conversation.undo()
    chat.stage.say(f"Taken back: {one_line(turn.question, _SHOWN)}")


def clear(chat: Chat, _rest: str) -> None:
    """/clear"""
    talk = chat.conversation.talk
    chat.conversation.clear()
    if not talk.turns:
        chat.stage.say("The talk is empty.")
        return
    chat.cleared = talk
    chat.stage.say(f"Cleared: {_turns(talk)}. /undo brings the talk back until the next question.")


def system(chat: Chat, rest: str) -> None:
    """/system [TEXT|off]"""
    if rest:
        chat.conversation.set_system(None if rest == "off" else rest)
    text = chat.conversation.talk.system
    chat.stage.say("No system prompt." if text is None else f"System prompt: {text}")


def copy(chat: Chat, _rest: str) -> None:
    """/copy"""
    answer = chat.conversation.last().answer
    tty = next((stream for stream in (sys.stderr, sys.stdout) if stream is not None and stream.isatty()), None)
    how = copy_text(answer, tty, os.environ)
    if how is None:
        raise UsageError(
            "There is no way to a clipboard here.",
            "No tool (wl-copy, xclip, xsel, pbcopy, clip) works, and there is no terminal that could be asked.",
            "/save FILE.md",
        )
    chat.stage.say(f"Copied {len(answer):,} characters {how}.")


def save(chat: Chat, rest: str) -> None:
    """/save FILE"""
    _save(chat, _file(rest, "/save"), overwrite=False)


def save_over(chat: Chat, rest: str) -> None:
    """/save! FILE"""
    _save(chat, _file(rest, "/save!"), overwrite=True)


def load(chat: Chat, rest: str) -> None:
    """/load FILE|NAME"""
    path = Path(_file(rest, "/load")).expanduser()
    if not path.is_file() and path.suffix == "" and path.parent == Path():
        path = store.place(path.name)
    saved = store.read(path)
    chat.conversation.load(saved.talk)
    if note := store.other_models(saved, model_names(chat.session)):
        chat.stage.notice(note)
    chat.stage.say(f"Loaded {path.name}: {_turns(saved.talk)}.")


def leave(chat: Chat, _rest: str) -> None:
    """/exit"""
    chat.leaving = True


def _save(chat: Chat, name: str, *, overwrite: bool) -> None:
    path, talk = Path(name).expanduser(), chat.conversation.talk
    if path.is_dir():
        raise UsageError(f"{path} is a folder.", "", f"/save {path / 'talk.md'}")
    if path.exists() and not overwrite:
        raise UsageError(f"There is a file {path} already.", "", f"/save! {name} takes its place.")
    if path.suffix.lower() in (".md", ".markdown"):
        store.put(path, markdown(talk, path.stem).encode("utf-8", "replace"))
    else:
        models = model_names(chat.session)
        store.write(path, Saved(talk, kept_settings(chat.settings), models), overwrite=overwrite)
    chat.stage.say(f"Saved {path}: {_turns(talk)}.")


def _file(rest: str, command: str) -> str:
    """The name behind a command, without quotes around it. Raises UsageError where there is none."""
    name = rest[1:-1] if len(rest) > 1 and rest[0] == rest[-1] and rest[0] in "\"'" else rest
    if not name:
        raise UsageError(f"{command} needs a file.", "", f"{command} FILE")
    return name


def _turns(talk: Talk) -> str:
    n = len(talk.turns)
    return "1 turn" if n == 1 else f"{n} turns"
