"""BERT's encoder, written out in numpy. Your framework's own model takes the place of this module."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors.numpy import load_file

Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]

WORDS = "embeddings.word_embeddings.weight"


class Bert:
    """A checkpoint in memory; called, it gives the last hidden state, float32 of (batch, tokens, hidden)."""

    def __init__(self, folder: Path, *, transposed: bool) -> None:
        self._config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        stored = {
            name.removeprefix("bert."): tensor for name, tensor in load_file(folder / "model.safetensors").items()
        }
        self.weights = {
            name: _laid_out(name, tensor, transposed)
            for name, tensor in stored.items()
            if name.startswith(("embeddings.", "encoder."))
        }

    @property
    def is_transposed(self) -> bool:
        """As the weights are, whatever was asked for."""
        return self.weights["encoder.layer.0.output.dense.weight"].flags.c_contiguous

    def __call__(self, input_ids: Integers, attention_mask: Integers, token_type_ids: Integers) -> Floats:
        hidden = self._embedded(input_ids, token_type_ids)
        lowest = np.finfo(hidden.dtype).min
        hide_padding = np.where(attention_mask[:, np.newaxis, np.newaxis] == 0, lowest, np.float32(0))
        for layer in range(self._config["num_hidden_layers"]):
            name = f"encoder.layer.{layer}"
            attended = self._attended(hidden, hide_padding, f"{name}.attention.self")
            hidden = self._added(hidden, attended, f"{name}.attention.output")
            grown = _gelu(self._dense(hidden, f"{name}.intermediate.dense"))
            hidden = self._added(hidden, grown, f"{name}.output")
        return hidden

    def _embedded(self, input_ids: Integers, token_type_ids: Integers) -> Floats:
        positions = self.weights["embeddings.position_embeddings.weight"][: input_ids.shape[1]]
        kinds = self.weights["embeddings.token_type_embeddings.weight"][token_type_ids]
        return self._normalised(self.weights[WORDS][input_ids] + positions + kinds, "embeddings.LayerNorm")

    def _attended(self, hidden: Floats, hide_padding: Floats, name: str) -> Floats:
        queries, keys, values = (
            self._heads(self._dense(hidden, f"{name}.{part}")) for part in ("query", "key", "value")
        )
        scores = queries @ keys.swapaxes(-1, -2) / np.float32(math.sqrt(queries.shape[-1])) + hide_padding
        shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
        mixed = (shares / shares.sum(axis=-1, keepdims=True)) @ values
        return mixed.swapaxes(1, 2).reshape(hidden.shape)

    def _heads(self, hidden: Floats) -> Floats:
        """(batch, tokens, hidden) as (batch, heads, tokens, hidden / heads)."""
        batch, tokens, _ = hidden.shape
        return hidden.reshape(batch, tokens, self._config["num_attention_heads"], -1).swapaxes(1, 2)

    def _added(self, hidden: Floats, inner: Floats, name: str) -> Floats:
        return self._normalised(hidden + self._dense(inner, f"{name}.dense"), f"{name}.LayerNorm")

    def _dense(self, hidden: Floats, name: str) -> Floats:
        product: Floats = hidden @ self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]
        return product

    def _normalised(self, hidden: Floats, name: str) -> Floats:
        centred = hidden - hidden.mean(axis=-1, keepdims=True)
        variance = np.square(centred).mean(axis=-1, keepdims=True)
        scaled = centred / np.sqrt(variance + np.float32(self._config.get("layer_norm_eps", 1e-12)))
        normalised: Floats = scaled * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]
        return normalised


def _laid_out(name: str, tensor: npt.NDArray[Any], transposed: bool) -> npt.NDArray[Any]:
    """Matrices of products turned round, so that rows are what goes in: as a view, or as a copy."""
    if tensor.ndim != 2 or name.startswith("embeddings."):
        return tensor
    return np.ascontiguousarray(tensor.T) if transposed else tensor.T


_erf = np.frompyfunc(math.erf, 1, 1)  # numpy has none


def _gelu(values: Floats) -> Floats:
    return values * np.float32(0.5) * (1 + _erf(values / np.float32(math.sqrt(2))).astype(np.float32))
