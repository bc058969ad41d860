"""What a trace says, for people: its summary, where its drafts fail, and how two of them differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from specdec_cli.decoding.contracts import Reason
from specdec_cli.decoding.stats import ratio
from specdec_cli.tracing.difference import Difference, Token
from specdec_cli.tracing.failures import Failures, Refusal
from specdec_cli.tracing.form import Chosen, Drafted
from specdec_cli.tracing.summary import FIXED, PLAIN, UNSURE, Summary, Totals
from specdec_cli.ui.marks import RECOVERED, REFUSED
from specdec_cli.ui.render import NOT_KNOWN, counted, number, render
from specdec_cli.ui.units import one_line, percent
from specdec_cli.units import size, visible

WHY = {
    Reason.PAYS: "pays",
    Reason.PROBE: "probe",
    Reason.NO_GAIN: "no gain",
    Reason.CATCH_UP: "catch-up",
    Reason.NO_OFFER: "no offer",
    Reason.NO_ROOM: "no room",
    FIXED: "fixed",
    PLAIN: "plain",
    UNSURE: "unsure",
}
_BECAUSE = {
    Reason.PAYS: "it promised more tokens per second",
    Reason.PROBE: "tried, although it promised no gain",
    Reason.NO_GAIN: "a draft promised no gain",
    Reason.CATCH_UP: "catching up would not have paid before the end",
    Reason.NO_OFFER: "no drafter had anything to propose",
    Reason.NO_ROOM: "no draft token fits before the end",
    FIXED: "a fixed length",
    PLAIN: "no drafts were asked for, or none fits before the end",
    UNSURE: "the drafter was too unsure, or had no token",
}
_PROBABILITIES = "q: of the draw; peak: known before it; p: the target's, processed; raw: its softmax; rank: among its logits"
_NARROWEST = 40
_BAR = 20  # cells of a bar at the most
_POSITIONS = 16
_LONGEST = 300
_SETTINGS = (
    "draft", "draft_max", "draft_fixed", "verify", "exact", "temp", "top_k", "top_p", "min_p", "seed", "ctx_size", "threads",
)  # fmt: skip


def render_summary(summary: Summary, notes: Sequence[str], *, colour: bool, columns: int) -> str:
    """The summary. The last line comes without its newline."""
    columns = max(columns, _NARROWEST)
    totals = summary.totals
    parts: list[RenderableType] = [*_notes(notes), _facts(summary)]
    if totals.judged_at:
        parts += [Text(), Text("acceptance by position", style="bold"), _positions(totals, columns)]
    if totals.n_rounds:
        parts += [Text(), Text("tokens drafted (K), by rounds", style="bold"), _lengths(totals, columns)]
    if why := [*_reasons(totals.reasons, "drafted"), *_reasons(totals.reasons_of_none, "K = 0")]:
        parts += [Text(), Text("why", style="bold"), _grid(why)]
    return render(Group(*parts), colour=colour, columns=columns)


def render_worst(found: Failures, notes: Sequence[str], *, colour: bool, columns: int) -> str:
    """Where drafts fail: by kind of token, then the dearest refusals."""
    columns = max(columns, _NARROWEST)
    if not found.judged:
        return render(Group(*_notes(notes), Text("No draft token was judged.")), colour=colour, columns=columns)
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    table.add_column("draft token")
    for head in ("judged", "refused", "accepted", "of all refusals"):
        table.add_column(head, justify="right")
    for kind, n in sorted(found.judged.items(), key=lambda each: found.accepted[each[0]] - each[1]):
        refused = n - found.accepted[kind]
        cells = (str(n), str(refused), percent(found.accepted[kind], n), percent(refused, found.n_refused))
        table.add_row(Text(kind.value), *map(Text, cells))
    parts: list[RenderableType] = [*_notes(notes), table]
    if found.dearest:
        head = f"the {len(found.dearest)} dearest refusals: most draft tokens thrown away, then the surest drafter"
        parts += [Text(), Text(head, style="bold"), Text(_PROBABILITIES, style="dim")]
        for refusal in found.dearest:
            parts += [Text(), *_refusal(refusal, columns)]
    return render(Group(*parts), colour=colour, columns=columns)


def render_diff(
    a: Summary,
    b: Summary,
    unequal: Sequence[str],
    found: Difference | None,
    notes: Sequence[str],
    *,
    anew: bool,
    colour: bool,
    columns: int,
) -> str:
    """What forbids the comparison, or where the texts part; then the sums of both. anew: the rule draws another text."""
    columns = max(columns, _NARROWEST)
    parts: list[RenderableType] = [*_notes(notes)]
    if unequal:
        parts.append(Text("These traces cannot be compared token by token:", style="bold red"))
        parts += [Text(f"  {one_line(sentence, _LONGEST)}", style="red") for sentence in unequal]
    elif found is None:
        parts.append(Text(f"The emitted tokens are the same, all {a.totals.n_emitted} of them.", style="bold green"))
    else:
        parts += _parting(found, several=len(a.runs) > 1, columns=columns)
        if anew:
            parts.append(Text("--verify reject draws anew in every run, so this is no fault.", style="dim"))
    parts += [Text(), _sums(a, b)]
    return render(Group(*parts), colour=colour, columns=columns)


def _notes(notes: Sequence[str]) -> list[RenderableType]:
    found: list[RenderableType] = [Text(f"note: {one_line(note, _LONGEST)}", style="yellow") for note in notes]
    return [*found, Text()] if found else found


def _facts(summary: Summary) -> Table:
    head, totals = summary.head, summary.totals
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True, style="dim")
    grid.add_column(overflow="fold")

    def add(label: str, value: str) -> None:
        grid.add_row(Text(label), Text(value))

    for role, model in head.models.items():
        name = (model.file or NOT_KNOWN).replace("\\", "/").rpartition("/")[2]
        add(one_line(role, 24), one_line(f"{name} ({(model.sha256 or NOT_KNOWN)[:12]})", _LONGEST))
    told = [f"{name.replace('_', '-')} {head.settings[name]}" for name in _SETTINGS if head.settings.get(name)]
    add("settings", one_line(", ".join(told), _LONGEST))
    add(
        "made",
        one_line(f"{head.created}, specdec {head.version}, {head.machine.cpu or head.machine.os or NOT_KNOWN}", _LONGEST),
    )
    prompts = [run.n_prompt for run in summary.runs]
    of = f"prompt of {prompts[0]} tokens, " if len(prompts) == 1 else f"{totals.n_runs} runs, "
    add("rounds", f"{of}{totals.n_rounds} rounds, {totals.n_emitted} tokens, {number(totals.tps, 1)} tokens/s")
    add("tokens per pass", number(totals.tokens_per_pass, 2))
    add("acceptance rate", counted(totals.acceptance, totals.n_accepted, totals.n_drafted))
    if totals.drafters:
        drafters = ", ".join(f"{name} in {n} {'round' if n == 1 else 'rounds'}" for name, n in totals.drafters.most_common(4))
        add("drafted by", one_line(drafters, _LONGEST))
    add("time", _time(totals))
    if totals.n_expected:
        add("expected", _expected(totals))
    add("memory", size(totals.largest_rss))
    add(
        "finish",
        one_line(", ".join(f"{word} {n}" if n > 1 else word for word, n in totals.finishes.items()), _LONGEST) or NOT_KNOWN,
    )
    return grid


def _time(totals: Totals) -> str:
    parts = {"draft": totals.draft_s, "pass": totals.pass_s, "host": totals.host_s}
    total_s = sum(parts.values())
    if total_s <= 0:
        return NOT_KNOWN
    return ", ".join(f"{name} {part_s:.2f} s ({part_s / total_s:.0%})" for name, part_s in parts.items())


def _expected(totals: Totals) -> str:
    """What drafts were to bring before they were made, beside what came."""
    n = totals.n_expected
    hoped = f"{totals.expected_tokens / n:.2f} tokens in {1000 * totals.expected_s / n:.1f} ms"
    return f"{hoped} of a round with a draft; came {totals.came_tokens / n:.2f} in {1000 * totals.came_s / n:.1f} ms"


def _positions(totals: Totals, columns: int) -> Table:
    shown = sorted(totals.judged_at.items())
    rows = [
        (str(i + 1), ratio(totals.accepted_at[i], n) or 0.0, f"{percent(totals.accepted_at[i], n)} of {n}")
        for i, n in shown[:_POSITIONS]
    ]
    return _bars(rows, len(shown) - len(rows), columns)


def _lengths(totals: Totals, columns: int) -> Table:
    most = max(totals.lengths.values())
    rows = [(str(length), n / most, f"{n} ({percent(n, totals.n_rounds)})") for length, n in sorted(totals.lengths.items())]
    return _bars(rows[: _POSITIONS + 1], len(rows) - _POSITIONS - 1, columns)


def _bars(rows: Sequence[tuple[str, float, str]], n_more: int, columns: int) -> Table:
    """Label, bar, figures. Bars are of # so that every terminal and file can hold them."""
    longest = min(_BAR, max(columns - 24, 4))
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(justify="right")
    grid.add_column(min_width=longest, no_wrap=True)
    grid.add_column()
    for label, share, figures in rows:
        n = min(max(round(share * longest), 1 if share > 0 else 0), longest)
        grid.add_row(Text(label), Text("#" * n, style="green"), Text(figures))
    if n_more > 0:
        grid.add_row(Text(), Text(), Text(f"and {n_more} more"))
    return grid


