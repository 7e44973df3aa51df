"""What several cells need: made once, and where it cannot be made, tried once. Nobody waits for pip, or for a download, twice."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from harness.engine import EngineLostError
from harness.model import HarnessError

Made = TypeVar("Made")


class Once(Generic[Made]):
    """By name."""

    def __init__(self) -> None:
        self._made: dict[Hashable, Made] = {}
        self._faults: dict[Hashable, HarnessError | MemoryError] = {}

    def get(self, name: Hashable, make: Callable[[], Made]) -> Made:
        """As it was made. Raises what making it raised, HarnessError or MemoryError; a lost engine is no fault of what was to be
        made, and is not remembered."""
        if name in self._faults:
            raise self._faults[name]
        if name not in self._made:
            try:
                self._made[name] = make()
            except EngineLostError:
                raise
            except (HarnessError, MemoryError) as fault:
                self._faults[name] = fault
                raise
        return self._made[name]
