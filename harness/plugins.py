"""Finds the plugins, checks what they offer, and calls their hooks.

A plugin is a module named in the entry point group `harness` of an installed distribution, or by module name on the command
line. One that cannot be imported costs only its own backends: the rest go on, and `Plugins.problems` says what is missing.
Anything else that is wrong with a plugin is a mistake its author must see, and stops the command with one sentence.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import inspect
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import pluggy

from harness import hookspecs, support
from harness.declarations import fault_of
from harness.model import Backend, Cell, HarnessError, PlannedCell, Result, Stack, Status
from harness.protocol import Event
from harness.spelling import did_you_mean

ENTRY_POINT_GROUP = "harness"


class Provenance(NamedTuple):
    """The distribution a backend came with; both None where its plugin was named by module."""

    distribution: str | None
    version: str | None


@dataclass(frozen=True)
class _Source:
    """Where a plugin is to be imported from. As text it is what every message calls the plugin."""

    name: str
    provenance: Provenance
    load: Callable[[], object]

    def __str__(self) -> str:
        distribution, version = self.provenance
        return f"plugin {self.name!r}" + (f" ({distribution} {version})" if distribution else "")


@dataclass(frozen=True)
class Plugins:
    """The plugins of this command."""

    backends: Mapping[str, Backend]  # by name, in alphabetical order
    provenance: Mapping[str, Provenance]  # by backend
    problems: Sequence[str]  # one sentence per plugin that could not be imported
    _owners: Mapping[str, str] = field(repr=False)  # backend -> its plugin, as messages call it
    _manager: pluggy.PluginManager = field(repr=False)

    def supports(self, cell: Cell, model_config: Mapping[str, Any]) -> str | None:
        """Why the cell's backend cannot run it, None where it can. Raises HarnessError where the backend's answer is no answer."""
        backend, owner = self.backends[cell.backend], self._owners[cell.backend]
        if reason := support.refusal(cell, backend, model_config):
            return reason
        try:
            reason = backend.supports(cell, model_config)
        except Exception as error:
            raise _raised(owner, f"supports() of the backend {cell.backend!r}", error) from error
        if reason is not None and not isinstance(reason, str):
            raise HarnessError(
                f"{owner}: supports() of the backend {cell.backend!r} returned {reason!r}, not text or None"
            )
        return reason

    def select_cells(self, cells: Sequence[PlannedCell]) -> tuple[PlannedCell, ...]:
        """The cells as harness_select_cells leaves them: those kept in the plugins' order, then those dropped, as skipped.

        Each plugin sees what the ones before it kept. A cell that was unsupported already stays so when it is dropped.
        """
        kept, dropped = list(cells), list[PlannedCell]()
        for plugin in _implementers(self._manager, "harness_select_cells"):
            kept, left_out = self._selection(plugin, kept)
            dropped += left_out
        return (*kept, *dropped)

    def environment(self) -> dict[str, object]:
        """The facts of the host that plugins add, by name."""
        facts: dict[str, object] = {}
        authors: dict[str, str] = {}
        for plugin in _implementers(self._manager, "harness_environment"):
            answer = _ask(self._manager, plugin, "harness_environment")
            for name, value in _checked_facts(plugin, answer).items():
                if name in authors:
                    raise HarnessError(
                        f"{plugin} and {authors[name]} both add a fact named {name!r}; one must rename its own"
                    )
                facts[name], authors[name] = value, plugin
        return facts

    def add_observer(self, name: str, observer: object) -> None:
        """Let an object observe as the plugins do; `name` is what messages call it."""
        _register(self._manager, name, observer)

    def observers(self, report: Callable[[str], None]) -> Observers:
        """The observing hooks as one object; `report` is told, once each, which plugin's hook raised."""
        return Observers(self._manager, report)

    def _selection(self, plugin: str, cells: Sequence[PlannedCell]) -> tuple[list[PlannedCell], list[PlannedCell]]:
        """What one plugin keeps and drops. The keys are taken before it is asked, so that altering in place is seen too."""
        offered = {planned.cell.key: planned for planned in cells}
        answer = _ask(self._manager, plugin, "harness_select_cells", cells=tuple(cells))
        _check_unaltered(plugin, offered)
        kept = list(cells) if answer is None else _checked_selection(plugin, offered, answer)
        kept_keys = {planned.cell.key for planned in kept}
        return kept, [_skipped(planned, plugin) for key, planned in offered.items() if key not in kept_keys]


