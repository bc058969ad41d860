"""Reads YAML that a person wrote, and tells the line of each thing that is wrong with it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from pathlib import Path

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from specdec_cli.errors import UsageError

_NULL = "tag:yaml.org,2002:null"
_FEW = 10  # so many known keys are named in a message
_LONGEST_SHOWN = 60


class YamlFile:
    """A file under way. Faults are collected, so that all of them can be told at once."""

    def __init__(self, path: Path, what: str) -> None:
        """what: the kind of file, for messages."""
        self.path = path
        self.what = what
        self.faults: list[UsageError] = []

    def root(self) -> Node | None:
        """The whole document; None where it is empty or no YAML. Raises UsageError for a file that cannot be read."""
        try:
            text = self.path.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"The {self.what} {self.path} cannot be read.", str(error)) from None
        try:
            return yaml.compose(text, Loader=yaml.SafeLoader)
        except RecursionError:
            self.faults.append(UsageError(f"{self.path}: this is not YAML that can be read.", "It is nested too deeply."))
            return None
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            at = f", line {mark.line + 1}" if mark is not None else ""
            reason = getattr(error, "problem", None) or error
            self.faults.append(UsageError(f"{self.path}{at}: this is not YAML.", " ".join(str(reason).split())))
            return None

    def raise_first(self) -> None:
        """Raise the first fault, if there is one."""
        if self.faults:
            raise self.faults[0]

    def fault(self, node: Node, sentence: str, why: str = "", fix: str = "") -> None:
        """Note what is wrong where the node stands."""
        self.faults.append(UsageError(f"{self.path}, line {line(node)}: {sentence}", why, fix))

    def pairs(self, node: Node | None) -> Iterator[tuple[ScalarNode, Node]]:
        """The keys and values of a mapping, each key once."""
        if node is None or is_null(node):  # an empty file, or nothing behind the key
            return
        if not isinstance(node, MappingNode):
            self.fault(node, "this is not KEY: VALUE.")
            return
        seen: dict[str, int] = {}
        for key, value in node.value:
            if not isinstance(key, ScalarNode):
                self.fault(key, "a key is one word.")
            elif key.value in seen:
                self.fault(key, f"{shown(key.value)} stands there twice.", f"It came first in line {seen[key.value]}.")
            else:
                seen[key.value] = line(key)
                yield key, value

    def known_pairs(self, node: Node | None, known: Iterable[str], required: Iterable[str] = ()) -> dict[str, Node]:
        """The values of a mapping that may have only these keys, and must have the required ones."""
        names, found = list(known), {}
        for key, value in self.pairs(node):
            if key.value in names:
                found[key.value] = value
            else:
                self.unknown(key, names)
        missing = [name for name in required if name not in found]
        if missing and isinstance(node, MappingNode):
            self.fault(node, f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing.")
        return found

    def unknown(self, key: ScalarNode, known: Iterable[str], otherwise: str = "") -> None:
        """Note a key that means nothing here. otherwise: what to say where the known ones are too many to name."""
        names = list(known)
        near = difflib.get_close_matches(key.value.replace("_", "-"), names, 1)
        self.fault(
            key,
            f"there is no {shown(key.value)}.",
            f"Known here: {', '.join(names)}." if len(names) < _FEW else otherwise,
            f"Use {near[0]}." if near else "",
        )

    def scalar(self, key: str, node: Node) -> str | None:
        """The text of one value; None, and a fault, where something else stands."""
        if not isinstance(node, ScalarNode):
            self.fault(node, f"{shown(key)} takes one value.", "Here stands a list or a mapping.")
        elif is_null(node):
            self.fault(node, f"{shown(key)} has no value.", "An empty text is written ''.")
        else:
            return str(node.value)
        return None

    def items(self, key: str, node: Node) -> list[Node]:
        """The items of a list; a single value counts as a list of one."""
        if isinstance(node, SequenceNode):
            return list(node.value)
        if isinstance(node, ScalarNode) and not is_null(node):
            return [node]
        self.fault(node, f"{shown(key)} takes a list.")
        return []


def line(node: Node) -> int:
    """Where a node starts, from 1."""
    return int(node.start_mark.line) + 1


def is_null(node: Node) -> bool:
    return bool(node.tag == _NULL)


def shown(text: str) -> str:
    """A text for a message: on one line, not too long, and quoted where it would not read as one word."""
    cut = text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "..."
    return cut if cut and cut.isprintable() and " " not in cut else repr(cut)
