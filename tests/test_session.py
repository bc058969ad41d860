"""Sessions on a real model: what the fakes cannot show."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import chisquare

from specdec_cli import drafters
from specdec_cli.decoding.contracts import Ended, FinishReason, Kind, Offer, Plan, Proposal, Round, Sampler, SamplingParams
from specdec_cli.decoding.noise import noise_for
from specdec_cli.decoding.replay import Cause, Recorder, explain, first_difference
from specdec_cli.decoding.sampling import processed
from specdec_cli.decoding.verification import Rule
from specdec_cli.drafters.model import ModelDrafter
from specdec_cli.errors import ModelFileError, PromptError, SpecdecError, UsageError
from specdec_cli.llama.interrupt import Interrupt
from specdec_cli.llama.options import ContextOptions, FlashAttention, ModelOptions
from specdec_cli.options import SessionOptions
from specdec_cli.session import Request, Session
from tests.cli.models import write_recurrent

pytestmark = pytest.mark.model

STORY = "Write a short story about a dragon who lives in a cave by the sea.\n"
GREEDY = SamplingParams(temperature=0)
LIST = "Count: one, two, three, four, five, six, seven. Count again: one, two, three,"


@dataclass
class Heard:
    """A listener that remembers."""

    notices: list[str] = field(default_factory=list)

    def notice(self, sentence: str, /) -> None:
        self.notices.append(sentence)

    def progress(self, label: str, fraction: float | None, /) -> None: ...


@dataclass
class Result:
    tokens: list[int]
    text: str
    rounds: list[Round]
    finish: FinishReason


def options(path: Path, drafter: str = drafters.NONE, draft: Path | None = None, **changes: object) -> SessionOptions:
    n_ctx = changes.pop("n_ctx", 1024)
    n_threads = changes.pop("n_threads", 2 if changes.get("exact") else 1)
    context = ContextOptions(n_ctx=n_ctx, n_threads=n_threads, flash_attn=FlashAttention.ON)  # type: ignore[arg-type]
    # One thread makes tests quick on a busy machine; with two, width 1 rounds otherwise and --exact has something to do.
    base = SessionOptions(
        target=ModelOptions(path),
        context=context,
        drafters=(drafter,) if drafter != drafters.NONE else (),
        governed=False,
        n_max=4,
        draft=ModelOptions(draft) if draft is not None else None,
        draft_context=context,
    )
    return dataclasses.replace(base, **changes)  # type: ignore[arg-type]


def opened(chosen: SessionOptions, heard: Heard | None = None, interrupt: Interrupt | None = None) -> Session:
    return Session(chosen, heard or Heard(), interrupt or Interrupt())


def ids(session: Session, text: str) -> tuple[int, ...]:
    return session.encode(text, None, raw=True)


def run(session: Session, text: str | tuple[int, ...], n: int, params: SamplingParams = GREEDY, **more: object) -> Result:
    prompt = ids(session, text) if isinstance(text, str) else text
    request = Request(prompt, params, n, **more)  # type: ignore[arg-type]
    tokens: list[int] = []
    shown: list[str] = []
    rounds: list[Round] = []
    finish = None
    for event in session.generate(request):
        if isinstance(event, Round):
            tokens.extend(event.emitted)
            rounds.append(event)
        if isinstance(event, Round | Ended):
            shown.append(event.text)
        if isinstance(event, Ended):
            finish = event.finish
    assert finish is not None
    return Result(tokens, "".join(shown), rounds, finish)


def test_a_model_as_its_own_draft_accepts_every_token(smollm2: Path) -> None:
    """One thread and flash attention: there all widths agree, so any drift of the draft's cache would show."""
    chosen = options(smollm2, drafters.MODEL, smollm2)
    with opened(chosen) as session:
        result = run(session, STORY, 400)
        assert len(result.tokens) == 400
        assert all(done.n_accepted == done.n_drafted for done in result.rounds)
        # A second run on a context that shares a beginning: the caches are cut back and brought forward again.
        again = run(session, (*ids(session, STORY), *result.tokens[:50]), 60)
        assert again.tokens == result.tokens[50:110]
        assert all(done.n_accepted == done.n_drafted for done in again.rounds)


def test_a_corpus_is_copied_from_and_changes_no_text(smollm2: Path, tmp_path: Path) -> None:
    """One thread and flash attention: there all widths agree."""
    with opened(options(smollm2)) as session:
        plain = run(session, STORY, 60)
    corpus = tmp_path / "corpus.txt"
    corpus.write_text(STORY + plain.text, encoding="utf-8")
    with opened(options(smollm2, drafters.NGRAM, ngram_corpus=corpus)) as session:
        copied = run(session, STORY, 60)
    assert copied.text == plain.text
    assert len(copied.rounds) < 20


