"""What Transformers' Flax code computes wrongly without an error, or not at all with the locked jax, and is repaired here.

A repair mends code before the model is built, or weights inside the traced function, so that what it adds is compiled and timed
like the rest. What cannot be repaired is refused: `harness_flax.architectures`. Errors are of logits of a tiny random model:

    rotary_theta    llama, mistral, gemma use theta 10000 whatever the config says (theta 50: 9 wrong, of logits around 1.6)
    sliding_window  mistral without a window sees the current token alone (8 wrong); a window of n tokens is one of n + 1 (5 wrong)
    tied_head       llama and mistral with tied embeddings have a head of their own, left at random numbers (9 wrong)
    clip            t5, mt5 and longt5 call jnp.clip by names of arguments that jax no longer knows (TypeError)
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from transformers import PretrainedConfig

from harness_flax.architectures import MODEL_TYPES, ROTARY

Weights = dict[str, Any]
"""A tree of arrays, as Flax calls it: names of modules down to names of weights."""


def _leave(_: PretrainedConfig) -> None:
    """No code to mend."""


def _same(weights: Weights) -> Weights:
    """No weights to mend."""
    return weights


def _always(_: PretrainedConfig) -> bool:
    """Whatever the config says."""
    return True


@dataclass(frozen=True)
class Repair:
    """One wrong path, mended for the models that take it."""

    name: str
    model_types: tuple[str, ...]
    tasks: tuple[str, ...] = tuple(MODEL_TYPES)
    needed: Callable[[PretrainedConfig], bool] = _always  # asked for those model types and tasks only
    mend_code: Callable[[PretrainedConfig], None] = _leave  # before the model is built; may change the config
    mend_weights: Callable[[Weights], Weights] = _same  # traced; makes a new tree

    def concerns(self, config: PretrainedConfig, task: str) -> bool:
        """Whether a model goes wrong without it."""
        return config.model_type in self.model_types and task in self.tasks and self.needed(config)


def rotary_table(positions: int, width: int, *, theta: float) -> jax.Array:
    """Sines, then cosines, of the angle of each position and dimension: float32 of (positions, 1, 2 * width).

    In the place of `create_sinusoidal_positions`, which has no theta. In float32 throughout, as PyTorch computes it.
    """
    frequencies = 1.0 / theta ** (np.arange(0, width, 2, dtype=np.float32) / width)
    angles = np.tile(np.outer(np.arange(positions, dtype=np.float32), frequencies), 2)
    return jnp.asarray(np.concatenate((np.sin(angles), np.cos(angles)), axis=-1)[:, None, :])


def _read_theta(config: PretrainedConfig) -> None:
    """Also where it is 10000: a process that has run another model before must not keep that one's."""
    code: Any = importlib.import_module(f"transformers.models.{config.model_type}.modeling_flax_{config.model_type}")
    code.create_sinusoidal_positions = partial(rotary_table, theta=config.rope_theta)


def _say_window_in_earlier_tokens(config: PretrainedConfig) -> None:
    """The Flax code takes the window for the number of tokens seen before the current one, and none for zero."""
    window = config.sliding_window
    config.sliding_window = config.max_position_embeddings if window is None else window - 1


def _clip(values: jax.Array, a_min: Any = None, a_max: Any = None) -> jax.Array:
    return jnp.clip(values, a_min, a_max)


def _know_old_names_of_clip(config: PretrainedConfig) -> None:
    """In the module that calls it so: mt5's classes are made of t5's."""
    family = {"mt5": "t5"}.get(config.model_type, config.model_type)
    code: Any = importlib.import_module(f"transformers.models.{family}.modeling_flax_{family}")
    code.jnp = SimpleNamespace(**{**vars(jnp), "clip": _clip})


def _use_embedding_as_head(weights: Weights) -> Weights:
    return {**weights, "lm_head": {"kernel": weights["model"]["embed_tokens"]["embedding"].T}}


REPAIRS = (
    Repair("rotary_theta", ROTARY, mend_code=_read_theta),
    Repair("sliding_window", ("mistral",), mend_code=_say_window_in_earlier_tokens),
    Repair(
        "tied_head",
        ("llama", "mistral"),
        tasks=("text-generation",),
        needed=lambda config: bool(config.tie_word_embeddings),
        mend_weights=_use_embedding_as_head,
    ),
    Repair("clip", ("t5", "mt5", "longt5"), mend_code=_know_old_names_of_clip),
)
"""All of them; each asks itself whether it concerns a model."""
