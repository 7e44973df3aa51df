"""The hooks a plugin may implement: page one of the plugin manual.

A plugin is a module named in the entry point group `harness`; its functions of these names, decorated with `hookimpl`, are
found by pluggy. All of them run on the host, never in a container, and none is called while anything is being timed. A
plugin may take fewer arguments than offered, by name. A misspelt hook is a mistake that is told at start, naming plugin and hook;
whatever is wrong with a plugin costs what it offers, and nothing of the others.

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

    Returns the backends of this plugin. A malformed one cannot be used; nor can two of one name, from whatever plugins, as nobody
    can tell which is meant. A hook that raises costs all that the plugin offers.
    """
    raise NotImplementedError


@hookspec
def harness_environment() -> Mapping[str, object]:
    """Add facts of this host that decide whether two results compare.

    Called before the first launch of a run, and by whatever command asks which results are of this host. Quick, and the same each
    time: what changes from call to call would make every result one of another host.

    Returns JSON values by name; they are stored with each result and enter its host_hash. Where the hook raises, that is a fact as
    well: results without the plugin's facts do not compare with those that have them.
    """
    raise NotImplementedError


# --- planning -------------------------------------------------------------------------------------------------------


@hookspec
def harness_select_cells(cells: Sequence[PlannedCell]) -> Sequence[PlannedCell] | None:
    """Drop or reorder cells.

    Called once per plan.

    `cells` are all of them, in order, those among them that will not run: copies, so that altering one in place alters nothing.
    Where another plugin was asked before, they are those that it has kept.

    Returns the cells to keep, in order, unaltered; None changes nothing. A cell left out becomes a row `skipped` that names the
    plugin. A plugin that raises, or returns a cell that it altered or invented, is reported, and its selection is left out.
    """
    raise NotImplementedError


# --- while running: observers, whose exceptions are reported and never stop the run ---------------------------------


@hookspec
def harness_cell_started(cell: Cell) -> None:
    """A cell's first launch of this run is about to start.

    Called on the run's own thread: the run waits for it, and nothing is timed meanwhile.
    """
    raise NotImplementedError


@hookspec
def harness_event(cell: Cell, event: Event) -> None:
    """A worker of the cell said something.

    Called between timed rounds, never within one: the workers of a block are asked one after the other, and an observer is told
    when an answer is there and before the next is asked for. A slow observer makes a run longer, and no latency.

    `event` is one of `harness.protocol`: the answers `Imported`, `Ready`, `OutputsWritten`, `AccuracyWritten`, `WarmedUp`,
    `Samples`, `MemoryRead`. More may come; pass over what you do not know.
    """
    raise NotImplementedError


@hookspec
def harness_cell_finished(result: Result) -> None:
    """A cell has ended, however it ended.

    Called when its result is on disk already: an observer that raises, or never returns, loses none.
    """
    raise NotImplementedError
