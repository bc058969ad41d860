"""Kinds of value: text from a command line, the environment or a profile becomes a checked value."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from specdec_cli.llama.options import Lora

TRUE_WORDS = ("on", "true", "1", "yes", "enabled")
FALSE_WORDS = ("off", "false", "0", "no", "disabled")

_INTEGER = re.compile(r"[+-]?[0-9]+\Z")
_REAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\Z")
_SIZE = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+) ?((?:[kmgt]i?)?)b?\Z", re.IGNORECASE)
_SPAN = re.compile(r"([0-9]{0,12}):([0-9]{0,12})\Z")
_REPOSITORY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*/[A-Za-z0-9_][A-Za-z0-9._-]*(:[A-Za-z0-9._-]+)?\Z")
_LOGIT_BIAS = re.compile(r"([0-9]{1,9})([+-])(.+)\Z")
_OVERRIDE_KV = re.compile(r"([^=]{1,127})=(?:int:[+-]?[0-9]+|float:(?P<float>.+)|bool:(?:true|false)|str:.{0,127})\Z")
_LONGEST_SHOWN = 60
_MAX_DIGITS = 18  # more than any range holds; int() refuses thousands of digits with words of its own


class BadValue(ValueError):
    """A text that the kind does not take: why not, and where one is known, a better one."""

    def __init__(self, reason: str, better: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.better = better


class Kind(Protocol):
    """How the text of a setting is read."""

    @property
    def metavar(self) -> str:
        """What stands for the value in --help."""

    @property
    def expects(self) -> str:
        """What the kind takes, as the rest of a sentence that begins with "takes"."""

    def parse(self, text: str) -> object:
        """The value of a text. Raises BadValue."""


@dataclass(frozen=True, slots=True)
class Integer:
    low: int
    high: int
    note: str = ""  # what a special value means
    also: tuple[int, ...] = ()  # legal values outside the range
    words: tuple[tuple[str, int], ...] = ()
    metavar: str = "N"

    @property
    def expects(self) -> str:
        words = "".join(f"{word}, " for word, _ in self.words)
        also = "".join(f"{value}, or " for value in self.also)
        note = f" ({self.note})" if self.note else ""
        return f"{words}{'or ' if words else ''}{also}an integer from {self.low} to {self.high}{note}"

    def parse(self, text: str) -> int:
        for word, value in self.words:
            if text == word:
                return value
        if not _INTEGER.match(text):
            raise BadValue("is not an integer")
        if len(text) > _MAX_DIGITS or not (self.low <= int(text) <= self.high or int(text) in self.also):
            raise BadValue("is out of range")
        return int(text)


@dataclass(frozen=True, slots=True)
class Real:
    low: float
    high: float
    note: str = ""
    above_low: bool = False  # the lower end itself is not legal
    metavar: str = "N"

    @property
    def expects(self) -> str:
        span = f"above {self.low:g}, up to {self.high:g}" if self.above_low else f"from {self.low:g} to {self.high:g}"
        return f"a number {span}" + (f" ({self.note})" if self.note else "")

    def parse(self, text: str) -> float:
        value = _finite(text)
        if not self.low <= value <= self.high or (self.above_low and value == self.low):
            raise BadValue("is out of range")
        return value


@dataclass(frozen=True, slots=True)
class Size:
    """An amount of memory, in bytes."""

    metavar: str = "SIZE"
    expects: str = "a size such as 8G, 600M or 1.5 GiB (G, M and K count in thousands, GiB, MiB and KiB in 1024)"

    def parse(self, text: str) -> int:
        match = _SIZE.match(text)
        if not match:
            raise BadValue("does not read as a size")
        number, unit = match.groups()
        base = 1024 if "i" in unit.lower() else 1000
        n = _finite(number) * base ** " kmgt".index(unit[:1].lower() or " ")
        if not 1 <= n <= 1e18:
            raise BadValue("is out of range")
        return int(n)


@dataclass(frozen=True, slots=True)
class Span:
    """A half-open range of numbers, as slices have it: A:B, A:, :B."""

    metavar: str = "A:B"
    expects: str = "a range such as 40:80, 40: or :80; the first round is 0, and the last is left out"

    def parse(self, text: str) -> tuple[int, int | None]:
        match = _SPAN.match(text)
        if not match:
            raise BadValue("does not read as a range")
        low, high = int(match[1] or 0), int(match[2]) if match[2] else None
        if high is not None and high <= low:
            raise BadValue("holds nothing")
        return low, high


@dataclass(frozen=True, slots=True)
class Switch:
    metavar: str = ""
    expects: str = "on or off"

    def parse(self, text: str) -> bool:
        if text.lower() in TRUE_WORDS:
            return True
        if text.lower() in FALSE_WORDS:
            return False
        raise BadValue("is neither on nor off")


@dataclass(frozen=True, slots=True)
class Text:
    metavar: str = "TEXT"
    empty: bool = False  # whether an empty text means something

    @property
    def expects(self) -> str:
        return "a text" if self.empty else "a text that is not empty"

    def parse(self, text: str) -> str:
        if not text and not self.empty:
            raise BadValue("is empty")
        return text


@dataclass(frozen=True, slots=True)
class FileName:
    metavar: str = "FILE"
    expects: str = "the name of a file"

    def parse(self, text: str) -> Path:
        if not text or "\0" in text:
            raise BadValue("is no file name")
        return Path(text)


@dataclass(frozen=True, slots=True)
class Choice:
    values: type[StrEnum]
    name: str = ""  # stands in --help for choices that are too many

    @property
    def metavar(self) -> str:
        return self.name or "|".join(self.values)

    @property
    def expects(self) -> str:
        return "one of " + ", ".join(self.values)

    def parse(self, text: str) -> StrEnum:
        word = text.lower()
        if word in TRUE_WORDS and "on" in list(self.values):
            word = "on"
        if word in FALSE_WORDS and "off" in list(self.values):
            word = "off"
        try:
            return self.values(word)
        except ValueError:
            near = difflib.get_close_matches(word, list(self.values), 1)
            raise BadValue("is not among the choices", near[0] if near else "") from None


@dataclass(frozen=True, slots=True)
class Reference:
    """A model: a file, a model on the hub, or a name that stands for something of ours."""

    names: tuple[str, ...]
    metavar: str = "REF"

    @property
    def expects(self) -> str:
        names = self.names[0] if len(self.names) == 1 else f"one of {', '.join(self.names)}"
        return f"a GGUF file (model.gguf, ./model), a hub reference (owner/repository:Q4_K_M), or {names}"

    def parse(self, text: str) -> str:
        if text.lower() in self.names:
            return text.lower()
        if not text.strip():
            raise BadValue("is empty")
        # Whether the file or the repository exists is not for the settings to find out.
        if "/" in text or "\\" in text or ":" in text or text.lower().endswith(".gguf"):
            return text
        near = difflib.get_close_matches(text.lower(), self.names, 1)
        raise BadValue("is neither a GGUF file, a hub reference nor a name known here", near[0] if near else "")


@dataclass(frozen=True, slots=True)
class References:
    """References, several of them with commas between."""

    names: tuple[str, ...]
    metavar: str = "REF,..."

    @property
    def expects(self) -> str:
        return f"{Reference(self.names).expects}, or several of these with commas between"

    def parse(self, text: str) -> tuple[str, ...]:
        one = Reference(self.names)
        try:
            return tuple(one.parse(part) for part in text.split(","))
        except BadValue:
            if "," not in text:
                raise
        return (one.parse(text),)  # a file whose name has a comma


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository of the hub, as llama.cpp's -hf takes it."""

    metavar: str = "OWNER/REPO[:QUANT]"
    expects: str = "a repository of the hub with or without a quantisation: owner/repository:Q4_K_M"

    def parse(self, text: str) -> str:
        """As a reference that no file of this machine can be mistaken for."""
        bare = text.removeprefix("hf:")
        if not _REPOSITORY.match(bare):
            raise BadValue("does not read as owner/repository or owner/repository:QUANT")
        return f"hf:{bare}"


