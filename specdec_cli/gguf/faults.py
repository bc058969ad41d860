"""The sentences for a model file that cannot be used: one cause and one next step for each fault."""

from __future__ import annotations

import codecs
import difflib
import re
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from specdec_cli.errors import ModelFileError
from specdec_cli.gguf.constants import VERSIONS, Role

# A header that asks for more than this asks for something that no file has.
ABSURD_SIZE = 1 << 44

_ARCHIVES = {
    b"\x1f\x8b": "a gzip archive",
    b"7z\xbc\xaf\x27\x1c": "a 7-Zip archive",
    b"\xfd7zXZ\x00": "an xz archive",
    b"\x28\xb5\x2f\xfd": "a zstd archive",
    b"BZh": "a bzip2 archive",
    b"Rar!": "a RAR archive",
}
_BEFORE_GGUF = (b"lmgg", b"fmgg", b"tjgg", b"algg")
_PIECE = re.compile(r"(\.part\d+of\d+|-split-[a-z]+)$", re.IGNORECASE)
_CONVERT = "Download a .gguf of the same model, or convert it with llama.cpp's convert_hf_to_gguf.py."


@dataclass(frozen=True, slots=True)
class Subject:
    """The file that a sentence is about."""

    path: Path
    role: Role | None = None
    reference: str | None = None  # of a file that is read on the hub: path is only where it would be here

    def __str__(self) -> str:
        shown = self.reference or self.path
        return f"The {self.role} model {shown}" if self.role else f"The model file {shown}"

    def beside(self, path: Path) -> Subject:
        """Another file of the same model, in the same folder."""
        folder = self.reference.rpartition("/")[0] if self.reference else ""
        return Subject(path, self.role, f"{folder}/{path.name}" if self.reference else None)

    def again(self, fix: str) -> str:
        """fix: how to bring the file here anew, which changes nothing if the hub's own file is the faulty one."""
        if self.reference is None:
            return fix
        return "The file is like this on the hub: choose another file or repository, or tell its owner."


def missing(subject: Subject) -> ModelFileError:
    path = subject.path
    if path.is_symlink():
        return ModelFileError(
            f"{subject} is a link to a file that does not exist.",
            f"It points to {path.readlink()}.",
            "Download the model again, or give the path of the file itself.",
        )
    folder = path.parent
    if not folder.is_dir():
        return ModelFileError(
            f"{subject} does not exist.", f"There is no folder {folder}.", "Check the path for a typing error."
        )
    where = "this folder" if folder == Path() else folder
    names = gguf_names(folder)
    near = _near(path.name, names)
    if near:
        return ModelFileError(
            f"{subject} does not exist.",
            f"There is no file {path.name} in {where}.",
            f"Did you mean {' or '.join(str(folder / name) for name in near)}?",
        )
    return ModelFileError(
        f"{subject} does not exist.",
        f"There is no file {path.name} in {where}.",
        f"The folder has these models: {_some(names)}" if names else "The folder holds no .gguf file; check the path.",
    )


def directory(subject: Subject) -> ModelFileError:
    names = gguf_names(subject.path)
    return ModelFileError(
        f"{subject} is a folder, not a file.",
        f"It holds {_some(names)}" if names else "It holds no .gguf file.",
        f"Give the file: {subject.path / names[0]}" if names else "Give the path of a .gguf file.",
    )


def unreadable(subject: Subject, error: OSError | ValueError) -> ModelFileError:
    """The operating system, or Python for an impossible path, refused."""
    if isinstance(error, PermissionError):
        return ModelFileError(
            f"{subject} may not be read.",
            "This user has no permission to open it.",
            f"Allow it (chmod u+r '{subject.path}'), or copy the file to where you may read it.",
        )
    cause = getattr(error, "strerror", None) or str(error)
    return ModelFileError(f"{subject} cannot be read.", f"The system says: {cause}.", "Check the path and the disk.")


def not_a_file(subject: Subject, mode: int) -> ModelFileError:
    kind = "a pipe" if stat.S_ISFIFO(mode) else "a socket" if stat.S_ISSOCK(mode) else "a device"
    return ModelFileError(
        f"{subject} is {kind}, not a file.",
        "A model is read in more than one place at once.",
        "Save it to a file and give the path of that file.",
    )


def empty(subject: Subject) -> ModelFileError:
    return ModelFileError(f"{subject} is empty.", "It has 0 bytes.", subject.again("Download it again."))


def truncated(subject: Subject, n_needed: int, n_bytes: int, exact: bool) -> ModelFileError:
    """exact: n_needed is the whole file's size, not only what its first part already asks for."""
    if n_needed > ABSURD_SIZE:
        return damaged(subject, f"Its header asks for {n_needed:,} bytes, and the file has {n_bytes:,}.")
    return ModelFileError(
        f"{subject} is truncated.",
        f"It needs {'' if exact else 'at least '}{n_needed:,} bytes and has {n_bytes:,}.",
        _join(subject.path) or subject.again("Download it again; most tools can resume an unfinished download."),
    )


def damaged(subject: Subject, why: str) -> ModelFileError:
    return ModelFileError(f"{subject} is damaged.", why, subject.again("Download it again, or convert it again."))


def too_long(subject: Subject, n_needed: int, n_most: int) -> ModelFileError:
    return ModelFileError(
        f"{subject} has a header that is too long.",
        f"It asks for at least {n_needed:,} bytes; {n_most:,} are allowed, and no model needs a tenth of that.",
        subject.again("Download it again, or convert it again."),
    )


