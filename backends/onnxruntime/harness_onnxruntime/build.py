"""How an ONNX Runtime was built, read from what it says of itself. Imports no ONNX Runtime."""

from __future__ import annotations

import re
from typing import Any

from harness.worker.api import describe_build


def parse_build(text: str, cuda_version: str) -> dict[str, Any]:
    """The text of `onnxruntime.get_build_info()`, as "ORT Build Info: git-branch=HEAD, git-commit-id=fab30a4, build type=Release".

    `cuda_version` is the module's, empty in builds without CUDA.
    """
    commit, kind = re.search(r"git-commit-id=(\w+)", text), re.search(r"build type=(\w+)", text)
    flags = re.search(r"cmake cxx flags: *(.*\S)", text)
    return describe_build(
        "ONNX Runtime does not say",
        compiler_flags=flags and flags[1],
        cuda=cuda_version or None,
        commit=commit and commit[1],
        build_type=kind and kind[1],
    )