def _reasons(reasons: Counter[str], what: str) -> Iterator[tuple[str, str, str]]:
    for reason, n in reasons.most_common():
        yield what, str(n), _BECAUSE.get(reason, reason)


def _grid(rows: Sequence[tuple[str, str, str]]) -> Table:
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True, style="dim")
    grid.add_column(justify="right", no_wrap=True)
    grid.add_column()
    for row in rows:
        grid.add_row(*map(Text, row))
    return grid


def _refusal(refusal: Refusal, columns: int) -> Iterator[Text]:
    lost = "1 token" if refusal.n_lost == 1 else f"{refusal.n_lost} tokens"
    where = f"run {refusal.run}, round {refusal.round}" if refusal.run else f"round {refusal.round}"
    yield Text(f"{where}: {refusal.kind.value}, {lost} thrown away", style="dim")
    context = visible(refusal.context)
    room = columns - 6
    yield Text(f"  ...{context[-room:]}" if context else "  (at the beginning)")
    yield _side(REFUSED.sign, refusal.drafted, "yellow")
    if refusal.chosen is not None:
        yield _side(RECOVERED.sign, refusal.chosen, "red")


def _side(sign: str, token: Drafted | Chosen, style: str) -> Text:
    """A token with what both models made of it."""
    text = Text("  ")
    text.append(f"[{sign}{_token(token.text)}]", style=style)
    figures = []
    if isinstance(token, Drafted):
        figures.append(f"q {_share(token.q)}")
        if token.peak is not None and token.peak != token.q:
            figures.append(f"peak {_share(token.peak)}")
    figures.append(f"p {_share(token.p)}")
    if token.softmax is not None and token.softmax != token.p:
        figures.append(f"raw {_share(token.softmax)}")
    figures.append(f"rank {token.rank}" if token.rank is not None else "no token of the target")
    return text.append("  " + ", ".join(figures), style="dim")


