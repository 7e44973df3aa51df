"""docs/reference/results.md describes every stored field, status and export column, and nothing that does not exist."""

from __future__ import annotations

import enum
import re
import types
import typing
from pathlib import Path
from typing import Any

import pytest

from harness import model
from harness.model import Record, Status
from harness.report.export import COLUMNS

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "results.md").read_text(encoding="utf-8")
RECORDS = {kind.__name__: kind for kind in Record.__subclasses__() if kind.__module__ == model.__name__}


def table(heading: str) -> dict[str, list[str]]:
    """Rows of the first table under a heading: what stands in backticks in the first cell, and the other cells."""
    section = re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert section, f"there is no section {heading}"
    rows = re.findall(r"^\| `(\w+)` \|(.*)\|$", section[1], re.MULTILINE)
    return {name: [cell.strip() for cell in cells.split("|")] for name, cells in rows}


def described(annotation: Any) -> str:
    """A type in the words of the page."""
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    words = {int: "integer", float: "number", bool: "boolean", str: "text", Any: "any", type(None): "null"}
    if origin in (typing.Union, types.UnionType):
        return " or ".join(map(described, parts))
    if origin is typing.Annotated:
        return described(parts[0])
    if origin is list:
        return f"list of {described(parts[0])}"
    if origin is dict:
        return f"mapping to {described(parts[1])}"
    if origin is typing.Literal or (isinstance(annotation, type) and issubclass(annotation, enum.Enum)):
        return "text"
    return words.get(annotation) or f"`{annotation.__name__}`"


@pytest.mark.parametrize("name", RECORDS)
def test_every_field_of_a_record_is_described_with_its_type_and_scope_and_no_other(name: str) -> None:
    rows = table(name)
    fields = RECORDS[name].model_fields
    assert list(rows) == list(fields)
    assert {field: cells[0] for field, cells in rows.items()} == {
        field: described(info.annotation) for field, info in fields.items()
    }
    assert all(len(cells) == 4 and cells[2] and cells[3] for cells in rows.values())


@pytest.mark.parametrize("name", RECORDS)
def test_a_field_with_a_unit_in_its_name_has_it_on_the_page(name: str) -> None:
    units = {"s": "seconds", "ns": "nanoseconds", "bytes": "bytes", "seconds": "seconds", "calls": "calls"}
    for field, cells in table(name).items():
        suffix = field.rpartition("_")[2]
        if suffix in units and "_per_" not in field:
            assert cells[1].startswith(units[suffix]), field


def test_every_export_column_is_described_in_order_and_no_other() -> None:
    rows = table("Export")
    assert list(rows) == list(COLUMNS)
    assert all(len(cells) == 4 and cells[0] and cells[2] and cells[3] for cells in rows.values())


def test_an_export_column_is_the_field_that_the_page_names() -> None:
    for column, (_, _, _, meaning) in table("Export").items():
        if named := re.match(r"`(\w+)\.(\w+)`", meaning):
            record, field = named.groups()
            assert field in RECORDS[record].model_fields
            assert COLUMNS[column].endswith(field)


def test_every_status_is_described_with_the_exit_code_it_causes() -> None:
    rows = table("Statuses")
    assert list(rows) == [str(status) for status in Status]
    assert {name: cells[-1] for name, cells in rows.items()} == {str(s): "0" if s.is_fine else "1" for s in Status}


def test_every_link_within_the_page_leads_somewhere() -> None:
    anchors = {heading.lower().replace(" ", "-") for heading in re.findall(r"^#+ (.*)$", PAGE, re.MULTILINE)}
    assert set(re.findall(r"\(#([\w-]+)\)", PAGE)) <= anchors
