"""Calls that may not end."""

from __future__ import annotations

import gc
import threading
import weakref

import pytest

from specdec_cli.llama.bounded import BoundedCalls


def test_a_job_runs_on_another_thread_and_is_over_when_call_returns() -> None:
    calls, seen = BoundedCalls(10.0), []
    calls.call(lambda: seen.append(threading.current_thread()))
    assert seen[0] is not threading.current_thread()


def test_an_error_of_the_job_comes_out_of_call_and_the_next_job_runs() -> None:
    calls, seen = BoundedCalls(10.0), []

    def fail() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        calls.call(fail)
    calls.call(lambda: seen.append(1))
    assert seen == [1]


def test_after_a_job_that_did_not_end_there_are_no_more() -> None:
    calls, hold, seen = BoundedCalls(0.05), threading.Event(), []
    with pytest.raises(TimeoutError):
        calls.call(lambda: void(hold.wait()))
    with pytest.raises(TimeoutError):
        calls.call(lambda: seen.append(1))
    hold.set()
    assert seen == []


def test_the_thread_ends_with_its_owner_and_keeps_no_job() -> None:
    calls = BoundedCalls(10.0)
    threads: list[threading.Thread] = []
    job = Job(threads)
    kept = weakref.ref(job)
    calls.call(job)
    del job
    assert kept() is None
    del calls
    gc.collect()
    threads[0].join(timeout=10)
    assert not threads[0].is_alive()


class Job:
    """A job that a weak reference can watch."""

    def __init__(self, threads: list[threading.Thread]) -> None:
        self._threads = threads

    def __call__(self) -> None:
        self._threads.append(threading.current_thread())


def void(_: object) -> None:
    """For jobs: they return nothing."""