@dataclass(frozen=True, slots=True)
class Several:
    """Several values: of one text with separators, and of a flag that is repeated."""

    metavar: str
    expects: str
    one: Callable[[str], object]
    separators: str = ""  # each of these characters separates; without any, the text is one value
    repeatable: bool = True  # else the last flag counts
    word: Callable[[Any], str] | None = None  # writes one value as it is read, where shown() does not

    def parse(self, text: str) -> tuple[object, ...]:
        parts = re.split(f"[{re.escape(self.separators)}]", text) if self.separators else [text]
        return tuple(self.one(part.strip() if self.separators else part) for part in parts)


def shown(value: object) -> str:
    """A value as a person would write it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, float):
        return f"{value:.7g}"
    if isinstance(value, Lora):
        return f"{value.path}:{value.scale:g}"
    if isinstance(value, tuple) and value and not isinstance(value[0], tuple):
        return ",".join(shown(item) for item in value)
    if isinstance(value, tuple):
        return ",".join("=".join(shown(part) for part in item) for item in value)
    return str(value)


def quoted(text: str) -> str:
    """A text for a message: on one line, not too long, and quoted where it would not read as one word."""
    cut = text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "..."
    return cut if cut and cut.isprintable() and " " not in cut else repr(cut)


def folder(text: str) -> Path:
    """One folder of several."""
    return FileName().parse(text).expanduser()


def file(text: str) -> Path:
    """One file of several."""
    return FileName().parse(text)


def nonempty(text: str) -> str:
    """One text of several, which may not be empty."""
    if not text:
        raise BadValue("is empty")
    return text


def logit_bias(text: str) -> tuple[int, float]:
    """TOKEN_ID(+/-)BIAS, as llama.cpp writes it; -inf forbids the token."""
    match = _LOGIT_BIAS.match(text)
    if not match:
        raise BadValue("does not read as TOKEN_ID+BIAS or TOKEN_ID-BIAS")
    token, sign, size = match.groups()
    if size == "inf" and sign == "-":
        return int(token), -math.inf
    return int(token), _finite(size) * (-1 if sign == "-" else 1)


def biased(value: tuple[int, float]) -> str:
    """A token's bias as logit_bias() reads it."""
    token, size = value
    return f"{token}{size:+.7g}"


