"""What frameworks say of how they were built, in short words. Needs no framework: the texts are theirs."""

from __future__ import annotations

from typing import Any

from harness_onnxruntime.build import parse_build as parse_onnxruntime
from harness_pytorch.build import parse_build as parse_pytorch

PYTORCH_CPU = """\
PyTorch built with:
  - GCC 13.3
  - C++ Version: 202002
  - Intel(R) oneAPI Math Kernel Library Version 2024.2-Product Build 20240605 for Intel(R) 64 architecture applications
  - Intel(R) MKL-DNN v3.12.0 (Git Hash 80afa71049cd69a3df32adcccb623b12cd7baa22)
  - OpenMP 201511 (a.k.a. OpenMP 4.5)
  - CPU capability usage: AVX512
  - Build settings: BLAS_INFO=mkl, BUILD_TYPE=Release, COMMIT_SHA=cf30153c, CXX_COMPILER=/opt/rh/bin/c++, \
CXX_FLAGS= -fvisibility-inlines-hidden -DUSE_PTHREADPOOL -DNDEBUG -O2 -fPIC -Wall -Werror=return-type -march=x86-64-v3 \
-Wno-error=dangling-reference, LAPACK_INFO=mkl, PERF_WITH_AVX=1, TORCH_VERSION=2.13.0, USE_CUDA=0,
"""
PYTORCH_CUDA = PYTORCH_CPU.replace(
    "  - Build settings", "  - CUDA Runtime 12.6\n  - CuDNN 91.0.2  (built against CUDA 12.6)\n  - Build settings"
)


def known(build: dict[str, Any]) -> dict[str, Any]:
    """Without what is null, each of which must have its reason."""
    assert build["reasons"].keys() == {name for name, value in build.items() if value is None}
    return {name: value for name, value in build.items() if value is not None and name != "reasons"}


def test_pytorch_tells_compiler_flags_and_libraries() -> None:
    assert known(parse_pytorch(PYTORCH_CPU)) == {
        "compiler": "GCC 13.3",
        "compiler_flags": "-fvisibility-inlines-hidden -O2 -fPIC -march=x86-64-v3",
        "blas": "mkl",
        "mkl": "2024.2",
        "onednn": "3.12.0",
        "openmp": "201511",
        "commit": "cf30153c",
    }


def test_pytorch_for_cuda_tells_which() -> None:
    build = parse_pytorch(PYTORCH_CUDA)
    assert (build["cuda"], build["cudnn"]) == ("12.6", "91.0.2")


def test_what_pytorch_does_not_say_is_null_with_that_reason() -> None:
    build = parse_pytorch("PyTorch built with:\n")
    assert known(build) == {}
    assert set(build["reasons"].values()) == {"torch.__config__.show() does not say"}


def test_onnxruntime_tells_commit_and_where_it_does_flags_and_cuda() -> None:
    plain = "ORT Build Info: git-branch=HEAD, git-commit-id=fab30a4, fp8-kv-cache=1, build type=Release"
    assert known(parse_onnxruntime(plain, "")) == {"commit": "fab30a4", "build_type": "Release"}
    flagged = parse_onnxruntime(f"{plain}, cmake cxx flags: -O3 -ffunction-sections ", "12.8")
    assert (flagged["compiler_flags"], flagged["cuda"]) == ("-O3 -ffunction-sections", "12.8")
