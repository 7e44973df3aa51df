"""`python backends/lock.py LOCK`: refreshes a lock of a stack from its `.in` file, as `pytorch` or `pytorch-cuda`.

Resolves what LOCK.in asks for, installs nothing, and writes all that would come with it to LOCK.lock, pinned. Local parts of
versions are left out (torch==2.13.0, not 2.13.0+cpu), so that each machine gets the build that its pip finds. Run it with the
oldest Python that the project supports; on a newer one pip adds what that needs.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterable
from pathlib import Path

BACKENDS = Path(__file__).parent

HEADER = """\
# All packages of the {name} stack, pinned. Do not edit: change {name}.in, then run `python backends/lock.py {name}`.
# Resolved on Python {python}, {machine}. A CUDA build of torch brings its libraries in the versions that it names itself.
"""

FOR_DEVICE = "-cuda"
"""How the names of locks end that are for CUDA."""


def main() -> None:
    """Refresh one lock. pip's own output is the progress."""
    requests = {path.stem: path for path in BACKENDS.glob("*/*/*.in")}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lock", choices=sorted(requests))
    request = requests[parser.parse_args().lock]
    lines = resolved(request)
    refuse_cpu_builds(request.stem, lines)
    request.with_suffix(".lock").write_text(header(request.stem) + pins(lines), encoding="utf-8")


def resolved(request: Path) -> list[str]:
    """What pip would install for a request into an empty environment, as NAME==VERSION."""
    with tempfile.TemporaryDirectory(prefix="harness-lock-") as folder:
        venv.create(folder, with_pip=True)
        report = Path(folder) / "report.json"
        pip = [f"{folder}/bin/python", "-I", "-m", "pip", "--disable-pip-version-check"]
        # Installed there, and so not reported otherwise: the pip and (Python 3.11) setuptools that venv brings along.
        nothing_there = ["--dry-run", "--ignore-installed", "--only-binary", ":all:"]
        asked = ["--report", str(report), "--requirement", str(request)]
        subprocess.run([*pip, "install", "--no-input", *nothing_there, *asked], check=True)
        found = [entry["metadata"] for entry in json.loads(report.read_text(encoding="utf-8"))["install"]]
    return [f"{each['name']}=={each['version']}" for each in found]


def refuse_cpu_builds(name: str, lines: Iterable[str]) -> None:
    """A CPU build has fewer requirements: a lock for CUDA that is made from one lacks the libraries."""
    wrong = [line for line in lines if line.endswith("+cpu")]
    if name.endswith(FOR_DEVICE) and wrong:
        sys.exit(f"{name}: this pip finds {', '.join(wrong)}: set it to an index with CUDA builds (`pip config list`)")


def pins(lines: Iterable[str]) -> str:
    """Sorted as people look for names, without local parts of versions."""
    public = (re.sub(r"^([^=\s]+==[^+\s]+)\+\S+$", r"\1", line) for line in lines)
    return "".join(f"{line}\n" for line in sorted(public, key=str.lower))


def header(name: str) -> str:
    """The lock's first lines."""
    return HEADER.format(
        name=name, python=platform.python_version(), machine=f"{platform.system()} {platform.machine()}"
    )


if __name__ == "__main__":
    main()
