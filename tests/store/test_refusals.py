"""A results directory that cannot take results: one sentence, early where it can be known, nothing lost. Also for root."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.model import HarnessError
from harness.store import ResultStore, durable
from store.factories import a_cell, a_failure, a_launch, a_result


def refusal_of_open(root: Path) -> str:
    with pytest.raises(HarnessError) as refusal:
        ResultStore.open(root)
    return str(refusal.value)


class Mount:
    """A small file system of its own, where the system lets us mount one (root with the capability)."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.mounted = self.mount("size=128k")

    def mount(self, options: str) -> bool:
        argv = ["mount", "-t", "tmpfs", "-o", options, "none", str(self.folder)]
        return bool(shutil.which("mount")) and subprocess.run(argv, capture_output=True, check=False).returncode == 0

    def close(self) -> None:
        if self.mounted:
            subprocess.run(["umount", str(self.folder)], check=True)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Mount]:
    disk = Mount(tmp_path)
    if not disk.mounted:
        pytest.skip("mounting a tmpfs is not allowed here")
    yield disk
    disk.close()


def add_until_refused(store: ResultStore) -> tuple[int, str]:
    """How many results went in, and what was said of the one that did not."""
    for number in range(1, 1000):
        try:
            store.add(a_result(a_cell(batch_size=number), details={"padding": "x" * 500}))
        except HarnessError as error:
            return number - 1, str(error)
    raise AssertionError("the disk never filled up")


def test_a_disk_that_fills_up_ends_in_a_sentence_and_keeps_what_was_finished(small_disk: Mount) -> None:
    store = ResultStore.open(small_disk.folder)
    count, said = add_until_refused(store)
    assert "there is no room" in said
    assert "choose another folder" in said
    with pytest.raises(HarnessError, match="there is no room"):
        store.finish_runs()
    assert count > 0
    assert [result.config.batch_size for result in store.history()] == list(range(1, count + 1))
    assert ResultStore.existing(small_disk.folder).history() == store.history()
    assert not list(small_disk.folder.rglob("*.tmp"))


def test_a_disk_that_is_full_already_is_refused_before_anything_runs(small_disk: Mount) -> None:
    with pytest.raises(OSError, match="No space"):
        (small_disk.folder / "ballast").write_bytes(b"x" * 2**18)
    assert "there is no room" in refusal_of_open(small_disk.folder)


def test_a_read_only_file_system_is_refused_before_anything_runs_even_for_root(small_disk: Mount) -> None:
    store = ResultStore.open(small_disk.folder)
    store.add(a_result())
    store.finish_runs()
    assert small_disk.mount("remount,ro")
    said = refusal_of_open(small_disk.folder)
    assert "Read-only" in said
    assert "choose another folder" in said
    assert ResultStore.existing(small_disk.folder).results() == [a_result()]


def test_a_file_system_that_turns_read_only_ends_the_run_in_a_sentence(small_disk: Mount) -> None:
    store = ResultStore.open(small_disk.folder)
    assert small_disk.mount("remount,ro")
    for write in (lambda: store.add(a_result()), lambda: store.add_launch(a_launch())):
        with pytest.raises(HarnessError, match="Read-only"):
            write()


@pytest.fixture
def small_files() -> Iterator[None]:
    """No file of this process may grow beyond 8 KiB: a full disk for those who cannot mount one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.usefixtures("small_files")
def test_a_file_that_may_not_grow_ends_in_a_sentence_and_keeps_what_was_finished(tmp_path: Path) -> None:
    store = ResultStore.open(tmp_path)
    count, said = add_until_refused(store)
    assert "there is no room" in said
    assert count > 0
    assert len(ResultStore.existing(tmp_path).history()) == count


@pytest.mark.usefixtures("small_files")
def test_an_append_without_room_for_all_of_it_leaves_none_of_it(tmp_path: Path) -> None:
    durable.append(tmp_path / "file", b"a" * 8000)
    with pytest.raises(HarnessError, match="no room"):
        durable.append(tmp_path / "file", b"b" * 500)
    assert (tmp_path / "file").read_bytes() == b"a" * 8000


@pytest.mark.parametrize("below", [".", "results", "deep/below"])
def test_a_file_in_the_place_of_a_folder_is_refused(tmp_path: Path, below: str) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    assert "a file is where a folder should be" in refusal_of_open(file / below)
    assert file.read_text() == "mine"


def test_a_folder_in_the_place_of_the_history_is_refused(tmp_path: Path) -> None:
    (tmp_path / "history.jsonl").mkdir()
    assert "history.jsonl" in refusal_of_open(tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root ignores permission bits; the read-only file system is root's test")
def test_a_folder_without_permission_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    assert "Permission denied" in refusal_of_open(tmp_path / "results")


def test_opening_makes_missing_folders_and_leaves_nothing_else(tmp_path: Path) -> None:
    ResultStore.open(tmp_path / "deep" / "results")
    assert list((tmp_path / "deep" / "results").iterdir()) == []


def test_reading_makes_nothing_and_says_what_is_missing(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "none"):
        with pytest.raises(HarnessError, match=r"holds no history\.jsonl"):
            ResultStore.existing(folder)
    assert list(tmp_path.iterdir()) == []


def test_reading_what_a_run_left_that_was_killed_before_its_first_result_says_how_to_go_on(tmp_path: Path) -> None:
    ResultStore.open(tmp_path).launch_folder("k" * 64, "20261130T004629-fd2a8a7f")
    with pytest.raises(
        HarnessError, match="holds launches, but no cell has all of its own yet: the command that began"
    ):
        ResultStore.existing(tmp_path)


def test_a_lock_that_another_process_keeps_is_reported_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(durable, "LOCK_TIMEOUT_S", 0.2)
    hold = "import filelock, sys\nwith filelock.FileLock(sys.argv[1]): print(flush=True); sys.stdin.read()"
    argv = [sys.executable, "-c", hold, str(tmp_path / ".lock")]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        with pytest.raises(HarnessError, match="held by another process"):
            ResultStore.open(tmp_path).add(a_failure())
