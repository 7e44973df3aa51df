"""What one launch is asked for, and what of it is not in effect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.executors.base import Executor, LaunchSpec
from harness.model import Backend, Cell
from harness.protocol import Job


def make_job(
    cell: Cell,
    launch: LaunchSpec,
    executor: Executor,
    checkpoint: Path,
    inputs: Path,
    cache: Path,
    eos_token_ids: Sequence[int] = (),
) -> Job:
    """All that the worker needs to know, with paths as it sees them. The folders are the host's."""

    def visible(path: Path) -> str:
        return executor.visible(launch, path)

    return Job(
        runner=launch.backend.runner,
        backend=cell.backend,
        task=cell.task,
        operation=cell.operation,
        checkpoint=visible(checkpoint),
        inputs=visible(inputs),
        folder=visible(launch.folder),
        scratch=visible(launch.scratch),
        cache=visible(cache),
        dtype=cell.dtype,
        device=cell.device,
        threads=cell.threads,
        batch_size=cell.batch_size,
        sequence_length=cell.sequence_length,
        compile_cache=cell.compile_cache,
        new_tokens=cell.new_tokens,
        do_sample=cell.do_sample,
        num_beams=cell.num_beams,
        eos_token_ids=list(eos_token_ids),
        options=cell.options,
    )


def requested(cell: Cell, backend: Backend) -> dict[str, Any]:
    """What must be in effect: axes, options with a value, what the backend promises, and evaluation mode."""
    options = {name: value for name, value in cell.options.items() if value is not None}
    asked = {"device": cell.device, "dtype": cell.dtype, "threads": cell.threads}
    cached = {"compile_cache": cell.compile_cache} if backend.has_compile_cache else {}
    return {**asked, "eval_mode": True, "inference_mode": True, **backend.expects, **cached, **options}


def differences(requested: Mapping[str, Any], effective: Mapping[str, Any]) -> list[str]:
    """One sentence for each that is not as requested. What is not reported counts as different."""
    return [
        f"{name}: asked for {wanted!r}, " + (f"in effect {effective[name]!r}" if name in effective else "not reported")
        for name, wanted in requested.items()
        if name not in effective or effective[name] != wanted
    ]
