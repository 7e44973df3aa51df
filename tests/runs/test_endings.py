"""However a launch ends, its cell is a row with the right status, the stage, and a sentence; the others go on."""

from __future__ import annotations

import json
import signal
import subprocess
import time

import pytest
from run_bench import Bench

from harness.model import Result, Status
from harness.store import ResultStore

PHASES = ("load", "prepare", "compile", "first_call", "outputs", "warmup", "steady", "memory", "close")


def by_option(bench: Bench, option: str) -> dict[object, Result]:
    results = ResultStore.existing(bench.results).results()
    return {
        result.config.options[option]: result
        for result in results
        if result.config.backend == "fake_b" and result.config.options[option] is not None
    }


def run_phases(bench: Bench, option: str, **protocol: object) -> dict[object, Result]:
    """One run of a good backend and of one bad cell for each phase, all in one block."""
    phases = list(PHASES)
    path = bench.write_matrix(protocol={"blocks": 1, **protocol})
    text = path.read_text().replace("  backend:\n", f"  fake_b:\n    {option}: {phases}\n  backend:\n".replace("'", ""))
    path.write_text(text)
    run = bench.run()
    assert run.returncode == 1, run.stderr
    assert bench.by_backend()["fake"].status is Status.OK
    return by_option(bench, option)


def test_an_exception_in_any_phase_is_a_failed_row_with_type_message_and_stage(bench: Bench) -> None:
    results = run_phases(bench, "fail_in")
    assert {phase: result.status for phase, result in results.items()} == dict.fromkeys(PHASES, Status.FAILED)
    for phase, result in results.items():
        assert result.metadata.error is not None
        assert result.metadata.error.type == "RuntimeError"
        assert str(phase) in result.metadata.error.message
        assert result.metadata.error.stage is not None
    assert results["load"].metadata.error.stage == "load"  # type: ignore[union-attr]
    assert results["compile"].metadata.error.stage == "compile"  # type: ignore[union-attr]


@pytest.mark.parametrize(("option", "words"), [("exit_in", "exited with code 3"), ("kill_in", "SIGKILL")])
def test_a_process_that_exits_or_is_killed_in_any_phase_is_a_crashed_row_that_says_how(
    bench: Bench, option: str, words: str
) -> None:
    results = run_phases(bench, option)
    assert {phase: result.status for phase, result in results.items()} == dict.fromkeys(PHASES, Status.CRASHED)
    for result in results.values():
        assert result.metadata.error is not None
        assert words in result.metadata.error.message
        assert result.metadata.error.stage is not None


def test_unsupported_and_out_of_memory_inside_the_worker_have_their_own_statuses(bench: Bench) -> None:
    bench.write_matrix(fake={"unsupported_in": "load"}, fake_b={"out_of_memory_in": "compile"})
    run = bench.run()
    assert run.returncode == 1
    found = bench.by_backend()
    assert found["fake"].status is Status.UNSUPPORTED
    assert found["fake"].metadata.reason == "told to be unsupported in load"
    assert found["fake_b"].status is Status.OUT_OF_MEMORY
    assert found["fake_b"].metadata.error is not None
    assert found["fake_b"].metadata.error.stage == "compile"


def test_a_hang_is_a_timeout_in_its_stage(bench: Bench) -> None:
    bench.write_matrix(fake_b={"hang_in": "load"}, protocol={"phase_timeout_seconds": 5.0, "blocks": 1})
    assert bench.run().returncode == 1
    result = bench.by_backend()["fake_b"]
    assert result.status is Status.TIMEOUT
    assert result.metadata.error is not None
    assert result.metadata.error.message == "no answer within 5 s in load; the worker was ended"


