"""Decoders exported with their cache: a prompt is read into one, and each step takes the keys and values that the one before gave.

What a call gives as `present...` is bound as the next call's `past_key_values...`, without a copy; ONNX Runtime takes the memory of
the longer ones from its arena in each step. On CUDA they stay on the device; tokens, positions and mask are copied there each time.

optimum's graphs compute the logits of every position they are given, not of the last one alone: prefill's time has that in it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime

from harness.worker.api import Arrays, Unsupported
from harness_onnxruntime.binding import BoundSession, Placed

PAST, PRESENT = "past_key_values.", "present."
DECODER_INPUTS = frozenset(("input_ids", "attention_mask", "position_ids"))
ENCODED, ENCODED_MASK = "encoder_hidden_states", "encoder_attention_mask"
CROSS_ATTENTION = ".encoder."
"""In the names of keys and values that were made of what the encoder gave."""

Ids = npt.NDArray[Any]
"""Token ids, a mask or positions: (batch, tokens)."""


@dataclass(frozen=True)
class Prompt:
    """One slot."""

    mask: Ids
    placed: Placed  # what of it is read, on the device
    last: Ids | None = None  # position of each row's last token, (batch, 1), where the decoder that goes on is told it


class Cached(ABC):
    """A model and the cache that its last call gave."""

    session: onnxruntime.InferenceSession  # that of a step

    @abstractmethod
    def prompt(self, slot: Arrays) -> Prompt:
        """Placed, to be read as often as wanted."""

    @abstractmethod
    def read(self, prompt: Prompt) -> None:
        """Logits and a cache of a prompt."""

    @abstractmethod
    def step(self, tokens: Ids) -> None:
        """Logits of one more token in each row, (batch,), and a cache longer by it."""

    @abstractmethod
    def cache(self) -> Placed:
        """Keys and values of all layers."""

    def logits(self) -> npt.NDArray[np.float32]:
        """Of the last position: (batch, vocabulary), on the host; good until the next call."""
        self.wait()
        logits: npt.NDArray[np.float32] = self._given["logits"].numpy()[:, -1]
        return logits

    def wait(self) -> None:
        """Until the device is done."""
        self._ran.wait()

    def _run(self, bound: BoundSession, inputs: Placed) -> None:
        """What the call before gave is let go, but for what is an input of this one: no two caches stand side by side."""
        self._given: dict[str, onnxruntime.OrtValue] = {}
        self._ran = bound
        self._given = bound.run(inputs)

    def _present(self) -> Placed:
        return [(name, value) for name, value in self._given.items() if name.startswith(PRESENT)]


class CachedDecoder(Cached):
    """One graph both reads and continues: the past of a prompt has no positions."""

    def __init__(self, session: onnxruntime.InferenceSession, batch: int) -> None:
        """`batch`: rows of every call. Raises Unsupported where the graph takes more than tokens and a past."""
        self.session = session
        self._bound = _understood(session, DECODER_INPUTS)
        past = {each.name: each.shape for each in session.get_inputs() if each.name.startswith(PAST)}
        kinds = self._bound.inputs
        self._no_past = self._bound.place({name: np.empty(_no_past(past[name], batch), kinds[name]) for name in past})
        self._one_more = np.ones((batch, 1), np.int64)

    def prompt(self, slot: Arrays) -> Prompt:
        """Its positions follow from its mask."""
        mask = slot["attention_mask"]
        positions = _positions(mask)
        return Prompt(mask, self._bound.place({**slot, "position_ids": positions}), positions[:, -1:])

    def read(self, prompt: Prompt) -> None:
        """The whole prompt in one call."""
        self._mask, self._position = prompt.mask, prompt.last
        self._run(self._bound, [*self._no_past, *prompt.placed])

    def step(self, tokens: Ids) -> None:
        """At the position after the last."""
        self._mask = np.concatenate((self._mask, self._one_more), axis=1)
        self._position = self._position + 1
        token = {"input_ids": tokens[:, None], "attention_mask": self._mask, "position_ids": self._position}
        self._run(self._bound, [*_as_past(self.cache()), *self._bound.place(token)])

    def cache(self) -> Placed:
        """What the last call gave."""
        return self._present()


class CachedEncoderDecoder(Cached):
    """Three graphs: the encoder, the decoder at its first token, the decoder at each further one."""

    def __init__(self, sessions: Sequence[onnxruntime.InferenceSession], start_token: int, batch: int) -> None:
        """`sessions`: in that order. `start_token`: what every row of the decoder begins with. Raises Unsupported."""
        encoder, first, further = sessions
        self.session = further
        self._encoder = BoundSession(encoder)
        self._first, self._further = (
            _understood(each, {"input_ids", ENCODED, ENCODED_MASK}) for each in (first, further)
        )
        self._start = self._first.place({"input_ids": np.full((batch, 1), start_token, np.int64)})

    def prompt(self, slot: Arrays) -> Prompt:
        """What the encoder reads."""
        return Prompt(slot["attention_mask"], self._encoder.place(slot))

    def read(self, prompt: Prompt) -> None:
        """The encoder, and the decoder at its first token."""
        encoded = self._encoder.run(prompt.placed)["last_hidden_state"]
        self._encoded = [(ENCODED, encoded), *self._first.place({ENCODED_MASK: prompt.mask})]
        self._run(self._first, [*self._taken(self._first), *self._start])
        self._crossed = [each for each in self._present() if CROSS_ATTENTION in each[0]]

    def step(self, tokens: Ids) -> None:
        """The decoder alone: keys and values of cross-attention stay as they are."""
        token = self._further.place({"input_ids": tokens[:, None]})
        self._run(self._further, [*_as_past(self.cache()), *self._taken(self._further), *token])

    def cache(self) -> Placed:
        """Of both kinds of attention."""
        return [*(each for each in self._present() if CROSS_ATTENTION not in each[0]), *self._crossed]

    def _taken(self, decoder: BoundSession) -> Placed:
        """Of what the encoder gave and its mask, what a graph takes: after the first token the former is not read again."""
        return [each for each in self._encoded if each[0] in decoder.inputs]


def _understood(session: onnxruntime.InferenceSession, known: frozenset[str] | set[str]) -> BoundSession:
    """Raises Unsupported where the graph takes more than `known` and a past."""
    bound = BoundSession(session)
    others = sorted(name for name in bound.inputs if name not in known and not name.startswith(PAST))
    if others:
        raise Unsupported(f"the exported decoder takes {', '.join(others)}, which generation has not got")
    return bound


def _no_past(axes: Sequence[int | str], batch: int) -> list[int]:
    """As [2, 3, 0, 64] for ["batch_size", 3, "past_sequence_length", 64]: no other axes have names."""
    sizes = {"batch_size": batch}
    return [axis if isinstance(axis, int) else sizes.get(axis, 0) for axis in axes]


def _positions(mask: Ids) -> npt.NDArray[np.int64]:
    """Of each token among those to be read: padding before the first counts for nothing."""
    return np.maximum(np.cumsum(mask, axis=1, dtype=np.int64) - 1, 0)


def _as_past(cache: Placed) -> Placed:
    return [(name.replace(PRESENT, PAST, 1), value) for name, value in cache]
