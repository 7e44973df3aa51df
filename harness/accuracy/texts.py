"""The texts that accuracy is told by. Written for this purpose, so that no model has read them and no licence binds them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

PROSE, PAIRS = "prose.txt", "pairs.tsv"


@dataclass(frozen=True)
class Pair:
    """Two sentences and how much they say the same."""

    grade: float  # 0, nothing in common, to 5, the same
    one: str
    other: str


@cache
def prose() -> str:
    """A story of 1,600 words, paragraphs apart by a blank line."""
    return _read(PROSE)


@cache
def pairs() -> tuple[Pair, ...]:
    """Sentences from the same in other words to unrelated ones, graded by a person."""
    rows = (line.split("\t") for line in _read(PAIRS).splitlines())
    return tuple(Pair(float(grade), one, other) for grade, one, other in rows)


def sentences() -> list[str]:
    """Both of the first pair, both of the second, and so on."""
    return [sentence for pair in pairs() for sentence in (pair.one, pair.other)]


@cache
def digest_of_texts() -> str:
    """SHA-256 (hex) of all of them: numbers compare only where it is the same."""
    return hashlib.sha256("\n".join(map(_read, (PROSE, PAIRS))).encode()).hexdigest()


def _read(name: str) -> str:
    return files("harness.accuracy").joinpath(name).read_text(encoding="utf-8")
