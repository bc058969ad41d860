"""Renders chat templates for the process that started this one: a template is a program out of a downloaded file.

Run as a script: a line of JSON in, a line out. What no sandbox stops (a loop without end, ten to the power of ten to the
power of ten, a string of a gigabyte) ends with this process.
"""

from __future__ import annotations

import functools
import json
import signal
import sys
from collections.abc import Callable
from datetime import datetime
from typing import Any, Protocol

from jinja2 import nodes
from jinja2.exceptions import SecurityError, TemplateSyntaxError
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

MAX_MEMORY_BYTES = 512 << 20
_MAX_WHY = 500


class _GenerationTag(Extension):
    """{% generation %} marks what a model is trained on; here it means nothing."""

    tags = {"generation"}  # noqa: RUF012 (as jinja2 declares it)

    def parse(self, parser: Parser) -> list[nodes.Node]:
        parser.stream.skip(1)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class _Raised(Exception):
    """The template's own raise_exception(text)."""


class _TooLong(Exception):
    pass


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _raise_exception(message: object) -> None:
    raise _Raised(str(message))


def _strftime_now(form: str) -> str:
    return datetime.now().strftime(form)


class _Render(Protocol):
    def __call__(self, messages: list[dict[str, Any]], add_generation_prompt: bool, max_chars: int) -> str: ...


def compile_template(source: str, bos_token: str, eos_token: str) -> _Render:
    """The template as a function, in the environment that the authors of chat templates write for."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_GenerationTag, "jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = _tojson
    template = environment.from_string(source)

    def render(messages: list[dict[str, Any]], add_generation_prompt: bool, max_chars: int) -> str:
        pieces, n_chars = [], 0
        for piece in template.generate(
            messages=messages,
            add_generation_prompt=add_generation_prompt,
            bos_token=bos_token,
            eos_token=eos_token,
            enable_thinking=True,  # as llama.cpp; and like it no tools, functions or documents, not even as none
            raise_exception=_raise_exception,
            strftime_now=_strftime_now,
        ):
            n_chars += len(piece)
            if n_chars > max_chars:
                raise _TooLong
            pieces.append(piece)
        return "".join(pieces)

    return render


def _answer(job: Callable[[], str]) -> dict[str, str]:
    try:
        return {"text": job()}
    except _Raised as error:
        return {"fault": "raised", "why": str(error)[:_MAX_WHY]}
    except TemplateSyntaxError as error:
        return {"fault": "syntax", "why": f"line {error.lineno}: {error.message}"}
    except SecurityError as error:
        return {"fault": "forbidden", "why": str(error)}
    except _TooLong:
        return {"fault": "limit", "why": "Its text is far longer than the messages."}
    except MemoryError:
        return {"fault": "limit", "why": f"It needs more than {MAX_MEMORY_BYTES >> 20} MiB of memory."}
    except RecursionError:
        return {"fault": "limit", "why": "It is nested, or calls itself, too deeply."}
    except OverflowError as error:  # range(10**9) and its like
        return {"fault": "limit", "why": str(error)}
    except Exception as error:
        return {"fault": "failed", "why": f"{type(error).__name__}: {error}"[:_MAX_WHY]}


def _limit_memory() -> None:
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    except (ImportError, ValueError, OSError):
        pass  # Windows, macOS: there the time limit has to do


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that started this one
    _limit_memory()
    compiled = functools.lru_cache(maxsize=1)(compile_template)
    _write({"text": "ready"})
    for line in sys.stdin.buffer:
        request = json.loads(line)
        template = request.pop("source"), request.pop("bos_token"), request.pop("eos_token")
        _write(_answer(lambda: compiled(*template)(**request)))  # noqa: B023 (it is called at once)


def _write(reply: dict[str, str]) -> None:
    sys.stdout.write(json.dumps(reply) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
