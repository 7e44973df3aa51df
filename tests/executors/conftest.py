"""Fixtures for a tiny stack: its plugin lies in a temporary folder, its wheels are made here, nothing needs the network."""

from __future__ import annotations

import os
import textwrap
from pathlib import Path

import pytest
from tiny_stack import Plugin, SlowSource
from tiny_wheel import make_wheel

from harness.executors.base import LaunchSpec


@pytest.fixture(autouse=True)
def _pip_without_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine's pip settings, wherever they are, do not reach the tests."""
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)


@pytest.fixture(scope="session")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder of environments for all tests: stacks with equal locks share their base."""
    return tmp_path_factory.mktemp("environments")


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheels")
    make_wheel(folder, "tiny_dependency", "1.0")
    make_wheel(folder, "tiny_dependency", "2.0")
    return folder


@pytest.fixture
def plugin(tmp_path: Path, wheels: Path, monkeypatch: pytest.MonkeyPatch) -> Plugin:
    plugin = Plugin(tmp_path / "plugins")
    plugin.folder.mkdir()
    plugin.write("__init__.py", "")
    plugin.write("runner.py", "import tiny_dependency\n")
    plugin.write("tiny.lock", f"--no-index\n--find-links {wheels}\ntiny_dependency==1.0\n")
    monkeypatch.syspath_prepend(plugin.folder)
    monkeypatch.setenv("PYTHONPATH", str(plugin.folder))  # for hosts that tests start as processes
    return plugin


@pytest.fixture
def slow_source(tmp_path: Path) -> SlowSource:
    folder = tmp_path / "slow"
    folder.mkdir()
    (folder / "hold").touch()
    (folder / "pyproject.toml").write_text(
        textwrap.dedent("""\
        [build-system]
        requires = []
        build-backend = "backend"
        backend-path = ["."]
        """)
    )
    (folder / "backend.py").write_text(
        textwrap.dedent(f"""\
        import os, sys, time
        from pathlib import Path
        sys.path.append({str(Path(__file__).parent)!r})

        def build_wheel(folder, config_settings=None, metadata_directory=None):
            here = Path(__file__).parent
            (here / "starting").write_text(str(os.getpid()))
            (here / "starting").rename(here / "started")
            while (here / "hold").exists():
                time.sleep(0.02)
            from tiny_wheel import make_wheel
            make_wheel(Path(folder), "tiny_slow", "1.0")
            return "tiny_slow-1.0-py3-none-any.whl"
        """)
    )
    return SlowSource(folder)


@pytest.fixture
def launch(tmp_path: Path, plugin: Plugin) -> LaunchSpec:
    scratch, folder = tmp_path / "scratch", tmp_path / "launch"
    scratch.mkdir()
    folder.mkdir()
    return LaunchSpec("launch-1", plugin.backend, folder, scratch)
