"""What is really in effect in PyTorch, read back from the framework and the model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from transformers import PreTrainedModel

from harness.worker import pretrained
from harness.worker.api import versions_of
from harness_pytorch import quantising
from harness_pytorch.build import parse_build

DISTRIBUTIONS = ("torch", "transformers", "tokenizers", "safetensors", "huggingface_hub", "numpy")

SDPA_KERNEL = "scaled_dot_product"
"""Part of the names of all operators behind scaled_dot_product_attention, one per kernel."""


def versions() -> dict[str, str]:
    """Of the distributions that can change a number. torch's own tells CPU builds from CUDA builds."""
    return versions_of(DISTRIBUTIONS)


def in_effect(model: PreTrainedModel) -> dict[str, Any]:
    """Device, dtype and evaluation mode; of a quantised model, the dtype of its products."""
    found = pretrained.in_effect(model)
    products = quantising.product_dtypes(model)
    return {**found, "dtype": "+".join(sorted(products))} if products else found


def weights_bytes(model: PreTrainedModel) -> int:
    """Bytes of all parameters, and of what quantised layers have instead; tied ones count once."""
    return pretrained.weights_bytes(model) + quantising.packed_bytes(model)


def make_context() -> int | str:
    """Make the first GPU's context, which nothing must have done before; the bytes it took, or why they are not known.

    NVML tells what all processes together have taken of the device, so no other may take or give back any meanwhile: launches
    are opened one at a time.
    """
    try:
        before = torch.cuda.device_memory_used(0)
        torch.cuda.synchronize()
        return torch.cuda.device_memory_used(0) - before
    except Exception as error:  # whatever NVML lacks here, it is no reason to end a launch
        return f"NVML was asked in vain: {error}"


def attention_kernels(call: Callable[[], object]) -> list[str]:
    """The operators behind scaled_dot_product_attention that one call runs; none where attention is written out.

    The profiler without Kineto: it sees compiled graphs' kernels too, and leaves no thread or tracer behind.
    """
    with torch.autograd.profiler.profile(use_kineto=False) as profile:
        call()
    names = {event.name for event in profile.function_events if SDPA_KERNEL in event.name}
    return sorted(name for name in names if name != "aten::scaled_dot_product_attention")  # the one that dispatches


def model(model: PreTrainedModel) -> dict[str, Any]:
    """Classes, for who wonders what was run."""
    modules = {type(module).__name__ for module in model.modules()}
    return {
        "model_class": type(model).__name__,
        "attention_classes": sorted(n for n in modules if "Attention" in n),
        "quantised_layers": len(list(quantising.quantised_layers(model))),
    }


def build() -> dict[str, Any]:
    """How this PyTorch was built and set up."""
    return {
        "build": parse_build(torch.__config__.show()),
        "parallel_backend": torch.__config__.parallel_info().rpartition("ATen parallel backend:")[2].strip(),
        "interop_threads": torch.get_num_interop_threads(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "mkldnn": torch.backends.mkldnn.is_available() and torch.backends.mkldnn.enabled,
        "cudnn_allow_tf32": torch.backends.cudnn.allow_tf32,
        "deterministic_algorithms": torch.are_deterministic_algorithms_enabled(),
    }
