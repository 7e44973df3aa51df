"""Application latency: from raw text, images or audio to Python objects, around any runner's forward operation.

One call is what a program does with one batch: the tokenizer, image processor or feature extractor that the checkpoint brings, its
arrays put in place on the device, the model, and what its outputs mean (`harness.worker.postprocess`, where copying them to the
host belongs too). The runner is asked for a forward operation that takes arrays (`harness.worker.api.Transferring`) and for nothing
else, so the parts around the model are the same work for all backends. Marks are `harness.tasks.APPLICATION_PARTS`, each made
when the part is over.

Tokenizers compute in as many threads as the job has. Where the runner has imported no torch, Transformers is kept from importing it
for its tokenizers' sake: nobody who runs ONNX Runtime alone has it in the process.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from harness.tasks import APPLICATION_PARTS, AUDIO_HZ, TASKS, Kind
from harness.worker.api import (
    Arrays,
    Counters,
    Facts,
    Job,
    Mark,
    Operation,
    Runner,
    Stages,
    Stopwatch,
    Transferring,
    Unsupported,
)
from harness.worker.arrays import at_tokens
from harness.worker.checks import build_runner, check_members
from harness.worker.postprocess import POSTPROCESS, Batch, Meaning

TOKENIZED, TRANSFERRED, MODELLED, POSTPROCESSED = APPLICATION_PARTS

Raw = Mapping[str, list[Any]]
"""One call's inputs, one for each row: {"text": [...]}, of pairs {"text", "text_pair"}; {"images"}, each (height, width, 3); or
{"audio"}, each (samples,)."""

Read = Callable[[Raw], Batch]
"""From raw inputs to what the model is given."""

Finish = Callable[[Arrays, Batch], list[Any]]
"""From the model's outputs to one object for each row."""

_LONGEST_EXAMPLE = 200  # characters


def runner_for(job: Job) -> Runner:
    """The job's runner, not loaded; for application latency within one that puts everything else around it."""
    runner = build_runner(job)
    return ApplicationRunner(runner, job) if job.operation == "application" else runner


class Application:
    """Raw inputs to Python objects; `results` are those of the last call."""

    calls_per_begin: int | None = None

    def __init__(self, forward: Transferring, slots: Sequence[Raw], read: Read, finish: Finish, task: str) -> None:
        self.items: Mapping[str, int] = forward.items
        self.results: list[Any] = []
        self._forward = forward
        self._slots = slots
        self._read = read
        self._finish = finish
        self._task = TASKS[task]

    def compile(self) -> Stages:
        """The model, for the shape that reading gives. Where that makes its first call, it is the model's alone."""
        return self._forward.compile()

    def begin(self, slot: int) -> None:
        """Choose the raw input."""
        self._raw = self._slots[slot]

    def call(self, mark: Mark | None = None) -> None:
        """The call that is timed. It is over when it returns, as it ends with work of the host's."""
        mark = mark or _unmarked
        self._batch = self._read(self._raw)
        mark(TOKENIZED)
        self._forward.transfer(self._batch.arrays)
        mark(TRANSFERRED)
        self._forward.call()
        self._forward.wait()
        mark(MODELLED)
        self.results = self._finish(self._forward.outputs(), self._batch)
        mark(POSTPROCESSED)

    def wait(self) -> None:
        """Nothing: the call has waited."""

    def outputs(self) -> Arrays:
        """The model's. Those of padding are zero: nobody is to compare them, and the host does not know where padding is."""
        outputs, mask = dict(self._forward.outputs()), self._batch.arrays.get("attention_mask")
        if self._task.is_per_token and mask is not None:
            outputs |= {name: at_tokens(outputs[name], mask, elsewhere=0) for name in self._task.outputs}
        return outputs


