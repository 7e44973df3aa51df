"""Who has which processors while rounds run."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import cores
from harness.cores import Division, divide


def alone(cpu: int) -> frozenset[int]:
    """A machine whose cores are one processor each."""
    return frozenset({cpu})


def paired(cpu: int) -> frozenset[int]:
    """A machine of four cores, 0 and 4 being one of them, 1 and 5 the next."""
    return frozenset({cpu % 4, cpu % 4 + 4})


@pytest.mark.parametrize("threads", [2, 3])
def test_nobody_is_moved_where_every_processor_is_measured_on(threads: int) -> None:
    assert divide(threads, {0, 1}, alone) == Division()


def test_the_host_keeps_to_the_last_processor_and_the_workers_have_all_others() -> None:
    assert divide(2, {0, 1, 2, 3}, alone) == Division([0, 1, 2], [3])


def test_the_host_takes_a_whole_core_where_it_can_be_spared() -> None:
    assert divide(4, set(range(8)), paired) == Division([0, 1, 2, 4, 5, 6], [3, 7])


def test_the_host_takes_half_a_core_rather_than_a_processor_that_a_thread_needs() -> None:
    assert divide(7, set(range(8)), paired) == Division([0, 1, 2, 3, 4, 5, 6], [7])


def test_a_processor_that_this_process_may_not_use_is_given_to_nobody() -> None:
    assert divide(1, {1, 5}, paired) == Division([1], [5])


def test_what_was_done_is_told_as_the_kernel_writes_it() -> None:
    assert divide(4, set(range(8)), paired).facts() == {"workers": "0-2,4-6", "host": "3,7"}
    assert Division().facts() == {"workers": None, "host": None}


@pytest.mark.parametrize(("listed", "seen"), [("0,4", {0, 4}), ("0-1", {0, 1}), ("0", {0}), ("0-1,4-5", {0, 1, 4, 5})])
def test_processors_of_one_core_are_read_from_sys(tmp_path: Path, listed: str, seen: set[int]) -> None:
    topology = tmp_path / "cpu0" / "topology"
    topology.mkdir(parents=True)
    (topology / "thread_siblings_list").write_text(f"{listed}\n")
    assert cores.siblings_of(0, tmp_path) == seen
    assert cores.siblings_of(3, tmp_path) == {3}


@pytest.fixture
def sleeper() -> Iterator[int]:
    """The kernel's number of another thread of this process."""
    done, told = threading.Event(), threading.Event()
    numbers: list[int] = []

    def sleep() -> None:
        numbers.append(threading.get_native_id())
        told.set()
        done.wait()

    thread = threading.Thread(target=sleep)
    thread.start()
    told.wait()
    yield numbers[0]
    done.set()
    thread.join()


def test_all_threads_of_a_process_step_aside_and_come_back(sleeper: int) -> None:
    usable = os.sched_getaffinity(0)
    one = {min(usable)}
    with cores.aside(one, [os.getpid()]):
        assert os.sched_getaffinity(0) == os.sched_getaffinity(sleeper) == one
    assert os.sched_getaffinity(0) == os.sched_getaffinity(sleeper) == usable


def test_nobody_steps_aside_to_nowhere_and_a_process_that_is_gone_is_no_matter() -> None:
    usable = os.sched_getaffinity(0)
    with cores.aside((), [os.getpid()]):
        assert os.sched_getaffinity(0) == usable
    with cores.aside({min(usable)}, [2**22 + 1]):
        assert os.sched_getaffinity(0) == usable
