"""The monitor as a process of its own: when it looks, how it ends, and that nothing of it stops a run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from harness.monitor import watcher as watcher_module
from harness.monitor.spans import read_log
from harness.monitor.watcher import ERRORS, FILE, watching

HOST = """
import sys, time
from pathlib import Path
from harness.monitor.watcher import Watcher
watcher = Watcher()
watcher.start(Path(sys.argv[1]), 60, "cpu")
print("started", flush=True)
time.sleep(60)
"""


def the_monitor() -> psutil.Process:
    children = psutil.Process().children()
    return next(child for child in children if "harness.monitor" in child.cmdline())


def is_gone(process: psutil.Process) -> bool:
    """One that nobody has waited for yet has ended too."""
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


def test_a_look_is_in_the_log_when_it_returns_and_stands_where_it_was_asked_for(tmp_path: Path) -> None:
    with watching(tmp_path, 60, "cpu") as watcher:
        for name in ("first", "second"):
            with watcher.over(name):
                seen = read_log(tmp_path / FILE)
                assert [sample.mark for sample in seen.samples][-1] == f"{name}/start"
    log = read_log(tmp_path / FILE)
    assert [sample.mark for sample in log.samples] == ["first/start", "first/end", "second/start", "second/end"]
    assert log.span("first")
    assert log.span("third") is None


def test_it_looks_by_itself_when_the_interval_is_over(tmp_path: Path) -> None:
    with watching(tmp_path, 0.01, "cpu") as watcher:
        while len(read_log(tmp_path / FILE).samples) < 3:
            assert watcher.reason is None
    log = read_log(tmp_path / FILE)
    assert {sample.mark for sample in log.samples} == {None}
    assert all(
        later.at_ns - sooner.at_ns >= 0.01e9 for sooner, later in zip(log.samples, log.samples[1:], strict=False)
    )


def test_a_killed_host_leaves_no_monitor(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOST, str(tmp_path)], stdout=subprocess.PIPE, text=True) as host:
        assert host.stdout is not None
        assert host.stdout.readline() == "started\n"
        (monitor,) = psutil.Process(host.pid).children()
        assert "harness.monitor" in monitor.cmdline()
        host.kill()
    until = time.monotonic() + 10
    while not is_gone(monitor):
        assert time.monotonic() < until
        time.sleep(0.01)


def test_a_ctrl_c_does_not_reach_it(tmp_path: Path) -> None:
    with watching(tmp_path, 60, "cpu"):
        assert os.getpgid(the_monitor().pid) != os.getpgid(0)


def test_two_at_once_do_not_collide(tmp_path: Path) -> None:
    with watching(tmp_path / "a", 60, "cpu") as a, watching(tmp_path / "b", 60, "cpu") as b:
        for watcher in (a, b, a):
            watcher.look("x", "start")
    assert [len(read_log(tmp_path / each / FILE).samples) for each in "ab"] == [2, 1]


def test_one_that_hangs_is_given_up_once_and_the_run_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with watching(tmp_path, 60, "cpu") as watcher:
        monkeypatch.setattr(watcher_module, "ANSWER_S", 0.2)
        the_monitor().send_signal(signal.SIGSTOP)
        watcher.look("round", "start")
        assert watcher.reason == (
            f"the monitor was given up: it did not look within 0.2 s; {ERRORS} in the block's folder may tell more"
        )
        watcher.look("round", "end")


def test_one_that_dies_is_a_reason_and_the_run_goes_on(tmp_path: Path) -> None:
    with watching(tmp_path, 60, "cpu") as watcher:
        monitor = the_monitor()
        monitor.kill()
        watcher.look("round", "start")
        assert watcher.reason
        assert "it ended" in watcher.reason


def test_one_that_cannot_write_its_log_is_a_reason_and_leaves_its_error(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("of another monitor\n")
    with watching(tmp_path, 60, "cpu") as watcher:
        assert watcher.reason
        assert "it ended" in watcher.reason
    assert "FileExistsError" in (tmp_path / ERRORS).read_text()
    assert (tmp_path / FILE).read_text() == "of another monitor\n"


def test_one_without_a_folder_is_not_started() -> None:
    with watching(None, 60, "cpu") as watcher, watcher.over("round"):
        assert watcher.reason == "monitoring was off"


def test_resting_takes_no_time_where_no_energy_can_be_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "")  # the real NVML, or the real lack of it, is not asked for cells on the cpu
    with watching(tmp_path, 60, "rocket") as watcher:  # a kind of device with no meter at all
        watcher.rest(3600)
    assert read_log(tmp_path / FILE).samples == []


def test_the_monitor_loads_nothing_that_only_the_host_needs() -> None:
    code = "import sys, harness.monitor.__main__; print([x for x in ('pydantic', 'numpy', 'yaml') if x in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
