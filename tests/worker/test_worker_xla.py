"""What runners on XLA share; a few lines stand in for JAX."""

from __future__ import annotations

import os
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from harness.worker import xla


class Monitoring:
    """Tells its listeners."""

    def __init__(self) -> None:
        self.listeners: list[Callable[..., None]] = []
        self.register_event_duration_secs_listener = self.listeners.append
        self.unregister_event_duration_listener = self.listeners.remove

    def tell(self, event: str, duration_s: float) -> None:
        for listener in self.listeners:
            listener(event, duration_s, fun_name="f")


def test_compilations_are_counted_and_timed_until_closed() -> None:
    monitoring: Any = Monitoring()
    compilations = xla.Compilations(SimpleNamespace(monitoring=monitoring))  # type: ignore[arg-type]
    monitoring.tell(xla.COMPILED, 0.5)
    monitoring.tell("/jax/something/else", 8)
    monitoring.tell(xla.COMPILED, 0.25)
    compilations.close()
    monitoring.tell(xla.COMPILED, 1)
    assert (compilations.count, compilations.total_s) == (2, 0.75)


def test_inputs_go_to_the_device_in_the_dtype_asked_for_and_in_32_bits() -> None:
    jax: Any = SimpleNamespace(numpy=np, device_put=lambda array: ("there", array.dtype.name))
    arrays = {"input_ids": np.ones(2, np.int64), "pixel_values": np.ones(2, np.float32), "mask": np.ones(2, np.bool_)}
    placed = xla.on_device(jax, arrays, "float16")
    assert placed == {
        "input_ids": ("there", "int32"),
        "pixel_values": ("there", "float16"),
        "mask": ("there", "int32"),
    }


def test_a_function_is_compiled_ahead_in_three_stages_with_what_may_be_overwritten() -> None:
    def jit(function: Any, donate_argnums: tuple[int, ...]) -> Any:
        compiled = SimpleNamespace(compile=lambda: f"{function} {donate_argnums}")
        return SimpleNamespace(trace=lambda *given: SimpleNamespace(given=given, lower=lambda: compiled))

    ahead = xla.compile_ahead(SimpleNamespace(jit=jit), "f", 1, 2, donated=(1,))  # type: ignore[arg-type]
    assert (ahead.traced.given, ahead.compiled) == ((1, 2), "f (1,)")
    assert [stage for stage, _ in ahead.stages] == ["trace", "lower", "compile"]


def test_the_dtype_is_that_of_floating_arrays_and_bytes_those_of_all() -> None:
    sixteen_bit = SimpleNamespace(dtype=SimpleNamespace(name="bfloat16"), nbytes=8)
    arrays = [*(np.zeros(4, dtype) for dtype in (np.float32, np.int32, np.float32)), sixteen_bit]
    assert xla.dtype(arrays) == "bfloat16+float32"
    assert xla.nbytes(arrays) == 4 * (4 + 4 + 4 + 2)


def test_threads_are_asked_for_before_the_client_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NPROC", "64")
    xla.set_threads(2)
    assert os.environ["NPROC"] == "2"
