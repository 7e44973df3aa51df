"""A folder in which the command `harness` runs the fake backend: real matrix files, environments, workers and results."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from forked_commands import Command

from harness import cache
from harness.model import Result
from harness.store import ResultStore

PLUGINS = Path(__file__).parents[1] / "plugins"
HARNESS = Path(sys.executable).with_name("harness")

QUICK_PROTOCOL: Mapping[str, Any] = {
    "blocks": 1,
    "round_seconds": 0.01,
    "round_calls": 4,
    "passes": 1,
    "repeats": 0,  # nor are passes made again for it
    "settle_seconds": 0.0,
    "warm_up_window_calls": 3,
    "warm_up_window_seconds": 0.0,
    "warm_up_tolerance": 1000.0,  # a busy machine is not what these tests are about
    "phase_timeout_seconds": 60.0,
    "monitor": False,  # test_monitoring and test_observers have it
    "reference": "fake",
    "baseline": "fake",
}

LIFE_S = 120.0


class Commands:
    """The command `harness`, which starts at once: by `forked_commands`, in a process that has imported it already."""

    def __init__(self) -> None:
        server = [sys.executable, str(Path(__file__).with_name("forked_commands.py"))]
        self._process = subprocess.Popen(server, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)

    def run(
        self, arguments: Sequence[str], folder: Path, variables: Mapping[str, str], life_s: float = LIFE_S
    ) -> subprocess.CompletedProcess[str]:
        """Its exit code is -9 where it was killed, as its life was over."""
        with tempfile.TemporaryDirectory() as told:
            stdout, stderr = Path(told) / "stdout", Path(told) / "stderr"
            for file in (stdout, stderr):  # it may be killed before it is told where to write
                file.touch()
            command = Command(arguments, str(folder), variables, str(stdout), str(stderr), life_s)
            returncode = self._ask(command)
            return subprocess.CompletedProcess(arguments, returncode, stdout.read_text(), stderr.read_text())

    def _ask(self, command: Command) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{json.dumps(dataclasses.asdict(command))}\n")
        return int(self._process.stdout.readline())

    def close(self) -> None:
        self._process.communicate(timeout=60)


@dataclass
class Bench:
    """A folder with a model, a matrix and a results directory, and the command to run there."""

    folder: Path
    cache: Path
    commands: Commands
    variables: dict[str, str] = field(default_factory=dict)

    @property
    def results(self) -> Path:
        return self.folder / "results"

    def write_matrix(
        self,
        fake: Mapping[str, Any] | None = None,
        fake_b: Mapping[str, Any] | None = None,
        protocol: Mapping[str, Any] | None = None,
        **axes: Sequence[Any],
    ) -> Path:
        """One workload for both fakes; options as `fake={"call_ms": 2}`, further axes as lists."""
        options = {name: [value] for name, value in (fake or {}).items()}
        options_b = {name: [value] for name, value in (fake_b or {}).items()}
        backends = {"backend": ["fake", "fake_b"], "fake": options, "fake_b": options_b}
        content = {
            "defaults": {"model": f"path:{self.folder / 'model'}", "sequence_length": 4, "threads": 1},
            "matrix": {**{name: value for name, value in backends.items() if value}, **axes},
            "protocol": {**QUICK_PROTOCOL, **(protocol or {})},
        }
        path = self.folder / "matrix.yaml"
        path.write_text(yaml.safe_dump(content, sort_keys=False))
        return path

    def command(self, *arguments: str | Path) -> list[str]:
        """The argv, for processes that a test starts itself."""
        return [str(HARNESS), *map(str, arguments)]

    def environment(self) -> dict[str, str]:
        ours = {
            "HARNESS_CACHE": str(self.cache),
            "HARNESS_PLUGINS": "harness_fake.plugin",
            "HARNESS_EXECUTOR": "venv",
            "HARNESS_LEASES": str(self.folder),  # tests do not queue for one another
            "PYTHONPATH": str(PLUGINS),
        }
        return {**os.environ, **ours, **self.variables}

    def harness(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        """The command, run to its end; what it prints and its exit code."""
        return self.commands.run([str(each) for each in arguments], self.folder, self.environment())

    def run(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        return self.harness("run", "matrix.yaml", *arguments)

    def by_backend(self) -> dict[str, Result]:
        """Newest results; one workload is expected."""
        return {result.config.backend: result for result in ResultStore.existing(self.results).results()}

    def history(self) -> list[Result]:
        return ResultStore.existing(self.results).history()

    def rows(self) -> list[dict[str, Any]]:
        exported = self.harness("export", "results", "--format", "jsonl")
        assert exported.returncode == 0, exported.stderr
        return [json.loads(line) for line in exported.stdout.splitlines()]


def new_bench(folder: Path, commands: Commands, references: Path) -> Bench:
    """A cache of its own, but for environments (the user's) and references: both are named by their content."""
    own = folder / "cache"
    own.mkdir()
    environments = cache.room("environments")
    environments.mkdir(parents=True, exist_ok=True)
    (own / "environments").symlink_to(environments)
    (own / "references").symlink_to(references)
    _write_model(folder / "model")
    return Bench(folder, own, commands)


def _write_model(folder: Path) -> None:
    folder.mkdir()
    config = {
        "model_type": "bert",
        "vocab_size": 64,
        "hidden_size": 8,
        "max_position_embeddings": 16,
        "type_vocab_size": 2,
    }
    (folder / "config.json").write_text(json.dumps(config))
    header = json.dumps({"w": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}}).encode()
    (folder / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(4))
