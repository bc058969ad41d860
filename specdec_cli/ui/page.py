"""A report as one HTML page that needs nothing beside it: light and dark, on a phone, on paper."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape

from specdec_cli.bench.figures import Figure, Table
from specdec_cli.ui import plots
from specdec_cli.ui.plots import GRID, INK, MADE_BY, MUTED, PAPER, SERIES
from specdec_cli.units import visible

_DARK_SERIES = ("#6cb6ff", "#ffa657", "#4fd1a5", "#f3a0d8", "#e3c341", "#b3b9ff")
_LIGHT = {"ink": INK, "muted": MUTED, "grid": GRID, "paper": PAPER, "back": "#f6f8fa", "good": "#116329", "bad": "#a40e26"}
_DARK = {"ink": "#e6edf3", "muted": "#9aa4af", "grid": "#3a424b", "paper": "#12161b", "back": "#1b2129", "good": "#56d364",
         "bad": "#ff8a80"}  # fmt: skip
_CSS = """
*{box-sizing:border-box}
html{color-scheme:light dark;-webkit-text-size-adjust:100%}
body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.5 system-ui,"Segoe UI",Roboto,"Noto Sans",sans-serif}
main{max-width:70rem;margin:0 auto;padding:1rem 1rem 3rem}
h1,h2,h3,h4{line-height:1.25;margin:2rem 0 .5rem;overflow-wrap:anywhere}
h1{font-size:1.6rem;margin-top:.5rem}h2{font-size:1.3rem}h3{font-size:1.05rem}h4{font-size:1rem}
p,ul,dl{margin:.5rem 0;overflow-wrap:anywhere}
a{color:var(--c0)}
.note{color:var(--muted)}
.verdict{font-size:1.2rem;padding:.9rem 1rem;background:var(--back);border-left:.35rem solid var(--muted);border-radius:.3rem}
.verdict.yes{border-color:var(--good)}.verdict.no{border-color:var(--bad)}
.met{color:var(--good)}.missed{color:var(--bad);font-weight:600}
.figures{display:grid;grid-template-columns:minmax(0,1fr);gap:1rem 2.5rem}
@media(min-width:60rem){.figures{grid-template-columns:repeat(2,minmax(0,1fr))}}
figure{margin:0;break-inside:avoid;min-width:0;max-width:34rem}
figure svg{display:block;width:100%;height:auto}
figcaption{font-size:.9rem}
figcaption p{margin:.3rem 0}
details{margin:.5rem 0}
summary{cursor:pointer;color:var(--c0);padding:.2rem 0}
.scroll{overflow-x:auto;max-width:100%;margin:.8rem 0}
table{border-collapse:collapse;font-size:.85rem;font-variant-numeric:tabular-nums}
th,td{padding:.25rem .7rem .25rem 0;text-align:left;vertical-align:top;border-bottom:1px solid var(--grid);white-space:nowrap}
td.wrap{white-space:normal;overflow-wrap:anywhere;min-width:9rem}
.n{text-align:right}
pre{background:var(--back);padding:.7rem;border-radius:.3rem;font-size:.85rem;white-space:pre-wrap;overflow-wrap:anywhere}
code{font-family:ui-monospace,SFMono-Regular,Consolas,"DejaVu Sans Mono",monospace}
#theme{float:right;font:inherit;font-size:.85rem;color:var(--ink);background:var(--back);border:1px solid var(--muted);
border-radius:.3rem;padding:.2rem .6rem;cursor:pointer}
:focus-visible{outline:2px solid var(--c0);outline-offset:2px}
@media print{body{font-size:10.5pt}#theme,summary{display:none}main{max-width:none;padding:0}
.figures{grid-template-columns:repeat(2,minmax(0,1fr))}h2,h3,h4{break-after:avoid}pre,.verdict{border:1px solid var(--grid)}}
"""
_SCRIPT = """
(function(){var b=document.createElement('button'),r=document.documentElement;b.id='theme';b.type='button';
function dark(){return r.dataset.theme?r.dataset.theme==='dark':matchMedia('(prefers-color-scheme: dark)').matches}
function name(){b.textContent=dark()?'Light':'Dark'}
b.onclick=function(){r.dataset.theme=dark()?'light':'dark';name()};name();
document.querySelector('main').prepend(b)})()
"""


_LONG = 30  # characters of a cell, from which it is wrapped


@dataclass(frozen=True, slots=True)
class Check:
    """A threshold and whether it was met, in words."""

    sentence: str
    passed: bool


@dataclass(frozen=True, slots=True)
class Source:
    """The file that a section shows. href: how to reach it from the page; data: all of it, where it is small enough."""

    name: str
    href: str | None
    data: str | None


@dataclass(frozen=True, slots=True)
class Section:
    """All of one file."""

    label: str
    about: str  # when and what
    sentence: str
    worth_it: bool | None
    checks: tuple[Check, ...]
    notes: tuple[str, ...]
    figures: tuple[Figure, ...]
    differences: Table
    facts: tuple[tuple[str, str], ...]
    models: Table
    settings: Table
    commands: tuple[tuple[str, str], ...]  # what each is for, and the line
    source: Source


@dataclass(frozen=True, slots=True)
class Report:
    """A page. comparison: of several files."""

    title: str
    sections: tuple[Section, ...]
    comparison: Figure | None = None
    notes: tuple[str, ...] = ()  # on the comparison


def page(report: Report) -> str:
    """The page as text."""
    ids = _Ids()
    title = _text(report.title)
    return "\n".join([
        "<!DOCTYPE html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        f'<meta name="generator" content="{MADE_BY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{title}</title>",
        f"<style>{_colours()}{_CSS}</style>",
        "</head>",
        "<body>",
        "<main>",
        *_body(report, ids),
        "</main>",
        f"<script>{_SCRIPT}</script>",
        "</body>",
        "</html>",
        "",
    ])  # fmt: skip


class _Ids:
    """Numbers for the plots of one page, so that no two have an id in common."""

    def __init__(self) -> None:
        self._n = 0

    def next(self) -> str:
        self._n += 1
        return f"f{self._n}"


def _body(report: Report, ids: _Ids) -> Iterator[str]:
    if len(report.sections) == 1 and report.comparison is None:
        yield from _section(report.sections[0], ids, 1)
        return
    yield f"<h1>{_text(report.title)}</h1>"
    if report.comparison is not None:
        yield f'<p class="verdict">{_text(report.comparison.says)}</p>'
        yield from _listed(report.notes)
        yield '<div class="figures">'
        yield from _figure(report.comparison, ids, 2, said=True)
        yield "</div>"
    for section in report.sections:
        yield from _section(section, ids, 2)


def _section(section: Section, ids: _Ids, level: int) -> Iterator[str]:
    yield "<section>"
    yield _head(level, section.label)
    yield f'<p class="note">{_text(section.about)}</p>'
    said = {True: " yes", False: " no", None: ""}[section.worth_it]
    yield f'<p class="verdict{said}">{_text(section.sentence)}</p>'
    if section.checks:
        items = (f'<li class="{"met" if each.passed else "missed"}">{_text(each.sentence)}</li>' for each in section.checks)
        yield f"<ul>{''.join(items)}</ul>"
    yield from _listed(section.notes)
    yield '<div class="figures">'
    for figure in section.figures:
        yield from _figure(figure, ids, level + 1, said=figure.says == section.sentence)
    yield "</div>"
    if section.differences.rows:
        yield _head(level + 1, "Texts that differ from plain decoding's")
        yield _table(section.differences)
    yield _head(level + 1, "Measured with")
    facts = Table(("", ""), section.facts)
    yield _table(facts, heads=False)
    if section.models.rows:
        yield _table(section.models)
    if section.settings.rows:
        yield f"<details><summary>All settings</summary>{_table(section.settings)}</details>"
    yield _head(level + 1, "The numbers, and how to measure them again")
    yield _raw(section.source)
    for what, line in section.commands:
        yield f"<p>{_text(what)}</p><pre><code>{_text(line)}</code></pre>"
    yield "</section>"


def _figure(figure: Figure, ids: _Ids, level: int, *, said: bool) -> Iterator[str]:
    """A plot with what it says below it. said: that stands above already."""
    yield "<figure>"
    yield _head(level, figure.title)
    if figure.data is not None:
        yield _inline(figure, ids.next())
    yield "<figcaption>"
    if not said:
        yield f"<p>{_text(figure.says)}</p>"
    if figure.how:
        yield f'<p class="note">{_text(figure.how)}</p>'
    if figure.table.rows:
        yield f"<details><summary>The numbers</summary>{_table(figure.table)}</details>"
    yield "</figcaption></figure>"


def _inline(figure: Figure, prefix: str) -> str:
    """The plot as part of the page: its colours are the page's, and its ids its own."""
    drawn = plots.svg(figure, paper=False)
    drawn = re.sub(r"<!--.*?-->", "", drawn[drawn.index("<svg") :], flags=re.DOTALL)
    drawn = re.sub(r"<[^>]+>", lambda tag: _tag(tag[0], prefix), drawn)
    head, body = drawn.split(">", 1)
    head = re.sub(r' (width|height)="[^"]*"', "", head)
    head += f' role="img" aria-labelledby="{prefix}-t {prefix}-d"'
    title = f'<title id="{prefix}-t">{_text(figure.title)}</title><desc id="{prefix}-d">{_text(figure.says)}</desc>'
    return f"{head}>{title}{body.strip()}"


