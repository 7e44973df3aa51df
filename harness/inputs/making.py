"""A workload's slots, drawn and put on disk."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from harness import cache, cgroups
from harness.checkpoints import Checkpoint
from harness.inputs.audio import AudioMaker, noise
from harness.inputs.lengths import row_lengths
from harness.inputs.raw import RawTextMaker, draw_audio, draw_images
from harness.inputs.text import TextMaker
from harness.model import Cell, HarnessError, digest
from harness.support import image_size, input_kind, model_refusal
from harness.tasks import GENERATION, Kind
from harness.worker.arrays import inputs_sha256

GENERATOR = 2
"""The `InputSpec.generator` that this package is. Raised when the same seed would give other bytes. History: 1, the first;
2, inputs by task, and padding (2026-11)."""

Slot = Mapping[str, npt.NDArray[Any]]
"""One slot's inputs by name, each of shape (batch, ...)."""

_IMAGE_SIDE = 224  # pixels, of models whose config names no size, as ResNet's
_ATTEMPTS = 100  # at an input that no slot before it had
_LEAST_BYTES = 8  # of a row: it has a number at least
_COPIES = 3  # of every slot while they are made: itself, its bytes to tell it from others, its part of the whole


class TooLargeError(HarnessError):
    """Inputs that memory does not hold."""


@dataclass(frozen=True)
class Inputs:
    """The inputs of a workload, on disk."""

    folder: Path
    sha256: str  # as the worker computes it of what it has loaded
    names: tuple[str, ...]


def make_inputs(
    cell: Cell, checkpoint: Checkpoint, root: Path | None = None, progress: cache.Progress = lambda _: None
) -> Inputs:
    """The inputs of a cell's workload, found in `root` (the cache's room unless given) or made now.

    Raises HarnessError where the model has no such inputs (`harness.support` says so beforehand), TooLargeError where memory does
    not hold them.
    """
    shape = (cell.batch_size, cell.sequence_length, cell.padding, cell.image_size, cell.audio_seconds)
    kind = "raw" if cell.operation == "application" else "prompt" if cell.operation in GENERATION else "tensors"
    address = digest([cell.inputs.model_dump(), checkpoint.sha256, cell.task, *shape, kind])
    name = f"{cell.batch_size}x{cell.sequence_length}-{address[:32]}"

    def fill(folder: Path) -> Mapping[str, Any]:
        arrays = _stacked(_slots(cell, checkpoint))
        for input_name, array in arrays.items():
            np.save(folder / f"{input_name}.npy", array, allow_pickle=False)
        return {"sha256": inputs_sha256(arrays), "names": sorted(arrays)}

    try:
        entry = cache.keep((root or cache.room("inputs")) / name, fill, progress)
    except (MemoryError, OverflowError):  # the latter where it is more than any machine can count
        raise TooLargeError(
            f"{cell.inputs.slots} inputs of batch_size {cell.batch_size} and sequence_length {cell.sequence_length} do not fit "
            "into memory; ask for smaller ones"
        ) from None
    return Inputs(entry.folder, entry.facts["sha256"], tuple(entry.facts["names"]))


def _slots(cell: Cell, checkpoint: Checkpoint) -> list[Slot]:
    reason = model_refusal(cell, checkpoint.config)
    if reason:
        raise HarnessError(f"{cell.model}: {reason}")
    if cell.inputs.generator != GENERATOR:
        raise HarnessError(
            f"inputs of generator {cell.inputs.generator} were asked for, this harness is generator {GENERATOR}: plan anew"
        )
    _check_memory(cell.batch_size * _LEAST_BYTES, cell.inputs.slots)  # to draw a slot that is too large takes a minute
    draw = _drawer(cell, checkpoint)
    slots: dict[bytes, Slot] = {}
    for index in range(cell.inputs.slots):
        slot = _another(draw, f"{cell.inputs.seed}/{index}", slots)
        if not slots:
            _check_memory(sum(array.nbytes for array in slot.values()), cell.inputs.slots)
        slots[_content(slot)] = slot
    return list(slots.values())


def _check_memory(slot_bytes: int, count: int) -> None:
    """Raises MemoryError where so many slots do not fit.

    Asked for piece by piece, the kernel grants memory that it does not have, and ends the process that uses it.
    """
    if _COPIES * count * slot_bytes > cgroups.memory_available_bytes():
        raise MemoryError


def _another(draw: Callable[[np.random.RandomState], Slot], seed: str, slots: Mapping[bytes, Slot]) -> Slot:
    for attempt in range(_ATTEMPTS):
        slot = draw(_random(f"{seed}/{attempt}"))
        if _content(slot) not in slots:
            return slot
    raise HarnessError(
        f"no more than {len(slots)} different inputs of this shape were found: ask for more tokens or rows"
    )


def _random(seed: str) -> np.random.RandomState:
    return np.random.RandomState(np.frombuffer(hashlib.sha256(seed.encode()).digest(), dtype="<u4"))


def _content(slot: Slot) -> bytes:
    return b"".join(slot[name].tobytes() for name in sorted(slot))


def _stacked(slots: Sequence[Slot]) -> dict[str, npt.NDArray[Any]]:
    return {name: np.stack([slot[name] for slot in slots]) for name in slots[0]}


def _drawer(cell: Cell, checkpoint: Checkpoint) -> Callable[[np.random.RandomState], Slot]:
    """What draws one slot of the task's kind of inputs."""
    match input_kind(checkpoint.config):
        case Kind.IMAGE:
            return _image_drawer(cell, checkpoint.config)
        case Kind.AUDIO:
            return _audio_drawer(cell, checkpoint)
        case _:
            return _text_drawer(cell, checkpoint)


def _text_drawer(cell: Cell, checkpoint: Checkpoint) -> Callable[[np.random.RandomState], Slot]:
    lengths = row_lengths(cell, _random(f"{cell.inputs.seed}/lengths"))
    maker: type[TextMaker | RawTextMaker] = RawTextMaker if cell.operation == "application" else TextMaker
    text = maker(cell, checkpoint, shortest=min(lengths))
    # The same lengths in every slot, in another order: what a call works on must not depend on the slot.
    return lambda random: text.slot(random, random.permutation(lengths).tolist())


def _audio_drawer(cell: Cell, checkpoint: Checkpoint) -> Callable[[np.random.RandomState], Slot]:
    if cell.operation == "application":
        return lambda random: draw_audio(random, cell)
    return AudioMaker(cell, checkpoint).slot


def _image_drawer(cell: Cell, config: Mapping[str, Any]) -> Callable[[np.random.RandomState], Slot]:
    if cell.operation == "application":
        return lambda random: draw_images(random, cell.batch_size)
    shape = (cell.batch_size, config["num_channels"], *_image_size(cell, config))
    return lambda random: {"pixel_values": noise(random, shape)}  # as normalised images lie


def _image_size(cell: Cell, config: Mapping[str, Any]) -> tuple[int, int]:
    side = cell.image_size or _IMAGE_SIDE
    return image_size(config) or (side, side)
