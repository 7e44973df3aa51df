"""Prefill and decode: calls of sessions on a decoder exported with its cache, as `harness_onnxruntime.caches` makes them.

The next token is chosen by NumPy from the bound logits, which on CPU lie where NumPy reads them. On CUDA logits (batch x vocabulary
x 4 bytes) are copied to the host in each step: ONNX Runtime offers no argmax outside a graph. (That path has not been run.)
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from harness.worker.api import KV_CACHE_BYTES, Arrays, Counters, Job, Mark, Stages, Stopwatch, Unsupported
from harness.worker.items import count_items
from harness_onnxruntime.artefact import ENCODER_DECODER, MODEL
from harness_onnxruntime.binding import OpenSession
from harness_onnxruntime.caches import Cached, CachedDecoder, CachedEncoderDecoder

START_TOKENS = ("decoder_start_token_id", "bos_token_id")
"""Keys of config.json, the first that is there counts."""


def start_token_of(checkpoint: Path) -> int | None:
    """What the decoder of an encoder-decoder begins with, by its config.json; None of other models. Raises Unsupported."""
    config = json.loads((checkpoint / "config.json").read_text())
    if not config.get("is_encoder_decoder"):
        return None
    found = next((config[name] for name in START_TOKENS if config.get(name) is not None), None)
    if found is None:
        raise Unsupported(f"config.json names no {START_TOKENS[0]}: nothing tells how the model's decoder begins")
    return int(found)


@dataclass(frozen=True)
class Exported:
    """What operations of generation are made from."""

    job: Job
    folder: Path  # of the exported files and their config.json
    open_session: OpenSession
    start_token: int | None  # what the decoder of an encoder-decoder begins with; None: a decoder continues its prompt

    @property
    def new_tokens(self) -> int:
        """How many tokens are to be made: the host asks for none without a number."""
        assert self.job.new_tokens is not None
        return self.job.new_tokens

    def open_files(self) -> list[Any]:
        """A session on each file: one, or those of encoder and decoder."""
        return [self.open_session(name) for name in ((MODEL,) if self.start_token is None else ENCODER_DECODER)]

    def open_cached(self, batch: int) -> Cached:
        """For calls of so many rows. Raises Unsupported."""
        sessions = self.open_files()
        if self.start_token is None:
            return CachedDecoder(sessions[0], batch)
        return CachedEncoderDecoder(sessions, self.start_token, batch)


class _OnPrompts:
    """What prefill and decode share."""

    def __init__(self, exported: Exported, slots: Sequence[Arrays]) -> None:
        self._exported = exported
        self._slots = slots

    def compile(self) -> Stages:
        """Create the sessions, then place the prompts: where they belong is only known now."""
        watch = Stopwatch()
        self._cached = self._exported.open_cached(len(self._slots[0]["input_ids"]))
        self.session = self._cached.session
        watch.lap("session")
        self._prompts = [self._cached.prompt(slot) for slot in self._slots]
        watch.lap("bind")
        return watch.laps

    def wait(self) -> None:
        """Until the device is done."""
        self._cached.wait()

    def details(self) -> Mapping[str, Any]:
        """What of the way it is run shows in no option."""
        return {"io_binding": True, "cache": "outputs bound as inputs", "logits_computed": "of every position given"}

    def counters(self) -> Counters:
        """The cache after the last call."""
        return {KV_CACHE_BYTES: sum(value.tensor_size_in_bytes() for _, value in self._cached.cache())}

    def release(self) -> None:
        """Let go of sessions, inputs and outputs."""
        self.__dict__.clear()


class Prefill(_OnPrompts):
    """A prompt to the logits of its last position and a cache in memory of its own."""

    calls_per_begin: int | None = None

    def __init__(self, exported: Exported, slots: Sequence[Arrays]) -> None:
        super().__init__(exported, slots)
        self.items: Mapping[str, int] = count_items(slots[0])

    def begin(self, slot: int) -> None:
        """Choose the prompt."""
        self._chosen = self._prompts[slot]

    def call(self, mark: Mark | None = None) -> None:  # noqa: ARG002 - reading a prompt has no instants of its own
        """The call that is timed."""
        self._cached.read(self._chosen)

    def outputs(self) -> Arrays:
        """The last position's logits."""
        return {"logits": np.array(self._cached.logits())}


class Decode(_OnPrompts):
    """A token in, the likeliest next one out."""

    def __init__(self, exported: Exported, slots: Sequence[Arrays]) -> None:
        super().__init__(exported, slots)
        batch = len(slots[0]["input_ids"])
        self.items: Mapping[str, int] = {"tokens": batch, "samples": batch}
        self.calls_per_begin: int | None = exported.new_tokens - 1

    def begin(self, slot: int) -> None:
        """Read the prompt and choose the first token."""
        self._cached.read(self._prompts[slot])
        self._choose()

    def call(self, mark: Mark | None = None) -> None:  # noqa: ARG002 - one step has no instants of its own
        """The call that is timed: from a token to the next."""
        self._cached.step(self._tokens)
        self._choose()

    def outputs(self) -> Arrays:
        """The token chosen last in each row and the logits that it was chosen from."""
        return {"tokens": self._tokens, "logits": np.array(self._logits)}

    def _choose(self) -> None:
        self._logits = self._cached.logits()
        self._tokens = self._logits.argmax(axis=-1)
