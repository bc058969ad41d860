"""A talk with a loaded model: asks, streams the answer, and reports what of each turn the caches saved."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from specdec_cli.chat import thinking
from specdec_cli.chat.room import ContextPolicy, Fitted, fit
from specdec_cli.chat.talk import Document, Figures, ModelName, Talk, Turn, message_text
from specdec_cli.chat.thinking import Part, Piece, Splitter
from specdec_cli.chat.totals import Totals
from specdec_cli.decoding.contracts import Constraint, Ended, FinishReason, PromptPass, Round, SamplingParams
from specdec_cli.decoding.loop import Event
from specdec_cli.decoding.stats import RunStats
from specdec_cli.errors import UsageError
from specdec_cli.session import Request, Session

_SEEDS = 1 << 32


@dataclass(frozen=True, slots=True)
class Ask:
    """How an answer is to be drawn."""

    params: SamplingParams
    n_predict: int = -1
    stops: tuple[str, ...] = ()
    constraint: Constraint | None = None
    ignore_eos: bool = False


@dataclass(frozen=True, slots=True)
class Count:
    """What a question would pass through the target."""

    n_prompt: int  # tokens of the whole talk with it
    n_reused: int  # of these, in the cache already
    n_new: int
    expected_s: float | None  # None where nothing was measured yet


@dataclass(frozen=True, slots=True)
class Sending:
    """The first event of a turn, before anything is passed."""

    count: Count
    n_dropped_turns: int  # that were left out just now, for lack of room
    n_dropped_tokens: int


@dataclass(frozen=True, slots=True)
class Spoken:
    """What a round added to the shown text. round is None for what was held back until the end."""

    pieces: tuple[Piece, ...]
    round: Round | None


@dataclass(frozen=True, slots=True)
class TurnReport:
    """What a turn came to."""

    turn: Turn
    stats: RunStats
    n_prompt: int
    n_reused: int
    n_passed: int  # prompt tokens that went through the target, from the first one that differs from its cache
    n_fed: int  # tokens that the draft model had to catch up on in passes of their own
    n_dropped_turns: int
    n_dropped_tokens: int
    plain_token_s: float | None  # a plain pass on this machine
    speed_up: float | None  # plain passes for as many tokens / what the rounds took
    n_context: int  # tokens of the context in use now
    n_ctx: int


@dataclass(frozen=True, slots=True)
class Finished:
    """The last event of a turn, which is in the talk by now."""

    report: TurnReport


Generate = Callable[[Session, Request], Iterator[Event]]
ChatEvent = Sending | PromptPass | Spoken | Finished


def model_names(session: Session) -> tuple[ModelName, ...]:
    """The models of a session, as a turn remembers them."""
    models = [context.model for context in session.contexts]
    return tuple(ModelName(model.role, model.options.path.name, model.options.path.stat().st_size) for model in models)


class Conversation:
    """A talk under way on a session. Between turns the session may be replaced, and its drafter changed.

    An error leaves the talk as it was. Raises PromptError for a model without a chat template. generate: what runs a request
    on the session; one that writes a trace besides, for instance.
    """

    def __init__(
        self,
        session: Session,
        talk: Talk | None = None,
        policy: ContextPolicy = ContextPolicy.FULL,
        generate: Generate | None = None,
    ) -> None:
        self.policy = policy
        self._generate = generate or (lambda session, request: session.generate(request))
        self.totals = Totals()
        self.talk = _fresh(talk, session.n_ctx) if talk is not None else Talk()
        self.pending: tuple[Document, ...] = ()
        self._use(session)

    def resume(self, session: Session) -> None:
        """Go on with another session. All turns are sent again, as far as they fit. Raises PromptError."""
        self._use(session)
        self.talk = dataclasses.replace(self.talk, n_dropped=0)

    def load(self, talk: Talk) -> None:
        """Go on with another talk. Turns that it left out in a shorter context are sent again."""
        self.talk, self.pending = _fresh(talk, self.session.n_ctx), ()

    def attach(self, document: Document) -> None:
        """Send a document with the next question."""
        self.pending = (*self.pending, document)

    def detach(self) -> None:
        """Send no document with the next question."""
        self.pending = ()

    def set_system(self, text: str | None) -> None:
        """Another system prompt from the next question on, or none."""
        self.talk = dataclasses.replace(self.talk, system=text or None)

    def clear(self) -> None:
        """Forget all turns and attachments. The system prompt stays."""
        self.talk, self.pending = Talk(self.talk.system), ()

    def last(self) -> Turn:
        """The last turn. Raises UsageError where there is none."""
        if not self.talk.turns:
            raise UsageError("There is no question yet.", "The talk is empty.", "Ask something first.")
        return self.talk.turns[-1]

    def undo(self) -> Turn:
        """Take the last turn back, and return it. Raises UsageError where there is none."""
        turn = self.last()
        self.talk = _without_last(self.talk)
        return turn

    def count(self, question: str = "") -> Count:
        """What a question, with the attached documents, would pass. Passes nothing. Raises PromptError."""
        return self._count(self._fit(self.talk, message_text(question, self.pending), n_predict=-1).ids)

    def ask(self, question: str, ask: Ask) -> Iterator[ChatEvent]:
        """Ask, with the attached documents. Raises PromptError, BackendError; see the class."""
        yield from self._turn(self.talk, question, self.pending, ask)

    def regen(self, ask: Ask) -> Iterator[ChatEvent]:
        """Ask the last question again, with the seed after the last one's: else a seed would bring the same answer."""
        last = self.last()
        again = dataclasses.replace(ask, params=dataclasses.replace(ask.params, seed=(last.seed + 1) % _SEEDS))
        yield from self._turn(_without_last(self.talk), last.question, last.documents, again)

    def edit(self, question: str, ask: Ask) -> Iterator[ChatEvent]:
        """Ask the last question in other words, with its documents and those attached since."""
        last = self.last()
        yield from self._turn(_without_last(self.talk), question, (*last.documents, *self.pending), ask)

    def _use(self, session: Session) -> None:
        session.encode_messages([{"role": "user", "content": "?"}])  # refuses a model that cannot talk
        self.session = session
        self._tags = thinking.tags_of(session.model.chat_template or "")
        self._spelled = _single_tokens(session, thinking.spellings(self._tags))

    def _turn(self, talk: Talk, question: str, documents: tuple[Document, ...], ask: Ask) -> Iterator[ChatEvent]:
        """Ask on top of a talk, with which the conversation goes on when the turn is over."""
        stats = RunStats()
        fitted = self._fit(talk, message_text(question, documents), ask.n_predict)
        yield Sending(self._count(fitted.ids), fitted.n_dropped_turns, fitted.n_dropped_tokens)
        answer = _Answer(Splitter(self._tags, thinking.opened_by(fitted.text, self._tags)))
        request = Request(fitted.ids, ask.params, ask.n_predict, ask.stops, ask.constraint, ask.ignore_eos, self._spelled)
        for event in self._generate(self.session, request):
            stats.add(event)
            if isinstance(event, Round):
                self.totals.add_round(event)
            spoken = answer.add(event)
            if isinstance(event, PromptPass):
                yield event
            elif isinstance(event, Round) or spoken.pieces:
                yield spoken
        turn = Turn(question, documents, answer.text, answer.thought, tuple(answer.ids), answer.finish, seed=ask.params.seed)
        report = self._report(turn, stats, fitted, answer)
        self.totals.add_turn(stats, report.n_prompt, report.n_reused, report.n_passed, report.n_fed)
        self.talk = dataclasses.replace(talk, turns=(*talk.turns, report.turn), n_dropped=fitted.n_dropped)
        if documents:
            self.pending = ()
        yield Finished(report)

    def _fit(self, talk: Talk, newest: str, n_predict: int) -> Fitted:
        return fit(self.session.encode_messages, talk, newest, self.session.n_ctx, self.policy, n_predict)

    def _count(self, ids: tuple[int, ...]) -> Count:
        n_reused, token_s = self.session.reusable(ids), self.session.prompt_token_s
        n_new = len(ids) - n_reused
        return Count(len(ids), n_reused, n_new, n_new * token_s if token_s is not None else None)

    def _report(self, turn: Turn, stats: RunStats, fitted: Fitted, answer: _Answer) -> TurnReport:
        session, plain_s = self.session, self.session.plain_token_s
        rounds_s = stats.draft_s + stats.pass_s + stats.host_s
        speed_up = plain_s * stats.n_emitted / rounds_s if plain_s is not None and rounds_s > 0 else None
        n_context = min(len(fitted.ids) + stats.n_emitted, session.n_ctx)  # a last token may have found no room
        # The last token of a prompt goes through with the first round.
        n_passed = max(answer.n_done - session.n_reused, 0) + (1 if stats.n_rounds else 0)
        figures = Figures(
            n_prompt=len(fitted.ids),
            n_reused=session.n_reused,
            n_passed=n_passed,
            n_fed=answer.n_fed,
            n_emitted=stats.n_emitted,
            n_drafted=stats.n_drafted,
            n_accepted=stats.n_accepted,
            tokens_per_pass=stats.mean_acceptance_length,
            tokens_per_s=stats.generation_tps,
            speed_up=speed_up,
            ttft_s=stats.ttft_s,
            n_context=n_context,
            n_ctx=session.n_ctx,
        )
        at = datetime.now(UTC).isoformat(timespec="seconds")
        turn = dataclasses.replace(turn, models=model_names(session), figures=figures, at=at)
        return TurnReport(
            turn=turn,
            stats=stats,
            n_prompt=figures.n_prompt,
            n_reused=figures.n_reused,
            n_passed=n_passed,
            n_fed=answer.n_fed,
            n_dropped_turns=fitted.n_dropped_turns,
            n_dropped_tokens=fitted.n_dropped_tokens,
            plain_token_s=plain_s,
            speed_up=speed_up,
            n_context=n_context,
            n_ctx=session.n_ctx,
        )


