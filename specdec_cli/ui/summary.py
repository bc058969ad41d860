"""The statistics of a finished run: as a few aligned lines, and as a JSON object."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rich.table import Table
from rich.text import Text

from specdec_cli.decoding.stats import RunStats, ratio
from specdec_cli.ui.render import NOT_KNOWN, counted, number, render

Json = dict[str, object]
_POSITIONS = 16  # positions that the lines show; --json has them all
_PARTS_PER_LINE = 3
_NARROWEST = 48  # columns that labels and values need; a narrower terminal wraps them itself


@dataclass(frozen=True, slots=True)
class Summary:
    """What there is to say about a run once it has ended."""

    stats: RunStats
    drafter: str  # the one that really ran
    seed: int
    settings: Mapping[str, object] = field(default_factory=dict)  # name -> value and source
    models: Mapping[str, object] = field(default_factory=dict)  # "target", "draft" -> what is known about it
    shadow: Mapping[str, float] | None = None  # what drafting would have brought, where that was counted


def summary_lines(summary: Summary) -> list[tuple[str, str]]:
    """Label and value of each line of the summary."""
    stats = summary.stats
    reused = f", {stats.n_reused} more from the cache" if stats.n_reused else ""
    n_timed = stats.n_emitted - stats.n_first
    invalid = f", {stats.n_invalid} of these are no tokens of the target" if stats.n_invalid else ""
    by_position = [
        f"{i + 1}: {counted(ratio(stats.n_accepted_at[i], n), stats.n_accepted_at[i], n)}"
        for i, n in sorted(stats.n_verified_at.items())[:_POSITIONS]
    ]
    if len(stats.n_verified_at) > _POSITIONS:
        by_position.append(f"and {len(stats.n_verified_at) - _POSITIONS} more")
    by_drafter = [
        f"{name}: {counted(ratio(stats.n_accepted_by[name], n), stats.n_accepted_by[name], n)}"
        for name, n in stats.n_drafted_by.items()
    ]
    drafting = f" (proposed in {stats.n_drafting_rounds} of {stats.n_rounds} rounds)" if stats.n_drafting_rounds else ""
    finish = stats.finish.value if stats.finish is not None else NOT_KNOWN
    return [
        ("prompt t/s", f"{number(stats.prompt_tps, 1)} ({stats.n_prompt} tokens in {stats.prompt_s:.2f} s{reused})"),
        ("TTFT", f"{number(stats.ttft_s, 2)} s" if stats.ttft_s is not None else NOT_KNOWN),
        (
            "generation t/s",
            f"{number(stats.generation_tps, 1)} ({n_timed} of {stats.n_emitted} tokens in {_generation_s(stats):.2f} s, "
            "after round 1)",
        ),
        ("acceptance rate", counted(stats.acceptance_rate, stats.n_accepted, stats.n_drafted) + invalid),
        (
            "mean acceptance length",
            f"{number(stats.mean_acceptance_length, 2)} (1 + {stats.n_accepted} accepted / {stats.n_rounds} rounds)",
        ),
        ("acceptance by position", _in_lines(by_position) or NOT_KNOWN),
        *([("acceptance by drafter", _in_lines(by_drafter))] if len(by_drafter) > 1 else []),
        ("time", _time_split(stats)),
        *([("shadow", _brought(summary.shadow))] if summary.shadow is not None else []),
        ("finish", finish),
        ("drafter", f"{summary.drafter}{drafting}"),
        ("seed", str(summary.seed)),
    ]


def _brought(shadow: Mapping[str, float]) -> str:
    """What drafting would have brought."""
    if not shadow:
        return "too few tokens to say what drafting would have brought"
    if not shadow["drafted"]:  # what speed-up there is comes from the clock alone
        return "drafting would have brought nothing: there was nothing to draft"
    return (
        f"drafting would have brought {shadow['tokens_per_s']:.1f} t/s instead of {shadow['plain_tokens_per_s']:.1f}:"
        f" {shadow['speed_up']:.2f}x\n{shadow['accepted']:.0f} of {shadow['drafted']:.0f} drafted tokens accepted,"
        f" {shadow['tokens_per_pass']:.2f} tokens per pass"
    )


def _in_lines(parts: Sequence[str]) -> str:
    """Parts, a few a line, so that none is broken at 80 columns."""
    lines = [parts[i : i + _PARTS_PER_LINE] for i in range(0, len(parts), _PARTS_PER_LINE)]
    return "\n".join("  ".join(line) for line in lines)


def render_summary(summary: Summary, *, colour: bool, columns: int) -> str:
    """The summary as lines of text, the last one without its newline."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True, style="dim")
    grid.add_column(overflow="fold")
    for label, value in summary_lines(summary):
        grid.add_row(Text(label), Text(value))
    return render(grid, colour=colour, columns=max(columns, _NARROWEST))


def summary_json(stats: RunStats) -> Json:
    """All statistics of a run, with the counts that each rate is made of. What is not known is None."""
    total_s = stats.draft_s + stats.pass_s + stats.host_s
    return {
        "finish": stats.finish.value if stats.finish is not None else None,
        "prompt_tokens": stats.n_prompt,
        "prompt_tokens_reused": stats.n_reused,
        "prompt_s": stats.prompt_s,
        "prompt_tokens_per_s": stats.prompt_tps,
        "ttft_s": stats.ttft_s,
        "emitted": stats.n_emitted,
        "emitted_after_first_round": stats.n_emitted - stats.n_first,
        "generation_s": _generation_s(stats),
        "generation_tokens_per_s": stats.generation_tps,
        "rounds": stats.n_rounds,
        "drafting_rounds": stats.n_drafting_rounds,
        "drafted": stats.n_drafted,
        "accepted": stats.n_accepted,
        "invalid": stats.n_invalid,
        "recovered": stats.n_recovered,
        "bonus": stats.n_bonus,
        "acceptance_rate": stats.acceptance_rate,
        "mean_acceptance_length": stats.mean_acceptance_length,
        "acceptance_by_position": [
            {"accepted": stats.n_accepted_at[i], "verified": n, "rate": ratio(stats.n_accepted_at[i], n)}
            for i, n in sorted(stats.n_verified_at.items())
        ],
        "draft_s": stats.draft_s,
        "verify_s": stats.pass_s,
        "host_s": stats.host_s,
        "draft_share": ratio(stats.draft_s, total_s),
        "verify_share": ratio(stats.pass_s, total_s),
        "host_share": ratio(stats.host_s, total_s),
        "rounds_by_drafter": dict(stats.drafters),
        "tokens_by_drafter": {
            name: {"drafted": n, "accepted": stats.n_accepted_by[name]} for name, n in stats.n_drafted_by.items()
        },
    }


def _generation_s(stats: RunStats) -> float:
    """Seconds that the generation rate is over."""
    return stats.last_s - stats.first_s if stats.first_s is not None and stats.last_s is not None else 0.0


def _time_split(stats: RunStats) -> str:
    parts = {"draft": stats.draft_s, "verify": stats.pass_s, "host": stats.host_s}
    total_s = sum(parts.values())
    if total_s <= 0:
        return NOT_KNOWN
    return ", ".join(f"{name} {part_s / total_s:.0%}" for name, part_s in parts.items()) + f" of {total_s:.2f} s"
