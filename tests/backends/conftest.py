"""The lab: real backends in their real stacks. Its environments and checkpoints are those of the user's own cache."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from answers import Answers, this_machine
from harness_flax import plugin as flax
from harness_onnxruntime import plugin as onnxruntime
from harness_pytorch import plugin as pytorch
from launches import Lab

from harness import cache
from harness.executors.venv import VenvExecutor


@pytest.fixture(scope="session")
def answers(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Answers]:
    machine = this_machine(os.environ.get("CXX", "g++"))
    kept = Answers(cache.room("tests") / "answers", tmp_path_factory.mktemp("answers"), machine)
    yield kept
    kept.end(have_tests_failed=request.session.testsfailed > 0)


@pytest.fixture(scope="module")
def lab(answers: Answers, tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """One for each file: which launches share a process must not depend on what other files have asked before."""
    offered = [backend for plugin in (pytorch, onnxruntime, flax) for backend in plugin.harness_register_backends()]
    executor = VenvExecutor(cache.room("environments"))
    return Lab(executor, {backend.name: backend for backend in offered}, tmp_path_factory.mktemp("lab"), answers)


@pytest.fixture(scope="session")
def keeping_compiler(tmp_path_factory: pytest.TempPathFactory) -> Path | None:
    """The C++ compiler, but what it has made once is kept: beside the environments, and as good for the next session."""
    found = shutil.which(os.environ.get("CXX", "g++"))
    if found is None:
        return None
    program = tmp_path_factory.mktemp("compiler") / "g++"  # Inductor tells kinds of compilers by their names
    script = Path(__file__).with_name("keeping_compiler.py")
    command = shlex.join([sys.executable, "-IS", str(script), str(cache.room("tests") / "compiled"), found])
    program.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    program.chmod(0o755)
    return program


@pytest.fixture(scope="module", autouse=True)
def _kept_compilations(keeping_compiler: Path | None) -> Iterator[None]:
    """For launches in environments. Images have their own, which compiles all anew."""
    with pytest.MonkeyPatch.context() as patch:
        if keeping_compiler is not None:
            patch.setenv("CXX", str(keeping_compiler))
        yield
