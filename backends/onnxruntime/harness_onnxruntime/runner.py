"""ONNX Runtime: the checkpoint exported by optimum, run by an inference session.

Timed is one `session.run_with_iobinding(binding)` with inputs bound as OrtValues on the session's device, and outputs that ONNX
Runtime leaves there: its public call with everything in place. `session.run` with numpy arrays takes the same time on CPU
(18.6 and 18.7 ms, MiniLM, 1 x 128 tokens); optimum's ORTModel around it is not in the call. Prefill and decode are in
`harness_onnxruntime.generation`, generate, which alone imports PyTorch, in `harness_onnxruntime.optimum_generate`.

Loading has no time of its own: the session reads the weights while it is created, which is this backend's compile phase.

The exported model is an artefact, kept in the launch's own cache folder. A launch that finds one there (`compile_cache: warm`)
opens a session on it and exports nothing.
"""

from __future__ import annotations

import gc
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import onnxruntime

from harness.tasks import GENERATION
from harness.worker.api import (
    RUNNERS_COUNTERS,
    Arrays,
    Counters,
    Facts,
    Job,
    Mark,
    Operation,
    Stages,
    Stopwatch,
    Unsupported,
    versions_of,
)
from harness.worker.helper import Helper
from harness.worker.items import count_items
from harness_onnxruntime.artefact import MODEL, Artefact
from harness_onnxruntime.binding import OpenSession, Placed, device_of, inputs_of, place
from harness_onnxruntime.build import parse_build
from harness_onnxruntime.generation import Decode, Exported, Prefill, start_token_of

DISTRIBUTIONS = ("optimum", "optimum-onnx", "onnx", "torch", "transformers", "numpy")

LEVELS = {
    "disabled": onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL,
    "basic": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    "extended": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    "all": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL,
}
LEVEL_NAMES = {level: name for name, level in LEVELS.items()}

PROVIDERS = {
    "cpu": ["CPUExecutionProvider"],
    "cuda": [
        ("CUDAExecutionProvider", {"use_tf32": "0"}),
        "CPUExecutionProvider",
    ],  # float32 is float32 in every backend
}


class SessionOperation(Operation, Protocol):
    """An operation on a session, with what the runner tells of it."""

    session: onnxruntime.InferenceSession  # there is one once it is compiled

    def details(self) -> Mapping[str, Any]:
        """What of the way it is run shows in no option."""

    def counters(self) -> Counters:
        """Bytes of what it keeps from call to call."""

    def release(self) -> None:
        """Let go of session, inputs and outputs."""


