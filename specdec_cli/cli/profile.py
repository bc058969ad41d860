"""The command profile: which profiles there are, what is in one, and what is wrong with one."""  # noqa: A005 (the command's name)

from __future__ import annotations

import difflib
import os
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from specdec_cli.cli.options import Given, SettingsCommand, settings_command
from specdec_cli.errors import UsageError
from specdec_cli.settings.flags import HELP
from specdec_cli.settings.kinds import quoted
from specdec_cli.settings.resolve import Settings, resolve
from specdec_cli.settings.table import SETTINGS

_TAKES = ("json", "verbose")
_CONTEXT = {"help_option_names": ["-h", "--help"]}


@settings_command("profile list", _TAKES)
def _list(given: Given) -> int:
    """Every profile. Those of settings go with --profile, those of pairs are what suggest knows."""
    settings = _settings(given)
    from specdec_cli.cli import profiling  # YAML and rich are loaded only for what can be shown

    return profiling.show_all(settings)


@settings_command("profile show", _TAKES, words=("profile",))
def _show(given: Given) -> int:
    """What is in one profile, and where it lies. PROFILE is a name from the list; pairs/NAME is one of pairs."""
    given = dict(given)
    name = given.pop("profile", None)
    settings = _settings(given)
    if not name:
        raise UsageError("There is no profile to show.", "None was named.", "specdec profile list")
    from specdec_cli.cli import profiling

    return profiling.show_one(settings, str(name))


_check = typer.Typer(add_completion=False, rich_markup_mode=None)


@_check.command("profile check", cls=SettingsCommand, context_settings=_CONTEXT)
def _check_files(files: Annotated[list[str] | None, typer.Argument(metavar="FILE...")] = None) -> int:
    """What is wrong with profiles that you wrote, line by line. FILE is a YAML file, or the name of a profile."""
    if not files:
        raise UsageError("There is no profile to check.", "No file was named.", "specdec profile check FILE.yaml")
    from specdec_cli.cli import profiling

    return profiling.check(files)


_COMMANDS = {"list": _list, "show": _show, "check": _check}


class _Group(TyperGroup):
    """typer's group, with the errors of the other commands."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args or (args[0] not in _COMMANDS and args[0] not in HELP):
            raise _unknown(args[0] if args else None)
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        return list(_COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        return typer.main.get_command(_COMMANDS[cmd_name])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        return args[0], self.get_command(ctx, args[0]), args[1:]


app = typer.Typer(name="profile", add_completion=False, rich_markup_mode=None, cls=_Group, context_settings=_CONTEXT)


@app.callback()
def _profile() -> None:
    """Profiles of settings, and pairs that are known to work. Yours lie beside the shipped ones."""


def _settings(given: Given) -> Settings:
    """The settings of a command about profiles, which must not need one: the one in the environment may be broken."""
    variable = SETTINGS["profile"].variable
    return resolve(given, {name: value for name, value in os.environ.items() if name != variable})


def _unknown(word: str | None) -> UsageError:
    near = difflib.get_close_matches(word or "", _COMMANDS, 1)
    return UsageError(
        "specdec profile needs one of its commands." if word is None else f"specdec profile has no command {quoted(word)}.",
        f"They are {', '.join(_COMMANDS)}.",
        f"specdec profile {near[0] if near else 'list'}",
    )
