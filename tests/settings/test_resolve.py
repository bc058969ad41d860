"""Which source decides, what is refused in each of them, and what a person gets to hear."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import pytest

from specdec_cli.errors import EXIT_COULD_NOT_START, UsageError
from specdec_cli.settings import profiles
from specdec_cli.settings.kinds import Choice, Integer, Real, Reference, References
from specdec_cli.settings.resolve import Raw, Settings, Source, resolve, with_metadata
from specdec_cli.settings.table import RUN, SETTINGS, Setting, Verify

TEMP_OF_MODEL = {"general.sampling.temp": 0.6}


def _resolve(environment: Mapping[str, str] | None = None, /, **given: Raw) -> Settings:
    return resolve(given, environment or {})


def _error(environment: Mapping[str, str] | None = None, /, **given: Raw) -> UsageError:
    with pytest.raises(UsageError) as caught:
        _resolve(environment, **given)
    assert caught.value.exit_code == EXIT_COULD_NOT_START
    return caught.value


@pytest.fixture
def warm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A profile that sets the temperature to 0.4, and the draft to 2 tokens."""
    (tmp_path / "warm.yaml").write_text("settings:\n  temp: 0.4\n  draft-max: 2\n", encoding="utf-8")
    monkeypatch.setattr(profiles, "folders", lambda: (tmp_path,))


@pytest.mark.usefixtures("warm")
@pytest.mark.parametrize(
    ("flag", "variable", "profile", "metadata", "value", "source"),
    [
        (True, True, True, True, 0.1, Source.FLAG),
        (False, True, True, True, 0.2, Source.ENVIRONMENT),
        (False, False, True, True, 0.4, Source.PROFILE),
        (False, False, False, True, 0.6, Source.METADATA),
        (False, False, False, False, 0.8, Source.DEFAULT),
    ],
)
def test_the_strongest_source_decides(
    flag: bool, variable: bool, profile: bool, metadata: bool, value: float, source: Source
) -> None:
    given = ({"temp": "0.1"} if flag else {}) | ({"profile": "warm"} if profile else {})
    environment = {"SPECDEC_TEMP": "0.2"} if variable else {}
    settings = resolve(given, environment, TEMP_OF_MODEL if metadata else {})
    assert settings.value("temp", float) == value
    assert settings.decided["temp"].source is source


@pytest.mark.usefixtures("warm")
def test_every_value_names_its_source() -> None:
    settings = resolve({"top_k": "5", "profile": "warm"}, {"SPECDEC_TOP_P": "0.5"}, {"general.sampling.min_p": 0.1})
    assert settings.decided["top_k"].origin == "--top-k"
    assert settings.decided["top_p"].origin == "SPECDEC_TOP_P"
    assert settings.decided["temp"].origin == "profile warm (warm.yaml, line 2)"
    assert settings.decided["min_p"].origin == "the model's general.sampling.min_p"
    assert settings.decided["ctx_size"].origin == "default"


@pytest.mark.usefixtures("warm")
def test_a_profile_may_be_named_in_the_environment() -> None:
    assert _resolve({"SPECDEC_PROFILE": "warm"}).value("draft_max", int) == 2


def test_an_empty_variable_is_not_set() -> None:
    assert _resolve({"SPECDEC_TEMP": ""}).decided["temp"].origin == "default"


def _sample(setting: Setting) -> str:
    """A text that the setting takes."""
    samples = {
        "lora_scaled": "a.gguf:0.5",
        "override_kv": "a=int:1",
        "override_tensor": "a=CPU",
        "override_tensor_draft": "a=CPU",
        "logit_bias": "5+1",
        "profile": "greedy",
        "hf_repo": "owner/name",
        "hf_repo_draft": "owner/name:Q4_0",
    }
    match setting.kind:
        case Integer(low=low):
            return str(low)
        case Real(high=high):
            return f"{high:g}"
        case Choice(values=values):
            return next(iter(values))
        case Reference(names=names) | References(names=names):
            return names[-1]
        case _:
            return samples.get(setting.name, "1")


def test_llama_cpps_flags_for_the_hub_name_target_and_draft() -> None:
    settings = resolve({"hf_repo": "owner/name:Q8_0", "hf_repo_draft": "hf:owner/small"}, {})
    assert settings.value("model", str) == "hf:owner/name:Q8_0"
    assert settings.value("draft", tuple) == ("hf:owner/small",)
    assert settings.decided["model"].origin == "--hf-repo"


