"""What report does once its files are known: read them, say what stands in them, draw it, write it."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

from specdec_cli.bench import comparison, figures, results, tuned
from specdec_cli.bench.comparison import loads
from specdec_cli.bench.elsewhere import shell
from specdec_cli.bench.figures import Figure, Table
from specdec_cli.bench.reports import passed
from specdec_cli.bench.results import Machine, Results
from specdec_cli.bench.statistics import summarised
from specdec_cli.bench.tuned import Tuned
from specdec_cli.bench.verdict import Thresholds, judge
from specdec_cli.cli.comparing import names
from specdec_cli.errors import EXIT_DONE, SpecdecError, UsageError
from specdec_cli.settings.table import Plot
from specdec_cli.ui import plots
from specdec_cli.ui.page import Check, Report, Section, Source, page
from specdec_cli.ui.served import sentence
from specdec_cli.ui.units import from_home
from specdec_cli.units import size
from specdec_cli.wholefile import write_whole

_LARGEST_COPY = 1 << 20  # characters of a result that a page takes with it
_SEEN = 4096  # bytes of a file that tell whether an earlier report wrote it
_CAUSES = {
    "rounding": "rounding: passes of other widths round otherwise; proven by passing the run again",
    "fault": "a fault: please report it",
    "sampling": "sampling: --verify reject draws another text by its nature",
}


def check(out: Path, *, overwrite: bool) -> None:
    """Refuse what could not be written in the end. Raises SpecdecError."""
    if (missing := plots.missing()) is not None:
        raise missing
    if not out.exists() or overwrite:
        return
    try:
        with out.open("rb") as file:
            ours = plots.MADE_BY.encode("ascii") in file.read(_SEEN)
    except OSError as error:
        raise UsageError(
            f"The report cannot be written to {out}.", f"{error.strerror or error}.", "Name another file."
        ) from None
    if not ours:
        raise UsageError(
            f"{out} is there already, and is no report.", "-o would write over it.", "Add --overwrite, or name another."
        )


def execute(files: Sequence[Path], out: Path, plot: Plot | None, *, force: bool, quiet: bool) -> int:
    """Draw the files into a file; returns the exit code. Raises UsageError."""
    called = names(files)
    found = [_read(path) for path in files]
    measured = [(name, each) for name, each in zip(called, found, strict=True) if isinstance(each, Results)]
    compared = None
    if len(measured) > 1:
        compared = comparison.compare([each for _, each in measured], [name for name, _ in measured])
        if compared.unequal and not force:
            raise UsageError(
                "These files are of unequal work.",
                " ".join((*compared.unequal, *compared.notes)),
                "Draw each by itself, or add --force to see them all the same.",
            )
    together = figures.of_comparison(compared) if compared is not None else None
    if out.suffix.lower() == ".html":
        sections = tuple(
            _section(each, _source(path, name, out, each)) for path, name, each in zip(files, called, found, strict=True)
        )
        title = sections[0].label if len(sections) == 1 else f"{len(sections)} measurements"
        notes = (*compared.unequal, *compared.notes) if compared is not None else ()
        _write(out, page(Report(title, _numbered(sections), together, notes)).encode("utf-8"))
    else:
        figure = _chosen(found, together, plot)
        _write(out, plots.png(figure) if out.suffix.lower() == ".png" else plots.svg(figure, paper=True).encode("utf-8"))
    if not quiet:
        sys.stderr.write(f"Written: {out}\n")
    return EXIT_DONE


def _read(path: Path) -> Results | Tuned:
    """A file of bench, whole or not, with its summaries; or one of tune. Raises UsageError."""
    document = results.read(path)
    if isinstance(document, dict) and document.get("schema") == tuned.SCHEMA:
        return tuned.checked(path, document)
    found = results.checked(path, document)
    return replace(found, summaries=summarised(found))


def _chosen(found: Sequence[Results | Tuned], together: Figure | None, plot: Plot | None) -> Figure:
    """The one plot that was asked for. Raises UsageError where there is none."""
    if len(found) > 1:
        if together is None or plot not in (None, Plot.SPEEDUP):
            raise UsageError(
                "That plot is of one file.", f"{len(found)} were named.", "Name one of them, or use -o FILE.html for all plots."
            )
        return together
    every = _figures(found[0])
    drawn = [each for each in every if each.data is not None]
    wanted = [each for each in every if plot is not None and each.plot.value == plot.value] or drawn[:1]
    if plot is not None and wanted and wanted[0].plot.value != plot.value:
        wanted = []
    if not wanted or wanted[0].data is None:
        has = ", ".join(each.plot for each in drawn) or "none"
        raise UsageError(
            "The file does not hold what that plot shows.", wanted[0].says if wanted else "", f"It has these plots: {has}."
        )
    return wanted[0]


def _figures(found: Results | Tuned) -> tuple[Figure, ...]:
    return figures.of_results(found) if isinstance(found, Results) else figures.of_tuned(found)


def _section(found: Results | Tuned, source: Source) -> Section:
    return _of_results(found, source) if isinstance(found, Results) else _of_tuned(found, source)


def _of_results(found: Results, source: Source) -> Section:
    verdict = found.verdict or judge(found, Thresholds())
    served = bool(found.runs) and all(run.client is not None for run in found.runs)
    under_load = [load for variant in found.variants for load in loads(found, variant)]
    notes = []
    if found.verdict is None and not served:
        notes.append("The measurement was not finished: runs may be missing.")
    if served and under_load:
        notes += [
            f"{load.concurrency} at a time: {load.total_tps.median:.1f} tokens/s in all."
            for load in under_load
            if load.total_tps is not None
        ]
    return Section(
        label=found.label,
        about=f"Measured {_day(found.created)}, {len(found.runs)} runs of {len(found.tasks)} tasks.",
        sentence=sentence(found, under_load) if served else verdict.sentence,
        worth_it=verdict.worth_it,
        checks=tuple(
            Check(f"--{each.name}: {each.required}; measured {each.measured}. {passed(each.passed)}", each.passed)
            for each in verdict.checks
        ),
        notes=tuple(notes),
        figures=_figures(found),
        differences=_differences(found),
        facts=(*_facts(found.machine, found.build), *_work(found)),
        models=_models(found),
        settings=Table(("setting", "value"), tuple(found.settings.items())),
        commands=(*_measuring(found), _drawing(source)),
        source=source,
    )


def _of_tuned(found: Tuned, source: Source) -> Section:
    rows = [("target", found.target.name, size(found.target.bytes), "")]
    rows += [
        ("draft", each.name, size(each.bytes), f"{1000 * each.step_s:.2f}" if each.step_s is not None else "")
        for each in found.drafts
    ]
    return Section(
        label=found.target.name,
        about=f"Tuned {_day(found.created)}, {found.used_s:.0f} of {found.budget_s:.0f} s.",
        sentence=found.verdict.sentence,
        worth_it=None,
        checks=(),
        notes=() if found.complete else ("Tuning was interrupted.",),
        figures=_figures(found),
        differences=Table((), ()),
        facts=(
            *_facts(found.machine, found.build),
            ("tasks", ", ".join(found.tasks)),
            ("temperature", f"{found.temperature:g}"),
        ),
        models=Table(("model", "file", "size", "ms a token"), tuple(rows), frozenset({"size", "ms a token"})),
        settings=Table(("left out", "why"), tuple((each.name, each.sentence) for each in found.left_out)),
        commands=(*((f"With {each.program}:", each.line) for each in found.commands), _drawing(source)),
        source=source,
    )


def _day(created: str) -> str:
    """When it was, as people write it."""
    return created.replace("T", " ", 1).replace("+00:00", " UTC")


def _facts(machine: Machine, build: str | None) -> Iterator[tuple[str, str]]:
    known = (
        ("processor", machine.cpu),
        ("cores", str(machine.cores) if machine.cores else None),
        ("memory", size(machine.memory) if machine.memory else None),
        ("system", machine.os),
        ("load before it began", f"{machine.load:.1f} busy cores" if machine.load is not None else None),
        ("build", build),
    )
    return ((name, value) for name, value in known if value)


def _work(found: Results) -> Iterator[tuple[str, str]]:
    lengths = sorted({task.n_predict for task in found.tasks})
    temperatures = sorted({task.temperature for task in found.tasks})
    yield "tasks", ", ".join(task.name for task in found.tasks)
    yield "tokens of a run", " or ".join(map(str, lengths))
    yield "temperature", " or ".join(f"{each:g}" for each in temperatures)


def _models(found: Results) -> Table:
    rows = [
        (
            role,
            Path((model.file or "").replace("\\", "/")).name,
            model.description or "",
            size(model.bytes) if model.bytes else "",
            model.sha256 or "not known",
        )
        for role, model in found.models.items()
    ]
    return Table(("model", "file", "kind", "size", "SHA-256"), tuple(rows), frozenset({"size"}))


def _differences(found: Results) -> Table:
    rows = [
        (
            each.task,
            each.variant,
            str(each.index),
            _CAUSES[each.cause],
            f"{each.gap:.3g}" if each.gap is not None else "",
            f"{each.noise:.3g}" if each.noise is not None else "",
        )
        for each in found.differences
    ]
    heads = ("task", "variant", "from token", "why", "gap of the logits", "noise of a pass")
    return Table(heads, tuple(rows), frozenset({"from token", "gap of the logits", "noise of a pass"}))


def _measuring(found: Results) -> Iterator[tuple[str, str]]:
    if found.command is not None:
        yield "To measure the same again:", found.command


def _drawing(source: Source) -> tuple[str, str]:
    return "To draw it again:", shell(["specdec", "report", source.name, "-o", "report.html"])


def _source(path: Path, name: str, out: Path, found: Results | Tuned) -> Source:
    """Where the numbers are. The copy within the page names no home folder."""
    href = None
    with contextlib.suppress(ValueError):  # on another drive there is no way there
        href = quote(Path(os.path.relpath(path.resolve(), out.resolve().parent)).as_posix())
    if isinstance(found, Results):
        models = {
            role: replace(model, file=from_home(model.file) if model.file is not None else None)
            for role, model in found.models.items()
        }
        document = results.document(replace(found, models=models))
    else:
        document = tuned.document(found)
    data = json.dumps(document, ensure_ascii=False, allow_nan=False)
    return Source(name, href, data if len(data) <= _LARGEST_COPY else None)


def _numbered(sections: tuple[Section, ...]) -> tuple[Section, ...]:
    """Sections whose labels are the same, told apart by their files."""
    labels = [section.label for section in sections]
    return tuple(
        replace(section, label=f"{section.label} ({section.source.name})") if labels.count(section.label) > 1 else section
        for section in sections
    )


def _write(out: Path, data: bytes) -> None:
    """Raises SpecdecError where it cannot be written."""
    try:
        write_whole(out, data)
    except OSError as error:
        raise SpecdecError(
            f"The report cannot be written to {out}.", f"{error.strerror or error}.", "Name another file with -o."
        ) from None
