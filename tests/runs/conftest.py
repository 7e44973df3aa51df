"""Whole runs of the fake backend, each in a folder and a cache of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from run_bench import Bench, Commands, new_bench


@pytest.fixture(scope="session")
def commands() -> Iterator[Commands]:
    commands = Commands()
    yield commands
    commands.close()


@pytest.fixture(scope="session")
def references(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of all tests: they have one model and one reference, and what a test is about comes after it."""
    return tmp_path_factory.mktemp("references")


@pytest.fixture
def bench(tmp_path: Path, commands: Commands, references: Path) -> Bench:
    return new_bench(tmp_path, commands, references)
