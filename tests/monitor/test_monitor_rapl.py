"""Energy of processor packages, from a /sys tree that the test writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.monitor.rapl import NoPackagesError, Packages
from harness.monitor.sensors import Sensors
from monitor.machine import write_package


def count(folder: Path, energy_uj: int) -> None:
    (folder / "energy_uj").write_text(f"{energy_uj}\n")


def test_energy_is_counted_from_the_beginning_over_all_packages(tmp_path: Path) -> None:
    first, second = write_package(tmp_path, 0, 500), write_package(tmp_path, 1, 100)
    packages = Packages(tmp_path)
    assert (packages.names, packages.read()) == (["package-0", "package-1"], 0)
    count(first, 700)
    count(second, 150)
    assert packages.read() == pytest.approx(250e-6)


def test_a_counter_that_wraps_goes_on_counting(tmp_path: Path) -> None:
    folder = write_package(tmp_path, 0, 900, range_uj=1000)
    packages = Packages(tmp_path)
    counted = []
    for energy_uj in (950, 50, 400, 399):  # wraps twice: 950 -> 50 is 100, 400 -> 399 is 999
        count(folder, energy_uj)
        counted.append(packages.read())
    assert counted == pytest.approx([50e-6, 150e-6, 500e-6, 1499e-6])


def test_parts_of_a_package_other_domains_and_second_listings_are_left_out(tmp_path: Path) -> None:
    write_package(tmp_path, 0, 0)
    write_package(tmp_path, 1, 0, name="psys")
    (tmp_path / "intel-rapl:0").rename(tmp_path / "intel-rapl-mmio:0")
    write_package(tmp_path, 0, 0)
    write_package(tmp_path, 2, 0, name="dram")
    (tmp_path / "intel-rapl:2").rename(tmp_path / "intel-rapl:0:0")
    assert Packages(tmp_path).names == ["package-0"]


def test_a_machine_without_counters_says_so(tmp_path: Path) -> None:
    with pytest.raises(NoPackagesError, match="lists no processor package, as in most virtual machines"):
        Packages(tmp_path / "powercap")


def test_a_counter_that_may_not_be_read_is_a_reason_in_the_header_and_null_in_the_samples(tmp_path: Path) -> None:
    folder = write_package(tmp_path, 0, 0)
    (folder / "energy_uj").unlink()
    (folder / "energy_uj").mkdir()  # as unreadable as root's is to others, for root too
    sensors = Sensors.of("cpu", tmp_path)
    header, sample = sensors.header(1), sensors.sample(None)
    assert (header.packages, header.measures_energy) == ([], False)
    assert header.packages_reason == f"{folder}: Is a directory"
    assert (sample.package_energy_j, sample.reasons["package_energy_j"]) == (None, header.packages_reason)


def test_a_counter_that_goes_away_in_mid_run_leaves_nulls_with_the_reason(tmp_path: Path) -> None:
    folder = write_package(tmp_path, 0, 0)
    sensors = Sensors.of("cpu", tmp_path)
    assert sensors.header(1).measures_energy
    assert sensors.sample(None).package_energy_j == 0
    (folder / "energy_uj").unlink()
    sample = sensors.sample(None)
    assert sample.package_energy_j is None
    assert "No such file" in sample.reasons["package_energy_j"]
