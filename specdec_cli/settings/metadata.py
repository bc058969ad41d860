"""The sampling metadata of a GGUF: how its values read, and what it asks for that specdec does not have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from specdec_cli.settings.kinds import quoted

PREFIX = "general.sampling."

_ORDER = ("penalties", "top_k", "top_p", "min_p", "temperature")
_OFF_BY_DEFAULT = ("dry", "top_n_sigma", "typ_p", "typical_p", "xtc")  # in llama.cpp's default sequence, doing nothing
_TAKEN = frozenset({"temp", "top_k", "top_p", "min_p", "penalty_repeat", "penalty_last_n"})
# What each sampler that is missing is called, by the key that switches it on, with the keys that only tune it.
_MISSING = {
    "mirostat": ("Mirostat", ("mirostat_tau", "mirostat_eta")),
    "xtc_probability": ("XTC", ("xtc_threshold",)),
}


def as_text(value: object) -> str:
    """A metadata value as text: a float with the digits that 32 bits have."""
    return f"{value:.7g}" if isinstance(value, float) else str(value).strip()


def unsupported(metadata: Mapping[str, object]) -> Iterator[str]:
    """What the model asks for and does not get, a sentence each."""
    asked = {key.removeprefix(PREFIX): as_text(value) for key, value in metadata.items() if key.startswith(PREFIX)}
    silent = set(_TAKEN) | {"sequence"}
    for key, (name, tuning) in _MISSING.items():
        silent.update((key, *tuning))
        if key in asked and not _is_zero(asked[key]):
            yield f"The model asks for the sampler {name} ({PREFIX}{key} = {quoted(asked[key])}), which specdec does not have."
    sequence = [word.strip() for word in asked.get("sequence", "").split(";") if word.strip()]
    if sequence and tuple(word for word in sequence if word not in _OFF_BY_DEFAULT) != _ORDER:
        yield (f"The model asks for the sampler sequence {quoted(';'.join(sequence))}; specdec keeps to {';'.join(_ORDER)}.")
    for key in sorted(set(asked) - silent):
        yield f"The model asks for {PREFIX}{key} = {quoted(asked[key])}, which specdec does not have."


def _is_zero(text: str) -> bool:
    try:
        return float(text) == 0
    except ValueError:
        return False
