"""Run as a script: `python -I tethered.py MODULE ARGUMENT...` runs a module that ends with whoever started it.

Stdin is the tether: at its end, which the kernel brings about however the host dies, the whole process group is killed. So a
pip never goes on writing into a folder that the next run is about to clear. Standard library only: any interpreter runs it.
"""

import os
import runpy
import signal
import sys
import threading


def _end_with_host() -> None:
    os.read(0, 1)  # not sys.stdin: its lock, held by a daemon thread, aborts the interpreter's exit
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    threading.Thread(target=_end_with_host, daemon=True).start()
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
