"""What the host sees of a backend, beside what its worker tells: one record for each look. `judging` judges them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.model import ParityRecord


@dataclass(frozen=True)
class Declared:
    """The declaration, with the files that it names."""

    faults: Sequence[str]  # each says what to do


@dataclass(frozen=True)
class Loaded:
    """The plugin's module, imported in a process of its own, after all that the harness itself imports."""

    module: str
    error: str | None  # why it could not be; None where it could
    brought: Sequence[str]  # top-level modules that came with it
    heavy: Sequence[str]  # those of them that belong into the stack


@dataclass(frozen=True)
class Asked:
    """A launch that was asked for what there is not."""

    dtype: str
    refusal: str | None  # with what it ended; None where it ran
    effective: Mapping[str, Any]  # what the runner told where it ran


@dataclass(frozen=True)
class Paired:
    """The outputs of every slot beside the reference's."""

    parity: ParityRecord


@dataclass(frozen=True)
class Killed:
    """Launches, each killed in the midst of one phase."""

    left: Mapping[str, Sequence[str]]  # phase -> what was still there afterwards, in words


Sight = Declared | Loaded | Asked | Paired | Killed
