"""What a kill, an editor or a newer harness left: tolerated where a kill explains it, else refused, never overwritten."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.model import SCHEMA_VERSION, HarnessError
from harness.store import ResultStore
from store.factories import a_cell, a_failure, a_launch, a_result

LINE = a_result().model_dump_json()
NEWER_OF_THE_SAME_FIELDS = LINE.replace(f'"schema_version":{SCHEMA_VERSION}', f'"schema_version":{SCHEMA_VERSION + 1}')
NEWER = NEWER_OF_THE_SAME_FIELDS.replace('"key"', '"novelty":1,"key"', 1)


CURRENT, NEXT = (b'"schema_version": %d' % version for version in (SCHEMA_VERSION, SCHEMA_VERSION + 1))


@pytest.fixture
def history(tmp_path: Path) -> Path:
    return tmp_path / "history.jsonl"


def every_cut(line: bytes) -> list[int]:
    """Some places to tear a line at: its first bytes, inside an é, its last byte."""
    return [1, 10, 17, 18, 19, line.index("é".encode()) + 1, len(line) // 2, len(line) - 2]


TEARABLE = a_failure(message="é").model_dump_json().encode() + b"\n"


@pytest.mark.parametrize("cut", every_cut(TEARABLE))
def test_a_torn_last_line_is_a_warning_and_the_next_result_starts_a_new_line(history: Path, cut: int) -> None:
    torn = TEARABLE[:cut]
    history.write_bytes(LINE.encode() + b"\n" + torn)
    store = ResultStore.open(history.parent)
    (warning,) = store.warnings
    assert f"{history}, line 2" in warning
    assert store.results() == [a_result()]

    new = a_result(a_cell(batch_size=8))
    store.add(new)
    lines = history.read_bytes().splitlines()
    assert lines[1] == torn + b" #torn"
    assert len(lines) == 3
    for reader in (store, ResultStore.open(history.parent)):
        assert reader.results() == [a_result(), new]
        assert reader.warnings == [warning]


def test_several_torn_lines_are_several_warnings(history: Path) -> None:
    for _ in range(2):
        with history.open("ab") as file:
            file.write(TEARABLE[:30])
        ResultStore.open(history.parent).add(a_result())
    assert len(ResultStore.existing(history.parent).warnings) == 2
    assert len(ResultStore.existing(history.parent).history()) == 2


def test_a_line_that_a_writer_was_still_at_is_read_when_it_is_whole(history: Path) -> None:
    line = LINE.encode() + b"\n"
    history.write_bytes(line[:40])
    store = ResultStore.open(history.parent)
    assert len(store.warnings) == 1
    with history.open("ab") as file:
        file.write(line[40:])
    assert store.history() == [a_result()]
    assert store.warnings == []


def test_a_whole_last_line_without_its_newline_counts(history: Path) -> None:
    history.write_text(LINE)
    store = ResultStore.open(history.parent)
    store.add(a_failure())
    assert store.history() == ResultStore.open(history.parent).history() == [a_result(), a_failure()]
    assert store.warnings == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"garbage\n", "not JSON"),
        (b"garbage", "not JSON"),
        (b"\n", "not JSON"),
        (b"[]\n", "not a mapping"),
        (b"[1, 2]", "not a mapping"),
        (b"\xff\xfe{}\n", "not UTF-8"),
        (b"\xff\xfe", "not UTF-8"),
        (b'{"schema_version":1,"key":"\xff', "not UTF-8"),
        (b"[" * 100_000 + b"\n", "not JSON"),
        (b'{"schema_version":%d}\n' % SCHEMA_VERSION, "key: Field required"),
        (TEARABLE[:50] + b"\n", "not JSON"),
        (LINE.replace('"ok"', '"splendid"').encode() + b"\n", "metadata.status"),
        (NEWER.encode() + b"\n", f"schema version {SCHEMA_VERSION + 1}"),
        (NEWER.encode(), "upgrade the harness"),
        (NEWER_OF_THE_SAME_FIELDS.encode() + b"\n", f"schema version {SCHEMA_VERSION + 1}"),
    ],
)
def test_any_other_unreadable_line_is_refused_by_file_and_line(history: Path, text: bytes, said: str) -> None:
    history.write_bytes(LINE.encode() + b"\n" + text)
    for use in (ResultStore.open, ResultStore.existing):
        with pytest.raises(HarnessError) as refusal:
            use(history.parent)
        assert f"{history}, line 2" in str(refusal.value)
        assert said in str(refusal.value)
        assert "\n" not in str(refusal.value)
    assert history.read_bytes() == LINE.encode() + b"\n" + text


def test_damage_that_appears_during_a_run_stops_the_next_write(history: Path) -> None:
    store = ResultStore.open(history.parent)
    store.add(a_result())
    with history.open("a") as file:
        file.write("garbage\n")
    before = history.read_bytes()
    with pytest.raises(HarnessError, match="line 2"):
        store.add(a_failure())
    assert history.read_bytes() == before


def add_result(store: ResultStore) -> None:
    store.add(a_result())


def add_launch(store: ResultStore) -> None:
    store.add_launch(a_launch())


@pytest.mark.parametrize(
    ("add", "pattern"),
    [
        (add_result, "latest/**/*.json"),
        (add_launch, "launches/*/*/launch.json"),
    ],
)
@pytest.mark.parametrize("damage", ["newer", "garbage", "list", "latin-1", "list inside"])
def test_no_file_that_is_newer_or_none_of_ours_is_overwritten(
    tmp_path: Path, add: Callable[[ResultStore], None], pattern: str, damage: str
) -> None:
    add(ResultStore.open(tmp_path))
    (file,) = tmp_path.glob(pattern)
    plain = file.read_bytes()
    damaged = {
        "newer": plain.replace(CURRENT, NEXT + b', "novelty": 1'),
        "garbage": b"garbage",
        "list": b"[]",
        "latin-1": "größer".encode("latin-1"),
        "list inside": json.dumps({"key": []}).encode(),
    }[damage]
    file.write_bytes(damaged)
    with pytest.raises(HarnessError) as refusal:
        add(ResultStore.open(tmp_path))
    assert str(file) in str(refusal.value)
    assert damage != "newer" or f"schema version {SCHEMA_VERSION + 1}" in str(refusal.value)
    assert file.read_bytes() == damaged


def test_an_unreadable_launch_is_refused_by_name(tmp_path: Path) -> None:
    store = ResultStore.open(tmp_path)
    store.add_launch(a_launch())
    (file,) = tmp_path.glob("launches/*/*/launch.json")
    file.write_text("{")
    with pytest.raises(HarnessError, match=r"launch\.json"):
        store.launches(a_cell().key)
