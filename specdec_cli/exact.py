"""--exact for a loaded model: probe its widths once for each file, machine and settings, and keep the result."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from specdec_cli import __version__, cache
from specdec_cli.decoding.widths import WidthReport, probe
from specdec_cli.errors import SpecdecError
from specdec_cli.llama import library
from specdec_cli.llama.context import Context
from specdec_cli.llama.options import ContextOptions

_KIND = "widths"
N_PROBED = 9  # widths probed at the least, so that short drafts and plain decoding find the same class


def n_widths(n_max: int, options: ContextOptions) -> int:
    """Widths to probe for drafts of up to n_max tokens, as far as a pass can hold them."""
    return min(max(n_max + 1, N_PROBED), options.n_batch, options.n_ubatch)


def find_widths(context: Context, on_progress: Callable[[float], None]) -> WidthReport:
    """The width report for the passes of up to max_pass tokens of a context, from the cache or probed now.

    Raises SpecdecError when no class of widths allows a draft.
    """
    name = cache.key(_identity(context))
    known = _from_record(cache.read(_KIND, name))
    report = known
    if report is None or report.n_max < context.max_pass:
        for step in probe(context, context.max_pass, anchor=known.anchor if known is not None else None):
            if isinstance(step, WidthReport):
                report = step
            else:
                on_progress(step)
        assert report is not None
        cache.write(_KIND, name, _to_record(report))
    if not report.widths:
        groups = ", ".join("{" + ", ".join(map(str, widths)) + "}" for widths in report.classes)
        raise SpecdecError(
            "--exact is not possible for this model on this machine.",
            f"No pass of two or more tokens gives the same bits as another width: {groups}.",
            "Leave --exact out: what differs is then rounding, never a wrong token. Or try -t 1, or an F16 or Q8_0 file.",
        )
    return report


def price(report: WidthReport) -> str:
    """What --exact costs, in a sentence or two."""
    smallest = report.widths[0]
    plain_ms, exact_ms = report.seconds[1] * 1000, report.seconds[smallest] * 1000
    shown = ", ".join(map(str, report.widths))
    if smallest == 1:
        return f"exact: passes of {shown} tokens give the same bits here, so it costs nothing."
    text = f"exact: plain rounds take {exact_ms:.0f} ms instead of {plain_ms:.0f} (passes of {shown} tokens only)."
    if report.best_rate <= 1 / report.seconds[1]:
        text += " Even with every draft token accepted that is slower than plain decoding without --exact."
    return text


def _identity(context: Context) -> dict[str, Any]:
    """Everything that can change a row's bits."""
    model = context.model
    options = dataclasses.asdict(model.options) | {"path": None, "lora": None}
    return {
        "specdec": __version__.split("+")[0],
        "build": library.build(),
        "file": cache.file_hash(model.options.path),
        "lora": [(cache.file_hash(lora.path), lora.scale) for lora in model.options.lora],
        "devices": [(device.name, device.description, device.memory_total) for device in library.devices()],
        "model": options,
        "context": dataclasses.asdict(context.options) | {"n_ctx": context.n_ctx},
        "threads": context.n_threads,
    }


def _to_record(report: WidthReport) -> dict[str, Any]:
    return dataclasses.asdict(report)


def _from_record(record: dict[str, Any] | None) -> WidthReport | None:
    if record is None:
        return None
    try:
        return WidthReport(
            n_max=int(record["n_max"]),
            classes=tuple(tuple(int(width) for width in widths) for widths in record["classes"]),
            seconds={int(width): float(seconds) for width, seconds in record["seconds"].items()},
            n_positions=int(record["n_positions"]),
            anchor=None if record["anchor"] is None else int(record["anchor"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        return None
