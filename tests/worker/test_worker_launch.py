"""What a launch answers, phase by phase, with the fake backend in this process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from harness_fake.plugin import PHASES
from harness_fake.runner import last_hidden_state
from worker_driver import AFTER_IMPORT, LATENCY, THROUGHPUT, WARM_UP

from harness.protocol import (
    Close,
    Closed,
    Command,
    Event,
    Failed,
    Import,
    Job,
    Memory,
    MemoryRead,
    Open,
    Outputs,
    OutputsWritten,
    PhaseStarted,
    Ready,
    Round,
    Samples,
    WarmedUp,
    WarmUp,
)
from harness.worker.arrays import inputs_sha256, read_inputs
from harness.worker.conversation import converse

MakeJob = Callable[..., Job]

MS = 1_000_000
BEFORE_WARM_UP = 9
"""Calls that a launch has made by then: the first one, and one per slot for the outputs."""


def lead(job: Job, *commands: Command) -> list[Event]:
    """The last words of a conversation: of Import, of the commands, and of Close where none of them failed."""
    events: list[Event] = []
    converse(iter([Import(job), *commands, Close()]).__next__, events.append)
    return [event for event in events if not isinstance(event, PhaseStarted)]


def opened(job: Job) -> Ready:
    ready = lead(job, Open())[1]
    assert isinstance(ready, Ready), ready
    return ready


def failure(job: Job, *commands: Command) -> Failed:
    last = lead(job, *(commands or AFTER_IMPORT[:-1]))[-1]
    assert isinstance(last, Failed), last
    return last


# --- cold start -----------------------------------------------------------------------------------------------------


def test_the_phases_of_a_cold_start_are_apart_in_order_and_within_it(make_job: MakeJob) -> None:
    ready = opened(make_job(load_ms=20, prepare_ms=10, compile_ms=30, call_ms=5))
    assert [(phase, stage) for phase, stage, _ in ready.stages] == [
        ("load", "weights"),
        ("prepare", "export"),
        ("compile", "compile"),
        ("first_call", "first_call"),
    ]
    durations = [elapsed_ns for _, _, elapsed_ns in ready.stages]
    assert all(elapsed_ns >= ms * MS for elapsed_ns, ms in zip(durations, (20, 10, 30, 5), strict=True))
    assert sum(durations) <= ready.cold_start_ns


def test_a_phase_that_does_not_apply_has_a_reason_and_no_time(make_job: MakeJob) -> None:
    ready = opened(make_job())
    assert {phase for phase, _, _ in ready.stages} == {"load", "first_call"}
    assert ready.not_applicable == {"prepare": "prepare_ms is null", "compile": "compile_ms is null"}


def test_a_phase_without_time_and_reason_says_so(make_job: MakeJob) -> None:
    ready = opened(make_job("odd_runners:NoReasons"))
    assert ready.not_applicable["prepare"] == "the runner returned no stages of prepare and no reason"


def test_a_first_call_made_while_compiling_is_not_made_again(make_job: MakeJob) -> None:
    ready = opened(make_job(compile_ms=1, first_call_in_compile=True, recompile_at=2))
    assert [phase for phase, _, _ in ready.stages] == ["load", "compile", "first_call"]
    assert ready.compilations == 1


def test_a_stage_counts_to_the_phase_it_names_or_to_the_one_that_returned_it(make_job: MakeJob) -> None:
    stages = opened(make_job("odd_runners:ManyStages")).stages
    assert [stage for stage in stages if stage[0] != "first_call"] == [
        ("load", "read", 10),
        ("load", "convert", 20),
        ("prepare", "quantise", 30),
        ("load", "onnx.parse", 40),
        ("prepare", "prepare", 50),
    ]


def test_stages_in_anything_but_whole_nanoseconds_are_refused(make_job: MakeJob) -> None:
    last = failure(make_job("odd_runners:SecondsAsStages"))
    assert last.type == "TypeError"
    assert "weights" in last.message
    assert "0.5" in last.message


@pytest.mark.parametrize(("runner", "tokens"), [("Foresighted", 4), ("Configurable", 7)])
def test_a_runner_is_built_with_its_job_where_its_constructor_asks_for_it(
    make_job: MakeJob, runner: str, tokens: int
) -> None:
    assert opened(make_job(f"odd_runners:{runner}")).facts["details"] == {"built_for_tokens": tokens}


def test_ready_tells_what_is_in_effect_and_what_a_call_handles(make_job: MakeJob) -> None:
    job = make_job(call_ms=2)
    ready = opened(job)
    assert ready.facts["effective"] == {
        "device": "cpu",
        "dtype": "float32",
        "threads": 1,
        "eval_mode": True,
        "inference_mode": True,
        "compile_cache": "cold",
        "call_ms": 2,
    }
    assert ready.facts["versions"] == {"numpy": np.__version__}
    assert ready.items == {"samples": 2, "tokens": 6, "positions": 8}
    assert ready.inputs_sha256 == inputs_sha256(read_inputs(Path(job.inputs)))
    assert ready.clock_ns >= 0


def test_a_runner_that_reports_other_facts_than_were_asked_for_is_believed(make_job: MakeJob) -> None:
    effective = opened(make_job(report_threads=7, report_dtype="bfloat16")).facts["effective"]
    assert (effective["threads"], effective["dtype"]) == (7, "bfloat16")


# --- outputs --------------------------------------------------------------------------------------------------------


def written_outputs(job: Job, label: str = "before") -> list[np.ndarray]:
    """`last_hidden_state` of every slot."""
    written = lead(job, *AFTER_IMPORT[:-1])[{"before": 2, "after": 6}[label]]
    assert written == OutputsWritten(f"outputs-{label}", 8)
    folder = Path(job.folder, f"outputs-{label}")
    return [np.load(folder / f"slot-{slot}.npz")["last_hidden_state"] for slot in range(8)]


def expected_outputs(job: Job) -> list[np.ndarray]:
    inputs = read_inputs(Path(job.inputs))
    return [last_hidden_state({name: array[slot] for name, array in inputs.items()}) for slot in range(8)]


def equal(seen: list[np.ndarray], expected: list[np.ndarray]) -> list[bool]:
    return [np.array_equal(a, b) for a, b in zip(seen, expected, strict=True)]


def test_outputs_of_every_slot_are_written_before_and_after(make_job: MakeJob) -> None:
    job = make_job()
    assert all(equal(written_outputs(job), expected_outputs(job)))
    assert all(equal(written_outputs(job, "after"), expected_outputs(job)))
    assert list(Path(job.folder).rglob("*.partial")) == []


@pytest.mark.parametrize("wrong", ["shape", "nan", "values"])
def test_the_fake_gives_wrong_outputs_on_request(make_job: MakeJob, wrong: str) -> None:
    job = make_job(wrong=wrong)
    assert not any(equal(written_outputs(job), expected_outputs(job)))


def test_the_fake_can_be_right_before_the_rounds_and_wrong_after(make_job: MakeJob) -> None:
    job = make_job(wrong="after")
    assert all(equal(written_outputs(job, "before"), expected_outputs(job)))
    assert not any(equal(written_outputs(job, "after"), expected_outputs(job)))


def test_the_fake_can_return_the_first_slots_outputs_for_all(make_job: MakeJob) -> None:
    job = make_job(wrong="cached")
    assert equal(written_outputs(job), expected_outputs(job)) == [True] + [False] * 7


def test_outputs_that_are_no_numbers_are_refused(make_job: MakeJob) -> None:
    last = failure(make_job("odd_runners:ObjectOutputs"))
    assert last.stage == "outputs"
    assert "last_hidden_state is an array of Python objects" in last.message


# --- warm-up, rounds, memory ----------------------------------------------------------------------------------------


def warmed_up(job: Job, settings: WarmUp = WARM_UP) -> WarmedUp:
    warmed = lead(job, Open(), Outputs("before"), settings)[3]
    assert isinstance(warmed, WarmedUp), warmed
    return warmed


def round_of(job: Job, command: Round = LATENCY) -> tuple[Samples, dict[str, np.ndarray]]:
    samples = lead(job, Open(), command)[2]
    assert isinstance(samples, Samples), samples
    return samples, dict(np.load(Path(job.folder, samples.file))) if samples.file else {}


def test_a_steady_backend_is_warm_at_once(make_job: MakeJob) -> None:
    warmed = warmed_up(make_job())
    assert (warmed.settled, warmed.calls, warmed.elapsed_ns) == (True, 0, 0)
    assert len(warmed.discarded_ns) == 9


def test_a_warm_up_lasts_until_a_recompilation_is_over(make_job: MakeJob) -> None:
    warmed = warmed_up(make_job(recompile_at=BEFORE_WARM_UP + 6))
    assert (warmed.settled, warmed.calls, warmed.compilations) == (True, 6, 1)


def test_a_backend_that_always_recompiles_never_settles(make_job: MakeJob) -> None:
    warmed = warmed_up(make_job(recompile_always=True), replace(WARM_UP, limit_ns=50 * MS))
    assert not warmed.settled
    assert warmed.calls == len(warmed.discarded_ns)


def test_a_backend_that_drifts_never_settles(make_job: MakeJob) -> None:
    settings = replace(WARM_UP, window_calls=5, tolerance=0.03, limit_ns=300 * MS)
    assert not warmed_up(make_job(drift=1.0), settings).settled


def test_a_latency_round_leaves_its_samples_in_a_file(make_job: MakeJob) -> None:
    samples, arrays = round_of(make_job(call_ms=2), replace(LATENCY, index=5))
    assert samples.file == "round-5.npz"
    assert (samples.index, samples.mode, samples.calls, samples.settle_calls) == (5, "latency", 8, 1)
    assert sorted(arrays) == ["call_ns", "compilations", "compiled", "slot", "total_ns"]
    assert all(array.dtype == np.int64 and array.shape == (8,) for array in arrays.values())
    assert (arrays["total_ns"] >= 2 * MS).all()
    assert arrays["total_ns"].sum() <= samples.elapsed_ns


def test_an_asynchronous_backend_is_timed_until_its_device_is_done(make_job: MakeJob) -> None:
    _, arrays = round_of(make_job(call_ms=20, asynchronous=True), replace(LATENCY, calls=2))
    assert (arrays["total_ns"] >= 20 * MS).all()
    assert arrays["call_ns"].min() < 10 * MS


def test_a_recompilation_marks_the_sample_it_fell_into(make_job: MakeJob) -> None:
    samples, arrays = round_of(make_job(recompile_at=5))  # after the first call and one to settle, the third of eight
    assert arrays["compiled"].tolist() == [0, 0, 1, 0, 0, 0, 0, 0]
    assert arrays["compilations"].tolist() == [0, 0, 1, 1, 1, 1, 1, 1]
    assert samples.compilations == 1


def test_a_throughput_round_times_all_calls_at_once_and_leaves_no_file(make_job: MakeJob) -> None:
    samples, _ = round_of(make_job(call_ms=2, asynchronous=True), replace(THROUGHPUT, budget_ns=40 * MS))
    assert samples.file is None
    assert samples.calls >= 8
    assert samples.elapsed_ns >= samples.calls * 2 * MS


def test_a_round_of_an_unknown_mode_is_refused(make_job: MakeJob) -> None:
    last = failure(make_job(), Open(), replace(LATENCY, mode="fast"))
    assert last.message == "a round of mode 'fast'; there are latency, throughput, marked"


def test_the_memory_pass_tells_peaks_and_why_one_is_not_known(make_job: MakeJob) -> None:
    read = lead(make_job(), Open(), Memory(calls=2))[2]
    assert isinstance(read, MemoryRead)
    assert read.bytes["peak_allocated_bytes"] == 3 << 20
    assert read.bytes["peak_rss_bytes"] is not None
    assert read.bytes["peak_rss_cold_start_bytes"] is not None
    assert read.bytes["device_context_bytes"] is None
    assert read.reasons["device_context_bytes"] == "the fake backend computes nothing"


# --- failures -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("option", "reason", "kind"),
    [
        ("fail_in", "error", "RuntimeError"),
        ("unsupported_in", "unsupported", "Unsupported"),
        ("out_of_memory_in", "out_of_memory", "MemoryError"),
    ],
)
@pytest.mark.parametrize("phase", PHASES)
def test_a_failure_has_a_reason_and_the_phase_it_happened_in(
    make_job: MakeJob, option: str, reason: str, kind: str, phase: str
) -> None:
    last = lead(make_job(**{option: phase}), *AFTER_IMPORT[:-1])[-1]
    assert isinstance(last, Failed)
    assert (last.reason, last.type, last.stage) == (reason, kind, phase)
    assert phase in last.message
    assert "harness_fake" in last.traceback


@pytest.mark.parametrize("phase", PHASES)
def test_a_runner_that_exits_is_not_answered_for(make_job: MakeJob, phase: str) -> None:
    with pytest.raises(SystemExit, match="3"):
        lead(make_job(exit_in=phase), *AFTER_IMPORT[:-1])


@pytest.mark.parametrize(
    ("runner", "message"),
    [
        ("odd_runners:Wordless", "Wordless is no Runner: it lacks not_applicable, prepare, operation, facts"),
        ("odd_runners:Nothing", "module odd_runners has no class 'Nothing'"),
        ("no_such_module:Runner", "No module named 'no_such_module'"),
        ("odd_runners:Unbuildable", "no licence file"),
    ],
)
def test_a_runner_that_cannot_be_built_is_named_with_what_it_lacks(
    make_job: MakeJob, runner: str, message: str
) -> None:
    last = failure(make_job(runner))
    assert message in last.message
    assert last.stage == "import"


def test_an_operation_that_lacks_a_method_is_named_with_it(make_job: MakeJob) -> None:
    last = failure(make_job("odd_runners:HalfOperation"))
    assert "NoWait is no Operation: it lacks wait" in last.message


@pytest.mark.parametrize(
    ("runner", "message"),
    [
        ("NumpyFacts", "the fact effective.dtype is no JSON value"),
        ("NoFacts", "facts() returned dict, not harness.worker.api.Facts"),
    ],
)
def test_facts_that_are_no_json_are_named(make_job: MakeJob, runner: str, message: str) -> None:
    assert message in failure(make_job(f"odd_runners:{runner}")).message


def test_inputs_that_are_not_there_are_missed_by_name(make_job: MakeJob, tmp_path: Path) -> None:
    last = failure(replace(make_job(), inputs=str(tmp_path / "nowhere")))
    assert "nowhere" in last.message
    assert last.stage == "load"


# --- the order of commands ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", AFTER_IMPORT[1:-1])
def test_a_command_before_open_is_refused(make_job: MakeJob, command: Command) -> None:
    assert failure(make_job(), command).message == f"the command {command.kind!r} came before 'open'"


def test_open_before_import_is_refused() -> None:
    events: list[Event] = []
    assert converse(iter([Open()]).__next__, events.append) == 1
    assert isinstance(events[-1], Failed)
    assert events[-1].message == "the command 'open' came before 'import'"


def test_a_worker_is_for_one_launch(make_job: MakeJob) -> None:
    assert "came twice" in failure(make_job(), Import(make_job())).message
    assert "came twice" in failure(make_job(), Open(), Open()).message


def test_close_may_come_at_any_time_and_leaves_a_runner_alone_that_has_loaded_nothing(make_job: MakeJob) -> None:
    assert lead(make_job("odd_runners:ClosableOnce"))[-1] == Closed()
    assert lead(make_job("odd_runners:ClosableOnce"), Open())[-1] == Closed()


def test_a_failed_command_is_the_last_one_carried_out(make_job: MakeJob) -> None:
    answers = lead(make_job(fail_in="outputs"), Open(), Outputs("before"), WARM_UP)
    assert [type(answer).__name__ for answer in answers] == ["Imported", "Ready", "Failed"]
