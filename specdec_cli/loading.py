"""Loads models and makes their contexts, says what a person should know of them, and frees them in the right order."""

from __future__ import annotations

from specdec_cli.llama.context import Context
from specdec_cli.llama.interrupt import Interrupt
from specdec_cli.llama.model import Model
from specdec_cli.llama.options import ContextOptions, ModelOptions
from specdec_cli.options import Listener


class Loader:
    """Owns what it opened, target first. close() frees it."""

    def __init__(self, listener: Listener, interrupt: Interrupt) -> None:
        self.listener = listener
        self.interrupt = interrupt
        self._open: list[Model | Context] = []

    @property
    def contexts(self) -> tuple[Context, ...]:
        return tuple(opened for opened in self._open if isinstance(opened, Context))

    def model(self, options: ModelOptions, role: str) -> Model:
        """Raises ModelFileError, PassAborted."""
        label = f"loading the {role} {options.path.name}"
        model = Model(options, role, self.interrupt, lambda fraction: self.listener.progress(label, fraction))
        self._open.append(model)
        return model

    def context(self, model: Model, options: ContextOptions, *, n_rows: int, steady: bool = False) -> Context:
        """Raises ModelFileError."""
        context = Context(model, options, self.interrupt, n_rows=n_rows, steady=steady)
        self._open.append(context)
        return context

    def note_trained(self, model: Model, n_ctx: int) -> None:
        """Say so where a context is longer than what the model was trained for."""
        if 0 < model.n_ctx_train < n_ctx:
            self.listener.notice(
                f"-c is {n_ctx}, but the {model.role} was trained for {model.n_ctx_train} tokens: past these it gets worse."
            )

    def close(self, role: str | None = None) -> None:
        """Free everything, or what belongs to one role. The last one opened goes first."""
        kept: list[Model | Context] = []
        while self._open:
            opened = self._open.pop()
            model = opened.model if isinstance(opened, Context) else opened
            if role in (None, model.role):
                opened.close()
            else:
                kept.insert(0, opened)
        self._open = kept
