"""Make a GGUF in another quantisation, with llama.cpp's own quantizer."""

from __future__ import annotations

import ctypes
import os
import tempfile
from enum import IntEnum
from pathlib import Path

import llama_cpp

from specdec_cli.errors import ModelFileError
from specdec_cli.llama import library


class FileType(IntEnum):
    """llama.cpp's numbers of file types (enum llama_ftype)."""

    Q4_0 = 2


def quantise(source: Path, target: Path, kind: FileType) -> None:
    """Write source as target in another quantisation: beside it first, then renamed. Raises ModelFileError."""
    library.start()
    library.clear_log()
    params = llama_cpp.llama_model_quantize_default_params()
    params.ftype = int(kind)
    params.allow_requantize = True
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=target.parent, suffix=".part")
    except OSError as error:
        raise ModelFileError(
            f"{target.name} cannot be made.", str(error), "Set SPECDEC_CACHE to a folder that can be written to."
        ) from None
    os.close(handle)
    unfinished = Path(name)
    try:
        if llama_cpp.llama_model_quantize(os.fsencode(source), os.fsencode(unfinished), ctypes.byref(params)) != 0:
            raise ModelFileError(
                f"{target.name} cannot be made from {source.name}.",
                f"llama.cpp says: {library.last_error() or 'nothing'}",
                f"There must be about {source.stat().st_size / 1e6:.0f} MB of room in {target.parent}.",
            )
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)
