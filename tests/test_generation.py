"""The numbers of prefill, decode and generate: each of its own operation, the rest null with a reason."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from store.factories import a_cell, a_launch

from harness import comparison, summary
from harness.generation import FIELDS
from harness.model import Measurements, ParityRecord, Protocol, RoundRecord, Status
from harness.samples import MeasuredLaunch, read_launch

MS = 1_000_000
BATCH, NEW_TOKENS = 2, 4


def a_round(index: int, mode: str, file: str | None = None, **changes: Any) -> RoundRecord:
    plain = {"calls": 10, "settle_calls": 1, "elapsed_ns": 10**9, "compilations": 0}
    return RoundRecord(index=index, mode=mode, file=file, **{**plain, **changes})


def a_measured_launch(
    folder: Path,
    stamps_ms: Sequence[Sequence[int]] = (),
    latency_ms: int = 100,
    status: Status = Status.OK,
    **changes: Any,
) -> MeasuredLaunch:
    """One round of each mode; `stamps_ms`: of each call of the marked one. Back to back ten calls take a second."""
    folder.mkdir(exist_ok=True)
    np.savez(folder / "0.npz", total_ns=np.full(5, latency_ms * MS), compiled=np.zeros(5, np.int64))
    calls = len(stamps_ms)
    marked = {"total_ns": np.full(calls, latency_ms * MS), "compiled": np.zeros(calls, np.int64)}
    mark_ns = np.array(stamps_ms, np.int64).reshape(calls, -1) * MS if calls else np.zeros((0, 0), np.int64)
    np.savez(folder / "2.npz", **marked, mark_ns=mark_ns)
    marks = ["first_token", *["token"] * (mark_ns.shape[1] - 1)] if mark_ns.shape[1] else []
    rounds = [
        a_round(0, "latency", "0.npz"),
        a_round(1, "throughput"),
        *([a_round(2, "marked", "2.npz", marks=marks)] if calls else []),
    ]
    record = a_launch(**{"rounds": rounds, "launch_id": folder.name, "status": status, **changes})
    return read_launch(record, folder, folder.parent)


def measure(launches: Sequence[MeasuredLaunch], **axes: Any) -> Measurements:
    plain = {"task": "text-generation", "operation": "generate", "batch_size": BATCH, "new_tokens": NEW_TOKENS}
    return summary.measure(a_cell(**{**plain, **axes}), launches, None, comparison.criteria(Protocol(), 1))


def known(numbers: Measurements) -> dict[str, Any]:
    return {name: value for name in FIELDS if (value := getattr(numbers, name)) is not None}


JUDGED = [ParityRecord(when="before", passed=True, max_abs=None, tokens_equal=True)]


def test_a_prefill_gives_the_first_token_and_the_rate_of_reading(tmp_path: Path) -> None:
    items = {"samples": BATCH, "tokens": 30, "positions": 40}
    numbers = measure([a_measured_launch(tmp_path / "a", items=items)], operation="prefill", new_tokens=None)
    assert known(numbers) == {"ttft_s": 0.1, "prefill_tokens_per_s": 300.0}
    assert numbers.reasons["inter_token_latency_s"] == "measured by operation decode"
    assert numbers.reasons["tokens_equal"] == "a prefill is judged by its logits"


def test_a_decode_gives_the_latency_between_tokens_and_the_rate_of_making_them(tmp_path: Path) -> None:
    told = {"items": {"tokens": BATCH, "samples": BATCH}, "memory_bytes": {"kv_cache_bytes": 640}, "parity": JUDGED}
    numbers = measure([a_measured_launch(tmp_path / "a", **told)], operation="decode")
    assert known(numbers) == {
        "inter_token_latency_s": 0.1,
        "decode_tokens_per_s": 20.0,
        "kv_cache_bytes": 640,
        "tokens_equal": True,
    }
    assert (numbers.throughput_unit, numbers.rates) == ("tokens/s", {"tokens/s": 20.0, "samples/s": 20.0})
    assert numbers.reasons["ttft_s"] == "measured by operation prefill"
    assert numbers.reasons["first_token_difference"] == "all tokens are equal"


def test_a_generate_is_taken_apart_by_its_stamps(tmp_path: Path) -> None:
    """Calls of one launch: their first tokens after 40, 50 and 60 ms, intervals of 10 ms and one of 100."""
    stamps = [[40, 50, 60, 70], [50, 60, 70, 170], [60, 70, 80, 90]]
    numbers = measure([a_measured_launch(tmp_path / "a", stamps)])
    assert numbers.ttft_s == pytest.approx(0.05)
    assert numbers.inter_token_latency_s == pytest.approx(0.01)
    assert numbers.e2e_latency_s == pytest.approx(0.1)
    assert numbers.decode_tokens_per_s == pytest.approx(BATCH * 3 * 3 / 0.18)
    assert numbers.reasons["prefill_tokens_per_s"] == "measured by operation prefill"
    assert numbers.reasons["kv_cache_bytes"] == "the runner does not tell it"


def test_numbers_by_stamps_are_medians_over_launches(tmp_path: Path) -> None:
    firsts_ms = {"a": 40, "b": 90, "c": 50}
    launches = [a_measured_launch(tmp_path / name, [[ms, ms + 1, ms + 2, ms + 3]]) for name, ms in firsts_ms.items()]
    assert measure(launches).ttft_s == pytest.approx(0.05)


def test_batch_16_with_2_beams_has_both_rates_right(tmp_path: Path) -> None:
    """Beams are counted in nothing: ten calls a second make ten times 16 texts of 8 tokens."""
    items = {"tokens": 16 * 8, "samples": 16}
    numbers = measure([a_measured_launch(tmp_path / "a", items=items)], batch_size=16, new_tokens=8, num_beams=2)
    assert numbers.rates == {"tokens/s": 1280.0, "samples/s": 160.0}


def test_where_texts_end_early_rates_are_of_the_tokens_produced_and_the_first_alone_is_stamped(tmp_path: Path) -> None:
    told = {"items": {"tokens": BATCH * NEW_TOKENS, "samples": BATCH}, "produced_tokens": [8, 2, 5, 5]}
    numbers = measure([a_measured_launch(tmp_path / "a", [[40], [50]], **told)], stop_at_eos=True)
    assert (numbers.produced_tokens, numbers.throughput) == (5.0, 50.0)
    assert numbers.rates == {"tokens/s": 50.0, "samples/s": 20.0}
    assert numbers.ttft_s == pytest.approx(0.045)
    for name in ("inter_token_latency_s", "decode_tokens_per_s"):
        assert "stamp the first alone" in numbers.reasons[name]
    to_the_limit = {name: told[name] for name in ("items",)}
    assert measure([a_measured_launch(tmp_path / "b", **to_the_limit)]).produced_tokens == BATCH * NEW_TOKENS


def test_with_one_new_token_there_is_nothing_between_tokens(tmp_path: Path) -> None:
    numbers = measure([a_measured_launch(tmp_path / "a", [[40], [50]])], new_tokens=1)
    assert numbers.ttft_s == pytest.approx(0.045)
    for name in ("inter_token_latency_s", "decode_tokens_per_s"):
        assert getattr(numbers, name) is None
        assert numbers.reasons[name] == "with one new token there is nothing between two"


@pytest.mark.parametrize(
    ("stamps_ms", "reason"),
    [
        ([], "no marked rounds were made"),
        ([[], []], "generate of eager stamps no tokens"),
        ([[40, 50, 60]], "calls stamped 3 times for 4 tokens"),
    ],
)
def test_without_a_stamp_for_each_token_what_comes_of_them_is_null(
    tmp_path: Path, stamps_ms: list[list[int]], reason: str
) -> None:
    numbers = measure([a_measured_launch(tmp_path / "a", stamps_ms)])
    for name in ("ttft_s", "inter_token_latency_s", "decode_tokens_per_s"):
        assert (getattr(numbers, name), numbers.reasons[name]) == (None, reason)
    assert numbers.e2e_latency_s == pytest.approx(0.1)


def test_a_disturbed_marked_round_is_left_out_where_there_is_another(tmp_path: Path) -> None:
    launch = a_measured_launch(tmp_path / "a", [[40, 50, 60, 70]])
    np.savez(
        tmp_path / "a" / "3.npz",
        total_ns=np.full(1, MS),
        compiled=np.zeros(1, np.int64),
        mark_ns=np.array([[900, 901, 902, 903]]) * MS,
    )
    disturbed = a_round(3, "marked", "3.npz", marks=launch.record.rounds[2].marks, disturbed=True)
    record = launch.record.model_copy(update={"rounds": [*launch.record.rounds, disturbed]})
    assert measure([read_launch(record, tmp_path / "a", tmp_path)]).ttft_s == pytest.approx(0.04)


def test_the_earliest_difference_of_all_judgements_is_told(tmp_path: Path) -> None:
    judged = [
        ParityRecord(when=when, passed=True, max_abs=0.001, tokens_equal=False, first_token_difference=position)
        for when, position in (("before", 3), ("after", 2))
    ]
    numbers = measure([a_measured_launch(tmp_path / "a", parity=judged)], operation="decode")
    assert (numbers.parity_passed, numbers.tokens_equal, numbers.first_token_difference) == (True, False, 2)


def test_what_was_judged_by_tokens_alone_has_no_difference_of_numbers(tmp_path: Path) -> None:
    numbers = measure([a_measured_launch(tmp_path / "a", parity=JUDGED)])
    assert (numbers.parity_passed, numbers.parity_max_abs) == (True, None)
    assert numbers.reasons["parity_max_abs"] == "judged by tokens alone"


def test_a_forward_pass_generates_nothing(tmp_path: Path) -> None:
    numbers = measure([a_measured_launch(tmp_path / "a")], operation="forward", new_tokens=None)
    assert known(numbers) == {}
    assert {numbers.reasons[name] for name in FIELDS} == {"operation forward generates nothing"}


@pytest.mark.parametrize("operation", ["prefill", "decode", "generate"])
def test_of_a_launch_that_ended_early_every_null_has_its_reason(tmp_path: Path, operation: str) -> None:
    launch = a_measured_launch(tmp_path / "a", status=Status.CRASHED, rounds=[])
    numbers = measure([launch], operation=operation)
    assert [name for name in FIELDS if name not in numbers.reasons] == []
    assert "crashed" in numbers.reasons["kv_cache_bytes"]
