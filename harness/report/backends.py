"""The installed backends as a table of 80 columns, one of them in full, and both as JSON values."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from harness.inventory import BackendEntry, ImageEntry, Pin, StackEntry, stacks_of
from harness.model import Backend, Option
from harness.plugins import Broken, Provenance
from harness.report.layout import Row, paragraph, plain, table, to_string
from harness.spelling import listed

MOST_PINS = 8
"""Pins of a stack in the table. The page of one backend has them all."""

NOT_MADE = "not made yet: the first run that needs it makes it"

_NO_BACKEND = "No backend is installed: a backend comes with a plugin, as harness-pytorch."


def render_backends(
    entries: Sequence[BackendEntry], width: int = 80, colour: bool = False, broken: Sequence[Broken] = ()
) -> str:
    """Every backend with its stack, plugin and description; then the stacks with what they pin and whether they are made.

    Between them what plugins offer that cannot be used, and why.
    """
    if not entries:
        return to_string([*paragraph(_NO_BACKEND, width), *_broken_lines(broken, width)], width, colour)
    lines = [
        *table(list(_backend_rows(entries)), width),
        *_broken_lines(broken, width),
        Text(),
        *table(list(_stack_rows(stacks_of(entries))), width),
        Text(),
        *paragraph("`harness backends NAME` tells all of one backend.", width),
    ]
    return to_string(lines, width, colour)


def render_backend(entry: BackendEntry, width: int = 80, colour: bool = False) -> str:
    """All there is to know of one backend."""
    lines = [
        *paragraph(entry.backend.name, width, style="bold"),
        *paragraph(_description(entry), width),
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
        "broken": None,
        "description": entry.backend.description,
        "runner": entry.backend.runner,
        "plugin": {"distribution": entry.plugin.distribution, "version": entry.plugin.version},
        "stack": _stack_row(entry.stack),
        "image": {"state": entry.image.state, "tag": entry.image.tag, "reason": entry.image.reason},
        "tasks": list(entry.backend.tasks),
        "operations": list(entry.backend.operations),
        "model_types": list(entry.backend.model_types) or None,
        "runs_encoder_decoders": entry.backend.runs_encoder_decoders,
        "dtypes": {device: list(dtypes) for device, dtypes in entry.backend.dtypes.items()},
        "options": [_option_row(option) for option in entry.backend.options],
        "expects": dict(entry.backend.expects),
        "system_packages": list(entry.backend.system_packages),
        "dockerfile": entry.backend.dockerfile,
    }


def broken_row(broken: Broken) -> dict[str, Any]:
    """As JSON values what a plugin offers that cannot be used; `name` is null where it did not come so far as to say."""
    distribution, version = broken.provenance
    return {
        "name": broken.backend,
        "broken": broken.reason,
        "plugin": {"distribution": distribution, "version": version},
    }


# --- the table ------------------------------------------------------------------------------------------------------


def _backend_rows(entries: Sequence[BackendEntry]) -> Iterator[Row]:
    names = [(each.backend.name, each.backend.stack.name, str(each.image.state)) for each in entries]
    heading, *labels = _aligned([("backend", "stack", "image"), *names])
    yield Row(heading, remark="plugin", style="bold")
    for label, entry in zip(labels, entries, strict=True):
        yield Row(label, remark=_plugin_words(entry.plugin))
        yield Row("", remark=_description(entry), style="dim")


def _broken_lines(broken: Sequence[Broken], width: int) -> list[Text]:
    if not broken:
        return []
    heading = Row("broken ", remark="why", style="bold")
    rows = [Row(f"{plain(each.backend or each.plugin)} ", remark=plain(each.reason), style="yellow") for each in broken]
    return [Text(), *table([heading, *rows], width)]


def _stack_rows(stacks: Sequence[StackEntry]) -> Iterator[Row]:
    heading, *labels = _aligned([("stack", "environment"), *((each.stack.name, _state(each)) for each in stacks)])
    yield Row(heading, remark="main versions", style="bold")
    for label, each in zip(labels, stacks, strict=True):
        told = plain(each.problem or _few(each.main_pins))
        yield Row(label, remark=told, style="yellow" if each.problem else "")


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Labels of several words each, all of one width."""
    clean = [tuple(map(plain, row)) for row in rows]
    widths = [max(map(cell_len, column)) for column in zip(*clean, strict=True)]
    return ["  ".join(set_cell_size(*cell) for cell in zip(row, widths, strict=True)) + " " for row in clean]


def _state(entry: StackEntry) -> str:
    if entry.problem:
        return "cannot be made"
    return "made" if entry.made else "not made yet"


def _description(entry: BackendEntry) -> str:
    return plain(entry.backend.description) or "no description"


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
    yield "environment", f"made: {entry.stack.made}" if entry.stack.made else entry.stack.problem or NOT_MADE
    yield "image", _image_words(entry.image)
    yield "main versions", "unknown" if entry.stack.problem else _pins_words(entry.stack.main_pins)
    yield "system packages", ", ".join(entry.backend.system_packages) or "none"
    yield "Dockerfile", plain(entry.backend.dockerfile or "the shared one")
    yield "tasks", listed(entry.backend.tasks)
    yield "operations", listed(entry.backend.operations)
    yield "model types", _model_types(entry.backend)
    for device, dtypes in entry.backend.dtypes.items():
        yield f"dtypes on {device}", listed(dtypes)
    yield "expects", _expectations(entry.backend.expects)


def _model_types(backend: Backend) -> str:
    named = listed(backend.model_types) if backend.model_types else "any"
    return named if backend.runs_encoder_decoders else f"{named}, no encoder-decoders"


def _image_words(image: ImageEntry) -> str:
    named = f"{image.state}: {image.tag}" if image.tag else str(image.state)
    return f"{named} ({image.reason})" if image.reason else named


def _expectations(expects: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}: {_shown(value)}" for name, value in expects.items()) or "nothing beyond what was asked"


def _option_lines(entry: BackendEntry, width: int) -> list[Text]:
    if not entry.backend.options:
        return paragraph("no options", width)
    title = paragraph(f"options, axes of a matrix under `{entry.backend.name}`", width, style="bold")
    return [*title, *table([row for option in entry.backend.options for row in _option_rows(option)], width)]


def _option_rows(option: Option) -> Iterator[Row]:
    left = " (left to the framework)" if option.default is None else ""
    choices = f", one of {' | '.join(map(_shown, option.choices))}" if option.choices else ""
    told = f"{option.type.__name__}, default {_shown(option.default)}{left}{choices}"
    yield Row(f"{option.name} ", remark=plain(told))
    if option.help:
        yield Row("", remark=plain(option.help), style="dim")


def _pin_lines(entry: StackEntry, width: int) -> list[Text]:
    title = paragraph(f"pins of {entry.stack.lock}", width, style="bold")
    pins = "unknown" if entry.problem else _pins_words(entry.pins)
    return [*title, *paragraph(plain(pins), width, style="dim")]


def _shown(value: object) -> str:
    """As a matrix would write it."""
    return value if isinstance(value, str) else json.dumps(value, default=str)


# --- JSON -----------------------------------------------------------------------------------------------------------


def _stack_row(entry: StackEntry) -> dict[str, Any]:
    return {
        "name": entry.stack.name,
        "lock": entry.stack.lock,
        "environment": str(entry.made) if entry.made else None,
        "reason": None if entry.made else entry.problem or NOT_MADE,
        "main_pins": None if entry.problem else _pin_rows(entry.main_pins),
        "pins": None if entry.problem else _pin_rows(entry.pins),
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
