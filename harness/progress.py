"""How a run tells what it is doing: the calls that the core makes, and the screen and log lines made of them.

Never called between the calls of a round, and nothing here ticks by itself: a waiting host uses no CPU.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console
from rich.live import Live
from rich.text import Text

from harness.model import Result, Status

QUIET_S = 5.0
"""Without a terminal, at most one line about what is going on in this many seconds: a log is read afterwards."""


class Reporter(Protocol):
    """Told in short sentences what happens."""

    def note(self, text: str) -> None:
        """Something worth keeping on the screen: a decision, a warning, a failure."""

    def doing(self, text: str) -> None:
        """What is going on now; replaced by the next."""

    def finished(self, result: Result, done: int, total: int) -> None:
        """A cell has ended and is on disk; `done` of `total` cells have."""


class ConsoleReporter:
    """A last line that changes where there is a terminal, plain lines where there is none."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._clock = clock
        self._said_at = float("-inf")
        # No refresh thread: the line changes when something happens, between rounds.
        self._live = Live(Text(""), console=console, auto_refresh=False, transient=True)

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def note(self, text: str) -> None:
        self._console.print(Text(text))

    def doing(self, text: str) -> None:
        if self._console.is_terminal:
            self._live.update(Text(text, style="dim", overflow="ellipsis", no_wrap=True), refresh=True)
        elif self._clock() - self._said_at >= QUIET_S:
            self._said_at = self._clock()
            self._console.print(Text(text))

    def finished(self, result: Result, done: int, total: int) -> None:
        self.note(f"[{done}/{total}] {_sentence(result)}")


def _sentence(result: Result) -> str:
    """One cell in a line, as "eager, batch 8 x 128: ok, 131 ms a call, cold start 0.9 s"."""
    cell, numbers = result.config, result.measurements
    operation = "" if cell.operation == "forward" else f", {cell.operation}"
    words = [f"{cell.label}{operation}, batch {cell.batch_size} x {cell.sequence_length}: {result.status}"]
    if numbers.median_latency_s is not None:
        words.append(f"{numbers.median_latency_s * 1e3:.4g} ms a call")
    if numbers.cold_start_s is not None:
        words.append(f"cold start {numbers.cold_start_s:.2f} s")
    if result.status is not Status.OK:
        words.append(_why(result))
    return ", ".join(word for word in words if word)


def _why(result: Result) -> str:
    error = result.metadata.error
    return error.message if error else result.metadata.reason or ""
