"""What the monitor says of GPUs, asked through NVML's real names in a process of its own."""

from __future__ import annotations

import importlib.util
import inspect
import subprocess
import sys
from types import ModuleType

import pynvml
import pytest

from harness.executors.processes import LAUNCH_VARIABLE
from harness.monitor.log import Gpu, GpuProcess, GpuReading
from monitor.conftest import Look
from monitor.machine import STAND_IN, a_gpu, mig_gpu

TWO = [a_gpu("a"), a_gpu("b")]
UNLIKE = [a_gpu("a", name="NVIDIA Small"), a_gpu("b", name="NVIDIA Large")]


def the_stand_in() -> ModuleType:
    spec = importlib.util.spec_from_file_location("stand_in_pynvml", STAND_IN / "pynvml.py")
    assert spec
    assert spec.loader
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_stand_in_has_the_real_functions_names_and_parameters() -> None:
    functions = inspect.getmembers(the_stand_in(), inspect.isfunction)
    played = {name: function for name, function in functions if name.startswith("nvml")}
    assert len(played) > 10
    for name, function in played.items():
        real = inspect.signature(getattr(pynvml, name)).parameters
        assert list(inspect.signature(function).parameters) == list(real), name


def test_every_reading_is_in_the_unit_of_its_name(look: Look) -> None:
    log = look([a_gpu(watts=250.0, throttle=pynvml.nvmlClocksThrottleReasonSwPowerCap)], times=2)
    first, second = (sample.gpus["GPU-aaaaaaaa"] for sample in log.samples)
    assert (first.utilisation, first.memory_used_bytes, first.power_w, first.temperature_c) == (0.5, 1 << 30, 250, 61)
    assert (first.sm_clock_hz, first.memory_clock_hz) == (1.41e9, 1.215e9)
    assert (first.throttle_reasons, first.processes, first.reasons) == (["sw_power_cap"], [], {})
    elapsed_s = (log.samples[1].at_ns - log.samples[0].at_ns) / 1e9
    assert first.energy_j is not None
    assert second.energy_j is not None
    assert second.energy_j - first.energy_j == pytest.approx(250 * elapsed_s, abs=2)  # the stand-in counts at 250 W


def test_a_gpu_that_only_saves_power_is_not_throttled(look: Look) -> None:
    log = look([a_gpu(throttle=pynvml.nvmlClocksThrottleReasonGpuIdle)])
    assert log.samples[0].gpus["GPU-aaaaaaaa"].throttle_reasons == []


def test_what_a_gpu_does_not_support_is_null_in_nvmls_words_and_the_rest_is_read(look: Look) -> None:
    refused = {"energy_j": "nvmlDeviceGetTotalEnergyConsumption", "temperature_c": "nvmlDeviceGetTemperature"}
    log = look([a_gpu(refuses=["nvmlDeviceGetMigMode", *refused.values()])])
    reading = log.samples[0].gpus["GPU-aaaaaaaa"]
    assert (reading.energy_j, reading.temperature_c, reading.power_w) == (None, None, 100)
    assert reading.reasons == dict.fromkeys(refused, "NVML: Not Supported")


@pytest.mark.parametrize(
    ("raised", "words"),
    [
        ("NVMLError_LibraryNotFound", "NVML Shared Library Not Found"),
        ("NVMLError_DriverNotLoaded", "Driver Not Loaded"),
        ("NVMLError_LibRmVersionMismatch", "RM has detected an NVML/RM version mismatch."),
    ],
)
def test_without_a_driver_the_monitor_runs_and_says_why_it_sees_no_gpu(look: Look, raised: str, words: str) -> None:
    log = look(raised)
    assert (log.header.gpus, log.header.gpus_reason) == ([], f"NVML: {words}")
    assert (log.header.first_gpu, log.header.first_gpu_reason) == (None, f"NVML: {words}")
    assert log.samples[0].gpus == {}


def test_a_driver_without_gpus_is_told(look: Look) -> None:
    assert look([]).header.gpus_reason == "the NVIDIA driver lists no GPU"


def test_no_gpu_is_asked_for_cells_on_the_cpu(look: Look) -> None:
    log = look(TWO, device="cpu")
    assert (log.header.gpus, log.header.gpus_reason, log.samples[0].gpus) == ([], "the cell runs on cpu", {})


@pytest.mark.parametrize(
    ("visible", "first"),
    [("0", "a"), ("1", "b"), ("1,0", "b"), (" 1 ,0", "b"), ("GPU-bbbbbbbb,GPU-aaaaaaaa", "b"), ("GPU-b", "b")],
)
def test_cudas_first_gpu_is_the_first_that_cuda_visible_devices_names(look: Look, visible: str, first: str) -> None:
    assert look(TWO, CUDA_VISIBLE_DEVICES=visible).header.first_gpu == f"GPU-{first * 8}"


def test_without_cuda_visible_devices_cudas_first_gpu_is_the_first_on_the_bus(look: Look) -> None:
    assert look(TWO).header.first_gpu == "GPU-aaaaaaaa"


