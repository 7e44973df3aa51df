"""A process that has imported the harness and forks a run for each line on stdin, so that runs start at once.

A line is how many seconds the run may live, and its arguments; then it is killed. Prints the exit code, -9 for a killed one.
"""

from __future__ import annotations

import os
import signal
import sys
import time

from harness import cli


def main(log: str) -> None:
    for line in sys.stdin:
        life_s, *arguments = line.split()
        child = os.fork()
        if child == 0:
            run(arguments, log)
        sys.stdout.write(f"{end_of(child, float(life_s))}\n")
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


def run(arguments: list[str], log: str) -> None:
    """As the command does; never returns."""
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(descriptor, stream)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    sys.argv = ["harness", *arguments]
    try:
        cli.main()
    except SystemExit as end:
        os._exit(end.code if isinstance(end.code, int) else 1)
    finally:
        os._exit(99)


if __name__ == "__main__":
    main(sys.argv[1])
