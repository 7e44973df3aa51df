"""Finds the plugins, checks what they offer, and calls their hooks.

A plugin is a module named in the entry point group `harness` of an installed distribution, or by module name on the command
line. Whatever is wrong with an installed one costs only what it offers: the rest go on, and `Plugins.broken` says what is
missing and why. A plugin asked for by name is a different thing: to go on without it would be a silent substitution, so what is
wrong with it stops the command with one sentence.
"""

from __future__ import annotations

import copy
import importlib
import importlib.metadata
import inspect
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, redirect_stdout
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import pluggy

from harness import hookspecs, support
from harness.declarations import fault_of
from harness.model import Backend, Cell, HarnessError, PlannedCell, Result, Status
from harness.protocol import Event
from harness.spelling import did_you_mean, listed

ENTRY_POINT_GROUP = "harness"

_ITS_OWN = (Exception, SystemExit)
"""What a plugin raises is its own affair, and a plugin does not end the command. An interrupt is the user's."""

Report = Callable[[str], None]
"""Told one sentence."""


class PluginError(HarnessError):
    """A plugin's own mistake; the text names it, with distribution and version."""


class Provenance(NamedTuple):
    """The distribution a backend came with; both None where its plugin was named by module."""

    distribution: str | None
    version: str | None


@dataclass(frozen=True)
class Broken:
    """What an installed plugin offers and nobody can use."""

    plugin: str  # its entry point's name: by custom that of its backend, where it offers one
    provenance: Provenance
    backend: str | None  # None: it did not come so far as to say what it offers
    reason: str  # one sentence naming plugin, distribution and version


@dataclass(frozen=True)
class _Source:
    """Where a plugin is to be imported from. As text it is what every message calls the plugin."""

    name: str
    module: str
    provenance: Provenance
    load: Callable[[], object]

    def __str__(self) -> str:
        distribution, version = self.provenance
        return f"plugin {self.name!r}" + (f" ({distribution} {version})" if distribution else "")

    @property
    def is_installed(self) -> bool:
        """Not asked for by name."""
        return self.provenance.distribution is not None


@dataclass(frozen=True)
class _Offer:
    """A backend, and the plugin that offers it."""

    source: _Source
    backend: Backend


@dataclass(frozen=True)
class Plugins:
    """The plugins of this command."""

    backends: Mapping[str, Backend]  # by name, in alphabetical order
    provenance: Mapping[str, Provenance]  # by backend
    modules: Mapping[str, str]  # backend -> the module of its plugin
    broken: Sequence[Broken]  # what is missing
    _manager: pluggy.PluginManager = field(repr=False)
    _report: Report = field(repr=False)

    @property
    def problems(self) -> tuple[str, ...]:
        """One sentence for each thing that is missing."""
        return tuple(dict.fromkeys(each.reason for each in self.broken))

    def why_missing(self, name: str) -> str | None:
        """Why there is no backend of this name, where a broken plugin offers it, or may; None where none does."""
        known = [each.reason for each in self.broken if name in (each.backend, each.plugin)]
        if known:
            return known[0]
        may_offer_it = dict.fromkeys(each.reason for each in self.broken if each.backend is None)
        if may_offer_it and not did_you_mean(name, self.backends):
            return (
                f"no backend of that name is left, and what these plugins offer is not known: {'; '.join(may_offer_it)}"
            )
        return None

    def named(self, name: str) -> Backend:
        """The backend of this name. Raises HarnessError with the nearest right spelling, or with what is broken."""
        if name in self.backends:
            return self.backends[name]
        if reason := self.why_missing(name):
            raise HarnessError(f"the backend {name!r} cannot be used: {reason}")
        hint = did_you_mean(name, self.backends)
        raise HarnessError(f"there is no backend {name!r}{hint}; installed are {listed(self.backends)}")

    def supports(self, cell: Cell, model_config: Mapping[str, Any]) -> str | None:
        """Why the cell's backend cannot run it, None where it can. Raises PluginError where the backend's answer is no answer."""
        backend = self.backends[cell.backend]
        return support.refusal(cell, backend, model_config) or own_refusal(cell, backend, model_config)

    def select_cells(self, cells: Sequence[PlannedCell]) -> tuple[PlannedCell, ...]:
        """The cells as harness_select_cells leaves them: those kept in the plugins' order, then those dropped, as skipped.

        Each plugin sees what the ones before it kept. A cell that was unsupported already stays so when it is dropped. A plugin
        that raises, or does more than dropping and reordering, is reported and has no say.
        """
        kept, dropped = list(cells), list[PlannedCell]()
        for plugin in _implementers(self._manager, "harness_select_cells"):
            try:
                kept, left_out = self._selection(plugin, kept)
            except PluginError as fault:
                self._report(f"{fault}; its selection is left out")
            else:
                dropped += left_out
        return (*kept, *dropped)

    def environment(self) -> dict[str, object]:
        """The facts of the host that plugins add, by name.

        A plugin that raises, or adds what is no fact, is reported. That its facts are unknown is a fact then: results measured
        without them do not compare with those that have them.
        """
        facts: dict[str, object] = {}
        authors: dict[str, str] = {}
        for plugin in _implementers(self._manager, "harness_environment"):
            try:
                added = _checked_facts(plugin, _ask(self._manager, plugin, "harness_environment"), authors)
            except PluginError as fault:
                self._report(f"{fault}; its facts are left out")
                added = {plugin: f"unknown: {fault}"}
            facts |= added
            authors |= dict.fromkeys(added, plugin)
        return facts

    def add_observer(self, name: str, observer: object) -> None:
        """Let an object observe as the plugins do; `name` is what messages call it."""
        _register(self._manager, name, observer)

    def observers(self, report: Report) -> Observers:
        """The observing hooks as one object; `report` is told, once each, which plugin's hook raised."""
        return Observers(self._manager, report)

    def _selection(self, plugin: str, cells: Sequence[PlannedCell]) -> tuple[list[PlannedCell], list[PlannedCell]]:
        """What one plugin keeps and drops. It is given copies: what it does to them in place alters nothing, and is seen."""
        offered = {planned.cell.key: planned for planned in cells}
        given = copy.deepcopy(offered)
        answer = _ask(self._manager, plugin, "harness_select_cells", cells=tuple(given.values()))
        _check_unaltered(plugin, given)
        kept = list(offered) if answer is None else _checked_selection(plugin, offered, answer)
        return [offered.pop(key) for key in kept], [_skipped(planned, plugin) for planned in offered.values()]


