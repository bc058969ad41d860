"""Which source decides each setting: flag, environment, profile, the GGUF's own metadata, or the default."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TYPE_CHECKING, TypeVar

from specdec_cli.errors import UsageError
from specdec_cli.settings import metadata
from specdec_cli.settings.kinds import BadValue, Integer, Real, Several, Switch, quoted
from specdec_cli.settings.table import EXCLUSIVE, RUN, SETTINGS, Setting, Verify

if TYPE_CHECKING:
    from specdec_cli.settings.profiles import Profile

Raw = bool | str | Sequence[str]  # a flag as it was given: a switch, a text, or the texts of a repeated flag
T = TypeVar("T")

_EXACT_DRAFT_MAX = 8
_OTHER_VARIABLES = {"SPECDEC_CACHE", "SPECDEC_SESSIONS"}  # of ours, but no setting


class Source(IntEnum):
    """Where a value comes from; the larger one wins."""

    DEFAULT = 0
    RANDOM = 1
    METADATA = 2
    PROFILE = 3
    ENVIRONMENT = 4
    FLAG = 5


@dataclass(frozen=True, slots=True)
class Decided:
    """A value, and what decided it."""

    value: object
    source: Source
    origin: str  # the source as a person knows it: --temp, SPECDEC_TEMP, profile greedy (line 4), ...


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings, decided. Notices are what a person should hear about them."""

    decided: Mapping[str, Decided]
    notices: tuple[str, ...] = ()

    def value(self, name: str, kind: type[T]) -> T:
        """The value of a setting that always has one."""
        value = self.decided[name].value
        if not isinstance(value, kind):
            raise TypeError(f"{name} is {value!r}, not {kind.__name__}")
        return value

    def maybe(self, name: str, kind: type[T]) -> T | None:
        """The value of a setting that may be unset."""
        return None if self.decided[name].value is None else self.value(name, kind)

    def rows(self) -> Iterator[tuple[str, str, str]]:
        """Flag, value and origin of every setting of a run, as -v prints them."""
        for name in RUN:
            setting, decided = SETTINGS[name], self.decided[name]
            text = setting.shown(decided.value)
            unset = setting.unset if decided.value == setting.default else ""
            yield setting.flag, unset or (quoted(text) if text else "not set"), decided.origin

    def report(self) -> dict[str, dict[str, str]]:
        """Value and origin of every setting of a run, as --json prints them."""
        return {
            name: {"value": SETTINGS[name].shown(self.decided[name].value), "source": self.decided[name].origin} for name in RUN
        }


def resolve(
    given: Mapping[str, Raw],
    environment: Mapping[str, str],
    model_metadata: Mapping[str, object] | None = None,
    *,
    command: str = "",
) -> Settings:
    """Decide all settings, with a command's own defaults. Raises UsageError for a value that cannot be meant, in any source."""
    profile = _profile(given, environment)
    decided = {name: _decide(setting, given, environment, profile, command) for name, setting in SETTINGS.items()}
    _put_out(decided)
    _imply(decided)
    _check_pairs(decided)
    decided["seed"] = _seed(decided["seed"])
    result = Settings(decided, tuple(_strangers(environment)))
    return result if model_metadata is None else with_metadata(result, model_metadata)


def with_metadata(settings: Settings, model_metadata: Mapping[str, object]) -> Settings:
    """The settings with what the model itself asks for, wherever nobody decided otherwise."""
    decided = dict(settings.decided)
    notices = list(settings.notices)
    for name, before in settings.decided.items():
        setting = SETTINGS[name]
        key = metadata.PREFIX + setting.metadata
        if not setting.metadata or key not in model_metadata or before.source > Source.METADATA:
            continue
        text = metadata.as_text(model_metadata[key])
        try:
            decided[name] = Decided(setting.kind.parse(text), Source.METADATA, f"the model's {key}")
        except BadValue as bad:
            notices.append(
                f"The model's {key} = {quoted(text)} {bad.reason}; {setting.shown(setting.default)} is used instead."
            )
    notices += metadata.unsupported(model_metadata)
    return replace(settings, decided=decided, notices=tuple(notices))


def changed(settings: Settings, name: str, text: str, command: str) -> Settings:
    """The settings with one of them decided anew by a command of a talk. Raises UsageError for a value that cannot be meant."""
    kind = SETTINGS[name].kind
    try:
        value = kind.parse(text)
    except BadValue as bad:
        fix = f"Use {command} {bad.better}." if bad.better else ""
        raise UsageError(f"{command} {quoted(text)} {bad.reason}.", f"{command} takes {kind.expects}.", fix) from None
    decided = Decided(value, Source.FLAG, command)
    return replace(settings, decided={**settings.decided, name: _seed(decided) if name == "seed" else decided})


def _profile(given: Mapping[str, Raw], environment: Mapping[str, str]) -> Profile | None:
    name = given.get("profile") or environment.get(SETTINGS["profile"].variable)
    if not name:
        return None
    from specdec_cli.settings import profiles  # YAML is read only where a profile is asked for

    return profiles.load(str(name))


