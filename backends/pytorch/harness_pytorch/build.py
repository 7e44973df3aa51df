"""How a PyTorch was built, read from what it says of itself. Imports no PyTorch."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from harness.worker.api import describe_build

SAYINGS: Mapping[str, str] = {
    "compiler": r"^ +- ((?:GCC|clang|MSVC) \S+)",
    "blas": r"\bBLAS_INFO=(\w+)",
    "mkl": r"Math Kernel Library Version (\S+?)(?:-| |$)",
    "onednn": r"MKL-DNN v(\S+)",
    "openmp": r"^ +- OpenMP (\d+)",
    "cuda": r"^ +- CUDA Runtime (\S+)",
    "cudnn": r"^ +- CuDNN (\S+)",
    "commit": r"\bCOMMIT_SHA=(\w+)",
}
"""Name -> where `torch.__config__.show()` has it."""

CODE_FLAGS = re.compile(r"(?<!\S)-(?:O|f|m|std=)\S+")
"""Those that change the code that comes out: not warnings, definitions and paths."""


def parse_build(text: str) -> dict[str, Any]:
    """The text of `torch.__config__.show()` in a few short ones."""
    found = {name: re.search(pattern, text, re.MULTILINE) for name, pattern in SAYINGS.items()}
    known = {name: match and match[1] for name, match in found.items()}
    flags = re.search(r"\bCXX_FLAGS=(.*?)(?:, [A-Z_]+=|$)", text, re.MULTILINE)
    shown = " ".join(CODE_FLAGS.findall(flags[1])) if flags else None
    return describe_build("torch.__config__.show() does not say", compiler_flags=shown, **known)
