"""An environment as an executor makes it: numpy, the worker's part of harness, the plugin. Nothing of the host's."""

from __future__ import annotations

import sys
import sysconfig
import venv
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from worker_driver import BATCH, SEQUENCE, WorkerProcess, write_inputs

import harness
from harness.protocol import Job

TESTS = Path(__file__).parents[1]
PLUGINS = TESTS / "plugins"
if str(PLUGINS) not in sys.path:
    sys.path.append(str(PLUGINS))


@pytest.fixture(scope="session")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment that holds only what a worker may use."""
    folder = tmp_path_factory.mktemp("bare") / "environment"
    venv.EnvBuilder(symlinks=True).create(folder)
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(folder)}))
    _link(Path(np.__file__).parent, packages / "numpy")
    _link(PLUGINS / "harness_fake", packages / "harness_fake")
    _link(TESTS / "worker" / "odd_runners.py", packages / "odd_runners.py")
    for part in ("__init__.py", "protocol.py", "tasks.py", "worker"):
        _link(Path(harness.__file__).parent / part, packages / "harness" / part)
    return folder / "bin" / "python"


def _link(target: Path, link: Path) -> None:
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(target)


@pytest.fixture
def worker(bare_python: Path, tmp_path: Path) -> Iterator[WorkerProcess]:
    """A running worker that has said nothing yet."""
    process = WorkerProcess(bare_python, tmp_path / "stderr.log")
    yield process
    process.end()


@pytest.fixture
def make_job(tmp_path: Path) -> Callable[..., Job]:
    """Makes the job of a launch of the fake backend, its options as keywords; `runner=` names another runner."""

    def make(runner: str = "harness_fake.runner:FakeRunner", **options: object) -> Job:
        folders = {name: tmp_path / name for name in ("checkpoint", "inputs", "folder", "scratch", "cache")}
        for folder in folders.values():
            folder.mkdir(exist_ok=True)
        write_inputs(folders["inputs"])
        return Job(
            runner=runner,
            backend="fake",
            task="feature-extraction",
            operation="forward",
            dtype="float32",
            device="cpu",
            threads=1,
            batch_size=BATCH,
            sequence_length=SEQUENCE,
            options=options,
            **{name: str(folder) for name, folder in folders.items()},
        )

    return make