class ApplicationRunner:
    """A runner whose operation is application latency. All else is that of the runner within."""

    def __init__(self, runner: Runner, job: Job) -> None:
        """Imports what reads raw inputs. Raises Unsupported where the stack cannot."""
        config = json.loads((Path(job.checkpoint) / "config.json").read_bytes())
        self._runner = runner
        self._front = _front(job, config)
        self._labels = {int(index): name for index, name in (config.get("id2label") or {}).items()}
        self._task = job.task

    @property
    def not_applicable(self) -> Mapping[str, str]:
        """The runner's own, as they stand when asked for."""
        return self._runner.not_applicable

    def load(self, job: Job) -> Stages:
        """The runner's own stages, then one for what reads raw inputs."""
        stages = self._runner.load(job)
        watch = Stopwatch()
        self._reader = self._front.load()
        watch.lap(self._front.stage)
        return [*stages, *watch.laps]

    def prepare(self) -> Stages:
        """The runner's own."""
        return self._runner.prepare()

    def operation(self, name: str, slots: Sequence[Arrays]) -> Application:
        """The application around the runner's forward, which is given what the first slot comes to: all have its shape.

        Raises Unsupported for another operation, ContractError for a runner whose forward takes no arrays.
        """
        if name != "application":
            raise Unsupported(f"operation {name}: this runner was made for application latency")
        raw = [{name: _rows(array) for name, array in slot.items()} for slot in slots]
        forward = self._runner.operation("forward", [self._reader.read(raw[0]).arrays])
        check_members(forward, Operation)
        check_members(forward, Transferring)
        self._operation = Application(cast(Transferring, forward), raw, self._reader.read, self._finish, self._task)
        return self._operation

    def facts(self) -> Facts:
        """The runner's own; what reads raw inputs, and an object that came out, for people to see that it means something."""
        if not self._operation.results:  # the first call was the model's alone
            self._operation.begin(0)
            self._operation.call()
        facts, example = self._runner.facts(), repr(self._operation.results[0])
        told = {
            "reader": self._reader.name,
            "example": example[:_LONGEST_EXAMPLE],
            "torch_imported": "torch" in sys.modules,
        }
        return replace(facts, details={**facts.details, "application": told})

    def compilations(self) -> int:
        """The runner's own."""
        return self._runner.compilations()

    def memory(self, *, reset: bool = False) -> Counters:
        """The runner's own."""
        return self._runner.memory(reset=reset)

    def close(self) -> None:
        """The runner's own."""
        self._runner.close()

    def _finish(self, outputs: Arrays, batch: Batch) -> list[Any]:
        meaning = Meaning(self._labels, self._reader.text_of, self._reader.mask_id, self._reader.spell)
        return POSTPROCESS[self._task](outputs, batch, meaning)


def _unmarked(name: str) -> None:
    """What a call is stamped with where nobody asked."""


def _rows(array: npt.NDArray[Any]) -> list[Any]:
    """A text for each row, as Python has them, or the array of an image."""
    return array.tolist() if array.ndim == 1 else list(array)


# --- what reads raw inputs ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Reader:
    """A tokenizer, image processor or feature extractor, loaded."""

    name: str  # its class
    read: Read
    text_of: Callable[[int], str] = str
    mask_id: int | None = None
    spell: Callable[[Sequence[int]], str] = str


@dataclass(frozen=True)
class _Front:
    """A tokenizer, image processor or feature extractor, imported."""

    stage: str  # what loading it is called
    load: Callable[[], _Reader]


def _front(job: Job, config: Mapping[str, Any]) -> _Front:
    """By the keys that tell what a model takes, as `harness.support` knows them on the host."""
    if "num_channels" in config:
        return _images_front(job)
    return _audio_front(job) if "conv_dim" in config else _text_front(job, config)


def _images_front(job: Job) -> _Front:
    loader = _imported("AutoImageProcessor")

    def load() -> _Reader:
        processor = _from_checkpoint(loader, job)
        return _Reader(type(processor).__name__, lambda raw: _pixels(processor, raw))

    return _Front("image_processor", load)


def _audio_front(job: Job) -> _Front:
    loader = _imported("AutoFeatureExtractor")
    tokenizers = _imported("AutoTokenizer") if TASKS[job.task].inputs is Kind.AUDIO else None

    def load() -> _Reader:
        extractor = _from_checkpoint(loader, job)
        if extractor.sampling_rate != AUDIO_HZ:
            raise Unsupported(
                f"application latency: the checkpoint reads {extractor.sampling_rate} Hz, audio here has {AUDIO_HZ}"
            )
        spell = _from_checkpoint(tokenizers, job).decode if tokenizers else str
        return _Reader(type(extractor).__name__, lambda raw: _waveforms(extractor, raw), spell=spell)

    return _Front("feature_extractor", load)


