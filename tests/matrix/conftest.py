"""Plugins made of small backends, and matrix files written where the test runs."""

from __future__ import annotations

import importlib.metadata
import sys
import textwrap
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from small_backends import EAGER, ORT, identify

from harness.hookspecs import hookimpl
from harness.matrix import expand
from harness.model import Backend, HarnessError, Matrix
from harness.plugins import Plugins, load


@pytest.fixture
def make_plugins(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Plugins]:
    """Plugins of one module that offers these backends and implements these hooks; nothing installed is seen."""

    def make(*backends: Backend, **hooks: Callable[..., Any]) -> Plugins:
        module = types.ModuleType("small_plugin")
        module.harness_register_backends = hookimpl(lambda: backends)  # type: ignore[attr-defined]
        for name, function in hooks.items():
            setattr(module, name, hookimpl(function))
        monkeypatch.setitem(sys.modules, "small_plugin", module)
        monkeypatch.setattr(importlib.metadata, "entry_points", lambda **_: ())
        return load(["small_plugin"])

    return make


@pytest.fixture
def plugins(make_plugins: Callable[..., Plugins]) -> Plugins:
    return make_plugins(EAGER, ORT)


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Writes m.yaml into the current folder, an empty one."""
    monkeypatch.chdir(tmp_path)

    def write(text: str) -> Path:
        path = Path("m.yaml")
        path.write_text(textwrap.dedent(text))
        return path

    return write


@pytest.fixture
def expand_text(write: Callable[[str], Path], plugins: Plugins) -> Callable[[str], Matrix]:
    return lambda text: expand(write(text), plugins, identify)


@pytest.fixture
def refusal(expand_text: Callable[[str], Matrix]) -> Callable[[str], str]:
    """The sentence with which a matrix file is refused."""

    def refusal(text: str) -> str:
        with pytest.raises(HarnessError) as error:
            expand_text(text)
        return str(error.value)

    return refusal
