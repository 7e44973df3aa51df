"""Cutting a log into stretches, and the arithmetic over them."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.monitor import spans
from harness.monitor.log import round_name
from harness.monitor.spans import NotSeenError, Span, read_log
from harness.monitor.watcher import FILE
from monitor.logs import a_gpu_sample, a_sample, of_round, write_log


def test_a_stretch_is_what_lies_between_its_marks(tmp_path: Path) -> None:
    marks = [None, of_round("start"), None, of_round("end"), of_round("start", 1), of_round("end", 1), None]
    write_log(tmp_path, [a_sample(at_s, at) for at_s, at in enumerate(marks)])
    log = read_log(tmp_path / FILE)
    first, second = log.span(round_name("launch-1", 0)), log.span(round_name("launch-1", 1))
    assert first
    assert second
    assert [sample.at_ns for sample in first.samples] == [1e9, 2e9, 3e9]
    assert ([sample.at_ns for sample in second.samples], second.elapsed_s) == ([4e9, 5e9], 1)
    assert log.launches == {"launch-1"}


def test_a_stretch_without_an_end_is_none(tmp_path: Path) -> None:
    write_log(tmp_path, [a_sample(1, of_round("start")), a_sample(2)])
    assert read_log(tmp_path / FILE).span(round_name("launch-1", 0)) is None


def test_a_line_that_the_monitor_was_killed_at_is_left_out(tmp_path: Path) -> None:
    write_log(tmp_path, [a_sample(1), a_sample(2)])
    whole = (tmp_path / FILE).read_bytes()
    (tmp_path / FILE).write_bytes(whole[:-20])
    assert [sample.at_ns for sample in read_log(tmp_path / FILE).samples] == [1e9]


@pytest.mark.parametrize("content", [b"", b"{}\n", b'{"interval_s": 1}\n', b"not a log\n"])
def test_a_log_that_is_none_says_so(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE).write_bytes(content)
    with pytest.raises(NotSeenError, match="the monitor's log cannot be read: "):
        read_log(tmp_path / FILE)


def test_a_missing_log_says_so(tmp_path: Path) -> None:
    with pytest.raises(NotSeenError, match="the monitor's log cannot be read: No such file or directory"):
        read_log(tmp_path / FILE)


def test_a_counter_rises_from_edge_to_edge_whatever_is_missing_between() -> None:
    span = Span([a_sample(1), a_sample(2, package_energy_j=None), a_sample(4)])
    assert span.rise(lambda sample: sample.package_energy_j) == 30


@pytest.mark.parametrize("energies", [(None, 5.0), (5.0, None), (5.0, 4.0)])
def test_a_counter_that_is_missing_at_an_edge_or_went_back_is_unknown(energies: tuple[float | None, ...]) -> None:
    span = Span([a_sample(at_s, package_energy_j=energy_j) for at_s, energy_j in enumerate(energies)])
    assert span.rise(lambda sample: sample.package_energy_j) is None


def test_power_is_integrated_between_uneven_looks() -> None:
    power_w = spans.of_gpu("GPU-aaaaaaaa", lambda reading: reading.power_w)
    span = Span([a_gpu_sample(0, power_w=100), a_gpu_sample(1, power_w=200), a_gpu_sample(1.5, power_w=200)])
    assert span.integral(power_w) == pytest.approx(150 + 100)
    assert Span([*span.samples, a_gpu_sample(2, power_w=None)]).integral(power_w) is None


def test_a_mean_weighs_each_reading_by_the_time_before_it_and_leaves_the_first_out() -> None:
    utilisation = spans.of_gpu("GPU-aaaaaaaa", lambda reading: reading.utilisation)
    readings = [(0, 0.0), (3, 0.8), (4, 0.4), (5, None)]  # the first tells of what was before the round
    span = Span([a_gpu_sample(at_s, utilisation=value) for at_s, value in readings])
    assert spans.mean([span], utilisation) == pytest.approx((3 * 0.8 + 0.4) / 4)
    assert spans.peak([span], utilisation) == 0.8


def test_a_mean_over_rounds_weighs_by_their_length_and_nothing_known_is_none() -> None:
    frequency_hz = lambda sample: sample.cpu_frequency_hz  # noqa: E731 - a reading, as its type says
    short = Span([a_sample(0), a_sample(1, cpu_frequency_hz=1e9)])
    long = Span([a_sample(5), a_sample(8, cpu_frequency_hz=3e9)])
    assert spans.mean([short, long], frequency_hz) == 2.5e9
    unknown = Span([a_sample(0), a_sample(1, cpu_frequency_hz=None)])
    assert (spans.mean([unknown], frequency_hz), spans.peak([unknown], frequency_hz)) == (None, None)
