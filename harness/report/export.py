"""One flat row per result, for spreadsheets and scripts. docs/reference/results.md describes the columns.

Unknown is null (JSON) or an empty field (CSV), never 0. What is a mapping or a list in the record is one column of JSON text.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from harness.model import HarnessError, ImportedResult, Result
from harness.spelling import did_you_mean

Row = dict[str, Any]


def _from(part: str, *names: str) -> dict[str, str]:
    return {name: f"{part}.{name}" for name in names}


COLUMNS: Mapping[str, str] = {
    "key": "key",
    "status": "status",
    **_from("config", "model", "task", "backend", "device", "dtype", "batch_size", "sequence_length", "threads"),
    **_from("measurements", "import_s", "load_s", "prepare_s", "compile_s", "first_call_s", "cold_start_s"),
    **_from("measurements", "median_latency_s", "latency_iqr_s", "throughput", "throughput_unit", "break_even_calls"),
    **_from("measurements", "parity_max_abs", "parity_passed", "peak_rss_bytes", "launches", "samples"),
    "error_type": "metadata.error.type",
    "error_stage": "metadata.error.stage",
    "error_message": "metadata.error.message",
    "reason": "metadata.reason",
    **_from("measurements", "ratio_to_baseline", "break_even", "warm_up_s", "warm_up_calls", "cold_start_residual_s"),
    "baseline": "metadata.protocol.baseline",
    **_from("config", "label", "options", "compile_cache", "operation", "checkpoint", "workload_key"),
    "input_seed": "config.inputs.seed",
    **_from("metadata", "run_id", "timestamp", "harness_version", "executor"),
    **_from("metadata", "checkpoint_sha256", "licence", "inputs_sha256"),
    **_from("metadata.hashes", "protocol_hash", "stack_hash", "host_hash"),
    **_from("metadata", "requested", "effective", "versions"),
    "reasons": "measurements.reasons",
    "schema_version": "schema_version",
    **_from("measurements", "energy_j_per_call", "energy_j_per_item", "idle_power_w"),
    **_from("measurements.monitoring", "gpu_uuid", "gpu_utilisation_mean", "gpu_memory_peak_bytes", "gpu_power_mean_w"),
    **_from("measurements.monitoring", "gpu_temperature_peak_c", "gpu_sm_clock_mean_hz", "gpu_throttle_reasons"),
    "gpu_foreign_processes": "measurements.monitoring.gpu_foreign_processes",
    **_from("measurements", "blocks", "rounds", "disturbed_rounds", "compilations"),
    **_from("measurements", "median_ci_low_s", "median_ci_high_s", "ratio_ci_low", "ratio_ci_high", "verdict"),
    **_from("measurements", "p50_s", "p90_s", "p95_s", "p99_s"),
    **_from("measurements", "ratio_confidence", "blocks_needed", "break_even_ci_low_calls", "break_even_ci_high_calls"),
    **_from("metadata", "schedule", "schedule_reason"),
    "peak_allocated_bytes": "measurements.peak_allocated_bytes",
    "origin": "origin.tool",
    "lacks": "lacks",
    **_from("config", "padding", "image_size"),
    "rates": "measurements.rates",
    **_from("measurements", "application_latency_s", "tokenize_s", "transfer_s", "model_s", "postprocess_s"),
    **_from("measurements", "ttft_s", "inter_token_latency_s", "e2e_latency_s"),
    **_from("measurements", "prefill_tokens_per_s", "decode_tokens_per_s"),
    "new_tokens": "config.new_tokens",
    **_from("measurements", "kv_cache_bytes", "tokens_equal", "first_token_difference"),
    **_from("measurements", "accuracy_metric", "accuracy_value"),
    **_from("config", "do_sample", "num_beams"),
    "audio_seconds": "config.audio_seconds",
    "stop_at_eos": "config.stop_at_eos",
    "produced_tokens": "measurements.produced_tokens",
}
"""Column -> where a result has it. The order is part of the format: new columns come at the end."""

_OF_IMPORTED: Mapping[str, str] = {**COLUMNS, "timestamp": "timestamp"}
"""The same for results of other tools, which have nothing of most of them."""


def row(result: Result | ImportedResult) -> Row:
    """A result's columns, in order; null for what its record has no such field for."""
    paths = COLUMNS if isinstance(result, Result) else _OF_IMPORTED
    return {column: _value(result, path) for column, path in paths.items()}


def export(results: Iterable[Result | ImportedResult], form: str) -> Iterator[str]:
    """Lines of text, newline included, as `csv` (headings first) or `jsonl`. Raises HarnessError for any other form."""
    if form not in FORMATS:
        raise HarnessError(f"no export format {form!r}: give {' or '.join(FORMATS)}{did_you_mean(form, FORMATS)}")
    return FORMATS[form](map(row, results))


def _value(result: Result | ImportedResult, path: str) -> Any:
    value: Any = result
    for name in path.split("."):
        value = getattr(value, name, None)
    return json.dumps(value, ensure_ascii=False, sort_keys=True) if isinstance(value, (Mapping, list)) else value


def _jsonl(rows: Iterable[Row]) -> Iterator[str]:
    for each in rows:
        yield json.dumps(each, ensure_ascii=False) + "\n"


def _csv(rows: Iterable[Row]) -> Iterator[str]:
    yield csv_line(COLUMNS)
    for each in rows:
        yield csv_line(map(csv_value, each.values()))


def csv_line(values: Iterable[Any]) -> str:
    """One line of CSV, ended by a plain newline.

    Written with CRLF first: only so does the csv module quote a field that holds a lone CR.
    """
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\r\n").writerow(values)
    return buffer.getvalue().removesuffix("\r\n") + "\n"


def csv_value(value: Any) -> Any:
    """Truth values as JSON writes them, so that both formats say the same."""
    return json.dumps(value) if isinstance(value, bool) else value


FORMATS: Mapping[str, Callable[[Iterable[Row]], Iterator[str]]] = {"csv": _csv, "jsonl": _jsonl}
