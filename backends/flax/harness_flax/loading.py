"""From a checkpoint to a model's definition and its weights on the device.

Not `FlaxAutoModel.from_pretrained`: that fills the model with random numbers first (95 small compilations, 5 of 6 seconds for
MiniLM), and leaves them where the checkpoint lacks a weight, with a line in the log. Here only shapes are made beforehand, so no
weight can be random. The checkpoint's names and layouts are translated by Transformers' own function.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
import transformers
from flax.traverse_util import flatten_dict, unflatten_dict
from safetensors.numpy import load_file
from transformers import AutoConfig, FlaxPreTrainedModel, PretrainedConfig
from transformers.modeling_flax_pytorch_utils import convert_pytorch_state_dict_to_flax

from harness.tasks import AUTO_CLASSES, task_for
from harness.worker.api import Job
from harness.worker.weights import refuse_missing
from harness_flax.architectures import NAMED_CLASSES
from harness_flax.repairs import Repair, Weights

CLASSES = {name: getattr(transformers, f"Flax{name}") for name in AUTO_CLASSES if hasattr(transformers, f"Flax{name}")}
"""By the names of PyTorch's. There is none for CTC: `NAMED_CLASSES`."""

PREFIXES = {"xlm-roberta": "roberta"}
"""Model type -> what PyTorch's names of a base model's weights begin with, where the Flax class names something else."""

WeightPath = tuple[str, ...]
"""Where a weight is in the tree."""


@dataclass(frozen=True)
class Definition:
    """A model without weights."""

    model: FlaxPreTrainedModel
    repairs: Sequence[Repair]  # those that concern it; their code is mended already, and each call mends the weights

    def mended(self, weights: Weights) -> Weights:
        """The weights as the repaired model has them. To be traced."""
        for repair in self.repairs:
            weights = repair.mend_weights(weights)
        return weights


def define(job: Job, repairs: Sequence[Repair]) -> Definition:
    """The model of a checkpoint, and shapes for its weights."""
    config = AutoConfig.from_pretrained(job.checkpoint, local_files_only=True)
    concerned = [repair for repair in repairs if repair.concerns(config, job.task)]
    for repair in concerned:
        repair.mend_code(config)
    # Not a numpy dtype: the Flax code asks whether it `is` jnp.float32.
    model = _model_class(config, job.task)(config, dtype=getattr(jnp, job.dtype), _do_init=False)
    definition = Definition(model, concerned)
    if concerned:
        _mend_in_calls(definition)
    return definition


def _mend_in_calls(definition: Definition) -> None:
    """Have the model mend in each call the weights that it is called with: as near to their use as a model's own code would.

    What is mended before the loop of a generate() XLA writes out in full: SmolLM2's head, 113 MB, 80 ms of processor time a call.
    """
    kind = type(definition.model)

    @wraps(kind.__call__)
    def call(model: FlaxPreTrainedModel, *inputs: Any, params: Weights, **more: Any) -> Any:
        return kind.__call__(model, *inputs, params=definition.mended(params), **more)

    definition.model.__class__ = type(kind.__name__, (kind,), {"__call__": call})


def _model_class(config: PretrainedConfig, task: str) -> Callable[..., FlaxPreTrainedModel]:
    """By task. What an encoder-decoder extracts features with is its encoder: the decoder's weights find no place in it."""
    named = NAMED_CLASSES.get(task, {}).get(config.model_type)
    auto_class = task_for(task, is_encoder_decoder=config.is_encoder_decoder).auto_class
    make: Callable[..., FlaxPreTrainedModel] = (
        getattr(transformers, named) if named else CLASSES[auto_class].from_config
    )
    return make


def read_weights(definition: Definition, job: Job) -> tuple[Weights, list[str]]:
    """The weights on the device, and the names of those that the model has no place for.

    Raises Unsupported where the checkpoint lacks weights that the task needs. Those that no compared output depends on are zeros.
    """
    read = _translated(definition.model, _read(Path(job.checkpoint), jnp.dtype(job.dtype)))
    needed = flatten_dict(definition.model.params_shape_tree)
    weights = {path: read[path] for path in needed if path in read}
    supplied = flatten_dict(jax.eval_shape(definition.mended, unflatten_dict(weights)))
    missing = [path for path in needed if path not in supplied]
    refuse_missing(map(".".join, missing), definition.model)
    weights |= {path: jnp.asarray(np.zeros(needed[path].shape, jnp.dtype(job.dtype))) for path in missing}
    return jax.block_until_ready(unflatten_dict(weights)), sorted(".".join(path) for path in read if path not in needed)


def _read(folder: Path, dtype: npt.DTypeLike) -> dict[str, npt.NDArray[Any]]:
    """All tensors of a checkpoint under PyTorch's names, floating ones in the dtype."""
    tensors = {
        name: tensor for file in sorted(folder.glob("*.safetensors")) for name, tensor in load_file(file).items()
    }
    return {
        name: tensor.astype(dtype, copy=False) if jnp.issubdtype(tensor.dtype, jnp.floating) else tensor
        for name, tensor in tensors.items()
    }


def _translated(model: FlaxPreTrainedModel, tensors: Mapping[str, npt.NDArray[Any]]) -> dict[WeightPath, jax.Array]:
    """Under Flax's names, in Flax's layouts, on the device."""
    prefix = PREFIXES.get(model.config.model_type, model.base_model_prefix)
    # All that the function asks of a model: its weights, for their names and shapes.
    expected = SimpleNamespace(params=model.params_shape_tree, base_model_prefix=prefix)
    arrays: dict[WeightPath, jax.Array] = flatten_dict(convert_pytorch_state_dict_to_flax(dict(tensors), expected))
    return arrays
