"""`python -IS keeping_compiler.py FOLDER COMPILER ARGUMENT...`: a C++ compiler that keeps what it has made, for tests.

Inductor has one file made into one library at a time, and most of the time of its cold starts goes there. What becomes of the same
text, by the same compiler with the same options on the same kind of processor, is the same whichever launch asks for it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path


def main(folder: Path, compiler: str, arguments: Sequence[str]) -> int:
    """The compiler's exit code."""
    sources = [argument for argument in arguments if argument.endswith(".cpp")]
    if len(sources) != 1 or "-o" not in arguments:
        os.execv(compiler, [compiler, *arguments])  # it is asked for something else, as its version
    output = arguments[arguments.index("-o") + 1]
    kept = folder / key(compiler, Path(sources[0]), [each for each in arguments if each not in (sources[0], output)])
    if kept.exists():
        shutil.copyfile(kept, output)
        return 0
    returncode = subprocess.run([compiler, *arguments], check=False).returncode
    if returncode == 0:
        keep(Path(output), kept)
    return returncode


def key(compiler: str, source: Path, options: Sequence[str]) -> str:
    """SHA-256 of all that decides what is made. Of headers the options tell: an environment's folder never changes."""
    binary = Path(compiler).resolve().stat()
    asked = "\0".join([*options, f"{binary.st_size} {binary.st_mtime_ns}", processor()])
    return hashlib.sha256(asked.encode() + source.read_bytes()).hexdigest()


def processor() -> str:
    """What its instructions are: `-march=native` means another thing on each."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line for line in lines if line.startswith(("flags", "Features"))), "")


def keep(made: Path, kept: Path) -> None:
    """Whole or not at all: several compilers may make the same at once."""
    kept.parent.mkdir(parents=True, exist_ok=True)
    aside = kept.with_name(f"{kept.name}.{os.getpid()}")
    shutil.copyfile(made, aside)
    aside.replace(kept)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:]))