def _decide(
    setting: Setting, given: Mapping[str, Raw], environment: Mapping[str, str], profile: Profile | None, command: str
) -> Decided:
    setting = replace(setting, default=setting.default_of(command))  # messages name the command's own
    if setting.name in given:
        raw = given[setting.name]
        if isinstance(raw, bool):
            origin = setting.flag if raw else setting.negative[0]
            return Decided(raw, Source.FLAG, origin)
        return Decided(_parse(setting, raw, f"{setting.flag} ", setting.flag), Source.FLAG, setting.flag)
    if setting.environment and (text := environment.get(setting.variable)):
        value = _parse(setting, text, f"{setting.variable}=", setting.variable)
        return Decided(value, Source.ENVIRONMENT, setting.variable)
    if profile is not None and setting.name in profile.entries:
        entry = profile.entries[setting.name]
        place = f"{profile.path.name}, line {entry.line}"
        value = _parse(setting, entry.texts, f"{place}: {setting.key}: ", setting.key)
        return Decided(value, Source.PROFILE, f"profile {profile.name} ({place})")
    return Decided(setting.default, Source.DEFAULT, "default")


def _parse(setting: Setting, raw: str | Sequence[str], place: str, handle: str) -> object:
    """The value of one text, or of several. place comes before the text in a message, handle is what takes it."""
    texts = [raw] if isinstance(raw, str) else raw
    values = [_parse_one(setting, text, place, handle) for text in texts]
    if isinstance(setting.kind, Several):
        return tuple(item for value in values if isinstance(value, tuple) for item in value)
    return values[-1]


def _parse_one(setting: Setting, text: str, place: str, handle: str) -> object:
    try:
        return setting.kind.parse(text)
    except BadValue as bad:
        what = f"{place}{quoted(text)} {bad.reason}."
        raise UsageError(what, f"{handle} takes {setting.kind.expects}.", _better(setting, text, bad)) from None


def _better(setting: Setting, text: str, bad: BadValue) -> str:
    if bad.better:
        return f"Use {setting.flag} {bad.better}."
    if setting.name == "draft" and text.isascii() and text.isdigit():
        return f"The length of drafts is --draft-max {text}."
    if isinstance(setting.kind, Integer | Real | Switch) and setting.default is not None:
        return f"Use {setting.flag} {setting.shown(setting.default)}, the default." if setting.takes_value else ""
    return f"Use {setting.flag} {setting.kind.metavar.removesuffix(',...')}."


def _put_out(decided: dict[str, Decided]) -> None:
    """Of settings that exclude each other the one with the strongest source stays; two of one source are an error."""
    for group in EXCLUSIVE:
        set_ones = [name for name in group if decided[name].value not in (None, False, 0.0, ())]
        if len(set_ones) < 2:
            continue
        strongest = max(decided[name].source for name in set_ones)
        winners = [name for name in set_ones if decided[name].source == strongest]
        if len(winners) > 1:
            first, second = (decided[name].origin for name in winners[:2])
            raise UsageError(f"{first} and {second} cannot be used together.", "", "Leave one of them out.")
        for name in set_ones:
            if name != winners[0]:
                decided[name] = Decided(
                    SETTINGS[name].default, Source.DEFAULT, f"default, since {decided[winners[0]].origin} is set"
                )


def _imply(decided: dict[str, Decided]) -> None:
    """What follows from other settings where nobody decided it."""
    if decided["hf_repo"].value is not None:
        decided["model"] = decided["hf_repo"]
    draft = decided["hf_repo_draft"]
    if draft.value is not None:
        decided["draft"] = replace(draft, value=(draft.value,))
    if decided["draft_fixed"].value is not None:
        decided["draft_max"] = decided["draft_fixed"]
    exact = decided["exact"]
    if exact.value and decided["draft_max"].source is Source.DEFAULT:
        # Every width up to the longest draft is compared with every other before the first round.
        decided["draft_max"] = Decided(_EXACT_DRAFT_MAX, exact.source, f"implied by {exact.origin}")
    if exact.value and decided["verify"].source is Source.DEFAULT:
        decided["verify"] = Decided(Verify.MATCH, exact.source, f"implied by {exact.origin}")


def _check_pairs(decided: Mapping[str, Decided]) -> None:
    low, high = decided["draft_min"], decided["draft_max"]
    if isinstance(low.value, int) and isinstance(high.value, int) and low.value > high.value > 0:
        raise UsageError(
            f"The shortest draft is longer than the longest: {low.value} > {high.value}.",
            f"--draft-min {low.value} ({low.origin}), --draft-max {high.value} ({high.origin}).",
            f"Use --draft-max {low.value}, or a smaller --draft-min.",
        )
    if decided["exact"].value and decided["verify"].value is Verify.REJECT:
        raise UsageError(
            "--exact and --verify reject cannot be used together.",
            f"--exact compares with plain decoding, token by token; reject ({decided['verify'].origin}) draws anew.",
            "Use --exact --verify match.",
        )


def _seed(decided: Decided) -> Decided:
    """A seed that was not given is chosen once, here, so that it can be reported and used again."""
    if decided.value in (-1, 2**32 - 1):  # llama.cpp's two spellings of random
        return Decided(secrets.randbelow(2**32 - 1), Source.RANDOM, "random")
    return decided


def _strangers(environment: Mapping[str, str]) -> Iterator[str]:
    known = {setting.variable for setting in SETTINGS.values() if setting.environment} | _OTHER_VARIABLES
    for name in sorted(environment):
        if name.startswith("SPECDEC_") and name not in known:
            yield f"{name} in the environment sets nothing."
