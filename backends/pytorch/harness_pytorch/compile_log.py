"""What Dynamo says of its compilations, and the stages of a first call by it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch._dynamo.callback import callback_handler

from harness.worker.api import Operation, Stages


def wrap(model: Any, options: Mapping[str, Any]) -> tuple[Any, tuple[str, int]]:
    """What torch.compile makes of a model before it is called, and the stage of it."""
    started_ns = time.perf_counter_ns()
    compiled = torch.compile(model, **options)
    return compiled, ("wrap", time.perf_counter_ns() - started_ns)


def call_once(operation: Operation) -> None:
    """One call on the first input, waited for."""
    operation.begin(0)
    operation.call()
    operation.wait()


class CompileLog:
    """Listens to Dynamo from its making to `close`. Its callbacks tell the outermost interval only, whatever nests."""

    def __init__(self) -> None:
        self.intervals = 0
        self.total_ns = 0
        self._started_ns = 0
        callback_handler.register_start_callback(self._start)
        callback_handler.register_end_callback(self._end)

    def close(self) -> None:
        """Listen no more."""
        callback_handler.remove_start_callback(self._start)
        callback_handler.remove_end_callback(self._end)

    def first_call(self, run: Callable[[], object], compiled: str = "dynamo", rest: str = "first_call") -> Stages:
        """Run a first call, or a part of one. Two stages, named as told: what Dynamo compiled in it, and what remains."""
        started_ns, before_ns = time.perf_counter_ns(), self.total_ns
        run()
        elapsed_ns, compiled_ns = time.perf_counter_ns() - started_ns, self.total_ns - before_ns
        return [(compiled, compiled_ns), (rest, elapsed_ns - compiled_ns)]

    def _start(self, _: object) -> None:
        self.intervals += 1
        self._started_ns = time.perf_counter_ns()

    def _end(self, _: object) -> None:
        self.total_ns += time.perf_counter_ns() - self._started_ns
