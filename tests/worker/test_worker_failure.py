"""What kind of last word an exception becomes."""

from __future__ import annotations

import pytest

from harness.protocol import MAX_LINE_BYTES, encode
from harness.worker.api import Unsupported
from harness.worker.failure import failed


def named(name: str, text: str, base: type[Exception] = RuntimeError) -> Exception:
    """An exception as a framework would raise it, without the framework."""
    error: Exception = type(name, (base,), {})(text)
    return error


OUT_OF_MEMORY = [
    MemoryError(),
    named("_ArrayMemoryError", "Unable to allocate 8.00 TiB", MemoryError),
    named("OutOfMemoryError", "CUDA out of memory. Tried to allocate 20.00 GiB."),
    named("JaxRuntimeError", "RESOURCE_EXHAUSTED: Out of memory allocating 68719476736 bytes."),
    named("XlaRuntimeError", "RESOURCE_EXHAUSTED: Failed to allocate request for 4.00GiB"),
    RuntimeError("[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory"),
    named("Fail", "[ONNXRuntimeError] : 1 : FAIL : ... Failed to allocate memory for requested buffer", Exception),
    named("RuntimeException", "[ONNXRuntimeError] : 6 : RUNTIME_EXCEPTION : std::bad_alloc", Exception),
]


@pytest.mark.parametrize("error", OUT_OF_MEMORY, ids=lambda error: type(error).__name__)
def test_running_out_of_memory_is_recognised_in_every_frameworks_words(error: Exception) -> None:
    assert failed(error, "steady").reason == "out_of_memory"


def test_running_out_of_memory_is_recognised_through_what_a_compiler_wraps_it_in() -> None:
    wrapped = named("BackendCompilerFailed", "backend='inductor' raised")
    wrapped.__cause__ = MemoryError()
    assert failed(wrapped, "compile").reason == "out_of_memory"


def test_an_error_raised_while_another_was_handled_is_judged_by_itself() -> None:
    error = ValueError("bad shape")
    error.__context__ = MemoryError()
    assert failed(error, "outputs").reason == "error"


def test_an_unsupported_cell_is_told_with_its_reason_only() -> None:
    last = failed(Unsupported("flash attention needs a GPU"), "load")
    assert (last.reason, last.message, last.stage) == ("unsupported", "flash attention needs a GPU", "load")


def test_an_exception_that_causes_itself_is_still_told() -> None:
    first, second = RuntimeError("first"), RuntimeError("second")
    first.__cause__, second.__cause__ = second, first
    assert failed(first, "load").message == "first"


def test_an_exception_whose_text_cannot_be_had_is_still_told() -> None:
    class UnprintableError(Exception):
        def __str__(self) -> str:
            raise ValueError("no text")

    last = failed(UnprintableError(), "load")
    assert (last.type, last.message) == ("UnprintableError", "(its text cannot be had: ValueError)")


@pytest.mark.parametrize("character", ["x", "\N{GRINNING FACE}", "\udcff", "\n", "\0"])
def test_a_last_word_always_fits_a_line(character: str) -> None:
    error = named("E" * MAX_LINE_BYTES, character * MAX_LINE_BYTES)
    assert len(encode(failed(error, "load"))) < MAX_LINE_BYTES
