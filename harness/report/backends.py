"""The installed backends as a table of 80 columns, one of them in full, and both as JSON values."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.cells import cell_len
from rich.text import Text

from harness.inventory import BackendEntry, Pin, StackEntry, stacks_of
from harness.model import Option
from harness.plugins import Provenance
from harness.report.layout import Row, paragraph, plain, table, to_string

MOST_PINS = 8
"""Pins of a stack in the table. The page of one backend has them all."""

_GAP = "  "
_NO_BACKEND = "No backend is installed: a backend comes with a plugin, as harness-pytorch."


def render_backends(entries: Sequence[BackendEntry], width: int = 80, colour: bool = False) -> str:
    """Every backend with its stack, plugin and description; then the stacks with what they pin and whether they are made."""
    if not entries:
        return to_string(paragraph(_NO_BACKEND, width), width, colour)
    lines = [*_backend_lines(entries, width), Text(), *_stack_lines(stacks_of(entries), width), Text()]
    return to_string([*lines, *paragraph("`harness backends NAME` tells all of one backend.", width)], width, colour)


def render_backend(entry: BackendEntry, width: int = 80, colour: bool = False) -> str:
    """All there is to know of one backend."""
    lines = [
        *paragraph(entry.backend.name, width, style="bold"),
        *paragraph(plain(entry.backend.description) or "no description", width),
        Text(),
        *table([Row(f"{name} ", remark=plain(words)) for name, words in _facts(entry)], width),
        Text(),
        *_option_lines(entry, width),
        Text(),
        *_pin_lines(entry.stack, width),
    ]
    return to_string(lines, width, colour)


def backend_row(entry: BackendEntry) -> dict[str, Any]:
    """A backend as JSON values."""
    return {
        "name": entry.backend.name,
        "description": entry.backend.description,
        "runner": entry.backend.runner,
        "plugin": {"distribution": entry.plugin.distribution, "version": entry.plugin.version},
        "stack": _stack_row(entry.stack),
        "options": [_option_row(option) for option in entry.backend.options],
        "expects": dict(entry.backend.expects),
    }


# --- the table ------------------------------------------------------------------------------------------------------


def _backend_lines(entries: Sequence[BackendEntry], width: int) -> Iterator[Text]:
    rows = [(each.backend.name, each.backend.stack.name, _plugin_words(each.plugin)) for each in entries]
    heading, *told = _aligned([("backend", "stack", "plugin"), *rows])
    yield Text(heading, "bold")
    for line, entry in zip(told, entries, strict=True):
        yield Text(line)
        yield from paragraph(plain(entry.backend.description), width, _GAP, "dim")


def _stack_lines(stacks: Sequence[StackEntry], width: int) -> list[Text]:
    cells = [("stack", "environment"), *((each.stack.name, _state(each)) for each in stacks)]
    labels = [f"{label:<{max(map(len, _aligned(cells)))}} " for label in _aligned(cells)]
    remarks = ["main versions", *(plain(each.problem or _few(each.main_pins)) for each in stacks)]
    styles = ["bold", *("yellow" if each.problem else "" for each in stacks)]
    rows = zip(labels, remarks, styles, strict=True)
    return table([Row(label, remark=remark, style=style) for label, remark, style in rows], width)


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Every row as a line, the cells of a column under one another."""
    clean = [tuple(map(plain, row)) for row in rows]
    widths = [max(map(cell_len, column)) for column in zip(*clean, strict=True)]
    padded = ([cell + " " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=True)] for row in clean)
    return [_GAP.join(cells).rstrip() for cells in padded]


def _state(entry: StackEntry) -> str:
    if entry.problem:
        return "cannot be made"
    return "made" if entry.made else "not made yet"


def _few(pins: Sequence[Pin]) -> str:
    more = f", {len(pins) - MOST_PINS} more" if len(pins) > MOST_PINS else ""
    return _pins_words(pins[:MOST_PINS]) + more


def _pins_words(pins: Sequence[Pin]) -> str:
    return ", ".join(f"{pin.name}=={pin.version}" for pin in pins) or "nothing is pinned"


def _plugin_words(plugin: Provenance) -> str:
    return f"{plugin.distribution} {plugin.version}" if plugin.distribution else "of no distribution: named by module"


# --- one backend ----------------------------------------------------------------------------------------------------


def _facts(entry: BackendEntry) -> Iterator[tuple[str, str]]:
    stack = entry.stack.stack
    yield "plugin", _plugin_words(entry.plugin)
    yield "runner", entry.backend.runner
    yield "stack", stack.name
    yield "environment", entry.stack.problem or _environment_words(entry.stack)
    yield "main versions", _pins_words(entry.stack.main_pins)
    yield "system packages", ", ".join(stack.system_packages) or "none"
    yield "expects", _expectations(entry.backend.expects)


def _environment_words(entry: StackEntry) -> str:
    return f"made: {entry.made}" if entry.made else "not made yet: the first run that needs it makes it"


def _expectations(expects: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}: {_shown(value)}" for name, value in expects.items()) or "nothing beyond what was asked"


def _option_lines(entry: BackendEntry, width: int) -> list[Text]:
    if not entry.backend.options:
        return paragraph("no options", width)
    title = paragraph(f"options, axes of a matrix under `{entry.backend.name}`", width, style="bold")
    rows = [Row(f"{option.name} ", remark=plain(_option_words(option))) for option in entry.backend.options]
    return [*title, *table(rows, width)]


def _option_words(option: Option) -> str:
    left = " (left to the framework)" if option.default is None else ""
    choices = f", one of {' | '.join(map(_shown, option.choices))}" if option.choices else ""
    told = f"{option.type.__name__}, default {_shown(option.default)}{left}{choices}"
    return f"{told}: {option.help}" if option.help else told


def _pin_lines(entry: StackEntry, width: int) -> list[Text]:
    title = paragraph(f"pins of {entry.stack.lock}", width, style="bold")
    return [*title, *paragraph(plain(_pins_words(entry.pins)), width, style="dim")]


def _shown(value: object) -> str:
    """As a matrix would write it."""
    return value if isinstance(value, str) else json.dumps(value, default=str)


# --- JSON -----------------------------------------------------------------------------------------------------------


def _stack_row(entry: StackEntry) -> dict[str, Any]:
    return {
        "name": entry.stack.name,
        "lock": entry.stack.lock,
        "system_packages": list(entry.stack.system_packages),
        "is_made": entry.made is not None,
        "environment": str(entry.made) if entry.made else None,
        "problem": entry.problem,
        "main_pins": _pin_rows(entry.main_pins),
        "pins": _pin_rows(entry.pins),
    }


def _pin_rows(pins: Sequence[Pin]) -> list[dict[str, str]]:
    return [{"name": pin.name, "version": pin.version} for pin in pins]


def _option_row(option: Option) -> dict[str, Any]:
    return {
        "name": option.name,
        "type": option.type.__name__,
        "default": option.default,
        "choices": list(option.choices) if option.choices else None,
        "help": option.help,
    }
