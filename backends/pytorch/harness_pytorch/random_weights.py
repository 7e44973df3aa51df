"""Makes a checkpoint of seeded random weights.

Its spec, written by `harness.checkpoints.seeded`, holds

    config    keys of config.json, `model_type` among them
    classes   [Transformers class, prefix of its names in the file] ...; of two weights of one name the first is kept
    seed      of every class's weights

The same spec gives the same bytes on one version of torch.

Training starts with biases of zero and norms of one. A backend that forgot a bias would pass unnoticed then, so all weights of
one dimension are spread too.
"""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import load_file, save_file

_SPREAD = 0.1  # standard deviation that is added to weights of one dimension


def make(spec: Mapping[str, Any], folder: Path) -> None:
    """Write the checkpoint of a spec into an empty folder."""
    options = dict(spec["config"])
    config = transformers.AutoConfig.for_model(options.pop("model_type"), **options)
    tensors: dict[str, torch.Tensor] = {}
    for name, prefix in spec["classes"]:
        for key, tensor in _weights(getattr(transformers, name), config, spec["seed"]).items():
            tensors.setdefault(prefix + key, tensor)
    config.save_pretrained(folder)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def _weights(model_class: Any, config: Any, seed: int) -> dict[str, torch.Tensor]:
    """As Transformers stores them: under the names of its files, tied weights once."""
    torch.manual_seed(seed)
    model = model_class(copy.deepcopy(config))  # saving writes the class's name into the config
    _spread_vectors(model)
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        return dict(load_file(Path(folder) / "model.safetensors"))


def _spread_vectors(model: torch.nn.Module) -> None:
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter.add_(torch.randn_like(parameter), alpha=_SPREAD)