class Observers:
    """Tells the plugins what happens. An observer that raises is reported once and never stops the run."""

    def __init__(self, manager: pluggy.PluginManager, report: Callable[[str], None]) -> None:
        self._manager = manager
        self._report = report
        self._reported: set[tuple[str, str]] = set()

    def cell_started(self, cell: Cell) -> None:
        self._tell("harness_cell_started", cell=cell)

    def event(self, cell: Cell, event: Event) -> None:
        self._tell("harness_event", cell=cell, event=event)

    def cell_finished(self, result: Result) -> None:
        self._tell("harness_cell_finished", result=result)

    def _tell(self, hook: str, **arguments: object) -> None:
        for plugin in _implementers(self._manager, hook):
            try:
                _ask(self._manager, plugin, hook, **arguments)
            except HarnessError as error:
                self._report_once(plugin, hook, f"{error}; the run goes on")

    def _report_once(self, plugin: str, hook: str, message: str) -> None:
        if (plugin, hook) not in self._reported:
            self._reported.add((plugin, hook))
            self._report(message)


def load(extra: Sequence[str] = ()) -> Plugins:
    """Every installed plugin, and those whose module names are in `extra`.

    Raises HarnessError, naming plugin, distribution and version, for a plugin named in `extra` that cannot be imported, a
    misspelt hook, a hook that raises, a malformed backend or option, and two backends of one name.
    """
    manager = pluggy.PluginManager("harness")
    manager.add_hookspecs(hookspecs)
    sources = [*_installed(), *_named(extra)]
    problems = _register_all(manager, sources)
    _check_hooks(manager)
    owners = _backends_with_owners(manager)
    provenance = {str(source): source.provenance for source in sources}
    return Plugins(
        backends={name: backend for name, (_, backend) in sorted(owners.items())},
        provenance={name: provenance[plugin] for name, (plugin, _) in owners.items()},
        problems=tuple(problems),
        _owners={name: plugin for name, (plugin, _) in owners.items()},
        _manager=manager,
    )


# --- finding and importing ------------------------------------------------------------------------------------------


def _installed() -> list[_Source]:
    """The installed plugins in an order that does not depend on where they are installed."""
    entry_points = importlib.metadata.entry_points(group=ENTRY_POINT_GROUP)
    sources = [_Source(point.name, _provenance(point.dist), point.load) for point in entry_points]
    return sorted(sources, key=str)


def _provenance(distribution: importlib.metadata.Distribution | None) -> Provenance:
    return Provenance(distribution.name, distribution.version) if distribution else Provenance(None, None)


def _named(modules: Iterable[str]) -> list[_Source]:
    return [_Source(name, Provenance(None, None), partial(importlib.import_module, name)) for name in modules]


def _register_all(manager: pluggy.PluginManager, sources: Iterable[_Source]) -> list[str]:
    """Register what can be imported; returns a sentence for each installed plugin that cannot."""
    problems = []
    for source in sources:
        try:
            plugin = source.load()
        except (Exception, SystemExit) as error:
            problem = f"{source} cannot be imported ({type(error).__name__}: {error})"
            if source.provenance.distribution is None:  # asked for by name: to go on would be a silent substitution
                raise HarnessError(f"{problem}; mend it, or leave its name out") from error
            problems.append(f"{problem}; its backends are missing, reinstall or remove it")
        else:
            _register(manager, str(source), plugin)
    return problems


def _register(manager: pluggy.PluginManager, name: str, plugin: object) -> None:
    if manager.is_registered(plugin):  # installed, and named on the command line too
        return
    _check_decorated(manager, name, plugin)
    try:
        manager.register(plugin, name=name)
    except pluggy.PluginValidationError as error:  # arguments that the hook does not offer
        raise HarnessError(f"{name}: {' '.join(str(error).split())}") from None


def _check_decorated(manager: pluggy.PluginManager, name: str, plugin: object) -> None:
    for hook in _hook_names():
        if inspect.isfunction(getattr(plugin, hook, None)) and manager.parse_hookimpl_opts(plugin, hook) is None:
            raise HarnessError(f"{name}: {hook} is not decorated, so it would never be called; put @hookimpl above it")


def _hook_names() -> list[str]:
    return [name for name in vars(hookspecs) if name.startswith("harness_")]


def _check_hooks(manager: pluggy.PluginManager) -> None:
    """Every hook implemented must be one that exists (what pluggy's check_pending asks), and be a plain function."""
    for name, plugin in manager.list_name_plugin():
        for caller in manager.get_hookcallers(plugin) or ():
            if not caller.has_spec():
                raise HarnessError(
                    f"{name}: there is no hook {caller.name!r}{did_you_mean(caller.name, _hook_names())}"
                )
            if any(impl.wrapper or impl.hookwrapper for impl in caller.get_hookimpls() if impl.plugin is plugin):
                raise HarnessError(
                    f"{name}: {caller.name} is a wrapper; plugins are asked one by one, so none can be wrapped"
                )


