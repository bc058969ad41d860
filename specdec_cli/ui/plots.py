"""Draws the figures of a report with matplotlib, as SVG or PNG that is the same each time; the only importer of it."""

from __future__ import annotations

import io
import logging
import re
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from specdec_cli.bench.figures import ALL, Bars, Costs, Figure, Line, Rates, Ratios, Waits
from specdec_cli.bench.results import Ratio
from specdec_cli.errors import SpecdecError
from specdec_cli.ui.units import one_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

MADE_BY = "specdec report"  # in every file, so that it may be written over
INK, MUTED, GRID, PAPER = "#1b1f24", "#57606a", "#d8dee4", "#fffffe"
# Told apart with any colour sight, and by their marks; each has 4.5:1 on paper.
SERIES = ("#005fa3", "#b04600", "#007657", "#94397a", "#6f5b00", "#3f4a9e")

_MARKS = "osD^vP"
_WIDTH_IN = 4.2  # at this width its letters can be read on a phone
_LONGEST_NAME = 22  # characters of a name in a plot; tables have all of it
_MOST_ROWS = 60
_PERCENTILES = (50, 95, 99)
_ROUND_FIGURE = 17  # tokens of a pass that are shown at the least, where they were measured
_LOG_FROM = 8.0  # times the least that the largest is, from which a scale is logarithmic
_FONTS = "'DejaVu Sans', Verdana, 'Segoe UI', 'Noto Sans', sans-serif"
_STYLE: dict[Any, Any] = {
    "axes.facecolor": "none",
    "text.parse_math": False, "svg.fonttype": "none", "svg.hashsalt": MADE_BY, "font.size": 9, "font.family": ["DejaVu Sans"],
    "text.color": INK, "axes.labelcolor": MUTED, "axes.edgecolor": GRID, "xtick.color": GRID, "ytick.color": GRID,
    "xtick.labelcolor": MUTED, "ytick.labelcolor": INK, "grid.color": GRID, "axes.grid": False, "axes.axisbelow": True,
    "axes.spines.top": False, "axes.spines.right": False, "axes.labelsize": 9, "legend.frameon": False,
    "legend.fontsize": 9, "axes.unicode_minus": False,
}  # fmt: skip


