"""The backend in the worker: one process for each launch, in an environment or image made of the stack.

Import your framework at module level: that time is `import`, not `load`. `harness.worker.api` has the whole interface;
of the harness only what a worker needs is there: `harness.worker`, `harness.protocol`, `harness.tasks`. The two base
classes have what most backends have alike. Neither is asked for: whatever has the members of `Runner` and `Operation`
will do.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_info, threadpool_limits

from harness.worker.api import (
    Arrays,
    Counters,
    Facts,
    Job,
    Mark,
    Stages,
    Stopwatch,
    cpu_counters,
    describe_build,
    versions_of,
)
from harness.worker.bases import BaseForward, BaseRunner
from harness_newcomer.bert import WORDS, Bert


class Forward(BaseForward):
    """One forward pass: the timed call, with its inputs in place and its outputs left where they are.

    Inherited, to be written anew where your framework needs it: `compile`, for the shapes of `self.slots`, which then
    calls `place_slots`; `begin`, which chooses an input and is not timed; `outputs`, which copies what the call left in
    `self.last`.
    """

    def place(self, arrays: Arrays) -> Arrays:
        """An input as the call takes it: tensors of your framework, on its device, there when this returns."""
        return {name: array.copy() for name, array in arrays.items()}

    def call(self, mark: Mark | None = None) -> None:  # noqa: ARG002 - a forward pass has no instants of its own
        """What is timed. It may return before the device is done."""
        self.last = {"last_hidden_state": self.runner.model(**self.inputs)}  # named as in Transformers

    def wait(self) -> None:
        """Return when the device is done with every call made. numpy is, when it returns."""


class NewcomerRunner(BaseRunner):
    """One model. The worker calls `load`, `prepare`, `operation`, `facts`, `memory` and `close`, in this order.

    Inherited, to be written anew where there is something to do: `prepare`, which exports, optimises or quantises into
    `job.cache`; `compilations`, how often anything was compiled so far, a counter and not a flag; `close`, which lets
    go of everything.
    """

    # Phases that have no time of their own, and why. Where yours exports or compiles, return stages there instead.
    not_applicable: Mapping[str, str] = {
        "prepare": "numpy runs the checkpoint as it is",
        "compile": "numpy compiles nothing",
    }
    operations: Mapping[str, Any] = {"forward": Forward}  # what you declare in the plugin's `operations`, you make here

    def load(self, job: Job) -> Stages:
        """Weights from `job.checkpoint` onto the device. Threads first: most frameworks make their pools once."""
        self.job = job
        watch = Stopwatch()
        threadpool_limits(limits=job.threads)
        self.model = Bert(Path(job.checkpoint), transposed=job.options["transposed"])
        watch.lap("read")
        return watch.laps

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
        return Facts(effective, versions_of(("numpy", "safetensors", "threadpoolctl")), {"build": build})

    def memory(self, *, reset: bool = False) -> Counters:  # noqa: ARG002 - numpy has no peaks to reset
        """Bytes, or a text that says why they are not known. 0 means that there are none."""
        weights_bytes = sum(tensor.nbytes for tensor in self.model.weights.values())
        return cpu_counters("numpy counts no memory", weights_bytes=weights_bytes)
