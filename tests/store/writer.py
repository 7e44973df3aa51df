"""A process that adds results: `python -m store.writer ROOT NAME COUNT`. Prints each number once its result is on disk."""

from __future__ import annotations

import sys
from pathlib import Path

from harness.store import ResultStore
from store.factories import a_cell, a_launch, a_result


def main(root: str, name: str, count: str) -> None:
    store = ResultStore.open(Path(root))
    say("ready")
    for number in range(1, int(count) + 1):
        cell = a_cell(batch_size=number, backend=name)
        store.add_launch(a_launch(cell))
        store.add(a_result(cell, run_id=name, details={"padding": "é" * 2000}))
        say(str(number))
    store.finish_runs()


def say(word: str) -> None:
    sys.stdout.write(word + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
