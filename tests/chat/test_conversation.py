"""Talks on a real model: what each turn passes, reuses and says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from specdec_cli import drafters
from specdec_cli.chat.conversation import Ask, Conversation, Finished, Sending, Spoken, TurnReport
from specdec_cli.chat.room import ContextPolicy
from specdec_cli.chat.talk import Document, Talk, messages
from specdec_cli.decoding.contracts import FinishReason, Governor, PassAborted, PromptPass, Round, SamplingParams, Target
from specdec_cli.decoding.loop import Event
from specdec_cli.decoding.replay import Cause, Recorder, explain, first_difference
from specdec_cli.errors import PairError, PromptError, SpecdecError, UsageError
from specdec_cli.llama.interrupt import Interrupt
from specdec_cli.llama.options import ModelOptions
from specdec_cli.session import Request, Session
from tests.cli.models import write_recurrent
from tests.gguf_files import copy_with_changes
from tests.test_session import Heard, options

pytestmark = pytest.mark.model

GREEDY = SamplingParams(temperature=0)
SHORT = Ask(GREEDY, n_predict=8)
QUESTIONS = (
    "Hello! Who are you?",
    "Name three colours.",
    "Which of them is the sea?",
    "And the grass?",
    "Grüße! ¿Qué tal?",
    "Count from one to five.",
    "And on to ten.",
    "Now the same in words.",
    "What was my first question?",
    "Goodbye!",
)


@dataclass
class Seen:
    """What a turn gave to the loop, and what the target really was fed."""

    request: Request
    recorder: Recorder
    rounds: list[Round] = field(default_factory=list)

    @property
    def n_fed(self) -> int:
        return sum(map(len, self.recorder.pieces)) + (1 if self.rounds else 0)


class Watched(Session):
    """A session that remembers every run."""

    seen: list[Seen]

    def generate(self, request: Request, *, target: Target | None = None, governor: Governor | None = None) -> Iterator[Event]:
        seen = Seen(request, Recorder(target or self.target))
        self.seen = [*getattr(self, "seen", []), seen]
        for event in super().generate(request, target=seen.recorder, governor=governor):
            if isinstance(event, Round):
                seen.rounds.append(event)
            yield event


def opened(path: Path, drafter: str = drafters.NONE, draft: Path | None = None, **changes: object) -> Watched:
    interrupt = changes.pop("interrupt", None) or Interrupt()
    assert isinstance(interrupt, Interrupt)
    return Watched(options(path, drafter, draft, changeable=True, **changes), Heard(), interrupt)


def ended(events: Iterator[object]) -> TurnReport:
    *_, last = events
    assert isinstance(last, Finished)
    return last.report


def answers(talk: Conversation) -> list[tuple[int, ...]]:
    return [turn.ids for turn in talk.talk.turns]


def test_ten_turns_pass_only_what_differs_from_the_cache(smollm2: Path) -> None:
    """Turn n is the whole history rendered at once; what is passed is all from the first id that the cache lacks; and the
    answers are those of a fresh session with the same pass boundaries, and of one that passes each history as one prompt."""
    with opened(smollm2) as session, opened(smollm2) as fresh:
        talk, again = Conversation(session), Conversation(fresh)
        cache: list[int] = []
        for i, question in enumerate(QUESTIONS):
            turns = talk.talk.turns
            report = ended(talk.ask(question, SHORT))
            seen = session.seen[-1]
            prompt = seen.request.prompt
            assert prompt == fresh.encode_messages(messages(None, turns, question)).ids
            n_common = min(first_difference(cache, prompt) or 0, len(prompt) - 1) if cache else 0
            assert (report.n_prompt, report.n_reused, report.n_passed) == (len(prompt), n_common, len(prompt) - n_common)
            assert seen.n_fed == report.n_passed
            assert not i or report.n_reused > 0.5 * len(prompt)
            cache = [*prompt, *report.turn.ids][:-1]
            assert ended(again.ask(question, SHORT)).turn.ids == report.turn.ids
        for seen, turn in zip(session.seen, talk.talk.turns, strict=True):
            fresh.forget()
            list(fresh.generate(seen.request))
            whole = fresh.seen[-1]
            ids = [token for done in whole.rounds for token in done.emitted]
            index = first_difference(turn.ids, ids)
            if index is not None:
                found = explain(fresh.target, fresh.job(seen.request), whole.recorder, whole.rounds, index)
                assert found.cause is Cause.ROUNDING, found


def test_exact_talks_are_the_same_with_every_drafter_and_none(smollm2: Path, smollm2_q4_0: Path) -> None:
    said = []
    for drafter, draft in ((drafters.NONE, None), (drafters.NGRAM, None), (drafters.MODEL, smollm2_q4_0)):
        with opened(smollm2, drafter, draft, exact=True) as session:
            talk = Conversation(session)
            for question in QUESTIONS[:4]:
                ended(talk.ask(question, Ask(GREEDY, n_predict=12)))
            said.append([(turn.answer, turn.ids) for turn in talk.talk.turns])
    assert said[0] == said[1] == said[2]


def test_a_models_own_draft_is_accepted_whole_in_every_turn(smollm2: Path) -> None:
    """One thread and flash attention: there all widths agree, so any drift of the draft's cache would show."""
    with opened(smollm2, drafters.MODEL, smollm2) as session:
        talk = Conversation(session)
        for question in QUESTIONS[:5]:
            report = ended(talk.ask(question, SHORT))
            assert report.stats.n_drafted
            assert report.stats.acceptance_rate == 1.0
        assert talk.totals.n_turns == 5
        assert talk.totals.drafters[drafters.MODEL].n_drafted == talk.totals.drafters[drafters.MODEL].n_accepted > 0