def test_a_corpus_that_cannot_be_read_is_refused_before_anything_is_loaded(tmp_path: Path) -> None:
    with pytest.raises(PromptError) as caught:
        opened(options(tmp_path / "no-model.gguf", drafters.NGRAM, ngram_corpus=tmp_path / "no-corpus.txt"))
    assert "corpus" in caught.value.what


class Disturbed:
    """A drafter that sometimes proposes nothing, or corrupts what another proposes."""

    name = "disturbed"

    def __init__(self, inner: ModelDrafter) -> None:
        self._inner = inner
        self.clean = True
        self._n = 0

    def offers(self, context: Sequence[int], changed: int) -> Mapping[str, Offer]:
        return self._inner.offers(context, changed)

    def propose(self, context: Sequence[int], changed: int, plan: Plan, sampler: Sampler) -> Proposal:
        self._n += 1
        self.clean = self._n % 5 > 1
        if self._n % 5 == 0:
            return Proposal(self.name)
        proposal = self._inner.propose(context, changed, plan, sampler)
        if self._n % 5 == 1:
            return dataclasses.replace(proposal, tokens=tuple((token + 1) % 1000 for token in proposal.tokens))
        return proposal

    def observe(self, result: object, verdict: object) -> None: ...

    def settle(self, n: int) -> None:
        self._inner.settle(n)


def test_the_drafts_cache_follows_empty_full_and_refused_rounds(smollm2: Path) -> None:
    with opened(options(smollm2, drafters.MODEL, smollm2)) as session:
        plain = run(session, STORY, 120)
        assert isinstance(session.drafter, ModelDrafter)
        session.drafter = disturbed = Disturbed(session.drafter)
        session.forget()
        tokens: list[int] = []
        for event in session.generate(Request(ids(session, STORY), GREEDY, 120)):
            if isinstance(event, Round):
                tokens.extend(event.emitted)
                if disturbed.clean:
                    assert event.n_accepted == event.n_drafted
        assert tokens == plain.tokens


@pytest.fixture(scope="module")
def exact_reference(smollm2: Path) -> Result:
    with opened(options(smollm2, exact=True, n_max=16)) as session:
        return run(session, STORY, 80)


@pytest.mark.parametrize("k", [1, 4, 16])
@pytest.mark.parametrize("drafter", [drafters.NGRAM, drafters.MODEL])
def test_exact_text_is_that_of_the_plain_exact_run(
    smollm2: Path, smollm2_q4_0: Path, exact_reference: Result, drafter: str, k: int
) -> None:
    draft = smollm2_q4_0 if drafter == drafters.MODEL else None
    with opened(options(smollm2, drafter, draft, exact=True, n_max=k)) as session:
        assert run(session, STORY, 80).text == exact_reference.text


def test_exact_seeded_text_is_that_of_the_plain_exact_run(smollm2: Path, smollm2_q4_0: Path) -> None:
    params = SamplingParams(temperature=0.8, seed=11)
    with opened(options(smollm2, exact=True)) as session:
        plain = run(session, STORY, 60, params)
    with opened(options(smollm2, drafters.MODEL, smollm2_q4_0, exact=True)) as session:
        drafted = run(session, STORY, 60, params)
    assert drafted.text == plain.text
    assert any(done.n_accepted for done in drafted.rounds)


def test_exact_says_its_price(smollm2: Path, exact_reference: Result) -> None:
    heard = Heard()
    with opened(options(smollm2, exact=True), heard):
        pass
    assert any(notice.startswith("exact: ") for notice in heard.notices)


def test_exact_and_rejection_exclude_each_other(smollm2: Path) -> None:
    with pytest.raises(UsageError, match="reject"):
        opened(options(smollm2, exact=True, rule=Rule.REJECT))


