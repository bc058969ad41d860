"""What doctor found, as lines to read and to paste."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.style import Style
from rich.table import Table
from rich.text import Text

from specdec_cli.ui.render import render
from specdec_cli.ui.units import one_line
from specdec_cli.units import size

_LONGEST = 300  # characters of anything that the machine says
_NARROWEST = 40  # columns; a narrower terminal wraps by itself
_NONE = "none"
_SWITCH = {True: "yes", False: "no"}

Document = Mapping[str, Any]
Row = tuple[str, str]


def render_doctored(document: Document, *, colour: bool, columns: int) -> str:
    """The document of doctor as aligned lines, the warnings last."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True, style="dim")
    grid.add_column(overflow="fold")
    for label, value in _rows(document):
        grid.add_row(Text(label), Text(one_line(value, _LONGEST)))
    width = max(columns, _NARROWEST)
    facts = render(grid, colour=colour, columns=width)
    warnings = document["warnings"]
    if not warnings:
        return f"{facts}\n\nNothing to warn of."
    style = Style(bold=True, color="yellow")
    told = [
        # What can be pasted is not wrapped: a terminal does that without breaking it.
        f"{render(Text('warning: ' + one_line(warning['what'], 600), style=style), colour=colour, columns=width)}\n"
        f"  {one_line(warning['fix'], 600)}"
        for warning in warnings
    ]
    return "\n\n".join((facts, *told))


def _rows(document: Document) -> Iterator[Row]:
    versions, system = document["versions"], document["system"]
    yield "specdec", versions["specdec"]
    yield "python", f"{versions['python']} ({system['python']})"
    yield "system", f"{system['name']} ({system['machine']})"
    yield from _llama(document["llama_cpp"])
    rest = [
        f"{name} {version or 'is not installed'}" for name, version in versions.items() if name not in ("specdec", "python")
    ]
    yield "packages", ", ".join(rest)
    yield from _machine(document)
    for cache in document["caches"]:
        free = f", {size(cache['disk_free'])} free on the disk" if cache["disk_free"] is not None else ""
        yield f"{cache['what']} cache", f"{cache['folder']}: {size(cache['bytes'])}{free}"
    hub = document["hub"]
    yield "hub", f"{hub['endpoint']}, offline: {_SWITCH[hub['offline']]}, token: {_SWITCH[hub['token']]}"
    settings = document["settings"]
    yield "profiles", ", ".join(settings["profiles"]) or _NONE
    yield "your profiles", f"{', '.join(settings['own_profiles']) or _NONE} in {settings['profiles_folder']}"
    yield from settings["environment"].items()
    terminal = document["terminal"]
    yield "output", f"{terminal['stdout_encoding']}, a terminal: {_SWITCH[terminal['stdout']]}"


def _llama(llama: Document) -> Iterator[Row]:
    if llama["error"] is not None:
        yield "llama.cpp", f"cannot be loaded: {llama['error']}"
        return
    yield "llama.cpp", f"{llama['build']}, ggml {llama['commit']}"
    yield "build", f"{', '.join(llama['backends'])}; {' '.join(llama['features'])}"
    for device in llama["devices"]:
        yield "device", f"{device['name']}: {device['description']}, {size(device['free'])} of {size(device['total'])} free"


def _machine(document: Document) -> Iterator[Row]:
    cpu, memory = document["processor"], document["memory"]
    yield "processor", f"{cpu['name']}: {' '.join(cpu['features']) or 'instructions not known'}"
    yield (
        "cores",
        f"{cpu['physical_cores']} physical, {cpu['logical_cores']} logical, {cpu['usable_cores']} usable; load {cpu['load']}",
    )
    yield "threads", f"{cpu['threads']}, and {cpu['threads_batch']} for passes of several tokens"
    yield "GPUs", ", ".join(f"{gpu['name']} ({gpu['maker']})" for gpu in document["gpus"]) or "none found"
    limit = memory["limit_leaves"]
    yield (
        "memory",
        f"{size(memory['available'])} of {size(memory['total'])} free"
        + (f"; a limit leaves {size(limit)}" if limit is not None else ""),
    )