def test_the_events_of_a_turn_come_in_order_and_make_up_the_answer(smollm2: Path) -> None:
    with opened(smollm2) as session:
        talk = Conversation(session)
        events = list(talk.ask(QUESTIONS[0], SHORT))
        assert isinstance(events[0], Sending)
        assert isinstance(events[-1], Finished)
        kinds = [type(event) for event in events[1:-1]]
        assert kinds == sorted(kinds, key=[PromptPass, Spoken].index)
        text = "".join(piece.text for event in events if isinstance(event, Spoken) for piece in event.pieces)
        report = events[-1].report
        assert text == report.turn.answer
        assert report.turn.finish is FinishReason.LENGTH
        assert report.turn.figures.n_emitted == len(report.turn.ids) == 8
        assert report.n_context == report.n_prompt + 8
        assert report.plain_token_s
        assert report.speed_up
        assert events[0].count.n_new == report.n_passed
        assert talk.count(QUESTIONS[1]).n_reused > 0


def test_undo_regen_edit_and_clear(smollm2: Path) -> None:
    with opened(smollm2) as session:
        talk = Conversation(session, Talk("Be brief."))
        for operation in (talk.undo, talk.last, lambda: list(talk.regen(SHORT)), lambda: list(talk.edit("?", SHORT))):
            with pytest.raises(UsageError, match="no question"):
                operation()
        for question in QUESTIONS[:3]:
            ended(talk.ask(question, SHORT))
        first = answers(talk)
        assert ended(talk.regen(SHORT)).turn.ids == first[2]
        assert talk.last().seed == 1
        assert talk.undo().question == QUESTIONS[2]
        assert answers(talk) == first[:2]
        talk.attach(Document("a.txt", "The sea is green."))
        ended(talk.edit(QUESTIONS[2], SHORT))
        assert [turn.question for turn in talk.talk.turns] == [QUESTIONS[0], QUESTIONS[2]]
        assert [document.name for document in talk.last().documents] == ["a.txt"]
        assert not talk.pending
        sampled = Ask(SamplingParams(temperature=1.5, top_k=0, min_p=0, seed=3), n_predict=8)
        ended(talk.regen(sampled))
        drawn = talk.last().ids
        ended(talk.regen(sampled))
        assert talk.last().ids != drawn
        talk.clear()
        assert talk.talk == Talk("Be brief.")


def test_a_full_context_refuses_before_anything_is_passed_and_loses_nothing(smollm2: Path) -> None:
    with opened(smollm2, n_ctx=96) as session:
        talk = Conversation(session)
        ended(talk.ask("Hello!", SHORT))
        before, n_cached, n_runs = talk.talk, session.context.n_cached, len(session.seen)
        talk.attach(Document("long.txt", "word " * 60))
        with pytest.raises(PromptError, match="context is full"):
            list(talk.ask("And?", SHORT))
        with pytest.raises(PromptError, match="context is full"):
            talk.count("And?")
        assert (talk.talk, session.context.n_cached, len(session.seen)) == (before, n_cached, n_runs)
        assert len(talk.pending) == 1
        talk.detach()
        assert ended(talk.ask("And?", SHORT)).n_reused > 0
        kept = talk.talk
        with pytest.raises(PromptError, match=r"full|fit"):
            list(talk.edit("word " * 200, SHORT))
        assert talk.talk == kept
        report = ended(talk.ask("Go on.", Ask(GREEDY, ignore_eos=True)))
        assert report.turn.finish is FinishReason.CONTEXT
        assert report.n_context == report.n_ctx


