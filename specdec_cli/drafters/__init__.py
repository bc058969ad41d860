"""The drafters, one file each, and the table of the names that --draft takes."""

from __future__ import annotations

MODEL = "model"
NGRAM = "ngram"
NONE = "none"
AUTO = "auto"

NAMES = (NGRAM, NONE, AUTO)