def _token(text: str) -> str:
    """A token's text, its blanks kept, and cut where it is very long."""
    return visible(text[:40]) + ("..." if len(text) > 40 else "")


def _share(value: float | None) -> str:
    if value is None:
        return NOT_KNOWN
    return "<0.001" if 0 < value < 0.0005 else f"{value:.3f}"


def _parting(found: Difference, *, several: bool, columns: int) -> Iterator[Text]:
    where = f"Run {found.run}: the" if several else "The"
    yield Text(f"{where} texts part at emitted token {found.index}.", style="bold")
    context = visible(found.context)
    yield Text(f"  ...{context[-(columns - 6) :]}" if context else "  (at the beginning)")
    for name, token in (("A", found.a), ("B", found.b)):
        yield Text(f"  {name} {_emitted(token)}")


def _emitted(token: Token | None) -> str:
    if token is None:
        return "(has ended)"
    return f"[{_token(token.text)}] id {token.id}, {token.source}, round {token.round}"


def _sums(a: Summary, b: Summary) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    table.add_column("")
    table.add_column("A", justify="right")
    table.add_column("B", justify="right")
    sides = (a.totals, b.totals)
    rows = {
        "drafter": [one_line(each.runs[0].drafter, 24) if each.runs else NOT_KNOWN for each in (a, b)],
        "rounds": [str(each.n_rounds) for each in sides],
        "tokens": [str(each.n_emitted) for each in sides],
        "tokens/s": [number(each.tps, 1) for each in sides],
        "tokens per pass": [number(each.tokens_per_pass, 2) for each in sides],
        "acceptance": [number(each.acceptance, 3) for each in sides],
        "draft s": [f"{each.draft_s:.2f}" for each in sides],
        "pass s": [f"{each.pass_s:.2f}" for each in sides],
        "host s": [f"{each.host_s:.2f}" for each in sides],
    }
    for n in sorted({*a.totals.lengths, *b.totals.lengths})[: _POSITIONS + 1]:
        rows[f"rounds of K = {n}"] = [str(each.lengths[n]) for each in sides]
    for label, cells in rows.items():
        table.add_row(Text(label), *map(Text, cells))
    return table