@pytest.mark.parametrize(
    ("wrong", "status", "words"),
    [
        ("shape", Status.PARITY_FAILED, "has shape"),
        ("values", Status.PARITY_FAILED, "root mean square"),
        ("nan", Status.NUMERICAL_FAILURE, "slot 0: last_hidden_state has 1 of 32 values that are NaN or infinite"),
        ("nan_after", Status.NUMERICAL_FAILURE, "after the rounds: slot 0: last_hidden_state has 1 of 32 values"),
        ("cached", Status.PARITY_FAILED, "root mean square"),
        ("after", Status.PARITY_FAILED, "after the rounds: slot"),
    ],
)
def test_wrong_outputs_are_never_ranked(bench: Bench, wrong: str, status: Status, words: str) -> None:
    bench.write_matrix(fake_b={"wrong": wrong}, protocol={"blocks": 1})
    run = bench.run()
    assert run.returncode == 1
    result = bench.by_backend()["fake_b"]
    assert result.status is status
    assert result.metadata.error is not None
    assert words in result.metadata.error.message
    assert result.measurements.parity_passed is False
    timed = result.measurements.median_latency_s is not None
    assert timed is wrong.endswith("after")  # wrong before the clock starts: not worth a number


@pytest.mark.parametrize(
    ("option", "value", "difference"),
    [
        ("report_threads", 7, "threads: asked for 1, in effect 7"),
        ("report_dtype", "bfloat16", "dtype: asked for 'float32', in effect 'bfloat16'"),
    ],
)
def test_what_runs_and_is_not_what_was_asked_is_a_mismatch_with_numbers(
    bench: Bench, option: str, value: object, difference: str
) -> None:
    bench.write_matrix(fake_b={option: value}, protocol={"blocks": 1})
    assert bench.run().returncode == 1
    result = bench.by_backend()["fake_b"]
    assert result.status is Status.MISMATCH
    assert result.metadata.reason is not None
    assert difference in result.metadata.reason
    assert result.measurements.median_latency_s is not None


def test_a_latency_that_never_settles_is_unstable_after_one_fresh_process(bench: Bench) -> None:
    bench.write_matrix(
        fake_b={"drift": 2.0, "call_ms": 2.0},
        protocol={"blocks": 1, "warm_up_tolerance": 0.01, "warm_up_seconds": 0.3, "round_calls": 1},
    )
    bench.run()
    result = bench.by_backend()["fake_b"]
    assert result.status is Status.UNSTABLE
    assert result.metadata.reason is not None
    assert result.metadata.reason.startswith("latency did not settle in ")
    assert len(list((bench.results / "launches" / result.key).iterdir())) == 2


def test_a_backend_that_keeps_recompiling_is_unstable_with_that_very_reason(bench: Bench) -> None:
    bench.write_matrix(fake_b={"recompile_always": True}, protocol={"blocks": 1, "warm_up_seconds": 0.3})
    bench.run()
    result = bench.by_backend()["fake_b"]
    assert result.status is Status.UNSTABLE
    assert result.metadata.reason is not None
    assert "it keeps recompiling" in result.metadata.reason
    record = json.loads(next((bench.results / "launches" / result.key).glob("*/launch.json")).read_text())
    assert [entry["shape"] for entry in record["compile_ledger"]][:1] == [
        "attention_mask 1x4, input_ids 1x4, token_type_ids 1x4"
    ]


def test_a_workload_without_a_reference_is_unverified_and_says_why(bench: Bench) -> None:
    bench.write_matrix(fake={"fail_in": "load"}, protocol={"blocks": 1})
    path = bench.folder / "matrix.yaml"
    # The reference is the backend's defaults, so only a backend that is broken by default has none.
    path.write_text(path.read_text().replace("reference: fake", "reference: broken"))
    (bench.folder / "broken_plugin.py").write_text(
        "from dataclasses import replace\nfrom harness.hookspecs import hookimpl\nfrom harness_fake import plugin\n"
        "@hookimpl\ndef harness_register_backends():\n"
        "    return [replace(plugin.harness_register_backends()[0], name='broken', runner='harness_fake.runner:Nobody')]\n"
    )
    bench.variables["PYTHONPATH"] = f"{bench.environment()['PYTHONPATH']}:{bench.folder}"
    run = bench.run("-p", "broken_plugin")
    assert run.returncode == 1, run.stderr
    result = bench.by_backend()["fake_b"]
    assert result.status is Status.UNVERIFIED
    assert result.metadata.reason is not None
    assert "the reference launch (broken) failed" in result.metadata.reason
    assert result.measurements.median_latency_s is not None


