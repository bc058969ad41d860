"""From keyword arguments to settings: by the same table as the command line, with the same ranges and words."""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypedDict

from specdec_cli import drafters
from specdec_cli.errors import UsageError
from specdec_cli.settings.kinds import Switch, biased
from specdec_cli.settings.resolve import Decided, Raw, Settings, Source, changed, resolve
from specdec_cli.settings.table import EXCLUSIVE, PANELS, RUN, SETTINGS

Value = str | int | float | bool | Path | Sequence[str | int | float | Path]

_GRAMMARS = next(group for group in EXCLUSIVE if "grammar" in group)
_NAMES = {  # arguments that the table calls otherwise
    "n_ctx": "ctx_size",
    "n_threads": "threads",
    "n_gpu_layers": "gpu_layers",
    "n_predict": "predict",
    "temperature": "temp",
}
_OTHERS_WORDS = {"temp": "temperature", "predict": "n_predict", "max_tokens": "n_predict", "max_new_tokens": "n_predict"}
_ARGUMENTS = {"model", "draft", "hf_repo", "hf_repo_draft", "prompt", "file"}  # of load() and generate() themselves
SETTABLE = tuple(name for name in RUN if name not in _ARGUMENTS | {setting.name for setting in PANELS["Display"]})


class GenerationOptions(TypedDict, total=False):
    """How a text is generated. What is left out, or None, is as the session was loaded."""

    n_predict: int | None  # tokens at most; -1: until the end
    temperature: float | None  # 0: greedy
    top_k: int | None
    top_p: float | None
    min_p: float | None
    repeat_penalty: float | None
    repeat_last_n: int | None
    presence_penalty: float | None
    frequency_penalty: float | None
    logit_bias: Mapping[int, float] | None  # token id -> added to its logit; -inf forbids it
    seed: int | None  # left out or -1: a new one each time
    stop: str | Sequence[str] | None  # end before any of these texts
    ignore_eos: bool | None
    grammar: str | None  # GBNF
    json_schema: str | Mapping[str, object] | None


def load_settings(
    model: str | Path, draft: str | Path | Sequence[str | Path], named: Mapping[str, Value | None], more: Mapping[str, Value]
) -> Settings:
    """The settings of a session. named: arguments that have a setting of their own; None where they were not given.

    The environment sets nothing: a program says itself what it wants. Raises UsageError.
    """
    if not isinstance(more, Mapping):
        raise UsageError(f"settings cannot be {more!r}.", "It takes Mapping[str, Value].")
    given: dict[str, Raw] = {"model": _checked("model", _reference(model), "model")}
    if draft != drafters.AUTO:  # the default, which a profile may replace
        given["draft"] = _checked("draft", _reference(draft), "draft")
    for label, argument in named.items():
        if argument is not None:
            name = _NAMES.get(label, label)
            given[name] = _checked(name, argument, label)
    for name, value in more.items():
        if name not in SETTABLE:
            raise _unknown(name)
        if name in given:
            raise UsageError(f'settings["{name}"] was given, and so was the argument for it.', "", "Leave one of them out.")
        given[name] = _checked(name, value, f'settings["{name}"]')
    return resolve(given, {})


