"""The flags of a command line are ours, and have their values: else an error that says what to write instead."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence

from specdec_cli.errors import UsageError
from specdec_cli.settings.kinds import quoted
from specdec_cli.settings.llama_flags import LACKS
from specdec_cli.settings.table import SETTINGS, Setting, spellings

HELP = ("-h", "--help")

_GLUED = re.compile(r"(-[A-Za-z]+)([0-9].*)\Z")


def tidy(arguments: Sequence[str], settings: Mapping[str, Setting], command: str) -> list[str]:
    """The arguments of a command with every flag in a spelling the parser knows, and its value in an argument of its own.

    Asked for help, nothing else remains. Raises UsageError for a flag that is not among the settings or lacks its value.
    """
    known = dict(spellings(settings))
    result: list[str] = []
    rest = list(arguments)
    while rest:
        argument = rest.pop(0)
        if argument == "--":
            return [*result, "--", *rest]
        if argument == "-" or not argument.startswith("-"):
            result.append(argument)
            continue
        flag, equals, value = argument.partition("=")
        if flag.startswith("--"):
            flag = flag.replace("_", "-")
        if flag in HELP:
            return [HELP[-1]]
        setting = known.get(flag)
        if setting is None:
            raise _unknown(flag, known, command)
        result.append(flag)
        if not setting.takes_value:
            if equals:
                raise UsageError(
                    f"{flag} takes no value.",
                    f"It was given {quoted(value)}.",
                    f"Use {setting.flag} or {setting.negative[0]}.",
                )
        elif equals:
            result.append(value)
        elif rest:
            result.append(rest.pop(0))
        else:
            raise UsageError(
                f"{flag} needs a value.", f"It takes {setting.kind.expects}.", f"Use {flag} {setting.kind.metavar}."
            )
    return result


def _unknown(flag: str, known: Mapping[str, Setting], command: str) -> UsageError:
    elsewhere = dict(spellings(SETTINGS)).get(flag)
    if elsewhere is not None:
        where = elsewhere.only[0] if elsewhere.only else "run"
        return UsageError(
            f"specdec {command} does not take {flag}.", f"It is a flag of specdec {where}.", f"specdec {command} --help"
        )
    lack = LACKS.get(flag)
    if lack is not None:
        return UsageError(f"specdec has no {flag} (a llama.cpp flag).", lack.why, lack.fix)
    glued = _GLUED.match(flag)
    if glued and glued[1] in known:
        return UsageError(
            f"specdec {command} has no flag {quoted(flag)}.",
            "A flag and its value are two words.",
            f"Use {glued[1]} {glued[2]}.",
        )
    if re.match(r"-[0-9. ]|-\s", flag):
        return UsageError(
            f"specdec {command} has no flag {quoted(flag)}.",
            "A word that begins with a hyphen is a flag.",
            f"Put -- before a prompt that begins with one: -- {flag!r}",
        )
    bare = {name.lstrip("-"): name for name in known}  # the hyphens would make any two flags look alike
    near = [bare[name] for name in difflib.get_close_matches(flag.lstrip("-"), bare, 3, 0.6)]
    return UsageError(
        f"specdec {command} has no flag {quoted(flag)}.",
        f"The nearest are {', '.join(near)}." if len(near) > 1 else "",
        f"Use {near[0]}." if near else f"specdec {command} --help",
    )
