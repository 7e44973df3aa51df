"""Loading plugins: real distributions on a path of their own, found through their entry points."""

from __future__ import annotations

import importlib.metadata
import re
import sys
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from harness.model import Cell, HarnessError, Measurements, Metadata, PlannedCell, Result, Status
from harness.plugins import Broken, PluginError, Plugins, Provenance, load
from harness.protocol import Closed

PRELUDE = """\
from harness.hookspecs import hookimpl
from harness.model import Backend, Option, PlannedCell, Stack

def backend(name, options=(), stack="small", **fields):
    stack = Stack(name=stack, lock="small:small.lock", packages=("small",))
    return Backend(**{"name": name, "stack": stack, "runner": "m:R", "description": "", "options": options, **fields})

"""

REGISTER = "@hookimpl\ndef harness_register_backends():\n    return [{}]\n"

STACK = REGISTER.format("Backend('a', Stack({}), 'm:R', '')")

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Installs a plugin: a module, and the metadata of a distribution with an entry point. No other plugin is seen."""
    own = [entry for entry in sys.path if not entry.endswith("site-packages")]
    monkeypatch.setattr(sys, "path", [str(tmp_path), *own])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def install(module: str, body: str, *, distribution: str | None = None, version: str = "1.2") -> None:
        monkeypatch.delitem(sys.modules, module, raising=False)
        (tmp_path / f"{module}.py").write_text(PRELUDE + textwrap.dedent(body))
        if distribution is not None:
            info = tmp_path / f"{distribution.replace('-', '_')}-{version}.dist-info"
            info.mkdir()
            (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n")
            (info / "entry_points.txt").write_text(f"[harness]\n{module} = {module}\n")

    yield install  # type: ignore[misc]
    for name in [name for name in sys.modules if name.startswith("plug_")]:
        del sys.modules[name]


def refused(extra: Sequence[str] = ()) -> str:
    with pytest.raises(HarnessError) as error:
        load(extra)
    return str(error.value)


def broken() -> Broken:
    """The one thing that is broken among the installed plugins."""
    (found,) = load().broken
    return found


def cells(*batch_sizes: int) -> list[PlannedCell]:
    return [
        PlannedCell(Cell(model="m", checkpoint="m", threads=1, backend="one", batch_size=size, options={"x": 1}))
        for size in batch_sizes
    ]


# --- finding --------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("install")
def test_without_plugins_there_are_no_backends() -> None:
    plugins = load()
    assert (plugins.backends, plugins.problems) == ({}, ())


def test_installed_plugins_are_found_with_their_distribution(install: Install) -> None:
    install("plug_two", REGISTER.format("backend('two'), backend('three')"), distribution="harness-two", version="2.0")
    install("plug_one", REGISTER.format("backend('one')"), distribution="harness-one")
    plugins = load()
    assert list(plugins.backends) == ["one", "three", "two"]
    assert plugins.provenance == {
        "one": Provenance("harness-one", "1.2"),
        "two": Provenance("harness-two", "2.0"),
        "three": Provenance("harness-two", "2.0"),
    }


def test_a_plugin_named_by_module_joins_the_installed_ones(install: Install) -> None:
    install("plug_one", REGISTER.format("backend('one')"), distribution="harness-one")
    install("plug_two", REGISTER.format("backend('two')"))
    plugins = load(["plug_two"])
    assert list(plugins.backends) == ["one", "two"]
    assert plugins.provenance["two"] == (None, None)


def test_an_installed_plugin_named_by_module_too_is_loaded_once(install: Install) -> None:
    install("plug_one", REGISTER.format("backend('one')"), distribution="harness-one")
    assert load(["plug_one", "plug_one"]).provenance == {"one": Provenance("harness-one", "1.2")}


def test_loading_twice_gives_two_independent_managers(install: Install) -> None:
    install("plug_one", REGISTER.format("backend('one')"))
    assert list(load(["plug_one"]).backends) == ["one"]
    assert list(load().backends) == []


@pytest.mark.parametrize("body", ["import no_such_framework\n", "1 / 0\n", "raise SystemExit(1)\n", "def broken(:\n"])
def test_a_plugin_that_cannot_be_imported_costs_only_its_own_backends(install: Install, body: str) -> None:
    install("plug_bad", body, distribution="harness-bad")
    install("plug_one", REGISTER.format("backend('one')"), distribution="harness-one")
    plugins = load()
    assert list(plugins.backends) == ["one"]
    (problem,) = plugins.problems
    assert problem.startswith("plugin 'plug_bad' (harness-bad 1.2) cannot be imported (")
    assert problem.endswith("); its backends are missing, reinstall or remove it")


def test_the_order_of_plugins_does_not_depend_on_how_they_are_found(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    for letter in "abc":
        install(f"plug_{letter}", "1 / 0\n", distribution=f"harness-{letter}")
    problems = load().problems
    found = tuple(importlib.metadata.entry_points(group="harness"))
    for order in (found, found[::-1]):
        monkeypatch.setattr(importlib.metadata, "entry_points", lambda order=order, **_: order)
        assert load().problems == problems


@pytest.mark.usefixtures("install")
def test_a_plugin_asked_for_by_name_that_cannot_be_imported_is_refused() -> None:
    message = refused(["plug_missing"])
    assert message == (
        "plugin 'plug_missing' cannot be imported (ModuleNotFoundError: No module named 'plug_missing'); "
        "mend it, or leave its name out"
    )


@pytest.mark.usefixtures("install")
@pytest.mark.parametrize("name", ["", ".relative", "a b"])
def test_a_name_that_is_no_module_name_is_refused(name: str) -> None:
    assert f"plugin {name!r} cannot be imported" in refused([name])


# --- mistakes in a plugin -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "@hookimpl\ndef harness_registr_backends():\n    return []\n",
            "there is no hook 'harness_registr_backends'; did you mean 'harness_register_backends'?",
        ),
        ("@hookimpl\ndef zzz():\n    return []\n", "there is no hook 'zzz'"),
        ("def harness_register_backends():\n    return []\n", "harness_register_backends is not decorated"),
        (
            "@hookimpl\ndef harness_event(cel, event): ...\n",
            "{'cel'} are declared in the hookimpl but can not be found",
        ),
        ("@hookimpl(wrapper=True)\ndef harness_event():\n    yield\n", "harness_event is a wrapper"),
        (
            "@hookimpl\ndef harness_register_backends():\n    1 / 0\n",
            "harness_register_backends raised ZeroDivisionError",
        ),
        (
            "@hookimpl\ndef harness_register_backends():\n    yield 1 / 0\n",
            "raised ZeroDivisionError: division by zero",
        ),
        ("@hookimpl\ndef harness_register_backends(): ...\n", "harness_register_backends raised TypeError: 'NoneType'"),
        (REGISTER.format("'eager'"), "harness_register_backends offers 'eager', which is no harness.model.Backend"),
        (REGISTER.format("backend('a'), backend('a')"), "both offer a backend 'a'; remove one"),
        (REGISTER.format("backend('a'), backend('b', packages=1)"), "raised TypeError: "),
        (REGISTER.format("backend('torch-compile')"), "the backend name 'torch-compile' cannot be written in --only"),
        (REGISTER.format("backend('class')"), "no backend can be named 'class', a word of Python's"),
        (REGISTER.format("backend(5)"), "the backend name 5 cannot be written in --only"),
        (REGISTER.format("backend('dtype')"), "no backend can be named 'dtype', which means something else"),
        (REGISTER.format("backend('include')"), "no backend can be named 'include'"),
        (REGISTER.format("backend('a', runner='m')"), "has runner='m'; write 'module:Class', the module by its full"),
        (REGISTER.format("backend('a', runner='.m:R')"), "has runner='.m:R'; write 'module:Class', the module by its"),
        (REGISTER.format("backend('a', runner='m:R()')"), "has runner='m:R()'; write 'module:Class'"),
        (REGISTER.format("backend('a', runner=None)"), "has runner=None; write 'module:Class'"),
        (REGISTER.format("backend('a', dockerfile='Dockerfile')"), "dockerfile='Dockerfile'; write 'package:file'"),
        (
            REGISTER.format("backend('a', dockerfile='p:../d')"),
            "has dockerfile='p:../d'; write 'package:file', or None",
        ),
        (REGISTER.format("backend('a', model_types='bert')"), "has model_types='bert'; write a tuple of texts"),
        (REGISTER.format("backend('a', runs_encoder_decoders=0)"), "runs_encoder_decoders=0; write True or False"),
        (REGISTER.format("backend('a', supports=None)"), "has supports=None, which cannot be called"),
        (REGISTER.format("backend('null')"), "no backend can be named 'null', which means something else in a matrix"),
        (REGISTER.format("backend('a', description=None)"), "the backend 'a' has description=None; write text"),
        (
            REGISTER.format("backend('a', expects=('eager',))"),
            "has expects=('eager',); write {'name of a fact': value}",
        ),
        (REGISTER.format("backend('a', has_compile_cache='no')"), "has has_compile_cache='no'; write True or False"),
        (REGISTER.format("backend('a', system_packages='g++')"), "has system_packages='g++'; write a tuple of names"),
        (REGISTER.format("backend('a', system_packages=('--yes',))"), "write a tuple of names of Debian packages"),
        (REGISTER.format("backend('a', system_packages=('g++ x;y',))"), "write a tuple of names of Debian packages"),
        (STACK.format("'s', 'requirements.txt', ()"), "has lock='requirements.txt'; write 'package:file'"),
        (STACK.format("'s', 'p:l', 'harness_p'"), "stack of the backend 'a' has packages='harness_p'; write a tuple"),
        (STACK.format("'s', 'p:l', ('.p',)"), "stack of the backend 'a' has packages=('.p',); write a tuple of import"),
        (STACK.format("'s', '.p:l', ()"), "the stack of the backend 'a' has lock='.p:l'; write 'package:file'"),
        (STACK.format("'s', 'p:/l', ()"), "the stack of the backend 'a' has lock='p:/l'; write 'package:file'"),
        (STACK.format("'s', 'p:l\\0', ()"), "the stack of the backend 'a' has lock='p:l\\x00'; write 'package:file'"),
        (STACK.format("None, 'p:l', ()"), "the stack of the backend 'a' has name=None; write letters, digits"),
        (STACK.format("'../s', 'p:l', ()"), "the stack of the backend 'a' has name='../s'; write letters, digits"),
        (STACK.format("'s', 'p:l', (), '.maker'"), "has checkpoint_maker='.maker'; write the full name of a module"),
        (STACK.format("'s', 'p:l', (), device_locks={'cuda': 1}"), "write {'cuda': 'package:file'}"),
        (STACK.format("'s', 'p:l', (), device_locks={'gpu': 'p:l'}"), "write {'cuda': 'package:file'}"),
        ("@hookimpl\ndef harness_register_backends():\n    raise SystemExit(7)\n", "raised SystemExit: 7"),
        ("LEVEL = 3\n", "has no hook of the harness; name the module that has them"),
        (REGISTER.format("backend('a', tasks=('fil-mask',))"), "has the task 'fil-mask'; did you mean 'fill-mask'?"),
        (REGISTER.format("backend('a', tasks=())"), "has tasks=(); write a tuple of words, at least one"),
        (REGISTER.format("backend('a', operations='forward')"), "has operations='forward'; write a tuple of words"),
        (REGISTER.format("backend('a', dtypes=('float32',))"), "has dtypes=('float32',); write {'cpu': ('float32',)}"),
        (REGISTER.format("backend('a', dtypes={'gpu': ('float32',)})"), "has the device 'gpu'; did you mean 'cpu'?"),
        (REGISTER.format("backend('a', dtypes={'cpu': ('float23',)})"), "the dtype 'float23'; did you mean 'float32'?"),
        (
            REGISTER.format("Backend('a', 'pytorch', 'm:R', '')"),
            "has the stack 'pytorch', which is no harness.model.Stack",
        ),
    ],
)
def test_a_mistake_in_a_plugin_names_plugin_distribution_and_version(install: Install, body: str, message: str) -> None:
    install("plug_bad", body, distribution="harness-bad", version="0.3")
    install("plug_one", REGISTER.format("backend('one', stack='other')"), distribution="harness-one")
    assert list(load().backends) == ["one"]
    found = broken()
    assert (found.plugin, found.provenance) == ("plug_bad", ("harness-bad", "0.3"))
    assert found.reason.startswith("plugin 'plug_bad' (harness-bad 0.3)")
    assert message in found.reason
    assert "\n" not in found.reason


@pytest.mark.parametrize("body", ["1 / 0\n", "@hookimpl\ndef zzz(): ...\n", REGISTER.format("backend('class')")])
def test_a_mistake_in_a_plugin_that_was_asked_for_by_name_is_refused(install: Install, body: str) -> None:
    install("plug_bad", body)
    assert refused(["plug_bad"]).startswith("plugin 'plug_bad'")


def test_a_supports_that_ends_the_process_ends_no_command(install: Install) -> None:
    install("plug_one", REGISTER.format("backend('one', supports=lambda cell, config: exit(5))"))
    with pytest.raises(PluginError, match="supports\\(\\) of the backend 'one' raised SystemExit: 5"):
        load(["plug_one"]).supports(cells(1)[0].cell, {})


def test_what_a_plugin_prints_is_no_part_of_what_a_command_was_asked_for(
    install: Install, capsys: pytest.CaptureFixture[str]
) -> None:
    told = "@hookimpl\ndef harness_environment():\n    print('asked')\n"
    install("plug_one", f"print('imported')\n{told}" + REGISTER.format("*iter(lambda: print('offered'), None)"))
    load(["plug_one"]).environment()
    assert capsys.readouterr() == ("", "imported\noffered\nasked\n")


def test_of_a_plugin_with_a_bad_backend_the_good_ones_go_on(install: Install) -> None:
    offered = "backend('good'), backend('bad', runner='m')"
    install("plug_half", REGISTER.format(offered), distribution="harness-half")
    assert list(load().backends) == ["good"]
    assert broken().backend == "bad"


def test_a_plugin_whose_hooks_are_wrong_has_no_say_at_all(install: Install) -> None:
    dropping = "@hookimpl\ndef harness_select_cells(cells):\n    return []\n"
    install("plug_bad", f"{dropping}@hookimpl\ndef harness_evnt(event): ...\n", distribution="harness-bad")
    assert load().select_cells(cells(1)) == tuple(cells(1))


def test_a_runner_for_another_version_of_the_interface_is_refused_with_both_numbers(install: Install) -> None:
    install("plug_old", REGISTER.format("backend('old', runner_version=0)"), distribution="harness-old")
    assert "written for version 0 of harness.worker.api, this harness has version 1" in broken().reason


def test_every_backend_knows_the_plugin_that_offers_it(install: Install) -> None:
    install("plug_one", REGISTER.format("backend('one')"), distribution="harness-one")
    assert load().backends["one"].offered_by == "plugin 'plug_one' (harness-one 1.2)"


# --- asking for what is broken --------------------------------------------------------------------------------------


def test_a_broken_backend_that_is_asked_for_is_told_with_its_reason(install: Install) -> None:
    install("plug_bad", REGISTER.format("backend('bad', runner='m')"), distribution="harness-bad")
    with pytest.raises(
        HarnessError, match=r"the backend 'bad' cannot be used: plugin 'plug_bad' \(harness-bad 1.2\): "
    ):
        load().named("bad")


def test_an_entry_point_stands_for_the_backends_of_a_plugin_that_did_not_come_so_far(install: Install) -> None:
    install("plug_bad", "1 / 0\n", distribution="harness-bad")
    assert "cannot be imported" in str(load().why_missing("plug_bad"))


def test_a_name_that_nobody_has_may_be_a_broken_plugins(install: Install) -> None:
    install("plug_bad", "1 / 0\n", distribution="harness-bad")
    install("plug_one", REGISTER.format("backend('onnxruntime')"), distribution="harness-one")
    plugins = load()
    assert "what these plugins offer is not known: plugin 'plug_bad'" in str(plugins.why_missing("flax"))
    assert plugins.why_missing("onxruntime") is None  # a slip of the pen
    with pytest.raises(HarnessError, match="there is no backend 'onxruntime'; did you mean 'onnxruntime'"):
        plugins.named("onxruntime")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("Option('level', int, 'two', '')", "the option 'level' is of type int, but its default is 'two'"),
        ("Option('level', int, True, '')", "the option 'level' is of type int, but its default is True"),
        ("Option('level', int, 1.0, '')", "the option 'level' is of type int, but its default is 1.0"),
        ("Option('fold', bool, 1, '')", "the option 'fold' is of type bool, but its default is 1"),
        ("Option('scale', float, float('nan'), '')", "the option 'scale' is of type float, but its default is nan"),
        ("Option('x', list, None, '')", "the option 'x' has the type <class 'list'>; use str, int, float or bool"),
        ("Option('x', int, 1, ''), Option('x', int, 2, '')", "the option 'x' is declared twice"),
        ("Option('threads', int, 1, '')", "no option can be named 'threads', which means something else"),
        ("Option('input_seed', int, 1, '')", "no option can be named 'input_seed', which means something else"),
        ("Option('a-b', int, 1, '')", "the option name 'a-b' cannot be written in --only"),
        ("Option('x', str, 'a', '', ('b', 'c'))", "has the default 'a', which is none of its choices"),
        ("Option('x', str, None, '', ('b', 1))", "the option 'x' is of type str, but offers the choice 1"),
        ("Option('x', str, None, '', 'abc')", "the option 'x' has the choices 'abc', not a tuple of values"),
        ("Option('x', str, None, '', ())", "the option 'x' has the choices (), not a tuple of values"),
        ("'level'", "the option 'level' is no harness.model.Option"),
        ("Option('x', int, 1, None)", "the option 'x' has help=None; write text"),
    ],
)
def test_a_bad_option_is_refused(install: Install, options: str, message: str) -> None:
    install("plug_bad", REGISTER.format(f"backend('one', ({options},))"), distribution="harness-bad")
    found = broken()
    assert found.backend == "one"
    assert found.reason.startswith("plugin 'plug_bad' (harness-bad 1.2): the backend 'one': ")
    assert message in found.reason


def test_options_that_are_no_tuple_are_refused(install: Install) -> None:
    install("plug_bad", REGISTER.format("backend('one', Option('x', int, 1, ''))"), distribution="harness-bad")
    assert "not a tuple of harness.model.Option" in broken().reason


def test_an_option_of_each_type_is_accepted_with_and_without_default(install: Install) -> None:
    options = (
        "Option('a', str, 'x', ''), Option('b', int, 1, ''), Option('c', float, 1, ''), Option('d', bool, None, '')"
    )
    install("plug_one", REGISTER.format(f"backend('one', ({options}))"))
    assert [option.name for option in load(["plug_one"]).backends["one"].options] == ["a", "b", "c", "d"]


def test_two_backends_of_one_name_name_both_plugins_and_neither_is_used(install: Install) -> None:
    install("plug_a", REGISTER.format("backend('one'), backend('two')"), distribution="harness-a")
    install("plug_b", REGISTER.format("backend('one')"), distribution="harness-b", version="3.0")
    assert list(load().backends) == ["two"]
    assert broken().backend == "one"
    message = broken().reason
    assert "plugin 'plug_a' (harness-a 1.2)" in message
    assert "plugin 'plug_b' (harness-b 3.0)" in message
    assert "both offer a backend 'one'" in message


def test_a_plugin_named_by_module_does_not_hide_an_installed_backend(install: Install) -> None:
    install("plug_a", REGISTER.format("backend('one')"), distribution="harness-a")
    install("plug_b", REGISTER.format("backend('one')"))
    assert "both offer a backend 'one'" in refused(["plug_b"])


def test_two_stacks_of_one_name_name_both_plugins_and_neither_is_used(install: Install) -> None:
    install("plug_a", REGISTER.format("backend('a')"), distribution="harness-a")
    other = "Backend('b', Stack('small', 'other:x.lock', ('other',)), 'm:R', '')"
    install("plug_b", REGISTER.format(other), distribution="harness-b")
    plugins = load()
    assert (plugins.backends, [each.backend for each in plugins.broken]) == ({}, ["a", "b"])
    (message,) = plugins.problems
    assert "harness-a 1.2" in message
    assert "harness-b 1.2" in message
    assert "declare different stacks named 'small'" in message


# --- selecting cells ------------------------------------------------------------------------------------------------

SELECT = "@hookimpl\ndef harness_select_cells(cells):\n    {}\n"


def selecting(install: Install, *bodies: str) -> Plugins:
    for index, body in enumerate(bodies):
        install(f"plug_{index}", SELECT.format(body), distribution=f"harness-{index}")
    return load()


def test_dropped_cells_are_skipped_and_name_the_plugin(install: Install) -> None:
    plugins = selecting(install, "return [c for c in cells if c.cell.batch_size != 2]")
    one, two, three = cells(1, 2, 3)
    skipped = PlannedCell(two.cell, Status.SKIPPED, "dropped by plugin 'plug_0' (harness-0 1.2)")
    assert plugins.select_cells([one, two, three]) == (one, three, skipped)


def test_cells_may_be_reordered(install: Install) -> None:
    plugins = selecting(install, "return reversed(cells)")
    one, two = cells(1, 2)
    assert plugins.select_cells([one, two]) == (two, one)


def test_none_changes_nothing(install: Install) -> None:
    plugins = selecting(install, "return None")
    assert plugins.select_cells(cells(1, 2)) == tuple(cells(1, 2))


def test_a_plugin_sees_what_the_ones_before_it_kept(install: Install) -> None:
    plugins = selecting(install, "return [c for c in cells if c.cell.batch_size > 1]", "return cells[1:]")
    statuses = {c.cell.batch_size: c.reason for c in plugins.select_cells(cells(1, 2, 3))}
    assert statuses[3] is None
    assert "plug_1" in str(statuses[1])  # registered last, so asked first: it drops the first cell
    assert statuses[2] is None


def test_an_unsupported_cell_that_is_dropped_stays_unsupported(install: Install) -> None:
    plugins = selecting(install, "return []")
    unsupported = PlannedCell(cells(1)[0].cell, Status.UNSUPPORTED, "too large")
    assert plugins.select_cells([unsupported]) == (unsupported,)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "return [PlannedCell(c.cell.model_copy(update={'batch_size': 9})) for c in cells]",
            "which it altered or invented",
        ),
        (
            "return [PlannedCell(c.cell.model_copy(update={'model': 'x'})) for c in cells]",
            "which it altered or invented",
        ),
        ("return [PlannedCell(c.cell, 'skipped', 'mine') for c in cells]", "which it altered or invented"),
        ("cells[0].cell.options['x'] = 2; return cells", "harness_select_cells altered one[x=2]"),
        ("cells[0].cell.options['x'] = 2", "harness_select_cells altered one[x=2]"),
        ("cells[0].cell.options['x'] = 2; return []", "harness_select_cells altered one[x=2]"),
        ("return [*cells, cells[0]]", "returned one[x=1] twice"),
        ("return [c.cell for c in cells]", "which is no PlannedCell"),
        ("return 5", "raised TypeError: 'int' object is not iterable"),
        ("1 / 0", "harness_select_cells raised ZeroDivisionError"),
    ],
)
def test_a_selection_that_does_more_than_dropping_and_reordering_is_reported_and_left_out(
    install: Install, body: str, message: str
) -> None:
    install("plug_0", SELECT.format(body), distribution="harness-0")
    reports: list[str] = []
    plugins = load(report=reports.append)
    assert plugins.select_cells(cells(1, 2)) == tuple(cells(1, 2))
    assert plugins.select_cells(cells(1, 2)) == tuple(cells(1, 2))
    (report,) = reports
    assert report.startswith("plugin 'plug_0' (harness-0 1.2): ")
    assert message in report
    assert report.endswith("; its selection is left out")


# --- environment ----------------------------------------------------------------------------------------------------

ENVIRONMENT = "@hookimpl\ndef harness_environment():\n    return {}\n"


def test_facts_of_all_plugins_are_put_together(install: Install) -> None:
    install("plug_a", ENVIRONMENT.format("{'bios': '1.0'}"), distribution="harness-a")
    install("plug_b", ENVIRONMENT.format("{'turbo': False, 'fans': [1, 2]}"), distribution="harness-b")
    install("plug_c", ENVIRONMENT.format("None"), distribution="harness-c")
    assert load().environment() == {"bios": "1.0", "turbo": False, "fans": [1, 2]}


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ("['bios']", "not values by name"),
        ("{1: 2}", "not values by name"),
        ("{'a': object()}", "what JSON cannot hold: Object of type object"),
        ("{'a': float('nan')}", "what JSON cannot hold: "),
        ("1 / 0", "harness_environment raised ZeroDivisionError"),
    ],
)
def test_facts_that_cannot_be_stored_are_reported_and_that_they_are_unknown_is_a_fact(
    install: Install, answer: str, message: str
) -> None:
    install("plug_a", ENVIRONMENT.format(answer), distribution="harness-a")
    install("plug_b", ENVIRONMENT.format("{'turbo': False}"), distribution="harness-b")
    reports: list[str] = []
    plugins = load(report=reports.append)
    facts = plugins.environment()
    assert plugins.environment() == facts
    (report,) = reports
    assert report.startswith("plugin 'plug_a' (harness-a 1.2): ")
    assert message in report
    assert facts["turbo"] is False
    assert message in str(facts["plugin 'plug_a' (harness-a 1.2)"])


def test_one_fact_from_two_plugins_names_both(install: Install) -> None:
    install("plug_a", ENVIRONMENT.format("{'bios': 1}"), distribution="harness-a")
    install("plug_b", ENVIRONMENT.format("{'bios': 1}"), distribution="harness-b")
    reports: list[str] = []
    load(report=reports.append).environment()
    assert re.search(r"harness-a 1.2\) and .*harness-b 1.2\) both add a fact named 'bios'", reports[0])


# --- observers ------------------------------------------------------------------------------------------------------

OBSERVER = """\
seen = []

