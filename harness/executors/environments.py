"""Virtual environments that are made once and kept: whole or absent, whatever is killed when.

An environment is built aside, in `.building-<name>-…`, gets its marker as the last file and is renamed into place. A lock
file lets one process at a time build; the next one finds the work done, and clears what a killed builder left.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sysconfig
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from harness.cache import alone

MARKER = "harness-environment.json"
"""Says that an environment is whole, and what it is made of. Its modification time is the last use."""


def make_once(
    folder: Path, build: Callable[[Path], Mapping[str, Any]], on_wait: Callable[[], None]
) -> Mapping[str, Any]:
    """What `build` said of the environment `folder`: built now, unless it is whole.

    `build` fills the folder it is given, which is not the final one, and returns JSON values to remember. `on_wait` is
    called once where another process is building. What `build` raises passes through, and nothing stays behind.
    """
    facts = _facts_of(folder)
    if facts is None:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with alone(_lock_file(folder), on_wait):
            facts = _facts_of(folder) or _make(folder, build)
    with contextlib.suppress(OSError):  # a cache that is read-only does not need tidying either
        os.utime(folder / MARKER)
    return facts


def is_whole(folder: Path) -> bool:
    """Whether `make_once` would find the environment `folder` made."""
    return _facts_of(folder) is not None


def remove_unused(parent: Path, prefix: str, unused_s: float) -> None:
    """Remove the environments in `parent` whose name starts with `prefix` and that nobody asked for in `unused_s` seconds."""
    for marker in parent.glob(f"{prefix}*/{MARKER}"):
        with contextlib.suppress(OSError):  # another run may be tidying as well
            if time.time() - marker.stat().st_mtime > unused_s:
                _remove(marker)


def _remove(marker: Path) -> None:
    marker.unlink()  # first: an environment half removed must not look whole
    shutil.rmtree(marker.parent, ignore_errors=True)
    _lock_file(marker.parent).unlink(missing_ok=True)


def python_of(folder: Path) -> Path:
    """The interpreter of an environment."""
    return folder / "bin" / "python"


def site_packages(folder: Path) -> Path:
    """Where an environment keeps its packages."""
    return Path(sysconfig.get_path("purelib", "venv", {"base": str(folder)}))


def _facts_of(folder: Path) -> Mapping[str, Any] | None:
    """None where the environment is not whole, which it also is not once the interpreter it points to was uninstalled."""
    try:
        facts: Mapping[str, Any] = json.loads((folder / MARKER).read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return facts if python_of(folder).exists() else None


def _make(folder: Path, build: Callable[[Path], Mapping[str, Any]]) -> Mapping[str, Any]:
    prefix = f".building-{folder.name}-"
    for leftover in folder.parent.glob(f"{prefix}*"):
        shutil.rmtree(leftover, ignore_errors=True)
    aside = Path(tempfile.mkdtemp(prefix=prefix, dir=folder.parent))
    try:
        facts = build(aside)
        (aside / MARKER).write_text(json.dumps(facts, indent=1), "utf-8")
        shutil.rmtree(folder, ignore_errors=True)  # there, but not whole
        aside.rename(folder)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise
    return facts


def _lock_file(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.lock")
