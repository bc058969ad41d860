"""What models does once its settings are known: find the files, read their headers, list them by family."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from specdec_cli.cli import answering
from specdec_cli.cli.describing import kind_of, without_subject
from specdec_cli.errors import EXIT_DONE, ModelFileError
from specdec_cli.gguf.header import Header
from specdec_cli.gguf.reader import read_header
from specdec_cli.gguf.vocabulary import vocabulary
from specdec_cli.hub.cached import Cached, cache_folder, cached_models, models_in, unfinished
from specdec_cli.pairing.family import family
from specdec_cli.settings.resolve import Settings
from specdec_cli.ui.listed import render_listed
from specdec_cli.ui.sinks import Sink

Json = dict[str, Any]


def execute(settings: Settings) -> int:
    """List the models; returns the exit code."""
    folders: tuple[Path, ...] = settings.value("folders", tuple)
    with answering.open_display(settings) as sink:
        document = listed(folders, sink)
    if settings.value("json", bool):
        answering.answer_json(document)
    else:
        answering.answer(render_listed(document, colour=answering.colour(), columns=answering.columns()))
    return EXIT_DONE


def listed(folders: Sequence[Path], sink: Sink) -> Json:
    """The models of the hub cache and of the folders, as the JSON document of models."""
    found = list(_each_once(folders))
    models, broken = [], []
    for i, one in enumerate(found):
        sink.progress("reading headers", i / len(found))
        try:
            models.append(_row(one, read_header(one.path)))
        except ModelFileError as error:
            reason = " ".join(part for part in (without_subject(error.what, one.path), error.why) if part)
            broken.append({"reference": one.reference, "path": str(one.path), "bytes": one.n_bytes, "reason": reason})
    return {
        "schema": "specdec.models/1",
        "cache": str(cache_folder()),
        "folders": [str(folder) for folder in folders],
        "models": sorted(models, key=_place),
        "broken": broken,
        "unfinished": [{"reference": one.reference, "bytes": one.n_bytes, "reason": one.reason} for one in unfinished()],
    }


def _each_once(folders: Sequence[Path]) -> Iterator[Cached]:
    """Every model, those of the hub cache first, whichever ways lead to it."""
    seen = set()
    in_folders = [
        Cached(path, str(path), path.stat().st_size) for folder in folders for path in models_in(folder) if path.exists()
    ]
    in_folders.sort(key=lambda one: one.path.is_symlink())  # the parts of a split model lie by its own name
    for one in (*cached_models(), *in_folders):
        real = os.path.realpath(one.path)
        if real not in seen:
            seen.add(real)
            yield one


def _row(one: Cached, header: Header) -> Json:
    kind, refusal = kind_of(header)
    return {
        "reference": one.reference,
        "path": str(one.path),
        "bytes": header.size,
        "kind": kind,
        "runs": refusal is None,
        "quantisation": header.quantisation,
        "architecture": header.architecture,
        "parameters": header.n_parameters,
        "family": _family(header),
    }


def _family(header: Header) -> str | None:
    try:
        return family(vocabulary(header))
    except ModelFileError:
        return None


def _place(row: Json) -> tuple[bool, str, str, int, str]:
    """Models that run first; those that read text alike together, the smallest first."""
    name, _, tokens = (row["family"] or "").partition(" ")
    return (
        not row["runs"],
        tokens if row["runs"] else row["kind"],
        name if row["runs"] else "",
        row["bytes"],
        row["reference"],
    )
