"""What launches of real stacks have answered, kept from one session to the next.

A framework that is asked the same by the same code on the same machine answers the same. So an answer is kept by a digest of all
that it comes from, and whoever asks again reads it. It is kept when every test that looked at it has passed; where one fails, what
its session had read is forgotten, so that no fault is read again and no luck is kept.
"""

from __future__ import annotations

import os
import platform
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from keeping_compiler import processor

from harness import cache
from harness.model import digest

UNREAD_S = 14 * 24 * 3600.0
"""Answers that nobody asked for in two weeks go: every change of code leaves some."""


@dataclass
class Answers:
    """Folders by what was asked, below `root`; until the session's end, new ones below `aside`."""

    root: Path
    aside: Path
    machine: tuple[str | int, ...]
    _new: dict[str, Path] = field(default_factory=dict)
    _read: set[str] = field(default_factory=set)

    def of(self, asked: Any, ask: Callable[[Path], None]) -> Path:
        """The folder with the answer, which `ask` has filled now or in an earlier session; what it raises is no answer."""
        key = digest([asked, self.machine])
        if key in self._new:
            return self._new[key]
        kept = self.root / key
        if kept.exists():
            os.utime(kept)
            self._read.add(key)
            return kept
        folder = self.aside / key
        shutil.rmtree(folder, ignore_errors=True)  # of one that raised
        folder.mkdir(parents=True)
        ask(folder)
        self._new[key] = folder
        return folder

    def end(self, have_tests_failed: bool) -> None:
        """Keep what was asked, or forget what was read."""
        if have_tests_failed:
            for key in self._read:
                shutil.rmtree(self.root / key, ignore_errors=True)
            return
        for key, folder in self._new.items():
            _keep(folder, self.root / key)
        for place in self.root.glob("*"):
            if time.time() - place.stat().st_mtime > UNREAD_S:
                shutil.rmtree(place, ignore_errors=True)


def _keep(folder: Path, place: Path) -> None:
    """Whole or not at all; another session may keep the same at the same time."""
    beside = place.with_name(f"{place.name}.{os.getpid()}")
    shutil.copytree(folder, beside)
    os.utime(beside)
    try:
        beside.rename(place)
    except OSError:  # it is there already
        shutil.rmtree(beside)


def this_machine(compiler: str) -> tuple[str | int, ...]:
    """What decides answers beside code, packages and inputs: kernel, instructions, how many processors, and the compiler."""
    found = shutil.which(compiler)
    built = Path(found).resolve().stat() if found else None
    made = (built.st_size, built.st_mtime_ns) if built else ()
    return (platform.platform(), processor(), len(os.sched_getaffinity(0)), *made)


def described(argument: object, written: Mapping[Path, str]) -> object:
    """An argument of a script by what it means: a file by its content, a checkpoint by its name in the cache, which tells its
    content, and a folder that is written by what `written` says."""
    if not isinstance(argument, Path):
        return argument
    if argument in written:
        return written[argument]
    return cache.sha256_of(argument) if argument.is_file() else str(argument.relative_to(cache.room("checkpoints")))
