"""Aligned lines for a terminal: cells of several lines, labels and remarks of any length, nothing cut."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

GAP = " "
"""Between two cells. One column: eleven cells have to fit in 80."""

NARROWEST_REMARK = 30
"""Columns that labels leave to remarks."""


@dataclass(frozen=True)
class Row:
    """A label and its cells, each of one line or more; or one remark, a sentence in place of the cells."""

    label: str
    cells: tuple[str, ...] = ()
    remark: str = ""
    style: str = ""


def table(rows: Sequence[Row], width: int) -> list[Text]:
    """Labels to the left, numbers to the right, the last cell (words) to the left.

    A label too long for what the cells leave of the width stands on a line of its own above them.
    """
    widths = [max(map(_cell_width, column)) for column in zip(*(row.cells for row in rows if row.cells), strict=True)]
    room = width - max(sum(each + len(GAP) for each in widths), NARROWEST_REMARK)
    label_width = max((each for each in (_cell_width(row.label) for row in rows) if each <= room), default=0)
    return [line for row in rows for line in _row(row, label_width, widths, width)]


def paragraph(text: str, width: int, indent: str = "", style: str = "") -> list[Text]:
    """Wrapped at spaces, every line indented."""
    lines = Text(text).wrap(Console(width=width), max(width - len(indent), 1))
    return [Text(indent + line.plain.rstrip(), style) for line in lines]


def plain(text: str) -> str:
    """On one line and without anything that steers a terminal: messages come from frameworks, names from users."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def to_string(lines: Iterable[Text], width: int, colour: bool) -> str:
    """The lines as text, with escape sequences only where there is colour."""
    text = io.StringIO()
    console = Console(
        file=text,
        width=width,
        color_system="standard" if colour else None,
        no_color=not colour,
        legacy_windows=False,
    )
    for line in lines:
        console.print(line, soft_wrap=True, highlight=False)
    return text.getvalue()


def _row(row: Row, label_width: int, widths: Sequence[int], width: int) -> list[Text]:
    label = row.label if _cell_width(row.label) <= label_width else ""
    above = [] if label == row.label else paragraph(row.label.lstrip(), width, style=row.style)
    lines = _cells(label, row, label_width, widths) if row.cells else _remark(label, row, label_width, width)
    return above + lines


def _cells(label: str, row: Row, label_width: int, widths: Sequence[int]) -> list[Text]:
    parts = zip_longest(label.split("\n"), *(cell.split("\n") for cell in row.cells), fillvalue="")
    return [Text(_line(part, label_width, widths), row.style) for part in parts]


def _remark(label: str, row: Row, label_width: int, width: int) -> list[Text]:
    margin = " " * label_width + GAP
    lines = paragraph(row.remark, width, margin, row.style)
    lines[0].plain = _padded(label, label_width) + lines[0].plain[label_width:]
    return lines


def _line(parts: Sequence[str], label_width: int, widths: Sequence[int]) -> str:
    label, *numbers, words = parts
    aligned = (" " * (width - cell_len(number)) + number for number, width in zip(numbers, widths, strict=False))
    return GAP.join([_padded(label, label_width), *aligned, words]).rstrip()


def _padded(text: str, width: int) -> str:
    return text + " " * (width - cell_len(text))


def _cell_width(cell: str) -> int:
    return max(map(cell_len, cell.split("\n")))