class Observers:
    """Tells the plugins what happens. An observer that raises is reported once and never stops the run."""

    def __init__(self, manager: pluggy.PluginManager, report: Report) -> None:
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
            except PluginError as error:
                self._report_once(plugin, hook, f"{error}; the run goes on")

    def _report_once(self, plugin: str, hook: str, message: str) -> None:
        if (plugin, hook) not in self._reported:
            self._reported.add((plugin, hook))
            self._report(message)


class _Once:
    """Passes each sentence on once: a command asks some hooks several times."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._said: set[str] = set()

    def __call__(self, sentence: str) -> None:
        if sentence not in self._said:
            self._said.add(sentence)
            self._report(sentence)


def load(extra: Sequence[str] = (), report: Report = lambda _: None) -> Plugins:
    """Every installed plugin, and those whose module names are in `extra`.

    What is wrong with an installed one is in `Plugins.broken`; `report` is told, once each, what hooks do wrong later on. Raises
    PluginError, naming the plugin, where a plugin of `extra` cannot be imported, has a misspelt hook, a hook that raises, a
    malformed backend or option, or a backend that another plugin offers too.
    """
    manager = pluggy.PluginManager("harness")
    manager.add_hookspecs(hookspecs)
    sources = [*_installed(), *_named(extra)]
    broken = [*_register_all(manager, sources)]
    offers, malformed = _offers(manager, {str(source): source for source in sources})
    usable, clashing = _without_clashes(offers)
    by_name = {offer.backend.name: offer for offer in sorted(usable, key=lambda offer: offer.backend.name)}
    return Plugins(
        backends={name: offer.backend for name, offer in by_name.items()},
        provenance={name: offer.source.provenance for name, offer in by_name.items()},
        modules={name: offer.source.module for name, offer in by_name.items()},
        broken=(*broken, *malformed, *clashing),
        _manager=manager,
        _report=_Once(report),
    )


def own_refusal(cell: Cell, backend: Backend, model_config: Mapping[str, Any]) -> str | None:
    """The backend's own reason why it cannot run the cell, None where it can. Raises PluginError where its answer is no answer."""
    what = f"supports() of the backend {backend.name!r}"
    try:
        with _quietly():
            reason = backend.supports(cell, model_config)
    except _ITS_OWN as error:
        raise _raised(backend.offered_by, what, error) from error
    if reason is not None and not isinstance(reason, str):
        raise PluginError(f"{backend.offered_by}: {what} returned {reason!r}, not text or None")
    return reason


# --- finding and importing ------------------------------------------------------------------------------------------


def _installed() -> list[_Source]:
    """The installed plugins in an order that does not depend on where they are installed."""
    entry_points = importlib.metadata.entry_points(group=ENTRY_POINT_GROUP)
    sources = [_Source(point.name, point.module, _provenance(point.dist), point.load) for point in entry_points]
    return sorted(sources, key=str)


