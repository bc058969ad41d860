"""The four ways to show a run."""

from __future__ import annotations

import io

import pytest

from specdec_cli.decoding.contracts import FinishReason, PromptPass
from specdec_cli.decoding.stats import RunStats
from specdec_cli.ui.output import OutputClosed
from specdec_cli.ui.screen import Screen
from specdec_cli.ui.sinks import Display, LiveSink, Mode, Sink, choose, footer_text, open_sink
from specdec_cli.ui.summary import render_summary
from tests.ui.runs import a_round, a_run, play
from tests.ui.terminal import Terminal, raising, stream

TEXTS = ["Hello", " wörld,\n", "日本語 😀 ", "and a line that is longer than the terminal is wide", "", "\x1b[31m?", "."]


def shown(display: Display, texts: list[str], *, tty: bool) -> tuple[bytes, str]:
    """Bytes on standard output and text on standard error."""
    out: list[bytes] = []
    err: list[bytes] = []
    play(
        open_sink(display, stream(out.append, tty=tty), stream(err.append, tty=tty), {"TERM": "xterm"}),
        a_run(texts),
    )
    return b"".join(out), b"".join(err).decode()


def live(terminal: Terminal, times: list[float] | None = None) -> LiveSink:
    clock = iter(times) if times is not None else iter(range(1_000))
    screen = Screen(terminal.stream(), terminal.stream(), size=lambda: terminal.size)
    return LiveSink(screen, colour=False, clock=lambda: float(next(clock)))


@pytest.mark.parametrize("texts", [TEXTS, [], [""], ["no newline"], ["a newline\n"], ["newlines\n\n"]])
def test_the_bytes_of_the_text_are_the_same_everywhere(texts: list[str]) -> None:
    text = "".join(texts)
    expected = (text if text.endswith("\n") else text + "\n").encode()
    for display in (Display(), Display(live=False), Display(quiet=True)):
        for tty in (True, False):
            assert shown(display, texts, tty=tty)[0] == expected


def test_only_a_terminal_is_sent_escape_sequences() -> None:
    assert "\x1b" in shown(Display(), TEXTS, tty=True)[1]
    assert "\x1b" not in shown(Display(), TEXTS, tty=False)[1]


def test_quiet_says_nothing_but_the_text() -> None:
    assert shown(Display(quiet=True), TEXTS, tty=True)[1] == ""
    err = io.StringIO()
    open_sink(Display(quiet=True), None, err, {}).notice("A sentence.")
    assert err.getvalue() == ""


@pytest.mark.parametrize(
    ("display", "tty", "env", "mode"),
    [
        (Display(), True, {"TERM": "xterm"}, Mode.LIVE),
        (Display(), True, {"NO_COLOR": "1"}, Mode.LIVE),
        (Display(), True, {"TERM": "dumb"}, Mode.PLAIN),
        (Display(), False, {"TERM": "xterm"}, Mode.PLAIN),
        (Display(live=False), True, {"TERM": "xterm"}, Mode.PLAIN),
        (Display(quiet=True), True, {"TERM": "xterm"}, Mode.QUIET),
        (Display(json=True), True, {"TERM": "xterm"}, Mode.JSON),
        (Display(json=True, quiet=True), True, {"TERM": "xterm"}, Mode.JSON),
    ],
)
def test_the_mode_follows_from_what_was_asked_and_where_it_goes(
    display: Display, tty: bool, env: dict[str, str], mode: Mode
) -> None:
    assert choose(display, stream(lambda data: None, tty=tty), env) is mode


def test_live_leaves_the_text_and_the_summary_and_no_footer() -> None:
    terminal = Terminal(60, 8)
    sink = live(terminal)
    sink.progress("loading", 0.5)
    assert terminal.rows() == ["loading 50%"]
    summary = play(sink, a_run(["some text ", "that goes on"]))
    assert terminal.rows() == [
        "some text that goes on",
        "",
        *render_summary(summary, colour=False, columns=60).split("\n"),
    ]


