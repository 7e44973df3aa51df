"""The hooks a plugin may implement: page one of the plugin manual.

A plugin is a module named in the entry point group `harness`; its functions of these names, decorated with `hookimpl`, are
found by pluggy. All of them run on the host, never in a container, and none is called while anything is being timed. A
plugin may take fewer arguments than offered, by name. A misspelt hook is an error at start.

The runner, the part inside the container, is described in `harness.worker.api`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pluggy

from harness.model import Backend, Cell, PlannedCell, Result
from harness.protocol import Event

hookspec = pluggy.HookspecMarker("harness")
hookimpl = pluggy.HookimplMarker("harness")


# --- once, at start -------------------------------------------------------------------------------------------------


@hookspec
def harness_register_backends() -> Iterable[Backend]:
    """Offer backends.

    Called once, when the command starts. Must import no framework.

    Returns the backends of this plugin. Two of one name, from whatever plugins, are an error that names both.
    """
    raise NotImplementedError


@hookspec
def harness_environment() -> Mapping[str, object]:
    """Add facts of this host that decide whether two results compare.

    Called once per run, before the first launch.

    Returns JSON values by name; they are stored with each result and enter its host_hash.
    """
    raise NotImplementedError


# --- planning -------------------------------------------------------------------------------------------------------


@hookspec
def harness_select_cells(cells: Sequence[PlannedCell]) -> Sequence[PlannedCell] | None:
    """Drop or reorder cells.

    Called once per plan, with all cells in order. A cell left out becomes a row `skipped` that names the plugin.

    Returns the cells to keep, in order, unaltered; None changes nothing. An altered or unknown cell is an error.
    """
    raise NotImplementedError


# --- while running: observers, whose exceptions are reported and never stop the run ---------------------------------


@hookspec
def harness_cell_started(cell: Cell) -> None:
    """A cell's first launch of this run is about to start."""
    raise NotImplementedError


@hookspec
def harness_event(cell: Cell, event: Event) -> None:
    """A worker said something. Called between timed rounds only."""
    raise NotImplementedError


@hookspec
def harness_cell_finished(result: Result) -> None:
    """A cell has ended, however it ended. Its result is on disk already."""
    raise NotImplementedError
