"""Utilisation and frequency of the processors."""

from __future__ import annotations

import time
from types import SimpleNamespace

import psutil
import pytest

from harness.monitor.processor import DEAR_S, Processor


def test_processor_seconds_of_all_processors_pass_and_some_of_them_are_busy() -> None:
    processor = Processor()
    busy_before_s, total_before_s = processor.times_s()
    until = time.process_time() + 0.05  # of work, ours
    while time.process_time() < until:
        pass
    busy_s, total_s = processor.times_s()
    assert 0 < busy_s - busy_before_s <= total_s - total_before_s + 0.05  # counted in hundredths of a second


def test_waiting_for_a_disk_is_idle_and_guests_are_not_counted_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("user", "system", "idle", "iowait", "guest")
    times = SimpleNamespace(**dict(zip(names, (5.0, 2.0, 10.0, 3.0, 4.0), strict=True)))
    monkeypatch.setattr(psutil, "cpu_times", lambda: _Times(times))
    assert Processor().times_s() == (7.0, 20.0)


class _Times(tuple[float, ...]):
    """Like psutil's: a tuple whose items have names."""

    def __new__(cls, names: SimpleNamespace) -> _Times:
        times = super().__new__(cls, vars(names).values())
        times.__dict__.update(vars(names))
        return times


def test_a_frequency_that_is_dear_to_read_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def dear() -> SimpleNamespace:
        time.sleep(2 * DEAR_S)
        return SimpleNamespace(current=2000.0)

    monkeypatch.setattr(psutil, "cpu_freq", dear)
    processor = Processor()
    assert processor.frequency_hz() is None
    assert processor.frequency_reason
    assert "left out" in processor.frequency_reason


def test_a_frequency_is_in_hertz_and_an_unknown_one_is_null_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "cpu_freq", lambda: SimpleNamespace(current=2000.0))
    monkeypatch.setattr("harness.monitor.processor.DEAR_S", 60)  # however busy this machine is
    assert Processor().frequency_hz() == 2e9
    monkeypatch.setattr(psutil, "cpu_freq", lambda: None)
    processor = Processor()
    assert (processor.frequency_hz(), processor.frequency_reason) == (None, "the system does not tell")
