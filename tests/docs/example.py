"""The drafter that stands in the page about adding one."""

from __future__ import annotations

from collections.abc import Callable

from specdec_cli.decoding.contracts import Drafter
from tests.docs.pages import block

NAME = "pair"


def _maker() -> Callable[[], Drafter]:
    code = block("adding-a-drafter.md", "python")
    names: dict[str, object] = {"__name__": "example"}
    exec(compile("\n" * (code.line - 1) + code.text, str(code.page), "exec"), names)
    found = names["PairDrafter"]
    assert callable(found)
    return found


documented_drafter = _maker()
