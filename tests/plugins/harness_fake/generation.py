"""The fake's prefill, decode and generate: a language whose next token follows from the last one and its place.

Its tokens come in pairs whose logits are nearly equal, so that a backend may take one for the other and be right.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.worker.api import FIRST_TOKEN, KV_CACHE_BYTES, TOKEN, Arrays, Counters, Job, Mark
from harness.worker.endings import lengths
from harness_fake.runner import FakeOperation, FakeRunner

VOCABULARY = 20
NEAR = 1e-6
"""By how much the logits of a pair differ."""

CACHE_BYTES = 64
"""Of one token's keys and values."""


def next_logits(last: npt.NDArray[np.int64], place: int) -> npt.NDArray[np.float32]:
    """float32 of (batch, VOCABULARY): of what follows the token `last`, (batch,), at a place of the text that is made."""
    token = np.arange(VOCABULARY)
    return np.asarray(np.sin((last[:, np.newaxis] + 1) * (token // 2 + 2) + place) + token % 2 * NEAR, np.float32)


def spoken(slot: Arrays, new_tokens: int, wrong: str | None = None) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any]]:
    """Greedily, (batch, new tokens) and their logits, (batch, new tokens, VOCABULARY).

    `wrong`: at place 1, `tokens` takes the least likely one, `near_tokens` the other one of the pair.
    """
    last, tokens, logits = slot["input_ids"][:, -1] % VOCABULARY, [], []
    for place in range(new_tokens):
        logits.append(next_logits(last, place))
        order = np.argsort(logits[-1], axis=-1)
        last = order[:, {"tokens": 0, "near_tokens": -2}.get(wrong or "", -1) if place == 1 else -1]
        tokens.append(last)
    return np.stack(tokens, axis=1), np.stack(logits, axis=1)


class FakePrefill(FakeOperation):
    """A prompt to the logits of its last position."""

    def __init__(self, runner: FakeRunner, slots: Sequence[Arrays], job: Job) -> None:
        super().__init__(runner, slots)
        self._job = job

    @property
    def counters(self) -> Counters:
        return {KV_CACHE_BYTES: CACHE_BYTES * self._job.batch_size * self._cached_tokens}

    @property
    def _cached_tokens(self) -> int:
        return self._job.sequence_length

    def _spoken(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any]]:
        return spoken(self._slots[self._slot], self._job.new_tokens or 1, self._options.get("wrong"))

    def outputs(self) -> Arrays:
        self._runner.enter("outputs")
        return {"logits": self._spoken()[1][:, 0]}


class FakeDecode(FakePrefill):
    """A step a call."""

    def __init__(self, runner: FakeRunner, slots: Sequence[Arrays], job: Job) -> None:
        super().__init__(runner, slots, job)
        rows = len(slots[0]["input_ids"])
        self.items: Mapping[str, int] = {"tokens": rows, "samples": rows}
        self.calls_per_begin = (job.new_tokens or 0) - 1
        self._steps = 0

    @property
    def _cached_tokens(self) -> int:
        return self._job.sequence_length + self._steps

    def begin(self, slot: int) -> None:
        super().begin(slot)
        self._steps = 0

    def call(self, mark: Mark | None = None) -> None:
        super().call(mark)
        self._steps += 1

    def outputs(self) -> Arrays:
        self._runner.enter("outputs")
        tokens, logits = self._spoken()
        return {"tokens": tokens[:, self._steps], "logits": logits[:, self._steps]}


class FakeGenerate(FakePrefill):
    """All tokens in a call: the first takes `call_ms`, each further one `token_ms`."""

    def __init__(self, runner: FakeRunner, slots: Sequence[Arrays], job: Job) -> None:
        super().__init__(runner, slots, job)
        rows = len(slots[0]["input_ids"])
        self.items: Mapping[str, int] = {"tokens": rows * (job.new_tokens or 0), "samples": rows}

    @property
    def _new_tokens(self) -> int:
        """Of the longest row."""
        if not self._job.eos_token_ids:
            return self._job.new_tokens or 0
        return int(lengths(self._spoken()[0], self._job.eos_token_ids).max())

    @property
    def _cached_tokens(self) -> int:
        return self._job.sequence_length + self._new_tokens - 1

    def call(self, mark: Mark | None = None) -> None:
        new_tokens = self._new_tokens
        stamp = mark if mark and not self._options.get("stampless") else lambda _: None
        super().call()
        stamp(FIRST_TOKEN)
        for _ in range(new_tokens - 1):
            time.sleep(self._options.get("token_ms", 1.0) / 1000)
            if not self._job.eos_token_ids:
                stamp(TOKEN)

    def outputs(self) -> Arrays:
        self._runner.enter("outputs")
        tokens, logits = self._spoken()
        scores = {"sequences_scores": logits.max(axis=-1).mean(axis=-1)} if self._job.num_beams > 1 else {}
        return {"tokens": self._ended(tokens), **scores}

    def _ended(self, tokens: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Rows filled up after their end; `deaf_to_eos` goes on instead."""
        ending = self._job.eos_token_ids
        if not ending or self._options.get("wrong") == "deaf_to_eos":
            return tokens
        is_after = np.arange(tokens.shape[1]) >= lengths(tokens, ending)[:, np.newaxis]
        return np.where(is_after, ending[0], tokens)


OPERATIONS = {"prefill": FakePrefill, "decode": FakeDecode, "generate": FakeGenerate}
