"""Which cells of a matrix a run takes: one shard of it, or those that a former run did not end well. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Self

from harness.model import HarnessError, Matrix, PlannedCell, Result


@dataclass(frozen=True)
class Shard:
    """One of `count` parts of a matrix, numbered from 1."""

    index: int
    count: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """From "2/5". Raises HarnessError."""
        found = re.fullmatch(r"([0-9]{1,6})/([0-9]{1,6})", text.strip())
        index, count = map(int, found.groups()) if found else (0, 0)
        if not 1 <= index <= count:
            raise HarnessError(f"--shard {text!r} is no part of a whole: write it like 2/5, from 1/5 to 5/5")
        return cls(index, count)

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"

    def of(self, matrix: Matrix) -> Matrix:
        """Every `count`-th group, whole: what is compared stays together, and each group is in one shard.

        By the order of the file, so the same on every machine; neighbours, which are often alike, go to different shards.
        """
        return replace(matrix, groups=matrix.groups[self.index - 1 :: self.count])


def narrowed(matrix: Matrix, holds: Callable[[PlannedCell], bool]) -> Matrix:
    """The cells for which something holds, groups without any left out."""
    kept = [replace(group, cells=tuple(filter(holds, group.cells))) for group in matrix.groups]
    return replace(matrix, groups=tuple(group for group in kept if group.cells))


def failed(matrix: Matrix, history: Iterable[Result], host_hash: str) -> Matrix:
    """The cells whose last result, measured here under the same protocol, is neither ok nor unsupported nor skipped.

    Whatever their stack was: it may have been mended since.
    """
    ends = {result.key: result.status for result in history if _is_comparable(result, matrix, host_hash)}
    return narrowed(matrix, lambda planned: planned.cell.key in ends and not ends[planned.cell.key].is_fine)


def _is_comparable(result: Result, matrix: Matrix, host_hash: str) -> bool:
    hashes = result.metadata.hashes
    return (hashes.protocol_hash, hashes.host_hash) == (matrix.protocol.hash, host_hash)
