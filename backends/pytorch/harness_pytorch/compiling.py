"""torch.compile: the model of SdpaRunner, compiled by Inductor at its first call.

Timed is one call of what `torch.compile(model)` returns. Its compile time is made of the intervals in which Dynamo says that
something is being compiled (`torch._dynamo.callback`: tracing, Inductor, the C++ compiler, CUDA-graph capture) during the
first call; the rest of that call is `first_call`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import torch._inductor.compile_fx  # what torch.compile would import at its first use: its time is `import`
import torch._inductor.config
from torch._dynamo.callback import callback_handler
from torch._dynamo.utils import counters, get_compilation_metrics
from torch._inductor.runtime.cache_dir_utils import cache_dir, default_cache_dir

from harness.worker.api import Facts, Job, Stages
from harness_pytorch.runner import Forward, SdpaRunner, Tensors

COMPILE_OPTIONS = ("mode", "dynamic", "fullgraph")


class CompileRunner(SdpaRunner):
    """One compiled model."""

    not_applicable: Mapping[str, str] = {"prepare": "PyTorch runs the checkpoint as it is"}
    _operation: CompiledForward

    def load(self, job: Job) -> Stages:
        """As SdpaRunner; from now on compilations are counted."""
        self._log = CompileLog()
        return super().load(job)

    def facts(self) -> Facts:
        """Those of the model, and what Dynamo and Inductor made of it up to now."""
        common = super().facts()
        context = self._operation.compiled.dynamo_ctx
        effective = {
            **common.effective,
            "compiled": counters["stats"]["unique_graphs"] > 0,
            "compile_cache": "cold" if self._operation.began_cold and not _cache_hits() else "warm",
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

    def _forward(self, slots: Sequence[Tensors], outputs: Sequence[str]) -> Forward:
        options = {name: value for name, value in self._job.options.items() if name in COMPILE_OPTIONS}
        asked = {name: value for name, value in options.items() if value is not None}
        return CompiledForward(self._model, slots, outputs, self._device, options=asked, log=self._log)


class CompiledForward(Forward):
    """A forward pass whose first call compiles."""

    def __init__(self, *arguments: Any, options: Mapping[str, Any], log: CompileLog) -> None:
        super().__init__(*arguments)
        self._options = options
        self._log = log

    def compile(self) -> Stages:
        """Wrap the model and make the first call: what of it Dynamo compiled, and what remains."""
        self.began_cold = not any(_cached_files())
        started_ns = time.perf_counter_ns()
        self._model = self.compiled = torch.compile(self._model, **self._options)
        wrapped_ns = time.perf_counter_ns()
        compiled_before_ns = self._log.total_ns
        self.begin(0)
        self.call()
        self.wait()
        call_ns = time.perf_counter_ns() - wrapped_ns
        compiled_ns = self._log.total_ns - compiled_before_ns
        return [("wrap", wrapped_ns - started_ns), ("dynamo", compiled_ns), ("first_call", call_ns - compiled_ns)]


class CompileLog:
    """Listens to Dynamo from its making to `close`. Its callbacks tell the outermost interval only, whatever nests."""

    def __init__(self) -> None:
        self.intervals = 0
        self.total_ns = 0
        self._started_ns = 0
        callback_handler.register_start_callback(self._start)
        callback_handler.register_end_callback(self._end)

    def close(self) -> None:
        """Listen no more."""
        callback_handler.remove_start_callback(self._start)
        callback_handler.remove_end_callback(self._end)

    def _start(self, _: object) -> None:
        self.intervals += 1
        self._started_ns = time.perf_counter_ns()

    def _end(self, _: object) -> None:
        self.total_ns += time.perf_counter_ns() - self._started_ns


def _cached_files() -> Iterator[Path]:
    """What an earlier compile left. Precompiled headers stay with the user's temporary files, whatever the cache folder is."""
    for folder in (Path(cache_dir()), Path(default_cache_dir()) / "precompiled_headers"):
        yield from (path for path in folder.rglob("*") if path.is_file())


def _cache_hits() -> int:
    return counters["inductor"]["fxgraph_cache_hit"] + counters["aot_autograd"]["autograd_cache_hit"]


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
        "inductor_cache_misses": counters["inductor"]["fxgraph_cache_miss"],
        "inductor_compile_s": sum(metric.inductor_compile_time_s or 0.0 for metric in metrics),
        "compile_processes": torch._inductor.config.compile_threads,
        "cxx": list(torch._inductor.config.cpp.cxx),
    }
