"""The command `harness` as a process: half a second goes by until the command line is imported, and Ctrl-C may come before."""

from __future__ import annotations

import signal
from typing import NoReturn


def main() -> NoReturn:
    """Import the command line and hand over to it. Until then nothing has begun: Ctrl-C ends the process, without a traceback."""
    is_heard = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # a shell's background processes ignore it
    if is_heard:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from harness import cli

    if is_heard:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    cli.main()


if __name__ == "__main__":
    main()