def with_options(settings: Settings, options: GenerationOptions, function: str) -> Settings:
    """The settings with those of one generation. Raises UsageError; TypeError for an argument that there is none of."""
    for label in options:
        if label not in GenerationOptions.__annotations__:
            near = [_OTHERS_WORDS.get(label, ""), *difflib.get_close_matches(label, GenerationOptions.__annotations__, 1)]
            better = next((f". Did you mean '{name}'?" for name in near if name), "")
            raise TypeError(f"{function}() got an unexpected keyword argument '{label}'{better}")
    given = {label: value for label, value in options.items() if value is not None}
    if "grammar" in given and "json_schema" in given:
        raise UsageError("grammar and json_schema cannot be used together.", "", "Leave one of them out.")
    if "grammar" in given or "json_schema" in given:
        settings = _with(settings, dict.fromkeys(_GRAMMARS, None), function)
    if "seed" not in given and settings.decided["seed"].source is Source.RANDOM:
        settings = changed(settings, "seed", "-1", "seed")
    for label, value in given.items():
        name = _NAMES.get(label, label)
        match label, value:
            case "stop", str() | Sequence():
                settings = _several(settings, name, [value] if isinstance(value, str) else value)
            case "logit_bias", Mapping():
                settings = _several(settings, name, [biased(pair) for pair in value.items()])
            case "json_schema", Mapping():
                settings = changed(settings, name, json.dumps(value), label)
            case (("stop" | "grammar" | "json_schema" | "logit_bias"), _) if not isinstance(value, str):
                raise _of_another_type(label, value)
            case _:
                settings = changed(settings, name, _word(value), label)
    return settings


def check_text(label: str, value: object) -> None:
    """Refuse what is no text. Raises UsageError."""
    if not isinstance(value, str):
        raise UsageError(f"{label} cannot be {value!r}.", "It takes str.")


def check_messages(prompt: object) -> None:
    """Refuse what is no list of messages. Raises UsageError."""
    if not isinstance(prompt, Sequence):
        raise UsageError(f"prompt cannot be {prompt!r}.", "It takes str | Sequence[Mapping[str, str]].")
    for message in prompt:
        parts = (message.get("role"), message.get("content")) if isinstance(message, Mapping) else (None,)
        if not all(isinstance(part, str) for part in parts):
            raise UsageError(
                f"prompt cannot hold the message {message!r}.",
                "A message has a role and a content, and both are texts.",
                'Write it as {"role": "user", "content": "..."}.',
            )


def _several(settings: Settings, name: str, texts: Iterable[object]) -> Settings:
    """The settings with all of these values for one that takes several."""
    values = []
    for text in texts:
        if not isinstance(text, str):
            raise _of_another_type(name, text)
        values.append(changed(settings, name, text, name).value(name, tuple))
    return _with(settings, {name: tuple(each for value in values for each in value)}, name)


def _with(settings: Settings, values: Mapping[str, object], origin: str) -> Settings:
    decided = {name: Decided(value, Source.FLAG, origin) for name, value in values.items()}
    return replace(settings, decided={**settings.decided, **decided})


def _checked(name: str, value: object, label: str) -> Raw:
    """A value as the command line would have been given it; refused under the name that the program gave it."""
    setting = SETTINGS[name]
    if isinstance(value, bool) and isinstance(setting.kind, Switch):
        return value
    many = isinstance(value, Sequence) and not isinstance(value, str)
    texts = [_word(each) for each in value] if many else [_word(value)]  # type: ignore[attr-defined]
    if not setting.repeats:
        texts = [",".join(texts)]
    for text in texts:
        changed(_PLAIN, name, text, label)
    return texts if setting.repeats else texts[0]


def _reference(value: object) -> object:
    """A path that cannot be taken for a name or for a repository; a text as it is."""
    if isinstance(value, Path):
        text = str(value)
        return text if value.suffix == ".gguf" or value.is_absolute() else f".{os.sep}{text}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_reference(each) for each in value]
    return value


def _word(value: object) -> str:
    """A value as a person would type it."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)


def _of_another_type(label: str, value: object) -> UsageError:
    expected = GenerationOptions.__annotations__[label].__forward_arg__.removesuffix(" | None")
    return UsageError(f"{label} cannot be {value!r}.", f"It takes {expected}.")


def _unknown(name: str) -> UsageError:
    near = difflib.get_close_matches(str(name), SETTABLE, 1)
    return UsageError(
        f'There is no setting "{name}".' if name not in SETTINGS else f'settings cannot hold "{name}".',
        "Settings are named like the long flags of: specdec run --help",
        f'Did you mean "{near[0]}"?' if near else "",
    )


_PLAIN = resolve({}, {})
