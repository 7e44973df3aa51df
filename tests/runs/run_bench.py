"""A folder in which the command `harness` runs the fake backend: real matrix files, environments, workers and results."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from harness.model import Result
from harness.store import ResultStore

PLUGINS = Path(__file__).parents[1] / "plugins"
HARNESS = Path(sys.executable).with_name("harness")

QUICK_PROTOCOL: Mapping[str, Any] = {
    "blocks": 2,
    "round_seconds": 0.01,
    "round_calls": 4,
    "passes": 1,
    "repeats": 0,  # nor are passes made again for it
    "settle_seconds": 0.0,
    "warm_up_window_calls": 3,
    "warm_up_window_seconds": 0.0,
    "warm_up_tolerance": 1000.0,  # a busy machine is not what these tests are about
    "phase_timeout_seconds": 60.0,
    "reference": "fake",
    "baseline": "fake",
}


@dataclass
class Bench:
    """A folder with a model, a matrix and a results directory, and the command to run there."""

    folder: Path
    cache: Path
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
        return subprocess.run(
            self.command(*arguments),
            cwd=self.folder,
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

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