def _tag(tag: str, prefix: str) -> str:
    """A tag of a drawing as a part of the page."""
    tag = re.sub(r' xmlns(:xlink)?="[^"]*"', "", tag).replace("xlink:href", "href")
    tag = re.sub(r'\bid="', f'id="{prefix}-', tag)
    tag = re.sub(r'(url\(#|href="#)', rf"\g<1>{prefix}-", tag)
    return re.sub("#[0-9a-f]{6}", lambda colour: _VARIABLES.get(colour[0], colour[0]), tag)


_NAMED = {INK: "ink", MUTED: "muted", GRID: "grid", PAPER: "paper"} | {each: f"c{i}" for i, each in enumerate(SERIES)}
_VARIABLES = {colour: f"var(--{name})" for colour, name in _NAMED.items()}


def _colours() -> str:
    light = _declared(_LIGHT, SERIES)
    dark = _declared(_DARK, _DARK_SERIES)
    return (
        f":root{{{light}}}:root[data-theme=light]{{color-scheme:light}}:root[data-theme=dark]{{color-scheme:dark;{dark}}}"
        f"@media screen and (prefers-color-scheme:dark){{:root:not([data-theme=light]){{{dark}}}}}"
        f"@media print{{:root,:root[data-theme=dark]{{color-scheme:light;{light}}}}}"
    )


