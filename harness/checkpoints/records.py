"""What is said about a model's checkpoint: before its weights are needed, and once they lie on this disk."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.cache import Progress

__all__ = ["Checkpoint", "Identity", "Maker", "Progress"]

Maker = Callable[[Path, Path], None]
"""Runs a stack's checkpoint maker, given SPEC.json and the folder beside it to work in. Raises HarnessError where it fails."""


@dataclass(frozen=True)
class Identity:
    """A source, pinned."""

    source: str  # as written
    identity: str  # equal for equal checkpoints, and part of the key
    config: Mapping[str, Any]  # config.json as far as it is known without the weights; {} where it is not known at all
    licence: str | None  # null where nobody says
    folder: Path | None = None  # of a `path:` source: where it lies


@dataclass(frozen=True)
class Checkpoint:
    """One read-only folder that every backend reads: config.json, safetensors, tokenizer files where there are any."""

    identity: str
    folder: Path
    sha256: str  # of the folder's content
    config: Mapping[str, Any]  # its config.json
    licence: str | None
    generation_config: Mapping[str, Any] = field(default_factory=dict)  # generation_config.json; {} where it has none
