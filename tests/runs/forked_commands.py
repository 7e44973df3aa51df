"""A process that has imported the harness and forks a command for each line on stdin, so that commands start at once.

A line is a `Command` as JSON. Answered with its exit code: a signal's number, negative, where one ended it, as it does where the
command outlives `life_s`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn


@dataclass(frozen=True)
class Command:
    """`harness ARGUMENTS...`, typed in a folder."""

    arguments: Sequence[str]
    folder: str
    variables: Mapping[str, str]  # the whole environment
    stdout: str  # files, added to
    stderr: str
    life_s: float


def main() -> None:
    for line in sys.stdin:
        command = Command(**json.loads(line))
        child = os.fork()
        if child == 0:
            run(command)
        sys.stdout.write(f"{end_of(child, command.life_s)}\n")
        sys.stdout.flush()


def end_of(child: int, life_s: float) -> int:
    """Not reaped before it is killed, so the number is still its own."""
    deadline = time.monotonic() + life_s
    while time.monotonic() < deadline:
        if os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            break
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def run(command: Command) -> NoReturn:
    """As the command does, in its own process from here on."""
    os.chdir(command.folder)
    os.environ.clear()
    os.environ.update(command.variables)
    sys.path[:0] = [path for path in command.variables.get("PYTHONPATH", "").split(os.pathsep) if path]
    sys.argv = ["harness", *command.arguments]
    redirect(command)
    code = exit_code()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def redirect(command: Command) -> None:
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for descriptor, file in ((1, command.stdout), (2, command.stderr)):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND), descriptor)


def exit_code() -> int:
    try:
        cli.main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1


if __name__ == "__main__":
    from harness import cli

    main()
