"""The form of transformers' benchmark_v2: what of a result it has words for, under its names.

A file of that form is one object, `{hash: {metadata, measurements, config}}`. Reading such files is `harness.interchange.reading`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from harness.interchange.raw import RawLaunch, latencies_s, stamps_s
from harness.model import Cell, HarnessError, Record, Result, Status
from harness.samples import NS


class HardwareInfo(Record):
    """The machine, as far as that form tells it."""

    gpu_name: str | None
    gpu_memory_total_gb: float | None
    python_version: str | None
    torch_version: str | None


class Metadata(Record):
    """Who measured what, when and where."""

    model_id: str
    timestamp: str  # ISO 8601, UTC
    branch_name: str | None
    commit_id: str | None
    commit_message: str | None
    hardware_info: HardwareInfo
    success: bool


class GpuMetrics(Record):
    """What a monitor saw of the GPU during one launch."""

    utilization: list[float]  # percent
    memory_used: list[float]  # GB
    timestamps: list[float]  # seconds from the first
    timestamp_0: float | None  # of the first, seconds since 1970
    monitoring_status: str


class Measurements(Record):
    """Latencies in seconds. Null where the operation has no such thing, or nothing was recorded."""

    e2e_latency: list[float]  # of one call each; of a summarised result, the median of one launch each
    time_to_first_token: (
        list[float] | None
    )  # of one call each that stamped its tokens; of a summarised result, its one number
    inter_token_latency: list[float] | None  # likewise: the mean of a call's intervals
    shape_and_decoded_outputs: list[str] | None
    gpu_metrics: list[GpuMetrics] | None  # of one launch each; null in summarised results
    timestamps: list[list[list[float]]] | None  # by iteration, request and token: seconds since the call's start


class CompileKwargs(Record):
    """What torch.compile was called with."""

    fullgraph: bool | None
    dynamic: bool | None
    backend: str | None
    mode: str | None
    options: str | None


class Config(Record):
    """What was asked."""

    name: str
    warmup_iterations: int | None
    measurement_iterations: int
    gpu_monitoring: bool
    continuous_batching: bool
    batch_size: int
    sequence_length: int
    num_tokens_to_generate: int | None
    attn_implementation: str | None
    compile_kwargs: CompileKwargs | None
    kernelize: bool


class Entry(Record):
    """One result in that form."""

    metadata: Metadata
    measurements: Measurements
    config: Config


def entry(result: Result, raw: Sequence[RawLaunch] | None = None) -> Entry:
    """A result in that form. Without its raw samples it is summarised: one latency a launch."""
    return Entry(metadata=_metadata(result), measurements=_measurements(result, raw), config=_config(result))


def export(results: Iterable[tuple[Result, Sequence[RawLaunch]]]) -> Iterator[str]:
    """Lines of one JSON object, an entry by the key of each result. Raises HarnessError where two have one key."""
    written = set[str]()
    yield "{"
    for result, raw in results:
        if result.key in written:
            raise HarnessError(
                f"the benchmark-v2 form holds one result of each key, and there are several of {result.key[:12]}: export it "
                "without --all, and from the results of one machine"
            )
        yield ("," if written else "") + f"\n{json.dumps(result.key)}: {entry(result, raw).model_dump_json()}"
        written.add(result.key)
    yield "\n}\n"


def _metadata(result: Result) -> Metadata:
    git = result.metadata.environment.get("git", {})
    return Metadata(
        model_id=result.config.model,
        timestamp=result.metadata.timestamp,
        branch_name=git.get("branch"),
        commit_id=git.get("commit"),
        commit_message=git.get("message"),
        hardware_info=_hardware(result),
        success=result.status is Status.OK,
    )


def _hardware(result: Result) -> HardwareInfo:
    """The Python is the workers'; of a cell that no worker was started for, the host's."""
    environment = result.metadata.environment
    host, stack = environment.get("host", {}), environment.get("stack", {})
    return HardwareInfo(
        gpu_name=next(iter(host.get("gpu_models") or ()), None),
        gpu_memory_total_gb=None,
        python_version=stack.get("python") or host.get("python"),
        torch_version=result.metadata.versions.get("torch"),
    )


def _measurements(result: Result, raw: Sequence[RawLaunch] | None) -> Measurements:
    if raw is None:
        return _summarised(result)
    stamps = stamps_s(raw) if result.config.operation == "generate" else []
    whole = [] if result.config.stop_at_eos else stamps  # there the first token alone is stamped
    return Measurements(
        e2e_latency=latencies_s(raw),
        time_to_first_token=[call[0] for call in stamps] or None,
        inter_token_latency=[(call[-1] - call[0]) / (len(call) - 1) for call in stamps if len(call) > 1] or None,
        shape_and_decoded_outputs=None,
        gpu_metrics=[found for launch in raw if (found := _gpu_metrics(launch))] or None,
        timestamps=[[call] * result.config.batch_size for call in whole] or None,  # rows get their tokens together
    )


def _summarised(result: Result) -> Measurements:
    numbers = result.measurements
    medians = [launch.median_latency_s for launch in numbers.per_launch]
    return Measurements(
        e2e_latency=[x for x in medians if x is not None],
        time_to_first_token=None if numbers.ttft_s is None else [numbers.ttft_s],
        inter_token_latency=None if numbers.inter_token_latency_s is None else [numbers.inter_token_latency_s],
        shape_and_decoded_outputs=None,
        gpu_metrics=None,
        timestamps=None,
    )


def _gpu_metrics(launch: RawLaunch) -> GpuMetrics | None:
    """Of the looks that tell both numbers; null without any. When the first was is not known in seconds since 1970."""
    looks = [look for look in launch.gpu or () if None not in (look.utilisation, look.memory_used_bytes)]
    if not looks:
        return None
    return GpuMetrics(
        utilization=[100 * (look.utilisation or 0) for look in looks],
        memory_used=[(look.memory_used_bytes or 0) / 1e9 for look in looks],
        timestamps=[(look.at_ns - looks[0].at_ns) / NS for look in looks],
        timestamp_0=None,
        monitoring_status="success",
    )


def _config(result: Result) -> Config:
    cell, numbers = result.config, result.measurements
    return Config(
        name=f"{cell.label}-{cell.operation}-b{cell.batch_size}_s{cell.sequence_length}{_new_tokens(cell)}",
        warmup_iterations=numbers.warm_up_calls,
        measurement_iterations=numbers.samples,
        gpu_monitoring=numbers.monitoring is not None and numbers.monitoring.gpu_uuid is not None,
        continuous_batching=False,
        batch_size=cell.batch_size,
        sequence_length=cell.sequence_length,
        num_tokens_to_generate=cell.new_tokens,
        attn_implementation=result.metadata.effective.get("attn_implementation"),
        compile_kwargs=_compile_kwargs(cell),
        kernelize=False,
    )


def _new_tokens(cell: Cell) -> str:
    return "" if cell.new_tokens is None else f"_n{cell.new_tokens}"


def _compile_kwargs(cell: Cell) -> CompileKwargs | None:
    """The options of that name that the backend has; null where it has none of them."""
    found: dict[str, Any] = {name: cell.options.get(name) for name in CompileKwargs.model_fields}
    return CompileKwargs(**found) if cell.options.keys() & found.keys() else None
