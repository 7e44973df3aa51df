"""Prefill, decode and generate under torch.compile: a static cache, so that no step has a shape of its own.

Prefill and decode call what `torch.compile(model)` returns, whose cache has room for the prompt and all new tokens from the start:
every step attends to all of it, masked where it is not filled. Decode's `begin` reads the prompt by the compiled model too, which
is one graph more: its compile time is decode's as well, as a stage of its own.

Generate compiles in its own way: it makes a static cache for each call, reads the prompt uncompiled and compiles the steps after
it, on a CPU only where its `CompileConfig` says so. Its beam search never compiles, and is not offered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from transformers import CompileConfig, EncoderDecoderCache, StaticCache
from transformers.configuration_utils import get_head_shapes

from harness.worker.api import Stages, Unsupported
from harness_pytorch.compile_log import CompileLog, call_once, wrap
from harness_pytorch.generation import Decode, Generate, Generation, Prefill, Workload


class StaticallyCached(Generation):
    """Beside Prefill or Decode: a cache made beforehand and a compiled model."""

    def __init__(self, workload: Workload, options: Mapping[str, Any], log: CompileLog) -> None:
        super().__init__(workload, make_cache(workload))
        self._options = options
        self._log = log

    def _wrap(self) -> tuple[str, int]:
        self._model, stage = wrap(self._model, self._options)
        self.compiled = self._model
        return stage


class CompiledPrefill(StaticallyCached, Prefill):
    """The prompt, by a compiled model."""

    def compile(self) -> Stages:
        """Wrap the model and read a prompt."""
        return [self._wrap(), *self._log.first_call(lambda: call_once(self), "prefill.dynamo")]


class CompiledDecode(StaticallyCached, Decode):
    """One token more in each row, by a compiled model."""

    def compile(self) -> Stages:
        """Wrap the model, read a prompt and make a step."""
        wrap_stage = self._wrap()
        reading = self._log.first_call(lambda: self.begin(0), "prefill.dynamo", "first_call.begin")
        stepping = self._log.first_call(self._step_and_wait, "decode.dynamo", "first_call.call")
        return [wrap_stage, *reading, *stepping]

    def _step_and_wait(self) -> None:
        self.call()
        self.wait()


class CompiledGenerate(Generate):
    """Transformers' generate, which compiles the steps after the prompt."""

    def __init__(self, workload: Workload, options: Mapping[str, Any], log: CompileLog) -> None:
        config = CompileConfig(**{"mode": "default", **options})  # its own default stands for CUDA graphs
        config._compile_all_devices = True
        super().__init__(workload, cache_implementation="static", compile_config=config)
        self._log = log

    @property
    def compiled(self) -> Any:
        """What generate calls for a step."""
        return self._model._compiled_call

    def compile(self) -> Stages:
        """The first call. Raises Unsupported where Transformers left the model uncompiled."""
        stages = self._log.first_call(lambda: call_once(self), "decode.dynamo")
        if not hasattr(self._model, "_compiled_call"):
            raise Unsupported(f"Transformers' generate does not compile {type(self._model).__name__}")
        return stages


CompiledGeneration = CompiledPrefill | CompiledDecode | CompiledGenerate

OPERATIONS: Mapping[str, Callable[[Workload, Mapping[str, Any], CompileLog], CompiledGeneration]] = {
    "prefill": CompiledPrefill,
    "decode": CompiledDecode,
    "generate": CompiledGenerate,
}
"""By the names of `harness.tasks`."""


def make_cache(workload: Workload) -> Any:
    """Empty, on the device, with room for every token: allocated before anything is compiled, as its making would be otherwise."""
    prompt, new = workload.slots[0]["input_ids"].shape[1], workload.new_tokens or 0
    if not workload.model.config.is_encoder_decoder:
        return _static(workload, prompt + new)
    return EncoderDecoderCache(_static(workload, 1 + new), _static(workload, prompt))


def _static(workload: Workload, length: int) -> StaticCache:
    model = workload.model
    config = model.config.get_text_config(decoder=True)
    cache = StaticCache(config, max_cache_len=length)
    cache.early_initialization(workload.batch, *get_head_shapes(config), model.dtype, model.device)
    return cache
