"""The images of a `harness build`, as a table of 80 columns."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from harness.images import Image
from harness.report.layout import Row, paragraph, table, to_string

_SHARED = "Images of one stack share layers: each size counts them, the disk has them once."


def render_images(images: Sequence[Image], width: int = 80, colour: bool = False) -> str:
    """Every image with its size, and how long building it took or that it was there already."""
    heading = Row("image", ("MB", "seconds", ""), style="bold")
    lines = table([heading, *map(_row, images)], width)
    return to_string([*lines, Text(), *paragraph(_SHARED, width)], width, colour)


def _row(image: Image) -> Row:
    seconds, how = ("", "kept") if image.seconds is None else (f"{image.seconds:.1f}", "built")
    return Row(image.tag, (f"{image.size_bytes / 1e6:,.0f}", seconds, how))
