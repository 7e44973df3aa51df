"""The worker's end of the conversation: two descriptors that no library can reach, and a thread that notices the host's end.

A framework, or a compiler it starts, may print to descriptor 1 or read from descriptor 0 at any time. So the real ones are
moved away before anything else is imported; what is printed then goes to stderr, what is read comes from /dev/null.

Exit codes of a worker:
    0   it has said `Closed`
    1   it has said `Failed` (or Python could not even start it: stderr has the traceback)
    74  the host is gone: its end of the conversation was closed (EX_IOERR of sysexits.h)
Any other code, or a signal, is the runner's doing.
"""

from __future__ import annotations

import os
import queue
import threading

from harness.protocol import MAX_LINE_BYTES, Command, Event, decode_command, encode

EXIT_CLOSED = 0
EXIT_FAILED = 1
EXIT_HOST_GONE = 74


def claim_descriptors() -> tuple[int, int]:
    """Take the conversation off descriptors 0 and 1, and return the two it is on now: commands, events.

    The new descriptors are not inherited, so a child process cannot hold the conversation open.
    """
    commands, events = os.dup(0), os.dup(1)
    os.dup2(2, 1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    return commands, events


class Channel:
    """Commands in, events out.

    A thread reads, so that the end of stdin ends the process at once, whatever the main thread is doing. The one thing it
    cannot interrupt is native code that keeps the GIL; frameworks give it back while they compute.
    """

    def __init__(self, commands: int, events: int) -> None:
        """Start reading. Takes over both descriptors."""
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._events = os.fdopen(events, "wb")
        threading.Thread(target=self._read, args=(commands,), name="commands", daemon=True).start()

    def receive(self) -> Command:
        """Wait, without using the CPU, for the next command. Raises ProtocolError for a line that is none."""
        return decode_command(self._lines.get())

    def say(self, event: Event) -> None:
        """Send an event whole. Raises ProtocolError where it does not fit the protocol; then nothing was sent."""
        line = encode(event)
        try:
            self._events.write(line)
            self._events.flush()
        except BrokenPipeError:
            os._exit(EXIT_HOST_GONE)

    def _read(self, commands: int) -> None:
        """Pass lines on until there are no more. A line beyond the limit is passed on cut, and is then no command."""
        try:
            with os.fdopen(commands, "rb") as stream:
                while line := stream.readline(MAX_LINE_BYTES):
                    self._lines.put(line)
        finally:
            os._exit(EXIT_HOST_GONE)
