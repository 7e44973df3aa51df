"""A session with its inputs and outputs bound, and arrays put where it computes, in the element types that its graph takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnxruntime

from harness.worker.api import Arrays

DEVICES = {"CPUExecutionProvider": "cpu", "CUDAExecutionProvider": "cuda"}

ELEMENT_TYPES: Mapping[str, Any] = {
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(bool)": np.bool_,
    "tensor(float)": np.float32,
}

OpenSession = Callable[[str], onnxruntime.InferenceSession]
"""On a file of the artefact, by its name."""

Placed = list[tuple[str, onnxruntime.OrtValue]]
"""Inputs by name, on a session's device."""


def device_of(session: onnxruntime.InferenceSession) -> str:
    """That of the provider which comes first in the session. One that could not be had is not there, and ORT only warned."""
    first: str = session.get_providers()[0]
    return DEVICES.get(first, first)


def inputs_of(session: onnxruntime.InferenceSession) -> dict[str, Any]:
    """The graph's inputs and the NumPy type of each."""
    return {each.name: ELEMENT_TYPES[each.type] for each in session.get_inputs()}


def place(arrays: Arrays, kinds: Mapping[str, Any], device: str) -> Placed:
    """Copies on a device of the arrays that `kinds` names, in the types that it names."""
    copies = {name: np.array(arrays[name], kind, order="C") for name, kind in kinds.items() if name in arrays}
    return [(name, onnxruntime.OrtValue.ortvalue_from_numpy(copy, device)) for name, copy in copies.items()]


class BoundSession:
    """A session whose every call gets memory of its own for its outputs, so that they can be inputs of the next."""

    def __init__(self, session: onnxruntime.InferenceSession) -> None:
        self.inputs = inputs_of(session)
        self._session = session
        self._device = device_of(session)
        self._binding = session.io_binding()
        self._outputs = [output.name for output in session.get_outputs()]

    def place(self, arrays: Arrays) -> Placed:
        """Those of the arrays that the graph takes, on its device."""
        return place(arrays, self.inputs, self._device)

    def run(self, inputs: Placed) -> dict[str, onnxruntime.OrtValue]:
        """All of the graph's outputs, on its device; may return before they are computed."""
        self._bound = inputs  # a binding does not keep the arrays behind what is bound
        for name, value in inputs:
            self._binding.bind_ortvalue_input(name, value)
        for name in self._outputs:
            self._binding.bind_output(name, self._device)
        self._session.run_with_iobinding(self._binding)
        return dict(zip(self._outputs, self._binding.get_outputs(), strict=True))

    def wait(self) -> None:
        """Until the device is done."""
        self._binding.synchronize_outputs()
