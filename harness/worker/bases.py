"""What runners and forward passes of most backends have alike, to inherit where it fits.

Nothing asks for these classes: matching the protocols of `harness.worker.api` is enough. What is timed is not here: a subclass
writes `call`, and `wait` where a call returns before the device is done.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from harness.tasks import TASKS
from harness.worker.api import Arrays, Job, Operation, Stages, Unsupported
from harness.worker.items import count_items


class BaseRunner:
    """A runner, but for `load`, `facts` and `memory`. A subclass's `load` keeps the job as `self.job`."""

    job: Job
    not_applicable: Mapping[str, str] = {}
    operations: Mapping[str, Callable[[Any, Sequence[Arrays]], Operation]] = {}
    """By name, what makes the operation, given the runner and the slots: a subclass of `BaseForward`, say."""

    def prepare(self) -> Stages:
        """Nothing."""
        return ()

    def operation(self, name: str, slots: Sequence[Arrays]) -> Operation:
        """One of `operations`, kept as `self.running`. Raises Unsupported for any other."""
        if name not in self.operations:
            raise Unsupported(f"operation {name}: {type(self).__name__} runs {', '.join(self.operations)}")
        self.running: Any = self.operations[name](self, slots)
        return self.running

    def compilations(self) -> int:
        """Nothing is compiled."""
        return 0

    def close(self) -> None:
        """Let go of all that runner and operation hold; also of a runner that failed before it had them."""
        if hasattr(self, "running"):
            vars(self.running).clear()
        vars(self).clear()
        gc.collect()


class BaseForward:
    """A forward pass on one input after another, but for its `call`: from `self.inputs`, into `self.last`, the outputs by name."""

    calls_per_begin: int | None = None
    inputs: Any
    """The input chosen, as `place` returned it."""
    last: Any
    """The outputs of the last call, by Transformers' names, as anything that numpy can copy."""

    def __init__(self, runner: Any, slots: Sequence[Arrays]) -> None:
        """`runner`: a `BaseRunner` that has loaded."""
        self.items: Mapping[str, int] = count_items(slots[0])
        self.runner, self.slots = runner, slots
        self.names = TASKS[runner.job.task].outputs

    def place(self, arrays: Arrays) -> Any:
        """An input as the call takes it, where the device has it: there when this returns. Here: as it is."""
        return arrays

    def place_slots(self) -> None:
        """Put the slots' inputs in place. For a `compile` of a subclass, as soon as the device can have them."""
        self.placed = [self.place(slot) for slot in self.slots]

    def compile(self) -> Stages:
        """Compile nothing; put the slots' inputs in place."""
        self.place_slots()
        return ()

    def begin(self, slot: int) -> None:
        """Choose the input."""
        self.inputs = self.placed[slot]

    def transfer(self, arrays: Arrays) -> None:
        """Put in place an input that is in no slot."""
        self.inputs = self.place(arrays)

    def wait(self) -> None:
        """A call that returned is done."""

    def outputs(self) -> Arrays:
        """What of the last call is compared, float32 copies on the host."""
        return {name: np.array(self.last[name], np.float32) for name in self.names}
