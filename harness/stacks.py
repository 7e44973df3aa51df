"""The stacks of a run: provided once each, and able to run a tool (such as the one that makes checkpoints)."""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
import uuid
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from harness.engine import EngineLostError
from harness.executors.base import Executor, LaunchSpec, Progress, Provided
from harness.model import Backend, HarnessError
from harness.once import Once

TOOL_TIMEOUT_S = 1800.0


class StackError(HarnessError):
    """A stack that cannot be made; the text names the plugin that offers it."""


class Stacks:
    """Remembers what the executor has provided."""

    def __init__(self, executor: Executor, backends: Mapping[str, Backend], progress: Progress) -> None:
        self._executor = executor
        self._all = tuple(backends.values())
        self._progress = progress
        self._provided = Once[Provided]()

    def provide(self, backend: Backend, device: str = "cpu") -> Provided:
        """The backend's environment or image for a kind of device, made on first use.

        Raises StackError, once tried at once; EngineLostError where it is the engine that is gone, for all stacks.
        """
        return self._provided.get((backend.name, device), lambda: self._made(backend, device))

    def _made(self, backend: Backend, device: str) -> Provided:
        try:
            return self._executor.provide(backend, self._progress, device)
        except EngineLostError:
            raise
        except HarnessError as error:
            raise StackError(f"{backend.offered_by or backend.name}: its stack cannot be made: {error}") from error

    def make_checkpoint(self, spec_json: Path, out_dir: Path) -> None:
        """Run the checkpoint maker of the first stack that has one. Raises HarnessError."""
        backend = _with_maker(self._all)
        assert backend.stack.checkpoint_maker is not None
        self._progress(f"making the checkpoint in stack {backend.stack.name}")
        self.provide(backend)
        arguments = ("-m", backend.stack.checkpoint_maker)
        self._run_tool(backend, arguments, (spec_json, out_dir))

    def _run_tool(self, backend: Backend, arguments: Sequence[str], paths: Sequence[Path]) -> None:
        with tempfile.TemporaryDirectory(prefix="harness-tool-") as scratch:
            launch = LaunchSpec(
                launch_id=f"tool-{uuid.uuid4().hex[:8]}",
                backend=backend,
                folder=paths[-1],
                scratch=Path(scratch),
                readable=paths[:-1],
            )
            visible = [self._executor.visible(launch, path) for path in paths]
            argv = self._executor.command(launch, [*arguments, *visible])
            returncode, log = self._run(argv, launch)
        if returncode != 0:
            raise HarnessError(
                f"`{arguments[-1]}` failed in stack {backend.stack.name} (exit code {returncode}): {_tail(log)}"
            )

    def _run(self, argv: Sequence[str], launch: LaunchSpec) -> tuple[int, str]:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=self._executor.environment(launch),
            text=True,
            errors="replace",
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=TOOL_TIMEOUT_S)
            return process.returncode, output
        except subprocess.TimeoutExpired:
            return -1, f"not done after {TOOL_TIMEOUT_S:g} s"
        finally:
            with contextlib.suppress(ProcessLookupError):
                self._executor.kill(launch, process.pid)
            process.wait()


def _with_maker(backends: Iterable[Backend]) -> Backend:
    for backend in backends:
        if backend.stack.checkpoint_maker:
            return backend
    raise HarnessError(
        "No installed backend can make checkpoints of random or GGUF weights: install harness-pytorch, or use a path: model."
    )


def _tail(log: str, lines: int = 5) -> str:
    return " | ".join(line.strip() for line in log.strip().splitlines()[-lines:]) or "it printed nothing"
