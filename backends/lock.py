"""`python backends/lock.py STACK`: refreshes the lock of a stack from its `.in` file.

Installs what STACK.in asks for into a fresh environment and writes all that came with it to STACK.lock, pinned. Local parts of
versions are left out (torch==2.13.0, not 2.13.0+cpu), so that each machine gets the build that its pip finds. Run it with the
oldest Python that the project supports; on a newer one pip adds what that needs.
"""

from __future__ import annotations

import argparse
import platform
import re
import subprocess
import tempfile
import venv
from collections.abc import Iterable
from pathlib import Path

BACKENDS = Path(__file__).parent

HEADER = """\
# All packages of the {stack} stack, pinned. Do not edit: change {stack}.in, then run `python backends/lock.py {stack}`.
# Resolved on Python {python}, {machine}. A CUDA build of torch brings its libraries in the versions that it names itself.
"""


def main() -> None:
    """Refresh one lock. pip's own output is the progress."""
    requests = {path.stem: path for path in BACKENDS.glob("*/*/*.in")}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stack", choices=sorted(requests))
    request = requests[parser.parse_args().stack]
    request.with_suffix(".lock").write_text(header(request.stem) + pins(installed(request)), encoding="utf-8")


def installed(request: Path) -> list[str]:
    """What pip says is there after installing a request into a fresh environment: all but pip itself."""
    with tempfile.TemporaryDirectory(prefix="harness-lock-") as folder:
        venv.create(folder, with_pip=True)
        pip = [f"{folder}/bin/python", "-I", "-m", "pip", "--disable-pip-version-check"]
        # Python 3.11 brings an old setuptools along: a stack that needs one gets the newest, another none.
        subprocess.run([*pip, "uninstall", "--quiet", "--yes", "setuptools"], check=True)
        subprocess.run([*pip, "install", "--no-input", "--requirement", str(request)], check=True)
        freeze = [
            *pip,
            "freeze",
            "--all",
            "--exclude",
            "pip",
        ]  # --all: torch needs setuptools, which is left out otherwise
        return subprocess.run(freeze, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()


def pins(lines: Iterable[str]) -> str:
    """Sorted as people look for names, without local parts of versions."""
    public = (re.sub(r"^([^=\s]+==[^+\s]+)\+\S+$", r"\1", line) for line in lines)
    return "".join(f"{line}\n" for line in sorted(public, key=str.lower))


def header(stack: str) -> str:
    """The lock's first lines."""
    return HEADER.format(
        stack=stack, python=platform.python_version(), machine=f"{platform.system()} {platform.machine()}"
    )


if __name__ == "__main__":
    main()
