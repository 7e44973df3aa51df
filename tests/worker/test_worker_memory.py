"""The memory pass, read from this very process, its children and a runner's counters."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from harness_fake.runner import FakeRunner

from harness.protocol import MemoryRead
from harness.worker.api import RUNNERS_COUNTERS, Counters
from harness.worker.memory import memory_pass
from harness.worker.processes import Reading, peak_rss

MIB = 1 << 20
UNKNOWN = Reading(None, "not read")
ALONE = """
from harness_fake.runner import FakeRunner
from harness.worker.memory import memory_pass
from harness.worker.processes import Reading
print(memory_pass(FakeRunner(), lambda: None, Reading(5)).bytes["children_peak_rss_bytes"])
"""
CHILD = """
import sys
bytearray(int(sys.argv[1]) << 20)
for line in sys.stdin:
    bytearray(int(line) << 20)
    print("done", flush=True)
"""


class RecordingRunner(FakeRunner):
    """Notes when its counters are reset and read, and tells what it was given to tell."""

    def __init__(self, *told: Counters) -> None:
        super().__init__()
        self.log: list[str] = []
        self._told = iter(told or ({}, {}))

    def memory(self, *, reset: bool = False) -> Counters:
        self.log.append("reset" if reset else "read")
        return next(self._told)


class Child:
    """A process that takes as many MiB as it is told, and gives them back at once."""

    def __init__(self, mebibytes_at_start: int) -> None:
        argv = [sys.executable, "-c", CHILD, str(mebibytes_at_start)]
        self._process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.touch(0)

    def touch(self, mebibytes: int) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{mebibytes}\n")
        self._process.stdin.flush()
        assert self._process.stdout.readline() == "done\n"

    def end(self) -> None:
        self._process.communicate()


@pytest.fixture
def children() -> Iterator[Callable[..., Child]]:
    """Starts children that are ended with the test."""
    started: list[Child] = []

    def start(mebibytes_at_start: int = 0) -> Child:
        started.append(Child(mebibytes_at_start))
        return started[-1]

    yield start
    for child in started:
        child.end()


def touch(mebibytes: int) -> None:
    np.ones(mebibytes * MIB, np.uint8)


def read(runner: FakeRunner, calls: Callable[[], object] = lambda: None, root: Path = Path("/")) -> MemoryRead:
    return memory_pass(runner, calls, UNKNOWN, root)


def known(memory: MemoryRead, name: str) -> int:
    value = memory.bytes[name]
    assert value is not None, memory.reasons[name]
    return value


# --- the worker's own -----------------------------------------------------------------------------------------------


def test_a_peak_before_the_memory_pass_is_not_taken_for_its_own() -> None:
    touch(192)
    before = peak_rss().bytes
    assert before is not None
    assert known(read(FakeRunner()), "peak_rss_bytes") < before - 128 * MIB


def test_a_peak_within_the_memory_pass_is_seen_though_it_is_over() -> None:
    idle = known(read(FakeRunner()), "peak_rss_bytes")
    assert known(read(FakeRunner(), lambda: touch(192)), "peak_rss_bytes") > idle + 128 * MIB


def test_the_peak_of_the_cold_start_is_that_which_was_read_after_it() -> None:
    assert memory_pass(FakeRunner(), lambda: None, Reading(5)).bytes["peak_rss_cold_start_bytes"] == 5


def test_a_peak_that_cannot_be_reset_is_unknown_not_too_high(tmp_path: Path) -> None:
    memory = read(FakeRunner(), root=tmp_path)
    assert memory.bytes["peak_rss_bytes"] is None
    assert memory.reasons["peak_rss_bytes"].startswith("the peak could not be reset before the memory pass")


def test_a_kernel_that_tells_no_peak_is_quoted(tmp_path: Path) -> None:
    (tmp_path / "status").write_text("Name:\tpython\n")
    assert peak_rss(tmp_path) == Reading(None, f"no VmHWM in {tmp_path / 'status'}")
    assert peak_rss(tmp_path / "absent").bytes is None


# --- its children's -------------------------------------------------------------------------------------------------


def test_without_children_their_peak_is_nothing() -> None:
    """In a process of its own: this one may have children of other tests."""
    path = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    told = subprocess.run([sys.executable, "-c", ALONE], env=path, capture_output=True, text=True, check=True)
    assert told.stdout == "0\n"


def test_each_child_counts_with_its_own_peak_of_the_pass(children: Callable[..., Child]) -> None:
    first, second = children(), children()
    idle = known(read(FakeRunner()), "children_peak_rss_bytes")

    def one_after_the_other() -> None:
        first.touch(96)
        second.touch(96)

    busy = known(read(FakeRunner(), one_after_the_other), "children_peak_rss_bytes")
    assert busy > idle + 2 * 64 * MIB


def test_what_a_child_took_before_the_pass_is_not_counted(children: Callable[..., Child]) -> None:
    children(mebibytes_at_start=256)
    assert known(read(FakeRunner()), "children_peak_rss_bytes") < 128 * MIB


def test_a_child_born_within_the_pass_is_counted(children: Callable[..., Child]) -> None:
    memory = read(FakeRunner(), lambda: children(mebibytes_at_start=96))
    assert known(memory, "children_peak_rss_bytes") > 64 * MIB


@pytest.mark.parametrize("is_born_before", [True, False])
def test_a_child_that_ends_within_the_pass_takes_its_peak_with_it(
    is_born_before: bool, children: Callable[..., Child]
) -> None:
    born = [children()] if is_born_before else []
    memory = read(FakeRunner(), lambda: (born or [children()])[0].end())
    assert memory.bytes["children_peak_rss_bytes"] is None
    assert memory.reasons["children_peak_rss_bytes"].startswith("a child process ended during the memory pass")


# --- the runner's counters ------------------------------------------------------------------------------------------


def test_the_runners_peaks_are_reset_before_the_calls_and_read_after() -> None:
    runner = RecordingRunner()
    read(runner, lambda: runner.log.append("calls"))
    assert runner.log == ["reset", "calls", "read"]


def test_what_calls_leave_behind_and_what_they_need_meanwhile_are_told_apart() -> None:
    before = {"allocated_bytes": 100, "peak_allocated_bytes": 100}
    after = {"allocated_bytes": 107, "peak_allocated_bytes": 150}
    memory = read(RecordingRunner(before, after))
    assert memory.bytes["allocated_bytes"] == 107
    assert memory.bytes["allocated_delta_bytes"] == 7
    assert memory.bytes["peak_allocated_bytes"] == 150
    assert memory.bytes["peak_allocated_delta_bytes"] == 50


def test_a_counter_that_the_runner_does_not_know_is_null_with_its_reason_and_so_is_what_follows_from_it() -> None:
    unknown = {"allocated_bytes": "the allocator counts nothing", "peak_allocated_bytes": 7}
    memory = read(RecordingRunner(unknown, unknown))
    for name in ("allocated_bytes", "allocated_delta_bytes", "peak_allocated_delta_bytes"):
        assert memory.bytes[name] is None
        assert memory.reasons[name] == "the allocator counts nothing"


def test_a_counter_that_the_runner_forgets_is_null_with_that_reason() -> None:
    memory = read(RecordingRunner())
    assert {memory.reasons[name] for name in RUNNERS_COUNTERS} == {"the runner does not tell it"}


def test_a_runners_own_counters_keep_their_names_but_never_take_the_processs() -> None:
    own = {"pool_bytes": np.int64(3), "peak_rss_bytes": 8}
    memory = read(RecordingRunner(own, own))
    assert memory.bytes["pool_bytes"] == 3
    assert memory.bytes["peak_rss_bytes"] != 8


@pytest.mark.parametrize("value", [None, 0.5])
def test_a_counter_that_is_neither_bytes_nor_a_reason_is_refused(value: object) -> None:
    with pytest.raises(
        TypeError, match=r"memory\(\) returned pool_bytes=.*: give whole bytes, or a text that says why"
    ):
        read(RecordingRunner({"pool_bytes": value}))  # type: ignore[dict-item]


def test_every_null_has_a_reason_and_no_number_has_one() -> None:
    memory = read(FakeRunner())
    assert memory.reasons.keys() == {name for name, value in memory.bytes.items() if value is None}


def test_every_name_is_on_the_page_of_results() -> None:
    page = (Path(__file__).parents[2] / "docs/reference/results.md").read_text()
    section = page.partition("\n## Memory\n")[2].partition("\n## ")[0]
    assert read(FakeRunner()).bytes.keys() <= set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE))