def test_trimming_drops_whole_turns_and_passes_the_rest_again(smollm2: Path) -> None:
    with opened(smollm2, n_ctx=128) as session:
        talk = Conversation(session, policy=ContextPolicy.TRIM)
        reports = []
        for question in QUESTIONS:
            turns = talk.talk.turns
            reports.append(ended(talk.ask(question, SHORT)))
            sent = turns[talk.talk.n_dropped :]
            assert session.seen[-1].request.prompt == session.encode_messages(messages(None, sent, question)).ids
            assert session.seen[-1].n_fed == reports[-1].n_passed == reports[-1].n_prompt - reports[-1].n_reused
        trimmed = [report for report in reports if report.n_dropped_turns]
        assert 0 < len(trimmed) < 6
        assert all(report.n_dropped_tokens > 0 and report.n_prompt <= 96 for report in trimmed)
        assert len(talk.talk.turns) == len(QUESTIONS)
        assert sum(report.n_dropped_turns for report in reports) == talk.talk.n_dropped
        with pytest.raises(PromptError, match="question does not fit"):
            list(talk.ask("word " * 200, SHORT))
        assert Conversation(session, talk.talk).talk == talk.talk
    with opened(smollm2, n_ctx=512) as longer:
        assert Conversation(longer, talk.talk).talk.n_dropped == 0  # there is room again


@pytest.mark.parametrize("drafter", [drafters.NONE, drafters.MODEL])
def test_after_an_interruption_the_next_turn_goes_on_with_what_was_said(smollm2: Path, drafter: str) -> None:
    interrupt = Interrupt()
    draft = smollm2 if drafter == drafters.MODEL else None
    with opened(smollm2, drafter, draft, interrupt=interrupt) as session, opened(smollm2) as fresh:
        talk = Conversation(session)
        spoken = 0
        for event in talk.ask("Tell me a story.", Ask(GREEDY, n_predict=100)):
            spoken += isinstance(event, Spoken)
            if spoken == 2:
                interrupt.request()
        interrupt.clear()
        stopped = talk.last()
        assert stopped.finish is FinishReason.INTERRUPTED
        assert stopped.answer
        for event in talk.ask("Stopped before its first token.", SHORT):
            if isinstance(event, Sending):
                interrupt.request()
        interrupt.clear()
        assert talk.last().ids == ()
        report = ended(talk.ask("Go on.", SHORT))
        again = Conversation(fresh, Talk(None, (stopped,)))
        assert ended(again.ask("Go on.", SHORT)).turn.ids == report.turn.ids
        if drafter == drafters.MODEL:
            assert report.stats.acceptance_rate == 1.0


def test_the_drafter_changes_in_mid_talk_and_the_targets_cache_stays(smollm2: Path, smollm2_q4_0: Path, tmp_path: Path) -> None:
    with opened(smollm2, exact=True) as plain:
        straight = Conversation(plain)
        for question in QUESTIONS[:6]:
            ended(straight.ask(question, SHORT))
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("Blue, red and green.", encoding="utf-8")
    with opened(smollm2, exact=True) as session:
        talk = Conversation(session)
        ended(talk.ask(QUESTIONS[0], SHORT))
        changes = (
            ((drafters.MODEL, drafters.NGRAM), ModelOptions(smollm2_q4_0)),
            ((drafters.NGRAM,), None),
            ((drafters.MODEL,), ModelOptions(smollm2)),
            ((), None),
        )
        for (names, draft), question in zip(changes, QUESTIONS[1:5], strict=True):
            session.change_drafter(names, draft, corpus=corpus if drafters.NGRAM in names else None)
            assert session.drafter_name == (",".join(names) or drafters.NONE)
            assert len(session.contexts) == (2 if draft is not None else 1)
            report = ended(talk.ask(question, SHORT))
            assert report.n_reused > 0
            assert report.stats.n_drafted or draft is None
        session.change_drafter((drafters.MODEL,), ModelOptions(smollm2_q4_0))
        broken = tmp_path / "broken.gguf"
        broken.write_bytes(smollm2.read_bytes()[:5000])
        with pytest.raises(SpecdecError, match="draft"):
            session.change_drafter((drafters.MODEL,), ModelOptions(broken))
        assert session.drafter_name == drafters.MODEL
        assert ended(talk.ask(QUESTIONS[5], SHORT)).stats.n_drafted
        assert answers(talk) == answers(straight)


