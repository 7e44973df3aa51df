"""Where threads run while a round does. The threads are real, and so is where the kernel lets them run."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.worker.affinity import Affinity

USABLE = sorted(os.sched_getaffinity(0))


def compute() -> None:
    """For several of the kernel's ticks: what a thread has used is not told more finely while it runs."""
    until = time.thread_time() + 0.03
    while time.thread_time() < until:
        pass


class Helper:
    """A second thread, which computes when it is told to."""

    def __init__(self) -> None:
        self._told, self._done = threading.Event(), threading.Event()
        self.thread = threading.Thread(target=self._work, daemon=True)
        self.thread.start()

    def compute(self) -> None:
        self._done.clear()
        self._told.set()
        self._done.wait()

    def end(self) -> None:
        self._ends = True
        self._told.set()
        self.thread.join()

    _ends = False

    def _work(self) -> None:
        while True:
            self._told.wait()
            self._told.clear()
            if self._ends:
                return
            compute()
            self._done.set()


@pytest.fixture
def helper() -> Iterator[Helper]:
    helper = Helper()
    yield helper
    helper.end()


def where(thread: threading.Thread) -> set[int]:
    assert thread.native_id is not None
    return os.sched_getaffinity(thread.native_id)


def test_threads_that_nobody_asked_about_are_left_alone(helper: Helper) -> None:
    with Affinity(1, helper.compute).kept([], bind=False) as placed:
        assert (placed.bound, placed.reason) == ([], None)
        assert where(helper.thread) == set(USABLE)


def test_all_threads_stay_on_the_processors_of_a_round_and_are_free_again_after(helper: Helper) -> None:
    with Affinity(1, helper.compute).kept(USABLE[:1], bind=False) as placed:
        assert where(helper.thread) == where(threading.main_thread()) == set(USABLE[:1])
        assert placed.reason is None
    assert where(helper.thread) == where(threading.main_thread()) == set(USABLE)


def test_the_busiest_thread_is_bound_to_one_processor_and_the_others_are_not(helper: Helper) -> None:
    with Affinity(1, helper.compute).kept([], bind=True) as placed:
        assert placed.bound == USABLE[:1]
        assert where(helper.thread) == set(USABLE[:1])
        assert where(threading.main_thread()) == set(USABLE)
    assert where(helper.thread) == set(USABLE)


def test_a_thread_started_by_a_bound_one_is_free_after_the_round() -> None:
    with Affinity(1, compute).kept([], bind=True) as placed:
        assert len(placed.bound) == 1
        late = Helper()
    assert where(late.thread) == set(USABLE)
    late.end()


def test_threads_are_free_again_after_a_round_that_failed(helper: Helper) -> None:
    with pytest.raises(RuntimeError), Affinity(1, helper.compute).kept(USABLE[:1], bind=True):
        raise RuntimeError
    assert where(helper.thread) == where(threading.main_thread()) == set(USABLE)


def test_a_processor_that_there_is_not_is_told_and_the_round_goes_on(helper: Helper) -> None:
    with Affinity(1, helper.compute).kept([4_000], bind=True) as placed:
        assert placed.bound == []
        assert placed.reason == "threads could not be placed: Invalid argument"


def test_a_kernel_that_does_not_tell_who_is_busy_is_told_of(helper: Helper, tmp_path: Path) -> None:
    (tmp_path / str(helper.thread.native_id)).mkdir()
    with Affinity(1, helper.compute, tmp_path).kept(USABLE, bind=True) as placed:
        assert placed.reason is not None
        assert "after binding 0 of them" in placed.reason
