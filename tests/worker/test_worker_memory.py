"""Peaks of resident memory, read from this very process."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from harness_fake.runner import FakeRunner

from harness.worker.memory import Reading, memory_pass, peak_rss

MIB = 1 << 20
UNKNOWN = Reading(None, "not read")


class RecordingRunner(FakeRunner):
    """Notes when its counters are reset and read."""

    def __init__(self) -> None:
        super().__init__()
        self.log: list[str] = []

    def memory(self, *, reset: bool = False) -> Mapping[str, int | None]:
        self.log.append("reset" if reset else "read")
        return {"allocated_peak_bytes": 7, "peak_rss_bytes": 8, "pool_bytes": None}


def touch(mebibytes: int) -> None:
    np.ones(mebibytes * MIB, np.uint8)


def test_a_peak_before_the_memory_pass_is_not_taken_for_its_own() -> None:
    touch(192)
    before = peak_rss().bytes
    peak = memory_pass(FakeRunner(), lambda: None, UNKNOWN).bytes["peak_rss_bytes"]
    assert before is not None
    assert peak is not None
    assert peak < before - 128 * MIB


def test_a_peak_within_the_memory_pass_is_seen_though_it_is_over() -> None:
    idle = memory_pass(FakeRunner(), lambda: None, UNKNOWN).bytes["peak_rss_bytes"]
    busy = memory_pass(FakeRunner(), lambda: touch(192), UNKNOWN).bytes["peak_rss_bytes"]
    assert idle is not None
    assert busy is not None
    assert busy > idle + 128 * MIB


def test_the_runners_peaks_are_reset_before_the_calls_and_read_after() -> None:
    runner = RecordingRunner()
    memory_pass(runner, lambda: runner.log.append("calls"), UNKNOWN)
    assert runner.log == ["reset", "calls", "read"]


def test_a_runners_counters_keep_their_names_beside_the_processs_own() -> None:
    read = memory_pass(RecordingRunner(), lambda: None, Reading(5))
    assert read.bytes["allocated_peak_bytes"] == 7
    assert read.bytes["peak_rss_bytes"] != 8
    assert read.bytes["peak_rss_cold_start_bytes"] == 5
    assert read.reasons == {"pool_bytes": "the runner does not know it"}


def test_a_peak_that_cannot_be_reset_is_unknown_not_too_high(tmp_path: Path) -> None:
    read = memory_pass(FakeRunner(), lambda: None, Reading(5), proc=tmp_path / "no-proc-here")
    assert read.bytes["peak_rss_bytes"] is None
    assert read.reasons["peak_rss_bytes"].startswith("the peak could not be reset before the memory pass")


def test_a_kernel_that_tells_no_peak_is_quoted(tmp_path: Path) -> None:
    (tmp_path / "status").write_text("Name:\tpython\n")
    assert peak_rss(tmp_path) == Reading(None, f"this kernel tells no VmHWM in {tmp_path / 'status'}")
    assert peak_rss(tmp_path / "absent").bytes is None
