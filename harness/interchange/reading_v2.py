"""Reads transformers' benchmark_v2 files: `{hash: {metadata, measurements, config}}`.

Of autumn 2025 there are two older forms: `sdpa_backend`, `compile_mode` and `compile_options` in place of `compile_kwargs`, and,
older still, `measures` in place of `measurements`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import AliasChoices, BaseModel, Field

from harness import stats
from harness.interchange.foreign import ForeignFile
from harness.interchange.samples import Numbers, measurements, of_latencies
from harness.model import ImportedConfig, ImportedResult, Measurements, OptionValue, Status, digest

TOOL = "transformers benchmark_v2"


class _HardwareInfo(BaseModel):
    gpu_name: str | None = None


class _Metadata(BaseModel):
    model_id: str
    timestamp: str | None = None
    hardware_info: _HardwareInfo = _HardwareInfo()
    success: bool = True


class _Measurements(BaseModel):
    e2e_latency: list[float] = []
    time_to_first_token: list[float] | None = None
    inter_token_latency: list[float] | None = None


class _Config(BaseModel):
    batch_size: int
    sequence_length: int
    num_tokens_to_generate: int
    warmup_iterations: int | None = None
    attn_implementation: str | None = None
    sdpa_backend: str | None = None
    compile_kwargs: dict[str, Any] | None = None
    compile_mode: str | None = None
    continuous_batching: bool = False
    kernelize: bool = False


class _Entry(BaseModel):
    metadata: _Metadata
    measurements: _Measurements = Field(validation_alias=AliasChoices("measurements", "measures"))
    config: _Config


def is_benchmark_v2(content: Mapping[str, Any]) -> bool:
    """Whether an object is a file of this form."""
    return bool(content) and all(_is_entry(entry) for entry in content.values())


def of_benchmark_v2(file: ForeignFile) -> list[ImportedResult]:
    """The results of such a file. Raises HarnessError for an entry that has not the form's fields."""
    return [_result(file, name, entry) for name, entry in file.content.items()]


def _is_entry(entry: Any) -> bool:
    is_of_form = isinstance(entry, dict) and {"metadata", "config"} <= entry.keys()
    return is_of_form and bool({"measurements", "measures"} & entry.keys()) and "schema_version" not in entry


def _result(file: ForeignFile, name: str, written: Mapping[str, Any]) -> ImportedResult:
    entry = file.checked(_Entry, written, name)
    return ImportedResult(
        key=digest({"tool": TOOL, "entry": name, "written": written}),
        origin=file.origin(TOOL, None, _form(written), name),
        timestamp=entry.metadata.timestamp,
        status=Status.UNVERIFIED if entry.metadata.success else Status.FAILED,
        lacks=_lacks(entry),
        measurements=_numbers(entry),
        config=_config(entry),
        environment=dict(written["metadata"].get("hardware_info") or {}),
        written=dict(written),
    )


def _form(written: Mapping[str, Any]) -> str:
    if "measures" in written:
        return "benchmark_v2 with measures"
    return "benchmark_v2" if "compile_kwargs" in written["config"] else "benchmark_v2 with compile_mode"


def _numbers(entry: _Entry) -> Measurements:
    derived = "derived from the latency: batch size times new tokens over a call's time"
    numbers = of_latencies(entry.measurements.e2e_latency) | _of_tokens(entry.measurements)
    if entry.config.warmup_iterations is not None:
        numbers["warm_up_calls"] = entry.config.warmup_iterations
    return measurements(numbers, {"throughput": derived, "throughput_unit": derived}, f"{TOOL} does not measure it")


def _of_tokens(told: _Measurements) -> Numbers:
    """Medians over calls; left out where it tells none."""
    found = {
        "e2e_latency_s": stats.median(told.e2e_latency),
        "ttft_s": stats.median(told.time_to_first_token or ()),
        "inter_token_latency_s": stats.median(told.inter_token_latency or ()),
    }
    return {name: value for name, value in found.items() if value is not None}


def _config(entry: _Entry) -> ImportedConfig:
    asked = entry.config
    return ImportedConfig(
        model=entry.metadata.model_id,
        task="text-generation",
        operation="generate",
        backend="transformers",
        options=_options(asked),
        batch_size=asked.batch_size,
        sequence_length=asked.sequence_length,
        new_tokens=asked.num_tokens_to_generate,
        device="cuda" if entry.metadata.hardware_info.gpu_name else None,
    )


def _options(asked: _Config) -> dict[str, OptionValue]:
    """What tells two of its configurations apart."""
    found: dict[str, OptionValue] = {
        "attn_implementation": asked.attn_implementation,
        "sdpa_backend": asked.sdpa_backend,
        "compile_mode": _compile_mode(asked),
        "continuous_batching": asked.continuous_batching or None,
        "kernelize": asked.kernelize or None,
    }
    return {name: value for name, value in found.items() if value is not None}


def _compile_mode(asked: _Config) -> str | None:
    """Null where nothing was compiled."""
    if asked.compile_kwargs is None:
        return asked.compile_mode
    return str(asked.compile_kwargs.get("mode") or "default")


def _lacks(entry: _Entry) -> list[str]:
    always = [
        "one process measured all configurations: nothing tells how much another launch would differ",
        "nobody judged the outputs against a reference",
        "the weights are not pinned to a commit, and the inputs are not kept",
        "dtype, threads and machine are not told, so it compares with nothing measured here",
        "times to the first token and between tokens are float32 clock readings, coarse after days of uptime, and the latter are "
        "told too short, by a part of one in as many as there are new tokens: taken as written",
    ]
    batching = ["with continuous batching its time to first token is that of the best request"]
    return always + (batching if entry.config.continuous_batching else [])
