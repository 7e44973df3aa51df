"""Programs that XLA compiles ahead of time, for the shapes of their inputs, and operations whose call is one call of one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax

from harness.worker import xla
from harness.worker.api import Arrays, Counters, Job, Mark, Stages
from harness_flax.compiling import CompileLog
from harness_flax.loading import Definition
from harness_flax.repairs import Weights

Values = dict[str, jax.Array]
"""Inputs on the device, by name."""

Function = Callable[[Weights, Values], dict[str, Any]]
"""What is compiled: weights and inputs to everything that the next call or the comparison needs."""


@dataclass(frozen=True)
class Program(xla.Ahead):
    """Compiled ahead of time."""

    was_cached: bool  # the persistent cache gave it


def compile_ahead(
    log: CompileLog, function: Callable[..., Any], *arguments: Any, donated: tuple[int, ...] = ()
) -> Program:
    """As `xla.compile_ahead`, with JAX's own word on whether its cache had the program."""
    hits_before = log.cache_hits
    ahead = xla.compile_ahead(jax, function, *arguments, donated=donated)
    return Program(ahead.traced, ahead.compiled, ahead.stages, log.cache_hits > hits_before)


@dataclass(frozen=True)
class Loaded:
    """What a runner has after `load`: all that an operation is made of."""

    job: Job
    definition: Definition
    weights: Weights
    log: CompileLog

    def on_device(self, slot: Arrays) -> Values:
        """Copies on the device; floating inputs in the model's dtype."""
        return xla.on_device(jax, slot, self.job.dtype)


class OneProgram:
    """An operation whose call is one call of one program, compiled for the shape of its slots."""

    calls_per_begin: int | None = None

    def __init__(self, loaded: Loaded, function: Function, slots: Sequence[Values], items: Mapping[str, int]) -> None:
        self._loaded = loaded
        self._function = function
        self._slots = slots
        self.items = items

    def compile(self) -> Stages:
        """Trace, lower, compile."""
        self.program = self._compiled(self._function)
        self.was_cached = self.program.was_cached
        return self.program.stages

    def begin(self, slot: int) -> None:
        """Choose the input."""
        self._inputs = self._slots[slot]

    def call(self, mark: Mark | None = None) -> None:  # noqa: ARG002 - one program has no instants inside
        """The call that is timed. Returns before the device is done."""
        self._last = self.program.compiled(self._loaded.weights, self._inputs)

    def wait(self) -> None:
        """Until the device is done."""
        jax.block_until_ready(self._last)

    def call_and_wait(self) -> None:
        """A call that nobody times."""
        self.call()
        self.wait()

    @property
    def evaluated(self) -> jax.stages.Traced:
        """A trace of the model as it is called, in which nothing but dropout can draw random numbers."""
        return self.program.traced

    def counters(self) -> Counters:
        """What the operation itself has to tell of memory."""
        return {}

    def release(self) -> None:
        """Let go of program, weights, inputs and outputs."""
        self.__dict__.clear()

    def _compiled(self, function: Function) -> Program:
        return compile_ahead(self._loaded.log, function, self._loaded.weights, self._slots[0])