def _text_front(job: Job, config: Mapping[str, Any]) -> _Front:
    loader = _imported("AutoTokenizer")
    has_segments = config.get("type_vocab_size", 0) > 1
    _set_threads(job.threads)

    def load() -> _Reader:
        tokenizer = _able_to_pad(_from_checkpoint(loader, job))
        read = _TextReader(tokenizer, job, has_segments=has_segments)
        return _Reader(type(tokenizer).__name__, read, lambda token: tokenizer.decode([token]), tokenizer.mask_token_id)

    return _Front("tokenizer", load)


def _pixels(processor: Any, raw: Raw) -> Batch:
    return Batch({"pixel_values": processor(images=raw["images"], return_tensors="np")["pixel_values"]})


def _waveforms(extractor: Any, raw: Raw) -> Batch:
    return Batch({"input_values": extractor(raw["audio"], sampling_rate=AUDIO_HZ, return_tensors="np")["input_values"]})


class _TextReader:
    """Encodes texts to rows of the job's length: cut off or padded, so that every call has the shape of the cell."""

    def __init__(self, tokenizer: Any, job: Job, *, has_segments: bool) -> None:
        self._tokenizer = tokenizer
        self._is_pair = TASKS[job.task].inputs is Kind.PAIR
        self._names = ("input_ids", "attention_mask", *(["token_type_ids"] if has_segments else []))
        self._asked = {
            "padding": "max_length",
            "truncation": "only_second" if self._is_pair else True,
            "max_length": job.sequence_length,
            "return_tensors": "np",
            "return_attention_mask": True,
            "return_token_type_ids": has_segments,
            "return_offsets_mapping": self._is_pair,
        }

    def __call__(self, raw: Raw) -> Batch:
        encoded = self._tokenizer(**raw, **self._asked)
        arrays = {name: encoded[name] for name in self._names}
        if not self._is_pair:
            return Batch(arrays, raw["text"])
        in_text = np.array([[part == 1 for part in encoded.sequence_ids(row)] for row in range(len(raw["text"]))])
        return Batch(arrays, raw["text_pair"], encoded["offset_mapping"], in_text)


def _able_to_pad(tokenizer: Any) -> Any:
    """With the end's token where it has none for padding, as people who must pad take it: the mask hides it."""
    if tokenizer.pad_token is None:
        if tokenizer.eos_token is None:
            raise Unsupported("application latency: the tokenizer has no token to pad with, nor one for the end")
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def _from_checkpoint(loader: Any, job: Job) -> Any:
    """Raises Unsupported where it needs a package that the stack lacks, as an image processor may."""
    try:
        return loader.from_pretrained(job.checkpoint, local_files_only=True)
    except ImportError as error:
        raise Unsupported(f"application latency: {' '.join(str(error).split())}") from error


def _imported(name: str) -> Any:
    """What loads tokenizers or image processors. Raises Unsupported where the stack has no Transformers."""
    with _without_torch():
        try:
            return getattr(importlib.import_module("transformers"), name)
        except ModuleNotFoundError as error:
            raise Unsupported(f"application latency: this stack has no {error.name}, which reads raw inputs") from error


@contextlib.contextmanager
def _without_torch() -> Iterator[None]:
    """Where the runner has not imported it, Transformers does not do so either: it looks at this variable once."""
    if "torch" in sys.modules:
        yield
        return
    before = os.environ.get("USE_TORCH")
    os.environ["USE_TORCH"] = "0"
    try:
        yield
    finally:
        del os.environ["USE_TORCH"]
        if before is not None:
            os.environ["USE_TORCH"] = before


def _set_threads(threads: int) -> None:
    """Tokenizers read both when they first work on a batch."""
    os.environ["RAYON_NUM_THREADS"] = str(threads)
    os.environ["TOKENIZERS_PARALLELISM"] = "true" if threads > 1 else "false"