def test_live_shows_how_the_run_goes_under_the_text() -> None:
    terminal = Terminal(80, 8)
    sink, stats = live(terminal), RunStats(started_s=100.0)
    for event in (PromptPass(3, 8, 0, 0.1), PromptPass(8, 8, 0, 0.1)):
        stats.add(event)
        sink.event(event, stats)
        assert terminal.rows() == [f"prompt {event.n_done}/8 tokens"]
    for i in range(2):
        done = a_round(i, "word ", drafted=(1, 2, 3), n_accepted=2, emitted=(1, 2, 9))
        stats.add(done)
        sink.event(done, stats)
    assert terminal.rows() == ["word word", "12.0 tokens/s | accepted 4/6 | 3.00 tokens per pass"]


def test_the_footer_changes_ten_times_a_second_at_most_and_at_once_for_something_new() -> None:
    terminal = Terminal(80, 8)
    sink = live(terminal, [0.0, 0.05, 0.06, 0.11, 0.12, 0.13])
    seen = []
    for label, fraction in (
        ("load", 0.1),
        ("load", 0.2),
        ("warm up", None),
        ("warm up", 0.1),
        ("warm up", 0.3),
        ("warm up", 1.0),
    ):
        sink.progress(label, fraction)
        seen += terminal.rows()
    assert seen == ["load 10%", "load 10%", "warm up", "warm up", "warm up", "warm up 100%"]


def test_a_run_without_drafts_has_a_footer_without_acceptance() -> None:
    stats = RunStats(started_s=100.0)
    for i in range(3):
        stats.add(a_round(i, "x"))
    assert footer_text(stats) == "4.0 tokens/s"
    assert footer_text(RunStats()) == ""


def test_an_error_ends_the_line_and_takes_the_footer_away() -> None:
    terminal = Terminal(80, 8)
    stats = RunStats(started_s=100.0)

    def fail(sink: Sink) -> None:
        with sink:
            for event in a_run(["half a", " line"])[:3]:
                stats.add(event)
                sink.event(event, stats)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail(live(terminal))
    terminal.feed("error: it failed\n")
    assert terminal.rows() == ["half a line", "error: it failed"]


def test_an_error_before_any_text_leaves_standard_output_empty() -> None:
    out = io.StringIO()
    with pytest.raises(ValueError, match="x"), open_sink(Display(), out, io.StringIO(), {}):
        raise ValueError("x")
    assert out.getvalue() == ""


def test_a_closed_pipe_stops_the_run() -> None:
    for display in (Display(), Display(quiet=True), Display(json=True)):
        err = io.StringIO()
        with pytest.raises(OutputClosed):
            play(open_sink(display, raising(BrokenPipeError()), err, {}), a_run(TEXTS))
        assert err.getvalue() == ""


def test_text_held_back_until_the_end_is_shown() -> None:
    out = io.StringIO()
    play(open_sink(Display(live=False), out, None, {}), a_run(["a "], FinishReason.LENGTH, held="half stop"))
    assert out.getvalue() == "a half stop\n"


def test_notices_and_the_summary_go_to_standard_error() -> None:
    err = io.StringIO()
    sink = open_sink(Display(), io.StringIO(), err, {})
    sink.notice("The draft is \x1b[2Jnot used.")
    summary = play(sink, a_run(["x"]))
    assert err.getvalue() == (
        "note: The draft is \\x1b[2Jnot used.\n\n" + render_summary(summary, colour=False, columns=80) + "\n"
    )


def test_a_sink_shows_one_run_after_another() -> None:
    for display in (Display(), Display(quiet=True)):
        out = io.StringIO()
        sink = open_sink(display, out, None, {})
        play(sink, a_run(["one"]))
        play(sink, a_run(["two"]))
        assert out.getvalue() == "one\ntwo\n"


@pytest.mark.parametrize("display", [Display(), Display(json=True), Display(quiet=True), Display(live=False)])
def test_runs_without_any_stream_work(display: Display) -> None:
    play(open_sink(display, None, None, {}), a_run(TEXTS))
