"""What a model is called with: at a prompt, and at each token that continues it.

Prompts are padded on the left. Positions follow from the mask, so a row's first real token has position 0 wherever it stands. Where
no slot has padding the model gets no mask, as Transformers' own generate gives it none then: kernels without one are faster.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import torch
from transformers import PreTrainedModel

from harness.worker.api import Unsupported
from harness_pytorch.device import Tensors

Arguments = dict[str, Any]
"""Of a call of the model, by name; without the cache."""


class Prompt(Protocol):
    """One slot."""

    whole: Tensors  # what generate() is given
    given: int  # tokens of a row of what generate() returns that it did not choose

    def first(self) -> Arguments:
        """The prompt."""

    def carried(self, read: Any) -> Arguments:
        """What every later call is given of what the model made of the prompt, beside the cache."""

    def next(self, token: torch.Tensor, step: int) -> Arguments:
        """The token chosen last, of (batch, 1); `step` is 1 at the first of them."""


def make_prompts(model: PreTrainedModel, slots: Sequence[Tensors], new_tokens: int, *, is_static: bool) -> list[Prompt]:
    """One for each slot. Raises Unsupported where the model's decoder has nothing to begin with."""
    is_padded = any(not bool(slot["attention_mask"].all()) for slot in slots)
    if model.config.is_encoder_decoder:
        start = start_token(model)
        return [EncoderDecoderPrompt(slot, start, is_padded=is_padded) for slot in slots]
    has_positions = "position_ids" in inspect.signature(model.forward).parameters
    settings = {"is_padded": is_padded, "is_static": is_static, "has_positions": has_positions}
    return [DecoderPrompt(slot, new_tokens, **settings) for slot in slots]


def start_token(model: PreTrainedModel) -> int:
    """What the decoder of an encoder-decoder begins with. Raises Unsupported."""
    config = model.generation_config
    found = next((i for i in (config.decoder_start_token_id, config.bos_token_id) if i is not None), None)
    if found is None:
        raise Unsupported("the checkpoint names no decoder_start_token_id: nothing tells how its decoder begins")
    return int(found)


class DecoderPrompt:
    """What a decoder continues.

    A static cache gets one mask for its whole length, the same at every step, so that shapes stay: positions that are not filled
    yet lie after every query and are hidden by that.
    """

    def __init__(
        self, slot: Tensors, new_tokens: int, *, is_padded: bool, is_static: bool, has_positions: bool
    ) -> None:
        ids, mask = slot["input_ids"], slot["attention_mask"]
        self.whole = {"input_ids": ids, "attention_mask": mask}
        self.given = ids.shape[1]
        self._positions = (mask.cumsum(-1) - 1).clamp(min=0) if has_positions else None
        self._next_position = mask.sum(-1, keepdim=True)
        self._mask = torch.nn.functional.pad(mask, (0, new_tokens), value=1) if is_padded else None
        self._is_static = is_static

    def first(self) -> Arguments:
        """All tokens of the prompt."""
        return self._arguments(self.whole["input_ids"], self._positions, self.given)

    def carried(self, read: Any) -> Arguments:  # noqa: ARG002 - the cache has all of it
        """Nothing."""
        return {}

    def next(self, token: torch.Tensor, step: int) -> Arguments:
        """One token, at the position after the last."""
        positions = None if self._positions is None else self._next_position + (step - 1)
        return self._arguments(token, positions, self.given + step)

    def _arguments(self, ids: torch.Tensor, positions: torch.Tensor | None, length: int) -> Arguments:
        mask = self._mask if self._mask is None or self._is_static else self._mask[:, :length]
        optional = {"attention_mask": mask, "position_ids": positions}
        return {"input_ids": ids, **{name: value for name, value in optional.items() if value is not None}}


class EncoderDecoderPrompt:
    """What an encoder reads, once; its decoder begins with a token of its own."""

    given = 1

    def __init__(self, slot: Tensors, start: int, *, is_padded: bool) -> None:
        ids, mask = slot["input_ids"], slot["attention_mask"]
        self.whole = {"input_ids": ids, "attention_mask": mask}
        self._start = torch.full_like(ids[:, :1], start)
        self._masked: Mapping[str, torch.Tensor] = {"attention_mask": mask} if is_padded else {}

    def first(self) -> Arguments:
        """The text for the encoder, and the decoder's first token."""
        return {"input_ids": self.whole["input_ids"], **self._masked, "decoder_input_ids": self._start}

    def carried(self, read: Any) -> Arguments:
        """What the encoder made of the text: it does not run again."""
        return {"encoder_outputs": (read.encoder_last_hidden_state,), **self._masked}

    def next(self, token: torch.Tensor, step: int) -> Arguments:  # noqa: ARG002 - relative positions: the cache knows
        """One token for the decoder."""
        return {"decoder_input_ids": token}
