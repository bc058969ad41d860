"""--exact: which widths of a pass give bit-identical rows, and a target that uses only such widths."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from specdec_cli.decoding.contracts import PassResult, Rows, Target
from specdec_cli.decoding.noise import noise_for

# Where windows of positions begin: below 257 tokens, just before multiples of 256 (there the part of the cache that a pass
# reads grows, so that of two passes from one place only the wider may cross), and past 1024.
_WINDOWS = (96, 250, 506, 1018, 1100)
_SPAN = 16  # positions of a window that every width covers
_MIN_PASSES = 3  # of each width in each window
_CHECK_EVERY = 64  # passes
_PROBE_STREAM = 3


@dataclass(frozen=True, slots=True)
class WidthReport:
    """What probing found. Widths that share a class gave the same bits in every row compared."""

    n_max: int  # widths 1 to n_max were probed
    classes: tuple[tuple[int, ...], ...]
    seconds: Mapping[int, float]  # the fastest pass of each width: what else the machine does must not choose the class
    n_positions: int  # positions at which rows were compared
    anchor: int | None  # the smallest width of the class to use; None where no class allows a draft

    @property
    def widths(self) -> tuple[int, ...]:
        """The class to use, rising; () where no class allows a draft."""
        return next((widths for widths in self.classes if widths[0] == self.anchor), ())

    def widened(self, n: int) -> int:
        """The width that a pass of n tokens gets; n itself where the class has none that is wide enough."""
        return next((width for width in self.widths if width >= n), n)

    @property
    def best_rate(self) -> float:
        """Tokens per second at the most that the class allows: every draft token accepted."""
        return max((width / self.seconds[width] for width in self.widths), default=0.0)


def probe(target: Target, n_max: int, *, seed: int = 0, anchor: int | None = None) -> Iterator[float | WidthReport]:
    """Compare every row of passes of 1 to n_max tokens. Yields progress in [0, 1], then the report; empties the cache.

    Each width decodes the same tokens as a run would: it keeps some rows of a pass, truncates, goes on from there; what it
    does not keep are companion tokens that differ from width to width. So what the cache holds is of its own making too.
    anchor: the width that an earlier, shorter probe chose; it stays, so that texts stay equal to those made before.
    """
    windows = [start for start in _WINDOWS if start + _SPAN + n_max <= target.n_ctx] or [0]
    n_tokens = windows[-1] + _SPAN + n_max
    text = _random_ids(target.n_vocab, n_tokens, seed)
    digests: dict[int, dict[int, bytes]] = {width: {} for width in range(1, n_max + 1)}
    times: dict[int, list[float]] = {width: [] for width in digests}
    target.keep(0)
    n_steps = len(windows) * (n_max + 1)
    for i, start in enumerate(windows):
        while target.n_cached < start:
            target.feed(text[target.n_cached : min(target.n_cached + target.max_piece, start)])
        yield (i * (n_max + 1) + 1) / n_steps
        for width in digests:
            _decode_window(target, text, start, width, digests[width], times[width])
            target.keep(start)
            yield (i * (n_max + 1) + 1 + width) / n_steps
    target.keep(0)
    classes = _classes(digests)
    seconds = {width: min(measured) for width, measured in times.items()}
    if anchor is None or not any(widths[0] == anchor for widths in classes):
        anchor = _cheapest(classes, seconds)
    yield WidthReport(n_max, classes, seconds, len(windows) * _SPAN, anchor)


class PaddedTarget:
    """A target that decodes only with widths of one class, rounded up with throw-away tokens that are truncated again.

    Its inner target holds max(widths) - 1 tokens more than it offers. on_mismatch is called with the position when a
    running check finds that two widths of the class differ after all.
    """

    def __init__(self, inner: Target, widths: Sequence[int], n_ctx: int, on_mismatch: Callable[[int], None]) -> None:
        self._inner = inner
        self._widths = tuple(sorted(widths))
        self._on_mismatch = on_mismatch
        self._n_passes = 0
        self.n_ctx = n_ctx
        self.n_vocab = inner.n_vocab
        self.max_pass = self._widths[-1]

    @property
    def max_piece(self) -> int:
        return self._inner.max_piece

    @property
    def n_cached(self) -> int:
        return self._inner.n_cached

    def decode(self, tokens: Sequence[int], *, last_only: bool = False) -> PassResult:
        """A padded pass; the rows of the throw-away tokens are left out. They do ask for logits: without, the last layer
        would run at another width."""
        n_before = self._inner.n_cached
        width = next(width for width in self._widths if width >= len(tokens))
        self._n_passes += 1
        reference = self._row_at_another_width(tokens[0], width) if self._n_passes % _CHECK_EVERY == 0 else None
        result = self._inner.decode(_padded(tokens, width))
        self._inner.keep(n_before + len(tokens))
        if reference is not None and not _same_bits(reference, result.rows[0]):
            self._on_mismatch(n_before + 1)
        rows = result.rows[: len(tokens)]
        return PassResult(rows[-1:] if last_only else rows, result.seconds, width)

    def feed(self, tokens: Sequence[int]) -> float:
        return self._inner.feed(tokens)

    def keep(self, n: int) -> None:
        self._inner.keep(n)

    def _row_at_another_width(self, token: int, width: int) -> Rows | None:
        others = [other for other in self._widths if other != width]
        if not others:
            return None
        n_before = self._inner.n_cached
        other = others[self._n_passes // _CHECK_EVERY % len(others)]
        row: Rows = self._inner.decode(_padded((token,), other)).rows[0].copy()
        self._inner.keep(n_before)
        return row


def _padded(tokens: Sequence[int], width: int) -> list[int]:
    return [*tokens, *([tokens[-1]] * (width - len(tokens)))]


def _same_bits(a: Rows, b: Rows) -> bool:
    return bool(np.array_equal(a.view(np.uint32), b.view(np.uint32)))


def _decode_window(
    target: Target, text: Sequence[int], start: int, width: int, digests: dict[int, bytes], times: list[float]
) -> None:
    """Decode a window with passes of one width, keeping now all of a pass, now one token, now half."""
    at, n_passes = start, 0
    while at < start + _SPAN or n_passes < _MIN_PASSES:
        n_kept = min((width, 1, width, (width + 1) // 2)[n_passes % 4], len(text) - at)
        if n_kept <= 0:
            break
        companions = _random_ids(target.n_vocab, width - n_kept, at * 100 + width)
        result = target.decode([*text[at : at + n_kept], *companions])
        for i in range(n_kept):
            digests[at + i] = row_digest(result.rows[i])
        times.append(result.seconds)
        at += n_kept
        n_passes += 1
        target.keep(at)


def row_digest(row: Rows) -> bytes:
    """A digest of a row's bits (n_vocab,)."""
    return hashlib.blake2b(row.tobytes(), digest_size=16).digest()


def _random_ids(n_vocab: int, n: int, seed: int) -> list[int]:
    if n <= 0:
        return []
    noise = noise_for(seed, _PROBE_STREAM)
    return [int(noise.uniform(i) * n_vocab) for i in range(n)]


def _classes(digests: Mapping[int, Mapping[int, bytes]]) -> tuple[tuple[int, ...], ...]:
    """Widths with the same digest at every position that they have in common, smallest first."""
    classes: list[tuple[list[int], dict[int, bytes]]] = []
    for width, rows in digests.items():
        for members, seen in classes:
            if all(seen.get(position, digest) == digest for position, digest in rows.items()):
                members.append(width)
                seen.update(rows)
                break
        else:
            classes.append(([width], dict(rows)))
    return tuple(tuple(members) for members, _ in classes)


def _cheapest(classes: Sequence[tuple[int, ...]], seconds: Mapping[int, float]) -> int | None:
    """The smallest width of the class whose smallest width is cheapest, among those that allow a draft."""
    usable = [widths[0] for widths in classes if widths[-1] > 1]
    return min(usable, key=lambda width: seconds[width], default=None)
