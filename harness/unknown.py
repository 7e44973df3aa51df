"""What stands in place of a number that is not known."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Unknown:
    """In place of a number, why there is none."""

    reason: str