def test_a_difference_in_the_default_mode_is_proven_to_be_rounding(smollm2: Path, smollm2_q4_0: Path) -> None:
    prompt = "The quick brown fox jumps over the lazy dog near the river bank, and then it runs away. " * 22
    with opened(options(smollm2, n_threads=2)) as session:
        plain = run(session, prompt, 60)
    with opened(options(smollm2, drafters.MODEL, smollm2_q4_0, n_threads=2)) as session:
        request = Request(ids(session, prompt), GREEDY, 60)
        recorder = Recorder(session.target)
        rounds = [event for event in session.generate(request, target=recorder) if isinstance(event, Round)]
        tokens = [token for done in rounds for token in done.emitted]
        index = first_difference(plain.tokens, tokens)
        # Every token is checked, up to the difference if there is one.
        session.forget()
        found = explain(session.target, session.job(request), recorder, rounds, len(tokens) - 1 if index is None else index)
        assert found.cause is Cause.ROUNDING, found


@pytest.mark.parametrize("rule", list(Rule))
def test_sampled_tokens_follow_the_targets_distribution(smollm2: Path, smollm2_q4_0: Path, rule: Rule) -> None:
    """Chi-square of the first two tokens of many short seeded runs against the law computed from rows."""
    params = SamplingParams(temperature=0.9, top_k=6, top_p=0.95, min_p=0.02)
    with opened(options(smollm2, drafters.MODEL, smollm2_q4_0, rule=rule, n_max=2, n_ctx=256)) as session:
        prompt = ids(session, "My favourite animal is the")
        law = _law_of_two(session, prompt, params)
        counts = dict.fromkeys(law, 0)
        n_runs = 500
        for seed in range(n_runs):
            tokens = run(session, prompt, 2, dataclasses.replace(params, seed=seed)).tokens
            counts[(tokens[0], tokens[1])] += 1
    common = [pair for pair, p in law.items() if p * n_runs >= 5]
    observed = [*(counts[pair] for pair in common), sum(counts.values()) - sum(counts[pair] for pair in common)]
    expected = [*(law[pair] * n_runs for pair in common), n_runs * (1 - sum(law[pair] for pair in common))]
    assert chisquare(observed, np.array(expected) * sum(observed) / sum(expected)).pvalue > 1e-4


def _law_of_two(session: Session, prompt: tuple[int, ...], params: SamplingParams) -> dict[tuple[int, int], float]:
    context = session.context
    context.clear()
    context.feed(prompt[:-1])
    first = processed(context.decode(prompt[-1:]).rows[0].copy(), (), params)
    law: dict[tuple[int, int], float] = {}
    for token, p in zip(first.ids.tolist(), first.probs.tolist(), strict=True):
        second = processed(context.decode([token]).rows[0].copy(), (), params)
        context.keep(len(prompt))
        law |= {(token, int(then)): p * float(q) for then, q in zip(second.ids, second.probs, strict=True)}
    context.clear()
    return law


def test_penalties_and_bias_give_the_plain_text(smollm2: Path, smollm2_q4_0: Path) -> None:
    params = SamplingParams(temperature=0, repeat_penalty=1.5, logit_bias={28: -100.0, 30: -100.0})
    with opened(options(smollm2, exact=True)) as session:
        plain = run(session, STORY, 50, params)
        assert plain.tokens != run(session, STORY, 50).tokens
    for drafter, draft in ((drafters.NGRAM, None), (drafters.MODEL, smollm2_q4_0)):
        with opened(options(smollm2, drafter, draft, exact=True)) as session:
            assert run(session, STORY, 50, params).tokens == plain.tokens


@pytest.mark.parametrize("n", [0, 1, 2, 7, 8, 9])
def test_the_budget_is_met_exactly(smollm2: Path, n: int) -> None:
    with opened(options(smollm2, drafters.NGRAM, n_max=8)) as session:
        result = run(session, LIST, n)
        assert len(result.tokens) == n
        assert result.finish is FinishReason.LENGTH


def test_the_context_is_filled_to_the_last_token(smollm2: Path) -> None:
    with opened(options(smollm2, n_ctx=64)) as session:
        plain = run(session, LIST, -1, ignore_eos=True)
    assert plain.finish is FinishReason.CONTEXT
    for k in (1, 4, 8):
        with opened(options(smollm2, drafters.NGRAM, n_ctx=64, n_max=k)) as session:
            drafted = run(session, LIST, -1, ignore_eos=True)
            assert drafted.finish is FinishReason.CONTEXT
            assert len(drafted.tokens) == len(plain.tokens)


def test_prompts_around_the_contexts_length(smollm2: Path) -> None:
    with opened(options(smollm2, n_ctx=40)) as session:
        for n in (39, 40):
            result = run(session, (100,) * n, -1, ignore_eos=True)
            assert len(result.tokens) == 41 - n
            assert result.finish is FinishReason.CONTEXT
        with pytest.raises(PromptError, match="41 tokens"):
            run(session, (100,) * 41, 5)
        with pytest.raises(PromptError, match="9000"):
            run(session, (100,) * 9000, 5)


