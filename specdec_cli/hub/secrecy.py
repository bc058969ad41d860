"""Tokens and signatures taken out of text before anybody sees it."""

from __future__ import annotations

import re

_HIDDEN = "***"
_RULES = (
    (re.compile(r"hf_[A-Za-z0-9]{4,}|api_org_[A-Za-z0-9]{4,}"), _HIDDEN),
    (re.compile(r"(?i)(bearer\s+)[^\s'\"]+"), rf"\1{_HIDDEN}"),
    (re.compile(r"(?<=://)[^/\s@]+@"), f"{_HIDDEN}@"),  # user and password of a proxy or an endpoint
    (
        re.compile(r"(https?://[^\s'\"?]+)\?[^\s'\"]+"),
        rf"\1?{_HIDDEN}",
    ),  # signed addresses carry their permission in the query
)


def scrub(text: str, token: str | None = None) -> str:
    if token:
        text = text.replace(token, _HIDDEN)
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    return text
