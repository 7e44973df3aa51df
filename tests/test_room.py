"""Whether a block's workers fit into memory side by side."""

from __future__ import annotations

from pathlib import Path

from store.factories import a_cell, a_launch, some_hashes

from harness.block import PreparedCell
from harness.checkpoints import Checkpoint
from harness.inputs import Inputs
from harness.model import Backend, LaunchRecord, Protocol, Stack
from harness.room import GIB, choose_schedule


def prepared(folder: Path, backend: str = "eager") -> PreparedCell:
    cell = a_cell(backend=backend)
    described = Backend(backend, Stack("s", "p:l", ()), "m:R", "")
    checkpoint = Checkpoint(identity=cell.checkpoint, folder=folder, sha256="0" * 64, config={}, licence=None)
    return PreparedCell(cell, described, some_hashes(cell), checkpoint, Inputs(folder, "0" * 64, ()))


def none(_key: str) -> list[LaunchRecord]:
    """Nothing was launched yet."""
    return []


def with_peak(peak_bytes: int) -> LaunchRecord:
    return a_launch(memory_bytes={"peak_rss_bytes": peak_bytes})


def test_launches_interleave_where_memory_allows(tmp_path: Path) -> None:
    cells = [prepared(tmp_path), prepared(tmp_path, "sdpa")]
    chosen = choose_schedule(cells, Protocol(), none, lambda: 16 * GIB)
    assert (chosen.kind, chosen.reason) == ("interleaved", None)


def test_they_follow_one_another_where_it_does_not_and_both_amounts_are_told(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"")
    with (tmp_path / "model.safetensors").open("r+b") as file:
        file.truncate(4 * GIB)  # a hole: takes no disk
    cells = [prepared(tmp_path), prepared(tmp_path, "sdpa")]
    chosen = choose_schedule(cells, Protocol(), none, lambda: 16 * GIB)
    assert chosen.kind == "sequential"
    assert chosen.reason == "2 workers side by side take about 17.5 GiB, 16.0 GiB are available"


def test_what_former_launches_took_at_their_peak_counts_rather_than_an_estimate(tmp_path: Path) -> None:
    cells = [prepared(tmp_path), prepared(tmp_path, "sdpa")]
    large = choose_schedule(cells, Protocol(), lambda _: [with_peak(GIB), with_peak(5 * GIB)], lambda: 8 * GIB)
    small = choose_schedule(cells, Protocol(), lambda _: [with_peak(GIB // 4)], lambda: GIB)
    assert (large.kind, small.kind) == ("sequential", "interleaved")


def test_one_launch_alone_has_nothing_to_follow(tmp_path: Path) -> None:
    assert choose_schedule([prepared(tmp_path)], Protocol(), none, lambda: 1).kind == "interleaved"


def test_the_protocol_can_ask_for_it(tmp_path: Path) -> None:
    cells = [prepared(tmp_path), prepared(tmp_path, "sdpa")]
    chosen = choose_schedule(cells, Protocol(schedule="sequential"), none, lambda: 16 * GIB)
    assert (chosen.kind, chosen.reason) == ("sequential", "asked for by the protocol")