def test_an_end_token_in_a_draft_ends_the_text_there(smollm2: Path) -> None:
    prompt = "A<|im_end|>\nA<|im_end|>\nA"
    with opened(options(smollm2)) as session:
        plain = run(session, prompt, 20)
        end_tokens = session.model.vocabulary.end_tokens
        going_on = run(session, prompt, 20, ignore_eos=True)
        assert len(going_on.tokens) == 20
        assert not end_tokens.intersection(going_on.tokens)
    with opened(options(smollm2, drafters.NGRAM, n_max=6)) as session:
        drafted = run(session, prompt, 20)
        assert drafted.tokens == plain.tokens
        assert session.context.n_cached == len(ids(session, prompt)) + len(drafted.tokens) - 1


def test_small_batches_clamp_the_draft_and_say_so(smollm2: Path) -> None:
    heard = Heard()
    chosen = options(smollm2, drafters.NGRAM, n_max=12)
    chosen = dataclasses.replace(chosen, context=dataclasses.replace(chosen.context, n_batch=4))
    with opened(chosen, heard) as session:
        result = run(session, LIST * 4, 200, ignore_eos=True)
        assert len(result.tokens) == 200
        assert max(done.width for done in result.rounds) <= 4
    assert any("3 tokens at most" in notice for notice in heard.notices)


def test_threads_reach_both_contexts(smollm2: Path, smollm2_q4_0: Path) -> None:
    chosen = options(smollm2, drafters.MODEL, smollm2_q4_0)
    chosen = dataclasses.replace(
        chosen,
        context=dataclasses.replace(chosen.context, n_threads=1, n_threads_batch=2),
        draft_context=dataclasses.replace(chosen.context, n_threads=2, n_threads_batch=1),
    )
    with opened(chosen) as session:
        assert session.context.n_threads == (1, 2)
        assert isinstance(session.drafter, ModelDrafter)
        assert [context.n_threads for context in session.contexts] == [(1, 2), (2, 1)]


def test_the_prompts_common_beginning_is_taken_over(smollm2: Path) -> None:
    with opened(options(smollm2)) as session:
        first = run(session, STORY, 10)
        longer = (*ids(session, STORY), *first.tokens[:4])
        events = list(session.generate(Request(longer, GREEDY, 3)))
        rounds = [event for event in events if isinstance(event, Round)]
        assert [token for done in rounds for token in done.emitted] == first.tokens[4:7]
        assert not any(getattr(event, "n_total", 0) for event in events)  # nothing of the prompt was passed again


class Stopper:
    """Requests an interrupt after a while, from another thread, as a signal's watcher does."""

    def __init__(self, interrupt: Interrupt, seconds: float) -> None:
        self._timer = threading.Timer(seconds, interrupt.request)

    def __enter__(self) -> None:
        self._timer.start()

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()


def test_an_interrupt_stops_a_long_prompt_pass_at_once(smollm2: Path) -> None:
    interrupt = Interrupt()
    with opened(options(smollm2, n_ctx=8192), interrupt=interrupt) as session:
        prompt = (100,) * 6000
        with Stopper(interrupt, 0.5):
            result = run(session, prompt, 5)
        assert result.finish is FinishReason.INTERRUPTED
        assert session.context.n_cached < len(prompt) - 1


@pytest.mark.parametrize("drafter", [drafters.NONE, drafters.MODEL])
def test_an_interrupted_run_can_go_on_where_it_stopped(smollm2: Path, drafter: str) -> None:
    interrupt = Interrupt()
    draft = smollm2 if drafter == drafters.MODEL else None
    with opened(options(smollm2, drafter, draft), interrupt=interrupt) as session:
        whole = run(session, STORY, 120)
        for seconds in (0.05, 0.31, 0.62):
            session.forget()
            with Stopper(interrupt, seconds):
                part = run(session, STORY, 120)
            interrupt.clear()
            assert part.tokens == whole.tokens[: len(part.tokens)]
            rest = run(session, (*ids(session, STORY), *part.tokens), 120 - len(part.tokens))
            assert [*part.tokens, *rest.tokens] == whole.tokens


def test_an_empty_prompt_starts_with_the_start_token(smollm2: Path) -> None:
    with opened(options(smollm2)) as session:
        assert len(ids(session, "")) == 1
        assert ids(session, "")[0] == session.model.vocabulary.bos
        assert len(run(session, "", 3, ignore_eos=True).tokens) == 3
        assert len(ids(session, " ")) >= 1
        assert len(ids(session, "\n")) >= 1


