"""A grammar over a few tokens: a rule says which tokens may follow those taken."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from specdec_cli.decoding.contracts import Ids
from tests.fakes.target import BrokenPromise

Grammar = Callable[[tuple[int, ...]], frozenset[int]]  # the tokens taken -> those that may follow


def hashed_grammar(n_vocab: int, seed: int, length: int) -> Grammar:
    """About half of the tokens may follow, never none, until length tokens are taken: then nothing may."""

    def legal(taken: tuple[int, ...]) -> frozenset[int]:
        if len(taken) >= length:
            return frozenset()
        digest = hashlib.shake_128(repr((seed, taken)).encode()).digest(n_vocab + 1)
        return frozenset({digest[n_vocab] % n_vocab, *(i for i in range(n_vocab) if digest[i] < 128)})

    return legal


class FakeConstraint:
    """A Constraint that complains when it is handed an illegal token, as llama.cpp's ends the process."""

    def __init__(self, grammar: Grammar, taken: tuple[int, ...] = ()) -> None:
        self.taken = taken
        self._grammar = grammar

    def allowed(self, ids: Ids) -> npt.NDArray[np.bool_]:
        legal = self._grammar(self.taken)
        return np.array([int(token) in legal for token in ids], dtype=np.bool_)

    def advance(self, token: int) -> None:
        if token not in self._grammar(self.taken):
            raise BrokenPromise(f"the grammar was handed {token}, which may not follow {self.taken}")
        self.taken = (*self.taken, token)

    def copy(self) -> FakeConstraint:
        return FakeConstraint(self._grammar, self.taken)
