"""What a talk came to: the line under an answer, the tables of /stats, the answer with its draft marks, a turn as JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass

from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from specdec_cli.chat.conversation import Sending, TurnReport
from specdec_cli.chat.totals import Totals
from specdec_cli.decoding.contracts import FinishReason, PromptPass
from specdec_cli.decoding.loop import Event
from specdec_cli.decoding.stats import ratio
from specdec_cli.ui.marks import legend, marked
from specdec_cli.ui.render import counted, number, render
from specdec_cli.ui.summary import summary_json
from specdec_cli.ui.units import from_home, one_line, percent

_BETWEEN = " \u00b7 "
_FIRST = 60  # characters of a first question
_ENDS = {
    FinishReason.INTERRUPTED: "stopped",
    FinishReason.LENGTH: "cut at -n",
    FinishReason.CONTEXT: "cut: the context is full",
    FinishReason.GRAMMAR: "the grammar allows no more",
}


def tokens(n: int) -> str:
    """A number of tokens."""
    return "1 token" if n == 1 else f"{n:,} tokens"


def greeting(target: str, drafter: str, n_ctx: int, n_turns: int, n_dropped: int = 0) -> list[str]:
    """The parts of the line before a talk."""
    drafting = "no drafter" if drafter == "none" else f"drafting: {drafter}"
    without = f", without the {n_dropped} oldest" if n_dropped else ""
    going_on = [f"going on after turn {n_turns}{without}"] if n_turns else []
    return [target, drafting, f"context {n_ctx}", *going_on, "/help for commands", "Ctrl-D leaves"]


def stats_line(report: TurnReport) -> list[str]:
    """The parts of the line under an answer. What is not known is left out."""
    stats = report.stats
    parts = [tokens(stats.n_emitted)]
    if stats.finish in _ENDS:
        parts.append(_ENDS[stats.finish])
    if stats.generation_tps is not None:
        parts.append(f"{stats.generation_tps:.1f} t/s")
    if report.speed_up is not None:
        parts.append(f"{report.speed_up:.1f}x plain")
    if stats.n_drafted:
        parts.append(f"{percent(stats.n_accepted, stats.n_drafted)} of {stats.n_drafted} drafted accepted")
        parts.append(f"{number(stats.mean_acceptance_length, 1)} tokens a pass")
    parts.append(f"{report.n_context} of {report.n_ctx} context")
    reused = f" ({report.n_reused} reused)" if report.n_reused else ""
    parts.append(f"{report.n_passed} new prompt {'token' if report.n_passed == 1 else 'tokens'}{reused}")
    return parts


def in_rows(parts: Sequence[str], columns: int) -> list[str]:
    """Parts in one row, or in rows of at most so many columns."""
    rows = [parts[0]]
    for part in parts[1:]:
        longer = f"{rows[-1]}{_BETWEEN}{part}"
        if columns and cell_len(longer) > columns:
            rows.append(part)
        else:
            rows[-1] = longer
    return rows


def duration(seconds: float) -> str:
    """A time that is a guess."""
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"


def expected(n: int, expected_s: float | None) -> str:
    """New prompt tokens, and how long they will take where that is known."""
    about = f", about {duration(max(expected_s, 1))}" if expected_s is not None else ""
    return f"{tokens(n)} to pass{about}"


def sending_notice(sending: Sending) -> str:
    """What a long prompt will take."""
    return f"The prompt has {expected(sending.count.n_new, sending.count.expected_s)}."


def progress_bar(done: PromptPass, sign: str, width: int) -> str:
    """How far a prompt has passed, without what was reused."""
    n_done, n_total = done.n_done - done.n_reused, done.n_total - done.n_reused
    n_signs = width * n_done // max(n_total, 1)
    return f"[{sign * n_signs}{'.' * (width - n_signs)}] {n_done:,} of {tokens(n_total)}"


def totals_table(totals: Totals, drafter: str, length: int | None, *, colour: bool, columns: int) -> str:
    """What all turns of this process came to. drafter: the one in use now; length: its fixed draft length, if it has one."""
    if not totals.n_turns:
        return "No turn is finished yet."
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True, style="dim")
    grid.add_column(overflow="fold")
    seconds = totals.decode_s
    rows = [
        ("turns", str(totals.n_turns)),
        ("prompt", f"{tokens(totals.n_passed)} passed in {totals.prompt_s:.1f} s, {totals.n_reused:,} reused"),
        ("generated", f"{tokens(totals.n_emitted)} in {seconds:.1f} s, {number(ratio(totals.n_emitted, seconds), 1)} t/s"),
        ("drafter now", drafter + (f", always {tokens(length)}" if length is not None else "")),
    ]
    if totals.n_fed:
        rows.append(("draft caught up on", tokens(totals.n_fed)))
    for name, part in totals.drafters.items():
        rate = counted(ratio(part.n_accepted, part.n_drafted), part.n_accepted, part.n_drafted)
        rows.append((f"by {name}", f"acceptance {rate}, proposed in {_rounds(part.n_rounds)}, {part.draft_s:.1f} s"))
    if totals.lengths:
        chosen = "  ".join(f"{n}: {rounds}" for n, rounds in sorted(totals.lengths.items()))
        rows.append(("rounds by draft length", f"{chosen}  (0 is plain decoding)"))
    for label, value in rows:
        grid.add_row(Text(label), Text(value))
    return render(grid, colour=colour, columns=max(columns, 40))


def _rounds(n: int) -> str:
    return "1 round" if n == 1 else f"{n:,} rounds"


def marked_answer(events: Iterable[Event], piece: Callable[[int], bytes], *, colour: bool) -> str:
    """An answer with the marks of its drafts. events: those of its run; piece: the bytes of a token."""
    texts = (event.text for event in marked(events, piece, colour=colour) if not isinstance(event, PromptPass))
    return f"{legend()}\n\n{''.join(texts)}"


def turn_json(report: TurnReport) -> dict[str, object]:
    """A turn as --json writes it."""
    turn = report.turn
    return {
        "question": turn.question,
        "documents": [document.name for document in turn.documents],
        "text": turn.answer,
        "thinking": turn.thinking,
        "tokens": turn.ids,
        "finish": turn.finish,
        "seed": turn.seed,
        "models": [asdict(model) for model in turn.models],
        "prompt": {
            "tokens": report.n_prompt,
            "reused": report.n_reused,
            "passed": report.n_passed,
            "fed_to_draft": report.n_fed,
            "dropped_turns": report.n_dropped_turns,
            "dropped_tokens": report.n_dropped_tokens,
        },
        "context": {"used": report.n_context, "size": report.n_ctx},
        "plain_token_s": report.plain_token_s,
        "speed_up": report.speed_up,
        "statistics": summary_json(report.stats),
    }


@dataclass(frozen=True, slots=True)
class KeptSession:
    """A session as a list shows it."""

    name: str
    n_turns: int = 0
    changed: str = ""  # ISO 8601
    target: str = ""
    first: str = ""  # its first question
    problem: str = ""  # why it cannot be read

    def as_json(self) -> dict[str, object]:
        """As --json writes it."""
        return {
            "name": self.name,
            "turns": self.n_turns,
            "changed": self.changed or None,
            "target": self.target or None,
            "first_question": self.first or None,
            "problem": self.problem or None,
        }


def sessions_table(found: Sequence[KeptSession], folder: str, *, colour: bool, columns: int) -> str:
    """The sessions that are kept, one a line."""
    if not found:
        return f"No session is kept in {from_home(folder)}; specdec chat MODEL --session NAME begins one."
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for header in ("session", "turns", "changed", "target", "first question"):
        table.add_column(header, overflow="fold", no_wrap=header in ("session", "turns"))
    for each in found:
        first = each.problem or one_line(each.first, _FIRST)
        table.add_row(
            Text(each.name), str(each.n_turns), Text(each.changed[:16].replace("T", " ")), Text(each.target), Text(first)
        )
    return render(table, colour=colour, columns=columns)
