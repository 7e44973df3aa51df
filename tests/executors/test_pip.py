"""pip's words become progress, and its failures sentences. `pip` here is a script that says what the real one would."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from harness.executors import pip
from harness.executors.environments import python_of
from harness.model import HarnessError

LOCK = """\
# pip freeze
torch==2.13.0
typing_extensions==4.16.0 \\
    --hash=sha256:0123
--only-binary :all:
"""

SUCCESS = """\
Looking in links: /wheels
Collecting torch==2.13.0 (from -r tiny.lock (line 2))
  Downloading torch-2.13.0-cp311-cp311-manylinux_2_28_x86_64.whl.metadata (29 kB)
  Downloading torch-2.13.0-cp311-cp311-manylinux_2_28_x86_64.whl (190.1 MB)
Processing /wheels/typing_extensions-4.16.0-py3-none-any.whl (from -r tiny.lock (line 3))
WARNING: Retrying (Retry(total=4)) after connection broken by 'NewConnectionError()': /simple/nvidia-cublas-cu12/
Collecting nvidia-cublas-cu12[extra]>=12 (from torch==2.13.0)
Installing collected packages: typing-extensions, nvidia-cublas-cu12, torch
Successfully installed torch-2.13.0
"""


def says(folder: Path, text: str, returncode: int) -> Path:
    """An "environment" whose "python" prints a text and ends."""
    (folder / "words").write_text(text)
    script = python_of(folder)
    script.parent.mkdir()
    script.write_text(f"#!/bin/sh\ncat '{folder}/words'\nexit {returncode}\n")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return folder


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.lock"
    path.write_text(LOCK)
    return path


def silent(line: str) -> None:
    """Progress that nobody reads."""


def failure(folder: Path, lock: Path, text: str) -> str:
    with pytest.raises(HarnessError) as raised:
        pip.install(says(folder, text, 1), lock, "tiny", silent)
    return str(raised.value)


def test_progress_tells_what_is_fetched_and_counts_what_the_lock_pins(tmp_path: Path, lock: Path) -> None:
    told: list[str] = []
    pip.install(says(tmp_path, SUCCESS, 0), lock, "tiny", told.append)
    assert told == [
        "tiny: collecting torch (1 of 2)",
        "tiny: downloading torch-2.13.0-cp311-cp311-manylinux_2_28_x86_64.whl (190.1 MB)",
        "tiny: collecting typing_extensions (2 of 2)",
        "tiny: the package index does not answer, pip tries again",
        "tiny: collecting nvidia-cublas-cu12 (3)",
        "tiny: installing 3 packages",
    ]


@pytest.mark.parametrize(
    ("words", "cause"),
    [
        ("ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device", "the disk is full"),
        (
            "WARNING: Retrying after connection broken by 'NewConnectionError'\nERROR: No matching distribution found for x",
            "could not be reached",
        ),
        ("ERROR: No matching distribution found for torch==2.13.0", "no wheel of torch==2.13.0 for Python 3."),
        (
            "ERROR: Could not find a version that satisfies the requirement a<2 (from b)",
            "no wheel of a<2 for Python 3.",
        ),
        ("ERROR: ResolutionImpossible: for help visit", "contradict"),
        (
            "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.",
            "not the one that the lock names",
        ),
        ("ERROR: [Errno 13] Permission denied: '/cache'", "cannot be written"),
        ("No module named pip", "python -m ensurepip"),
        ("Segmentation fault", "pip ended with 1"),
    ],
)
def test_a_failure_names_its_cause_stack_and_lock(tmp_path: Path, lock: Path, words: str, cause: str) -> None:
    message = failure(tmp_path, lock, words)
    assert cause in message
    assert "stack tiny" in message
    assert str(lock) in message


def test_a_failure_shows_the_last_lines_of_pip_alone(tmp_path: Path, lock: Path) -> None:
    message = failure(tmp_path, lock, "".join(f"line {number}\n" for number in range(100)))
    assert message.splitlines()[-2:] == ["  line 98", "  line 99"]
    assert "line 80" not in message
