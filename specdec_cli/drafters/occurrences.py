"""Where the last tokens of a text occurred before: in a text that grows and shrinks, and in one that never changes."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

LENGTHS = (16, 8, 4, 2, 1)  # tokens of the runs that are looked up
N_RECENT = 4  # of the places where a run occurred, so many of the latest count

_FACTORS = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F))  # odd, and as good as random
_HALF = np.uint64(32)


class Occurrences(Protocol):
    """Looks runs of tokens up. A place is the position of the token that followed the run."""

    def __len__(self) -> int: ...

    def __getitem__(self, at: int) -> int: ...

    def find(self, tokens: Sequence[int]) -> Iterator[tuple[int, list[int]]]:
        """For each length of which the last tokens occurred, longest first: the length, and the latest places."""


class Growing:
    """The runs of a text, by their hashes; the work of a token does not depend on the length of the text.

    Two runs with one hash would cost a refused draft, no more.
    """

    def __init__(self) -> None:
        self._text = array("i")
        self._latest: tuple[dict[int, int], ...] = tuple({} for _ in LENGTHS)  # hash of a run -> its latest place
        self._before = tuple(array("i") for _ in LENGTHS)  # for each place, the place of the same run before it, or -1

    def __len__(self) -> int:
        return len(self._text)

    def __getitem__(self, at: int) -> int:
        return self._text[at]

    def last(self, n: int) -> list[int]:
        """The last n tokens, or all."""
        return self._text[-n:].tolist()

    def follow(self, context: Sequence[int], changed: int) -> None:
        """Become the context, of which nothing below changed differs from what was seen last."""
        n = min(changed, len(self._text))
        end = min(len(context), len(self._text))
        while n < end and self._text[n] == context[n]:
            n += 1
        self.truncate(n)
        for token in context[n:]:
            self._append(token)

    def truncate(self, n: int) -> None:
        """Forget all but the first n tokens."""
        for place in range(len(self._text) - 1, n - 1, -1):
            for length, latest, before in zip(LENGTHS, self._latest, self._before, strict=True):
                earlier = before.pop()
                if place < length:
                    continue
                if earlier < 0:
                    del latest[self._key(place, length)]
                else:
                    latest[self._key(place, length)] = earlier
            self._text.pop()

    def find(self, tokens: Sequence[int]) -> Iterator[tuple[int, list[int]]]:
        """See Occurrences.find."""
        for length, latest, before in zip(LENGTHS, self._latest, self._before, strict=True):
            if length > len(tokens):
                continue
            place = latest.get(hash(tuple(tokens[-length:])), -1)
            places: list[int] = []
            while place >= 0 and len(places) < N_RECENT:
                places.append(place)
                place = before[place]
            if places:
                yield length, places

    def _append(self, token: int) -> None:
        place = len(self._text)
        for length, latest, before in zip(LENGTHS, self._latest, self._before, strict=True):
            if place < length:
                before.append(-1)
            else:
                key = self._key(place, length)
                before.append(latest.get(key, -1))
                latest[key] = place
        self._text.append(token)

    def _key(self, place: int, length: int) -> int:
        return hash(tuple(self._text[place - length : place]))


class Corpus:
    """The runs of a text that stays as it is: for each length their hashes in order, 12 bytes a token."""

    def __init__(self, tokens: Sequence[int]) -> None:
        self._text = np.array(tokens, dtype=np.int32)
        self._runs: list[tuple[int, npt.NDArray[np.uint64], npt.NDArray[np.int32]]] = []
        for length, hashes in _hashes(self._text):
            hashes = hashes[: max(len(self._text) - length, 0)]  # the last run has nothing after it
            order = np.argsort(hashes, kind="stable")
            self._runs.append((length, hashes[order], (order + length).astype(np.int32)))
        self._runs.reverse()

    def __len__(self) -> int:
        return len(self._text)

    def __getitem__(self, at: int) -> int:
        return int(self._text[at])

    def find(self, tokens: Sequence[int]) -> Iterator[tuple[int, list[int]]]:
        """See Occurrences.find. A run of one token says nothing here: a corpus holds nearly all of them."""
        sought = {
            length: hashes[-1] for length, hashes in _hashes(np.array(tokens[-LENGTHS[0] :], dtype=np.int32)) if len(hashes)
        }
        for length, hashes, places in self._runs:
            if length not in sought:
                continue
            low, high = np.searchsorted(hashes, sought[length]), np.searchsorted(hashes, sought[length], side="right")
            if low < high:
                yield length, places[max(low, high - N_RECENT) : high][::-1].tolist()


def _hashes(text: npt.NDArray[np.int32]) -> Iterator[tuple[int, npt.NDArray[np.uint64]]]:
    """For 2, 4, 8, ... tokens: the hash of the run that begins at each place; two halves make a run."""
    hashes: npt.NDArray[np.uint64] = text.astype(np.uint64)
    length = 1
    while length < LENGTHS[0]:
        first, second = hashes[:-length], hashes[length:]
        mixed = np.multiply(first, _FACTORS[0]) + np.multiply(second ^ (second >> _HALF), _FACTORS[1])
        hashes = mixed ^ (mixed >> _HALF)
        length *= 2
        yield length, hashes
