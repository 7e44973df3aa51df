"""What a run does about rounds that something disturbs. The stop is real: SIGSTOP, by a child of the worker."""

from __future__ import annotations

import os

import pytest
from run_bench import Bench

from harness.model import LaunchRecord, RoundRecord

PROTOCOL = {"blocks": 1, "passes": 2, "round_calls": 20, "probe_tolerance": 1e6, "foreign_tolerance": 1.0, "repeats": 1}
"""Only stops disturb: how busy the machine of a test is, is not known."""

BEFORE_ROUNDS = 18
"""Calls of a launch by then: the first, eight for the outputs, nine of warm-up."""


def rounds_by_backend(bench: Bench) -> dict[str, list[RoundRecord]]:
    """The rounds of each backend's one launch."""
    found = {}
    for name, result in bench.by_backend().items():
        (file,) = (bench.results / "launches" / result.key).glob("*/launch.json")
        found[name] = LaunchRecord.model_validate_json(file.read_bytes()).rounds
    return found


def test_a_pass_in_which_a_worker_was_stopped_is_kept_marked_and_made_again(bench: Bench) -> None:
    bench.write_matrix(fake_b={"stop_at": BEFORE_ROUNDS + 15}, protocol=PROTOCOL)
    run = bench.run()
    assert run.returncode == 0, run.stderr
    rounds = rounds_by_backend(bench)
    stopped = [each for each in rounds["fake_b"] if each.stops]
    assert [each.stops[0] for each in stopped] == ["the process was stopped and continued (SIGCONT)"]
    assert stopped[0].disturbances == stopped[0].stops
    pass_index = stopped[0].pass_index
    for launch in rounds.values():
        assert {each.pass_index for each in launch if each.disturbed} == {pass_index}
        assert [each.repeats for each in launch if each.pass_index == 3] == [pass_index] * 2
    numbers = bench.by_backend()["fake_b"].measurements
    assert (numbers.rounds, numbers.disturbed_rounds) == (8, 2)
    assert numbers.p50_s is None or numbers.p50_s < 1


def test_a_machine_too_restless_to_be_mended_by_repeating_is_told_of_once(bench: Bench) -> None:
    """Whatever the probe says leaves a tolerance of nearly nothing."""
    bench.write_matrix(protocol={**PROTOCOL, "probe_tolerance": 1e-12})
    run = bench.run()
    assert run.returncode == 0, run.stderr
    assert run.stderr.count("This machine was restless: ") == 1
    assert all(each.disturbed for launch in rounds_by_backend(bench).values() for each in launch)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one processor leaves the host nowhere to go")
def test_host_and_worker_have_processors_of_their_own_while_rounds_run(bench: Bench) -> None:
    bench.write_matrix(protocol=PROTOCOL)
    assert bench.run().returncode == 0
    told = bench.by_backend()["fake"].metadata.details["processors"]
    assert told["host"] is not None
    assert told["workers"] not in (None, told["host"])
    assert (told["bound"], told["reason"]) == ([], None)


def test_threads_that_are_bound_are_in_effect_by_what_was_read_back(bench: Bench) -> None:
    bench.write_matrix(protocol={**PROTOCOL, "bind_threads": True})
    assert bench.run().returncode == 0
    metadata = bench.by_backend()["fake"].metadata
    assert len(metadata.details["processors"]["bound"]) == 1
    assert metadata.requested["bind_threads"] is metadata.effective["bind_threads"] is True
