"""From raw samples on disk to a row: what enters which number, and why a number is missing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from store.factories import a_cell, a_launch

from harness import comparison, summary
from harness.model import Cell, LaunchRecord, Measurements, Protocol, RoundRecord, Status
from harness.samples import MeasuredLaunch, read_launch

MS = 1_000_000

MONITORED = ("energy_j_per_call", "energy_j_per_item", "idle_power_w", "monitoring")
"""Added by the monitor, with reasons of its own."""


def a_round(index: int, folder: Path, samples_ms: Sequence[float], **changes: Any) -> RoundRecord:
    """A latency round with its file; `compiled` names the samples during which something was compiled."""
    compiled = np.isin(np.arange(len(samples_ms)), changes.pop("compiled", []))
    total = np.array([round(each * MS) for each in samples_ms], np.int64)
    np.savez(folder / f"{index}.npz", total_ns=total, compiled=compiled.astype(np.int64))
    plain = {"settle_calls": 3, "elapsed_ns": 10**9, "compilations": 1, "file": f"{index}.npz", "mode": "latency"}
    return RoundRecord(index=index, calls=len(samples_ms), **{**plain, **changes})


def launch(
    folder: Path, block: int, samples_ms: Sequence[float], status: Status = Status.OK, **changes: Any
) -> MeasuredLaunch:
    """A launch of one latency round."""
    place = folder / f"{block}-{len(list(folder.iterdir()))}"
    place.mkdir()
    rounds = [a_round(0, place, samples_ms)]
    record = a_launch(
        **{"block_id": f"block-{block}", "launch_id": place.name, "rounds": rounds, "status": status, **changes}
    )
    return read_launch(record, place, folder)


def launches(folder: Path, latencies_ms: Sequence[float], **changes: Any) -> list[MeasuredLaunch]:
    """One launch a block, of ten equal samples."""
    return [launch(folder, block, [latency] * 10, **changes) for block, latency in enumerate(latencies_ms)]


def measure(
    mine: Sequence[MeasuredLaunch],
    baseline: Sequence[MeasuredLaunch] | None,
    comparisons: int = 1,
    cell: Cell | None = None,
) -> Measurements:
    return summary.measure(cell or a_cell(), mine, baseline, comparison.criteria(Protocol(), comparisons))


def read(folder: Path, rounds: Sequence[RoundRecord]) -> MeasuredLaunch:
    return read_launch(a_launch(rounds=list(rounds)), folder, folder.parent)


# --- samples --------------------------------------------------------------------------------------------------------


def test_samples_with_a_compilation_in_them_are_left_out(tmp_path: Path) -> None:
    found = read(tmp_path, [a_round(0, tmp_path, [20, 5000, 20, 20], compiled=[1])])
    assert found.samples.tolist() == [20 * MS] * 3


def test_disturbed_rounds_are_left_out(tmp_path: Path) -> None:
    rounds = [a_round(0, tmp_path, [20, 20]), a_round(1, tmp_path, [90, 90], disturbed=True)]
    assert read(tmp_path, rounds).median_latency_s == pytest.approx(0.02)


def test_where_every_round_is_disturbed_they_are_what_there_is(tmp_path: Path) -> None:
    rounds = [a_round(index, tmp_path, [90, 90], disturbed=True) for index in (0, 1)]
    assert read(tmp_path, rounds).median_latency_s == pytest.approx(0.09)


def test_a_disturbed_throughput_round_is_left_out_too() -> None:
    rounds = [
        RoundRecord(
            index=index, mode="throughput", calls=calls, settle_calls=1, elapsed_ns=10**9, compilations=0, file=None,
            disturbed=disturbed,
        )
        for index, (calls, disturbed) in enumerate([(50, False), (5, True)])
    ]  # fmt: skip
    record = a_launch(rounds=rounds, items={"samples": 2})
    assert MeasuredLaunch(record, np.empty(0, np.int64), "").throughput == 100.0


def test_throughput_is_told_in_every_unit_of_a_calls_items_and_none_is_mixed_with_another() -> None:
    rounds = [
        RoundRecord(index=0, mode="throughput", calls=50, settle_calls=1, elapsed_ns=10**9, compilations=0, file=None)
    ]
    record = a_launch(rounds=rounds, items={"samples": 2, "tokens": 30, "positions": 40})
    numbers = measure([MeasuredLaunch(record, np.empty(0, np.int64), "")], None)
    assert (numbers.throughput, numbers.throughput_unit) == (100.0, "samples/s")
    assert numbers.rates == {"samples/s": 100.0, "tokens/s": 1500.0, "positions/s": 2000.0}


def test_without_throughput_there_are_no_rates() -> None:
    numbers = measure([MeasuredLaunch(a_launch(rounds=[], items={"images": 2}), np.empty(0, np.int64), "")], None)
    assert (numbers.throughput, numbers.throughput_unit, numbers.rates) == (None, "images/s", {})


def test_a_round_whose_file_is_broken_is_not_measured(tmp_path: Path) -> None:
    rounds = [a_round(0, tmp_path, [20, 20]), a_round(1, tmp_path, [20, 20])]
    (tmp_path / "1.npz").write_bytes(b"PK")
    assert len(read(tmp_path, rounds).samples) == 2


# --- counts and intervals -------------------------------------------------------------------------------------------


def test_a_row_counts_what_it_rests_on(tmp_path: Path) -> None:
    mine = launches(tmp_path, [20, 21, 20, 22, 20])
    numbers = measure(mine, None)
    assert (numbers.launches, numbers.blocks, numbers.rounds, numbers.samples) == (5, 5, 5, 50)
    assert (numbers.disturbed_rounds, numbers.compilations) == (0, 1)


def test_the_median_has_an_interval_from_three_launches_on(tmp_path: Path) -> None:
    three = measure(launches(tmp_path, [20, 21, 22]), None)
    assert three.median_ci_low_s is not None
    assert three.median_ci_high_s is not None
    assert three.median_latency_s is not None
    assert three.median_ci_low_s < three.median_latency_s < three.median_ci_high_s
    two = measure(launches(tmp_path, [20, 21]), None)
    assert (two.median_ci_low_s, two.median_ci_high_s) == (None, None)
    assert two.reasons["median_ci_low_s"] == two.reasons["median_ci_high_s"] == "too few launches: 2 of 3"


def test_quantiles_are_given_where_there_are_samples_enough_and_with_intervals_where_launches_are(
    tmp_path: Path,
) -> None:
    numbers = measure([launch(tmp_path, block, range(10, 30)) for block in range(3)], None)
    assert numbers.p50_s == pytest.approx(0.019)
    assert numbers.p90_s == pytest.approx(0.027)
    assert (numbers.p95_s, numbers.p99_s) == (None, None)
    assert numbers.reasons["p95_s"] == "too few samples: 60 of 72"
    assert numbers.quantile_ci_s.keys() == {"p50", "p90"}
    low, high = numbers.quantile_ci_s["p50"]
    assert low <= numbers.p50_s <= high


# --- against the baseline -------------------------------------------------------------------------------------------


def test_a_cell_twice_as_fast_in_every_block_is_faster(tmp_path: Path) -> None:
    baseline = launches(tmp_path, [20, 30, 20, 40, 20])
    mine = launches(tmp_path, [10, 15, 10.1, 20, 10])
    numbers = measure(mine, baseline)
    assert numbers.verdict == "faster"
    assert numbers.ratio_to_baseline == pytest.approx(2, rel=0.01)
    assert numbers.ratio_ci_low is not None
    assert numbers.ratio_ci_high is not None
    assert 1.98 < numbers.ratio_ci_low < numbers.ratio_to_baseline < numbers.ratio_ci_high < 2.02
    assert numbers.ratio_confidence == 0.95


def test_several_comparisons_share_the_level(tmp_path: Path) -> None:
    baseline, mine = launches(tmp_path, [20, 21, 22, 20, 21]), launches(tmp_path, [20, 20, 21, 20, 22])
    alone, of_four = measure(mine, baseline), measure(mine, baseline, comparisons=4)
    assert alone.ratio_ci_high is not None
    assert of_four.ratio_ci_high is not None
    assert of_four.ratio_ci_high > alone.ratio_ci_high
    assert of_four.ratio_confidence == 0.9875


def test_two_blocks_are_indicative_for_the_baseline_too(tmp_path: Path) -> None:
    baseline, mine = launches(tmp_path, [20, 20]), launches(tmp_path, [10, 10])
    numbers = measure(mine, baseline)
    assert (numbers.verdict, numbers.ratio_ci_low, numbers.ratio_to_baseline) == ("indicative", None, 2.0)
    assert numbers.reasons["ratio_ci_low"] == "too few blocks: 2 of 3"
    assert measure(baseline, baseline).verdict == "indicative"


def test_the_baseline_has_no_verdict_and_no_interval_on_itself(tmp_path: Path) -> None:
    baseline = launches(tmp_path, [20, 21, 20, 20, 20])
    numbers = measure(baseline, baseline)
    assert (numbers.ratio_to_baseline, numbers.verdict, numbers.break_even) == (1.0, None, "baseline")
    for field in ("verdict", "ratio_ci_low", "ratio_ci_high", "break_even_calls", "break_even_ci_low_calls"):
        assert numbers.reasons[field] == "this is the baseline"


def test_what_is_not_ranked_keeps_its_ratio_and_gets_no_verdict(tmp_path: Path) -> None:
    baseline = launches(tmp_path, [20] * 5)
    unstable = launches(tmp_path, [10] * 5, status=Status.UNSTABLE)
    numbers = measure(unstable, baseline)
    assert (numbers.ratio_to_baseline, numbers.verdict) == (2.0, None)
    assert numbers.reasons["verdict"] == "not ranked: unstable"
    against = measure(baseline, unstable)
    assert against.reasons["verdict"] == "the baseline is not ranked: unstable"


def test_only_blocks_that_both_were_timed_in_compare(tmp_path: Path) -> None:
    baseline, mine = launches(tmp_path, [20] * 5), launches(tmp_path, [10] * 5)
    assert measure(mine, baseline[:2]).verdict == "indicative"
    assert measure(mine, baseline[:2]).blocks == 5


def test_break_even_has_an_interval_whose_end_may_be_never(tmp_path: Path) -> None:
    baseline = launches(tmp_path, [20] * 6, cold_start_ns=10**9)
    dear = launches(tmp_path, [15, 15, 15, 15, 25, 25], cold_start_ns=2 * 10**9)
    numbers = measure(dear, baseline)
    assert numbers.break_even is not None
    assert numbers.break_even.startswith("after")
    assert numbers.break_even_ci_low_calls is not None
    assert numbers.break_even_calls is not None
    assert numbers.break_even_ci_low_calls <= numbers.break_even_calls
    assert numbers.break_even_ci_high_calls is None
    assert numbers.reasons["break_even_ci_high_calls"] == "never"


def test_every_null_has_a_reason(tmp_path: Path) -> None:
    early = a_launch(status=Status.CRASHED, rounds=[], warm_up=None, stages=[])
    nothing = [read_launch(early, tmp_path, tmp_path.parent)]
    for numbers in (measure(nothing, None), measure(nothing, nothing), measure(launches(tmp_path, [20]), None)):
        fields = numbers.model_dump(exclude={"reasons", "per_launch", *MONITORED})
        assert [name for name, value in fields.items() if value is None and name not in numbers.reasons] == []


def test_records_alone_decide_the_status() -> None:
    unstable: LaunchRecord = a_launch(status=Status.UNSTABLE)
    assert summary.overall_status([a_launch(), unstable])[0] is Status.UNSTABLE
