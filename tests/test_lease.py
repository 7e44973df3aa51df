"""Two runs on one machine queue for the device: real processes, real locks."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import lease as module
from harness.lease import lease, no_lease
from harness.model import HarnessError

HOLD = """
import sys, time
from harness.lease import lease
def note(text): print(text, flush=True)
with lease(sys.argv[1], note):
    print("measuring", flush=True)
    sys.stdin.readline()
print("done", flush=True)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(module.VARIABLE, str(tmp_path))
    return tmp_path


class Run:
    """Another process that holds the lease of a device until it is told to go on."""

    def __init__(self, device: str = "cpu") -> None:
        argv = [sys.executable, "-c", HOLD, device]
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def says(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().rstrip()

    def go_on(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def runs() -> Iterator[list[Run]]:
    started: list[Run] = []
    yield started
    for run in started:
        run.end()


def refuse(text: str) -> None:
    raise AssertionError(f"nobody should have to wait: {text}")


def test_a_second_run_waits_for_the_first_and_says_who_has_the_device(runs: list[Run]) -> None:
    runs.append(first := Run())
    assert first.says() == "measuring"
    runs.append(second := Run())
    told = second.says()
    assert told.startswith(f"waiting for the cpu: `-c cpu` (process {first.process.pid}, since ")
    assert "--no-lease" in told
    first.go_on()
    assert (first.says(), second.says()) == ("done", "measuring")


def test_kinds_of_device_are_held_apart(runs: list[Run]) -> None:
    runs.append(first := Run("cuda"))
    assert first.says() == "measuring"
    with lease("cpu", refuse):
        pass


def test_a_holder_that_was_killed_is_no_obstacle(runs: list[Run], folder: Path) -> None:
    runs.append(first := Run())
    assert first.says() == "measuring"
    first.process.send_signal(signal.SIGKILL)
    first.process.wait()
    assert json.loads((folder / "backend-harness-cpu.lease").read_bytes())["pid"] == first.process.pid
    with lease("cpu", refuse):
        assert json.loads((folder / "backend-harness-cpu.lease").read_bytes())["pid"] == os.getpid()


def test_ctrl_c_ends_the_waiting(runs: list[Run]) -> None:
    runs.append(first := Run())
    assert first.says() == "measuring"
    runs.append(second := Run())
    assert second.says().startswith("waiting")
    second.process.send_signal(signal.SIGINT)
    assert second.process.wait(20) == -signal.SIGINT


def test_waiting_takes_no_processor_time(runs: list[Run]) -> None:
    runs.append(first := Run())
    assert first.says() == "measuring"
    with subprocess.Popen(["sh", "-c", f"sleep 1; kill -9 {first.process.pid}"]):
        before_s, notes = time.process_time(), list[str]()
        with lease("cpu", notes.append):
            used_s = time.process_time() - before_s
    assert len(notes) == 1
    assert used_s < 0.3  # of 1 s waited


def test_without_a_lease_nobody_waits(runs: list[Run]) -> None:
    runs.append(first := Run())
    assert first.says() == "measuring"
    with no_lease("cpu", refuse):
        pass


def test_a_lock_that_is_no_file_of_ours_still_locks_and_names_nobody(folder: Path, runs: list[Run]) -> None:
    (folder / "backend-harness-cpu.lease").write_text("something else")
    runs.append(first := Run())
    assert first.says() == "measuring"
    (folder / "backend-harness-cpu.lease").write_text("something else")
    runs.append(second := Run())
    assert second.says().startswith("waiting for the cpu: another run is measuring")


def test_every_user_may_queue_whatever_the_umask(folder: Path) -> None:
    before = os.umask(0o077)
    try:
        with lease("cpu", refuse):
            pass
    finally:
        os.umask(before)
    assert (folder / "backend-harness-cpu.lease").stat().st_mode & 0o777 == 0o666


def test_a_link_in_its_place_is_not_followed(folder: Path) -> None:
    (folder / "victim").write_text("precious")
    (folder / "backend-harness-cpu.lease").symlink_to(folder / "victim")
    with (
        pytest.raises(HarnessError, match=r"cannot queue for the device: .*; set HARNESS_LEASES"),
        lease("cpu", refuse),
    ):
        pass
    assert (folder / "victim").read_text() == "precious"


def test_a_folder_that_is_not_there_is_told_with_what_to_do(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setenv(module.VARIABLE, str(folder / "missing"))
    with (
        pytest.raises(
            HarnessError, match=r"missing/.*: No such file or directory; set HARNESS_LEASES .* or use --no-lease"
        ),
        lease("cpu", refuse),
    ):
        pass
