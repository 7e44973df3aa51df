"""The conversation: one command at a time, exactly one last word for each."""

from __future__ import annotations

from collections.abc import Callable

from harness.protocol import Closed, Command, Event
from harness.worker.channel import EXIT_CLOSED, EXIT_FAILED
from harness.worker.failure import failed
from harness.worker.launch import Launch


def converse(receive: Callable[[], Command], say: Callable[[Event], None]) -> int:
    """Answer commands until one is `Close`, or one fails; return the exit code that says which.

    Only what derives from Exception becomes a `Failed`. A runner that exits, as by `sys.exit(3)`, ends the process without
    a last word, and the host tells from the exit code.
    """
    launch = Launch(say)
    while True:
        try:
            answer = launch.carry_out(receive())
            say(answer)
        except Exception as error:
            say(failed(error, launch.phase))
            return EXIT_FAILED
        if isinstance(answer, Closed):
            return EXIT_CLOSED
