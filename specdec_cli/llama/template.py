"""A model's chat template: messages -> the prompt's text.

The text begins with BOS or not as the template was written, while a tokeniser may add BOS of its own. The rule, which is
llama.cpp's: where the tokeniser adds BOS, one that the template wrote is taken off first (without_written_bos); where it
does not, the written one stands and becomes the token. So the prompt has exactly one, or none for a model without.
"""

from __future__ import annotations

import contextlib
import json
import queue
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from specdec_cli.errors import PromptError

TIME_LIMIT_S = 2.0  # the longest of seventy real templates takes 50 ms
START_LIMIT_S = 30.0
_ROOM_CHARS = 1_000_000  # that a template may write beside three times its messages

_WORKER = Path(__file__).with_name("template_worker.py")
_Message = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Rendered:
    """A prompt, and what was done to the messages that the person should know of."""

    text: str
    notes: tuple[str, ...] = ()


class _Fault(Exception):
    """The template did not render. kind: as the worker names it."""

    def __init__(self, kind: str, why: str) -> None:
        super().__init__(why)
        self.kind = kind
        self.why = why


def without_written_bos(text: str, bos_token: str, add_bos: bool) -> str:
    """The text to tokenise with add_special: without the BOS that the template wrote, where the tokeniser adds one."""
    return text.removeprefix(bos_token) if add_bos else text


class ChatTemplate:
    """A template, and the process it runs in: started at once, used again, ended when it hangs or with this object."""

    def __init__(self, source: str, bos_token: str, eos_token: str) -> None:
        self._template = {"source": source, "bos_token": bos_token, "eos_token": eos_token}
        self._worker: _Worker | None = _Worker()

    def render(self, messages: Sequence[Mapping[str, str]], add_generation_prompt: bool = True) -> Rendered:
        """messages: role (system, user, assistant) and content. Raises PromptError within about two seconds.

        A template may want the system prompt inside the first user message, or content as a list of parts. Whether it
        took a message is seen by its text.
        """
        wanted = [message["content"].strip() for message in messages if message["role"] != "assistant"]
        faults: list[_Fault] = []
        incomplete: list[str] = []
        for merged, form in _forms(messages):
            try:
                text = self._ask(form, add_generation_prompt)
            except _Fault as fault:
                if fault.kind not in ("raised", "failed"):
                    raise _prompt_error(fault) from fault
                faults.append(fault)
                continue
            if all(content in text for content in wanted):
                return Rendered(text, (_merged_note(faults),) if merged else ())
            if text.strip():
                incomplete.append(text)
        if incomplete:
            return Rendered(incomplete[0], (_lost_note(incomplete[0], messages),))
        raise _prompt_error(faults[0] if faults else _Fault("empty", "It makes no text of these messages."))

    def close(self) -> None:
        if self._worker is not None:
            self._worker.stop()
            self._worker = None

    def _ask(self, messages: Sequence[_Message], add_generation_prompt: bool) -> str:
        if self._worker is None or not self._worker.alive:
            self.close()
            self._worker = _Worker()
        n_chars = sum(len(str(text)) for message in messages for text in message.values())
        request = {
            **self._template,
            "messages": [dict(message) for message in messages],
            "add_generation_prompt": add_generation_prompt,
            "max_chars": 3 * n_chars + _ROOM_CHARS,
        }
        try:
            reply = self._worker.ask(request)
        except BaseException:  # a fault, or Ctrl-C: an answer to come would be taken for the next one
            self.close()
            raise
        if "fault" in reply:
            raise _Fault(reply["fault"], reply["why"])
        return reply["text"]


def _forms(messages: Sequence[Mapping[str, str]]) -> Iterator[tuple[bool, list[_Message]]]:
    """The talk in the forms that templates want, the usual one first; whether the system prompt is merged."""
    forms: list[tuple[bool, list[_Message]]] = [(False, list(messages))]
    users = [i for i, message in enumerate(messages) if message["role"] == "user"]
    system = [message["content"] for message in messages if message["role"] == "system"]
    if system and users:
        merged = [
            {**message, "content": "\n\n".join([*system, message["content"]])} if i == users[0] else message
            for i, message in enumerate(messages)
            if message["role"] != "system"
        ]
        forms.append((True, list(merged)))
    for is_merged, form in forms:
        yield is_merged, form
        yield (
            is_merged,
            [{**message, "content": [{"type": "text", "text": message["content"]}]} for message in form],
        )


def _merged_note(faults: list[_Fault]) -> str:
    reason = f" ({faults[0].why})" if faults else ""
    return f"The model's chat template takes no system prompt{reason}: it stands before the first user message."


def _lost_note(text: str, messages: Sequence[Mapping[str, str]]) -> str:
    lost = [m["role"] for m in messages if m["role"] != "assistant" and m["content"].strip() not in text]
    return f"The model's chat template leaves out or changes a {lost[0]} message."


def _prompt_error(fault: _Fault) -> PromptError:
    what = {
        "raised": "The model's chat template refuses these messages.",
        "syntax": "The model's chat template has a syntax error.",
        "forbidden": "The model's chat template does what a template must not do.",
        "limit": "The model's chat template does not come to an end within its limits.",
    }.get(fault.kind, "The model's chat template fails.")
    why = f"It says: {fault.why}" if fault.kind == "raised" else fault.why
    return PromptError(what, why, "Pass the prompt as it is (--raw), or use a GGUF of this model with another chat template.")


class _Worker:
    """The process, and the thread that reads from it so that waiting can end."""

    def __init__(self) -> None:
        try:
            process = subprocess.Popen(
                [sys.executable, "-P", str(_WORKER)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                # Ctrl-C goes to all processes of the terminal's group, and would end this one before it can ignore it.
                start_new_session=True,
                creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
            )
        except OSError as error:
            raise PromptError(
                "The chat template cannot be rendered.", f"No process for it: {error}", "Check the Python installation."
            ) from error
        assert process.stdin is not None
        assert process.stdout is not None
        self._process = process
        self._stdin = process.stdin
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._ready = False
        threading.Thread(target=_read, args=(process.stdout, self._lines), name="specdec-template", daemon=True).start()
        self.stop = weakref.finalize(self, _stop, process)

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def ask(self, request: dict[str, Any]) -> dict[str, str]:
        if not self._ready:
            self._receive(START_LIMIT_S)
            self._ready = True
        try:
            self._stdin.write(json.dumps(request).encode("ascii") + b"\n")
            self._stdin.flush()
        except OSError as error:
            raise _Fault("ended", "Its process has ended.") from error
        return self._receive(TIME_LIMIT_S)

    def _receive(self, limit_s: float) -> dict[str, str]:
        try:
            line = self._lines.get(timeout=limit_s)
        except queue.Empty:
            raise _Fault("limit", f"It was stopped after {limit_s:g} s.") from None
        if not line:
            raise _Fault("ended", "Its process has ended, perhaps for lack of memory.")
        reply: dict[str, str] = json.loads(line)
        return reply


def _read(stdout: IO[bytes], lines: queue.SimpleQueue[bytes]) -> None:
    with stdout:
        for line in stdout:
            lines.put(line)
    lines.put(b"")


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    if process.stdin is not None:
        with contextlib.suppress(OSError):  # what was not sent yet has nobody to go to
            process.stdin.close()