def test_a_reference_without_the_tasks_outputs_judges_nothing_and_is_told_of(bench: Bench) -> None:
    """The fake's runner gives hidden states whatever the task."""
    bench.write_matrix(protocol={"blocks": 1}, task=["text-generation"])
    run = bench.run()
    assert run.returncode == 1
    assert "Traceback" not in run.stderr
    result = bench.by_backend()["fake_b"]
    assert result.status is Status.UNVERIFIED
    assert result.metadata.reason is not None
    assert (
        "the reference launch (fake) gave no output 'logits'; there are ['last_hidden_state']" in result.metadata.reason
    )


def test_megabytes_of_garbage_on_stdout_change_nothing(bench: Bench) -> None:
    bench.write_matrix(fake_b={"garbage": 64}, protocol={"blocks": 1})
    run = bench.run()
    assert run.returncode == 0, run.stderr
    (log,) = (bench.results / "launches" / bench.by_backend()["fake_b"].key).glob("*/stderr.log")
    assert log.stat().st_size > 64 * 1024


def test_a_cell_that_cannot_run_is_unsupported_without_a_worker(bench: Bench) -> None:
    bench.write_matrix(sequence_length=[4, 17])
    run = bench.run()
    assert run.returncode == 0, run.stderr
    refused = [r for r in ResultStore.existing(bench.results).results() if r.config.sequence_length == 17]
    assert [result.status for result in refused] == [Status.UNSUPPORTED] * 2
    assert refused[0].metadata.reason == "sequence_length 17: the model has positions for 16 tokens"
    assert not (bench.results / "launches" / refused[0].key).exists()


def test_what_cannot_be_prepared_costs_its_own_cells_alone(bench: Bench) -> None:
    """Inputs that no memory holds, and a checkpoint of a Hub that does not answer, which is asked when its weights are needed."""
    bench.variables["HF_ENDPOINT"] = "http://127.0.0.1:9"
    models = [f"path:{bench.folder / 'model'}", f"hub:org/name@{'0' * 40}"]
    bench.write_matrix(protocol={"blocks": 1}, model=models, batch_size=[1, 10**12])
    run = bench.run()
    assert run.returncode == 1, run.stderr
    assert "Traceback" not in run.stderr
    results = ResultStore.existing(bench.results).results()
    found = {(r.config.model == models[1], r.config.batch_size): r for r in results if r.config.backend == "fake_b"}
    assert len(results) == 8
    assert found[False, 1].status is Status.OK
    for place, status, words in (
        ((False, 10**12), Status.OUT_OF_MEMORY, "do not fit into memory; ask for smaller ones"),
        ((True, 1), Status.FAILED, "org/name"),
        ((True, 10**12), Status.FAILED, "org/name"),
    ):
        error = found[place].metadata.error
        assert found[place].status is status
        assert error is not None
        assert words in error.message
        assert error.stage == "preparing"


def test_ctrl_c_ends_the_workers_keeps_what_is_finished_and_exits_130(bench: Bench) -> None:
    bench.write_matrix(fake_b={"hang_in": "load"}, batch_size=[1])
    process = subprocess.Popen(
        bench.command("run", "matrix.yaml"),
        cwd=bench.folder,
        env=bench.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    _wait_for_launch(bench)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "interrupted; what was finished is in results" in stderr
    assert "Traceback" not in stderr
    assert {result.status for result in bench.by_backend().values()} == {Status.INTERRUPTED}


def _wait_for_launch(bench: Bench) -> None:
    deadline = time.monotonic() + 60
    while not list(bench.results.glob("launches/*/*/stderr.log")):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    time.sleep(1)