class _Answer:
    """An answer as it comes."""

    def __init__(self, splitter: Splitter) -> None:
        self.ids: list[int] = []
        self.finish = FinishReason.INTERRUPTED
        self.n_done = 0  # prompt tokens in the cache
        self.n_fed = 0
        self._splitter = splitter
        self._said: dict[Part, list[str]] = {part: [] for part in Part}

    @property
    def text(self) -> str:
        return "".join(self._said[Part.ANSWER])

    @property
    def thought(self) -> str:
        return "".join(self._said[Part.THINKING])

    def add(self, event: Event) -> Spoken:
        """Take an event of the run; returns what it adds to the shown text."""
        pieces: tuple[Piece, ...] = ()
        match event:
            case PromptPass():
                self.n_done = event.n_done
            case Round():
                self.ids += event.emitted
                self.n_fed += event.proposal.n_fed
                pieces = self._splitter.feed(event.text)
            case Ended():
                self.finish = event.finish
                pieces = self._splitter.feed(event.text) + self._splitter.finish()
        for piece in pieces:
            self._said[piece.part].append(piece.text)
        return Spoken(pieces, event if isinstance(event, Round) else None)


def _fresh(talk: Talk, n_ctx: int) -> Talk:
    """A talk as it goes on in a context of this size: what was left out for lack of room is sent again where there is more."""
    was = talk.turns[-1].figures.n_ctx if talk.turns else 0
    return dataclasses.replace(talk, n_dropped=0) if n_ctx > was else talk


def _without_last(talk: Talk) -> Talk:
    turns = talk.turns[:-1]
    return dataclasses.replace(talk, turns=turns, n_dropped=min(talk.n_dropped, len(turns)))


def _single_tokens(session: Session, texts: tuple[str, ...]) -> frozenset[int]:
    """The texts that the vocabulary has as one token each."""
    tokenize = session.model.vocabulary.tokenize
    found = [tokenize(text, add_special=False, parse_special=True) for text in texts]
    return frozenset(ids[0] for ids in found if len(ids) == 1)