@hookimpl
def harness_cell_started(cell):
    seen.append(("started", cell.backend))

@hookimpl
def harness_event(event):
    seen.append(("event", event.kind))

@hookimpl
def harness_cell_finished(result):
    seen.append(("finished", result.status.value))
"""


def result(cell: Cell) -> Result:
    hashes = {"key": cell.key, "protocol_hash": "p", "stack_hash": "s", "host_hash": "h"}
    metadata = Metadata.model_validate(
        {
            "run_id": "r",
            "timestamp": "2026-11-29T00:00:00+00:00",
            "harness_version": "0",
            "executor": "venv",
            "status": "ok",
            "hashes": hashes,
            "protocol": {},
        }
    )
    return Result(key=cell.key, metadata=metadata, measurements=Measurements(), config=cell)


def tell_all(plugins: Plugins, report: Callable[[str], None], times: int = 1) -> None:
    observers = plugins.observers(report)
    cell = cells(1)[0].cell
    for _ in range(times):
        observers.cell_started(cell)
        observers.event(cell, Closed())
        observers.cell_finished(result(cell))


def test_observers_may_take_fewer_arguments_than_offered(install: Install) -> None:
    install("plug_watch", OBSERVER)
    tell_all(load(["plug_watch"]), pytest.fail)
    assert sys.modules["plug_watch"].seen == [("started", "one"), ("event", "closed"), ("finished", "ok")]


def test_an_observer_that_raises_is_reported_once_and_the_others_go_on(install: Install) -> None:
    install("plug_watch", OBSERVER, distribution="harness-watch")
    install(
        "plug_bad",
        "@hookimpl\ndef harness_event(cell, event):\n    raise ValueError(event.kind)\n",
        distribution="z-bad",
    )
    reports: list[str] = []
    tell_all(load(), reports.append, times=3)
    assert reports == ["plugin 'plug_bad' (z-bad 1.2): harness_event raised ValueError: closed; the run goes on"]
    assert sys.modules["plug_watch"].seen.count(("event", "closed")) == 3


def test_an_interruption_inside_an_observer_is_not_swallowed(install: Install) -> None:
    install("plug_bad", "@hookimpl\ndef harness_event():\n    raise KeyboardInterrupt\n")
    plugins = load(["plug_bad"])
    with pytest.raises(KeyboardInterrupt):
        plugins.observers(pytest.fail).event(cells(1)[0].cell, Closed())
