"""The commands of a talk: which there are, how one is found, and what those do that change how answers are made."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from specdec_cli import drafters
from specdec_cli.chat.room import ContextPolicy
from specdec_cli.cli import slash_talk
from specdec_cli.cli.chatroom import Chat
from specdec_cli.decoding.contracts import PassAborted
from specdec_cli.errors import SpecdecError, UsageError
from specdec_cli.settings.kinds import BadValue, Choice, Switch, quoted
from specdec_cli.settings.resolve import Settings, changed
from specdec_cli.settings.table import SETTINGS, Policy
from specdec_cli.ui.chatted import marked_answer, totals_table
from specdec_cli.ui.line import Takes
from specdec_cli.ui.tables import command_table

_COMMAND = re.compile(r"/([A-Za-z][A-Za-z-]*!?|\?)(?:\s+(.*))?\Z", re.DOTALL)
_SAMPLING = (
    "temp", "top_k", "top_p", "min_p", "repeat_penalty", "presence_penalty", "frequency_penalty", "seed",
)  # fmt: skip

# What other chats call a command.
_ELSEWHERE = {"bye": "exit", "quit": "exit", "q": "exit", "?": "help", "file": "read", "retry": "regen", "reset": "clear"}

_NOTHING = Takes()

Body = Callable[[Chat, str], None]


@dataclass(frozen=True, slots=True)
class Command:
    """A command of a talk."""

    takes: str  # as /help shows it
    help: str
    body: Body
    completes: Takes = _NOTHING


def is_command(text: str) -> bool:
    """Whether a line is a command. One that begins with two slashes, or with a path, is not."""
    return _COMMAND.match(text.strip()) is not None


def as_text(text: str) -> str:
    """A line as it is sent: of two slashes at its beginning one is left."""
    return text[1:] if text.startswith("//") else text


def run(chat: Chat, line: str) -> None:
    """Run a command. Whatever goes wrong is told, and the talk goes on. Raises OutputClosed."""
    match = _COMMAND.match(line.strip())
    if match is None:
        return
    before, keeps = chat.conversation.talk, chat.settings
    try:
        name, rest = _found(match[1].lower()), (match[2] or "").strip()
        if rest and not COMMANDS[name].takes:
            raise UsageError(f"/{name} takes nothing behind it.", f"It was given {quoted(rest)}.", f"Use /{name} alone.")
        COMMANDS[name].body(chat, rest)
    except PassAborted:
        chat.interrupted = True
        chat.stage.close()
        chat.stage.notice("Stopped; all is as it was.")
    except SpecdecError as error:
        chat.failed = True
        chat.stage.error(error)
    # An empty talk does not take the place of the one in the file before anything is said in it.
    if chat.conversation.talk.turns and (chat.conversation.talk is not before or chat.settings is not keeps):
        chat.save()


def _found(name: str) -> str:
    """The command that a name or its beginning means. Raises UsageError."""
    if name in COMMANDS:
        return name
    begun = [each for each in COMMANDS if each.startswith(name)]
    if len(begun) == 1:
        return begun[0]
    if begun:
        raise UsageError(f"/{name} may be {' or '.join(f'/{each}' for each in begun)}.", "", "Write more of it.")
    near = [_ELSEWHERE[name]] if name in _ELSEWHERE else difflib.get_close_matches(name, COMMANDS, 1)
    fix = f"Use /{near[0]}, or two slashes to send it as text." if near else "/help lists them; two slashes send it as text."
    raise UsageError(f"There is no command /{name}.", "", fix)


def _help(chat: Chat, _rest: str) -> None:
    rows = [(f"/{name} {command.takes}".rstrip(), command.help) for name, command in COMMANDS.items()]
    table = command_table(rows, colour=chat.stage.colour, columns=chat.stage.columns)
    chat.stage.say(f"{table}\n\n{slash_talk.KEYS}")


def _stats(chat: Chat, _rest: str) -> None:
    session = chat.session
    chat.stage.say(
        totals_table(
            chat.conversation.totals,
            session.drafter_name,
            session.draft_length,
            colour=chat.stage.colour,
            columns=chat.stage.columns,
        )
    )


def _tokens(chat: Chat, _rest: str) -> None:
    if not chat.last_events:
        raise UsageError("There is no answer to show.", "Only answers of this process have marks.", "Ask something first.")
    piece = chat.session.model.vocabulary.piece
    chat.stage.say(marked_answer(chat.last_events, piece, colour=chat.stage.colour))


def _draft(chat: Chat, rest: str) -> None:
    if rest:
        chat.switch_drafter(changed(chat.settings, "draft", drafters.NONE if rest == "off" else rest, "/draft"))
    name = chat.session.drafter_name
    files = [context.model.options.path.name for context in chat.session.contexts if context.model.role == "draft"]
    by = f"{name}: {files[0]}" if files else name
    chat.stage.say("Decoding plainly." if name == drafters.NONE else f"Drafting with {by}.")


def _k(chat: Chat, rest: str) -> None:
    session = chat.session
    if session.drafter_name == drafters.NONE:
        raise UsageError("There is no drafter, and so no draft length.", "", "/draft REF chooses one.")
    if rest == "auto":
        session.change_draft_length(None)
        chat.settings = _with(chat.settings, draft_fixed=None, draft_max=max(session.n_draft_max, 1))
    elif rest:
        settings = changed(chat.settings, "draft_fixed", rest, "/k")
        n = settings.value("draft_fixed", int)
        session.change_draft_length(n)
        chat.settings = _with(settings, draft_max=n)
    n_fixed = session.draft_length
    how = f"as long as pays, {session.n_draft_max} tokens at most" if n_fixed is None else f"{n_fixed} tokens in every round"
    chat.stage.say(f"Drafts: {how}.")


def _sampling(name: str) -> Body:
    """The body of a command that shows or changes a sampling setting."""

    def body(chat: Chat, rest: str) -> None:
        command = f"/{name.replace('_', '-')}"
        if rest:
            chat.settings = changed(chat.settings, name, rest, command)
        decided = chat.effective.decided[name]
        chat.stage.say(f"{command[1:]} {SETTINGS[name].shown(decided.value)} ({decided.origin})")

    return body


def _model(chat: Chat, rest: str) -> None:
    if rest:
        chat.switch_model(changed(chat.settings, "model", rest, "/model"))
    for context in chat.session.contexts:
        chat.stage.say(f"{context.model.role}: {context.model.options.path}")


def _markdown(chat: Chat, rest: str) -> None:
    chat.stage.look.markdown = on = _switched(rest, chat.stage.look.markdown, "/markdown")
    chat.settings = _with(chat.settings, markdown=on)
    chat.stage.say(f"Markdown is {'rendered' if on else 'shown as it is'}.")


def _thinking(chat: Chat, rest: str) -> None:
    on = _switched(rest, not chat.stage.look.hide_thinking, "/thinking")
    chat.stage.look.hide_thinking = not on
    chat.settings = _with(chat.settings, hide_thinking=not on)
    chat.stage.say(f"Thinking is {'shown' if on else 'hidden'}.")


def _context(chat: Chat, rest: str) -> None:
    if rest:
        chat.settings = changed(chat.settings, "context", rest, "/context")
        chat.conversation.policy = ContextPolicy(chat.settings.value("context", Policy).value)
    trims = chat.conversation.policy is ContextPolicy.TRIM
    chat.stage.say(f"A full context {'drops the oldest turns (trim)' if trims else 'takes no further question (full)'}.")


def _switched(text: str, now: bool, command: str) -> bool:
    """A switch as a text says, or the other way. Raises UsageError."""
    if not text:
        return not now
    kind = Switch()
    try:
        return kind.parse(text)
    except BadValue as bad:
        raise UsageError(f"{command} {quoted(text)} {bad.reason}.", f"{command} takes {kind.expects}.") from None


def _with(settings: Settings, **values: object) -> Settings:
    """The settings with values that a command decided."""
    decided = {name: replace(settings.decided[name], value=value) for name, value in values.items()}
    return replace(settings, decided={**settings.decided, **decided})


def _sampling_commands() -> dict[str, Command]:
    return {name.replace("_", "-"): Command("[N]", SETTINGS[name].help, _sampling(name)) for name in _SAMPLING}


_FILES, _SWITCH = Takes(files=True), Takes(("on", "off"))
_POLICY = SETTINGS["context"].kind
_DRAFTERS = Takes(("off", drafters.NGRAM, drafters.AUTO), files=True)

COMMANDS: Mapping[str, Command] = {
    "help": Command("", "this list", _help),
    "read": Command("FILE", "put a document into the next question", slash_talk.read, _FILES),
    "regen": Command("", "answer the last question again, with the next seed", slash_talk.regen),
    "edit": Command("[TEXT]", "change the last question, and answer it again", slash_talk.edit),
    "undo": Command("", "take back the last question and its answer, or waiting files", slash_talk.undo),
    "clear": Command("", "begin anew; the system prompt stays", slash_talk.clear),
    "system": Command("[TEXT|off]", "show, set or drop the system prompt", slash_talk.system, Takes(("off",))),
    "copy": Command("", "copy the last answer to the clipboard", slash_talk.copy),
    "save": Command("FILE", "keep the talk in a file: .md to read, else to load again", slash_talk.save, _FILES),
    "save!": Command("FILE", "the same, in the place of a file that is there", slash_talk.save_over, _FILES),
    "load": Command("FILE|NAME", "go on with a talk from a file or session", slash_talk.load, _FILES),
    "stats": Command("", "what the talk came to, by drafter and draft length", _stats),
    "tokens": Command("", "the last answer with the marks of its drafts", _tokens),
    "draft": Command("[REF|off]", "show or change what drafts: a file, ngram, auto, off", _draft, _DRAFTERS),
    "k": Command("[N|auto]", "show or set the draft length", _k, Takes(("auto",))),
    "model": Command("[FILE]", "show or change the target; the talk stays", _model, _FILES),
    **_sampling_commands(),
    "context": Command(
        "[full|trim]",
        "when the context is full: end the talk, or drop its oldest turns",
        _context,
        Takes(tuple(_POLICY.values) if isinstance(_POLICY, Choice) else ()),
    ),
    "markdown": Command("[on|off]", "render markdown, or show it as it is", _markdown, _SWITCH),
    "thinking": Command("[on|off]", "show what a model thinks, or hide it", _thinking, _SWITCH),
    "exit": Command("", "leave; Ctrl-D too", slash_talk.leave),
}
