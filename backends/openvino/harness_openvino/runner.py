"""OpenVINO: the checkpoint converted from PyTorch, compiled for the CPU and the shape of its inputs.

Timed is one inference, `request.start_async()` and `request.wait()`, with inputs bound as tensors and outputs left where the
request has them. Each slot has a request of its own: calls made back to back run side by side where threads are divided among them.

Loading has no time of its own: the model is read while it is compiled. Converting it is this backend's prepare phase, in a helper.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import openvino

from harness.worker import api
from harness.worker.bases import BaseForward, BaseRunner
from harness.worker.helper import Helper

DISTRIBUTIONS = ("openvino", "torch", "transformers", "numpy")

DTYPES = {"f32": "float32", "f16": "float16", "bf16": "bfloat16"}
"""OpenVINO's names of floating types -> ours."""


class Forward(BaseForward):
    """One forward pass: a compiled model, and a request for each slot. The input is the request it is bound to."""

    def __init__(self, runner: Any, slots: Sequence[api.Arrays]) -> None:
        super().__init__(runner, slots)
        self._under_way: set[openvino.InferRequest] = set()

    def compile(self) -> api.Stages:
        """Read the model, compile it, then bind the inputs."""
        watch = api.Stopwatch()
        self._compiled = self.runner.compile(self.slots[0], watch)
        self.place_slots()
        watch.lap("bind")
        return watch.laps

    def place(self, arrays: api.Arrays) -> openvino.InferRequest:
        """A request with these inputs."""
        request = self._compiled.create_infer_request()
        for name, array in arrays.items():
            request.set_tensor(name, openvino.Tensor(np.ascontiguousarray(array)))
        return request

    def call(self, mark: api.Mark | None = None) -> None:  # noqa: ARG002 - a forward pass has no instants of its own
        """The call that is timed. Where the input's former call is still under way, that is waited for."""
        if self.inputs in self._under_way:
            self.inputs.wait()
        self.inputs.start_async()
        self._under_way.add(self.inputs)

    def wait(self) -> None:
        """Until every call is done."""
        while self._under_way:
            self._under_way.pop().wait()

    def outputs(self) -> api.Arrays:
        """What of the last call is compared, copied: the request's next inference writes into the same memory."""
        return {name: np.array(self.inputs.get_tensor(name).data, np.float32) for name in self.names}


class OpenVinoRunner(BaseRunner):
    """One converted model."""

    not_applicable: Mapping[str, str] = {"load": "the model is read while it is compiled"}
    operations: Mapping[str, Any] = {"forward": Forward}

    def __init__(self) -> None:
        self._converter = Helper("-m", "harness_openvino.convert")
        self._compilations = 0

    def load(self, job: api.Job) -> api.Stages:
        """Nothing yet."""
        self.job, self._file = job, f"{job.cache}/model.xml"
        return ()

    def prepare(self) -> api.Stages:
        """Have the model converted. Raises Unsupported where the converter says that it cannot be."""
        watch = api.Stopwatch()
        job = self.job
        self._converter.ask("convert", checkpoint=job.checkpoint, task=job.task, inputs=job.inputs, into=self._file)
        self._converter.close()
        watch.lap("convert")
        return watch.laps

    def compile(self, inputs: api.Arrays, watch: api.Stopwatch) -> openvino.CompiledModel:
        """The model for inputs of these shapes. Threads are as many as asked for, and go where the system puts them, as in other
        backends; float32 means float32."""
        core, options = openvino.Core(), self.job.options
        model = core.read_model(self._file)
        model.reshape({name: array.shape for name, array in inputs.items()})
        self._nodes = model.get_ops()
        watch.lap("read")
        settings = {
            "INFERENCE_NUM_THREADS": self.job.threads,
            "INFERENCE_PRECISION_HINT": options.get("inference_precision") or "f32",
            "PERFORMANCE_HINT": (options.get("performance_hint") or "latency").upper(),
            "ENABLE_CPU_PINNING": False,
            "ENABLE_HYPER_THREADING": True,
        }
        self._compiled = core.compile_model(model, "CPU", settings)
        self._compilations += 1
        watch.lap("compile_model")
        return self._compiled

    def facts(self) -> api.Facts:
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
        details["build"] = api.describe_build("OpenVINO does not say", version=openvino.get_version())
        return api.Facts(effective, api.versions_of(DISTRIBUTIONS), details)

    def compilations(self) -> int:
        """Models compiled."""
        return self._compilations

    def memory(self, *, reset: bool = False) -> api.Counters:  # noqa: ARG002 - OpenVINO tells no counters to reset
        """The weights in the file."""
        weights_bytes = sum(node.get_byte_size() for node in self._constants())
        return api.cpu_counters("OpenVINO tells nothing of its allocators", weights_bytes=weights_bytes)

    def close(self) -> None:
        """Free model and requests, and end the converter where `prepare` did not come to it."""
        self._converter.close()
        super().close()

    def _constants(self) -> list[openvino.Node]:
        return [node for node in self._nodes if node.get_type_name() == "Constant"]