def missing() -> SpecdecError | None:
    """What to say where matplotlib is not there."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        return SpecdecError("A report needs matplotlib.", f"{error}.", "pip install 'specdec-cli[report]'")
    return None


def svg(figure: Figure, *, paper: bool) -> str:
    """The plot as a document of its own. paper: with a background; else it stands on whatever is below it."""
    text = _drawn(figure, "svg", paper=paper).decode("utf-8")
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL).replace("'DejaVu Sans'", _FONTS)
    return re.sub(r"(<svg\b)", rf"<!-- {MADE_BY} -->\n\1", text, count=1)


def png(figure: Figure) -> bytes:
    """The plot as an image."""
    return _drawn(figure, "png", paper=True)


def _drawn(figure: Figure, form: str, *, paper: bool) -> bytes:
    import matplotlib
    from matplotlib.figure import Figure as Drawing

    out = io.BytesIO()
    logger = logging.getLogger("matplotlib")
    level = logger.level
    with matplotlib.rc_context(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of letters that its font lacks: a reader's has them, or shows a box
        logger.setLevel(logging.ERROR)
        try:
            matplotlib.rcdefaults()
            matplotlib.rcParams.update(_STYLE)
            drawing = Drawing(
                figsize=(_WIDTH_IN, _height_in(figure)), layout="constrained", facecolor=PAPER if paper else "none"
            )
            _draw(figure, drawing)
            data = {"Date": None, "Creator": None, "Format": None, "Type": None} if form == "svg" else {"Software": MADE_BY}
            drawing.savefig(out, format=form, dpi=200, metadata=data, facecolor=drawing.get_facecolor())
        finally:
            logger.setLevel(level)
    return out.getvalue()


def _height_in(figure: Figure) -> float:
    match figure.data:
        case Ratios(series, rows):
            return (
                0.75 + min(len(rows), _MOST_ROWS) * (0.14 + 0.15 * len(series)) + 0.19 * (len(series) if len(series) > 1 else 0)
            )
        case Bars(parts, rows, _, total):
            return 0.75 + min(len(rows), _MOST_ROWS) * 0.4 + 0.19 * (len(parts) - 1 + (total is not None))
        case Costs(lines, chosen):
            return 3.8 if lines and chosen else 2.5
        case _:
            return 2.6


def _draw(figure: Figure, drawing: Drawing) -> None:
    styles = _Styles(figure.order)
    match figure.data:
        case Ratios():
            _ratios(drawing.subplots(), figure.data, styles)
        case Bars():
            _bars(drawing.subplots(), figure.data)
        case Costs():
            _costs(drawing, figure.data, styles)
        case Waits():
            _waits(drawing.subplots(), figure.data, styles)
        case Rates():
            _rates(drawing.subplots(), figure.data, styles)
        case None:
            raise ValueError(figure.says)


def _ratios(axes: Axes, data: Ratios, styles: _Styles) -> None:
    rows = data.rows[:_MOST_ROWS]
    n = len(data.series)
    ends = [bound for _, ratios in rows for each in ratios if each for bound in (each.low, each.value, each.high) if bound]
    low, high = min([*ends, 1.0]), max([*ends, 1.0])
    axes.axvline(1.0, color=MUTED, linewidth=1.2)
    for i, (name, ratios) in enumerate(rows):
        if name == ALL and i > 0:
            axes.axhline(i - 0.5, color=GRID, linewidth=1)
        for j, each in enumerate(ratios):
            if each is not None:
                _mark(axes, each, i + (j - (n - 1) / 2) * 0.7 / n, styles[data.series[j]])
    _names(axes, [name for name, _ in rows])
    if high / low > _LOG_FROM:
        axes.set_xscale("log")
        axes.set_xlim(low / 1.15, high * (high / low) ** 0.16)
    else:
        axes.set_xlim(low - 0.05 * (high - low + 0.1), high + 0.16 * (high - low) + 0.06)
    _plain_ticks(axes)
    axes.set_xlabel(f"times as fast as {_short(data.base)}")
    if n > 1:
        _legend(axes, data.series, styles)


def _mark(axes: Axes, ratio: Ratio, y: float, style: Mapping[str, Any]) -> None:
    """A ratio with its interval, and its value behind it."""
    right = ratio.value
    if ratio.low is not None and ratio.high is not None:
        axes.plot([ratio.low, ratio.high], [y, y], color=style["color"], linewidth=2.2, solid_capstyle="round", alpha=0.55)
        right = ratio.high
    axes.plot([ratio.value], [y], linestyle="none", markersize=5, **style)
    around = {"boxstyle": "square,pad=0.12", "facecolor": PAPER, "edgecolor": "none"}
    axes.annotate(f"{ratio.value:.2f}", (right, y), (6, 0), textcoords="offset points", va="center", fontsize=8.5, bbox=around)


def _bars(axes: Axes, data: Bars) -> None:
    rows = data.rows[:_MOST_ROWS]
    left = [0.0] * len(rows)
    for part, colour in zip(data.parts, reversed(SERIES), strict=False):  # not those of the first drafters
        values = [parts[data.parts.index(part)] for _, parts in rows]
        axes.barh(range(len(rows)), values, left=left, height=0.55, color=colour, label=part, edgecolor=PAPER, linewidth=0.8)
        left = [a + b for a, b in zip(left, values, strict=True)]
    most = max([*left, data.total[1] if data.total else 0.0]) or 1.0
    around = {"boxstyle": "square,pad=0.12", "facecolor": PAPER, "edgecolor": "none"}
    for i, total in enumerate(left):
        said = f"{total:.{1 if most < 1000 else 0}f}"
        axes.annotate(said, (total, i), (4, 0), textcoords="offset points", va="center", fontsize=8.5, bbox=around)
    if data.total is not None:
        axes.axvline(data.total[1], color=INK, linewidth=1.2, linestyle="--", label=data.total[0])
    _names(axes, [name for name, _ in rows])
    axes.set_xlim(0, most * 1.16)
    axes.set_xlabel(data.unit)
    if len(data.parts) > 1 or data.total is not None:
        _figure_of(axes).legend(loc="outside upper left", handlelength=1.4)


def _costs(drawing: Drawing, data: Costs, styles: _Styles) -> None:
    both = bool(data.lines and data.chosen)
    panels: Any = drawing.subplots(2, 1, sharex=True, height_ratios=(2, 1)) if both else drawing.subplots()
    above, below = panels if both else (panels, panels)
    for line in data.lines:
        above.plot(*_xy(line), linewidth=1.6, markersize=4, **styles[line.name])
    if data.lines:
        above.set_ylim(bottom=0)
        above.set_ylabel("ms a pass")
        above.grid(axis="y", linewidth=0.6)
    width = 0.8 / max(len(data.chosen), 1)
    for j, line in enumerate(data.chosen):
        x, y = _xy(line)
        moved = [each + (j - (len(data.chosen) - 1) / 2) * width for each in x]
        below.bar(moved, [100 * each for each in y], width=width * 0.92, color=styles[line.name]["color"])
    if data.chosen:
        below.set_ylim(0, 100)
        below.set_ylabel("% of rounds")
    names = list(dict.fromkeys(line.name for line in (*data.lines, *data.chosen)))
    if len(names) > 1:
        _legend(above, names, styles)
    below.set_xlabel("tokens in the pass (drafted + 1)")
    widest = max(x for line in (*data.lines, *data.chosen) for x, _ in line.points)
    used = max((x for line in data.chosen for x, share in line.points if share > 0), default=widest)
    above.set_xlim(0.3, min(widest, max(used + 1, _ROUND_FIGURE)) + 0.7)
    _whole(below)


def _rates(axes: Axes, data: Rates, styles: _Styles) -> None:
    for line in data.lines:
        x, y = _xy(line)
        axes.plot(x, [100 * each for each in y], linewidth=1.6, markersize=5, clip_on=False, **styles[line.name])
    axes.set_ylim(0, 104)
    axes.set_ylabel("% accepted")
    axes.set_xlabel("position in the draft")
    axes.grid(axis="y", linewidth=0.6)
    _whole(axes)
    if len(data.lines) > 1:
        _legend(axes, [line.name for line in data.lines], styles)


def _waits(axes: Axes, data: Waits, styles: _Styles) -> None:
    for line, marks in zip(data.lines, data.marks, strict=True):
        x, y = _xy(line)
        style = styles[line.name]
        axes.plot([x[0], *x], [0.0, *(100 * each for each in y)], color=style["color"], linewidth=1.6, drawstyle="steps-post")
        axes.plot(marks, _PERCENTILES, linestyle="none", markersize=5, **style)
    every = [x for line in data.lines for x, _ in line.points]
    if max(every) / min(every) > _LOG_FROM:
        axes.set_xscale("log")
    _plain_ticks(axes)
    axes.set_ylim(0, 103)
    axes.set_yticks([0, 50, 95])
    axes.grid(axis="y", linewidth=0.6)
    axes.set_ylabel("% of waits")
    axes.set_xlabel("ms since the burst before, at the most")
    _legend(axes, [line.name for line in data.lines], styles)


class _Styles:
    """A colour and a mark for each name; those that an order does not have are what others are compared with."""

    def __init__(self, order: Sequence[str]) -> None:
        self._order = list(order)

    def __getitem__(self, name: str) -> dict[str, Any]:
        if name not in self._order:
            return {"color": MUTED, "marker": "x"}
        j = self._order.index(name)
        return {"color": SERIES[j % len(SERIES)], "marker": _MARKS[j % len(_MARKS)]}


def _xy(line: Line) -> tuple[list[float], list[float]]:
    return [x for x, _ in line.points], [y for _, y in line.points]


def _names(axes: Axes, names: Sequence[str]) -> None:
    """Rows from above, each with its name."""
    axes.set_yticks(range(len(names)), [_short(name) for name in names])
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)


def _legend(axes: Axes, names: Sequence[str], styles: _Styles) -> None:
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], label=_short(name), linewidth=1.6, markersize=5, **styles[name]) for name in names]
    _figure_of(axes).legend(handles=handles, loc="outside upper left", labelcolor="linecolor", handlelength=1.6)


def _figure_of(axes: Axes) -> Drawing:
    drawing: Any = axes.figure
    return drawing  # type: ignore[no-any-return]


def _whole(axes: Axes) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=9, min_n_ticks=1))


def _plain_ticks(axes: Axes) -> None:
    """Numbers as people write them, on a logarithmic scale too."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis = axes.xaxis
    if axis.get_scale() == "log":
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def _short(name: str) -> str:
    shown = one_line(name, 200)
    return shown if len(shown) <= _LONGEST_NAME else shown[: _LONGEST_NAME - 1] + "\N{HORIZONTAL ELLIPSIS}"
