"""Text files of a person, in the encodings that editors write."""

from __future__ import annotations

import codecs
from pathlib import Path

from specdec_cli.errors import PromptError

# Longest first: the mark of UTF-16 is the beginning of that of UTF-32.
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


def read_bytes(file: Path, what: str, fix: str) -> bytes:
    """What a file holds. Raises PromptError.

    what: what a message calls it, such as "prompt file"; fix: what to do instead.
    """
    try:
        return file.read_bytes()
    except FileNotFoundError:
        raise PromptError(f"There is no {what} {file}.", f"The current folder is {Path.cwd()}.", fix) from None
    except IsADirectoryError:
        raise PromptError(f"The {what} {file} is a folder.", "", fix) from None
    except (OSError, ValueError) as error:
        if file.is_dir():  # Windows calls it a lack of permission
            raise PromptError(f"The {what} {file} is a folder.", "", fix) from None
        raise PromptError(f"The {what} {file} cannot be read.", str(error), fix) from None


def decoded(data: bytes, place: str) -> str | None:
    """The text of bytes, without a mark of their encoding; None where there is none. Raises PromptError."""
    mark, encoding = next(((mark, name) for mark, name in _MARKS if data.startswith(mark)), (b"", "utf-8"))
    if len(data) == len(mark):
        return None
    try:
        return unix_lines(data[len(mark) :].decode(encoding))
    except UnicodeDecodeError as error:
        offset = len(mark) + error.start
        raise PromptError(
            f"{place} is not text.",
            f"Its byte {offset} (0x{data[offset]:02x}) does not decode as {encoding.upper()}: {error.reason}.",
            "Save it as UTF-8.",
        ) from None


def unix_lines(text: str) -> str:
    return text.replace("\r\n", "\n")