def _provenance(distribution: importlib.metadata.Distribution | None) -> Provenance:
    return Provenance(distribution.name, distribution.version) if distribution else Provenance(None, None)


def _named(modules: Iterable[str]) -> list[_Source]:
    unknown = Provenance(None, None)
    return [_Source(name, name, unknown, partial(importlib.import_module, name)) for name in modules]


def _register_all(manager: pluggy.PluginManager, sources: Iterable[_Source]) -> Iterator[Broken]:
    """Register what is in order; tells of what is not."""
    for source in sources:
        try:
            _register(manager, str(source), _imported(source))
        except PluginError as fault:
            yield _broken(source, fault)


def _imported(source: _Source) -> object:
    try:
        with _quietly():
            return source.load()
    except _ITS_OWN as error:
        advice = (
            "its backends are missing, reinstall or remove it"
            if source.is_installed
            else "mend it, or leave its name out"
        )
        raise PluginError(
            f"{source} cannot be imported ({type(error).__name__}: {_in_one_line(error)}); {advice}"
        ) from error


def _broken(source: _Source, fault: PluginError, backend: str | None = None) -> Broken:
    """For an installed plugin. Raises the fault of one that was asked for by name."""
    if not source.is_installed:
        raise fault
    return Broken(source.name, source.provenance, backend, str(fault))


def _register(manager: pluggy.PluginManager, name: str, plugin: object) -> None:
    """Raises PluginError, and leaves nothing of the plugin behind, where a hook of it is wrong."""
    if manager.is_registered(plugin):  # installed, and named on the command line too
        return
    _check_decorated(manager, name, plugin)
    _check_any_hook(manager, name, plugin)
    try:
        manager.register(plugin, name=name)
        _check_hooks(manager, name, plugin)
    except pluggy.PluginValidationError as error:  # arguments that the hook does not offer
        if manager.is_registered(plugin):  # pluggy before 1.6
            manager.unregister(plugin)
        raise PluginError(f"{name}: {_in_one_line(error)}") from None
    except PluginError:
        manager.unregister(plugin)
        raise


def _check_decorated(manager: pluggy.PluginManager, name: str, plugin: object) -> None:
    for hook in _hook_names():
        if inspect.isfunction(getattr(plugin, hook, None)) and manager.parse_hookimpl_opts(plugin, hook) is None:
            raise PluginError(f"{name}: {hook} is not decorated, so it would never be called; put @hookimpl above it")


def _check_any_hook(manager: pluggy.PluginManager, name: str, plugin: object) -> None:
    """The package named in place of its module `plugin`, say, would be taken for a plugin that offers nothing."""
    if not any(manager.parse_hookimpl_opts(plugin, attribute) for attribute in dir(plugin)):
        raise PluginError(
            f"{name} has no hook of the harness; name the module that has them, or put @hookimpl above one"
        )


def _hook_names() -> list[str]:
    return [name for name in vars(hookspecs) if name.startswith("harness_")]


