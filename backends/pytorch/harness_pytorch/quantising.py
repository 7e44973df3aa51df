"""int8 in PyTorch: linear layers quantised dynamically, by torch.ao.quantization.

Weights become 8-bit integers once, with one scale a layer; what goes into a layer is quantised in each call, by its own range, in 7
bits, as 8 could overflow the sums of processors without VNNI. Embeddings, norms and the products of attention stay float32: they
are no linear layers. PyTorch calls this module deprecated in favour of torchao, a distribution of its own; the locked version has
it, and the tests run it.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import torch
from torch.ao.nn.quantized.dynamic import Linear as QuantisedLinear
from torch.ao.quantization import quantize_dynamic
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

DTYPE = "int8"

STORED_AS = "float32"
"""The dtype that a model is read in, to be quantised then."""

MULTIPLYING = (torch.nn.Linear, torch.nn.Conv1d, torch.nn.Conv2d, torch.nn.Conv3d, Conv1D)
"""Layers whose work is a product with their weights, and which quantising must not have left as they were."""


def quantise(model: PreTrainedModel) -> None:
    """In place: the float weights go as their layers are replaced."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="torch.ao.quantization is deprecated")
        quantize_dynamic(model, {torch.nn.Linear}, dtype=torch.qint8, inplace=True)
    model.eval()  # layers are made as if for training, the new ones too


def product_dtypes(model: PreTrainedModel) -> set[str]:
    """What the layers that multiply have their weights in, as {"int8"}; empty where none of them is quantised."""
    quantised = {str(layer.weight().dtype).removeprefix("torch.q") for layer in quantised_layers(model)}
    left = {layer.weight.dtype for layer in model.modules() if isinstance(layer, MULTIPLYING)} if quantised else set()
    return quantised | {str(dtype).removeprefix("torch.") for dtype in left}


def quantised_layers(model: PreTrainedModel) -> Iterator[QuantisedLinear]:
    """Those that hold their weights packed, where no parameter shows them."""
    return (layer for layer in model.modules() if isinstance(layer, QuantisedLinear))


def packed_bytes(model: PreTrainedModel) -> int:
    """Of the quantised layers' weights and biases."""
    return sum(_bytes(layer.weight()) + _bytes(layer.bias()) for layer in quantised_layers(model))


def _bytes(tensor: torch.Tensor | None) -> int:
    return 0 if tensor is None else tensor.numel() * tensor.element_size()