@pytest.mark.parametrize("visible", ["", "-1", "2", "GPU-c", "GPU", "MIG-a"])
def test_a_cuda_visible_devices_that_names_not_exactly_one_gpu_first_is_not_guessed(look: Look, visible: str) -> None:
    header = look(TWO, CUDA_VISIBLE_DEVICES=visible).header
    assert header.first_gpu is None
    assert header.first_gpu_reason
    assert repr(visible) in header.first_gpu_reason


def test_numbers_of_unlike_gpus_are_not_guessed_unless_cuda_counts_by_the_bus(look: Look) -> None:
    header = look(UNLIKE).header
    assert header.first_gpu is None
    assert header.first_gpu_reason
    assert "CUDA_DEVICE_ORDER=PCI_BUS_ID" in header.first_gpu_reason


def test_numbers_of_unlike_gpus_are_known_where_cuda_counts_by_the_bus(look: Look) -> None:
    log = look(UNLIKE, CUDA_VISIBLE_DEVICES="1", CUDA_DEVICE_ORDER="PCI_BUS_ID")
    assert log.header.first_gpu == "GPU-bbbbbbbb"


def test_the_uuid_of_an_unlike_gpu_needs_no_order(look: Look) -> None:
    assert look(UNLIKE, CUDA_VISIBLE_DEVICES="GPU-b").header.first_gpu == "GPU-bbbbbbbb"


def test_of_a_gpu_with_mig_on_its_instances_are_watched_over_gaps_in_their_numbers(look: Look) -> None:
    log = look([mig_gpu("a", "c", None, "d"), a_gpu("b")])
    assert log.header.gpus == [
        Gpu("MIG-cccccccc", "NVIDIA Invented MIG 1g.10gb", "GPU-aaaaaaaa"),
        Gpu("MIG-dddddddd", "NVIDIA Invented MIG 1g.10gb", "GPU-aaaaaaaa"),
        Gpu("GPU-bbbbbbbb", "NVIDIA Invented", None),
    ]


def test_a_mig_instance_has_memory_of_its_own_the_gpus_heat_and_no_energy(look: Look) -> None:
    reading = look([mig_gpu("a", "c")]).samples[0].gpus["MIG-cccccccc"]
    assert (reading.memory_used_bytes, reading.temperature_c) == (7 << 30, 61)
    assert (reading.energy_j, reading.power_w, reading.utilisation) == (None, None, None)
    assert "shared with other instances" in reading.reasons["energy_j"]
    assert reading.reasons["utilisation"] == "NVML: Not Supported"


@pytest.mark.parametrize(
    ("visible", "first"),
    [("0", "MIG-cccccccc"), ("MIG-d", "MIG-dddddddd"), ("GPU-a", "MIG-cccccccc"), ("1", "GPU-bbbbbbbb")],
)
def test_cuda_takes_the_instance_named_or_the_first_of_the_gpu_named(look: Look, visible: str, first: str) -> None:
    log = look([mig_gpu("a", "c", "d"), a_gpu("b")], CUDA_VISIBLE_DEVICES=visible)
    assert log.header.first_gpu == first


def test_a_process_on_the_gpu_is_told_with_the_launch_that_it_belongs_to(look: Look) -> None:
    ours = {LAUNCH_VARIABLE: "/somewhere/launch-1/scratch"}
    with (
        subprocess.Popen(["sleep", "60"], env=ours) as worker,
        subprocess.Popen(["sleep", "60"], env={}) as other,
    ):
        try:
            pids = [[worker.pid, 5 << 20], [other.pid, None], [1 << 30, 7]]  # no process has the last one
            found = look([a_gpu(processes=pids)]).samples[0].gpus["GPU-aaaaaaaa"].processes
        finally:
            worker.kill()
            other.kill()
    assert found == [
        GpuProcess(worker.pid, 5 << 20, "/somewhere/launch-1/scratch"),
        GpuProcess(other.pid, None, None),
        GpuProcess(1 << 30, 7, None),
    ]


def test_a_gpu_that_falls_off_the_bus_in_mid_run_leaves_nulls_and_the_other_is_read_on(look: Look) -> None:
    log = look([a_gpu("a", lost_after_calls=15), a_gpu("b")], times=4)
    readings = [sample.gpus["GPU-aaaaaaaa"] for sample in log.samples]
    assert readings[0].power_w == 100
    lost = readings[-1]
    assert lost == GpuReading(*[None] * 9, reasons=dict.fromkeys(lost.reasons, "NVML: GPU is lost"))
    assert len(lost.reasons) == 9
    assert [sample.gpus["GPU-bbbbbbbb"].power_w for sample in log.samples] == [100] * 4


def test_a_gpu_that_is_lost_from_the_beginning_is_passed_over(look: Look) -> None:
    assert [gpu.uuid for gpu in look([a_gpu("a", lost_after_calls=0), a_gpu("b")]).header.gpus] == ["GPU-bbbbbbbb"]
