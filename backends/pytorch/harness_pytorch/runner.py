"""Eager and SDPA: a Transformers model as PyTorch runs it, operator by operator. `compiling` builds on this module.

Timed is one call of the model as users write it, `model(**inputs)` under `torch.inference_mode()`, which costs 1.5 µs of it.
Inputs are tensors on the device, outputs stay there. `wait` synchronises a GPU; on CPU a call that returned is done.

What a model computes besides what is compared is part of the call: BERT's pooler (27 µs of MiniLM's 25 ms at 1 x 128 tokens).
A forward pass fills no cache: `use_cache` is off, as it has no use for one and the exported graphs of other backends have none.
What is done with prompts, and fills one, is in `generation`.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy.typing as npt
import torch
import transformers
from transformers import AutoConfig, AutoModelForTextEncoding, PreTrainedModel

from harness.tasks import AUTO_CLASSES, GENERATION, TASKS, task_for
from harness.worker.api import (
    Arrays,
    Counters,
    Facts,
    Job,
    Mark,
    Stages,
    Stopwatch,
    Unsupported,
    cpu_counters,
)
from harness.worker.items import count_items
from harness.worker.pretrained import read_model, set_threads
from harness_pytorch import facts, generation, quantising
from harness_pytorch.device import Tensors, find, synchronise
from harness_pytorch.generation import Generation, Workload

CLASSES = {name: getattr(transformers, name) for name in AUTO_CLASSES}
"""By name. Named here and not where they are used, so that Transformers imports them now."""


class TorchRunner:
    """One model in PyTorch. What kind of attention it has is up to the subclass."""

    attn_implementation: ClassVar[str]
    not_applicable: Mapping[str, str] = {
        "prepare": "PyTorch runs the checkpoint as it is",
        "compile": "PyTorch runs operator by operator and compiles nothing",
    }

    def load(self, job: Job) -> Stages:
        """Make the device's context, where it has one; read the weights, then put them on the device."""
        self._job = job
        self._device = find(job.device)
        set_threads(torch, job.threads)
        _set_precision(job.options.get("matmul_precision"))
        watch = Stopwatch()
        if self._device.type == "cuda":
            self._context = facts.make_context()
            watch.lap("context")
        self._model = _read(job, self.attn_implementation)
        watch.lap("read")
        self._model.to(self._device)
        synchronise(self._device)
        watch.lap("to_device")
        return watch.laps

    def prepare(self) -> Stages:
        """Quantise, where int8 is asked for; else nothing."""
        if self._job.dtype != quantising.DTYPE:
            return ()
        watch = Stopwatch()
        quantising.quantise(self._model)
        watch.lap("quantise")
        return watch.laps

    def operation(self, name: str, slots: Sequence[Arrays]) -> Forward | Generation:
        """The forward pass, or what is done with prompts. Raises Unsupported for any other operation."""
        tensors = [self._tensors(slot) for slot in slots]
        items = count_items(slots[0])
        if name == "forward":
            self._operation = self._forward(tensors, TASKS[self._job.task].outputs, items)
        elif name in GENERATION:
            self._operation = self._generation(name, self._workload(tensors, items))
        else:
            raise Unsupported(f"operation {name}: the pytorch backends run forward, prefill, decode and generate")
        return self._operation

    def facts(self) -> Facts:
        """One more call is made, to see which attention kernel it ends up in."""
        self._operation.begin(0)
        kernels = facts.attention_kernels(self._operation.call)
        effective = {
            **facts.in_effect(self._model),
            "threads": torch.get_num_threads(),
            "inference_mode": self._operation.ran_in_inference_mode(),
            "attn_implementation": self._model.config._attn_implementation,
            "sdpa_called": bool(kernels),
            "matmul_precision": torch.get_float32_matmul_precision(),
            **self._operation.facts(),
        }
        details = {**facts.build(), **facts.model(self._model), "attention_kernels": kernels}
        return Facts(effective, facts.versions(), details)

    def compilations(self) -> int:
        """Eager PyTorch never compiles."""
        return 0

    def memory(self, *, reset: bool = False) -> Counters:
        """The weights and the cache; on a GPU also the allocator's counters and the context."""
        own = {"weights_bytes": facts.weights_bytes(self._model), **self._operation.counters()}
        if self._device.type != "cuda":
            return cpu_counters("PyTorch's CPU allocator counts nothing", **own)
        if reset:
            torch.cuda.reset_peak_memory_stats(self._device)
        return own | {
            "allocated_bytes": torch.cuda.memory_allocated(self._device),
            "peak_allocated_bytes": torch.cuda.max_memory_allocated(self._device),
            "peak_reserved_bytes": torch.cuda.max_memory_reserved(self._device),
            "device_context_bytes": self._context,
        }

    def close(self) -> None:
        """Free model, inputs and outputs. A runner that failed before it had them is closed as well."""
        if hasattr(self, "_operation"):
            self._operation.release()
        self.__dict__.clear()
        gc.collect()
        if torch.cuda.is_initialized():
            torch.cuda.empty_cache()

    def _forward(self, slots: Sequence[Tensors], outputs: Sequence[str], items: Mapping[str, int]) -> Forward:
        return Forward(self._model, slots, outputs, items, self._device, self._tensors)

    def _generation(self, name: str, workload: Workload) -> Generation:
        return generation.OPERATIONS[name](workload)

    def _workload(self, slots: Sequence[Tensors], items: Mapping[str, int]) -> Workload:
        job = self._job
        return Workload(
            model=self._model,
            slots=slots,
            items=items,
            device=self._device,
            new_tokens=job.new_tokens,
            do_sample=job.do_sample,
            num_beams=job.num_beams,
            eos_token_ids=job.eos_token_ids,
        )

    def _tensors(self, slot: Arrays) -> Tensors:
        return {name: self._tensor(array) for name, array in slot.items()}

    def _tensor(self, array: npt.NDArray[Any]) -> torch.Tensor:
        """A copy on the device; floating inputs in the model's dtype."""
        tensor = torch.tensor(array, device=self._device)
        return tensor.to(self._model.dtype) if tensor.is_floating_point() else tensor


