"""Makes a talk fit into the context: refuses it, or leaves out its oldest turns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from specdec_cli.chat.talk import Message, Talk, messages
from specdec_cli.errors import PromptError
from specdec_cli.prompts import Prompt

_ROOM_SHARE = 4  # a trimmed talk leaves at least a quarter of the context for what comes, so that it is not trimmed every turn
_LEAST_SHARE = 16  # and is trimmed when less than this share is left for the answer


class ContextPolicy(StrEnum):
    """What to do with a talk that is longer than the context."""

    FULL = "full"  # say so
    TRIM = "trim"  # leave out the oldest turns


@dataclass(frozen=True, slots=True)
class Fitted:
    """A talk that fits, as a prompt."""

    ids: tuple[int, ...]
    text: str
    n_dropped: int  # the oldest turns that it leaves out
    n_dropped_turns: int = 0  # of these, left out just now
    n_dropped_tokens: int = 0


Encode = Callable[[list[Message]], Prompt]


def fit(encode: Encode, talk: Talk, newest: str, n_ctx: int, policy: ContextPolicy, n_predict: int) -> Fitted:
    """The talk with the newest message. Raises PromptError where it does not fit, whole turns left out or not.

    Only whole turns go, never the system prompt or the newest message. Some of the context is left for an answer: what
    n_predict asks for, as far as that is no unreasonable share.
    """
    prompt = encode(messages(talk.system, talk.sent, newest))
    n_all = len(prompt.ids)
    if policy is ContextPolicy.FULL or n_all + _room(n_ctx, n_predict, _LEAST_SHARE) <= n_ctx:
        if n_all >= n_ctx:
            raise _full(n_all, n_ctx, has_turns=bool(talk.sent))
        return Fitted(prompt.ids, prompt.text, talk.n_dropped)
    n_dropped = talk.n_dropped
    n_most = n_ctx - _room(n_ctx, -1, _ROOM_SHARE)
    while len(prompt.ids) > n_most and n_dropped < len(talk.turns):
        n_dropped += 1
        shorter = Talk(talk.system, talk.turns, n_dropped)
        prompt = encode(messages(talk.system, shorter.sent, newest))
    if len(prompt.ids) >= n_ctx:
        raise _full(len(prompt.ids), n_ctx, has_turns=False)
    return Fitted(prompt.ids, prompt.text, n_dropped, n_dropped - talk.n_dropped, n_all - len(prompt.ids))


def _room(n_ctx: int, n_predict: int, share: int) -> int:
    """Tokens to leave for the answer."""
    most = max(n_ctx // share, 1)
    return min(n_predict, most) if n_predict > 0 else most


def _full(n_tokens: int, n_ctx: int, *, has_turns: bool) -> PromptError:
    if not has_turns:
        return PromptError(
            f"The question does not fit: with the system prompt it has {n_tokens} tokens.",
            f"The context holds {n_ctx}, and the answer needs some of it.",
            f"Ask less, or start with a longer context: -c {n_tokens + 512}",
        )
    return PromptError(
        f"The context is full: the talk has {n_tokens} tokens with this question.",
        f"The context holds {n_ctx}, and the answer needs some of it. Nothing was sent, and nothing is lost.",
        f"Forget turns with /undo or /clear, let the oldest go with /context trim, or start with -c {n_tokens + 512}",
    )
