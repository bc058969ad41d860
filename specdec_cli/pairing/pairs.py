"""Known pairs: YAML files that say which drafts are known for which family of targets, and where that is known from."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from yaml.nodes import Node

from specdec_cli.errors import UsageError
from specdec_cli.gguf.header import Header
from specdec_cli.gguf.vocabulary import Vocabulary
from specdec_cli.yamlfile import YamlFile, shown

FOLDER = "pairs"  # below each folder of profiles

_KEYS = ("family", "description", "vocabulary", "targets", "drafts")
_SIGNS = ("tokenizer", "pre", "size", "tokens")
_DRAFT_KEYS = ("reference", "name", "parameters", "bytes", "licence", "source", "note")
_REQUIRED = ("reference", "name", "parameters", "licence", "source")

_NAME = r"[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9_])?"
_REFERENCE = re.compile(rf"{_NAME}/{_NAME}(?::[A-Za-z0-9._-]+)?|hf:{_NAME}/{_NAME}(?:@[^/:@]+)?/[^:\\]+\.gguf")
_SIZE = re.compile(r"([0-9]+)(?:\s*-\s*([0-9]+))?\Z")
_COUNT = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([KMBkmb]?)\Z")
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "B": 10**9}
_ID = re.compile(r"[0-9]{1,9}\Z")
_LONGEST_PATTERN = 200


@dataclass(frozen=True, slots=True)
class KnownDraft:
    """A draft that is known to go with a family."""

    reference: str  # on the hub, as --draft takes it
    name: str
    n_parameters: int
    n_bytes: int | None  # of the file
    licence: str
    source: str  # where the pair, or the repository, is known from
    note: str


@dataclass(frozen=True, slots=True)
class Signs:
    """How a vocabulary is recognised; what is None or empty is not looked at."""

    tokenizer: str | None
    pre: tuple[str, ...]
    size: tuple[int, int] | None  # fewest and most tokens
    tokens: Mapping[int, str]  # the spelling of some ids


@dataclass(frozen=True, slots=True)
class Family:
    """Models of one vocabulary and one training, and the small ones among them."""

    name: str
    description: str
    path: Path
    signs: Signs
    targets: tuple[re.Pattern[str], ...]  # what their names look like
    drafts: tuple[KnownDraft, ...]


def files(folders: Sequence[Path]) -> dict[str, Path]:
    """Every file of pairs by its name. folders: those of profiles; a file in an earlier one hides a later one's."""
    found: dict[str, Path] = {}
    for folder in folders:
        for path in sorted((folder / FOLDER).glob("*.yaml")):
            found.setdefault(path.stem, path)
    return found


def load(folders: Sequence[Path]) -> tuple[list[Family], list[UsageError]]:
    """All families that can be read, and what is wrong with the others."""
    families, wrong = [], []
    for path in files(folders).values():
        try:
            families.append(read(path))
        except UsageError as error:
            wrong.append(error)
    return families, wrong


def read(path: Path) -> Family:
    """Read one file. Raises UsageError with the line of what is wrong."""
    file = YamlFile(path, "file of pairs")
    family = _family(file)
    file.raise_first()
    return family


def faults(path: Path) -> list[UsageError]:
    """Everything that is wrong with a file. Raises UsageError where it cannot be read."""
    file = YamlFile(path, "file of pairs")
    _family(file)
    return file.faults


def is_pairs(path: Path) -> bool:
    """Whether a file is one of pairs rather than of settings. Raises UsageError where it cannot be read."""
    file = YamlFile(path, "file")
    keys = {key.value for key, _ in file.pairs(file.root())}
    own = set(_KEYS) - {"description"}
    return bool(keys & own) or (path.parent.name == FOLDER and "settings" not in keys)


def speaks(family: Family, vocabulary: Vocabulary) -> bool:
    """Whether a vocabulary is that of the family."""
    signs, n = family.signs, vocabulary.n_vocab
    if signs.tokenizer is not None and vocabulary.model != signs.tokenizer:
        return False
    if signs.pre and (vocabulary.pre or "default") not in signs.pre:
        return False
    if signs.size is not None and not signs.size[0] <= n <= signs.size[1]:
        return False
    return all(token < n and vocabulary.tokens[token] == text.encode() for token, text in signs.tokens.items())


def family_of(header: Header, vocabulary: Vocabulary, families: Sequence[Family]) -> Family | None:
    """The family that a model's name puts it in, among those whose vocabulary it has.

    The first of its names that says anything decides; where several families fit that name, the longest match.
    """
    speaking = [family for family in families if speaks(family, vocabulary)]
    for name in _names(header):
        matches = [
            (len(match[0]), family) for family in speaking for pattern in family.targets if (match := pattern.search(name))
        ]
        if matches:
            return max(matches, key=lambda found: found[0])[1]
    return None


