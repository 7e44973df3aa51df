"""OpenVINO: the checkpoint converted from PyTorch, compiled for the CPU and the shape of its inputs.

Timed is one inference, `request.start_async()` and `request.wait()`, with inputs bound as tensors and outputs left where the
request has them. Each slot has a request of its own: calls made back to back run side by side where threads are divided among them.

Loading has no time of its own: the model is read while it is compiled. Converting it is this backend's prepare phase, in a
process of its own, so that PyTorch is nowhere in the process that is measured.
"""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

import numpy as np
import openvino

from harness.tasks import TASKS
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

DISTRIBUTIONS = ("openvino", "torch", "transformers", "numpy")

DTYPES = {"f32": "float32", "f16": "float16", "bf16": "bfloat16"}
"""OpenVINO's names of floating types -> ours."""


class OpenVinoRunner:
    """One converted model."""

    not_applicable: Mapping[str, str] = {"load": "the model is read while it is compiled"}

    def __init__(self, job: Job) -> None:
        """Start the converter, and return when it has imported everything: that time is `import`, as in other backends."""
        self._file = f"{job.cache}/model.xml"
        arguments = (job.checkpoint, job.task, job.inputs, self._file)
        argv = (sys.executable, "-I", "-m", "harness_openvino.convert", *arguments)
        self._converter = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._converter.stdout.readline()  # type: ignore[union-attr]

    def load(self, job: Job) -> Stages:
        """Nothing yet."""
        self._job, self._compilations = job, 0
        return ()

    def prepare(self) -> Stages:
        """Have the model converted. Raises Unsupported where the converter says that it cannot be."""
        watch = Stopwatch()
        reason, _ = self._converter.communicate("now\n")
        if reason:
            raise Unsupported(reason.strip())
        if self._converter.returncode:
            raise RuntimeError(f"the converter ended with {self._converter.returncode}; the log has its last lines")
        watch.lap("convert")
        return watch.laps

    def operation(self, name: str, slots: Sequence[Arrays]) -> Forward:  # noqa: ARG002 - there is but one
        """The forward pass, the one operation that the plugin declares."""
        self._operation = Forward(self, slots, TASKS[self._job.task].outputs)
        return self._operation

    def compile(self, inputs: Arrays, watch: Stopwatch) -> openvino.CompiledModel:
        """The model for inputs of these shapes."""
        core = openvino.Core()
        model = core.read_model(self._file)
        model.reshape({name: array.shape for name, array in inputs.items()})
        self._nodes = model.get_ops()
        watch.lap("read")
        self._compiled = core.compile_model(model, "CPU", _settings(self._job))
        self._compilations += 1
        watch.lap("compile_model")
        return self._compiled

    def facts(self) -> Facts:
        """Read back from the compiled model, and from the one that it was compiled from."""
        told = self._compiled.get_property
        types = {node.get_element_type().get_type_name() for node in self._constants()}
        effective = {
            "device": "+".join(told("EXECUTION_DEVICES")).lower(),
            "dtype": "+".join(sorted(DTYPES[each] for each in types & DTYPES.keys())),
            "threads": told("INFERENCE_NUM_THREADS"),
            "eval_mode": all(node.get_type_name() != "RandomUniform" for node in self._nodes),  # as dropout would draw
            "inference_mode": isinstance(self._compiled, openvino.CompiledModel),  # which derives no gradients
            "inference_precision": told("INFERENCE_PRECISION_HINT").get_type_name(),
            "performance_hint": told("PERFORMANCE_HINT").lower(),
        }
        details = {name.lower(): told(name) for name in ("NUM_STREAMS", "ENABLE_CPU_PINNING", "ENABLE_HYPER_THREADING")}
        versions = {name: version(name) for name in DISTRIBUTIONS}
        build = describe_build("OpenVINO does not say", version=openvino.get_version())
        return Facts(effective, versions, {**details, "build": build})

    def compilations(self) -> int:
        """Models compiled."""
        return self._compilations

    def memory(self, *, reset: bool = False) -> Counters:  # noqa: ARG002 - OpenVINO tells no counters to reset
        """The weights in the file."""
        untold = dict.fromkeys(RUNNERS_COUNTERS, "OpenVINO tells nothing of its allocators")
        weights_bytes = sum(node.get_byte_size() for node in self._constants())
        return {**untold, "device_context_bytes": "a CPU has no context", "weights_bytes": weights_bytes}

    def close(self) -> None:
        """Free model and requests, and end the converter where `prepare` did not come to it."""
        self._converter.kill()
        self._converter.wait()
        if hasattr(self, "_operation"):
            self._operation.__dict__.clear()
        self.__dict__.clear()
        gc.collect()

    def _constants(self) -> list[openvino.Node]:
        return [node for node in self._nodes if node.get_type_name() == "Constant"]


class Forward:
    """One forward pass: a compiled model with a request for each slot."""

    calls_per_begin = None

    def __init__(self, runner: OpenVinoRunner, slots: Sequence[Arrays], outputs: Sequence[str]) -> None:
        self.items: Mapping[str, int] = count_items(slots[0])
        self._runner, self._slots, self._outputs = runner, slots, outputs
        self._under_way: set[openvino.InferRequest] = set()

    def compile(self) -> Stages:
        """Read the model, compile it, then bind the inputs."""
        watch = Stopwatch()
        self._compiled = self._runner.compile(self._slots[0], watch)
        self._requests = [self._request_on(slot) for slot in self._slots]
        watch.lap("bind")
        return watch.laps

    def begin(self, slot: int) -> None:
        """Choose the input."""
        self._request = self._requests[slot]

    def transfer(self, arrays: Arrays) -> None:
        """Put in place an input that is in no slot."""
        self._request = self._request_on(arrays)

    def call(self, mark: Mark | None = None) -> None:  # noqa: ARG002 - a forward pass has no instants of its own
        """The call that is timed. Where the input's former call is still under way, that is waited for."""
        if self._request in self._under_way:
            self._request.wait()
        self._request.start_async()
        self._under_way.add(self._request)

    def wait(self) -> None:
        """Until every call is done."""
        while self._under_way:
            self._under_way.pop().wait()

    def outputs(self) -> Arrays:
        """What of the last call is compared, copied: the request's next inference writes into the same memory."""
        return {name: np.array(self._request.get_tensor(name).data, np.float32) for name in self._outputs}

    def _request_on(self, arrays: Arrays) -> openvino.InferRequest:
        request = self._compiled.create_infer_request()
        for name, array in arrays.items():
            request.set_tensor(name, openvino.Tensor(np.ascontiguousarray(array)))
        return request


def _settings(job: Job) -> dict[str, Any]:
    """Threads are as many as asked for, and go where the system puts them, as in other backends; float32 means float32."""
    return {
        "INFERENCE_NUM_THREADS": job.threads,
        "INFERENCE_PRECISION_HINT": job.options.get("inference_precision") or "f32",
        "PERFORMANCE_HINT": (job.options.get("performance_hint") or "latency").upper(),
        "ENABLE_CPU_PINNING": False,
        "ENABLE_HYPER_THREADING": True,
    }
