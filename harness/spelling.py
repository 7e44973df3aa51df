"""Words of messages: the nearest right one of a misspelt word, lists, and nouns that are counted."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word closest to `word`, capitals disregarded; None where nothing is near."""
    by_lower_case = {candidate.lower(): candidate for candidate in known}
    matches = difflib.get_close_matches(word.lower(), by_lower_case, n=1)
    return by_lower_case[matches[0]] if matches else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """ "; did you mean 'batch_size'?", or nothing where no known word is near."""
    match = nearest(word, known)
    return f"; did you mean {match!r}?" if match is not None else ""


def counted(count: int, noun: str) -> str:
    """ "1 result", "2 results": for nouns that take an s."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def listed(words: Iterable[object]) -> str:
    """The words with commas between, or "none"."""
    return ", ".join(str(word) for word in words) or "none"
