"""What stands for Transformers and for a backend in the tests of applications: a word a token, and parts that sleep."""

from __future__ import annotations

import os
import time
import types
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from harness_fake.runner import FakeOperation, FakeRunner

from harness.worker.api import Arrays, Operation
from harness.worker.items import count_items

TOKENIZE_S, TRANSFER_S = 0.004, 0.002
PAD = 0


class WordTokenizer:
    """Token ids are lengths of words."""

    pad_token: str | None = "[PAD]"
    eos_token: str | None = None
    mask_token_id = 4

    @classmethod
    def from_pretrained(cls, folder: str, *, local_files_only: bool) -> WordTokenizer:
        assert folder
        assert local_files_only
        return cls()

    def __call__(self, text: Sequence[str], max_length: int, **asked: Any) -> Mapping[str, npt.NDArray[np.int64]]:
        assert (asked["padding"], asked["truncation"], asked["return_tensors"]) == ("max_length", True, "np")
        time.sleep(TOKENIZE_S)
        ids = np.full((len(text), max_length), PAD)
        for row, words in enumerate(text):
            lengths = [len(word) for word in words.split()][:max_length]
            ids[row, : len(lengths)] = lengths
        return {"input_ids": ids, "attention_mask": (ids != PAD).astype(np.int64), "token_type_ids": np.zeros_like(ids)}

    def decode(self, ids: Sequence[int]) -> str:
        return "x" * ids[0]


class Unpaddable(WordTokenizer):
    pad_token = None


class HalvingProcessor:
    """Images of half the height and width."""

    @classmethod
    def from_pretrained(cls, folder: str, *, local_files_only: bool) -> HalvingProcessor:
        assert folder
        assert local_files_only
        return cls()

    def __call__(self, images: Sequence[npt.NDArray[np.uint8]], return_tensors: str) -> Mapping[str, Any]:
        assert return_tensors == "np"
        smaller = np.stack([image[::2, ::2] for image in images]).astype(np.float32) / 255
        return {"pixel_values": smaller.transpose(0, 3, 1, 2)}


class LoudnessExtractor:
    """Audio in stretches of four values; says at which rate it takes them."""

    sampling_rate = 16_000

    @classmethod
    def from_pretrained(cls, folder: str, *, local_files_only: bool) -> LoudnessExtractor:
        assert folder
        assert local_files_only
        return cls()

    def __call__(self, audio: Sequence[Any], sampling_rate: int, return_tensors: str) -> Mapping[str, Any]:
        assert (sampling_rate, return_tensors) == (16_000, "np")
        return {"input_values": np.stack(audio)}


class Spelling(WordTokenizer):
    """Says what it was given."""

    def decode(self, ids: Sequence[int]) -> str:
        return "".join("-ab"[token] for token in ids)


class Transformers(types.ModuleType):
    """The module, and the value of USE_TORCH at the moment in which something of it was first asked for."""

    def __init__(self, tokenizer: type[WordTokenizer] = WordTokenizer) -> None:
        super().__init__("transformers")
        self.use_torch: list[str | None] = []
        self._offered = {
            "AutoTokenizer": tokenizer,
            "AutoImageProcessor": HalvingProcessor,
            "AutoFeatureExtractor": LoudnessExtractor,
        }

    def __getattr__(self, name: str) -> Any:
        if name not in self._offered:
            raise AttributeError(name)
        self.use_torch.append(os.environ.get("USE_TORCH"))
        return self._offered[name]


class TakingRunner(FakeRunner):
    """The fake backend with a forward pass that takes arrays."""

    def operation(self, name: str, slots: Sequence[Arrays]) -> Operation:
        assert name == "forward"
        assert len(slots) == 1
        return _TakingForward(self, slots)


class _TakingForward(FakeOperation):
    def transfer(self, arrays: Arrays) -> None:
        time.sleep(TRANSFER_S)
        self._slots, self._slot = [arrays], 0


class GivenArraysOnly(FakeRunner):
    """Its forward pass works on its slots alone."""

    def operation(self, name: str, slots: Sequence[Arrays]) -> Operation:
        operation = super().operation(name, slots)
        members = {member: getattr(operation, member) for member in ("items", "calls_per_begin", "compile", "begin")}
        members |= {member: getattr(operation, member) for member in ("call", "wait", "outputs")}
        slotted: Operation = types.SimpleNamespace(**members)
        return slotted


class ImageRunner(FakeRunner):
    """Says of each image how bright its first colour is, as the logit of the first of two classes."""

    def operation(self, name: str, slots: Sequence[Arrays]) -> Operation:
        assert name == "forward"
        return _Brightness(slots[0])


class AudioRunner(FakeRunner):
    """Hears in each stretch of four values whether it begins with 0, 1 or 2: the class with the highest logit."""

    def operation(self, name: str, slots: Sequence[Arrays]) -> Operation:
        assert name == "forward"
        return _Hearing(slots[0])


class _Given:
    """A forward pass on what is transferred."""

    calls_per_begin = None
    name: str

    def __init__(self, slot: Arrays) -> None:
        self.items = count_items(slot)
        self._given = slot[self.name]

    def compile(self) -> list[tuple[str, int]]:
        return []

    def begin(self, slot: int) -> None:
        raise AssertionError(f"slot {slot} was begun, though arrays come by transfer")

    def transfer(self, arrays: Arrays) -> None:
        assert arrays[self.name].shape == self._given.shape
        self._given = arrays[self.name]

    def call(self, mark: object = None) -> None:
        assert mark is None

    def wait(self) -> None:
        pass


class _Brightness(_Given):
    name = "pixel_values"

    def outputs(self) -> Arrays:
        brightness = self._given[:, 0].mean(axis=(1, 2))
        return {"logits": np.stack([brightness - 0.5, 0.5 - brightness], axis=1)}


class _Hearing(_Given):
    name = "input_values"

    def outputs(self) -> Arrays:
        return {"logits": np.eye(3, dtype=np.float32)[self._given[:, ::4].astype(int)]}
