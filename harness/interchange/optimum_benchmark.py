"""Reads optimum-benchmark's `benchmark.json` (`{config, report}`) and `benchmark_report.json` (`{target: numbers}`).

A result is made of each target that is called again and again; loading and the first call are phases of it. Beside a report its
`benchmark_config.json` is read too, where it lies.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from harness.interchange.foreign import ForeignFile
from harness.interchange.samples import Numbers, measurements, of_latencies
from harness.model import HarnessError, ImportedConfig, ImportedResult, Measurements, OptionValue, Status, digest

TOOL = "optimum-benchmark"
CONFIG_FILE = "benchmark_config.json"

_PARTS = {"memory", "latency", "throughput", "energy", "efficiency"}
_REPEATED = ("forward", "prefill", "decode", "generate", "call")
_BYTES_PER_MB = 1e6


class _Latency(BaseModel):
    values: list[float]


class _Memory(BaseModel):
    max_ram: float | None = None  # MB


class _Target(BaseModel):
    latency: _Latency | None = None
    memory: _Memory | None = None


class _Backend(BaseModel):
    name: str | None = None
    version: str | None = None
    task: str | None = None
    model: str | None = None
    device: str | None = None
    torch_dtype: str | None = None
    intra_op_num_threads: int | None = None


class _Scenario(BaseModel):
    input_shapes: dict[str, Any] | None = None
    new_tokens: int | None = None
    generate_kwargs: dict[str, Any] | None = None


class _Config(BaseModel):
    backend: _Backend = _Backend()
    scenario: _Scenario = _Scenario()
    environment: dict[str, Any] = {}


def is_benchmark(content: Mapping[str, Any]) -> bool:
    """Whether an object is a `benchmark.json`."""
    return content.keys() == {"config", "report"} and isinstance(content["report"], dict)


def is_report(content: Mapping[str, Any]) -> bool:
    """Whether an object is a `benchmark_report.json`."""
    return bool(content) and all(isinstance(each, dict) and each and each.keys() <= _PARTS for each in content.values())


def of_benchmark(file: ForeignFile) -> list[ImportedResult]:
    """The results of a `benchmark.json`. Raises HarnessError."""
    return _results(file, "benchmark.json", file.content["report"], file.content["config"])


def of_report(file: ForeignFile) -> list[ImportedResult]:
    """The results of a `benchmark_report.json`. Raises HarnessError."""
    beside = file.path.with_name(CONFIG_FILE)
    config = ForeignFile.read(beside).content if beside.is_file() else {}
    return _results(file, "benchmark_report.json", file.content, config)


def _results(
    file: ForeignFile, form: str, report: Mapping[str, Any], config: Mapping[str, Any]
) -> list[ImportedResult]:
    targets = {name: file.checked(_Target, report[name], name) for name in report}
    asked = file.checked(_Config, config, "config")
    repeated = [name for name in _REPEATED if name in targets and targets[name].latency]
    if not repeated:
        raise HarnessError(f"{file.path} has latencies of none of {', '.join(_REPEATED)}; nothing was imported")
    return [
        ImportedResult(
            key=digest({"tool": TOOL, "entry": name, "report": report, "config": config}),
            origin=file.origin(TOOL, _version(asked), form, name),
            timestamp=None,
            status=Status.UNVERIFIED,
            lacks=_lacks(name, asked, told=bool(config)),
            measurements=_numbers(name, targets),
            config=_config(name, asked),
            environment=asked.environment,
            written={"config": dict(config), "report": dict(report)},
        )
        for name in repeated
    ]


_LATENCIES = {"prefill": "ttft_s", "generate": "e2e_latency_s"}
"""Target -> what its latency is called here. Its decode is of all tokens together."""


def _version(asked: _Config) -> str | None:
    version = asked.environment.get("optimum_benchmark_version")
    return version if isinstance(version, str) else None


def _numbers(name: str, targets: Mapping[str, _Target]) -> Measurements:
    target = targets[name]
    numbers = of_latencies(target.latency.values if target.latency else [])
    numbers |= _phase("load_s", targets.get("load_model")) | _peak_ram(target)
    if name == "forward":
        numbers |= _phase("first_call_s", targets.get("first_forward"))
    if name in _LATENCIES and "median_latency_s" in numbers:
        numbers[_LATENCIES[name]] = numbers["median_latency_s"]
    derived = f"{TOOL} derives it from the latency"
    second = f"the first call that {TOOL} reports came after another one"
    reasons = {"throughput": derived, "throughput_unit": derived, "first_call_s": second}
    return measurements(numbers, reasons, f"{TOOL} does not measure it in a way that compares")


def _phase(field: str, target: _Target | None) -> Numbers:
    """Of what happened once."""
    return {field: target.latency.values[0]} if target and target.latency and target.latency.values else {}


def _peak_ram(target: _Target) -> Numbers:
    ram = target.memory.max_ram if target.memory else None
    return {} if ram is None else {"peak_rss_bytes": round(ram * _BYTES_PER_MB)}


def _config(name: str, asked: _Config) -> ImportedConfig:
    shapes = asked.scenario.input_shapes or {}
    return ImportedConfig(
        model=asked.backend.model,
        task=asked.backend.task,
        operation=name,
        backend=asked.backend.name,
        options=_options(asked.backend),
        batch_size=_whole(shapes.get("batch_size")),
        sequence_length=_whole(shapes.get("sequence_length")),
        new_tokens=_new_tokens(asked.scenario),
        dtype=asked.backend.torch_dtype,
        device=asked.backend.device,
        threads=asked.backend.intra_op_num_threads,
    )


def _options(backend: _Backend) -> dict[str, OptionValue]:
    return {"version": backend.version} if backend.version else {}


def _new_tokens(scenario: _Scenario) -> int | None:
    return scenario.new_tokens or _whole((scenario.generate_kwargs or {}).get("max_new_tokens"))


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) else None


def _lacks(name: str, asked: _Config, *, told: bool) -> list[str]:
    always = [
        "one process: nothing tells how much another launch would differ",
        "nobody judged the outputs against a reference",
        "the weights are not pinned to a commit, and the inputs are random without a seed that is kept",
        f"a parent process of {TOOL} waits busily and takes a core from what is measured",
        "peak_rss_bytes is the highest of polled readings",
    ]
    if not told:
        always.append(f"no {CONFIG_FILE} lay beside it: model, backend and shapes are unknown")
    if name == "decode" and asked.backend.name not in _PER_TOKEN:
        always.append("decode is the time to generate less the mean time to prefill, not a measurement of its own")
    return always


_PER_TOKEN = ("pytorch", "onnxruntime", "openvino", "neural-compressor", "ipex")
"""Backends of which each token is timed."""
