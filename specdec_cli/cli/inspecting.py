"""What inspect does once its settings are known: read the header, find the tokens asked for, show both."""

from __future__ import annotations

from specdec_cli.cli import answering
from specdec_cli.cli.describing import described, listed_tokens
from specdec_cli.cli.matching import matching
from specdec_cli.errors import EXIT_DONE
from specdec_cli.gguf.vocabulary import vocabulary
from specdec_cli.headers import open_header
from specdec_cli.settings.resolve import Settings
from specdec_cli.ui.inspected import render_inspected, render_tokens


def execute(settings: Settings, reference: str) -> int:
    """Show one model; returns the exit code."""
    pattern = settings.maybe("tokens", str)
    with answering.open_display(settings) as sink:
        header = open_header(reference, progress=sink.progress, offline=settings.value("offline", bool))
    tokens = None
    if pattern is not None:
        words = vocabulary(header)
        tokens = listed_tokens(words, matching(words, pattern))
    if settings.value("json", bool):
        found = {} if tokens is None else {"pattern": pattern, "tokens": tokens}
        answering.answer_json(described(header) | found)
    elif tokens is not None:
        answering.answer(render_tokens(tokens))
    else:
        whole = settings.value("verbose", bool)
        text = render_inspected(described(header), whole=whole, colour=answering.colour(), columns=answering.columns())
        answering.answer(text)
    return EXIT_DONE
