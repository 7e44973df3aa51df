"""Arrays on disk: inputs in, outputs and samples out, and the hash that proves host and worker saw the same inputs.

Host and worker both import this module, so it needs the standard library and numpy alone.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.worker.api import Arrays


def inputs_sha256(inputs: Arrays) -> str:
    """SHA-256 (hex) over names in order, and for each its dtype, shape and bytes in C order.

    Takes whole inputs, of shape (slots, batch, ...). A line of JSON stands before each array's bytes, so that no two
    different inputs run together to the same stream.
    """
    sha256 = hashlib.sha256()
    for name in sorted(inputs):
        array = np.ascontiguousarray(inputs[name])
        sha256.update(json.dumps([name, array.dtype.str, inputs[name].shape]).encode() + b"\n")
        sha256.update(array.data)
    return sha256.hexdigest()


def read_inputs(folder: Path) -> dict[str, npt.NDArray[Any]]:
    """Every `<name>.npy` of a folder, by name in order. Raises ValueError where there is none."""
    inputs = {file.stem: np.load(file, allow_pickle=False) for file in sorted(folder.glob("*.npy"))}
    if not inputs:
        raise ValueError(f"no <name>.npy in the inputs folder {folder}")
    return inputs


def slots_of(inputs: Arrays) -> Sequence[Arrays]:
    """Inputs of shape (slots, batch, ...) as one mapping of (batch, ...) views per slot. Raises ValueError."""
    counts = {name: len(array) if array.ndim else 0 for name, array in inputs.items()}
    if len(set(counts.values())) != 1 or 0 in counts.values():
        raise ValueError(f"inputs must share one first dimension, their number of slots; seen: {counts}")
    return [{name: array[slot] for name, array in inputs.items()} for slot in range(next(iter(counts.values())))]


def at_tokens(output: npt.NDArray[Any], mask: npt.NDArray[Any], elsewhere: float) -> npt.NDArray[Any]:
    """The output where the mask of its first dimensions has a token, `elsewhere` where it has padding. Whatever stands there, NaN
    too, is gone."""
    is_token = mask.astype(bool).reshape(*mask.shape, *[1] * (output.ndim - mask.ndim))
    return np.where(is_token, output, elsewhere)


def write_npz(file: Path, arrays: Arrays) -> None:
    """Write arrays so that the file, once there, is whole and on disk. Raises TypeError for arrays of Python objects.

    The write is waited for, so that it is over before another worker of the block measures.
    """
    plain = {name: _plain(name, array) for name, array in arrays.items()}
    partial = file.with_name(f"{file.name}.partial")
    with partial.open("wb") as stream:
        np.savez(stream, **plain)  # type: ignore[arg-type]  # numpy fears an array named allow_pickle
        stream.flush()
        os.fsync(stream.fileno())
    partial.replace(file)


def _plain(name: str, array: Any) -> npt.NDArray[Any]:
    plain = np.asarray(array)
    if plain.dtype.hasobject:
        raise TypeError(f"{name} is an array of Python objects ({type(array).__name__}), not of numbers")
    return plain