@pytest.mark.parametrize(
    ("given", "flags"),
    [
        ({"hf_repo": "owner/name", "model": "m.gguf"}, ("--model", "--hf-repo")),
        ({"hf_repo_draft": "owner/name", "draft": "ngram"}, ("--draft", "--hf-repo-draft")),
    ],
)
def test_a_model_is_named_once(given: dict[str, str], flags: tuple[str, str]) -> None:
    with pytest.raises(UsageError) as error:
        resolve(given, {})
    assert all(flag in error.value.what for flag in flags)


@pytest.mark.parametrize(
    "text", ["name", "owner/name/file.gguf", "./name", "owner/na me", "owner/name:", "https://host/owner/name"]
)
def test_only_a_repository_is_one(text: str) -> None:
    with pytest.raises(UsageError, match="owner/repository"):
        resolve({"hf_repo": text}, {})


def test_a_run_does_not_speak_of_settings_of_other_commands() -> None:
    settings = resolve({}, {})
    assert {"tokens", "folders"}.isdisjoint(settings.report())
    assert "--in" not in {flag for flag, _, _ in settings.rows()}


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=lambda setting: setting.name)
def test_every_variable_is_read_or_said_to_set_nothing(setting: Setting) -> None:
    settings = _resolve({setting.variable: _sample(setting)})
    if setting.environment:
        assert settings.decided[setting.name].origin in (setting.variable, "random")
        assert settings.notices == ()
    else:
        assert settings.decided[setting.name].origin == "default"
        assert settings.notices == (f"{setting.variable} in the environment sets nothing.",)


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("ctx_size", "1", "8 to"),
        ("ctx_size", "-1", "8 to"),
        ("ctx_size", "1000000000", "8 to"),
        ("batch_size", "0", "1 to"),
        ("ubatch_size", "1000000000", "1 to"),
        ("threads", "-1", "0 to 512"),
        ("threads", "1000000000", "0 to 512"),
        ("threads_draft", "1.9", "0 to 512"),
        ("predict", "-2", "-1 to"),
        ("predict", "1.9", "-1 to"),
        ("draft_max", "-1", "0 to 512"),
        ("draft_max", "1000000000", "0 to 512"),
        ("draft_min", "1.9", "0 to 512"),
        ("draft_p_min", "2", "0 to 1"),
        ("draft_p_min", "-0.1", "0 to 1"),
        ("temp", "-1", "0 to 100"),
        ("temp", "nan", "0 to 100"),
        ("temp", "inf", "0 to 100"),
        ("top_k", "1.9", "-1 to"),
        ("top_p", "1.1", "0 to 1"),
        ("min_p", "-1", "0 to 1"),
        ("repeat_penalty", "0", "above 0"),
        ("repeat_last_n", "-2", "-1 to"),
        ("seed", "4294967296", "-1 to 4294967295"),
        ("gpu_layers", "some", "auto, all"),
        ("rope_scale", "0", "above 0"),
        ("main_gpu", "-1", "0 to 127"),
        ("logit_bias", "1", "token id"),
        ("flash_attn", "maybe", "auto, on, off"),
        ("cache_type_k", "q3", "q8_0"),
        ("verify", "both", "match, reject"),
        ("stop", "", "not empty"),
        ("grammar", "", "not empty"),
        ("draft", "16", "ngram"),
        ("model", "", "GGUF"),
    ],
)
def test_a_value_that_cannot_be_meant_is_refused_with_its_flag_and_range(name: str, text: str, says: str) -> None:
    setting = SETTINGS[name]
    error = _error(**{name: text})
    assert setting.flag in error.what
    assert says in error.why
    assert error.fix


def test_the_same_value_is_refused_in_the_environment_by_its_name_there() -> None:
    error = _error({"SPECDEC_CTX_SIZE": "1"})
    assert error.what == "SPECDEC_CTX_SIZE=1 is out of range."
    assert error.why.startswith("SPECDEC_CTX_SIZE takes")


def test_a_number_where_the_draft_goes_is_shown_the_flag_for_its_length() -> None:
    assert _error(draft="16").fix == "The length of drafts is --draft-max 16."


def test_a_mistyped_choice_is_corrected_in_the_fix() -> None:
    assert _error(draft="ngrma").fix == "Use --draft ngram."


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [("draft_max", "0", 0), ("predict", "0", 0), ("predict", "-1", -1), ("ctx_size", "0", 0), ("temp", "0", 0.0)],
)
def test_zero_is_legal_where_it_means_something(name: str, text: str, value: float) -> None:
    assert _resolve(**{name: text}).decided[name].value == value


