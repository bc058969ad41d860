"""Errors a person can act on: what failed, why, how to fix it, and the exit code of the process."""

from __future__ import annotations

EXIT_DONE = 0
EXIT_ANSWER_IS_NO = 1
EXIT_COULD_NOT_START = 2
EXIT_INTERRUPTED = 130


class SpecdecError(Exception):
    """Something a person has to know and can act on.

    what: the failure in one sentence; why: the two values that disagree, or llama.cpp's own last error line;
    fix: something that can be pasted or done.
    """

    exit_code = EXIT_COULD_NOT_START

    def __init__(self, what: str, why: str = "", fix: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.why = why
        self.fix = fix

    def __str__(self) -> str:
        return "\n".join(part for part in (self.what, self.why, self.fix) if part)


class UsageError(SpecdecError):
    """A flag, value or combination that cannot be meant."""


class ModelFileError(SpecdecError):
    """A model file that cannot be read, is of the wrong kind, or does not load."""


class PairError(SpecdecError):
    """A draft that does not fit its target."""


class PromptError(SpecdecError):
    """A prompt that is empty, too long, or cannot be rendered or decoded as text."""


class GrammarError(SpecdecError):
    """A grammar or JSON schema that cannot be used."""


class BackendError(SpecdecError):
    """llama.cpp refused or failed a call: decode, rollback, memory."""
