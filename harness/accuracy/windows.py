"""Texts as token windows in a cell's own shape, so that what is compiled for that shape is what is judged.

Prose is cut into windows that follow one another; of each the first token has nothing before it and is not predicted. Sentences are
padded, each alone in its row. The last batch is filled up with rows from the beginning, which do not count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from harness import cache
from harness.accuracy import texts
from harness.checkpoints import Checkpoint
from harness.inputs.text import Layout, Row, read_tokenizer
from harness.model import Cell, HarnessError, digest
from harness.support import takes_text

MOST_WINDOWS = 32
"""Of prose: 4,096 tokens at 128 each, more than the text has. Short windows would make many calls of it, and tell little."""


@dataclass(frozen=True)
class Windows:
    """Inputs on disk, as slots are: one `<name>.npy` each, of shape (calls, batch, sequence_length)."""

    folder: Path
    calls: int
    rows: int  # those that count, from the first on


def make_windows(
    cell: Cell, checkpoint: Checkpoint, root: Path | None = None, progress: cache.Progress = lambda _: None
) -> Windows | str:
    """The windows of a cell, found in `root` (the cache's room unless given) or made now; or why its accuracy is not measured."""
    if reason := _why_not(cell, checkpoint):
        return reason
    shape = (cell.batch_size, cell.sequence_length)
    address = digest(["accuracy", texts.digest_of_texts(), checkpoint.sha256, cell.task, *shape])

    def fill(folder: Path) -> Mapping[str, Any]:
        rows = _ROWS[cell.task](cell, checkpoint)
        calls = _calls(rows, Layout(checkpoint, cell.sequence_length), cell.batch_size)
        for name in calls[0]:
            np.save(folder / f"{name}.npy", np.stack([call[name] for call in calls]), allow_pickle=False)
        return {"calls": len(calls), "rows": len(rows)}

    try:
        entry = cache.keep((root or cache.room("inputs")) / f"accuracy-{address[:32]}", fill, progress)
    except _NoWindowsError as error:
        return str(error)
    return Windows(entry.folder, **entry.facts)


class _NoWindowsError(Exception):
    """The text says why this checkpoint's tokenizer makes none of this shape."""


def _why_not(cell: Cell, checkpoint: Checkpoint) -> str | None:
    if cell.operation != "forward":
        return f"accuracy is told by operation forward, not by {cell.operation}"
    if cell.task not in _ROWS:
        return f"there is no measure of accuracy for task {cell.task}"
    if not takes_text(checkpoint.config):
        return "accuracy is told by text, and the model takes none"
    if checkpoint.identity.startswith("random:"):
        return "random weights say nothing about accuracy"
    if not (checkpoint.folder / "tokenizer.json").exists():
        return "the checkpoint has no tokenizer.json to read text with"
    return None


def _calls(rows: Sequence[Row], layout: Layout, batch_size: int) -> list[Mapping[str, Any]]:
    """Batches of all rows, the last one filled up from the beginning."""
    filled = [rows[index % len(rows)] for index in range(-(-len(rows) // batch_size) * batch_size)]
    return [layout.inputs(filled[start : start + batch_size]) for start in range(0, len(filled), batch_size)]


# --- rows -----------------------------------------------------------------------------------------------------------


def _prose_rows(cell: Cell, checkpoint: Checkpoint) -> list[Row]:
    """Windows that follow one another, without special tokens; of a text shorter than one window, what there is of it."""
    length = cell.sequence_length
    if length < 2:
        raise _NoWindowsError("sequence_length 1: a window of one token predicts nothing")
    encoding = _encoded(_tokenizer(checkpoint), texts.prose(), special=False)
    ids = _known(encoding.ids, checkpoint)
    whole = [ids[start : start + length] for start in range(0, len(ids) - length + 1, length)]
    return [Row.of(window) for window in whole[:MOST_WINDOWS] or [ids]]


def _sentence_rows(cell: Cell, checkpoint: Checkpoint) -> list[Row]:
    """One sentence a row, with the special tokens that the tokenizer puts around one."""
    tokenizer = _tokenizer(checkpoint)
    encoded = [_known(_encoded(tokenizer, sentence, special=True).ids, checkpoint) for sentence in texts.sentences()]
    longest = max(map(len, encoded))
    if longest > cell.sequence_length:
        raise _NoWindowsError(
            f"sequence_length {cell.sequence_length}: the sentences that accuracy is told by have up to {longest} tokens"
        )
    return [Row.of(ids) for ids in encoded]


_ROWS = {"text-generation": _prose_rows, "feature-extraction": _sentence_rows}


def _tokenizer(checkpoint: Checkpoint) -> Tokenizer:
    try:
        tokenizer = read_tokenizer(checkpoint.folder / "tokenizer.json")
    except HarnessError as error:
        raise _NoWindowsError(str(error)) from None
    tokenizer.no_truncation()
    return tokenizer


def _encoded(tokenizer: Tokenizer, text: str, *, special: bool) -> Any:
    try:
        return tokenizer.encode(text, add_special_tokens=special)
    except Exception as error:  # the library raises nothing narrower
        raise _NoWindowsError(f"the checkpoint's tokenizer cannot encode English: {error}") from error


def _known(ids: Sequence[int], checkpoint: Checkpoint) -> Sequence[int]:
    """Raises _NoWindowsError where there is none, or one that the model has no row for."""
    vocabulary = checkpoint.config["vocab_size"]
    if not ids or max(ids) >= vocabulary:
        raise _NoWindowsError(
            f"the tokenizer makes {len(ids)} tokens up to number {max(ids, default=None)} of English, and the model knows "
            f"{vocabulary}: they are not of one checkpoint"
        )
    return ids
