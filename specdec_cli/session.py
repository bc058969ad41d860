"""Builds target, drafter and governor from settings, and runs prompts through them: the only place that puts them together."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from specdec_cli import drafters, exact, gate
from specdec_cli.corpus import corpus_text, corpus_tokens
from specdec_cli.decoding.contracts import Constraint, Drafter, Governor, PassAborted, Round, SamplingParams, Target
from specdec_cli.decoding.governor import FixedGovernor
from specdec_cli.decoding.governor import Governor as AdaptiveGovernor
from specdec_cli.decoding.loop import Event, Job, Sequence, generate
from specdec_cli.decoding.shadow import Shadow
from specdec_cli.decoding.verification import Rule, samplers
from specdec_cli.decoding.widths import PaddedTarget, WidthReport
from specdec_cli.drafters.model import ModelDrafter
from specdec_cli.drafters.ngram import NgramDrafter
from specdec_cli.drafters.several import SeveralDrafters
from specdec_cli.errors import BackendError, ModelFileError, PairError, PromptError, UsageError
from specdec_cli.gate import Admitted
from specdec_cli.llama.context import Context, RollbackKind, find_rollback
from specdec_cli.llama.interrupt import Interrupt
from specdec_cli.llama.model import Model
from specdec_cli.llama.options import ContextOptions, ModelOptions
from specdec_cli.llama.template import ChatTemplate, without_written_bos
from specdec_cli.options import Listener, SessionOptions, checked
from specdec_cli.pairing.compat import Compatibility
from specdec_cli.pricing import Ledger


@dataclass(frozen=True, slots=True)
class Request:
    """One generation: what to say on, and how."""

    prompt: tuple[int, ...]
    params: SamplingParams
    n_predict: int = -1
    stops: tuple[str, ...] = ()
    constraint: Constraint | None = None
    ignore_eos: bool = False


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
        self._open: list[Model | Context] = []
        self._cached: list[int] = []
        self._template: ChatTemplate | None = None
        self._said: set[str] = set()
        self.widths: WidthReport | None = None
        self._ledger: Ledger | None = None
        self.shadow: Shadow | None = None  # of the last run, where --shadow was asked for
        self.inexact_from: int | None = None  # where a running check withdrew the claim of --exact
        try:
            corpus = corpus_text(options.ngram_corpus) if options.ngram_corpus is not None else ""
            admitted = gate.admit(self.options, listener)
            self.plan = admitted.plan
            self.model = self._load(admitted.placed(self.options.target, "target"), "target")
            self.context, self.target, drafting = self._target(admitted.pair)
            self.drafter = self._drafter(admitted, corpus) if drafting else None
            self._ledger = self._opened_ledger() if self.drafter is not None and self.options.governed else None
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
        return tuple(opened for opened in self._open if isinstance(opened, Context))

    @property
    def n_ctx(self) -> int:
        """Tokens that a run may hold, prompt and output."""
        return self.target.n_ctx

    @property
    def n_draft_max(self) -> int:
        """Longest draft: what was asked for, clamped to what a pass may hold."""
        return min(self.options.n_max, self.target.max_pass - 1) if self.drafter is not None else 0

    def generate(self, request: Request, *, target: Target | None = None, governor: Governor | None = None) -> Iterator[Event]:
        """Run a prompt to its end. The cache is reused as far as it holds the prompt's beginning.

        target: a stand-in for the session's own (a recorder around it); governor: likewise. Raises PromptError before anything
        is passed.
        """
        self._check_prompt(request.prompt)
        self._check_bias(request.params)
        sequence = Sequence(self.job(request))
        self._reuse(request.prompt)
        governor, drafter = governor or self._governor(request.params), self.drafter
        self.shadow = None
        if self.options.shadow and drafter is not None and self._ledger is not None:
            self.shadow = Shadow(drafter, governor, self._ledger.costs, self.n_draft_max)
            governor, drafter = FixedGovernor(0), None
        seen = self.inexact_from
        try:
            for event in generate(sequence, target or self.target, drafter, governor):
                yield event
                if self.shadow is not None and isinstance(event, Round):
                    self._follow(self.shadow, sequence, event)
                if self.inexact_from != seen:
                    seen = self.inexact_from
                    self._listener.notice(
                        f"exact: withdrawn from token {seen} on: two widths of the class gave other bits there."
                    )
        finally:
            self._cached = sequence.context[: self.context.n_cached]

    def _follow(self, shadow: Shadow, sequence: Sequence, done: Round) -> None:
        """Let the drafter propose beside the plain round that was just made."""
        job = sequence.job
        sampler, _ = samplers(job.rule, job.params, sequence.constraint, sequence.n_rounds)
        if self._ledger is not None:
            self._ledger.costs.observe(done.width, done.pass_s)
        # Stopped in the middle of a draft: the run itself notices at its next pass.
        with contextlib.suppress(PassAborted):
            shadow.follow(sequence.context, sampler, sequence.budget)

    def _governor(self, params: SamplingParams) -> Governor:
        options = self.options
        if self._ledger is None:
            return FixedGovernor(self.n_draft_max, options.n_min, options.p_min)
        trims = options.rule is Rule.MATCH or params.greedy
        return AdaptiveGovernor(
            self._ledger.costs, self._ledger.accounts, self.n_draft_max, options.n_min, options.p_min, trims=trims
        )

    def _opened_ledger(self) -> Ledger:
        """What passes cost and drafts are worth, as far as it is known, or measured now."""
        asked = self.drafter.name.split(",") if self.drafter is not None else []
        names = [name for name in (drafters.MODEL, drafters.NGRAM) if name in asked]
        if self.widths is not None:
            return Ledger(self.contexts, names, self.n_draft_max, self.widths.seconds, self.widths.widened)
        return Ledger(self.contexts, names, self.n_draft_max)

    def encode(self, prompt: str, system: str | None, *, raw: bool) -> tuple[int, ...]:
        """The prompt's ids, through the target's chat template where it has one and raw does not skip it.

        Tokenised once, with exactly one start token where the model asks for one. Raises PromptError.
        """
        vocabulary, source = self.model.vocabulary, self.model.chat_template
        text = prompt
        if not raw and source is not None:
            if self._template is None:
                self._template = ChatTemplate(source, vocabulary.spelling(vocabulary.bos), vocabulary.spelling(vocabulary.eos))
            messages = [{"role": "system", "content": system}] if system is not None else []
            rendered = self._template.render([*messages, {"role": "user", "content": prompt}])
            self._say_once("The model's chat template is applied; --raw passes the prompt as it is.", *rendered.notes)
            text = without_written_bos(rendered.text, vocabulary.spelling(vocabulary.bos), vocabulary.add_bos)
        elif system is not None:
            raise PromptError(
                "A system prompt needs a chat template.",
                "--raw skips it." if raw else "The model has none.",
                "Leave -sys out, and put its text at the beginning of the prompt.",
            )
        elif not raw:
            self._say_once("The model has no chat template, so the prompt is passed as it is.")
        ids = vocabulary.tokenize(text, add_special=True, parse_special=True)
        if not ids and vocabulary.bos >= 0:
            ids = [vocabulary.bos]
        return tuple(ids)

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
        return Job(
            prompt=request.prompt,
            n_predict=request.n_predict,
            params=params,
            rule=self.options.rule,
            n_ctx=self.n_ctx,
            end_tokens=end_tokens,
            piece=self.model.vocabulary.piece,
            stops=request.stops,
            constraint=request.constraint,
        )

    def close(self) -> None:
        if self._ledger is not None:
            self._ledger.keep()
            self._ledger = None
        if self._template is not None:
            self._template.close()
        while self._open:
            self._open.pop().close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()

    def _load(self, options: ModelOptions, role: str) -> Model:
        label = f"loading the {role} {options.path.name}"
        model = Model(options, role, self._interrupt, lambda fraction: self._listener.progress(label, fraction))
        self._open.append(model)
        return model

    def _target(self, pair: Compatibility | None) -> tuple[Context, Target, bool]:
        """The target's context, the target as the loop sees it, and whether its cache can drop tokens again."""
        options = self.options
        drafting = options.n_max > 0 and (drafters.NGRAM in options.drafters or pair is not None)
        n_max = options.n_max if drafting else 0
        n_rows = gate.n_rows(options, drafting=drafting)
        n_ctx = options.context.n_ctx or self.model.n_ctx_train
        self._note_trained(self.model, n_ctx)
        n_padding = n_rows - 1 if options.exact else 0
        asked = dataclasses.replace(options.context, n_ctx=n_ctx + n_padding)
        context = self._context(self.model, asked, n_rows=n_rows, steady=options.exact)
        if (options.exact or drafting) and find_rollback(context, self._any_token()) is RollbackKind.NONE:
            self._cannot_go_back()
            drafting = False
        if not options.exact:
            context.n_ctx = min(context.n_ctx, n_ctx)
            return context, context, drafting
        self.widths = exact.find_widths(context, lambda fraction: self._listener.progress("exact: comparing widths", fraction))
        self._listener.notice(exact.price(self.widths))
        widest = self.widths.widths[-1]
        if n_max >= widest:
            self._listener.notice(f"exact: drafts are {widest - 1} tokens at most instead of {n_max}.")
        return context, PaddedTarget(context, self.widths.widths, n_ctx, self._withdraw), drafting

    def _cannot_go_back(self) -> None:
        if self.options.exact:
            raise UsageError(
                f"--exact is not possible with {self.options.target.path.name}.",
                "Its cache cannot drop tokens again (a recurrent or hybrid model), and every exact pass has to.",
                "Leave --exact out.",
            )
        self._listener.notice(
            "Decoding plainly: the target's cache cannot drop tokens again (a recurrent or hybrid model),"
            " which every refused draft token needs."
        )

    def _drafter(self, admitted: Admitted, corpus: str) -> Drafter | None:
        """Those that were asked for and can be had, as one."""
        found: list[Drafter] = []
        if (model := self._model_drafter(admitted)) is not None:
            found.append(model)
        if drafters.NGRAM in self.options.drafters:
            found.append(NgramDrafter(self._corpus_tokens(corpus)))
        if len(found) > 1:
            return SeveralDrafters(found, self.model.vocabulary.end_tokens)
        return found[0] if found else None

    def _corpus_tokens(self, corpus: str) -> list[int]:
        file = self.options.ngram_corpus
        if file is None:
            return []
        tokenize = functools.partial(self.model.vocabulary.tokenize, add_special=False, parse_special=False)
        return corpus_tokens(corpus, file, tokenize, self._listener, self._interrupt)

    def _model_drafter(self, admitted: Admitted) -> Drafter | None:
        options, pair = self.options, admitted.pair
        if pair is None or options.draft is None:
            return None
        try:
            model = self._load(admitted.placed(options.draft, "draft"), "draft")
            n_ctx = options.context.n_ctx or self.model.n_ctx_train
            asked = dataclasses.replace(options.draft_context or options.context, n_ctx=n_ctx)
            context = self._context(model, asked, n_rows=1)
            if find_rollback(context, self._any_token()) is RollbackKind.NONE:
                raise PairError(
                    f"The draft {options.draft.path.name} cannot be used.",
                    "Its cache cannot drop tokens again (a recurrent or hybrid model), which every refused token needs.",
                    "Choose another draft, or use --draft ngram.",
                )
        except (ModelFileError, PairError) as error:
            gate.without_draft(error, self.options, self._listener)
            return None
        self._note_trained(model, n_ctx)
        return ModelDrafter(
            context, pair.n_shared, pair.undraftable, self.model.vocabulary.end_tokens, max(model.vocabulary.eos, 0)
        )

    def _note_trained(self, model: Model, n_ctx: int) -> None:
        if 0 < model.n_ctx_train < n_ctx:
            self._listener.notice(
                f"-c is {n_ctx}, but the {model.role} was trained for {model.n_ctx_train} tokens: past these it gets worse."
            )

    def _context(self, model: Model, options: ContextOptions, *, n_rows: int, steady: bool = False) -> Context:
        context = Context(model, options, self._interrupt, n_rows=n_rows, steady=steady)
        self._open.append(context)
        return context

    def _say_once(self, *notes: str) -> None:
        """Notices that hold for every prompt of the session."""
        for note in notes:
            if note not in self._said:
                self._said.add(note)
                self._listener.notice(note)

    def _any_token(self) -> int:
        return max(self.model.vocabulary.bos, 0)

    def _withdraw(self, position: int) -> None:
        if self.inexact_from is None:
            self.inexact_from = position

    def _check_prompt(self, prompt: tuple[int, ...]) -> None:
        if not prompt:
            raise PromptError(
                "The prompt is empty.", "The model has no start token to begin with.", "Give at least one character."
            )
        if len(prompt) > self.n_ctx:
            raise PromptError(
                f"The prompt has {len(prompt)} tokens.",
                f"The context holds {self.n_ctx}.",
                f"Use a longer context (-c {len(prompt) + 512}) or a shorter prompt.",
            )

    def _check_bias(self, params: SamplingParams) -> None:
        stranger = max(params.logit_bias, default=-1)
        if stranger >= self.target.n_vocab:
            raise UsageError(
                f"--logit-bias names the token {stranger}.",
                f"The target's tokens are 0 to {self.target.n_vocab - 1}.",
                "Leave it out, or correct the id.",
            )

    def _reuse(self, prompt: tuple[int, ...]) -> None:
        """Keep of the cache what the prompt begins with; all but its last token at the most."""
        n_common = 0
        while n_common < min(len(self._cached), len(prompt) - 1) and self._cached[n_common] == prompt[n_common]:
            n_common += 1
        if n_common < self.context.n_cached:
            try:
                self.context.keep(n_common)
            except BackendError:  # a cache that cannot go back: all of the prompt is passed again
                self.context.clear()
