"""The rules of axes, exclude and include, as GitHub Actions has them, where a backend's options are axes of its own cells.

1. The combinations are the product of the axes, in the order written, the last axis varying fastest. A backend's option is
   an axis only for combinations with that backend.
2. Every combination that agrees with all of an `exclude` entry is removed.
3. Each `include` entry, in order, is added to every combination left whose axis values it does not contradict; it may
   overwrite what an earlier entry added, never an axis value. An entry that can be added nowhere is a combination of its own,
   to which later entries are not added.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from harness.matrix.schema import Document, Entry, Setting, Settings
from harness.matrix.source import Node

MAX_COMBINATIONS = 100_000
"""More cells than this are a slip of the pen: at a second each they would take longer than a day."""

Axes = Mapping[str, Sequence[Setting]]


@dataclass(frozen=True)
class Combination:
    """What some cell's axes take; what it does not name comes from the defaults."""

    node: Node  # the matrix, or the include entry that made it
    axis_settings: Settings  # from the axes: fixed
    added: Settings = field(default_factory=dict)  # by include entries

    @property
    def settings(self) -> Settings:
        return {**self.axis_settings, **self.added}


def combine(document: Document, by_default: Sequence[str]) -> list[Combination]:
    """The combinations of a matrix file, in order; each names a backend, one of `by_default` where the file names none.

    Raises HarnessError.
    """
    axes = _with_backends(document, by_default)
    _check_used(axes)
    _check_count(document.node, axes)
    originals = _excluded(document, axes, _product(document.node, axes))
    return _included(document.include, originals, axes["backend"])


def _with_backends(document: Document, by_default: Sequence[str]) -> Axes:
    """The axes with a backend axis: where none is written, that of `defaults`, or else all by default; fastest then."""
    if "backend" in document.axes:
        return document.axes
    if "backend" in document.defaults:
        return {**document.axes, "backend": [document.defaults["backend"]]}
    if not by_default:
        raise document.node.error("names no backend, and those installed must be named: add the axis 'backend'")
    return {**document.axes, "backend": [Setting(name, document.node) for name in by_default]}


def _applies(axis: str, backend: str) -> bool:
    """Whether an axis is one for this backend's combinations."""
    return "." not in axis or axis.partition(".")[0] == backend


def _check_used(axes: Axes) -> None:
    """Options of a backend that no combination has would be ignored in silence."""
    backends = {setting.value for setting in axes["backend"]}
    for name, settings in axes.items():
        if not any(_applies(name, backend) for backend in backends):
            owner = name.partition(".")[0]
            raise settings[0].node.error(
                f"is an option of {owner}, but the backends here are {', '.join(sorted(backends))}"
            )


def _check_count(node: Node, axes: Axes) -> None:
    count = sum(_size(axes, setting.value) for setting in axes["backend"])
    if count > MAX_COMBINATIONS:
        raise node.error(f"has {count} combinations, over the limit of {MAX_COMBINATIONS}; shorten its axes")


def _size(axes: Axes, backend: str) -> int:
    """How many combinations have this backend."""
    size = 1
    for name, settings in axes.items():
        size *= len(settings) if name != "backend" and _applies(name, backend) else 1
    return size


# --- product --------------------------------------------------------------------------------------------------------


def _product(node: Node, axes: Axes) -> list[Combination]:
    rows = sorted(row for index in range(len(axes["backend"])) for row in _rows(axes, index))
    return [_combination(node, axes, row) for row in rows]


def _rows(axes: Axes, backend_index: int) -> Iterable[tuple[int, ...]]:
    """One backend's combinations as an index per axis; sorting those of all backends gives the order of nested loops."""
    backend = axes["backend"][backend_index].value
    ranges = {name: range(len(settings) if _applies(name, backend) else 1) for name, settings in axes.items()}
    return itertools.product(*{**ranges, "backend": [backend_index]}.values())


def _combination(node: Node, axes: Axes, row: tuple[int, ...]) -> Combination:
    settings = {name: choices[index] for (name, choices), index in zip(axes.items(), row, strict=True)}
    backend = settings["backend"].value
    return Combination(node, {name: setting for name, setting in settings.items() if _applies(name, backend)})


# --- exclude and include --------------------------------------------------------------------------------------------


def _excluded(document: Document, axes: Axes, combinations: list[Combination]) -> list[Combination]:
    for entry in document.exclude:
        _check_axes(entry, axes)
        if not any(_matches(entry, combination) for combination in combinations):
            raise entry.node.error("matches no combination; mend it, or remove it")
    return [c for c in combinations if not any(_matches(entry, c) for entry in document.exclude)]


def _check_axes(entry: Entry, axes: Axes) -> None:
    for name, setting in entry.settings.items():
        if name not in axes:
            raise setting.node.error(
                f"is no axis of this matrix, so nothing can be excluded by it (axes: {', '.join(axes)})"
            )


def _matches(entry: Entry, combination: Combination) -> bool:
    settings = combination.axis_settings
    return all(name in settings and settings[name].value == wanted.value for name, wanted in entry.settings.items())


def _included(entries: Iterable[Entry], originals: list[Combination], backends: Sequence[Setting]) -> list[Combination]:
    created: list[Combination] = []
    for entry in entries:
        if any(_fits(entry, combination) for combination in originals):
            originals = [_grown(combination, entry) for combination in originals]
        else:
            created += _created(entry, backends)
    return [*originals, *created]


def _fits(entry: Entry, combination: Combination) -> bool:
    """Whether the entry contradicts none of the combination's axis values."""
    settings = combination.axis_settings
    return all(settings[name].value == wanted.value for name, wanted in entry.settings.items() if name in settings)


def _grown(combination: Combination, entry: Entry) -> Combination:
    if not _fits(entry, combination):
        return combination
    return replace(combination, added={**combination.added, **entry.settings})


def _created(entry: Entry, backends: Sequence[Setting]) -> list[Combination]:
    """The entry as a combination of its own: for its backend, or where it names none for each one of the matrix."""
    chosen = [entry.settings["backend"]] if "backend" in entry.settings else backends
    return [Combination(entry.node, {**entry.settings, "backend": backend}) for backend in chosen]
