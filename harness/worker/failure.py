"""From an exception to the worker's last word."""

from __future__ import annotations

import traceback
from collections.abc import Iterator

from harness.protocol import Failed
from harness.worker.api import Unsupported

MAX_MESSAGE_CHARACTERS = 4_000
MAX_TRACEBACK_CHARACTERS = 32_000
"""A character takes at most 12 bytes of JSON (two escapes), so both together stay under half of MAX_LINE_BYTES."""

OUT_OF_MEMORY_TEXTS = (
    "resource_exhausted",  # XLA: JaxRuntimeError, XlaRuntimeError
    "out of memory",  # CUDA
    "defaultcpuallocator",  # PyTorch on CPU: a plain RuntimeError
    "failed to allocate memory",  # ONNX Runtime's arena: Fail, derived from nothing but Exception
    "bad_alloc",  # C++, where nothing has translated it
)
"""Lower case, as seen in each framework. They have no class in common, and none of theirs may be imported here."""


def failed(error: Exception, stage: str) -> Failed:
    """The last word for an exception that came up in a phase. Always fits a line."""
    return Failed(
        reason=_reason(error),
        type=type(error).__name__[:200],
        message=_shortened(_text(error), MAX_MESSAGE_CHARACTERS),
        stage=stage,
        traceback=_shortened("".join(traceback.format_exception(error)), MAX_TRACEBACK_CHARACTERS),
    )


def _reason(error: Exception) -> str:
    if isinstance(error, Unsupported):
        return "unsupported"
    return "out_of_memory" if any(map(_is_out_of_memory, _causes(error))) else "error"


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error and what it was raised from: compilers wrap what their backend raises. Bounded, as chains may be circular."""
    cause: BaseException | None = error
    for _ in range(20):
        if cause is None:
            return
        yield cause
        cause = cause.__cause__


def _is_out_of_memory(error: BaseException) -> bool:
    if isinstance(error, MemoryError) or any(kind.__name__ == "OutOfMemoryError" for kind in type(error).__mro__):
        return True
    text = _text(error).lower()
    return any(sign in text for sign in OUT_OF_MEMORY_TEXTS)


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as unprintable:
        return f"(its text cannot be had: {type(unprintable).__name__})"


def _shortened(text: str, limit: int) -> str:
    """Both ends of a long text: how it began, and where it ended."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n... {len(text) - 2 * half} characters left out ...\n{text[-half:]}"