def test_a_shortest_draft_longer_than_the_longest_is_refused() -> None:
    error = _error(draft_min="6", draft_max="5")
    assert "6 > 5" in error.what
    assert _error(draft_min="17").why == "--draft-min 17 (--draft-min), --draft-max 16 (default)."
    assert _resolve(draft_min="6", draft_max="6").value("draft_min", int) == 6


def test_without_drafts_their_shortest_length_does_not_matter() -> None:
    assert _resolve(draft_min="6", draft_max="0").value("draft_max", int) == 0


def test_exact_implies_match_and_the_default_is_reject() -> None:
    assert _resolve().value("verify", Verify) is Verify.REJECT
    settings = _resolve(exact=True)
    assert settings.value("verify", Verify) is Verify.MATCH
    assert settings.decided["verify"].origin == "implied by --exact"


def test_exact_and_reject_exclude_each_other() -> None:
    assert _error(exact=True, verify="reject").fix == "Use --exact --verify match."
    assert _resolve(exact=False, verify="reject").value("verify", Verify) is Verify.REJECT


@pytest.mark.parametrize(
    "given",
    [
        {"prompt": "a", "file": "b"},
        {"grammar": "root ::= [a]", "json_schema": "{}"},
        {"grammar_file": "a", "json_schema_file": "b"},
        {"rope_scale": "2", "rope_freq_scale": "0.5"},
        {"quiet": True, "verbose": True},
    ],
)
def test_two_settings_for_one_thing_are_refused_by_both_names(given: dict[str, Raw]) -> None:
    error = _error(**given)
    for name in given:
        assert SETTINGS[name].flag in error.what


def test_of_two_settings_for_one_thing_the_one_with_the_stronger_source_stays() -> None:
    settings = _resolve({"SPECDEC_GRAMMAR": "root ::= [a]"}, json_schema="{}")
    assert settings.maybe("grammar", str) is None
    assert settings.decided["grammar"].origin == "default, since --json-schema is set"
    assert settings.value("json_schema", str) == "{}"


def test_a_switch_given_as_off_is_off_and_says_so() -> None:
    settings = _resolve({"SPECDEC_MMAP": "on"}, mmap=False)
    assert settings.value("mmap", bool) is False
    assert settings.decided["mmap"].origin == "--no-mmap"


def test_a_repeated_flag_adds_up_and_a_plain_one_keeps_its_last_text() -> None:
    assert _resolve(stop=["a", "b,c"]).value("stop", tuple) == ("a", "b,c")
    assert _resolve(logit_bias=["1+1", "2-inf"]).value("logit_bias", tuple) == ((1, 1.0), (2, -math.inf))


@pytest.mark.parametrize("given", [{}, {"seed": "-1"}, {"seed": "4294967295"}])
def test_a_seed_that_is_not_given_is_drawn_once_and_reported(given: dict[str, Raw]) -> None:
    settings = resolve(given, {})
    assert 0 <= settings.value("seed", int) < 2**32 - 1
    assert settings.decided["seed"].origin == "random"
    assert ("--seed", str(settings.value("seed", int)), "random") in list(settings.rows())
    assert len({resolve(given, {}).value("seed", int) for _ in range(4)}) > 1


def test_a_seed_that_is_given_stays() -> None:
    assert _resolve(seed="7").value("seed", int) == 7


def test_every_setting_is_reported_with_its_value_and_source() -> None:
    settings = _resolve(temp="0.25", gpu_layers="all")
    rows = {flag: (value, source) for flag, value, source in settings.rows()}
    assert set(rows) == {SETTINGS[name].flag for name in RUN}
    assert rows["--temp"] == ("0.25", "--temp")
    assert rows["--gpu-layers"] == ("all", "--gpu-layers")
    assert rows["--threads-draft"] == ("as --threads", "default")
    assert rows["--file"] == ("not set", "default")
    assert settings.report()["temp"] == {"value": "0.25", "source": "--temp"}


def test_a_long_prompt_does_not_fill_the_report() -> None:
    rows = {flag: value for flag, value, _ in _resolve(prompt="one\n" * 1000).rows()}
    assert len(rows["--prompt"]) < 100
    assert "\n" not in rows["--prompt"]