def test_the_chat_template_is_applied_and_said(smollm2: Path) -> None:
    heard = Heard()
    with opened(options(smollm2), heard) as session:
        prompt = session.encode("Hi", "Be brief.", raw=False)
        text = "".join(session.model.vocabulary.spelling(token) for token in prompt)
        assert text == "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
        assert any("chat template" in notice for notice in heard.notices)
        with pytest.raises(PromptError, match="chat template"):
            session.encode("Hi", "Be brief.", raw=True)


def test_a_missing_or_broken_draft_is_refused_unless_optional(smollm2: Path, tmp_path: Path) -> None:
    broken = tmp_path / "draft.gguf"
    broken.write_bytes(smollm2.read_bytes()[:5000])
    with pytest.raises(ModelFileError, match="draft"):
        opened(options(smollm2, drafters.MODEL, broken))
    heard = Heard()
    with opened(options(smollm2, drafters.MODEL, broken, draft_optional=True), heard) as session:
        assert session.drafter_name == drafters.NONE
        assert len(run(session, STORY, 3).tokens) == 3
    assert any(notice.startswith("Decoding plainly") for notice in heard.notices)


def test_k_zero_is_plain_decoding(smollm2: Path, smollm2_q4_0: Path) -> None:
    with opened(options(smollm2, drafters.MODEL, smollm2_q4_0, n_max=0)) as session:
        result = run(session, STORY, 5)
        assert session.drafter_name == drafters.NONE
        assert all(done.n_drafted == 0 and done.kind is Kind.BONUS for done in result.rounds)


class Hostile:
    """Random ids, -1, ids past the vocabulary, many end tokens, control tokens."""

    name = "hostile"

    def __init__(self, end_token: int, n_vocab: int) -> None:
        self._end_token, self._n_vocab = end_token, n_vocab
        self._n = 0

    def offers(self, context: Sequence[int], changed: int) -> Mapping[str, Offer]:
        return {self.name: Offer()}

    def propose(self, context: Sequence[int], changed: int, plan: Plan, sampler: Sampler) -> Proposal:
        self._n += 1
        noise = noise_for(1, self._n)
        random = [int(noise.uniform(i) * self._n_vocab) for i in range(plan.n_max)]
        kinds: Iterator[list[int]] = iter(
            [
                random,
                [-1, *random],
                [random[0], self._n_vocab],
                [self._end_token] * 64,
                [0, 1, 2, 2**31 - 1],
                [*random, *random],
            ]
        )
        tokens = next(tokens for i, tokens in enumerate(kinds) if i == self._n % 6)
        n = len(tokens)
        return Proposal(self.name, tuple(tokens), (None,) * n, (1.0,) * n, (1.0,) * n)

    def observe(self, result: object, verdict: object) -> None: ...

    def settle(self, n: int) -> None: ...


@pytest.mark.parametrize("params", [GREEDY, SamplingParams(temperature=0.8, seed=3)])
def test_a_hostile_drafter_does_not_change_the_text(smollm2: Path, params: SamplingParams) -> None:
    with opened(options(smollm2, exact=True)) as session:
        plain = run(session, STORY, 40, params)
    with opened(options(smollm2, drafters.NGRAM, exact=True)) as session:
        session.drafter = Hostile(2, session.target.n_vocab)
        drafted = run(session, STORY, 40, params)
    assert drafted.text == plain.text
    assert sum(done.n_invalid for done in drafted.rounds) > 0


def test_a_context_that_cannot_be_made_is_a_sentence(smollm2: Path) -> None:
    chosen = options(smollm2)
    with pytest.raises(SpecdecError, match=r"target|context"):
        opened(dataclasses.replace(chosen, context=dataclasses.replace(chosen.context, n_ctx=2**24, n_batch=2**20)))


def test_a_recurrent_target_passes_a_prompt_again_that_its_cache_cannot_go_back_to(tmp_path: Path) -> None:
    model = write_recurrent(tmp_path / "mamba.gguf")
    with opened(options(model, drafters.NGRAM, n_ctx=256)) as session:
        assert session.drafter is None
        first = run(session, "one two one two", 10)
        again = run(session, "one two one three", 10)
    with opened(options(model, n_ctx=256)) as session:
        assert run(session, "one two one three", 10).tokens == again.tokens
        session.forget()
        assert run(session, "one two one two", 10).tokens == first.tokens
