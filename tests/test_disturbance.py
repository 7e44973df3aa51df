"""Which rounds count as disturbed, and which passes are made again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from harness.disturbance import Pass, disturbed_passes, judged, passes, recompiling, warning
from harness.model import Hashes, LaunchRecord, Protocol, RoundRecord, Status
from harness.tasks import MARKED_OPERATIONS

SETTINGS = Protocol(passes=2, throughput_rounds=1, repeats=2, repeat_seconds=60)


def a_round(pass_index: int = 0, arithmetic_ns: int = 1_000, copying_ns: int = 2_000, **fields: Any) -> RoundRecord:
    probe_ns = {"arithmetic": [arithmetic_ns] * 10, "copying": [copying_ns] * 10}
    usual: dict[str, Any] = {
        "index": 0,
        "mode": "latency",
        "calls": 10,
        "settle_calls": 3,
        "elapsed_ns": 10_000_000,
        "compilations": 0,
        "file": None,
        "probe_ns": probe_ns,
        "foreign_share": 0.0,
    }
    return RoundRecord(**{**usual, "pass_index": pass_index, **fields})


def disturbed(*launches: Sequence[RoundRecord], settings: Protocol = SETTINGS) -> list[list[bool]]:
    return [[each.disturbed for each in launch] for launch in judged(launches, settings)]


def told(*launch: RoundRecord) -> list[list[str]]:
    return [each.disturbances for each in judged([launch], SETTINGS)[0]]


# --- one round ------------------------------------------------------------------------------------------------------


def test_a_probe_within_the_tolerance_of_the_median_disturbs_nothing_and_beyond_it_does() -> None:
    assert told(a_round(), a_round(), a_round(arithmetic_ns=1_030)) == [[], [], []]
    assert told(a_round(), a_round(), a_round(arithmetic_ns=1_031)) == [
        [],
        [],
        ["the probe's arithmetic took 3.1% longer than usual in this block"],
    ]


def test_a_probe_that_was_faster_than_usual_disturbs_as_well() -> None:
    assert told(a_round(), a_round(), a_round(copying_ns=1_800))[2] == [
        "the probe's copying took 10.0% less than usual in this block"
    ]


def test_a_unit_of_the_probe_that_was_interrupted_disturbs_nothing() -> None:
    interrupted = {"arithmetic": [1_000, 9_000, 1_000, 9_000, 1_000], "copying": [2_000] * 5}
    assert told(a_round(), a_round(), a_round(probe_ns=interrupted)) == [[], [], []]


def test_each_launch_is_compared_with_itself_as_each_stack_has_its_own_speed() -> None:
    assert disturbed([a_round(0), a_round(1)], [a_round(0, 1_400), a_round(1, 1_400)]) == [[False] * 2] * 2


def test_processors_that_others_had_disturb_and_a_share_that_is_not_known_does_not() -> None:
    shares = [None, 0.03, 0.2]
    assert told(*(a_round(foreign_share=share) for share in shares)) == [
        [],
        [],
        ["other processes had 20.0% of the processors"],
    ]


def test_a_stop_disturbs_in_its_own_words() -> None:
    assert told(a_round(stops=["a call took 2.0 s"])) == [["a call took 2.0 s"]]


def test_a_compilation_disturbs_where_it_cannot_be_left_out() -> None:
    assert told(a_round(compiled=1)) == [[]]
    assert told(a_round(compiled=1, mode="throughput")) == [["1 compilations among calls back to back"]]


def test_latency_decides_nothing() -> None:
    assert told(a_round(), a_round(), a_round(elapsed_ns=900_000_000)) == [[], [], []]


# --- whole passes ---------------------------------------------------------------------------------------------------


def test_a_disturbed_round_disturbs_its_pass_for_every_launch() -> None:
    stopped = a_round(1, stops=["the machine was suspended for 3.0 s"])
    assert disturbed([a_round(0), a_round(1)], [a_round(0), stopped]) == [[False, True], [False, True]]


class Machine:
    """Makes the passes asked for, with one launch; some of them are disturbed."""

    def __init__(
        self, settings: Protocol, disturbed_ones: set[int], pass_seconds: float = 1.0, operation: str = "forward"
    ) -> None:
        self.made: list[Pass] = []
        self.rounds: list[RoundRecord] = []
        self._now_s = 0.0
        for pass_ in passes(settings, operation, lambda: [self.rounds], lambda: self._now_s):
            self.made.append(pass_)
            stops = ["stopped"] if pass_.index in disturbed_ones else []
            self.rounds.append(a_round(pass_.index, mode=pass_.mode, repeats=pass_.repeats, stops=stops))
            self._now_s += pass_seconds

    @property
    def repeated(self) -> list[int | None]:
        return [pass_.repeats for pass_ in self.made[3:]]


def test_quiet_passes_are_made_once_latency_first() -> None:
    assert Machine(SETTINGS, set()).made == [Pass(0, "latency"), Pass(1, "latency"), Pass(2, "throughput")]


@pytest.mark.parametrize("operation", MARKED_OPERATIONS)
def test_operations_whose_parts_are_worth_stamping_get_a_marked_pass_after_the_others(operation: str) -> None:
    quiet = Machine(SETTINGS, set(), operation=operation)
    assert [pass_.mode for pass_ in quiet.made] == ["latency", "latency", "throughput", "marked"]
    none = Machine(SETTINGS.model_copy(update={"marked_rounds": 0}), set(), operation=operation)
    assert "marked" not in {pass_.mode for pass_ in none.made}
    assert Machine(SETTINGS, {3}, operation=operation).made[4:] == [Pass(4, "marked", repeats=3)]


def test_a_disturbed_pass_is_made_again_in_its_mode() -> None:
    assert Machine(SETTINGS, {2}).made[3:] == [Pass(3, "throughput", repeats=2)]


def test_a_repetition_that_is_disturbed_too_is_made_again_within_the_budget() -> None:
    assert Machine(SETTINGS, {1, 3}).repeated == [1, 1]
    assert Machine(SETTINGS, {1, 3, 4, 5}).repeated == [1, 1]


def test_what_was_tried_least_often_comes_first() -> None:
    assert Machine(SETTINGS.model_copy(update={"repeats": 4}), {0, 1, 2, 3, 4}).repeated == [0, 1, 2, 0]


def test_no_repetition_begins_after_the_time_for_them() -> None:
    settings = SETTINGS.model_copy(update={"repeats": 10, "repeat_seconds": 2.5})
    assert Machine(settings, set(range(20))).repeated == [0, 1, 2]


def test_no_budget_means_no_repetition() -> None:
    assert Machine(SETTINGS.model_copy(update={"repeats": 0}), {0, 1}).repeated == []


def test_a_pass_counts_as_outstanding_until_one_version_of_it_was_quiet() -> None:
    machine = Machine(SETTINGS, {0, 1, 3})
    assert machine.repeated == [0, 1]
    assert disturbed_passes(judged([machine.rounds], SETTINGS)) == [0]


# --- what people are told -------------------------------------------------------------------------------------------


def test_a_launch_that_compiled_in_most_of_its_latency_rounds_has_no_steady_state() -> None:
    once = [a_round(compiled=1, compilations=2), a_round(compilations=2)]
    assert recompiling(once) is None
    often = [a_round(compiled=3, compilations=4), a_round(compiled=2, compilations=6), a_round(compilations=6)]
    assert recompiling(often) == "it keeps recompiling: in 2 of 3 rounds, 6 times in all"
    assert recompiling([]) is None


def a_launch(rounds: Sequence[RoundRecord]) -> LaunchRecord:
    return LaunchRecord(
        launch_id="launch",
        block_id="block",
        block_index=0,
        hashes=Hashes(key="k", protocol_hash="p", stack_hash=None, host_hash="h"),
        started_at="2026-11-29T12:00:00",
        command=[],
        status=Status.OK,
        rounds=list(rounds),
    )


def test_nobody_is_warned_where_repeating_has_mended_it() -> None:
    machine = Machine(SETTINGS, {1})
    assert warning([a_launch(judged([machine.rounds], SETTINGS)[0])], SETTINGS) is None


def test_a_restless_machine_is_told_with_causes_consequence_and_remedy() -> None:
    rounds = [a_round(0, foreign_share=0.5), a_round(1), a_round(2, foreign_share=0.4, stops=["stopped"])]
    text = warning([a_launch(judged([rounds], SETTINGS)[0]), a_launch([])], SETTINGS)
    assert text is not None
    assert "1 of 2 launches" in text
    assert "±2.0%" in text
    assert text.index("other processes had the processors in 2 of 3 rounds") < text.index(
        "something stood still in 1 of 3"
    )
    assert "the probe's speed" not in text
    assert "raise `repeats`" in text


def test_a_run_for_an_indication_is_told_of_no_intervals_as_it_has_none() -> None:
    launch = a_launch(judged([[a_round(0, foreign_share=0.5)]], SETTINGS)[0])
    text = warning([launch], SETTINGS.quick)
    assert text is not None
    assert "indication" in text
    assert "interval" not in text
    assert "±" not in text


@pytest.mark.parametrize("launches", [[], [a_launch([])]], ids=["no launch", "no round"])
def test_nothing_measured_is_nothing_to_warn_of(launches: Sequence[LaunchRecord]) -> None:
    assert warning(launches, SETTINGS) is None
