"""The command report: what was measured, drawn as a page or a plot."""

from __future__ import annotations

import os
from pathlib import Path

from specdec_cli.cli.options import Given, settings_command
from specdec_cli.errors import UsageError
from specdec_cli.settings.resolve import resolve
from specdec_cli.settings.table import Plot

_EXAMPLE = "specdec report RESULT.json -o report.html"
_PAGE = ".html"
_PLOTS = (".png", ".svg")


@settings_command("report", ("output", "plot", "overwrite", "force", "quiet", "verbose"), rest="files")
def app(given: Given) -> int:
    """Draw what bench or tune measured, as a page or a plot.

    FILES are what specdec bench -o, or specdec tune --json, left. -o report.html is a page that needs nothing beside it;
    .png and .svg are one plot of it. Several files are set side by side as specdec bench compare does: unequal work is
    refused with 2, and --force draws it all the same. A file that no earlier report has written is not written over
    without --overwrite. It needs matplotlib: pip install 'specdec-cli[report]'.
    """
    settings = resolve({name: value for name, value in given.items() if name != "files"}, os.environ)
    words = given["files"]
    files = [Path(word) for word in words] if isinstance(words, list) else []
    if not files:
        raise UsageError("There is nothing to draw.", "No result file was named.", _EXAMPLE)
    if len({file.resolve() for file in files}) < len(files):
        raise UsageError("A file cannot be compared with itself.", "One of them is named twice.", _EXAMPLE)
    out, plot = settings.maybe("output", Path), settings.maybe("plot", Plot)
    if out is None:
        raise UsageError("There is no file to write.", "-o names it.", _EXAMPLE)
    kind = out.suffix.lower()
    if kind != _PAGE and kind not in _PLOTS:
        raise UsageError(f"A report cannot be written as {out.name}.", "-o takes .html, .png or .svg.", _EXAMPLE)
    if kind == _PAGE and plot is not None:
        raise UsageError(
            f"--plot {plot} has no meaning for a page.", "It has every plot.", "Leave --plot out, or use -o FILE.svg."
        )
    if out.resolve() in {file.resolve() for file in files}:
        raise UsageError(f"{out} is a result file, and would be written over.", "", _EXAMPLE)
    from specdec_cli.cli import reported  # numpy and matplotlib are loaded only for what can be drawn

    reported.check(out, overwrite=settings.value("overwrite", bool))
    return reported.execute(files, out, plot, force=settings.value("force", bool), quiet=settings.value("quiet", bool))
