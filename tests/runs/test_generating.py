"""Whole runs of prefill, decode and generate: what is measured by which, what is judged, and what a stored launch holds."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np
import pytest
from run_bench import Bench

from harness.model import LaunchRecord, Result, Status
from harness.store import ResultStore

NEW_TOKENS = 4


def generate(
    bench: Bench, *operations: str, axes: Mapping[str, Sequence[object]] = MappingProxyType({}), **fake_b: object
) -> dict[str, dict[str, Result]]:
    """Results by operation and backend, of one run; the two fakes differ in options alone. `axes`: further ones."""
    bench.write_matrix(
        fake={"call_ms": 4.0, "token_ms": 2.0},
        fake_b={"call_ms": 2.0, "token_ms": 1.0, **fake_b},
        protocol={"blocks": 1},
        task=["text-generation"],
        new_tokens=[NEW_TOKENS],
        operation=list(operations),
        **axes,
    )
    bench.run()
    results = ResultStore.existing(bench.results).results()
    return {
        operation: {each.config.backend: each for each in results if each.config.operation == operation}
        for operation in operations
    }


def launch_of(bench: Bench, result: Result) -> LaunchRecord:
    (summary,) = result.measurements.per_launch
    return LaunchRecord.model_validate_json((bench.results / summary.folder / "launch.json").read_bytes())


def test_each_operation_measures_its_own_and_says_of_the_others_who_does(bench: Bench) -> None:
    results = generate(bench, "prefill", "decode", "generate")
    prefill, decode, whole = (results[operation]["fake_b"] for operation in ("prefill", "decode", "generate"))
    assert [each.status for each in (prefill, decode, whole)] == [Status.OK] * 3, prefill.metadata
    assert prefill.measurements.ttft_s is not None
    assert prefill.measurements.ttft_s >= 0.002
    assert decode.measurements.inter_token_latency_s == decode.measurements.median_latency_s
    assert whole.measurements.e2e_latency_s is not None
    assert whole.measurements.e2e_latency_s >= 0.002 + 3 * 0.001
    assert whole.measurements.ttft_s is not None
    assert 0.002 <= whole.measurements.ttft_s < whole.measurements.e2e_latency_s
    assert (decode.measurements.tokens_equal, whole.measurements.tokens_equal) == (True, True)
    for result in (prefill, decode, whole):
        numbers, reasons = (
            result.measurements.model_dump(exclude={"reasons", "per_launch"}),
            result.measurements.reasons,
        )
        assert [name for name, value in numbers.items() if value is None and name not in reasons] == []


def test_decode_rounds_are_made_of_whole_generations_and_its_cache_grows_to_the_last_step(bench: Bench) -> None:
    result = generate(bench, "decode")["decode"]["fake_b"]
    record = launch_of(bench, result)
    assert {each.calls % (NEW_TOKENS - 1) for each in record.rounds} == {0}
    assert [(stage.phase, stage.stage) for stage in record.stages if stage.phase == "first_call"] == [
        ("first_call", "begin"),
        ("first_call", "call"),
    ]
    assert result.measurements.kv_cache_bytes == 64 * (4 + NEW_TOKENS - 1)
    assert {each.mode for each in record.rounds} == {"latency", "throughput"}


def test_marked_rounds_keep_the_stamp_of_each_token_of_each_call(bench: Bench) -> None:
    result = generate(bench, "generate")["generate"]["fake_b"]
    record = launch_of(bench, result)
    marked = [each for each in record.rounds if each.mode == "marked"]
    assert [each.marks for each in marked] == [["first_token", "token", "token", "token"]] * 2
    with np.load(bench.results / result.measurements.per_launch[0].folder / str(marked[0].file)) as arrays:
        assert arrays["mark_ns"].shape == (marked[0].calls, NEW_TOKENS)
        assert (np.diff(arrays["mark_ns"], axis=1) >= 1_000_000).all()
        assert (arrays["mark_ns"][:, -1] <= arrays["total_ns"]).all()


def test_a_generate_that_cannot_be_looked_into_has_an_end_and_no_first_token(bench: Bench) -> None:
    numbers = generate(bench, "generate", stampless=True)["generate"]["fake_b"].measurements
    assert numbers.e2e_latency_s is not None
    assert (numbers.ttft_s, numbers.reasons["ttft_s"]) == (None, "generate of fake_b stamps no tokens")


def test_tokens_that_near_equal_logits_explain_are_ok_and_told_apart_and_others_are_no_result(bench: Bench) -> None:
    near = generate(bench, "decode", "generate", wrong="near_tokens")
    for operation in ("decode", "generate"):
        result = near[operation]["fake_b"]
        assert result.status is Status.OK, result.metadata
        assert (result.measurements.tokens_equal, result.measurements.first_token_difference) == (False, 1)
    wrong = generate(bench, "decode", "generate", wrong="tokens")
    for operation in ("decode", "generate"):
        result = wrong[operation]["fake_b"]
        assert result.status is Status.PARITY_FAILED
        assert result.metadata.error is not None
        assert "at position 1 it chose token" in result.metadata.error.message


ENDING = {"eos_token_id": [3, 7, 11]}


def generate_to_the_end(bench: Bench, **fake_b: object) -> Result:
    """The backend `fake_b`'s, of texts that may end early: some do."""
    (bench.folder / "model" / "generation_config.json").write_text(json.dumps(ENDING))
    return generate(bench, "generate", axes={"stop_at_eos": [True]}, **fake_b)["generate"]["fake_b"]


def test_texts_that_end_early_count_the_tokens_they_have_in_rounds_of_all_slots(bench: Bench) -> None:
    result = generate_to_the_end(bench)
    record, numbers = launch_of(bench, result), result.measurements
    assert result.status is Status.OK, result.metadata.error
    assert len(record.produced_tokens) == 8
    assert 1 <= min(record.produced_tokens) < max(record.produced_tokens) <= NEW_TOKENS
    assert {each.calls % 8 for each in record.rounds} == {0}
    assert numbers.produced_tokens == np.mean(record.produced_tokens)
    calls, elapsed_s = zip(
        *((x.calls, x.elapsed_ns / 1e9) for x in record.rounds if x.mode == "throughput"), strict=True
    )
    assert numbers.throughput == pytest.approx(numbers.produced_tokens * sum(calls) / sum(elapsed_s))
    assert numbers.rates["samples/s"] == pytest.approx(numbers.throughput / numbers.produced_tokens)
    assert (numbers.tokens_equal, numbers.ttft_s is None) == (True, False)
    assert "stamp the first alone" in numbers.reasons["inter_token_latency_s"]
    (row,) = (each for each in bench.rows() if each["backend"] == "fake_b")
    assert (row["stop_at_eos"], row["produced_tokens"], row["new_tokens"]) == (
        True,
        numbers.produced_tokens,
        NEW_TOKENS,
    )
    assert f"at most {NEW_TOKENS} new tokens" in bench.harness("report", "results").stdout


def test_a_backend_that_goes_on_after_the_end_has_no_numbers(bench: Bench) -> None:
    result = generate_to_the_end(bench, wrong="deaf_to_eos")
    assert result.status is Status.FAILED
    assert result.metadata.error is not None
    assert "goes on after its end-of-text" in result.metadata.error.message
