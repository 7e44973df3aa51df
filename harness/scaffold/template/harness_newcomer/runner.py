"""The backend in the worker: one process for each launch, in an environment or image made of the stack.

Import your framework at module level: that time is `import`, not `load`. `harness.worker.api` has the whole interface;
of the harness only what a worker needs is there: `harness.worker`, `harness.protocol` and `harness.tasks`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits

from harness.worker.api import (
    RUNNERS_COUNTERS,
    Arrays,
    Counters,
    Facts,
    Job,
    Mark,
    Stages,
    Stopwatch,
    Unsupported,
    describe_build,
)
from harness.worker.items import count_items
from harness_newcomer.bert import WORDS, Bert


class NewcomerRunner:
    """One model. The worker calls the methods in the order in which they stand here."""

    # Phases that have no time of their own, and why. Where yours exports or compiles, return stages there instead.
    not_applicable: Mapping[str, str] = {
        "prepare": "numpy runs the checkpoint as it is",
        "compile": "numpy compiles nothing",
    }

    def load(self, job: Job) -> Stages:
        """Weights from `job.checkpoint` onto the device. Threads first: most frameworks make their pools once."""
        watch = Stopwatch()
        threadpool_limits(limits=job.threads)
        self.model = Bert(Path(job.checkpoint), transposed=job.options["transposed"])
        watch.lap("read")
        return watch.laps

    def prepare(self) -> Stages:
        """Export, optimise or quantise into `job.cache`; nothing here."""
        return ()

    def operation(self, name: str, slots: Sequence[Arrays]) -> Forward:
        """What is timed, on these inputs. What you declare in the plugin's `operations`, you make here."""
        if name != "forward":
            raise Unsupported(f"operation {name}: newcomer runs forward")
        return Forward(self, slots)

    def facts(self) -> Facts:
        """What is in effect, read back. Never echo the job: what ran otherwise than asked for must show."""
        pools = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
        effective = {
            "device": "cpu",  # numpy has no other
            "dtype": str(self.model.weights[WORDS].dtype),
            "threads": max((pool["num_threads"] for pool in pools), default=1),
            "eval_mode": True,  # there is no dropout in it
            "inference_mode": True,  # nor a gradient
            "transposed": self.model.is_transposed,
        }
        blas = ", ".join(f"{pool['internal_api']} {pool['version']}" for pool in pools)
        build = describe_build("numpy does not tell it", blas=blas or None)
        versions = {name: version(name) for name in ("numpy", "safetensors", "threadpoolctl")}
        return Facts(effective, versions, {"build": build})

    def compilations(self) -> int:
        """How often anything was compiled so far, all operations together. A counter, not a flag."""
        return 0

    def memory(self, *, reset: bool = False) -> Counters:  # noqa: ARG002 - numpy has no peaks to reset
        """Bytes, or a text that says why they are not known. 0 means that there are none."""
        unknown = dict.fromkeys(RUNNERS_COUNTERS, "numpy counts no memory")
        return {**unknown, "weights_bytes": sum(tensor.nbytes for tensor in self.model.weights.values())}

    def close(self) -> None:
        """Let go of everything. A runner that failed on its way is closed too."""
        self.__dict__.clear()


class Forward:
    """One forward pass: the timed call, with its inputs in place and its outputs left where they are."""

    calls_per_begin = None  # any number of calls on one input; a number where each call goes on from the one before

    def __init__(self, runner: NewcomerRunner, slots: Sequence[Arrays]) -> None:
        self.items = count_items(slots[0])
        self._runner = runner
        self._slots = slots  # here as tensors of your framework, on its device

    def compile(self) -> Stages:
        """Compile for the shape of the slots; nothing here."""
        return ()

    def begin(self, slot: int) -> None:
        """Choose the input; not timed, and as quick as this."""
        self._inputs = self._slots[slot]

    def transfer(self, arrays: Arrays) -> None:
        """The same with an input that was not known before; it is in place when this returns."""
        self._inputs = {name: np.array(array) for name, array in arrays.items()}

    def call(self, mark: Mark | None = None) -> None:  # noqa: ARG002 - a forward pass has no instants of its own
        """What is timed. It may return before the device is done."""
        self._last = self._runner.model(**self._inputs)

    def wait(self) -> None:
        """Return when the device is done with every call made. numpy is, when it returns."""

    def outputs(self) -> Arrays:
        """Copies of the last call's outputs, named as in Transformers; not timed."""
        return {"last_hidden_state": self._last.copy()}
