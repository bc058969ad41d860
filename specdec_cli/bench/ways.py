"""The ways to decode that tune compares, and the sessions behind them: those that differ in draft length share one."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from specdec_cli import drafters
from specdec_cli.bench.measure import Interrupted, generated
from specdec_cli.bench.results import PLAIN
from specdec_cli.bench.variants import Variant, plans
from specdec_cli.decoding.contracts import FinishReason, SamplingParams
from specdec_cli.decoding.governor import FixedGovernor
from specdec_cli.decoding.loop import Event
from specdec_cli.errors import SpecdecError, UsageError
from specdec_cli.llama.options import ModelOptions
from specdec_cli.options import SessionOptions
from specdec_cli.pairing.planned import Plan
from specdec_cli.session import Request, Session

_WITH_NGRAM = f"+{drafters.NGRAM}"
_ANY_TEXT, _N_WARM_UP = "one two three one two three", 8  # tokens: the first run of a session pays for what no other does


@dataclass(frozen=True, slots=True)
class Draft:
    """A draft model that may be tried."""

    reference: str  # as --draft takes it
    path: Path
    options: ModelOptions


@dataclass(frozen=True, slots=True)
class Way:
    """A candidate: which drafters, and how far they draft."""

    name: str
    session: str  # the name of the session that it runs in
    draft: str  # what stands behind --draft
    n_max: int
    fixed: bool = False  # always n_max; else as far as pays


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to be tried, as sessions: plain decoding, ngram, each draft alone, and with ngram."""

    variants: tuple[Variant, ...]  # the first is plain decoding
    drafts: Mapping[str, str]  # by the session's name, what stands behind --draft
    plans: Mapping[str, Plan]
    left_out: Mapping[str, str]  # by the session's name, why it cannot run


def asked(base: SessionOptions, drafts: Sequence[Draft]) -> Asked:
    """Everything that can run by itself. Raises SpecdecError where plain decoding cannot."""
    base = dataclasses.replace(base, governed=True, n_min=0, p_min=0.0, draft=None, draft_optional=False, shadow=False)
    plain = Variant(PLAIN, dataclasses.replace(base, drafters=(), exact=False))
    planned, left_out = plans([plain]), {}
    found, behind = [plain], {}
    for variant, reference in _drafting(base, drafts):
        if variant.name.removesuffix(_WITH_NGRAM) in left_out:
            continue
        try:
            planned |= plans([variant])
        except SpecdecError as error:
            left_out[variant.name] = f"{error.what} {error.why}".strip()
            continue
        found.append(variant)
        behind[variant.name] = reference
    return Asked(tuple(found), behind, planned, left_out)


def _drafting(base: SessionOptions, drafts: Sequence[Draft]) -> Iterator[tuple[Variant, str]]:
    yield Variant(drafters.NGRAM, dataclasses.replace(base, drafters=(drafters.NGRAM,))), drafters.NGRAM
    taken = {PLAIN, drafters.NGRAM}
    for draft in drafts:
        stem = draft.path.stem
        name = next(each for each in (stem, *(f"{stem}-{n}" for n in range(2, len(drafts) + 4))) if each not in taken)
        taken.add(name)
        one = dataclasses.replace(base, drafters=(drafters.MODEL,), draft=draft.options)
        yield Variant(name, one), draft.reference
        both = dataclasses.replace(one, drafters=(drafters.MODEL, drafters.NGRAM))
        yield Variant(f"{name}{_WITH_NGRAM}", both), f"{draft.reference},{drafters.NGRAM}"


def ways(session: str, draft: str, n_max: int, lengths: Sequence[int]) -> list[Way]:
    """The candidates of one session: drafting as far as pays, and the fixed lengths that are worth trying."""
    found = [Way(session, session, draft, n_max)]
    if not draft.endswith(f",{drafters.NGRAM}"):  # with one length for all, several drafters would be but the first
        found += [Way(f"{session}, fixed {k}", session, draft, k, fixed=True) for k in lengths if k <= n_max]
    return found


class Sessions:
    """Opens sessions when they are needed. A context manager: on leaving, all are closed."""

    def __init__(self, variants: Sequence[Variant], make: Callable[[SessionOptions], Session], *, together: bool) -> None:
        self._options = {variant.name: variant.options for variant in variants}
        self._make = make
        self.together = together  # all of them may be open at once
        self._open: dict[str, Session] = {}

    def get(self, name: str) -> Session:
        """A session, loaded and warm. Raises SpecdecError, PassAborted, Interrupted."""
        if name in self._open:
            return self._open[name]
        if not self.together:
            self.close()
        session = self._open[name] = self._make(self._options[name])
        if name != PLAIN and session.drafter is None:
            raise UsageError(
                f"{session.options.target.path.name} cannot be drafted for, so there is nothing to tune.",
                "Its cache cannot drop tokens again (a recurrent or hybrid model), which every refused draft token needs.",
                "Decode plainly: --draft none.",
            )
        warm_up = Request(session.encode(_ANY_TEXT, None, raw=True), SamplingParams(temperature=0), _N_WARM_UP, ignore_eos=True)
        if generated(session, warm_up).stats.finish in (FinishReason.INTERRUPTED, None):
            raise Interrupted
        return session

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        while self._open:
            self._open.popitem()[1].close()


def ready(asked: Asked, sessions: Sessions) -> Asked:
    """Without what does not start although its plan said so. Raises UsageError for a target that cannot be drafted for."""
    left_out = dict(asked.left_out)
    for variant in asked.variants[1:]:
        if variant.name.removesuffix(_WITH_NGRAM) in left_out:
            continue
        try:
            sessions.get(variant.name)
        except UsageError:
            raise
        except SpecdecError as error:
            left_out[variant.name] = f"{error.what} {error.why}".strip()
    found = tuple(each for each in asked.variants if each.name.removesuffix(_WITH_NGRAM) not in left_out)
    return dataclasses.replace(asked, variants=found, left_out=left_out)


class Engine:
    """A session that drafts as one way says; None: as it does by itself."""

    def __init__(self, session: Session, way: Way | None) -> None:
        self._session = session
        self._way = way

    def forget(self) -> None:
        self._session.forget()

    def generate(self, request: Request, /) -> Iterator[Event]:
        way = self._way
        governor = FixedGovernor(min(way.n_max, self._session.n_draft_max)) if way is not None and way.fixed else None
        return self._session.generate(request, governor=governor)

    def close(self) -> None:
        self._session.close()
