"""What /proc tells of threads."""

from __future__ import annotations

import os
from pathlib import Path

from harness.worker.processes import threads_called


def test_threads_are_counted_by_their_whole_name_and_those_that_have_ended_are_none(tmp_path: Path) -> None:
    for number, name in enumerate(("pool", "pool", "pool-2", "main"), start=1):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "comm").write_text(f"{name}\n")
    (tmp_path / "5").mkdir()
    assert threads_called("pool", tmp_path) == 2
    assert threads_called("elsewhere", tmp_path) == 0


def test_without_a_folder_they_are_those_of_this_process() -> None:
    main = Path("/proc/self/task") / str(os.getpid()) / "comm"
    assert threads_called(main.read_text().strip()) >= 1
