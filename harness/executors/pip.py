"""Runs pip: its output as short lines of progress, its failure as a sentence that says what to do."""

from __future__ import annotations

import re
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.executors.base import Progress
from harness.executors.environments import python_of
from harness.executors.processes import run_tethered
from harness.model import HarnessError

_SHOWN_LINES = 12
"""Of pip's output, in the error."""

_LACKING_HERE = (
    f"Python {sys.version_info[0]}.{sys.version_info[1]} on {sysconfig.get_platform()}: set the harness up with another Python "
    "(the lock's head tells on which it was resolved), refresh the lock, or run with `--executor docker`: images bring a Python"
)

_LACKING_FOR_BASE = "the Python and platform of the images' base: refresh the lock, on the base's version of Python"

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
        r"(?:No matching distribution found for|Could not find a version that satisfies the requirement) (?P<wanted>[^\s;]+)",
        "the index has no wheel of {wanted} for {lacking}",
    ),
    (r"No module named pip\b", "the Python of this command has no pip: give it one with `python -m ensurepip`"),
    (r"Permission denied", "a folder cannot be written: check its owner, or point HARNESS_CACHE elsewhere"),
)


def install(environment: Path, lock: Path, stack: str, progress: Progress) -> None:
    """Install the wheels of what `lock` pins into a virtual environment, which is of this interpreter's version.

    Nothing is built from source: what has no wheel is told at once, and not after a compiler has failed at it. A lock that wants it
    otherwise says `--no-binary NAME`. Raises HarnessError with the cause and pip's last lines.
    """
    undone = f"stack {stack}: its environment cannot be made from {lock}"
    narrator = _Narrator(stack, _pins(lock), progress)
    command = ["install", *_wheels_of(lock)]
    _run(python_of(environment), command, environment, narrator, _Failure(undone, _LACKING_HERE))


def download(lock: Path, folder: Path, target: Sequence[str], stack: str, progress: Progress) -> None:
    """Fetch the wheels of what `lock` pins, and of what those need beyond it on this index, with the pip of this interpreter.

    `target` are pip's options that say for which interpreter and platform. Raises HarnessError as `install` does.
    """
    undone = f"stack {stack}: its wheels cannot be fetched for {lock}"
    command = ["download", "--dest", str(folder), *_wheels_of(lock), *target]
    narrator = _Narrator(stack, _pins(lock), progress)
    _run(Path(sys.executable), command, folder, narrator, _Failure(undone, _LACKING_FOR_BASE))


def _wheels_of(lock: Path) -> list[str]:
    return ["--requirement", str(lock), "--only-binary", ":all:"]


def _run(python: Path, command: Sequence[str], folder: Path, narrator: _Narrator, failure: _Failure) -> None:
    """Temporary files lie in the folder that pip fills: on its disk, and gone with it where a kill leaves it half filled."""
    arguments = [*command, "--no-input", "--disable-pip-version-check"]
    with tempfile.TemporaryDirectory(prefix=".pip-", dir=folder, ignore_cleanup_errors=True) as temporary:
        returncode = run_tethered(python, "pip", arguments, narrator.hear, Path(temporary))
    if returncode != 0:
        raise HarnessError(failure.told(returncode, narrator.lines))


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


@dataclass(frozen=True)
class _Failure:
    """What is to be said where pip fails."""

    undone: str  # what was not done
    lacking: str  # for which Python an index may lack wheels, and what to do then

    def told(self, returncode: int, lines: Sequence[str]) -> str:
        """A sentence with the cause, and pip's last lines below it."""
        cause = self._cause("\n".join(lines)) or f"pip ended with {returncode}"
        shown = "".join(f"\n  {line}" for line in lines[-_SHOWN_LINES:])
        return f"{self.undone}: {cause}. Last lines of pip:{shown}"

    def _cause(self, text: str) -> str | None:
        for pattern, cause in _CAUSES:
            if match := re.search(pattern, text):
                return cause.format(lacking=self.lacking, **match.groupdict())
        return None
