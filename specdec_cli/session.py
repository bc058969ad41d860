"""Builds target, drafter and governor from settings, and runs prompts through them: the only place that puts them together."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from specdec_cli import drafters, exact, gate, room
from specdec_cli.corpus import corpus_text
from specdec_cli.decoding.contracts import (
    Constraint,
    Drafter,
    Governor,
    PassAborted,
    PromptPass,
    Round,
    SamplingParams,
    Target,
)
from specdec_cli.decoding.governor import FixedGovernor
from specdec_cli.decoding.governor import Governor as AdaptiveGovernor
from specdec_cli.decoding.loop import Event, Job, generate
from specdec_cli.decoding.loop import Sequence as Run
from specdec_cli.decoding.shadow import Shadow
from specdec_cli.decoding.verification import Rule, samplers
from specdec_cli.decoding.widths import PaddedTarget, WidthReport
from specdec_cli.drafting import any_token, asks_for_drafts, open_drafter
from specdec_cli.errors import BackendError, PairError, UsageError
from specdec_cli.gate import Admitted
from specdec_cli.llama.context import Context, RollbackKind, find_rollback
from specdec_cli.llama.interrupt import Interrupt
from specdec_cli.llama.options import ContextOptions, ModelOptions
from specdec_cli.loading import Loader
from specdec_cli.options import Listener, SessionOptions, checked
from specdec_cli.pricing import Ledger
from specdec_cli.prompts import Prompt, Prompts, check_length

_MANY_FED = 32  # tokens in a prompt pass from which on its time tells what a long prompt takes
_CANNOT_GO_BACK = "Its cache cannot drop tokens again (a recurrent or hybrid model), which every refused draft token needs."


@dataclass(frozen=True, slots=True)
class Request:
    """One generation: what to say on, and how."""

    prompt: tuple[int, ...]
    params: SamplingParams
    n_predict: int = -1
    stops: tuple[str, ...] = ()
    constraint: Constraint | None = None
    ignore_eos: bool = False
    spelled: frozenset[int] = frozenset()  # control tokens that the text shows as they are written


class Session:
    """Loaded models and their caches. A context manager; close() frees everything.

    Raises SpecdecError where something cannot start, PassAborted when interrupted while loading.
    """

    def __init__(self, options: SessionOptions, listener: Listener, interrupt: Interrupt) -> None:
        self.options = checked(options)
        self._listener = listener
        if self.options.n_max < options.n_max:
            tokens = "token" if self.options.n_max == 1 else "tokens"
            listener.notice(
                f"Drafts are {self.options.n_max} {tokens} at most instead of {options.n_max}: a pass holds"
                f" {self.options.n_max + 1} (-b {options.context.n_batch}, -ub {options.context.n_ubatch})."
            )
        self._interrupt = interrupt
        self._loader = Loader(listener, interrupt)
        self._n_longest = self.options.n_max  # what a governed draft may reach, whatever length is fixed later
        self._cached: list[int] = []
        self._prompts: Prompts | None = None
        self._said: set[str] = set()
        self.n_reused = 0  # tokens of the last run's prompt that were taken over from the target's cache
        self._n_done = 0  # tokens of the run's prompt in the cache now
        self._n_fed, self._fed_s = 0, 0.0  # of all prompt passes that tell how fast these are
        self.widths: WidthReport | None = None
        self._ledger: Ledger | None = None
        self.drafter: Drafter | None = None
        self.shadow: Shadow | None = None  # of the last run, where --shadow was asked for
        self.inexact_from: int | None = None  # where a running check withdrew the claim of --exact
        try:
            corpus = corpus_text(options.ngram_corpus) if options.ngram_corpus is not None else ""
            admitted = gate.admit(self.options, listener)
            self.plan, self._machine = admitted.plan, admitted.plan.machine
            self.model = self._loader.model(admitted.placed(self.options.target, "target"), "target")
            self._prompts = Prompts(self.model.vocabulary, self.model.chat_template, self._say_once)
            self.context, self.target, self._goes_back = self._target(asks_for_drafts(self.options, admitted))
            self._take(self.options, admitted, corpus)
        except BaseException:
            self.close()
            raise

    @property
    def drafter_name(self) -> str:
        """The drafter that really runs."""
        return self.drafter.name if self.drafter is not None and not self.options.shadow else drafters.NONE

    @property
    def contexts(self) -> tuple[Context, ...]:
        """The target's, and the draft's where there is one."""
        return self._loader.contexts

    @property
    def ledger(self) -> Ledger | None:
        """What passes cost and drafts are worth; None where drafts are not as long as pays."""
        return self._ledger

    @property
    def n_ctx(self) -> int:
        """Tokens that a run may hold, prompt and output."""
        return self.target.n_ctx

    @property
    def n_draft_max(self) -> int:
        """Longest draft: what was asked for, clamped to what a pass may hold."""
        return min(self.options.n_max, self.target.max_pass - 1) if self.drafter is not None else 0

    @property
    def draft_length(self) -> int | None:
        """The length that all drafts have; None where each round drafts as far as that pays."""
        return None if self.options.governed else self.n_draft_max

    @property
    def plain_token_s(self) -> float | None:
        """Seconds of a plain pass, as it was measured here; None where nothing was."""
        return self._ledger.costs(1) if self._ledger is not None else None

    @property
    def prompt_token_s(self) -> float | None:
        """Seconds that a token of a prompt takes: of the passes so far, else of the widest pass whose cost is known."""
        if self._n_fed:
            return self._fed_s / self._n_fed
        if self._ledger is None:
            return None
        widest, seconds = max(self._ledger.costs.known().items())
        return seconds / widest

    def generate(self, request: Request, *, target: Target | None = None, governor: Governor | None = None) -> Iterator[Event]:
        """Run a prompt to its end. The cache is reused as far as it holds the prompt's beginning.

        target: a stand-in for the session's own (a recorder around it); governor: likewise. Raises PromptError before anything
        is passed.
        """
        check_length(request.prompt, self.n_ctx)
        self._check_bias(request.params)
        sequence = Run(self.job(request))
        self._reuse(request.prompt)
        self.n_reused = self._n_done = self.context.n_cached
        governor, drafter = governor or self._governor(request.params), self.drafter
        self.shadow = None
        if self.options.shadow and drafter is not None and self._ledger is not None:
            self.shadow = Shadow(drafter, governor, self._ledger.costs, self.n_draft_max)
            governor, drafter = FixedGovernor(0), None
        seen = self.inexact_from
        try:
            for event in generate(sequence, target or self.target, drafter, governor):
                yield event
                self._learn(event, sequence, governor)
                if self.inexact_from != seen:
                    seen = self.inexact_from
                    self._listener.notice(
                        f"exact: withdrawn from token {seen} on: two widths of the class gave other bits there."
                    )
        finally:
            self._cached = sequence.context[: self.context.n_cached]

    def _learn(self, event: Event, sequence: Run, governor: Governor) -> None:
        """Keep what is known of this machine current, and let a shadow draft beside the round."""
        if isinstance(event, PromptPass):
            n_fed, self._n_done = event.n_done - self._n_done, event.n_done
            if n_fed >= _MANY_FED:
                self._n_fed += n_fed
                self._fed_s += event.seconds
        if not isinstance(event, Round) or self._ledger is None:
            return
        if isinstance(governor, FixedGovernor):  # any other learns by itself
            self._ledger.costs.observe(event.width, event.pass_s)
        if self.shadow is not None:
            self._follow(self.shadow, sequence)

    def _follow(self, shadow: Shadow, sequence: Run) -> None:
        """Let the drafter propose beside the plain round that was just made."""
        job = sequence.job
        sampler, _ = samplers(job.rule, job.params, sequence.constraint, sequence.n_rounds)
        # Stopped in the middle of a draft: the run itself notices at its next pass.
        with contextlib.suppress(PassAborted):
            shadow.follow(sequence.context, sampler, sequence.budget)

    def _governor(self, params: SamplingParams) -> Governor:
        options = self.options
        if self._ledger is None or self.drafter is None or not options.governed:
            return FixedGovernor(self.n_draft_max, min(options.n_min, self.n_draft_max), options.p_min)
        trims = options.rule is Rule.MATCH or params.greedy
        return AdaptiveGovernor(
            self._ledger.costs, self._ledger.accounts, self.n_draft_max, options.n_min, options.p_min, trims=trims
        )

    def _opened_ledger(self) -> Ledger | None:
        """What passes cost and drafts are worth, as far as it is known, or measured now; None where nobody asks for it."""
        asks = self.options.changeable or (self.drafter is not None and self.options.governed)
        if not asks or not self._goes_back:  # a measurement has to undo tokens too
            return None
        asked = self.drafter.name.split(",") if self.drafter is not None else []
        names = [name for name in (drafters.MODEL, drafters.NGRAM) if name in asked]
        n_max = min(self._n_longest, self.target.max_pass - 1)
        seconds = self.widths.seconds if self.widths is not None else None
        if self._ledger is not None:
            self._ledger.keep()
            seconds = self._ledger.costs.known()
        if self.widths is not None:
            return Ledger(self.contexts, names, n_max, seconds, self.widths.widened)
        return Ledger(self.contexts, names, n_max, seconds)

    def change_drafter(
        self,
        names: tuple[str, ...],
        draft: ModelOptions | None = None,
        draft_context: ContextOptions | None = None,
        corpus: Path | None = None,
    ) -> None:
        """Draft with others from now on; names as in SessionOptions.drafters, none: plainly. The target's cache stays.

        The models are judged as at the start. Raises SpecdecError, or PassAborted when interrupted while loading: then the
        drafter that was there goes on. Only for a changeable session.
        """
        options = dataclasses.replace(
            self.options,
            drafters=names,
            draft=draft,
            draft_context=draft_context or self.options.draft_context,
            ngram_corpus=corpus,
            draft_optional=False,
        )
        if names and not self._goes_back:
            raise PairError(f"{self.options.target.path.name} cannot be drafted for.", _CANNOT_GO_BACK, "Use it plainly.")
        text = corpus_text(corpus) if corpus is not None else ""
        admitted = gate.admit(options, self._listener, room.beside(self.plan, self._machine))
        before = self.options, self._admitted, self._corpus
        self._loader.close("draft")
        try:
            self._take(options, admitted, text)
        except BaseException:
            self._loader.close("draft")
            self._interrupt.clear()  # it has been heeded, and would stop what was there from coming back
            self._take(*before)
            raise

    def change_draft_length(self, n: int | None) -> None:
        """Give all drafts one length, or let each round draft as far as that pays (None). Raises UsageError."""
        n_most = min(self._n_longest, self.target.max_pass - 1)
        if n is not None and not 0 <= n <= n_most:
            raise UsageError(
                f"Drafts of {n} tokens are not possible.",
                f"The target was opened for drafts of 0 to {n_most}.",
                "Choose a length within that, or start with a larger --draft-max." if n > n_most else "Choose 0 or more.",
            )
        n_max = self._n_longest if n is None else n
        self.options = dataclasses.replace(self.options, n_max=n_max, governed=n is None)

    def _take(self, options: SessionOptions, admitted: Admitted, corpus: str) -> None:
        """Open a drafter, and learn what its drafts are worth."""
        self.options, self._admitted, self._corpus, self.plan = options, admitted, corpus, admitted.plan
        self.drafter = None
        if self._goes_back and asks_for_drafts(options, admitted):
            self.drafter = open_drafter(self._loader, options, admitted, self.model, corpus)
        self._ledger = self._opened_ledger()

    def encode(self, prompt: str, system: str | None, *, raw: bool) -> tuple[int, ...]:
        """The prompt's ids, through the target's chat template where it has one and raw does not skip it.

        Tokenised once, with exactly one start token where the model asks for one. Raises PromptError.
        """
        assert self._prompts is not None
        return self._prompts.of_question(prompt, system, raw=raw).ids

    def encode_messages(self, messages: Sequence[Mapping[str, str]]) -> Prompt:
        """A whole conversation as a prompt, through the target's chat template. Raises PromptError."""
        assert self._prompts is not None
        return self._prompts.of_messages(messages)

    def forget(self) -> None:
        """Empty the target's cache, so that the next run passes its whole prompt. Drafters see by themselves what changed."""
        self.context.clear()
        self._cached = []

    def job(self, request: Request) -> Job:
        """The request as the loop takes it."""
        end_tokens = self.model.vocabulary.end_tokens
        forbidden = dict.fromkeys(self.model.vocabulary.suppressed, -math.inf)
        if request.ignore_eos:
            forbidden |= dict.fromkeys(end_tokens, -math.inf)
        params = dataclasses.replace(request.params, logit_bias={**request.params.logit_bias, **forbidden})
        vocabulary = self.model.vocabulary

        def piece(token: int) -> bytes:
            return vocabulary.spelling(token).encode() if token in request.spelled else vocabulary.piece(token)

        return Job(
            prompt=request.prompt,
            n_predict=request.n_predict,
            params=params,
            rule=self.options.rule,
            n_ctx=self.n_ctx,
            end_tokens=end_tokens,
            piece=piece if request.spelled else vocabulary.piece,
            stops=request.stops,
            constraint=request.constraint,
        )

    def close(self) -> None:
        if self._ledger is not None:
            self._ledger.keep()
            self._ledger = None
        if self._prompts is not None:
            self._prompts.close()
        self._loader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()

    def _target(self, drafting: bool) -> tuple[Context, Target, bool]:
        """The target's context, the target as the loop sees it, and whether its cache can drop tokens again, as far as that
        matters."""
        options = self.options
        n_max = options.n_max if drafting else 0
        n_rows = gate.n_rows(options, drafting=drafting)
        n_ctx = options.context.n_ctx or self.model.n_ctx_train
        self._loader.note_trained(self.model, n_ctx)
        n_padding = n_rows - 1 if options.exact else 0
        asked = dataclasses.replace(options.context, n_ctx=n_ctx + n_padding)
        context = self._loader.context(self.model, asked, n_rows=n_rows, steady=options.exact)
        goes_back = drafting or options.changeable
        if (options.exact or goes_back) and find_rollback(context, any_token(self.model)) is RollbackKind.NONE:
            self._cannot_go_back(drafting)
            goes_back = False
        if not options.exact:
            context.n_ctx = min(context.n_ctx, n_ctx)
            return context, context, goes_back
        self.widths = exact.find_widths(context, lambda fraction: self._listener.progress("exact: comparing widths", fraction))
        self._listener.notice(exact.price(self.widths))
        widest = self.widths.widths[-1]
        if n_max >= widest:
            self._listener.notice(f"exact: drafts are {widest - 1} tokens at most instead of {n_max}.")
        return context, PaddedTarget(context, self.widths.widths, n_ctx, self._withdraw), goes_back

    def _cannot_go_back(self, drafting: bool) -> None:
        if self.options.exact:
            raise UsageError(
                f"--exact is not possible with {self.options.target.path.name}.",
                "Its cache cannot drop tokens again (a recurrent or hybrid model), and every exact pass has to.",
                "Leave --exact out.",
            )
        if drafting:
            self._listener.notice(
                "Decoding plainly: the target's cache cannot drop tokens again (a recurrent or hybrid model),"
                " which every refused draft token needs."
            )

    def _say_once(self, *notes: str) -> None:
        """Notices that hold for every prompt of the session."""
        for note in notes:
            if note not in self._said:
                self._said.add(note)
                self._listener.notice(note)

    def _withdraw(self, position: int) -> None:
        if self.inexact_from is None:
            self.inexact_from = position

    def _check_bias(self, params: SamplingParams) -> None:
        stranger = max(params.logit_bias, default=-1)
        if stranger >= self.target.n_vocab:
            raise UsageError(
                f"--logit-bias names the token {stranger}.",
                f"The target's tokens are 0 to {self.target.n_vocab - 1}.",
                "Leave it out, or correct the id.",
            )

    def reusable(self, prompt: tuple[int, ...]) -> int:
        """How much of a prompt the target's cache holds already; all but its last token at the most."""
        n_common = 0
        while n_common < min(len(self._cached), len(prompt) - 1) and self._cached[n_common] == prompt[n_common]:
            n_common += 1
        return n_common

    def _reuse(self, prompt: tuple[int, ...]) -> None:
        """Keep of the cache what the prompt begins with."""
        n_common = self.reusable(prompt)
        if n_common < self.context.n_cached:
            try:
                self.context.keep(n_common)
            except BackendError:  # a cache that cannot go back: all of the prompt is passed again
                self.context.clear()
