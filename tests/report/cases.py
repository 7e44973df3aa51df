"""Inputs of the golden tests: `{name}.txt` beside this file holds exactly what each renders to.

After an intended change: `PYTHONPATH=tests python -m report.cases` from the repository's root, then read the difference.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from store.factories import a_cell, a_failure, a_result, some_hashes

from harness.model import Calibration, Cell, CellError, Measurements, PlannedCell, Protocol, Result, Status
from harness.report.calibration import render_calibration
from harness.report.terminal import render_plan, render_results
from report import machine_cases

EAGER = {
    "load_s": 0.412,
    "first_call_s": 0.0981,
    "cold_start_s": 0.5203,
    "median_latency_s": 0.0466,
    "throughput": 21.41,
    "ratio_to_baseline": 1.0,
    "break_even": "baseline",
    "parity_max_abs": 0.0,
    "reasons": {
        "prepare_s": "nothing to prepare",
        "compile_s": "eager compiles nothing",
        "break_even_calls": "this is the baseline",
    },
}
ORT = {
    "prepare_s": 6.12,
    "compile_s": 0.4123,
    "first_call_s": 0.0251,
    "cold_start_s": 6.559,
    "median_latency_s": 0.02531,
    "throughput": 39.61,
    "ratio_to_baseline": 1.841,
    "break_even": "after 285",
    "break_even_calls": 285,
    "parity_max_abs": 1.04e-5,
    "reasons": {"load_s": "the session loads the weights"},
}


def measured(numbers: dict[str, Any], **changes: Any) -> Measurements:
    plain = {
        "throughput_unit": "samples/s",
        "launches": 2,
        "samples": 80,
        "parity_passed": True,
        "verdict": "indicative",
    }
    return Measurements(**{**plain, **numbers, **changes})


def eager(**cell: Any) -> Result:
    return a_result(a_cell(**cell), measurements=measured(EAGER))


def ort(cell: dict[str, Any] | None = None, **changes: Any) -> Result:
    return a_result(a_cell(backend="onnxruntime", **(cell or {})), measurements=measured(ORT, **changes))


def slower(result: Result, factor: float) -> Result:
    """As at a larger batch: what takes long in steady state takes longer."""
    numbers = result.measurements.model_copy(
        update={name: getattr(result.measurements, name) * factor for name in ("median_latency_s", "first_call_s")}
    )
    return result.model_copy(update={"measurements": numbers})


def quick(colour: bool = False) -> str:
    workloads = [[eager(), ort()], [slower(eager(batch_size=8), 7.1), slower(ort({"batch_size": 8}), 6.4)]]
    return render_results([result for workload in workloads for result in workload], colour=colour)


def in_colour() -> str:
    return render_results([eager(), ort(), unsupported("flax"), a_failure(a_cell(backend="compile"))], colour=True)


def unsupported(backend: str) -> Result:
    return a_result(a_cell(backend=backend), Status.UNSUPPORTED, reason="there is no Flax class for qwen2")


def unranked(backend: str, status: Status, **metadata: Any) -> Result:
    numbers = measured(ORT, median_latency_s=0.02, parity_max_abs=0.523, parity_passed=False, launches=1)
    return a_result(a_cell(backend=backend), status, measurements=numbers, **metadata)


def every_ending() -> str:
    failed = CellError(
        type="RuntimeError", message="no kernel\n  for \x1b[31mthis\x1b[0m shape\t" + "x " * 200, stage="load"
    )
    killed = CellError(type="out_of_memory", message="killed by the kernel (signal 9)", stage="compile")
    timeout = CellError(type="timeout", message="no answer within 900 s", stage="prepare")
    differs = CellError(type="parity", message="last_hidden_state differs by 0.523, allowed 0.001", stage="before")
    results = [
        unsupported("flax"),
        a_result(a_cell(backend="dropped"), Status.SKIPPED, reason="left out by plugin harness_sampler"),
        a_result(a_cell(backend="compile"), Status.FAILED, error=failed),
        a_result(a_cell(backend="big"), Status.OUT_OF_MEMORY, error=killed),
        a_result(a_cell(backend="slow"), Status.TIMEOUT, error=timeout),
        a_result(a_cell(backend="a_backend_of_a_long_name", options={"x": 1}), Status.INTERRUPTED),
        unranked("int8", Status.PARITY_FAILED, error=differs),
        unranked("one-thread", Status.MISMATCH, reason="threads: 2 requested, 1 in effect"),
        unranked("restless", Status.UNSTABLE, reason="no three windows agreed within 60 s"),
        unranked("judgeless", Status.UNVERIFIED, reason="no reference: backend eager is not installed"),
        eager(),
        ort(),
    ]
    return render_results(results)


def certain(verdict: str | None, low: float, high: float, **changes: Any) -> dict[str, Any]:
    """Numbers of nine blocks and five comparisons."""
    return {
        "launches": 9,
        "verdict": verdict,
        "ratio_to_baseline": (low * high) ** 0.5,
        "ratio_ci_low": low,
        "ratio_ci_high": high,
        "ratio_confidence": 0.9875,
        **changes,
    }


def verdicts() -> str:
    baseline = a_result(measurements=measured(EAGER, launches=9, verdict=None, rounds=54, disturbed_rounds=4))
    faster = certain("faster", 1.792, 1.891, break_even_ci_low_calls=240, break_even_ci_high_calls=410)
    others = {
        "sdpa": certain("no_difference_shown", 0.986, 1.031, break_even_ci_low_calls=3, median_latency_s=0.0463),
        "compile": certain("slower", 0.871, 0.902, break_even="never", break_even_calls=None, median_latency_s=0.0521),
        "flax": certain("equivalent", 0.9951, 1.0049, break_even="always", break_even_calls=1, median_latency_s=0.0466),
    }
    rows = [a_result(a_cell(backend=name), measurements=measured(ORT, **numbers)) for name, numbers in others.items()]
    return render_results([baseline, ort(**faster), *rows])


def no_winner() -> str:
    baseline = a_result(measurements=measured(EAGER, launches=9, verdict=None))
    tied = certain("no_difference_shown", 0.99, 1.05, ratio_confidence=0.95, median_latency_s=0.0461)
    alike = certain("equivalent", 0.996, 1.004, ratio_confidence=0.95, median_latency_s=0.0469)
    one_by_one = {
        "schedule": "sequential",
        "schedule_reason": "2 workers side by side take about 9.1 GiB, 8.0 GiB are available",
    }
    eight = a_result(a_cell(batch_size=8), measurements=measured(EAGER, launches=9, verdict=None), **one_by_one)
    return render_results([baseline, ort(**tied), eight, ort({"batch_size": 8}, **alike)])


def a_calibration(**changes: Any) -> Calibration:
    plain = {
        "host_hash": "7" * 64,
        "timestamp": "2026-11-29T20:15:30+00:00",
        "harness_version": "0.1.0",
        "executor": "venv",
        "protocol": Protocol(),
        "config": a_cell(),
        "elapsed_s": 2047.6,
        "comparisons": 40,
        "set_aside": 1,
        "ratios": [1.01] * 40,
        "false_positives": 2,
        "false_positive_rate": 0.05,
        "false_positive_ci_low": 0.0061,
        "false_positive_ci_high": 0.1692,
        "noise_floor_ratio": 1.0131,
        "median_ci_half_width": 0.0213,
        "bind_threads": False,
        "bind_reason": "launches differ by 1.6% unbound and 1.5% bound, by 6 blocks each (p = 0.4)",
    }
    return Calibration(**{**plain, **changes})


def calibration() -> str:
    return render_calibration(a_calibration())


def calibrated() -> str:
    baseline = a_result(measurements=measured(EAGER, launches=9, verdict=None))
    faster = ort(**certain("faster", 1.792, 1.891, break_even_ci_low_calls=240))
    return render_results([baseline, faster], calibrations={"7" * 64: a_calibration()})


def baseline_leads() -> str:
    never = {"median_latency_s": 0.05215, "ratio_to_baseline": 0.894, "break_even": "never", "break_even_calls": None}
    return render_results([ort(**never), eager()])


def no_baseline() -> str:
    nothing = {"ratio_to_baseline": None, "break_even": None, "break_even_calls": None}
    reasons = {"ratio_to_baseline": "no baseline in this workload", "break_even": "no baseline in this workload"}
    one, other = ({**nothing, "reasons": reasons, "median_latency_s": latency} for latency in (0.025, 0.031))
    return render_results([ort({"options": {"level": "all"}}, **other), ort({"options": {"level": "basic"}}, **one)])


def nothing_ranked() -> str:
    return render_results([unsupported("flax"), a_failure(a_cell(backend="compile"))])


def alone() -> str:
    return render_results([eager(operation="prefill", threads=1, model="path:/models/my bert", inputs={"seed": 3})])


def accurate(backend: str, dtype: str, latency_s: float, spearman: float, **changes: Any) -> Result:
    numbers = measured(
        EAGER, median_latency_s=latency_s, accuracy_metric="spearman", accuracy_value=spearman, **changes
    )
    return a_result(a_cell(backend=backend, dtype=dtype), measurements=numbers)


def accuracy() -> str:
    wrong = unranked("onnxruntime", Status.MISMATCH, reason="dtype: asked for 'int8', in effect 'float32+int8'")
    told = {"accuracy_metric": "spearman", "accuracy_value": 0.87654}
    numbers = wrong.measurements.model_copy(update=told)
    doubtful = wrong.model_copy(update={"config": a_cell(backend="onnxruntime", dtype="int8"), "measurements": numbers})
    return render_results(
        [
            accurate("eager", "float32", 0.0466, 0.90123),
            accurate("eager", "bfloat16", 0.0312, 0.9),
            accurate("eager", "int8", 0.0255, 0.8911, parity_max_abs=0.21),
            doubtful,
        ]
    )


def generated(backend: str, operation: str, **numbers: Any) -> Result:
    axes = {"new_tokens": None if operation == "prefill" else 32, "num_beams": 4 if operation == "generate" else 1}
    cell = a_cell(backend=backend, task="text-generation", operation=operation, sequence_length=64, **axes)
    plain = EAGER if backend == "eager" else ORT
    return a_result(cell, measurements=measured(plain, **numbers))


def generation() -> str:
    """Prefill by its rate of reading, decode by its columns, generate by its stamps; one that has none, and other tokens."""
    in_tokens = {"throughput_unit": "tokens/s", "kv_cache_bytes": 4_377_600, "tokens_equal": True}
    near = {"tokens_equal": False, "first_token_difference": 17}
    stamped = {"ttft_s": 0.2104, "inter_token_latency_s": 0.0467, "decode_tokens_per_s": 21.3}
    return render_results(
        [
            generated("eager", "prefill", prefill_tokens_per_s=1373.4, kv_cache_bytes=2_949_120),
            generated("onnxruntime", "prefill", prefill_tokens_per_s=2528.6),
            generated("eager", "decode", **in_tokens),
            generated(
                "onnxruntime",
                "decode",
                **{**in_tokens, **near, "verdict": "faster"},
                ratio_ci_low=1.7,
                ratio_ci_high=1.9,
            ),
            generated("eager", "generate", **in_tokens, **stamped, median_latency_s=1.6581),
            generated("flax", "generate", **in_tokens, median_latency_s=1.2034),
        ]
    )


def two_hosts() -> str:
    cell = a_cell(backend="onnxruntime")
    elsewhere = some_hashes(cell, host_hash="8" * 64)
    return render_results([eager(), a_result(cell, measurements=measured(ORT), hashes=elsewhere)])


def extremes() -> str:
    tiny = dict.fromkeys(("load_s", "prepare_s", "compile_s", "first_call_s"), 1.234e-06)
    huge = dict.fromkeys(("load_s", "prepare_s", "compile_s", "first_call_s", "median_latency_s"), 12345.6)
    quick_call = {"median_latency_s": None, "throughput": 1.23e6, "ratio_to_baseline": None, "parity_max_abs": 1e-12}
    short = {"median_latency_s": "a call takes under 100 µs: too short to time one by one, see throughput"}
    options = {
        "graph_optimisation": "everything",
        "quantisation": "int8-dynamic-per-channel",
        "arena": True,
        "spin": False,
    }
    return render_results(
        [
            eager(),
            ort(**{**tiny, **quick_call, "break_even": None, "break_even_calls": None, "reasons": short}),
            ort({"options": options}, **huge, break_even="until 999999", throughput=1.2e-3, ratio_to_baseline=3.7e-6),
            ort(
                {"compile_cache": "warm"},
                break_even="always",
                break_even_calls=1,
                ratio_to_baseline=1234.5,
                median_latency_s=3.77e-5,
            ),
        ]
    )


def nothing() -> str:
    return render_results([])


def plan() -> str:
    cells: list[Cell] = [
        a_cell(batch_size=batch, backend=backend, options=options)
        for batch in (1, 8)
        for backend, options in (("eager", {}), ("onnxruntime", {"level": "basic"}))
    ]
    unable = a_cell(model="random:bert?layers=2", checkpoint="random:bert?layers=2", backend="flax")
    reason = (
        "sequence length 4096 is beyond the 512 positions that this model has; nothing longer can be run on any backend"
    )
    planned = [PlannedCell(cell) for cell in cells]
    return render_plan(
        [*planned, PlannedCell(unable, Status.UNSUPPORTED, reason), PlannedCell(a_cell(backend="x"), Status.SKIPPED)]
    )


CASES: dict[str, Callable[[], str]] = {
    case.__name__: case
    for case in (
        quick, in_colour, every_ending, baseline_leads, no_baseline, verdicts, no_winner, calibration, calibrated,
        accuracy,
        generation,
        nothing_ranked, alone, two_hosts, extremes, nothing, plan,
        *machine_cases.CASES,
    )
}  # fmt: skip


def golden(name: str) -> Path:
    return Path(__file__).with_name(f"{name}.txt")


if __name__ == "__main__":
    for name, case in CASES.items():
        golden(name).write_text(case(), encoding="utf-8")
