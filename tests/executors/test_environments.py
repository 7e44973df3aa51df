"""Environments are whole or absent. Builders here write one file; the real ones are in test_venv."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from harness.executors.environments import MARKER, make_once, python_of, remove_unused


def build(folder: Path) -> Mapping[str, Any]:
    python_of(folder).parent.mkdir()
    python_of(folder).symlink_to(sys.executable)
    return {"made": True}


def refuse(folder: Path) -> Mapping[str, Any]:
    raise AssertionError(f"{folder} was whole")


def never_wait() -> None:
    raise AssertionError("nobody else is building")


def test_an_environment_is_built_once_and_remembers_what_it_is_made_of(tmp_path: Path) -> None:
    folder = tmp_path / "cache" / "tiny-1"
    assert make_once(folder, build, never_wait) == {"made": True}
    assert make_once(folder, refuse, never_wait) == {"made": True}


def test_an_environment_without_its_marker_is_built_anew(tmp_path: Path) -> None:
    folder = tmp_path / "tiny-1"
    make_once(folder, build, never_wait)
    (folder / MARKER).unlink()
    (folder / "stale").touch()
    assert make_once(folder, build, never_wait) == {"made": True}
    assert not (folder / "stale").exists()


def test_an_environment_whose_interpreter_was_uninstalled_is_built_anew(tmp_path: Path) -> None:
    folder = tmp_path / "tiny-1"
    make_once(folder, build, never_wait)
    python_of(folder).unlink()
    python_of(folder).symlink_to(tmp_path / "gone")
    make_once(folder, build, never_wait)
    assert python_of(folder).exists()


@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()])
def test_a_build_that_fails_leaves_nothing_behind(tmp_path: Path, error: BaseException) -> None:
    def fail(folder: Path) -> Mapping[str, Any]:
        build(folder)
        raise error

    with pytest.raises(type(error)):
        make_once(tmp_path / "tiny-1", fail, never_wait)
    assert [path.name for path in tmp_path.iterdir()] == [".tiny-1.lock"]


def test_a_builder_killed_in_the_middle_is_cleared_away_by_the_next(tmp_path: Path) -> None:
    script = textwrap.dedent("""\
        import os, signal, sys
        from pathlib import Path
        from harness.executors.environments import make_once
        def build(folder):
            (folder / "half").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        make_once(Path(sys.argv[1]), build, lambda: None)
        """)
    folder = tmp_path / "tiny-1"
    killed = subprocess.run([sys.executable, "-c", script, str(folder)], check=False)
    assert killed.returncode == -9
    assert [path.name for path in tmp_path.glob(".building-tiny-1-*/*")] == ["half"]
    make_once(folder, build, never_wait)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".tiny-1.lock", "tiny-1"]


def test_environments_that_nobody_asked_for_in_a_while_are_removed_and_no_others(tmp_path: Path) -> None:
    for name in ("tiny-old", "tiny-new", "tinier-old"):
        make_once(tmp_path / name, build, never_wait)
    for name in ("tiny-old", "tinier-old"):
        os.utime(tmp_path / name / MARKER, (time.time() - 100, time.time() - 100))
    remove_unused(tmp_path, "tiny-", unused_s=50)
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == [".tinier-old.lock", ".tiny-new.lock", "tinier-old", "tiny-new"]


def test_asking_for_an_environment_counts_as_use(tmp_path: Path) -> None:
    make_once(tmp_path / "tiny-1", build, never_wait)
    os.utime(tmp_path / "tiny-1" / MARKER, (0, 0))
    make_once(tmp_path / "tiny-1", refuse, never_wait)
    remove_unused(tmp_path, "tiny-", unused_s=50)
    assert (tmp_path / "tiny-1").exists()
