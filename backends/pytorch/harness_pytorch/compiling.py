"""torch.compile: the model of SdpaRunner, compiled by Inductor at its first call.

Timed is one call of what `torch.compile(model)` returns. Its compile time is made of the intervals in which Dynamo says that
something is being compiled (`torch._dynamo.callback`: tracing, Inductor, the C++ compiler, CUDA-graph capture) during the
first call; the rest of that call is `first_call`.

All that compilers keep lies in the launch's own cache folder. A launch is cold where no file was there nor anywhere else that they
look, and no graph was found in a cache; warm where one was. Files that hold no such graph make it neither: `stale`.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch._inductor.compile_fx  # what torch.compile would import at its first use: its time is `import`
import torch._inductor.config
from torch._dynamo.utils import counters, get_compilation_metrics

from harness.worker.api import Arrays, Facts, Job, Stages
from harness_pytorch import compile_cache, compiling_generation
from harness_pytorch.compile_log import CompileLog, call_once, wrap
from harness_pytorch.compiling_generation import CompiledGeneration
from harness_pytorch.device import Tensors
from harness_pytorch.generation import Generation, Workload
from harness_pytorch.runner import Forward, SdpaRunner

COMPILE_OPTIONS = ("mode", "dynamic", "fullgraph")


class CompileRunner(SdpaRunner):
    """One compiled model."""

    not_applicable: Mapping[str, str] = {"prepare": "PyTorch runs the checkpoint as it is"}
    _operation: CompiledForward | CompiledGeneration

    def load(self, job: Job) -> Stages:
        """As SdpaRunner; from now on compilations are counted, and caches lie where the job wants them."""
        compile_cache.keep_in(job.cache)
        self._log = CompileLog()
        return super().load(job)

    def facts(self) -> Facts:
        """Those of the model, and what Dynamo and Inductor made of it up to now."""
        common = super().facts()
        context = _context(self._operation.compiled)
        effective = {
            **common.effective,
            "compiled": counters["stats"]["unique_graphs"] > 0,
            "compile_cache": self._found_in_cache(),
            "mode": _mode(context.callback),
            "dynamic": context._dynamic,
            "fullgraph": context.fullgraph,
        }
        return Facts(effective, common.versions, {**common.details, **_compile_details()})

    def compilations(self) -> int:
        """Intervals in which Dynamo compiled or captured."""
        return self._log.intervals

    def close(self) -> None:
        """Compiled code refers to the model: it goes first."""
        if hasattr(self, "_log"):
            self._log.close()
        torch._dynamo.reset()
        super().close()

    def operation(self, name: str, slots: Sequence[Arrays]) -> Forward | Generation:
        """As SdpaRunner, of the compiled model."""
        self._began_cold = compile_cache.is_empty()
        return super().operation(name, slots)

    def _forward(self, slots: Sequence[Tensors], outputs: Sequence[str], items: Mapping[str, int]) -> Forward:
        arguments = (self._model, slots, outputs, items, self._device, self._tensors)
        return CompiledForward(*arguments, options=self._options(), log=self._log)

    def _generation(self, name: str, workload: Workload) -> Generation:
        return compiling_generation.OPERATIONS[name](workload, self._options(), self._log)

    def _options(self) -> dict[str, Any]:
        """Those of torch.compile that were asked for."""
        options = self._job.options
        return {name: options[name] for name in COMPILE_OPTIONS if options.get(name) is not None}

    def _found_in_cache(self) -> str:
        """Whether this launch was cold or warm, or found files but no graph."""
        if any(compile_cache.count(compile_cache.HITS).values()):
            return "warm"
        return "cold" if self._began_cold else "stale"


class CompiledForward(Forward):
    """A forward pass whose first call compiles."""

    def __init__(self, *arguments: Any, options: Mapping[str, Any], log: CompileLog) -> None:
        super().__init__(*arguments)
        self._options = options
        self._log = log

    def compile(self) -> Stages:
        """Wrap the model and make the first call: what of it Dynamo compiled, and what remains."""
        self._model, wrap_stage = wrap(self._model, self._options)
        self.compiled = self._model
        return [wrap_stage, *self._log.first_call(lambda: call_once(self))]


def _context(compiled: Any) -> Any:
    """What was compiled with: an attribute of what came of a module, a variable that what came of a function closes over."""
    if isinstance(compiled, torch.nn.Module):
        return compiled.dynamo_ctx
    return inspect.getclosurevars(compiled).nonlocals["self"]


def _mode(callback: Any) -> str | None:
    """The mode whose settings the compiler behind Dynamo's callback was given; None where they are those of no mode."""
    while hasattr(callback, "_torchdynamo_orig_backend"):
        callback = callback._torchdynamo_orig_backend
    modes = torch._inductor.list_mode_options()
    return next((mode for mode, settings in modes.items() if settings == callback.config), None)


def _compile_details() -> dict[str, Any]:
    metrics = get_compilation_metrics()
    return {
        "graphs": counters["stats"]["unique_graphs"],
        "graph_breaks": dict(counters["graph_break"]),  # reason -> how often
        "recompilations": [metric.recompile_reason for metric in metrics if metric.recompile_reason],
        "cache_hits": compile_cache.count(compile_cache.HITS),
        "cache_misses": compile_cache.count(compile_cache.MISSES),
        "inductor_compile_s": sum(metric.inductor_compile_time_s or 0.0 for metric in metrics),
        "compile_processes": torch._inductor.config.compile_threads,
        "cxx": list(torch._inductor.config.cpp.cxx),
    }
