"""From llama.cpp's own words to a sentence a person can act on."""

from __future__ import annotations

import re

from specdec_cli.errors import ModelFileError
from specdec_cli.llama import library

_UPDATE = "Update it: pip install -U llama-cpp-python"


def load_failed(role: str, name: str) -> ModelFileError:
    """The error of a model that did not load, from the lines llama.cpp logged. role: target or draft."""
    lines = library.error_lines()
    text = "\n".join(lines)
    if found := re.search(r"unknown model architecture: '([^']*)'", text):
        return ModelFileError(
            f"The {role} {name} has the architecture {found[1]!r}.", f"{library.build()} does not know it.", _UPDATE
        )
    if found := re.search(r"unknown pre-tokenizer type: '([^']*)'", text):
        return ModelFileError(
            f"The {role} {name} has the pre-tokenizer {found[1]!r}.", f"{library.build()} does not know it.", _UPDATE
        )
    if "unable to allocate" in text or "failed to allocate" in text:
        return ModelFileError(
            f"The {role} {name} does not fit in memory.",
            f"llama.cpp says: {library.last_error()}",
            "Use a smaller quantisation, fewer GPU layers (-ngl), or close other programs.",
        )
    reason = next((line for line in reversed(lines) if "failed to load model" not in line), library.last_error())
    return ModelFileError(
        f"The {role} {name} does not load.",
        f"llama.cpp says: {reason or 'nothing'}",
        "If the file came from a download, compare its size and checksum with the source.",
    )


def context_failed(role: str, name: str, n_ctx: int) -> ModelFileError:
    """The error of a context that llama.cpp did not make."""
    reason = library.last_error()
    if "requires flash_attn" in reason:
        fix = "Use -fa on, or -ctv f16."
    else:
        fix = f"Try a smaller context (-c), other cache types (-ctk, -ctv), or -fa off. Asked for: -c {n_ctx}."
    return ModelFileError(
        f"llama.cpp cannot make a context for the {role} {name}.", f"llama.cpp says: {reason or 'nothing'}", fix
    )