def bad_version(subject: Subject, version: int) -> ModelFileError:
    if version == 1:
        return ModelFileError(
            f"{subject} is in GGUF version 1, which llama.cpp no longer reads.",
            f"The file is version 1; versions {VERSIONS[0]} and {VERSIONS[-1]} can be read.",
            "Download a newer conversion of the model, or convert it again.",
        )
    if version & 0xFFFF == 0 and version:
        return ModelFileError(
            f"{subject} is big-endian.",
            "It was converted for another kind of processor; only little-endian files can be read here.",
            "Download the little-endian file, or convert it without --bigendian.",
        )
    if version > VERSIONS[-1]:
        return ModelFileError(
            f"{subject} is in a GGUF version that is newer than this program.",
            f"The file is version {version}; versions {VERSIONS[0]} and {VERSIONS[-1]} can be read.",
            "pip install -U specdec-cli llama-cpp-python",
        )
    return damaged(subject, f"It says that it is GGUF version {version}, which does not exist.")


def not_gguf(subject: Subject, head: bytes, size: int) -> ModelFileError:
    """head: the first bytes of a file that does not begin with GGUF."""
    what, why, fix = _explain_content(head, size)
    return ModelFileError(f"{subject} is {what}, not a GGUF file.", why, _join(subject.path) or subject.again(fix))


def _explain_content(head: bytes, size: int) -> tuple[str, str, str]:
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if head.startswith(b"version https://git-lfs.github.com/spec/"):
        found = re.search(rb"^size (\d+)$", head, re.MULTILINE)
        real = f"It has {size:,} bytes; the model has {int(found[1]):,}." if found else f"It has {size:,} bytes."
        return "a Git LFS pointer", real, "Fetch the model itself: git lfs pull"
    if text[:1] == b"<":
        return (
            "a web page",
            f"It starts with {_shown(text)}.",
            "Download the file itself: on Hugging Face the address has /resolve/ in it, not /blob/.",
        )
    if len(head) > 8 and head[8:9] == b"{" and 2 <= int.from_bytes(head[:8], "little") < max(size, 9):
        return "a safetensors file", "It starts with a safetensors header.", _CONVERT
    if head.startswith(b"PK\x03\x04"):
        kind = "a PyTorch checkpoint" if b"/data.pkl" in head else "a zip archive"
        return kind, "It starts with a zip header.", _CONVERT if "PyTorch" in kind else "Unpack it first."
    if re.match(rb"\x80[\x02-\x05]", head):
        return "a pickle file (PyTorch)", "It starts with a pickle header.", _CONVERT
    for magic, name in _ARCHIVES.items():
        if head.startswith(magic):
            return name, f"It starts with {_shown(head)}.", "Unpack it first."
    if head.startswith(_BEFORE_GGUF):
        return (
            "in the GGML format that came before GGUF",
            f"It starts with {_shown(head[:4])}.",
            "Download a newer conversion of the model; llama.cpp no longer reads this one.",
        )
    if not head.strip(b"\x00"):
        return "a block of zeros", "Its first bytes are all zero: a download that was never finished.", "Download it again."
    if _is_text(text):
        return "a text file", f"It starts with {_shown(text)}.", "Download the model again and check the address."
    return "some other file", f"It starts with {_shown(head[:8])} instead of b'GGUF'.", "Check the path, or download it again."


def part_missing(subject: Subject, n_parts: int, absent: Sequence[Path]) -> ModelFileError:
    return ModelFileError(
        f"{subject} is split into {n_parts} files, and {len(absent)} of them {'is' if len(absent) == 1 else 'are'} missing.",
        f"Not found: {_some([str(path) for path in absent])}",
        "Download the missing files into the same folder.",
    )


def part_name(subject: Subject, index: int, n_parts: int) -> ModelFileError:
    return ModelFileError(
        f"{subject} is part {index + 1} of {n_parts}, and its name does not say so.",
        "llama.cpp finds the other parts by name.",
        subject.again(f"Give all parts their names back, this one as NAME-{index + 1:05d}-of-{n_parts:05d}.gguf."),
    )


def gguf_names(folder: Path) -> list[str]:
    """The names of the GGUF files in a folder, sorted; none where the folder may not be listed."""
    try:
        return sorted(entry.name for entry in folder.iterdir() if entry.suffix.lower() == ".gguf")
    except OSError:
        return []


def _near(name: str, names: Sequence[str]) -> list[str]:
    """Up to three names that may have been meant."""
    lowered = {other.lower(): other for other in names}
    stem = name.lower().removesuffix(".gguf")
    begun = [other for low, other in lowered.items() if stem and low.startswith(stem)]
    close = difflib.get_close_matches(name.lower(), lowered, n=3, cutoff=0.7)
    return list(dict.fromkeys([*begun, *(lowered[low] for low in close)]))[:3]


def _some(names: Sequence[str], limit: int = 8) -> str:
    rest = f" and {len(names) - limit} more" if len(names) > limit else ""
    return f"{', '.join(names[:limit])}{rest}."


def _shown(head: bytes) -> str:
    """The first line, or what of it helps to recognise it."""
    line = (head.splitlines() or [b""])[0][:60]
    return repr(line.decode("utf-8", errors="ignore") if _is_text(line) else line)


def _is_text(data: bytes) -> bool:
    try:
        # Not final: the last character may be cut.
        text = codecs.getincrementaldecoder("utf-8")().decode(data)
    except UnicodeDecodeError:
        return False
    return all(char.isprintable() or char.isspace() for char in text)


def _join(path: Path) -> str:
    """How to join a model that was cut into pieces without headers of their own; nothing for other names."""
    piece = _PIECE.search(path.name)
    if not piece:
        return ""
    whole = path.name[: piece.start()]
    pieces = ".part*" if piece[0].lower().startswith(".part") else "-split-*"
    return f"Join the pieces first: cat {whole}{pieces} > {whole.removesuffix('.gguf')}.gguf"