def _declared(names: dict[str, str], series: Sequence[str]) -> str:
    return ";".join([*(f"--{name}:{colour}" for name, colour in names.items()), *(f"--c{i}:{c}" for i, c in enumerate(series))])


def _raw(source: Source) -> str:
    parts = []
    if source.href is not None:
        parts.append(f'<a href="{escape(source.href)}">the file {_text(source.name)}</a>')
    if source.data is not None:
        data = base64.b64encode(source.data.encode("utf-8")).decode("ascii")
        named = escape(visible(source.name))
        parts.append(f'<a download="{named}" href="data:application/json;base64,{data}">the copy within this page</a>')
    return f"<p>Every run: {' or '.join(parts) if parts else _text(source.name)}.</p>"


def _table(table: Table, *, heads: bool = True) -> str:
    classes = ['class="n"' if head in table.right else "" for head in table.heads]
    head = "".join(f'<th scope="col" {kind}>{_text(each)}</th>' for each, kind in zip(table.heads, classes, strict=True))
    rows = []
    for row in table.rows:
        cells = [_cell(cell, kind) for cell, kind in zip(row[1:], classes[1:], strict=True)]
        rows.append(f'<tr><th scope="row">{_text(row[0])}</th>{"".join(cells)}</tr>')
    shown = f"<thead><tr>{head}</tr></thead>" if heads else ""
    body = f"<table>{shown}<tbody>{''.join(rows)}</tbody></table>"
    return f'<div class="scroll" tabindex="0" role="group" aria-label="table">{body}</div>'


def _cell(text: str, kind: str) -> str:
    return f"<td {kind or _wide(text)}>{_text(text)}</td>"


def _wide(text: str) -> str:
    return 'class="wrap"' if len(text) > _LONG and " " in text else ""


def _listed(notes: Iterable[str]) -> Iterator[str]:
    items = "".join(f"<li>{_text(note)}</li>" for note in notes)
    if items:
        yield f'<ul class="note">{items}</ul>'


def _head(level: int, text: str) -> str:
    return f"<h{level}>{_text(text)}</h{level}>"


def _text(text: str) -> str:
    return escape(visible(text))
