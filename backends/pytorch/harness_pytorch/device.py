"""Where tensors are, and when it is done with them."""

from __future__ import annotations

import torch

from harness.worker.api import Unsupported

Tensors = dict[str, torch.Tensor]
"""Named tensors on the device: one slot's inputs."""


def find(kind: str) -> torch.device:
    """The device of a kind. Raises Unsupported where there is none."""
    if kind == "cuda" and not torch.cuda.is_available():
        raise Unsupported(f"device cuda: this PyTorch ({torch.__version__}) finds no CUDA device here")
    return torch.device(kind)


def synchronise(device: torch.device) -> None:
    """Return when it is done with everything asked of it. On a CPU a call that returned is done."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
