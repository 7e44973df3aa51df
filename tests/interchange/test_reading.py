"""Result files of other tools: golden files written by hand from their schemas, each marked with its origin and what it lacks."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from harness.interchange.reading import read
from harness.model import HarnessError, ImportedResult, Measurements, Status
from harness.report.export import row

HERE = Path(__file__).parent
GOLDEN = [
    "benchmark_v2.json",
    "benchmark_v2_compile_mode.json",
    "benchmark_v2_measures.json",
    "benchmark.json",
    "text_generation/benchmark_report.json",
]


def only(name: str) -> ImportedResult:
    (result,) = read(HERE / name)
    return result


def by_entry(name: str) -> dict[str, ImportedResult]:
    return {result.origin.entry: result for result in read(HERE / name)}


@pytest.fixture
def written(tmp_path: Path) -> Any:
    """A file with this content."""

    def written(content: Any, name: str = "file.json") -> Path:
        path = tmp_path / name
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return path

    return written


# --- of every form --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", GOLDEN)
def test_a_result_names_its_origin_and_what_it_lacks(name: str) -> None:
    for result in read(HERE / name):
        assert result.origin.file == Path(name).name
        assert result.origin.file_sha256 == hashlib.sha256((HERE / name).read_bytes()).hexdigest()
        assert any("reference" in sentence for sentence in result.lacks)
        assert result.written


@pytest.mark.parametrize("name", GOLDEN)
def test_no_result_is_ok_so_none_is_ranked(name: str) -> None:
    for result in read(HERE / name):
        assert result.status is not Status.OK
        assert row(result)["status"] != "ok"
        assert row(result)["origin"] == result.origin.tool


@pytest.mark.parametrize("name", GOLDEN)
def test_every_number_that_is_null_has_its_reason(name: str) -> None:
    numbers = {field for field, info in Measurements.model_fields.items() if info.default is None}
    for result in read(HERE / name):
        unknown = {field for field in numbers if getattr(result.measurements, field) is None}
        assert set(result.measurements.reasons) == unknown


@pytest.mark.parametrize("name", GOLDEN)
def test_the_same_file_read_again_gives_the_same_keys(name: str, tmp_path: Path) -> None:
    shutil.copytree((HERE / name).parent, tmp_path / "copy")
    keys = [result.key for result in read(HERE / name)]
    assert keys == [result.key for result in read(tmp_path / "copy" / Path(name).name)]
    assert len(set(keys)) == len(keys)


# --- benchmark_v2 ---------------------------------------------------------------------------------------------------


def test_benchmark_v2_latencies_are_those_of_single_calls() -> None:
    result = by_entry("benchmark_v2.json")["1" * 64]
    assert result.measurements.median_latency_s == pytest.approx(0.505)
    assert result.measurements.samples == 6
    assert result.measurements.p50_s == pytest.approx(0.5)
    assert result.measurements.p90_s is None  # of six calls
    assert result.measurements.warm_up_calls == 5


def test_benchmark_v2_tells_times_of_tokens_and_how_little_they_are_to_be_trusted() -> None:
    result = by_entry("benchmark_v2.json")["1" * 64]
    numbers = result.measurements
    assert (numbers.ttft_s, numbers.inter_token_latency_s) == (pytest.approx(0.02), pytest.approx(0.004))
    assert numbers.e2e_latency_s == numbers.median_latency_s
    assert any("float32 clock readings" in sentence for sentence in result.lacks)


def test_benchmark_v2_has_no_throughput_of_its_own() -> None:
    result = by_entry("benchmark_v2.json")["1" * 64]
    assert result.measurements.throughput is None
    assert "derived from the latency" in result.measurements.reasons["throughput"]


def test_a_benchmark_v2_config_is_told_in_words_of_ours() -> None:
    config = by_entry("benchmark_v2.json")["1" * 64].config
    assert (config.model, config.operation, config.new_tokens) == ("tiny-org/tiny-llama", "generate", 128)
    assert (config.batch_size, config.sequence_length, config.device) == (1, 128, "cuda")
    assert config.options == {"attn_implementation": "sdpa", "compile_mode": "max-autotune"}
    assert (config.dtype, config.threads) == (None, None)


def test_what_benchmark_v2_says_has_failed_is_failed_and_has_no_latency() -> None:
    result = by_entry("benchmark_v2.json")["2" * 64]
    assert result.status is Status.FAILED
    assert (result.measurements.median_latency_s, result.measurements.samples) == (None, 0)
    assert result.config.options == {"attn_implementation": "eager", "continuous_batching": True}
    assert any("best request" in sentence for sentence in result.lacks)


def test_the_form_with_compile_mode_is_read() -> None:
    result = only("benchmark_v2_compile_mode.json")
    assert result.origin.form == "benchmark_v2 with compile_mode"
    assert result.measurements.median_latency_s == pytest.approx(1.1)
    assert result.config.options == {
        "attn_implementation": "sdpa",
        "sdpa_backend": "math",
        "compile_mode": "default",
    }


def test_the_form_with_measures_is_read() -> None:
    result = only("benchmark_v2_measures.json")
    assert result.origin.form == "benchmark_v2 with measures"
    assert result.measurements.median_latency_s == pytest.approx(2.1)
    assert result.config.options == {"attn_implementation": "eager"}


# --- optimum-benchmark ----------------------------------------------------------------------------------------------


def test_a_benchmark_json_is_one_result_whose_phases_come_from_the_other_targets() -> None:
    result = only("benchmark.json")
    assert (result.origin.version, result.origin.entry) == ("0.6.0", "forward")
    assert result.measurements.median_latency_s == pytest.approx(0.1345)
    assert (result.measurements.load_s, result.measurements.first_call_s) == (1.5, 0.25)
    assert result.measurements.peak_rss_bytes == 410_250_000  # their MB is a million bytes
    assert "derives it" in result.measurements.reasons["throughput"]


def test_an_optimum_config_is_told_in_words_of_ours() -> None:
    config = only("benchmark.json").config
    assert (config.backend, config.task, config.operation) == ("onnxruntime", "feature-extraction", "forward")
    assert (config.batch_size, config.sequence_length, config.threads) == (8, 128, 2)
    assert config.options == {"version": "1.31.1"}


def test_a_report_of_text_generation_is_a_result_for_each_repeated_target() -> None:
    results = by_entry("text_generation/benchmark_report.json")
    assert set(results) == {"prefill", "decode", "generate"}
    assert {result.config.backend for result in results.values()} == {"vllm"}  # from the config beside it
    assert {result.config.new_tokens for result in results.values()} == {32}


def test_a_prefill_is_the_time_to_the_first_token_and_a_generate_that_to_the_last() -> None:
    results = {name: each.measurements for name, each in by_entry("text_generation/benchmark_report.json").items()}
    assert results["prefill"].ttft_s == results["prefill"].median_latency_s is not None
    assert results["generate"].e2e_latency_s == results["generate"].median_latency_s is not None
    assert {results["decode"].ttft_s, results["decode"].e2e_latency_s} == {None}


def test_a_first_call_that_is_the_second_is_not_taken_for_the_first() -> None:
    numbers = by_entry("text_generation/benchmark_report.json")["generate"].measurements
    assert numbers.first_call_s is None
    assert "after another" in numbers.reasons["first_call_s"]


def test_a_decode_that_was_not_measured_says_so() -> None:
    results = by_entry("text_generation/benchmark_report.json")
    assert any("not a measurement" in sentence for sentence in results["decode"].lacks)
    assert not any("not a measurement" in sentence for sentence in results["prefill"].lacks)


def test_a_report_without_its_config_says_what_is_unknown(tmp_path: Path) -> None:
    shutil.copy(HERE / "text_generation" / "benchmark_report.json", tmp_path)
    for result in read(tmp_path / "benchmark_report.json"):
        assert (result.config.model, result.config.backend, result.config.batch_size) == (None, None, None)
        assert any("benchmark_config.json" in sentence for sentence in result.lacks)


# --- what is none ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "is no JSON"),
        ("[" * 100_000, "is no JSON"),
        ([1], "holds no JSON object"),
        ({}, "of no form that is known"),
        ({"a": 1}, "of no form that is known"),
        ({"k": {"schema_version": 1, "metadata": {}, "measurements": {}, "config": {}}}, "of the harness itself"),
        ({"load_model": {"latency": {"values": [1.0]}}}, "nothing was imported"),
        ({"forward": {"latency": {"values": "fast"}}}, "latency.values"),
        ({"k": {"metadata": {}, "measurements": {}, "config": {}}}, "entry 'k', metadata.model_id"),
    ],
)
def test_a_file_of_another_form_is_refused_in_a_sentence(written: Any, content: Any, words: str) -> None:
    with pytest.raises(HarnessError) as error:
        read(written(content))
    assert words in str(error.value)
    assert "file.json" in str(error.value)
    assert "\n" not in str(error.value)


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match="cannot be read: No such file"):
        read(tmp_path / "file.json")