def test_a_variable_that_sets_nothing_is_mentioned() -> None:
    assert _resolve({"SPECDEC_CACHE": "somewhere"}).notices == ()
    assert _resolve({"SPECDEC_TEMPERATURE": "1", "OTHER": "1"}).notices == (
        "SPECDEC_TEMPERATURE in the environment sets nothing.",
    )


def test_metadata_that_came_later_decides_only_what_nobody_else_did() -> None:
    before = _resolve(top_k="7")
    after = with_metadata(before, {"general.sampling.temp": 0.5, "general.sampling.top_k": 20})
    assert after.value("temp", float) == 0.5
    assert after.value("top_k", int) == 7
    assert after.value("seed", int) == before.value("seed", int)


@pytest.mark.parametrize(
    ("key", "raw", "name", "value"),
    [
        ("temp", "0.600000", "temp", 0.6),
        ("temp", 0.6000000238418579, "temp", 0.6),  # 0.6 as a 32-bit float
        ("top_k", 20, "top_k", 20),
        ("top_k", "-1", "top_k", -1),
        ("top_p", 0.9, "top_p", 0.9),
        ("min_p", 0, "min_p", 0.0),
        ("penalty_repeat", 1.1, "repeat_penalty", 1.1),
        ("penalty_last_n", 32, "repeat_last_n", 32),
    ],
)
def test_metadata_is_read_as_text_or_number(key: str, raw: object, name: str, value: float) -> None:
    settings = resolve({}, {}, {f"general.sampling.{key}": raw})
    assert settings.decided[name].value == value
    assert settings.notices == ()


@pytest.mark.parametrize("raw", ["warm", "nan", -3.0, "\x1b[2J"])
def test_metadata_that_makes_no_sense_is_said_and_not_used(raw: object) -> None:
    settings = resolve({}, {}, {"general.sampling.temp": raw})
    assert settings.value("temp", float) == 0.8
    (notice,) = settings.notices
    assert "general.sampling.temp" in notice
    assert "0.8 is used instead" in notice
    assert "\x1b" not in notice


@pytest.mark.parametrize(
    ("metadata", "says"),
    [
        ({"mirostat": 2, "mirostat_tau": 5.0, "mirostat_eta": 0.1}, "Mirostat"),
        ({"xtc_probability": "0.5", "xtc_threshold": "0.1"}, "XTC"),
        ({"sequence": "temperature;top_k"}, "sequence temperature;top_k"),
        ({"dry_multiplier": 0.8}, "dry_multiplier = 0.8"),
        ({"typical_p": 0.9}, "typical_p = 0.9"),
    ],
)
def test_a_sampler_that_the_model_asks_for_and_does_not_get_is_named_once(metadata: dict[str, object], says: str) -> None:
    settings = resolve({}, {}, {f"general.sampling.{key}": value for key, value in metadata.items()})
    (notice,) = settings.notices
    assert says in notice


@pytest.mark.parametrize(
    "metadata",
    [
        {"mirostat": 0, "mirostat_tau": 5.0},
        {"xtc_probability": 0.0, "xtc_threshold": 0.1},
        {"sequence": "penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature"},
        {},
    ],
)
def test_a_sampler_that_is_off_is_not_mentioned(metadata: dict[str, object]) -> None:
    keys = {f"general.sampling.{key}": value for key, value in metadata.items()}
    assert resolve({}, {}, keys | {"general.name": "x"}).notices == ()


def test_a_value_asked_for_as_another_type_is_a_mistake_of_ours() -> None:
    with pytest.raises(TypeError, match="temp"):
        _resolve().value("temp", str)


def test_exact_keeps_drafts_short_where_nobody_says_how_long() -> None:
    assert resolve({"exact": True}, {}).value("draft_max", int) == 8
    assert resolve({"exact": True, "draft_max": "12"}, {}).value("draft_max", int) == 12


def test_a_fixed_length_is_the_longest_too() -> None:
    settings = resolve({"draft_fixed": "5"}, {})
    assert (settings.value("draft_max", int), settings.value("draft_fixed", int)) == (5, 5)


def test_a_command_may_have_defaults_of_its_own() -> None:
    assert resolve({}, {}, command="bench").value("predict", int) == 128
    assert resolve({}, {}).value("predict", int) == -1
    assert resolve({"predict": "9"}, {}, command="bench").value("predict", int) == 9
    assert resolve({}, {"SPECDEC_PREDICT": "7"}, command="bench").value("predict", int) == 7
