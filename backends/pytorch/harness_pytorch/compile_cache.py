"""Where torch.compile and the compilers below it keep what they have made, and what a launch has found there.

Inductor's caches (generated code, FX graphs, AOTAutograd's results, Triton's kernels, what was learnt by autotuning) follow one
environment variable, which it reads at each use. Precompiled C++ headers are the exception: their folder is settled at import.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import torch._inductor.codecache as codecache
from torch._dynamo.utils import counters
from torch._inductor.runtime.cache_dir_utils import cache_dir, default_cache_dir

VARIABLE = "TORCHINDUCTOR_CACHE_DIR"

HITS = (("aot_autograd", "autograd_cache_hit"), ("inductor", "fxgraph_cache_hit"))
MISSES = (("aot_autograd", "autograd_cache_miss"), ("inductor", "fxgraph_cache_miss"))
"""Dynamo's counters of both caches that spare a compilation: group, name."""

HOME_CACHES = (".triton", ".nv/ComputeCache")
"""Where Triton and CUDA's compiler of PTX keep things when they are not told otherwise; beneath the home folder."""


def keep_in(folder: str) -> None:
    """Have everything kept in one folder. Call before anything is compiled."""
    os.environ[VARIABLE] = folder
    codecache._HEADER_DIR = str(Path(folder) / "precompiled_headers")
    codecache._HEADER_LOCK_DIR = str(Path(codecache._HEADER_DIR) / "locks")


def is_empty() -> bool:
    """Whether there is not one file in any place where a compiler would look."""
    return not any(path.is_file() for place in _places() for path in place.rglob("*"))


def count(names: Iterable[tuple[str, str]]) -> dict[str, int]:
    """Dynamo's counters, by name."""
    return {name: counters[group][name] for group, name in names}


def _places() -> list[Path]:
    """The last ones are for what does not follow the environment variable."""
    return [Path(cache_dir()), Path(default_cache_dir()), *(Path.home() / name for name in HOME_CACHES)]
