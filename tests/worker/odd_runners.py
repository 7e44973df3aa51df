"""Runners with one fault each, or one habit, that a real backend may have. Named by the tests, run in real workers."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace

from harness_fake.runner import FakeRunner

from harness.worker.api import Arrays, Facts, Job, Operation, Stages

print("a framework greets its users on import")  # noqa: T201 - the fault of this module
os.write(1, b"and so does its native part\n")


class Talkative(FakeRunner):
    """Starts a child that prints to the stdout and reads the stdin it inherits."""

    def load(self, job: Job) -> Stages:
        child = "import sys; print('the child read', repr(sys.stdin.read()), flush=True)"
        subprocess.run([sys.executable, "-c", child], check=True)
        return super().load(job)


class Wordless:
    """Lacks what makes a runner: most of its methods."""

    def load(self, job: Job) -> Stages:
        raise AssertionError(f"used for {job}, though it is no runner")


class Unbuildable(FakeRunner):
    def __init__(self) -> None:
        raise OSError("no licence file")


class Foresighted(FakeRunner):
    """Wants to know while it is built what it will have to do."""

    def __init__(self, job: Job) -> None:
        super().__init__()
        self._built_for = job

    def facts(self) -> Facts:
        return replace(super().facts(), details={"built_for_tokens": self._built_for.sequence_length})


class Configurable(FakeRunner):
    """Has a parameter of its own, which the worker knows nothing of."""

    def __init__(self, tokens: int = 7) -> None:
        super().__init__()
        self._tokens = tokens

    def facts(self) -> Facts:
        return replace(super().facts(), details={"built_for_tokens": self._tokens})


class HalfOperation(FakeRunner):
    """Its operation cannot be waited for."""

    def operation(self, name: str, slots: Sequence[Arrays]) -> Operation:
        del name, slots
        members = ["items", "calls_per_begin", "compile", "begin", "call", "outputs"]
        operation: Operation = type("NoWait", (), dict.fromkeys(members))()
        return operation


class NumpyFacts(FakeRunner):
    """Hands over what is no JSON."""

    def facts(self) -> Facts:
        return Facts(effective={"threads": 1, "dtype": float}, versions={})


class NoFacts(FakeRunner):
    def facts(self) -> Facts:
        return {"threads": 1}  # type: ignore[return-value]


class EndlessFacts(FakeRunner):
    """JSON, but longer than a line may be."""

    def facts(self) -> Facts:
        return Facts(effective={}, versions={}, details={"build": "x" * (2 << 20)})


class LongWinded(FakeRunner):
    """Its exception has a text of megabytes, in characters that take twelve bytes each."""

    def load(self, job: Job) -> Stages:
        raise RuntimeError("begin " + "\N{GRINNING FACE}" * (1 << 20) + f" end {job.backend}")


class ManyStages(FakeRunner):
    """Names stages in every way that the interface allows."""

    def load(self, job: Job) -> Stages:
        super().load(job)
        return [("read", 10), ("load.convert", 20), ("prepare.quantise", 30), ("onnx.parse", 40)]

    def prepare(self) -> Stages:
        return [("prepare", 50)]


class SecondsAsStages(FakeRunner):
    """Mistakes seconds for nanoseconds."""

    def load(self, job: Job) -> Stages:
        super().load(job)
        return [("weights", 0.5)]  # type: ignore[list-item]


class NoReasons(FakeRunner):
    """Has nothing to prepare and does not say why."""

    def load(self, job: Job) -> Stages:
        stages = super().load(job)
        self.not_applicable = {}
        return stages


class ClosableOnce(FakeRunner):
    """Can only free what it has loaded."""

    def close(self) -> None:
        del self._job


class ObjectOutputs(FakeRunner):
    """Returns Python objects as if they were an array."""

    def operation(self, name: str, slots: Sequence[Arrays]) -> Operation:
        operation = super().operation(name, slots)
        operation.outputs = _objects  # type: ignore[method-assign]
        return operation


def _objects() -> Arrays:
    return {"last_hidden_state": [None, object()]}  # type: ignore[dict-item]