class OnnxRuntimeRunner:
    """One exported model and its session."""

    def __init__(self, job: Job) -> None:
        """Start the exporter, unless what it would make is there already; import what generate needs."""
        self._artefact = Artefact(Path(job.cache))
        self._found = self._artefact.state()
        self._exporter = None if self._found == "warm" else Helper("-m", "harness_onnxruntime.export_process")
        self._sessions = 0
        if job.operation == "generate":
            import harness_onnxruntime.optimum_generate  # noqa: F401 - PyTorch's import is `import`, not compile
        self.not_applicable = {"load": "the session reads the weights while it is created"}

    def load(self, job: Job) -> Stages:
        """Nothing yet."""
        self._job = job
        return ()

    def prepare(self) -> Stages:
        """Export, optimise where asked, and see the process that did it end; or nothing, where that was done before."""
        watch = Stopwatch()
        if self._exporter is None:
            self.not_applicable["prepare"] = "prepared artefact reused"
        else:
            self._artefact.describe(self._exported(self._exporter, watch))
            self._exporter.close()
            watch.lap("end_of_exporter")
        self._described = self._artefact.described()
        return watch.laps

    def operation(self, name: str, slots: Sequence[Arrays]) -> SessionOperation:
        """Raises Unsupported for what it cannot run."""
        self._operation = self._made(name, slots)
        return self._operation

    def facts(self) -> Facts:
        """Providers and settings are the session's own; the number of threads is counted, where none but ORT starts any."""
        session, artefact = self._operation.session, self._described
        options = session.get_session_options()
        device = device_of(session)
        effective = {
            "device": device,
            "dtype": artefact["dtype"],
            "threads": 1 + self._threads_started if device == "cpu" else options.intra_op_num_threads,
            "eval_mode": artefact["training_nodes"] == 0,
            "inference_mode": isinstance(session, onnxruntime.InferenceSession),  # which cannot make gradients
            "graph_optimization": LEVEL_NAMES[options.graph_optimization_level],
            "optimum_level": artefact["optimum_level"],
            "compile_cache": self._found,
        }
        details = {
            "providers": session.get_providers(),
            "build": parse_build(onnxruntime.get_build_info(), onnxruntime.cuda_version),
            "threads_started_by_session": self._threads_started,
            "intra_op_num_threads": options.intra_op_num_threads,
            "inter_op_num_threads": options.inter_op_num_threads,
            "execution_mode": options.execution_mode.name,
            "opset": artefact["opset"],
            "operators": artefact[
                "operators"
            ],  # of the file; what the session fuses on top shows in no public interface
            **self._operation.details(),
        }
        return Facts(effective, _versions(), details)

    def compilations(self) -> int:
        """Sessions created."""
        return self._sessions

    def memory(self, *, reset: bool = False) -> Counters:  # noqa: ARG002 - ORT tells no counters to reset
        """The weights in the file, and what exporting them took here: that process is gone, and in no other number."""
        untold = dict.fromkeys(RUNNERS_COUNTERS, "ONNX Runtime tells Python nothing of its allocators")
        was_exported, is_on_cpu = self._exporter is not None, self._job.device == "cpu"
        exporting = self._described["peak_rss_bytes"] if was_exported else self.not_applicable["prepare"]
        no_context = "a CPU has no context" if is_on_cpu else "the session makes it and reads the weights in one"
        return {
            **untold,
            "weights_bytes": self._described["weights_bytes"],
            "device_context_bytes": no_context,
            "exporter_peak_rss_bytes": exporting,
            **self._operation.counters(),
        }

    def close(self) -> None:
        """Free the session, and end the exporter where `prepare` did not come to it."""
        if self._exporter is not None:
            self._exporter.close()
        if hasattr(self, "_operation"):
            self._operation.release()
        self.__dict__.clear()
        gc.collect()

    def _made(self, name: str, slots: Sequence[Arrays]) -> SessionOperation:
        if name == "forward":
            return Forward(self._open_session, slots)
        if name not in GENERATION:
            raise Unsupported(f"operation {name}: onnxruntime runs forward, {', '.join(GENERATION)}")
        start_token = start_token_of(Path(self._job.checkpoint))
        exported = Exported(self._job, self._artefact.folder, self._open_session, start_token)
        if name == "generate":
            from harness_onnxruntime.optimum_generate import Generate  # and PyTorch, which no other operation imports

            return Generate(exported, slots)
        return Prefill(exported, slots) if name == "prefill" else Decode(exported, slots)

    def _exported(self, exporter: Helper, watch: Stopwatch) -> Mapping[str, Any]:
        """Fill the artefact's folder; what the exporter says of it. Raises HelperError."""
        job, level, folder = self._job, self._job.options.get("optimum_level"), str(self._artefact.folder)
        is_quantised = job.dtype == "int8"
        exported = f"{job.scratch}/exported" if level or is_quantised else folder
        with_cache = job.operation in GENERATION
        asked = {"checkpoint": job.checkpoint, "task": job.task, "threads": job.threads, "with_cache": with_cache}
        described = exporter.ask("export", folder=exported, **asked)
        watch.lap("export")
        if level is not None:
            described = exporter.ask("optimise", folder=exported, level=level, into=folder)
            watch.lap("optimise")
        if is_quantised:
            described = exporter.ask("quantise", folder=exported, into=folder)
            watch.lap("quantise")
        return {**described, "optimum_level": level}

    def _open_session(self, file: str) -> onnxruntime.InferenceSession:
        if self._job.device == "cuda":
            onnxruntime.preload_dlls()  # NVIDIA's libraries lie in site-packages, where the loader does not look
        before = _threads()
        session = onnxruntime.InferenceSession(
            str(self._artefact.folder / file), _session_options(self._job), providers=PROVIDERS[self._job.device]
        )
        self._threads_started = _threads() - before
        self._sessions += 1
        return session


