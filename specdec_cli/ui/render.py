"""Turns numbers into words, and rich's objects into plain text, with styles where they are allowed."""

from __future__ import annotations

from io import StringIO

from rich.console import Console, RenderableType

NOT_KNOWN = "n/a"


def number(value: float | None, digits: int) -> str:
    """A number, or that there is none."""
    return NOT_KNOWN if value is None else f"{value:.{digits}f}"


def counted(rate: float | None, part: int, whole: int) -> str:
    """A rate with the counts it is made of."""
    return f"{number(rate, 3)} ({part}/{whole})"


def render(renderable: RenderableType, *, colour: bool, columns: int) -> str:
    """What rich makes of an object, without blanks at the ends of lines and without the last newline."""
    return "\n".join(rendered_lines(renderable, colour=colour, columns=columns)).rstrip("\n")


def rendered_lines(renderable: RenderableType, *, colour: bool, columns: int) -> list[str]:
    """The lines that rich makes of an object, empty ones at the end included, without blanks at their ends."""
    console = Console(
        file=StringIO(),
        width=columns,
        force_terminal=colour,
        color_system="standard" if colour else None,
        no_color=not colour,
        legacy_windows=False,
        markup=False,
        emoji=False,
        highlight=False,
    )
    with console.capture() as capture:
        console.print(renderable)
    return [line.rstrip() for line in capture.get().removesuffix("\n").split("\n")] if capture.get() else []
