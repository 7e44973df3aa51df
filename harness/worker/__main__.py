"""`python -I -u -m harness.worker`: the process around one runner. Commands on stdin, events on stdout: see harness.protocol."""

from __future__ import annotations

import os
import platform

from harness.protocol import PROTOCOL_VERSION, Hello
from harness.worker.channel import Channel, claim_descriptors


def main() -> int:
    """Hold the conversation and return the exit code."""
    channel = Channel(*claim_descriptors())
    channel.say(Hello(PROTOCOL_VERSION, os.getpid(), platform.python_version()))
    from harness.worker.conversation import converse  # numpy, the first import that may print, comes with it

    return converse(channel.receive, channel.say)


if __name__ == "__main__":
    # Not sys.exit: a framework that aborts while it is torn down would make a crash of a launch that went well.
    os._exit(main())
