"""The command run: complete one prompt."""

from __future__ import annotations

import os

from specdec_cli.cli.options import Given, model_reference, settings_command
from specdec_cli.cli.prompt import read_prompt
from specdec_cli.settings.resolve import resolve
from specdec_cli.settings.table import RUN


@settings_command("run", (*RUN, "trace"), words=("model", "prompt"))
def app(given: Given) -> int:
    """Complete a prompt, drafting where that makes it faster.

    MODEL is a GGUF file, a hub reference, or demo. The prompt comes from the second word, from -p, from -f, or from
    standard input.
    """
    settings = resolve(given, os.environ)
    model_reference(settings)
    prompt = read_prompt(settings)
    from specdec_cli.cli import running  # llama.cpp is loaded only for what can be run

    return running.execute(settings, prompt)
