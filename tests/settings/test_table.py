"""The table of settings agrees with itself, with the options it fills, and with llama.cpp's names."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from typing import Any

import pytest

from specdec_cli.decoding.contracts import SamplingParams
from specdec_cli.llama.options import ContextOptions, ModelOptions
from specdec_cli.settings.kinds import Choice, Several, Switch
from specdec_cli.settings.llama_flags import LACKS
from specdec_cli.settings.table import EXCLUSIVE, PANELS, SETTINGS, Setting, spellings

OPTIONS: dict[str, Any] = {"model": ModelOptions, "context": ContextOptions, "sampling": SamplingParams}


def test_no_two_settings_share_a_name() -> None:
    names = Counter(setting.name for panel in PANELS.values() for setting in panel)
    assert [name for name, n in names.items() if n > 1] == []


def test_no_two_settings_share_a_flag() -> None:
    flags = Counter(flag for flag, _ in spellings(SETTINGS))
    flags.update(["-h", "--help", "--version"])
    assert [flag for flag, n in flags.items() if n > 1] == []


def test_every_flag_is_spelled_like_one() -> None:
    for flag, _ in spellings(SETTINGS):
        assert re.fullmatch(r"-[a-z]+|--[a-z][a-z-]+", flag), flag


def test_a_flag_of_llama_cpp_is_either_ours_or_explained() -> None:
    assert set(LACKS) & {flag for flag, _ in spellings(SETTINGS)} == set()
    assert all(lack.why and lack.fix for lack in LACKS.values())


@pytest.mark.parametrize("owner", OPTIONS)
def test_every_field_of_the_options_is_filled_by_a_setting(owner: str) -> None:
    fields = {field.name for field in dataclasses.fields(OPTIONS[owner])} - {"path"}  # the path is the resolved model
    filled = {setting.fills.partition(".")[2] for setting in SETTINGS.values() if setting.fills.startswith(f"{owner}.")}
    assert filled == fields


def _filling_settings() -> list[Setting]:
    several = ("override_tensor", "lora", "logit_bias", "seed")  # built from more than one setting, or drawn
    return [s for s in SETTINGS.values() if s.fills and not s.draft and s.fills.partition(".")[2] not in several]


@pytest.mark.parametrize("setting", _filling_settings(), ids=lambda setting: setting.name)
def test_a_default_is_the_default_of_the_field(setting: Setting) -> None:
    owner, _, name = setting.fills.partition(".")
    field = next(field for field in dataclasses.fields(OPTIONS[owner]) if field.name == name)
    assert setting.default == field.default


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=lambda setting: setting.name)
def test_a_default_is_a_value_its_own_kind_takes(setting: Setting) -> None:
    if setting.default not in (None, ()):
        assert setting.kind.parse(setting.shown(setting.default)) == setting.default


@pytest.mark.parametrize("setting", [s for s in SETTINGS.values() if s.elsewhere], ids=lambda setting: setting.name)
def test_the_default_of_another_command_is_a_value_its_own_kind_takes(setting: Setting) -> None:
    for command, value in setting.elsewhere:
        assert setting.kind.parse(setting.shown(value)) == setting.default_of(command) == value


def test_a_setting_of_the_draft_fills_what_one_of_the_target_filled_before() -> None:
    before: set[str] = set()
    for setting in SETTINGS.values():
        if setting.draft:
            assert setting.fills in before
        before.add(setting.fills)


def test_switches_have_an_off_spelling_and_nothing_else_has() -> None:
    for setting in SETTINGS.values():
        assert bool(setting.negative) == isinstance(setting.kind, Switch)
        if isinstance(setting.kind, Switch):
            assert f"--no-{setting.flag[2:]}" in setting.negative


def test_kinds_without_a_default_value_are_unset_or_empty() -> None:
    for setting in SETTINGS.values():
        if isinstance(setting.kind, Several):
            assert setting.default == () or setting.draft
        if isinstance(setting.kind, Choice):
            assert setting.default is not None or setting.unset


def test_groups_that_exclude_each_other_name_settings() -> None:
    assert {name for group in EXCLUSIVE for name in group} <= set(SETTINGS)


@pytest.mark.parametrize(
    ("flag", "name"),
    [
        ("-m", "model"),
        ("-md", "draft"),
        ("--draft", "draft"),
        ("--model-draft", "draft"),
        ("--spec-draft-n-max", "draft_max"),
        ("--draft-n", "draft_max"),
        ("--spec-draft-p-min", "draft_p_min"),
        ("--temperature", "temp"),
        ("--n-predict", "predict"),
        ("--reverse-prompt", "stop"),
        ("-ngl", "gpu_layers"),
        ("--n-gpu-layers-draft", "gpu_layers_draft"),
        ("--spec-draft-type-k", "cache_type_k_draft"),
        ("-ncmoed", "n_cpu_moe_draft"),
        ("-jf", "json_schema_file"),
        ("-sys", "system_prompt"),
    ],
)
def test_names_of_llama_cpp_old_and_new_lead_to_the_setting(flag: str, name: str) -> None:
    assert dict(spellings(SETTINGS))[flag].name == name


@pytest.mark.parametrize(
    ("name", "text"), [("logit_bias", "15043+1,3-0.5,4-inf"), ("lora", "a.gguf,b.gguf"), ("lora_scaled", "a.gguf:0.5")]
)
def test_a_value_is_shown_as_it_is_read(name: str, text: str) -> None:
    setting = SETTINGS[name]
    assert setting.shown(setting.kind.parse(text)) == text
