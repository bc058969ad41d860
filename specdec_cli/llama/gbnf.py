"""Refuses a GBNF grammar that llama.cpp would answer with an abort, a hang or a stack overflow.

llama.cpp prints a parse error, with the whole grammar, to the process's stderr, recurses once for each parenthesis, and
does not see every left recursion. So the text is read here first, into the same rules that llama.cpp makes of it, and
everything it would refuse is refused with a line and a column.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from specdec_cli.errors import GrammarError
from specdec_cli.llama.gbnf_rules import TERMINAL, Alternative, check_rules, refusal

MAX_BYTES = 1_000_000
MAX_ELEMENTS = 100_000  # characters, ranges and references after repetitions are written out; a copy looks at each
MAX_REPEAT = 2_000  # llama.cpp's own limit; above it {0,n} silently becomes {0,}
MAX_DEPTH = 250  # nested parentheses: llama.cpp recurses

_ESCAPE = r'\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[trn\\"\[\]-])'
_CHAR = re.compile(rf"{_ESCAPE}|[^\\]")
_LITERAL = re.compile(rf'"((?:{_ESCAPE}|[^\\"])*+)"')
_CLASS = re.compile(rf"\[\^?((?:{_ESCAPE}|[^\\\]])*+)\]")
_NAME = re.compile(r"[A-Za-z0-9-]+")
_INLINE = r"(?:[ \t]|#[^\r\n]*+)*+"
_ANYWHERE = r"(?:[ \t\r\n]|#[^\r\n]*+)*+"
_SPACE = {False: re.compile(_INLINE), True: re.compile(_ANYWHERE)}
_BRACES = {
    nested: re.compile(rf"\{{{space}([0-9]+){space}(?:(,){space}([0-9]*){space})?\}}")
    for nested, space in ((False, _INLINE), (True, _ANYWHERE))
}
_BAD_ESCAPE = re.compile(rf"\\(?!{_ESCAPE[2:]})")


@dataclass(slots=True)
class _Group:
    """A rule, or a parenthesis, that is being read."""

    rule: int
    n_symbols: int  # before it was opened
    alternatives: list[Alternative] = field(default_factory=lambda: [[]])
    item: int = 0  # where the last item of the last alternative begins
    n_repeated: int = 1  # rules the last item stands for


def check_grammar(text: str, root: str = "root") -> None:
    """Raise GrammarError unless llama.cpp can take the grammar safely."""
    try:
        n_bytes = len(text.encode("utf-8"))
    except UnicodeEncodeError as error:
        raise refusal("It is not valid Unicode text.", "Save the grammar as UTF-8.") from error
    if n_bytes > MAX_BYTES:
        raise refusal(f"It has {n_bytes} bytes; the limit is {MAX_BYTES}.", "Use a smaller grammar.")
    if "\0" in text:
        raise refusal("It holds a NUL character.", "Leave it out.")
    reader = _Reader(text)
    reader.read()
    if not reader.defined:
        raise refusal("It is empty.", 'Write at least one rule, for example: root ::= "yes" | "no"')
    if root not in reader.ids:
        raise refusal(f"It has no rule named {root!r}.", f"Name the rule that generation starts with {root!r}.")
    for name, rule in reader.ids.items():
        if rule not in reader.defined:
            raise refusal(f"Rule {name!r} is used and not defined.", f"Add a line: {name} ::= ...")
    check_rules([reader.rules[rule] for rule in range(reader.n_symbols)], reader.owners)


class _Reader:
    """Reads the text into rules, numbered and written out as llama.cpp does."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.ids: dict[str, int] = {}  # names in the text
        self.owners: list[str] = []  # for each rule id the name in the text that it belongs to
        self.rules: dict[int, list[Alternative]] = {}
        self.defined: set[int] = set()
        self.n_elements = 0

    @property
    def n_symbols(self) -> int:
        return len(self.owners)

    def read(self) -> None:
        self._skip(newlines=True)
        while self.at < len(self.text):
            self._read_rule()
            self._skip(newlines=True)

    def _fail(self, problem: str, fix: str, at: int | None = None) -> GrammarError:
        before = self.text[: self.at if at is None else at]
        line = before.count("\n") + 1
        column = len(before) - (before.rfind("\n") + 1) + 1
        return refusal(f"Line {line}, column {column}: {problem}", fix)

    def _skip(self, newlines: bool) -> None:
        match = _SPACE[newlines].match(self.text, self.at)
        assert match is not None
        self.at = match.end()

    def _peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def _symbol(self, owner: str) -> int:
        self.owners.append(owner)
        return len(self.owners) - 1

    def _name(self, name: str) -> int:
        if name not in self.ids:
            self.ids[name] = self._symbol(name)
        return self.ids[name]

    def _count(self, n: int) -> None:
        self.n_elements += n
        if self.n_elements > MAX_ELEMENTS:
            raise self._fail(
                f"written out, the grammar has more than {MAX_ELEMENTS} elements.",
                "Lower the repetition counts, or split long texts into fewer alternatives.",
            )

    def _read_rule(self) -> None:
        match = _NAME.match(self.text, self.at)
        if match is None:
            if self._peek() == "|":
                raise self._fail(
                    "a line cannot begin with '|'.",
                    "Put the '|' at the end of the line above, or the alternatives in parentheses.",
                )
            raise self._fail(f"a rule's name is expected, not {self._peek()!r}.", "Write: name ::= ...")
        name, begin = match.group(), self.at
        self.at = match.end()
        self._skip(newlines=False)
        if not self.text.startswith("::=", self.at):
            if self._peek() == "_":
                raise self._fail("a rule's name cannot hold '_'.", "Names hold letters, digits and '-'.")
            raise self._fail(f"'::=' is expected after {name!r}.", "Write: name ::= ...")
        rule = self._name(name)
        if rule in self.defined:
            raise self._fail(f"rule {name!r} is defined a second time.", "Join them with '|'.", begin)
        self.defined.add(rule)
        self.at += 3
        self._skip(newlines=True)
        self._read_body(name, rule)

    def _read_body(self, owner: str, rule: int) -> None:
        """Read alternatives up to the end of the line; parentheses are kept on a stack, not by recursion."""
        stack = [_Group(rule, self.n_symbols)]
        while True:
            group, sign = stack[-1], self._peek()
            nested = len(stack) > 1
            if sign == "(":
                if len(stack) > MAX_DEPTH:
                    raise self._fail(f"more than {MAX_DEPTH} nested parentheses.", "Give inner parts rules of their own.")
                self.at += 1
                self._skip(newlines=True)
                stack.append(_Group(self._symbol(owner), self.n_symbols - 1))
            elif sign == ")" and nested:
                self.rules[group.rule] = group.alternatives
                stack.pop()
                self.at += 1
                self._skip(newlines=len(stack) > 1)
                self._add(stack[-1], group.rule, 1, max(1, self.n_symbols - group.n_symbols))
            elif sign == "|":
                self.at += 1
                self._skip(newlines=True)
                self._count(1)
                group.alternatives.append([])
                group.item, group.n_repeated = 0, 1
            elif sign and sign in "*+?{":
                low, high = self._read_repetition(nested)
                self._repeat(group, owner, low, high)
            elif not self._read_item(group, nested):
                break
        if len(stack) > 1:
            raise self._fail(f"')' is expected, not {self._peek() or 'the end'!r}.", "Close the parenthesis.")
        if self._peek() not in ("", "\n", "\r"):
            raise self._fail(f"{self._peek()!r} is not expected here.", _hint(self._peek()))
        self.rules[rule] = stack[0].alternatives

    def _read_item(self, group: _Group, nested: bool) -> bool:
        """Read a text, a set of characters, '.', or a rule's name; False when none is here."""
        sign = self._peek()
        if sign == '"' or sign == "[":
            match = (_LITERAL if sign == '"' else _CLASS).match(self.text, self.at)
            if match is None:
                raise self._unfinished(sign)
            n_chars = sum(1 for _ in _CHAR.finditer(match.group(1)))
            self.at = match.end()
            self._add(group, TERMINAL, n_chars, 1)
        elif sign == ".":
            self.at += 1
            self._add(group, TERMINAL, 1, 1)
        elif sign and sign in "<!":
            raise self._fail(
                "references to tokens (<...>) are not supported.", "Write the token's text in quotes."
            )  # llama.cpp finds tokens legal beside them which it then refuses to take: the process ends
        elif (match := _NAME.match(self.text, self.at)) is not None:
            self.at = match.end()
            self._add(group, self._name(match.group()), 1, 1)
        else:
            return False
        self._skip(nested)
        return True

    def _unfinished(self, sign: str) -> GrammarError:
        closing = sign if sign == '"' else "]"
        end = self.at + 1
        while end < len(self.text) and self.text[end] != closing:
            if _BAD_ESCAPE.match(self.text, end):
                return self._fail(
                    f"{self.text[end : end + 2]!r} is not an escape.",
                    r"Escapes are \n \r \t \\ \" \[ \] \- \xHH \uHHHH \UHHHHHHHH.",
                    end,
                )
            end += 2 if self.text[end] == "\\" else 1
        return self._fail(f"the {sign} that begins here has no end.", f"Close it with {closing}.")

    def _add(self, group: _Group, item: int, n_elements: int, n_rules: int) -> None:
        sequence = group.alternatives[-1]
        group.item, group.n_repeated = len(sequence), n_rules
        if n_elements:  # an empty text or set leaves nothing in llama.cpp's rule
            self._count(n_elements)
            sequence.append((item, n_elements))

    def _read_repetition(self, nested: bool) -> tuple[int, int | None]:
        begin, sign = self.at, self._peek()
        if sign != "{":
            self.at += 1
            self._skip(nested)
            return {"*": (0, None), "+": (1, None), "?": (0, 1)}[sign]
        match = _BRACES[nested].match(self.text, self.at)
        if match is None:
            raise self._fail("this repetition cannot be read.", "Write {n}, {n,} or {n,m}.")
        self.at = match.end()
        self._skip(nested)
        digits = [match.group(1), match.group(3) or "0"]
        if max(len(number.lstrip("0")) for number in digits) > 4 or max(map(int, digits)) > MAX_REPEAT:
            raise self._fail(f"more than {MAX_REPEAT} repetitions.", f"Use {{n,}} or at most {MAX_REPEAT}.", begin)
        low = int(digits[0])
        if match.group(2) is None:
            return low, low
        high = int(digits[1]) if match.group(3) else None
        if high is not None and high < low:
            raise self._fail(f"{{{low},{high}}} ends below its beginning.", f"Write {{{high},{low}}}.", begin)
        return low, high

    def _repeat(self, group: _Group, owner: str, low: int, high: int | None) -> None:
        sequence = group.alternatives[-1]
        unit = sequence[group.item :]
        if not unit:
            raise self._fail("there is nothing to repeat.", "Put the repetition behind a text, a set or a rule.")
        n_rules = high or low or 1
        if group.n_repeated * n_rules > MAX_REPEAT:
            raise self._fail(
                f"repetitions multiply to more than {MAX_REPEAT}.", "Lower the counts, or give the inner part a rule."
            )
        n_optional = 1 if high is None else high - low
        weight = sum(n for _, n in unit)
        self._count(weight * (max(low, 1) - 1) + (weight + 3) * n_optional)
        if low == 0:
            del sequence[group.item :]
        else:
            sequence.extend(unit * (low - 1))
        rule = -1
        for done in range(n_optional):
            previous, rule = rule, self._symbol(owner)
            tail = [(rule if high is None else previous, 1)] if high is None or done else []
            self.rules[rule] = [[*unit, *tail], []]
        if n_optional:
            sequence.append((rule, 1))
        group.n_repeated *= n_rules


def _hint(sign: str) -> str:
    if sign == "_":
        return "Names hold letters, digits and '-'."
    if sign == "'":
        return 'Write texts in double quotes: "text".'
    return "A rule ends with its line; inside parentheses it may go on over several."