def _check_hooks(manager: pluggy.PluginManager, name: str, plugin: object) -> None:
    """Every hook implemented must be one that exists (what pluggy's check_pending asks), and be a plain function."""
    for caller in manager.get_hookcallers(plugin) or ():
        if not caller.has_spec():
            raise PluginError(f"{name}: there is no hook {caller.name!r}{did_you_mean(caller.name, _hook_names())}")
        if any(impl.wrapper or impl.hookwrapper for impl in caller.get_hookimpls() if impl.plugin is plugin):
            raise PluginError(
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
        with _quietly():
            answers = manager.subset_hook_caller(hook, others)(**arguments)
    except _ITS_OWN as error:
        raise _raised(plugin, hook, error) from error
    return answers[0] if answers else None


def _raised(plugin: str, what: str, error: BaseException) -> PluginError:
    return PluginError(f"{plugin}: {what} raised {type(error).__name__}: {_in_one_line(error)}")


def _quietly() -> AbstractContextManager[object]:
    """What a plugin prints goes to standard error: standard output is for what the command was asked for."""
    return redirect_stdout(sys.stderr)


def _in_one_line(error: BaseException) -> str:
    return " ".join(str(error).split())


# --- backends -------------------------------------------------------------------------------------------------------


def _offers(manager: pluggy.PluginManager, sources: Mapping[str, _Source]) -> tuple[list[_Offer], list[Broken]]:
    """The backends that are declared as they should be, and what is not. A plugin whose hook raises has no further say."""
    offers, broken = list[_Offer](), list[Broken]()
    for plugin in reversed(_implementers(manager, "harness_register_backends")):  # as they were found
        source = sources[plugin]
        try:
            answer = _ask(manager, plugin, "harness_register_backends")
            declared = _as_list(plugin, "harness_register_backends", answer)
        except PluginError as fault:
            broken.append(_broken(source, fault))
            manager.unregister(name=plugin)
            continue
        for backend in declared:
            if fault_text := fault_of(backend):
                broken.append(_broken(source, PluginError(f"{plugin}: {fault_text}"), _name_of(backend)))
            else:
                offers.append(_Offer(source, replace(backend, offered_by=plugin)))
    return offers, broken


def _name_of(backend: object) -> str | None:
    return str(backend.name) if isinstance(backend, Backend) else None


def _without_clashes(offers: Sequence[_Offer]) -> tuple[list[_Offer], list[Broken]]:
    """Those that no other offer contradicts; of the rest, why. Which of two is meant nobody can tell, so neither is used."""
    faults: dict[str, tuple[_Source, PluginError]] = {}
    for first, second, fault in _clashes(offers):
        for offer in (first, second):
            source = second.source if first.source.is_installed else first.source  # the one asked for by name, if any
            faults.setdefault(offer.backend.name, (source, fault))
    usable = [offer for offer in offers if offer.backend.name not in faults]
    return usable, [_broken(source, fault, name) for name, (source, fault) in sorted(faults.items())]


def _clashes(offers: Sequence[_Offer]) -> Iterator[tuple[_Offer, _Offer, PluginError]]:
    """Pairs that cannot both be used. Stacks are made once per name, so of two that differ one backend would get the other's."""
    names, stacks = dict[str, _Offer](), dict[str, _Offer]()
    for offer in offers:
        backend = offer.backend
        first = names.setdefault(backend.name, offer)
        if first is not offer:
            sentence = f"{first.source} and {offer.source} both offer a backend {backend.name!r}; remove one"
            yield first, offer, PluginError(sentence)
        first = stacks.setdefault(backend.stack.name, offer)
        if first.backend.stack != backend.stack:
            sentence = f"{first.source} and {offer.source} declare different stacks named {backend.stack.name!r}"
            yield first, offer, PluginError(f"{sentence}; rename one of them")


# --- answers of the other hooks -------------------------------------------------------------------------------------


def _check_unaltered(plugin: str, given: Mapping[str, PlannedCell]) -> None:
    """A cell's options are a plain dictionary, so it can be altered in place; then it has left its key."""
    for key, planned in given.items():
        if planned.cell.key != key:
            raise PluginError(
                f"{plugin}: harness_select_cells altered {planned.cell.label}; it may only drop and reorder"
            )


def _checked_selection(plugin: str, offered: Mapping[str, PlannedCell], answer: Any) -> list[str]:
    """The keys of the cells to keep: each one of those offered, unaltered, once."""
    kept: dict[str, None] = {}
    for planned in _as_list(plugin, "harness_select_cells", answer):
        if not isinstance(planned, PlannedCell):
            raise PluginError(f"{plugin}: harness_select_cells returned {planned!r}, which is no PlannedCell")
        key = planned.cell.key
        if offered.get(key) != planned:
            what = f"returned {planned.cell.label}, which it altered or invented"
            raise PluginError(f"{plugin}: harness_select_cells {what}; it may only drop and reorder")
        if key in kept:
            raise PluginError(f"{plugin}: harness_select_cells returned {planned.cell.label} twice")
        kept[key] = None
    return list(kept)


def _as_list(plugin: str, hook: str, answer: Any) -> list[Any]:
    try:
        with _quietly():
            return list(answer)
    except _ITS_OWN as error:  # not iterable, or a generator that raises on its way
        raise _raised(plugin, hook, error) from error


def _skipped(planned: PlannedCell, plugin: str) -> PlannedCell:
    if planned.status is not None:
        return planned
    return PlannedCell(planned.cell, Status.SKIPPED, f"dropped by {plugin}")


def _checked_facts(plugin: str, answer: Any, authors: Mapping[str, str]) -> Mapping[str, object]:
    if answer is None:
        return {}
    if not isinstance(answer, Mapping) or not all(isinstance(name, str) for name in answer):
        raise PluginError(f"{plugin}: harness_environment returned {answer!r}, not values by name")
    try:
        json.dumps(dict(answer), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise PluginError(f"{plugin}: harness_environment returned what JSON cannot hold: {error}") from None
    for name in answer:
        if name in authors:
            raise PluginError(f"{plugin} and {authors[name]} both add a fact named {name!r}; one must rename its own")
    return answer
