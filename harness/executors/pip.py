"""Runs pip: its output as short lines of progress, its failure as a sentence that says what to do."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from harness.executors.base import Progress
from harness.executors.processes import run_tethered
from harness.model import HarnessError

_SHOWN_LINES = 12
"""Of pip's output, in the error."""

_COLLECTING = re.compile(r"(?:Collecting|Processing) (?:\S*/)?([\w.]+(?:-(?!\d)[\w.]+)*)")
"""A requirement, or the path of a wheel: the name ends before the first `-` that a digit follows."""

_DOWNLOADING = re.compile(r"\s*Downloading (\S+) \(([\d.]+ [MG]B)\)")
"""Large ones only: small ones go by too fast to read."""

_INSTALLING = re.compile(r"Installing collected packages: (.+)")

_CAUSES = (
    # In order: an unreachable index also says "no matching distribution", a full disk may say anything after it.
    (
        r"No space left on device|Disk quota exceeded",
        "the disk is full: free space, or point HARNESS_CACHE to another disk",
    ),
    (
        r"connection broken by|Failed to establish a new connection|Max retries exceeded|Read timed out|"
        r"name resolution|CERTIFICATE_VERIFY_FAILED|Tunnel connection failed",
        "the package index could not be reached: check the network and pip's settings (`pip config list`)",
    ),
    (r"DO NOT MATCH THE HASHES", "a downloaded file is not the one that the lock names: refresh the lock or the index"),
    (
        r"ResolutionImpossible|conflicting dependencies|user requested \(constraint\)",
        "the pins contradict each other or pip's constraints: refresh the lock",
    ),
    (
        r"No matching distribution found|Could not find a version",
        "the index has no such version for this Python and platform: refresh the lock, or use another Python",
    ),
    (r"No module named pip\b", "the Python of this command has no pip: give it one with `python -m ensurepip`"),
    (r"Permission denied", "a folder cannot be written: check its owner, or point HARNESS_CACHE elsewhere"),
)


def install(python: Path, lock: Path, stack: str, progress: Progress) -> None:
    """Install what `lock` pins into the environment of `python`. Raises HarnessError with the cause and pip's last lines."""
    undone = f"stack {stack}: its environment cannot be made from {lock}"
    _run(python, ["install", "--requirement", str(lock)], _Narrator(stack, _pins(lock), progress), undone)


def download(lock: Path, folder: Path, target: Sequence[str], stack: str, progress: Progress) -> None:
    """Fetch the wheels of what `lock` pins, and of what those need beyond it on this index, with the pip of this interpreter.

    `target` are pip's options that say for which interpreter and platform. Raises HarnessError as `install` does.
    """
    undone = f"stack {stack}: its wheels cannot be fetched for {lock}"
    wanted = ["--requirement", str(lock), "--only-binary", ":all:", *target]
    narrator = _Narrator(stack, _pins(lock), progress)
    _run(Path(sys.executable), ["download", "--dest", str(folder), *wanted], narrator, undone)


def _run(python: Path, arguments: Sequence[str], narrator: _Narrator, undone: str) -> None:
    returncode = run_tethered(python, "pip", [*arguments, "--no-input", "--disable-pip-version-check"], narrator.hear)
    if returncode != 0:
        raise HarnessError(_failure(undone, returncode, narrator.lines))


class _Narrator:
    """Listens to pip and tells progress."""

    def __init__(self, stack: str, pins: int, progress: Progress) -> None:
        self.lines: list[str] = []
        self._stack = stack
        self._pins = pins
        self._progress = progress
        self._collected = 0

    def hear(self, line: str) -> None:
        self.lines.append(line)
        told = self._told(line)
        if told:
            self._progress(f"{self._stack}: {told}")

    def _told(self, line: str) -> str | None:
        if match := _COLLECTING.match(line):
            self._collected += 1
            return f"collecting {match[1]} ({self._count()})"
        if match := _DOWNLOADING.match(line):
            return f"downloading {match[1]} ({match[2]})"
        if match := _INSTALLING.match(line):
            return f"installing {len(match[1].split(','))} packages"
        if line.startswith("WARNING: Retrying"):
            return "the package index does not answer, pip tries again"
        return None

    def _count(self) -> str:
        """Where the platform needs more than the lock pins (CUDA libraries), the total is not known."""
        return f"{self._collected} of {self._pins}" if self._collected <= self._pins else str(self._collected)


def _pins(lock: Path) -> int:
    """Requirements in a lock; comments, options and hashes are none."""
    return sum(line[:1].isalnum() for line in lock.read_text("utf-8").splitlines())


def _failure(undone: str, returncode: int, lines: list[str]) -> str:
    cause = _cause(lines) or f"pip ended with {returncode}"
    shown = "".join(f"\n  {line}" for line in lines[-_SHOWN_LINES:])
    return f"{undone}: {cause}. Last lines of pip:{shown}"


def _cause(lines: list[str]) -> str | None:
    text = "\n".join(lines)
    return next((cause for pattern, cause in _CAUSES if re.search(pattern, text)), None)
