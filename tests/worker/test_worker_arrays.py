"""Arrays on disk, and the hash by which host and worker agree on them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from harness.worker.arrays import inputs_sha256, read_inputs, slots_of, write_npz

INPUTS = {"input_ids": np.arange(24).reshape(2, 3, 4), "attention_mask": np.ones((2, 3, 4), np.int64)}


def changed(**arrays: np.ndarray) -> dict[str, np.ndarray]:
    return {**INPUTS, **arrays}


@pytest.mark.parametrize(
    "other",
    [
        changed(input_ids=INPUTS["input_ids"] + (np.arange(24).reshape(2, 3, 4) == 23)),
        changed(input_ids=INPUTS["input_ids"].astype(np.int32)),
        changed(input_ids=INPUTS["input_ids"].view(np.uint64)),
        changed(input_ids=INPUTS["input_ids"].reshape(2, 4, 3)),
        {"input_ids": INPUTS["attention_mask"], "attention_mask": INPUTS["input_ids"]},
        {"input_ids": INPUTS["input_ids"]},
        changed(token_type_ids=np.empty((2, 0))),
    ],
    ids=["one value", "width", "type of equal width", "shape", "names swapped", "one less", "an empty one more"],
)
def test_the_hash_tells_different_inputs_apart(other: dict[str, np.ndarray]) -> None:
    assert inputs_sha256(other) != inputs_sha256(INPUTS)


def test_the_hash_depends_on_values_alone_not_on_order_or_layout() -> None:
    reordered = {name: np.asfortranarray(array) for name, array in reversed(INPUTS.items())}
    assert inputs_sha256(reordered) == inputs_sha256(INPUTS)


def test_the_hash_does_not_change_from_version_to_version() -> None:
    inputs = {"input_ids": np.arange(4, dtype="<i8").reshape(1, 1, 4)}
    assert inputs_sha256(inputs) == "be48b5b2015403f2c8da8236cd021e040856039bcbfd5fb6791db2437294126a"


def test_inputs_are_read_back_as_they_were_written(tmp_path: Path) -> None:
    for name, array in INPUTS.items():
        np.save(tmp_path / f"{name}.npy", array)
    inputs = read_inputs(tmp_path)
    assert list(inputs) == ["attention_mask", "input_ids"]
    assert inputs_sha256(inputs) == inputs_sha256(INPUTS)


def test_a_folder_without_inputs_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=str(tmp_path)):
        read_inputs(tmp_path)


def test_inputs_are_split_into_slots_without_copying() -> None:
    slots = slots_of(INPUTS)
    assert len(slots) == 2
    assert np.array_equal(slots[1]["input_ids"], INPUTS["input_ids"][1])
    assert all(np.shares_memory(slot[name], INPUTS[name]) for slot in slots for name in INPUTS)


@pytest.mark.parametrize(
    "inputs",
    [{"a": np.ones((2, 1)), "b": np.ones((3, 1))}, {"a": np.ones((0, 1))}, {"a": np.array(1)}],
    ids=["unequal", "none", "no dimension"],
)
def test_inputs_that_do_not_agree_on_their_slots_are_refused(inputs: dict[str, np.ndarray]) -> None:
    with pytest.raises(ValueError, match="number of slots"):
        slots_of(inputs)


def test_a_written_file_holds_the_arrays_and_replaces_an_older_one(tmp_path: Path) -> None:
    for value in (1, 2):
        write_npz(tmp_path / "slot-0.npz", {"logits": np.full((2, 2), value, np.float32)})
    assert [file.name for file in tmp_path.iterdir()] == ["slot-0.npz"]
    assert np.load(tmp_path / "slot-0.npz")["logits"].tolist() == [[2, 2], [2, 2]]


def test_a_write_that_fails_leaves_no_file_of_that_name(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="logits is an array of Python objects"):
        write_npz(tmp_path / "slot-0.npz", {"logits": np.array([None])})
    assert not (tmp_path / "slot-0.npz").exists()
