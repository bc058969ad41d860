"""A grammar as a constraint: which tokens may follow, by llama.cpp's own grammar sampler."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field

import llama_cpp
import numpy as np
import numpy.typing as npt

from specdec_cli.decoding.contracts import Ids
from specdec_cli.errors import GrammarError
from specdec_cli.llama import library
from specdec_cli.llama.bounded import BoundedCalls
from specdec_cli.llama.gbnf import check_grammar

STEP_LIMIT_S = 10.0  # an honest step over 262,144 tokens takes some ten milliseconds

_CANDIDATE = np.dtype([("id", np.int32), ("logit", np.float32), ("p", np.float32)])  # llama_token_data
_HIDDEN = llama_cpp.LLAMA_TOKEN_ATTR_CONTROL | llama_cpp.LLAMA_TOKEN_ATTR_UNKNOWN
_NOT_ASKED, _SHOWN, _NOT_SHOWN = 0, 1, 2


class _State:
    """llama.cpp's grammar at one place. Freed when the last grammar or running call lets go of it."""

    def __init__(self, pointer: int) -> None:
        self.pointer = pointer
        weakref.finalize(self, llama_cpp.llama_sampler_free, pointer).atexit = False


@dataclass(slots=True)
class _Shared:
    """What a grammar and its copies have in common: none of them is ever asked while another one is."""

    vocabulary: int
    n_tokens: int
    calls: BoundedCalls
    shown: npt.NDArray[np.int8]  # (n_tokens,) whether a token appears in the text
    candidates: npt.NDArray[np.void] = field(default_factory=lambda: np.zeros(256, _CANDIDATE))

    def fill(self, ids: Ids) -> npt.NDArray[np.void]:
        """The candidates' buffer with these ids; it is overwritten by the next call."""
        if ids.size > len(self.candidates):
            self.candidates = np.zeros(ids.size, _CANDIDATE)
        filled = self.candidates[: ids.size]
        filled["id"] = ids
        filled["logit"] = 0.0
        return filled

    def is_shown(self, ids: Ids) -> npt.NDArray[np.bool_]:
        """Whether each token shows in the text or ends it. llama.cpp would take a control token for its spelling."""
        for token in ids[self.shown[ids] == _NOT_ASKED].tolist():
            hidden = llama_cpp.llama_vocab_get_attr(self.vocabulary, token) & _HIDDEN
            ends = llama_cpp.llama_vocab_is_eog(self.vocabulary, token)
            self.shown[token] = _NOT_SHOWN if hidden and not ends else _SHOWN
        shown: npt.NDArray[np.bool_] = self.shown[ids] == _SHOWN
        return shown


class Grammar:
    """A Constraint over the tokens of one vocabulary, whose model must outlive it. Copies are independent.

    When the text is complete only end-of-generation tokens may follow; after one of them, nothing.
    """

    def __init__(self, vocab_pointer: int, gbnf_text: str, root: str = "root") -> None:
        check_grammar(gbnf_text, root)
        library.clear_log()
        pointer = llama_cpp.llama_sampler_init_grammar(vocab_pointer, gbnf_text.encode("utf-8"), root.encode("utf-8"))
        if not pointer:
            raise GrammarError(
                "The grammar cannot be used.",
                f"llama.cpp says: {library.last_error() or 'nothing'}",
                "Try a smaller part of it to find the place.",
            )
        self._state = _State(pointer)
        self._ended = False
        n_tokens = llama_cpp.llama_vocab_n_tokens(vocab_pointer)
        self._shared = _Shared(vocab_pointer, n_tokens, BoundedCalls(STEP_LIMIT_S), np.zeros(n_tokens, np.int8))

    def allowed(self, ids: Ids) -> npt.NDArray[np.bool_]:
        """Whether each of the ids may follow; ids: (m,), result: (m,)."""
        if self._ended or not ids.size:
            return np.zeros(ids.shape, np.bool_)
        state = self._state
        known: npt.NDArray[np.bool_] = (ids >= 0) & (ids < self._shared.n_tokens)
        candidates = self._shared.fill(np.where(known, ids, 0))
        self._run(lambda: _apply(state, candidates))
        legal: npt.NDArray[np.bool_] = known & (candidates["logit"] == 0.0)
        legal[legal] = self._shared.is_shown(ids[legal])
        return legal

    def advance(self, token: int) -> None:
        """Take one token. Raises GrammarError for one that may not follow: llama.cpp would end the process."""
        if self._ended or not 0 <= token < self._shared.n_tokens:
            raise _misfit(token)
        state = self._state
        ids = np.array([token], np.int64)
        candidates = self._shared.fill(ids)
        ends = llama_cpp.llama_vocab_is_eog(self._shared.vocabulary, token)
        takes = bool(self._shared.is_shown(ids)[0]) and not ends

        def apply_and_take() -> None:
            _apply(state, candidates)
            if takes and candidates["logit"][0] == 0.0:
                llama_cpp.llama_sampler_accept(state.pointer, token)

        self._run(apply_and_take)
        if candidates["logit"][0] != 0.0 or not (takes or ends):
            raise _misfit(token)
        self._ended = ends

    def copy(self) -> Grammar:
        twin = object.__new__(Grammar)
        twin._shared = self._shared
        twin._ended = self._ended
        state = self._state
        made: list[_State] = []
        self._run(lambda: made.append(_State(llama_cpp.llama_sampler_clone(state.pointer))))
        twin._state = made[0]
        return twin

    def _run(self, job: Callable[[], None]) -> None:
        try:
            self._shared.calls.call(job)
        except TimeoutError as error:
            raise GrammarError(
                "The grammar has too many readings to go on with.",
                f"llama.cpp did not finish one step in {STEP_LIMIT_S:g} s.",
                "Let the next character decide which part it belongs to: ([a-z]+)* says no more than [a-z]*.",
            ) from error


def _apply(state: _State, candidates: npt.NDArray[np.void]) -> None:
    """Let llama.cpp set the logit of each candidate that may not follow to minus infinity."""
    data = ctypes.cast(candidates.ctypes.data, ctypes.POINTER(llama_cpp.llama_token_data))
    array = llama_cpp.llama_token_data_array(data, len(candidates), -1, False)
    llama_cpp.llama_sampler_apply(state.pointer, ctypes.byref(array))


def _misfit(token: int) -> GrammarError:
    return GrammarError(
        f"Token {token} does not fit the grammar at this place.",
        "A token is taken only after it was found legal.",
        "Start the generation again; if it comes back, report the grammar and the prompt.",
    )
