"""A plugin small enough to be built in seconds, commands that stand in for docker, and a cache of the tests' own."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from executors.tiny_wheel import make_wheel

from harness import cache
from images.doubles import Commands, TinyPlugin


@pytest.fixture(autouse=True)
def _own_cache_and_pip(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """pip as it comes: this machine's settings must not decide tests."""
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path_factory.mktemp("cache")))


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheels")
    make_wheel(folder, "tiny_dependency", "1.0")
    make_wheel(folder, "tiny_dependency", "2.0")
    return folder


@pytest.fixture
def plugin(tmp_path: Path, wheels: Path, monkeypatch: pytest.MonkeyPatch) -> TinyPlugin:
    plugin = TinyPlugin(tmp_path / "plugins")
    plugin.write("__init__.py", "")
    plugin.write("runner.py", "import tiny_dependency\n")
    plugin.lock(f"--no-index\n--find-links {wheels}\ntiny_dependency==1.0\n")
    plugin.lock(f"--no-index\n--find-links {wheels}\ntiny_dependency==2.0\n", "-cuda")
    monkeypatch.syspath_prepend(plugin.folder)
    for name in [name for name in sys.modules if name.partition(".")[0] == "tiny_images"]:
        del sys.modules[name]  # a former test's
    return plugin


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], Commands]:
    """A number of folders, in order, which are the whole path."""

    def make(number: int) -> Commands:
        folders = [tmp_path / f"bin{index}" for index in range(number)]
        for folder in folders:
            folder.mkdir()
        monkeypatch.setenv("PATH", os.pathsep.join(map(str, folders)))
        return Commands(folders)

    return make
