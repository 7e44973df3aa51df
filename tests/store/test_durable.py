"""The order in which writes reach the disk: a power cut in between must find the old file or the new one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.store import durable


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[Path, set[str]]]]:
    """What was synced, in order, each with the names that its folder (or itself) held at that moment."""
    log: list[tuple[Path, set[str]]] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        folder = path if path.is_dir() else path.parent
        log.append((path, {entry.name for entry in folder.iterdir()}))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    return log


def test_a_replacement_is_synced_before_it_takes_the_name_and_its_folder_after(
    synced: list[tuple[Path, set[str]]], tmp_path: Path
) -> None:
    durable.replace_file(tmp_path / "file", "text")
    (temporary, before), (folder, after) = synced
    assert temporary.parent == folder == tmp_path
    assert before == {temporary.name}
    assert after == {"file"}


def test_an_appended_line_is_synced_and_a_new_files_folder_too(
    synced: list[tuple[Path, set[str]]], tmp_path: Path
) -> None:
    for _ in range(2):
        durable.append(tmp_path / "file", b"line\n")
    assert [path for path, _ in synced] == [tmp_path / "file", tmp_path, tmp_path / "file"]


def test_new_folders_are_synced_into_their_parents(synced: list[tuple[Path, set[str]]], tmp_path: Path) -> None:
    durable.make_folder(tmp_path / "a" / "b")
    assert synced == [(tmp_path, {"a"}), (tmp_path / "a", {"b"})]


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    durable.replace_file(tmp_path / "file", "old")

    def interrupted(_descriptor: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        durable.replace_file(tmp_path / "file", "new")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"file": "old"}
