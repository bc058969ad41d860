"""Commands whose options come from the table of settings, and whose bodies get one mapping of the flags that were given."""

from __future__ import annotations

import inspect
import shlex
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from specdec_cli.errors import UsageError
from specdec_cli.settings.flags import tidy
from specdec_cli.settings.kinds import BadValue, quoted
from specdec_cli.settings.resolve import Raw, Settings, Source
from specdec_cli.settings.table import PANELS, RUN, SETTINGS, Setting

Given = Mapping[str, Raw]  # by the name of the setting: what stood on the command line, unread
Body = Callable[[Given], int]

_EPILOG = "Each option has a name in the environment, such as SPECDEC_CTX_SIZE for --ctx-size; flags win."
_SHOWING = frozenset(setting.name for setting in PANELS["Display"])
_FLAGS_WIDTH = 36  # longest first column of --help


class SettingsCommand(TyperCommand):
    """A command over the table of settings.

    typer would build a validator for each of the hundred options; the table reads them in its own words, which are the
    same for flags, the environment and profiles. So values pass through unread.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not ctx.resilient_parsing:
            args = tidy(args, {name: SETTINGS[name] for name in self._names()}, str(self.name))
        values, rest, _ = self.make_parser(ctx).parse_args(args=list(args))
        for param in self.get_params(ctx):
            if param.name in values and param.is_eager:  # --help
                param.handle_parse_result(ctx, values, rest)
            elif param.name in values:
                ctx.params[param.name] = values[param.name]
        return []

    def collect_usage_pieces(self, ctx: Any) -> list[str]:  # noqa: ARG002
        return [param.metavar for param in self.params if param.param_type_name == "argument" and param.metavar] + ["[OPTIONS]"]

    def format_options(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        names = set(self._names())
        for panel, settings in PANELS.items():
            rows = [(_spelled(setting), _explained(setting, str(self.name))) for setting in settings if setting.name in names]
            if rows:
                with formatter.section(panel):
                    formatter.write_dl(rows, col_max=_FLAGS_WIDTH)

    def _names(self) -> list[str]:
        return [param.name for param in self.params if param.name in SETTINGS]


def settings_command(
    name: str, takes: Iterable[str], words: tuple[str, ...] = (), rest: str = ""
) -> Callable[[Body], typer.Typer]:
    """Make a command of a body: takes are the settings it has flags for, words those that may stand without a flag.

    A setting given by its flag is no longer looked for among the words. rest: in place of words, the name under which the
    body is given all of them.
    """

    def decorate(body: Body) -> typer.Typer:
        def call(**values: Any) -> int:
            loose = list(values.pop("words", None) or [])
            given = {key: value for key, value in values.items() if value is not None}
            return body({**given, **({rest: loose} if rest else _placed(name, loose, words, given))})

        call.__doc__ = body.__doc__
        call.__signature__ = inspect.Signature(_parameters(takes, words, rest))  # type: ignore[attr-defined]
        app = typer.Typer(add_completion=False, rich_markup_mode=None)
        app.command(name, cls=SettingsCommand, epilog=_EPILOG, context_settings={"help_option_names": ["-h", "--help"]})(call)
        return app

    return decorate


def model_reference(settings: Settings, example: str = 'specdec run MODEL.gguf "PROMPT"') -> str:
    """The target that the settings name. Raises UsageError where they name none, with an example."""
    reference = settings.maybe("model", str)
    if reference is None:
        raise UsageError(
            "There is no model.", "None was given: as the first word, with -m, in SPECDEC_MODEL or a profile.", example
        )
    return reference


def given_flags(settings: Settings, but: Iterable[str] = ()) -> list[str]:
    """The flags that were given and belong to a run, quoted for a shell; without those that show rather than decide."""
    left_out = {*but, *_SHOWING}
    words = []
    for name in RUN:
        decided, setting = settings.decided[name], SETTINGS[name]
        if decided.source is not Source.FLAG or name in left_out or decided.origin not in setting.positive + setting.negative:
            continue
        words.append(decided.origin)
        if setting.takes_value:
            words.append(shlex.quote(setting.shown(decided.value)))
    return words


def _placed(command: str, loose: list[str], words: tuple[str, ...], given: Given) -> dict[str, str]:
    """The settings that loose words stand for, in the order of words."""
    places = [word for word in words if word not in given]
    if len(loose) > len(places):
        extra = loose[len(places)]
        twice = [word for word in words if word in given]
        if twice:
            raise UsageError(
                f"{SETTINGS[twice[-1]].flag} and the word {quoted(extra)} cannot be used together.",
                f"Each of them is the {twice[-1]}.",
                "Leave one of them out.",
            )
        raise UsageError(
            f"specdec {command} has no use for the word {quoted(extra)}.",
            "A prompt of several words needs quotes." if "prompt" in words else "",
            f"specdec {command} --help",
        )
    if len(loose) == 1 and places[:2] == ["model", "prompt"] and not given.get("file") and _is_prompt(loose[0], given):
        places = ["prompt"]
    placed = dict(zip(places, loose, strict=False))
    if placed.get("prompt") == "-":
        placed["file"] = placed.pop("prompt")
    return placed


def _is_prompt(word: str, given: Given) -> bool:
    """Whether the only word is the prompt: --profile names a model, and the word none."""
    name = given.get("profile")
    if not name:
        return False
    from specdec_cli.settings import profiles  # YAML is read only where a profile is asked for

    if "model" not in profiles.load(str(name)).entries:
        return False
    try:
        SETTINGS["model"].kind.parse(word)
    except BadValue:
        return True
    return any(char.isspace() for char in word) and not Path(word).is_file()


def _parameters(takes: Iterable[str], words: tuple[str, ...], rest: str) -> list[inspect.Parameter]:
    metavar = f"{rest.upper()}..." if rest else " ".join(f"[{word.upper()}]" for word in words)
    argument = typer.Argument(metavar=metavar)
    parameters = [_parameter("words", list[str] | None, argument)]
    for name in takes:
        setting = SETTINGS[name]
        option = typer.Option(*_declared(setting), metavar=setting.kind.metavar or None, help=setting.help)
        kind: Any = str
        if not setting.takes_value:
            kind = bool
        elif setting.repeats:
            kind = list[str]
        parameters.append(_parameter(name, kind | None, option))
    return parameters


def _parameter(name: str, kind: Any, info: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind, info])


def _declared(setting: Setting) -> list[str]:
    """The spellings of a flag as click wants them: --x/--no-x for a switch."""
    if setting.takes_value:
        return list(setting.positive)
    return [f"{flag}/--no-{flag[2:]}" if flag.startswith("--") else flag for flag in setting.positive]


def _spelled(setting: Setting) -> str:
    """The flags of a setting as --help shows them."""
    flags = setting.shown_flags
    if not setting.takes_value:
        flags = tuple(f"--[no-]{flag[2:]}" if flag.startswith("--") else flag for flag in flags)
    return f"{', '.join(flags)} {setting.kind.metavar}".rstrip()


def _explained(setting: Setting, command: str) -> str:
    default = setting.unset or setting.shown(setting.default_of(command))
    return f"{setting.help}  [{default}]" if default else setting.help