def _implementers(manager: pluggy.PluginManager, hook: str) -> list[str]:
    """The plugins that implement a hook, in pluggy's order of calling."""
    implementations = reversed(getattr(manager.hook, hook).get_hookimpls())
    return list(dict.fromkeys(implementation.plugin_name for implementation in implementations))


def _ask(manager: pluggy.PluginManager, plugin: str, hook: str, **arguments: object) -> Any:
    """One plugin's answer, None where it has none. One at a time, so that whatever is wrong with it can be given its name."""
    others = [other for name, other in manager.list_name_plugin() if name != plugin]
    try:
        answers = manager.subset_hook_caller(hook, others)(**arguments)
    except Exception as error:
        raise _raised(plugin, hook, error) from error
    return answers[0] if answers else None


def _raised(plugin: str, what: str, error: Exception) -> HarnessError:
    return HarnessError(f"{plugin}: {what} raised {type(error).__name__}: {error}")


# --- backends -------------------------------------------------------------------------------------------------------


def _backends_with_owners(manager: pluggy.PluginManager) -> dict[str, tuple[str, Backend]]:
    """Backend name -> (plugin, backend)."""
    owned: dict[str, tuple[str, Backend]] = {}
    for plugin in _implementers(manager, "harness_register_backends"):
        for backend in _checked_backends(plugin, _ask(manager, plugin, "harness_register_backends")):
            if backend.name in owned:
                raise HarnessError(
                    f"{owned[backend.name][0]} and {plugin} both offer a backend {backend.name!r}; remove one"
                )
            owned[backend.name] = (plugin, backend)
    _check_stacks(owned.values())
    return owned


def _checked_backends(plugin: str, answer: Any) -> Iterator[Backend]:
    for backend in _as_list(plugin, "harness_register_backends", answer):
        fault = fault_of(backend)
        if fault is not None:
            raise HarnessError(f"{plugin}: {fault}")
        yield backend


def _check_stacks(owned: Iterable[tuple[str, Backend]]) -> None:
    """Stacks are made once per name, so two that differ would put one plugin's backend into the other's environment."""
    seen: dict[str, tuple[str, Stack]] = {}
    for plugin, backend in owned:
        first, stack = seen.setdefault(backend.stack.name, (plugin, backend.stack))
        if stack != backend.stack:
            raise HarnessError(
                f"{first} and {plugin} declare different stacks named {stack.name!r}; rename one of them"
            )


# --- answers of the other hooks -------------------------------------------------------------------------------------


def _check_unaltered(plugin: str, offered: Mapping[str, PlannedCell]) -> None:
    """A cell's options are a plain dictionary, so it can be altered in place; then it has left its key."""
    for key, planned in offered.items():
        if planned.cell.key != key:
            raise HarnessError(
                f"{plugin}: harness_select_cells altered {planned.cell.label}; it may only drop and reorder"
            )


def _checked_selection(plugin: str, offered: Mapping[str, PlannedCell], answer: Any) -> list[PlannedCell]:
    """The cells to keep: each one of those offered, unaltered, once."""
    kept: dict[str, PlannedCell] = {}
    for planned in _as_list(plugin, "harness_select_cells", answer):
        if not isinstance(planned, PlannedCell):
            raise HarnessError(f"{plugin}: harness_select_cells returned {planned!r}, which is no PlannedCell")
        key = planned.cell.key
        if offered.get(key) != planned:
            what = f"returned {planned.cell.label}, which it altered or invented"
            raise HarnessError(f"{plugin}: harness_select_cells {what}; it may only drop and reorder")
        if key in kept:
            raise HarnessError(f"{plugin}: harness_select_cells returned {planned.cell.label} twice")
        kept[key] = planned
    return list(kept.values())


def _as_list(plugin: str, hook: str, answer: Any) -> list[Any]:
    try:
        return list(answer)
    except Exception as error:  # not iterable, or a generator that raises on its way
        raise _raised(plugin, hook, error) from error


def _skipped(planned: PlannedCell, plugin: str) -> PlannedCell:
    if planned.status is not None:
        return planned
    return PlannedCell(planned.cell, Status.SKIPPED, f"dropped by {plugin}")


def _checked_facts(plugin: str, answer: Any) -> Mapping[str, object]:
    if answer is None:
        return {}
    if not isinstance(answer, Mapping) or not all(isinstance(name, str) for name in answer):
        raise HarnessError(f"{plugin}: harness_environment returned {answer!r}, not values by name")
    try:
        json.dumps(dict(answer), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise HarnessError(f"{plugin}: harness_environment returned what JSON cannot hold: {error}") from None
    return answer
