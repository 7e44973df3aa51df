"""The docker command that builds: found among those on the path, run with its output as lines.

There may be several. The one of Docker 20.10 has BuildKit built in, later ones need their buildx plugin for it; Dockerfiles with
`RUN --mount` build with nothing else. docker-py cannot build them at all.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.model import HarnessError

_ANSWER_TIMEOUT_S = 20.0
_END_TIMEOUT_S = 5.0
"""How long a client that was asked to end may take to have the engine give up what it was doing."""

_PROBE = ("build", "--help")
_KNOWS_BUILDKIT = "--secret"
"""An option that only BuildKit has."""

_SETTINGS = {
    "DOCKER_BUILDKIT": "1",
    "BUILDX_BUILDER": "default",  # the engine's own: images of another builder would not be there to run
    "BUILDX_NO_DEFAULT_ATTESTATIONS": "1",  # an image, not an index of an image and statements about it
}

Hear = Callable[[str], None]
"""Told each line of output as it comes."""


@dataclass(frozen=True)
class Outcome:
    """How a command ended."""

    returncode: int
    lines: tuple[str, ...]  # stdout and stderr, in the order in which they came

    @property
    def why(self) -> str:
        """The most telling line of a command that failed."""
        lines = [line.strip() for line in self.lines if line.strip()]
        errors = (line for line in lines if re.match(r"(ERROR|error|failed|Error)\b", line))
        return next(errors, lines[-1] if lines else f"exit code {self.returncode}")


@dataclass(frozen=True)
class Client:
    """A docker command that can build with BuildKit, and the engine that it is to talk to."""

    path: Path
    host: str  # "unix:///var/run/docker.sock"

    def run(self, arguments: Sequence[str], hear: Hear | None = None) -> Outcome:
        """Run a command to its end. Whatever ends this call early (Ctrl-C) ends the command."""
        process = subprocess.Popen(
            [str(self.path), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, **_SETTINGS, "DOCKER_HOST": self.host},
            encoding="utf-8",
            errors="replace",
            start_new_session=True,  # a Ctrl-C reaches the host alone
        )
        lines: list[str] = []
        try:
            for line in process.stdout or ():
                lines.append(line.rstrip())
                if hear is not None:
                    hear(lines[-1])
            return Outcome(process.wait(), tuple(lines))
        finally:
            _end(process)


def find_client(host: str) -> Client:
    """The first docker command on the path that can build with BuildKit. Raises HarnessError where none can."""
    seen = list(_commands())
    for path in seen:
        if _knows_buildkit(path):
            return Client(path, host)
    found = f"none of {', '.join(map(str, seen))} can" if seen else "there is no command `docker`"
    raise HarnessError(
        f"images are built with BuildKit, but {found}: install Docker's buildx plugin (Debian: docker-buildx, or docker.io of "
        "Debian 12, which has it built in)"
    )


def _commands() -> Iterator[Path]:
    """Every docker command on the path, in order, each once."""
    seen: set[Path] = set()
    for folder in os.get_exec_path():
        path = Path(folder) / "docker"
        if os.access(path, os.X_OK) and path.is_file() and path.resolve() not in seen:
            seen.add(path.resolve())
            yield path


def _knows_buildkit(path: Path) -> bool:
    """Asked, not guessed from versions: a newer client answers for its plugin, or says that it is not there."""
    try:
        told = subprocess.run(
            [str(path), *_PROBE],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_ANSWER_TIMEOUT_S,
            env={**os.environ, **_SETTINGS},
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return told.returncode == 0 and _KNOWS_BUILDKIT in told.stdout


def _end(process: subprocess.Popen[str]) -> None:
    """Politely first: the client then cancels what the engine is doing for it."""
    if process.stdout is not None:
        process.stdout.close()
    if process.poll() is None:
        process.terminate()
    try:
        process.wait(_END_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
