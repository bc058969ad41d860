"""From what is said to a model to the ids of its prompt."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from specdec_cli.errors import PromptError
from specdec_cli.llama.template import ChatTemplate, without_written_bos
from specdec_cli.llama.vocabulary import Vocabulary


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt's ids, and the text that they were made of."""

    ids: tuple[int, ...]
    text: str


class Prompts:
    """Makes prompts for one model, with exactly one start token where the model asks for one. close() ends the template's
    process."""

    def __init__(self, vocabulary: Vocabulary, source: str | None, say: Callable[[str], None]) -> None:
        """source: of the chat template; say: takes what was done to messages that a person should know of."""
        self.source = source
        self._vocabulary = vocabulary
        self._template: ChatTemplate | None = None
        self._say = say

    def of_question(self, question: str, system: str | None, *, raw: bool) -> Prompt:
        """One question, through the chat template where there is one and raw does not skip it. Raises PromptError."""
        if not raw and self.source is not None:
            self._say("The model's chat template is applied; --raw passes the prompt as it is.")
            messages = [{"role": "system", "content": system}] if system is not None else []
            return self.of_messages([*messages, {"role": "user", "content": question}])
        if system is not None:
            raise PromptError(
                "A system prompt needs a chat template.",
                "--raw skips it." if raw else "The model has none.",
                "Leave -sys out, and put its text at the beginning of the prompt.",
            )
        if not raw:
            self._say("The model has no chat template, so the prompt is passed as it is.")
        return self.of_text(question)

    def of_messages(self, messages: Sequence[Mapping[str, str]]) -> Prompt:
        """Through the chat template, and tokenised once. Raises PromptError, also where there is no template."""
        vocabulary = self._vocabulary
        if self.source is None:
            raise PromptError(
                "This model has no chat template.",
                "Its file says nothing of how the turns of a conversation are written.",
                "Use a GGUF of an instruct or chat model, or complete plain text with: specdec run",
            )
        if self._template is None:
            self._template = ChatTemplate(self.source, vocabulary.spelling(vocabulary.bos), vocabulary.spelling(vocabulary.eos))
        rendered = self._template.render(messages)
        for note in rendered.notes:
            self._say(note)
        return self.of_text(without_written_bos(rendered.text, vocabulary.spelling(vocabulary.bos), vocabulary.add_bos))

    def of_text(self, text: str) -> Prompt:
        """As it is; where it is empty, the start token alone."""
        vocabulary = self._vocabulary
        ids = vocabulary.tokenize(text, add_special=True, parse_special=True)
        if not ids and vocabulary.bos >= 0:
            ids = [vocabulary.bos]
        return Prompt(tuple(ids), text)

    def close(self) -> None:
        if self._template is not None:
            self._template.close()


def check_length(prompt: tuple[int, ...], n_ctx: int) -> None:
    """Raises PromptError for a prompt that is empty, or longer than the context."""
    if not prompt:
        raise PromptError("The prompt is empty.", "The model has no start token to begin with.", "Give at least one character.")
    if len(prompt) > n_ctx:
        raise PromptError(
            f"The prompt has {len(prompt)} tokens.",
            f"The context holds {n_ctx}.",
            f"Use a longer context (-c {len(prompt) + 512}) or a shorter prompt.",
        )
