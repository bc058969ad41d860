"""Arguments of the library become settings by the command line's own table, and are refused under the names they were given."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from specdec_cli.errors import UsageError
from specdec_cli.library.given import SETTABLE, GenerationOptions, Value, load_settings, with_options
from specdec_cli.settings.build import context_options, sampling_values
from specdec_cli.settings.resolve import Settings, Source, with_metadata
from specdec_cli.settings.table import SETTINGS


def loaded(more: Mapping[str, Value] | None = None, draft: Any = "auto", **named: Value | None) -> Settings:
    return load_settings("target.gguf", draft, named, more or {})


def asked(settings: Settings | None = None, **options: Any) -> Settings:
    return with_options(settings or loaded(), GenerationOptions(**options), "generate")  # type: ignore[typeddict-item]


def test_settings_are_named_like_the_long_flags() -> None:
    for name in SETTABLE:
        assert f"--{name.replace('_', '-')}" in SETTINGS[name].positive, name


def test_arguments_reach_the_fields_that_flags_reach() -> None:
    settings = loaded({"cache_type_k": "q8_0", "mmap": False, "device": ["none"]}, n_ctx=1234, n_threads=3, exact=True)
    options = context_options(settings)
    assert (options.n_ctx, options.n_threads, options.type_k.value) == (1234, 3, "q8_0")
    assert settings.value("mmap", bool) is False
    assert settings.value("device", tuple) == ("none",)
    assert settings.value("verify", str) == "match"  # what --exact implies


def test_the_environment_sets_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECDEC_CTX_SIZE", "99")
    assert loaded().value("ctx_size", int) == SETTINGS["ctx_size"].default


@pytest.mark.parametrize(
    ("draft", "expected"),
    [
        ("auto", ("auto",)),
        ("none", ("none",)),
        ("draft.gguf", ("draft.gguf",)),
        (Path("draft.gguf"), ("draft.gguf",)),
        (Path("ngram"), (f".{os.sep}ngram",)),
        ([Path("draft.gguf"), "ngram"], ("draft.gguf", "ngram")),
        ("owner/repository:Q4_K_M", ("owner/repository:Q4_K_M",)),
    ],
)
def test_what_drafts(draft: object, expected: tuple[str, ...]) -> None:
    assert loaded(draft=draft).value("draft", tuple) == expected


@pytest.mark.parametrize(
    ("more", "named", "word"),
    [
        ({}, {"n_ctx": -5}, "n_ctx -5"),
        ({}, {"n_threads": "many"}, "n_threads many"),
        ({"temp": -1}, {}, 'settings["temp"] -1'),
        ({"cache_type_k": "q9"}, {}, 'settings["cache_type_k"] q9'),
        ({"cache_typ_k": "q8_0"}, {}, 'no setting "cache_typ_k"'),
        ({"prompt": "hello"}, {}, 'settings cannot hold "prompt"'),
        ({"verbose": True}, {}, 'settings cannot hold "verbose"'),
        ({"ctx_size": 99}, {"n_ctx": 99}, 'settings["ctx_size"]'),
        ({"mmap": 7}, {}, 'settings["mmap"] 7'),
    ],
)
def test_what_cannot_be_meant_is_refused_by_its_name(more: dict[str, Value], named: dict[str, Value], word: str) -> None:
    with pytest.raises(UsageError) as caught:
        loaded(more, **named)
    assert word in caught.value.what
    assert "--" not in caught.value.what


@pytest.mark.parametrize("more", [["temp"], {1: 1}])
def test_settings_of_another_type_are_refused(more: Any) -> None:
    with pytest.raises(UsageError, match=r"settings cannot be|no setting"):
        loaded(more)


def test_a_near_setting_is_suggested() -> None:
    with pytest.raises(UsageError) as caught:
        loaded({"cache_typ_k": "q8_0"})
    assert caught.value.fix == 'Did you mean "cache_type_k"?'


def test_options_of_a_generation_win_over_those_of_the_session_and_of_the_model() -> None:
    settings = with_metadata(loaded({"top_k": 7}), {"general.sampling.temp": 0.25, "general.sampling.top_k": 3})
    before = sampling_values(asked(settings))
    assert (before["temperature"], before["top_k"]) == (0.25, 7)
    after = sampling_values(asked(settings, temperature=0.5, top_k=9))
    assert (after["temperature"], after["top_k"]) == (0.5, 9)


def test_a_seed_is_new_each_time_unless_one_is_given() -> None:
    settings = loaded()
    assert len({asked(settings).value("seed", int) for _ in range(4)}) == 4
    assert asked(settings, seed=5).value("seed", int) == 5
    assert asked(loaded({"seed": 6})).value("seed", int) == 6
    assert asked(loaded({"seed": 6}), seed=-1).decided["seed"].source is Source.RANDOM


@pytest.mark.parametrize(("stop", "expected"), [("a b", ("a b",)), (["x", ","], ("x", ",")), ([], ())])
def test_stops(stop: object, expected: tuple[str, ...]) -> None:
    assert asked(stop=stop).value("stop", tuple) == expected


def test_stops_of_the_session_hold_where_none_are_given() -> None:
    settings = loaded({"stop": ["one", "two, three"]})
    assert asked(settings).value("stop", tuple) == ("one", "two, three")
    assert asked(settings, stop=()).value("stop", tuple) == ()


def test_none_is_as_good_as_left_out() -> None:
    settings = loaded({"seed": 6, "stop": "x"})
    assert asked(settings, seed=None, stop=None, temperature=None, grammar=None) == asked(settings)


def test_a_bias_of_tokens() -> None:
    assert sampling_values(asked(logit_bias={5: 1.5, 6: -math.inf}))["logit_bias"] == {5: 1.5, 6: -math.inf}


def test_a_schema_as_an_object_or_as_text() -> None:
    schema = {"type": "object", "properties": {"name": {"type": "string"}}}
    for given in (schema, json.dumps(schema)):
        assert json.loads(asked(json_schema=given).value("json_schema", str)) == schema


def test_a_grammar_of_the_generation_replaces_the_sessions_schema() -> None:
    settings = asked(loaded({"json_schema": "{}"}), grammar='root ::= "a"')
    assert settings.maybe("json_schema", str) is None
    assert settings.value("grammar", str) == 'root ::= "a"'


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"temperature": -1}, "temperature -1"),
        ({"temperature": "warm"}, "temperature warm"),
        ({"temperature": math.nan}, "temperature nan"),
        ({"temperature": True}, "temperature on"),
        ({"n_predict": 1.5}, "n_predict 1.5"),
        ({"stop": [""]}, "stop"),
        ({"stop": 7}, "stop"),
        ({"stop": [7]}, "stop"),
        ({"grammar": 7}, "grammar"),
        ({"json_schema": ["a"]}, "json_schema"),
        ({"logit_bias": {-1: 1.0}}, "logit_bias"),
        ({"logit_bias": {1: math.nan}}, "logit_bias"),
        ({"logit_bias": [1]}, "logit_bias"),
        ({"seed": 2**40}, "seed"),
        ({"grammar": "root ::= [a]", "json_schema": {}}, "grammar and json_schema"),
    ],
)
def test_options_that_cannot_be_meant_are_refused_by_their_name(options: dict[str, Any], word: str) -> None:
    with pytest.raises(UsageError) as caught:
        asked(**options)
    assert word in caught.value.what


@pytest.mark.parametrize(("name", "better"), [("max_tokens", "n_predict"), ("temp", "temperature"), ("top_kk", "top_k")])
def test_an_unknown_option_is_a_type_error_that_names_the_near_one(name: str, better: str) -> None:
    unknown: dict[str, Any] = {name: 1}
    with pytest.raises(TypeError, match=f"unexpected keyword argument '{name}'. Did you mean '{better}'"):
        asked(**unknown)