def test_the_draft_length_changes_in_mid_talk(smollm2: Path) -> None:
    with opened(smollm2, drafters.MODEL, smollm2) as session:
        talk = Conversation(session)
        for n in (2, 0, 4):
            session.change_draft_length(n)
            assert session.draft_length == n
            report = ended(talk.ask("Go on.", SHORT))
            assert max(done.n_drafted for done in session.seen[-1].rounds) == n
        with pytest.raises(UsageError, match="5 tokens"):
            session.change_draft_length(5)
        session.change_draft_length(None)
        assert session.draft_length is None
        report = ended(talk.ask("Go on.", SHORT))
        assert report.n_reused > 0


def test_a_draft_that_is_interrupted_while_it_loads_leaves_the_old_drafter(
    smollm2: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupt = Interrupt()
    with opened(smollm2, drafters.NGRAM, interrupt=interrupt) as session:
        talk = Conversation(session)
        ended(talk.ask(QUESTIONS[0], SHORT))
        interrupt.request()
        with pytest.raises((PassAborted, SpecdecError)):
            session.change_drafter((drafters.MODEL,), ModelOptions(smollm2))
        assert session.drafter_name == drafters.NGRAM
        assert len(session.contexts) == 1
        assert ended(talk.ask(QUESTIONS[1], SHORT)).n_reused > 0


def test_another_target_takes_the_talk_over(smollm2: Path, smollm2_q4_0: Path) -> None:
    with opened(smollm2) as session:
        talk = Conversation(session)
        ended(talk.ask(QUESTIONS[0], SHORT))
    with opened(smollm2_q4_0) as other:
        talk.resume(other)
        report = ended(talk.ask(QUESTIONS[1], SHORT))
        assert report.n_reused == 0
        assert [turn.models[0].label for turn in talk.talk.turns] == [smollm2.name, smollm2_q4_0.name]


def tiny(path: Path, template: str | None, *, add_bos: bool) -> Path:
    """A model that writes bytes, and cannot undo tokens."""
    changes = {"tokenizer.chat_template": template, "tokenizer.ggml.add_bos_token": add_bos}
    return copy_with_changes(write_recurrent(path.with_name("base.gguf")), path, changes)


@pytest.mark.parametrize("add_bos", [True, False])
@pytest.mark.parametrize("written", ["{{ bos_token }}", "<s>", ""])
def test_there_is_one_start_token_over_all_turns(tmp_path: Path, written: str, add_bos: bool) -> None:
    template = written + "{% for m in messages %}{{ m.role[0] + ':' + m.content + ';' }}{% endfor %}"
    model = tiny(tmp_path / "tiny.gguf", template, add_bos=add_bos)
    with opened(model, n_ctx=256) as session:
        talk = Conversation(session)
        for question in ("one", "two", "three"):
            ended(talk.ask(question, Ask(GREEDY, n_predict=4, ignore_eos=True)))
            prompt = session.seen[-1].request.prompt
            assert prompt.count(1) == (1 if add_bos or written else 0)
            assert prompt[0] == 1 or not (add_bos or written)


def test_a_target_that_cannot_go_back_talks_plainly(tmp_path: Path) -> None:
    model = tiny(tmp_path / "tiny.gguf", "{% for m in messages %}{{ m.content + ';' }}{% endfor %}", add_bos=True)
    with opened(model, n_ctx=256) as session:
        talk = Conversation(session)
        ended(talk.ask("one", Ask(GREEDY, n_predict=4)))
        with pytest.raises(PairError, match="cannot be drafted for"):
            session.change_drafter((drafters.NGRAM,))
        ended(talk.ask("two", Ask(GREEDY, n_predict=4)))
        assert len(talk.talk.turns) == 2


def test_thinking_is_kept_apart_where_the_prompt_opens_it(tmp_path: Path) -> None:
    template = "{% for m in messages %}{{ m.content + ';' }}{% endfor %}<think>\n"
    model = tiny(tmp_path / "tiny.gguf", template, add_bos=True)
    with opened(model, n_ctx=256) as session:
        talk = Conversation(session)
        ended(talk.ask("one", Ask(GREEDY, n_predict=6, ignore_eos=True)))
        assert talk.last().answer == ""
        assert len(talk.last().ids) == 6


@pytest.mark.parametrize(
    ("template", "what"),
    [
        (None, "no chat template"),
        ("{{ raise_exception('no') }}", "refuses"),
        ("{% for %}", "syntax"),
        ("{% for i in range(10**9) %}{% endfor %}", "end"),
    ],
)
def test_a_model_that_cannot_talk_is_refused_at_once(tmp_path: Path, template: str | None, what: str) -> None:
    model = tiny(tmp_path / "tiny.gguf", template, add_bos=True)
    with opened(model, n_ctx=256) as session, pytest.raises(PromptError, match=what) as caught:
        Conversation(session)
    assert caught.value.fix