class EagerRunner(TorchRunner):
    """Attention written out in matrix products and a softmax."""

    attn_implementation = "eager"


class SdpaRunner(TorchRunner):
    """Attention by torch.nn.functional.scaled_dot_product_attention."""

    attn_implementation = "sdpa"


class Forward:
    """One forward pass of a callable that takes named tensors."""

    calls_per_begin = None

    def __init__(
        self,
        model: Callable[..., Any],
        slots: Sequence[Tensors],
        outputs: Sequence[str],
        items: Mapping[str, int],
        device: torch.device,
        place: Callable[[Arrays], Tensors],
    ) -> None:
        self._model = model
        self._slots = slots
        self._outputs = outputs
        self._device = device
        self._place = place
        self.items = items

    def compile(self) -> Stages:
        """Nothing."""
        return ()

    def begin(self, slot: int) -> None:
        """Choose the input."""
        self._inputs = self._slots[slot]

    def transfer(self, arrays: Arrays) -> None:
        """Copy an input to the device, for the next call; it is there when this returns."""
        self._inputs = self._place(arrays)
        self.wait()

    def call(self, mark: Mark | None = None) -> None:  # noqa: ARG002 - a forward pass has no instants of its own
        """The call that is timed."""
        with torch.inference_mode():
            self._last = self._model(**self._inputs)

    def wait(self) -> None:
        """Until the device is done."""
        synchronise(self._device)

    def outputs(self) -> Arrays:
        """What of the last call is compared, float32 copies on the host."""
        return {name: self._last[name].to("cpu", torch.float32, copy=True).numpy() for name in self._outputs}

    def facts(self) -> dict[str, Any]:
        """Nothing beyond what is true of every operation."""
        return {}

    def counters(self) -> Counters:
        """None: nothing is kept from call to call."""
        return {}

    def ran_in_inference_mode(self) -> bool:
        """Told by the outputs of the last call: tensors made in inference mode know it for ever."""
        return all(self._last[name].is_inference() for name in self._outputs)

    def release(self) -> None:
        """Let go of model, inputs and outputs."""
        self.__dict__.clear()


def _set_precision(precision: str | None) -> None:
    """float32 means float32, unless asked otherwise: cuDNN's own default would be TF32."""
    if precision is not None:
        torch.set_float32_matmul_precision(precision)
    torch.backends.cudnn.allow_tf32 = torch.get_float32_matmul_precision() != "highest"


def _read(job: Job, attn_implementation: str) -> PreTrainedModel:
    """The model in evaluation mode. Raises Unsupported where the checkpoint lacks weights that the task needs."""
    model: PreTrainedModel = read_model(
        _model_class(job),
        job.checkpoint,
        dtype=getattr(torch, quantising.STORED_AS if job.dtype == quantising.DTYPE else job.dtype),
        attn_implementation=attn_implementation,
    )
    return model


def _model_class(job: Job) -> Any:
    """By task. What an encoder-decoder extracts features with is its encoder; the decoder is not even loaded.

    Raises Unsupported where Transformers has no class for the model and the task.
    """
    config = AutoConfig.from_pretrained(job.checkpoint, local_files_only=True)
    is_encoder = config.is_encoder_decoder and job.task == "feature-extraction"
    task = task_for(job.task, is_encoder_decoder=config.is_encoder_decoder)
    found: Any = AutoModelForTextEncoding if is_encoder else CLASSES[task.auto_class]
    if type(config) not in found._model_mapping:
        version = transformers.__version__
        raise Unsupported(
            f"task {job.task}: Transformers {version} has no class for it and model type {config.model_type}"
        )
    return found