class Forward:
    """One forward pass: one binding, whose inputs are exchanged and whose output buffers are used again and again."""

    calls_per_begin: int | None = None

    def __init__(self, open_session: OpenSession, slots: Sequence[Arrays]) -> None:
        self.items: Mapping[str, int] = count_items(slots[0])
        self._open_session = open_session
        self._arrays = slots

    def compile(self) -> Stages:
        """Create the session, then place the inputs: where they belong is only known now."""
        watch = Stopwatch()
        self.session = self._open_session(MODEL)
        watch.lap("session")
        device = device_of(self.session)
        self._binding = self.session.io_binding()
        for output in self.session.get_outputs():
            self._binding.bind_output(output.name, device)
        self._slots = [self._placed(slot) for slot in self._arrays]
        watch.lap("bind")
        return watch.laps

    def begin(self, slot: int) -> None:
        """Bind the input."""
        self._bind(self._slots[slot])

    def transfer(self, arrays: Arrays) -> None:
        """Copy an input to the device and bind it, for the next call; it is there when this returns."""
        self._transferred = self._placed(arrays)  # a binding does not keep what is bound
        self._bind(self._transferred)
        self._binding.synchronize_inputs()

    def call(self, mark: Mark | None = None) -> None:  # noqa: ARG002 - a forward pass has no instants of its own
        """The call that is timed."""
        self.session.run_with_iobinding(self._binding)

    def wait(self) -> None:
        """Until the device is done."""
        self._binding.synchronize_outputs()

    def outputs(self) -> Arrays:
        """All of the graph's outputs. They are copies: the next call writes into the same buffers."""
        names = [output.name for output in self.session.get_outputs()]
        return dict(zip(names, self._binding.copy_outputs_to_cpu(), strict=True))

    def details(self) -> Mapping[str, Any]:
        """What of the way it is run shows in no option."""
        return {"io_binding": True}

    def counters(self) -> Counters:
        """None: it keeps nothing from call to call."""
        return {}

    def release(self) -> None:
        """Let go of session, inputs and outputs."""
        self.__dict__.clear()

    def _placed(self, arrays: Arrays) -> Placed:
        return _placed(arrays, self.session)

    def _bind(self, values: Placed) -> None:
        for name, value in values:
            self._binding.bind_ortvalue_input(name, value)


def _session_options(job: Job) -> onnxruntime.SessionOptions:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = job.threads
    options.inter_op_num_threads = 1
    if (level := job.options.get("graph_optimization")) is not None:
        options.graph_optimization_level = LEVELS[level]
    return options


def _placed(slot: Arrays, session: onnxruntime.InferenceSession) -> Placed:
    """The slot's arrays on the session's device, as its graph wants them. Raises Unsupported where names differ."""
    arrays, wanted = dict(slot), inputs_of(session)
    if "position_ids" in wanted and "position_ids" not in arrays:
        arrays["position_ids"] = _positions(slot["input_ids"])
    if arrays.keys() != wanted.keys():
        raise Unsupported(
            f"the exported graph takes {', '.join(sorted(wanted))}; the inputs are {', '.join(sorted(slot))}"
        )
    return place(arrays, wanted, device_of(session))


def _positions(input_ids: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Those that a model in Transformers takes where none are given: 0, 1, 2 ..., whatever is masked."""
    return np.broadcast_to(np.arange(input_ids.shape[1]), input_ids.shape)


def _threads() -> int:
    """Of this process, those that no framework told us of included."""
    return sum(1 for _ in Path("/proc/self/task").iterdir())


def _versions() -> dict[str, str]:
    # The distribution has one name for CPUs and another for GPUs; the module has one.
    return {"onnxruntime": onnxruntime.__version__, **versions_of(DISTRIBUTIONS)}
