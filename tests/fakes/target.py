"""A target over a few tokens: each row is a pure function of the tokens before it, and every broken promise raises."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache

import numpy as np

from specdec_cli.decoding.contracts import PassAborted, PassResult, Rows
from specdec_cli.decoding.sampling import Row
from specdec_cli.errors import BackendError

Prefix = tuple[int, ...]
Table = Callable[[Prefix], Row]  # the tokens so far -> the logits of the next one (n_vocab,)


class BrokenPromise(Exception):
    """Somebody used a fake as its protocol forbids. No SpecdecError, so that nothing takes it for a failure to handle."""


def hashed(n_vocab: int, seed: int = 0, *, scale: float = 3.0, order: int | None = None) -> Table:
    """Logits in [-scale, scale) that look random; order: they depend on so many last tokens alone."""

    @cache
    def row(prefix: Prefix) -> Row:
        seen = prefix if order is None else prefix[-order:]
        bits = np.frombuffer(hashlib.shake_128(repr((seed, seen)).encode()).digest(4 * n_vocab), dtype="<u4")
        return ((bits / 2**31 - 1) * scale).astype(np.float32)

    return row


def leaning(base: Table, script: Mapping[int, int], by: float = 60.0) -> Table:
    """The base, but at a position that the script names, its token is as good as certain."""

    def row(prefix: Prefix) -> Row:
        logits = base(prefix)
        token = script.get(len(prefix))
        if token is not None:
            logits = logits.copy()
            logits[token] += by
        return logits

    return row


def blended(a: Table, b: Table, weight: float) -> Table:
    """Logits between those of a (weight 0) and of b (weight 1): a draft that is like its target."""

    @cache
    def row(prefix: Prefix) -> Row:
        return ((1 - weight) * a(prefix) + weight * b(prefix)).astype(np.float32)

    return row


class TableTarget:
    """A Target over a table. Passes are numbered from 0, prompt passes included.

    abort_at, fail_at: the pass that raises PassAborted, BackendError. left_over: tokens of it that stay in the cache.
    fail_keep_at: the truncation, numbered from 0, that fails; after it, only failing truncations are allowed.
    """

    def __init__(
        self,
        table: Table,
        *,
        n_ctx: int = 64,
        max_pass: int = 32,
        max_piece: int | None = None,
        abort_at: int | None = None,
        fail_at: int | None = None,
        left_over: int = 0,
        fail_keep_at: int | None = None,
    ) -> None:
        self.table = table
        self.n_vocab = table((0,)).size
        self.n_ctx = n_ctx
        self.max_pass = max_pass
        self.max_piece = max_pass if max_piece is None else max_piece
        self.cached: list[int] = []
        self.passes: list[Prefix] = []  # the tokens of each pass
        self.n_decoded: Counter[Prefix] = Counter()  # how often a token was passed at the end of just this prefix
        self.abort_at, self.fail_at, self.left_over = abort_at, fail_at, left_over
        self._fail_keep_at = fail_keep_at
        self._n_keeps = 0
        self._stuck = False
        self._buffer = np.full((max_pass, self.n_vocab), np.nan, dtype=np.float32)

    @property
    def n_cached(self) -> int:
        return len(self.cached)

    def decode(self, tokens: Sequence[int], *, last_only: bool = False) -> PassResult:
        n = len(tokens)
        n_rows = 1 if last_only else n
        if n_rows > self.max_pass:
            raise BrokenPromise(f"{n_rows} rows asked for, a pass gives {self.max_pass}")
        self._pass(tokens)
        for i in range(n_rows):
            self._buffer[i] = self.table(tuple(self.cached[: len(self.cached) - n_rows + 1 + i]))
        return PassResult(self._buffer[:n_rows], 0.0, n)

    def feed(self, tokens: Sequence[int]) -> float:
        self._pass(tokens)
        return 0.0

    def keep(self, n: int) -> None:
        if not 0 <= n <= len(self.cached):
            raise BrokenPromise(f"asked to keep {n} of {len(self.cached)} tokens")
        if self._n_keeps == self._fail_keep_at or self._stuck:
            self._stuck = True
            raise BackendError("The cache did not go back.")
        self._n_keeps += 1
        del self.cached[n:]

    def _pass(self, tokens: Sequence[int]) -> None:
        """Append tokens; whoever still reads the rows of an earlier pass reads NaN."""
        self._buffer[:] = np.nan
        if self._stuck:
            raise BrokenPromise("a pass over a cache that did not go back")
        if not 1 <= len(tokens) <= max(self.max_piece, self.max_pass):
            raise BrokenPromise(f"a pass of {len(tokens)} tokens; {self.max_piece} fit")
        if len(self.cached) + len(tokens) > self.n_ctx:
            raise BrokenPromise(f"{len(tokens)} tokens after {len(self.cached)}; the context holds {self.n_ctx}")
        for token in tokens:
            if not isinstance(token, int) or not 0 <= token < self.n_vocab:
                raise BrokenPromise(f"{token!r} is no token; there are {self.n_vocab}")
        number = len(self.passes)
        self.passes.append(tuple(tokens))
        if number in (self.abort_at, self.fail_at):
            self.cached.extend(tokens[: self.left_over])
            raise PassAborted if number == self.abort_at else BackendError("The pass failed.")
        for token in tokens:
            self.cached.append(token)
            self.n_decoded[tuple(self.cached)] += 1


def rows_after(table: Table, context: Sequence[int], tokens: Sequence[int]) -> Rows:
    """The rows (n + 1, n_vocab) that one pass over [context[-1], *tokens] gives."""
    whole = (*context, *tokens)
    return np.stack([table(whole[: len(context) + i]) for i in range(len(tokens) + 1)])