def _names(header: Header) -> Iterator[str]:
    """What a model is called, in small letters with hyphens for blanks: its own names first, then that of its origin."""
    names = [header.text("general.name"), header.text("general.basename"), header.path.stem]
    names += [header.text("general.base_model.0.name")]
    return (re.sub(r"[\s_]+", "-", name.lower()) for name in names if name)


def _family(file: YamlFile) -> Family:
    found = file.known_pairs(file.root(), _KEYS, ("family", "vocabulary", "targets", "drafts"))
    name = _text(file, found, "family")
    signs = _signs(file, found.get("vocabulary"))
    targets = [_pattern(file, item) for item in file.items("targets", found["targets"])] if "targets" in found else []
    drafts = [_draft(file, item) for item in file.items("drafts", found["drafts"])] if "drafts" in found else []
    return Family(
        name=name,
        description=_text(file, found, "description"),
        path=file.path,
        signs=signs,
        targets=tuple(pattern for pattern in targets if pattern is not None),
        drafts=tuple(draft for draft in drafts if draft is not None),
    )


def _signs(file: YamlFile, node: Node | None) -> Signs:
    found = file.known_pairs(node, _SIGNS)
    if node is not None and not found:
        file.fault(node, "vocabulary names nothing to recognise it by.", f"It takes {', '.join(_SIGNS)}.")
    pre = [file.scalar("pre", item) for item in file.items("pre", found["pre"])] if "pre" in found else []
    return Signs(
        tokenizer=_text(file, found, "tokenizer") or None,
        pre=tuple(text for text in pre if text is not None),
        size=_size(file, found["size"]) if "size" in found else None,
        tokens=dict(_tokens(file, found["tokens"])) if "tokens" in found else {},
    )


def _tokens(file: YamlFile, node: Node) -> Iterator[tuple[int, str]]:
    for key, value in file.pairs(node):
        text = file.scalar(key.value, value)
        if not _ID.match(key.value):
            file.fault(key, f"{shown(key.value)} is no token id.", "tokens takes ID: TEXT, the text as the file spells it.")
        elif text is not None:
            yield int(key.value), text


def _size(file: YamlFile, node: Node) -> tuple[int, int] | None:
    text = file.scalar("size", node)
    if text is None:
        return None
    match = _SIZE.match(text)
    low, high = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
    if low > high:
        file.fault(
            node, f"size: {shown(text)} is neither a number of tokens nor a range.", "It is written 151936, or 151643-152064."
        )
        return None
    return low, high


def _pattern(file: YamlFile, node: Node) -> re.Pattern[str] | None:
    text = file.scalar("targets", node)
    if text is None:
        return None
    try:
        if not text or len(text) > _LONGEST_PATTERN:
            raise re.error("it is empty, or very long")
        return re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        file.fault(node, f"targets: {shown(text)} is no regular expression.", f"{error}.")
        return None


def _draft(file: YamlFile, node: Node) -> KnownDraft | None:
    n_faults = len(file.faults)
    found = file.known_pairs(node, _DRAFT_KEYS, _REQUIRED)
    texts = {key: _text(file, found, key) for key in _DRAFT_KEYS}
    if texts["reference"] and not _REFERENCE.fullmatch(texts["reference"]):
        file.fault(
            found["reference"],
            f"reference: {shown(texts['reference'])} is no reference to the hub.",
            "It is written owner/repo, owner/repo:QUANT or hf:owner/repo/file.gguf.",
        )
    if texts["source"] and not texts["source"].startswith(("https://", "http://")):
        file.fault(found["source"], f"source: {shown(texts['source'])} is no address of a page.", "It begins with https://.")
    n_parameters = _count(file, found, texts, "parameters")
    n_bytes = _count(file, found, texts, "bytes")
    if len(file.faults) > n_faults or n_parameters is None:
        return None
    return KnownDraft(
        reference=texts["reference"],
        name=texts["name"],
        n_parameters=n_parameters,
        n_bytes=n_bytes,
        licence=texts["licence"],
        source=texts["source"],
        note=texts["note"],
    )


def _count(file: YamlFile, found: Mapping[str, Node], texts: Mapping[str, str], key: str) -> int | None:
    """A number such as 494M or 1.5B."""
    if not texts[key]:
        return None
    match = _COUNT.match(texts[key])
    count = round(float(match[1]) * _UNITS[match[2].upper()]) if match and len(texts[key]) < 20 else 0
    if not count:
        file.fault(found[key], f"{key}: {shown(texts[key])} is no number above 0.", "It is written 494M, 1.5B or 494000000.")
        return None
    return count


def _text(file: YamlFile, found: Mapping[str, Node], key: str) -> str:
    """The text of a key; empty where it is not there. Of those that must be there, an empty one is a fault."""
    if key not in found:
        return ""
    text = file.scalar(key, found[key])
    if text is not None and not text.strip() and key in (*_REQUIRED, "family"):
        file.fault(found[key], f"{key} is empty.")
    return (text or "").strip()
