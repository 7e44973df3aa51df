"""From logs to a result: energy beyond idle, means and peaks, and a reason wherever there is none."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from harness.model import LaunchRecord, Measurements, Monitoring
from harness.monitor.log import Gpu, GpuProcess, Header, Sample
from harness.monitor.numbers import add_monitoring
from monitor.logs import (
    GPU,
    a_gpu_header,
    a_gpu_sample,
    a_header,
    a_reading,
    a_round,
    a_sample,
    a_watched_launch,
    idle,
    of_round,
    write_log,
)

IDLE = [a_sample(0, idle("start"), package_energy_j=0), a_sample(2, idle("end"), package_energy_j=20)]  # 10 W
ROUND = [a_sample(5, of_round("start"), package_energy_j=50), a_sample(6, of_round("end"), package_energy_j=100)]


def gpu_samples(energies: Sequence[float | None], powers: Sequence[float]) -> list[Sample]:
    """Idle for two seconds, then a round of one: energy and power at the four edges."""
    edges = [(0, idle("start")), (2, idle("end")), (5, of_round("start")), (6, of_round("end"))]
    found = zip(edges, energies, powers, strict=True)
    return [a_gpu_sample(at_s, at, energy_j=energy_j, power_w=power_w) for (at_s, at), energy_j, power_w in found]


def numbers_of(
    tmp_path: Path, samples: Sequence[Sample], header: Header | None = None, *launches: LaunchRecord
) -> Measurements:
    write_log(tmp_path / "block-1", samples, header)
    return add_monitoring(Measurements(), launches or [a_watched_launch()], lambda block_id: tmp_path / block_id)


def seen(numbers: Measurements) -> Monitoring:
    assert numbers.monitoring
    return numbers.monitoring


# --- energy ---------------------------------------------------------------------------------------------------------


def test_energy_per_call_is_what_the_packages_drew_beyond_idle_over_all_calls(tmp_path: Path) -> None:
    numbers = numbers_of(tmp_path, [*IDLE, *ROUND])
    assert numbers.idle_power_w == 10
    assert numbers.energy_j_per_call == pytest.approx((50 - 10 * 1) / 20)  # 15 calls, and 5 that settled
    assert numbers.energy_j_per_item == pytest.approx(2 / 8)
    assert seen(numbers).energy_source == "RAPL counters"
    assert "energy_j_per_call" not in numbers.reasons


def test_energy_is_attributed_by_round_so_that_a_companions_is_not_counted(tmp_path: Path) -> None:
    companion = [
        a_sample(7, of_round("start", launch_id="other"), package_energy_j=100),
        a_sample(8, of_round("end", launch_id="other"), package_energy_j=900),
    ]
    again = [
        a_sample(9, of_round("start", 1), package_energy_j=900),
        a_sample(11, of_round("end", 1), package_energy_j=960),
    ]
    launch = a_watched_launch(rounds=[a_round(), a_round(1)])
    numbers = numbers_of(tmp_path, [*IDLE, *ROUND, *companion, *again], None, launch)
    assert numbers.energy_j_per_call == pytest.approx((50 + 60 - 10 * 3) / 40)


def test_a_disturbed_round_is_left_out_unless_all_are(tmp_path: Path) -> None:
    again = [
        a_sample(9, of_round("start", 1), package_energy_j=900),
        a_sample(10, of_round("end", 1), package_energy_j=970),
    ]
    both = [a_round(), a_round(1, disturbed=True)]
    numbers = numbers_of(tmp_path, [*IDLE, *ROUND, *again], None, a_watched_launch(rounds=both))
    assert numbers.energy_j_per_call == pytest.approx(40 / 20)
    both = [a_round(disturbed=True), a_round(1, disturbed=True)]
    numbers = numbers_of(tmp_path, [*IDLE, *ROUND, *again], None, a_watched_launch(rounds=both))
    assert numbers.energy_j_per_call == pytest.approx((40 + 60) / 40)


def test_a_result_has_the_median_of_its_launches(tmp_path: Path) -> None:
    launches = []
    for number, energy_j in enumerate((30.0, 50.0, 400.0)):
        name = f"launch-{number}"
        start, end = of_round("start", launch_id=name), of_round("end", launch_id=name)
        samples = [*IDLE, a_sample(5, start, package_energy_j=50), a_sample(6, end, package_energy_j=50 + energy_j)]
        write_log(tmp_path / f"block-{number}", samples)
        launches.append(a_watched_launch(name, f"block-{number}"))
    numbers = add_monitoring(Measurements(), launches, lambda block_id: tmp_path / block_id)
    assert numbers.energy_j_per_call == pytest.approx(40 / 20)


def test_launches_that_were_not_watched_to_their_end_are_left_out_and_told(tmp_path: Path) -> None:
    """The monitor died during the block of the second, and between the rounds of the third."""
    write_log(tmp_path / "block-1", [*IDLE, *ROUND])
    write_log(tmp_path / "block-3", [*IDLE, a_sample(5, of_round("start", launch_id="c"), package_energy_j=50)])
    write_log(tmp_path / "block-4", [*IDLE, *ROUND])
    died = a_watched_launch("b", "block-2").model_copy(update={"monitor_reason": "the monitor was given up: it ended"})
    halved = a_watched_launch(block_id="block-4", rounds=[a_round(), a_round(1)])
    crashed = a_watched_launch("d", "block-4", rounds=[])
    for launches, watched, reason in (
        ([a_watched_launch(), crashed], 1, None),
        ([a_watched_launch(), died], 1, "the monitor was given up: it ended"),
        ([a_watched_launch(), halved], 1, "the monitor saw 1 of the 2 rounds of a launch"),
    ):
        numbers = add_monitoring(Measurements(), launches, lambda block_id: tmp_path / block_id)
        assert seen(numbers).launches == watched
        assert seen(numbers).reasons.get("launches") == reason
        assert numbers.energy_j_per_call == pytest.approx((50 - 10 * 1) / 20)
    alone = add_monitoring(Measurements(), [halved], lambda block_id: tmp_path / block_id)
    assert (alone.energy_j_per_call, alone.monitoring) == (None, None)
    assert alone.reasons["monitoring"] == "the monitor saw 1 of the 2 rounds of a launch"


@pytest.mark.parametrize(
    ("samples", "header", "words"),
    [
        (ROUND, a_header(packages=[], packages_reason="no package here"), "no package here"),
        (ROUND, a_header(), "the idle machine was not watched"),
        ([*IDLE, ROUND[0], a_sample(6, of_round("end"), package_energy_j=55)], a_header(), "no more was drawn than"),
        (
            [*IDLE, ROUND[0], a_sample(6, of_round("end"), package_energy_j=1)],
            a_header(),
            "the energy counter went back",
        ),
        (
            [
                *IDLE,
                ROUND[0],
                a_sample(6, of_round("end"), package_energy_j=None, reasons={"package_energy_j": "gone"}),
            ],
            a_header(),
            "gone",
        ),
    ],
)
def test_without_energy_there_is_a_reason(tmp_path: Path, samples: list[Sample], header: Header, words: str) -> None:
    numbers = numbers_of(tmp_path, samples, header)
    assert (numbers.energy_j_per_call, numbers.energy_j_per_item, numbers.idle_power_w) == (None, None, None)
    for field in ("energy_j_per_call", "energy_j_per_item", "idle_power_w"):
        assert words in numbers.reasons[field]
    assert words in seen(numbers).reasons["energy_source"]


def test_a_gpus_energy_is_its_counters(tmp_path: Path) -> None:
    numbers = numbers_of(tmp_path, gpu_samples((0, 100, 300, 700), (1, 1, 1, 1)), a_gpu_header())
    assert (numbers.idle_power_w, numbers.energy_j_per_call) == (50, pytest.approx(350 / 20))
    assert seen(numbers).energy_source == "NVML energy counter"


def test_where_a_gpu_has_no_counter_or_it_went_back_its_power_is_integrated_throughout(tmp_path: Path) -> None:
    for energies in ((None, None, None, None), (0, 100, 300, 200)):
        numbers = numbers_of(tmp_path, gpu_samples(energies, (60, 60, 300, 400)), a_gpu_header())
        assert (numbers.idle_power_w, numbers.energy_j_per_call) == (60, pytest.approx((350 - 60) / 20))
        assert seen(numbers).energy_source == "NVML power, integrated"


# --- what else was seen ---------------------------------------------------------------------------------------------


def test_of_a_cell_on_the_cpu_the_machine_is_told_and_of_gpus_the_reason(tmp_path: Path) -> None:
    monitoring = seen(numbers_of(tmp_path, [*IDLE, *ROUND]))
    assert (monitoring.cpu_utilisation_mean, monitoring.cpu_frequency_mean_hz) == (0.5, 2e9)
    gpu = {name for name in Monitoring.model_fields if name.startswith("gpu_")}
    assert {name: monitoring.reasons[name] for name in gpu} == dict.fromkeys(gpu, "the cell runs on cpu")


def test_of_a_gpu_means_and_peaks_are_told(tmp_path: Path) -> None:
    samples = [
        a_gpu_sample(5, of_round("start"), utilisation=0.0, power_w=900.0),
        a_gpu_sample(6, utilisation=0.9, power_w=300.0, memory_used_bytes=5 << 30, throttle_reasons=["sw_power_cap"]),
        a_gpu_sample(7, of_round("end"), utilisation=0.7, power_w=200.0, throttle_reasons=["sync_boost"]),
    ]
    monitoring = seen(numbers_of(tmp_path, samples, a_gpu_header()))
    assert monitoring.gpu_uuid == GPU
    assert (monitoring.gpu_utilisation_mean, monitoring.gpu_utilisation_peak) == (pytest.approx(0.8), 0.9)
    assert (monitoring.gpu_power_mean_w, monitoring.gpu_power_peak_w) == (250, 300)
    assert (monitoring.gpu_memory_peak_bytes, monitoring.gpu_temperature_peak_c) == (5 << 30, 61)
    assert monitoring.gpu_throttle_reasons == "sw_power_cap, sync_boost"


def test_a_clock_that_nothing_keeps_down_is_told_apart_from_an_unknown_one(tmp_path: Path) -> None:
    samples = gpu_samples((0, 1, 2, 3), (1, 1, 1, 1))
    assert seen(numbers_of(tmp_path, samples, a_gpu_header())).gpu_throttle_reasons == "none"
    unknown = {"throttle_reasons": None, "reasons": {"throttle_reasons": "NVML: Not Supported"}}
    samples = [a_gpu_sample(5, of_round("start"), **unknown), a_gpu_sample(6, of_round("end"), **unknown)]
    monitoring = seen(numbers_of(tmp_path, samples, a_gpu_header()))
    assert (monitoring.gpu_throttle_reasons, monitoring.reasons["gpu_throttle_reasons"]) == (
        None,
        "NVML: Not Supported",
    )


def test_a_gpu_that_was_lost_in_mid_run_has_the_numbers_from_before_and_no_energy(tmp_path: Path) -> None:
    names = ("utilisation", "power_w", "energy_j", "temperature_c", "processes")
    lost = {**dict.fromkeys(names), "reasons": dict.fromkeys(names, "NVML: GPU is lost")}
    samples = [
        *gpu_samples((0, 100, 300, 700), (1, 1, 1, 1))[:3],
        a_gpu_sample(5.5, utilisation=0.9, energy_j=400),
        a_gpu_sample(6, of_round("end"), **lost),
    ]
    numbers = numbers_of(tmp_path, samples, a_gpu_header())
    assert seen(numbers).gpu_utilisation_mean == 0.9
    assert (numbers.energy_j_per_call, numbers.reasons["energy_j_per_call"]) == (None, "NVML: GPU is lost")


def processes_at_the_end(*processes: GpuProcess, uuid: str = GPU) -> list[Sample]:
    return [a_gpu_sample(5, of_round("start"), uuid), a_gpu_sample(6, of_round("end"), uuid, processes=list(processes))]


OURS = GpuProcess(10, 1 << 30, "/results/launches/key/launch-1/scratch")
OUR_CHILD = GpuProcess(11, 1 << 29, "/results/launches/key/launch-1/scratch")
OF_ANOTHER_RUN = GpuProcess(12, 5 << 30, "/elsewhere/launches/key/launch-9/scratch")
UNKNOWN = GpuProcess(13, None, None)


def test_memory_is_told_apart_by_who_holds_it(tmp_path: Path) -> None:
    less = GpuProcess(12, 1 << 30, OF_ANOTHER_RUN.launch)
    start, end = processes_at_the_end(OURS, OUR_CHILD, OF_ANOTHER_RUN, UNKNOWN)
    samples = [start, a_gpu_sample(5.5, processes=[OURS, less]), end]
    monitoring = seen(numbers_of(tmp_path, samples, a_gpu_header()))
    assert monitoring.gpu_worker_memory_peak_bytes == (1 << 30) + (1 << 29)
    assert monitoring.gpu_foreign_processes == "12 (5.0 GiB), 13 (memory unknown)"


def test_memory_that_nvml_does_not_tell_is_null_and_not_0(tmp_path: Path) -> None:
    samples = processes_at_the_end(GpuProcess(10, None, OURS.launch))
    monitoring = seen(numbers_of(tmp_path, samples, a_gpu_header()))
    assert monitoring.gpu_worker_memory_peak_bytes is None
    assert "not its memory" in monitoring.reasons["gpu_worker_memory_peak_bytes"]


def test_workers_of_the_same_block_are_not_foreign(tmp_path: Path) -> None:
    companion = GpuProcess(20, 1 << 30, "/results/launches/key/launch-2/scratch")
    samples = [*processes_at_the_end(OURS, companion), a_gpu_sample(7, of_round("start", launch_id="launch-2"))]
    assert seen(numbers_of(tmp_path, samples, a_gpu_header())).gpu_foreign_processes == "none"


def test_the_gpu_where_the_launchs_process_is_listed_counts_whatever_cuda_visible_devices_says(tmp_path: Path) -> None:
    other = "GPU-bbbbbbbb"
    header = a_gpu_header(gpus=[Gpu(GPU, "NVIDIA Small", None), Gpu(other, "NVIDIA Large", None)], first_gpu=GPU)
    assert seen(numbers_of(tmp_path, processes_at_the_end(OURS, uuid=other), header)).gpu_uuid == other


def test_in_a_container_process_ids_are_not_compared(tmp_path: Path) -> None:
    other = "GPU-bbbbbbbb"
    header = a_gpu_header(counts_pids_as_host=False)
    samples = [
        a_sample(at_s, of_round(edge), gpus={GPU: a_reading(), other: a_reading(processes=[OURS, OF_ANOTHER_RUN])})
        for at_s, edge in ((5, "start"), (6, "end"))
    ]
    monitoring = seen(numbers_of(tmp_path, samples, header))
    assert (monitoring.gpu_uuid, monitoring.gpu_worker_memory_peak_bytes) == (GPU, None)
    assert monitoring.gpu_foreign_processes is None
    for field in ("gpu_worker_memory_peak_bytes", "gpu_foreign_processes"):
        assert "in a container itself" in monitoring.reasons[field]


def test_which_gpu_is_not_guessed(tmp_path: Path) -> None:
    header = a_gpu_header(first_gpu=None, first_gpu_reason="the GPUs differ")
    numbers = numbers_of(tmp_path, processes_at_the_end(), header)
    gpu = {name for name in Monitoring.model_fields if name.startswith("gpu_")}
    assert {name: seen(numbers).reasons[name] for name in gpu} == dict.fromkeys(gpu, "the GPUs differ")
    assert all(getattr(seen(numbers), name) is None for name in gpu)


def test_without_a_driver_every_gpu_number_is_null_with_nvmls_words(tmp_path: Path) -> None:
    words = "NVML: NVML Shared Library Not Found"
    header = a_gpu_header(gpus=[], gpus_reason=words, first_gpu=None, first_gpu_reason=words)
    numbers = numbers_of(tmp_path, ROUND, header)
    assert seen(numbers).cpu_utilisation_mean == 0.5
    assert numbers.reasons["energy_j_per_call"] == words
    assert seen(numbers).reasons["gpu_utilisation_mean"] == words


# --- nothing seen ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("launch", "samples", "words"),
    [
        (a_watched_launch(monitor_reason="monitoring was off"), ROUND, "monitoring was off"),
        (a_watched_launch(), IDLE, "the monitor saw no round of this cell"),
        (a_watched_launch(rounds=[]), ROUND, "the monitor saw no round of this cell"),
    ],
)
def test_a_cell_that_was_not_watched_says_why_for_every_number(
    tmp_path: Path, launch: LaunchRecord, samples: list[Sample], words: str
) -> None:
    numbers = numbers_of(tmp_path, samples, None, launch)
    assert numbers.monitoring is None
    names = ("monitoring", "energy_j_per_call", "energy_j_per_item", "idle_power_w")
    assert {name: numbers.reasons[name] for name in names} == dict.fromkeys(names, words)


def test_a_launch_that_was_watched_counts_where_another_was_not(tmp_path: Path) -> None:
    off = a_watched_launch("launch-0", monitor_reason="monitoring was off")
    numbers = numbers_of(tmp_path, [*IDLE, *ROUND], None, off, a_watched_launch())
    assert numbers.energy_j_per_call == 2


def test_every_field_is_a_value_or_has_a_reason(tmp_path: Path) -> None:
    for header, samples in ((a_header(), [*IDLE, *ROUND]), (a_gpu_header(), gpu_samples((0, 1, 2, 3), (1, 1, 1, 1)))):
        monitoring = seen(numbers_of(tmp_path, samples, header))
        values = monitoring.model_dump(exclude={"reasons"})
        assert {name for name, value in values.items() if value is None} == set(monitoring.reasons)
