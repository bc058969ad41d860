"""A context that counts how much of it is read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import overload


class CountingList(Sequence[int]):
    """Tokens; n_read counts those that were read."""

    def __init__(self, tokens: list[int]) -> None:
        self.tokens = tokens
        self.n_read = 0

    def __len__(self) -> int:
        return len(self.tokens)

    @overload
    def __getitem__(self, at: int) -> int: ...
    @overload
    def __getitem__(self, at: slice) -> list[int]: ...
    def __getitem__(self, at: int | slice) -> int | list[int]:
        found = self.tokens[at]
        self.n_read += len(found) if isinstance(found, list) else 1
        return found

    def __iter__(self) -> Iterator[int]:
        self.n_read += len(self.tokens)
        return iter(self.tokens)