def proportion(text: str) -> float:
    """One GPU's share of a model."""
    value = _finite(text)
    if value < 0:
        raise BadValue("has a negative share")
    return value


def tensor_override(text: str) -> tuple[str, str]:
    """PATTERN=BUFFER_TYPE."""
    pattern, equals, buffer_type = text.partition("=")
    if not (pattern and equals and buffer_type):
        raise BadValue("does not read as PATTERN=BUFFER")
    try:
        re.compile(pattern)
    except re.error as error:
        raise BadValue(f"holds a pattern that does not read: {error}") from None
    return pattern, buffer_type


def key_override(text: str) -> str:
    """KEY=TYPE:VALUE of the model's metadata."""
    match = _OVERRIDE_KV.match(text)
    if not match:
        raise BadValue("does not read as KEY=int:N, KEY=float:N, KEY=bool:true|false or KEY=str:TEXT")
    if match["float"] is not None:
        _finite(match["float"])
    return text


def lora(text: str) -> Lora:
    """A LoRA adapter at full strength."""
    return Lora(Path(nonempty(text)))


def adapter(value: Lora) -> str:
    """An adapter as lora() reads it."""
    return str(value.path)


def scaled_lora(text: str) -> Lora:
    """FILE:SCALE; the last colon counts, since a Windows path has one of its own."""
    path, colon, scale = text.rpartition(":")
    if not (path and colon):
        raise BadValue("does not read as FILE:SCALE")
    return Lora(Path(path), _finite(scale))


def _finite(text: str) -> float:
    if not _REAL.match(text) or not math.isfinite(float(text)):
        raise BadValue("is not a finite number")
    return float(text)
