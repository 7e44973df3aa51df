"""The command `harness`: arguments in, text and exit codes out. The only module that parses, prints or exits."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from importlib.metadata import version
from pathlib import Path
from types import FrameType
from typing import Annotated, NoReturn

import typer
from rich.console import Console

from harness import cache, checkpoints, plugins, schedule
from harness.doctor import can_run, examine
from harness.executors.base import Executor
from harness.executors.venv import VenvExecutor
from harness.expressions import compile_filter
from harness.inventory import BackendEntry, installed
from harness.matrix import expand
from harness.model import HarnessError, Matrix
from harness.progress import ConsoleReporter
from harness.report import terminal
from harness.report.backends import backend_row, render_backend, render_backends
from harness.report.doctor import checks_row, render_checks
from harness.report.export import export as export_lines
from harness.spelling import did_you_mean, listed
from harness.store import ResultStore

OK, NOT_ALL_OK, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130

app = typer.Typer(
    name="harness",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 all cells ok, unsupported or skipped; 1 some otherwise; 2 bad input; 130 interrupted.",
)


class ExecutorName(StrEnum):
    AUTO = "auto"
    VENV = "venv"
    DOCKER = "docker"


class ListFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


class ExportFormat(StrEnum):
    CSV = "csv"
    JSONL = "jsonl"


MatrixFile = Annotated[Path, typer.Argument(metavar="MATRIX", help="Matrix file (YAML).", show_default=False)]
Only = Annotated[
    str | None,
    typer.Option(
        metavar="EXPR",
        help="Keep the cells for which this holds, as \"backend in ('eager', 'onnxruntime') and batch_size == 1\".",
        show_default=False,
    ),
]
PluginModules = Annotated[
    list[str] | None,
    typer.Option(
        "--plugin", "-p", metavar="MODULE", help="Load one more plugin module; may be repeated.", show_default=False
    ),
]
ResultsFolder = Annotated[
    Path, typer.Option("--results", metavar="DIR", help="Results directory.", envvar="BENCHMARK_RESULTS_DIR")
]
TextOrJson = Annotated[ListFormat, typer.Option("--format", help="Text for people or JSON.")]
ResultsArgument = Annotated[Path, typer.Argument(metavar="DIR", help="Results directory.", show_default=False)]


def _print_version(wanted: bool) -> None:
    if wanted:
        print(version("backend-harness"))
        raise typer.Exit


@app.callback()
def harness(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Compare execution backends for Transformers models, with numbers that can be defended."""


@app.command()
def plan(
    matrix: MatrixFile,
    only: Only = None,
    plugin: PluginModules = None,
    output_format: TextOrJson = ListFormat.TEXT,
) -> None:
    """Show the cells of a matrix, their keys, and the reason for each that will not run. Runs nothing."""
    loaded = _load_plugins(plugin)
    cells = _expand(matrix, loaded, only).cells
    if output_format is ListFormat.JSON:
        print(json.dumps(terminal.plan_rows(cells), indent=2))
    else:
        print(terminal.render_plan(cells, *_screen()), end="")


@app.command()
def run(
    matrix: MatrixFile,
    executor: Annotated[
        ExecutorName, typer.Option(help="Where workers run; auto chooses and says what it chose.")
    ] = ExecutorName.AUTO,
    results: ResultsFolder = Path("results"),
    only: Only = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Measure everything anew, also what the results directory has.")
    ] = False,
    plugin: PluginModules = None,
) -> None:
    """Run a matrix: measure its cells, store every result as soon as it exists, print the comparison.

    A second run continues the first: cells that are ok there, on this machine, with these settings, stacks and versions,
    are not measured again.
    """
    loaded = _load_plugins(plugin)
    planned = _expand(matrix, loaded, only)
    store = ResultStore.open(results)
    _warn(store)
    try:
        with ConsoleReporter(_stderr()) as reporter:
            services = schedule.Services(_executor(executor, reporter), loaded, store, reporter)
            outcome = schedule.run(planned, services, fresh=fresh)
    except KeyboardInterrupt:
        _fail(f"interrupted; what was finished is in {results}, and the same command goes on from there", INTERRUPTED)
    print(terminal.render_results(outcome.results, *_screen()), end="")
    print(_closing(outcome, results))
    raise typer.Exit(OK if outcome.is_fine else NOT_ALL_OK)


@app.command()
def report(results: ResultsArgument) -> None:
    """Print the comparison of the newest results in a results directory."""
    store = ResultStore.existing(results)
    print(terminal.render_results(store.results(), *_screen()), end="")
    _warn(store)


@app.command()
def export(
    results: ResultsArgument,
    output_format: Annotated[ExportFormat, typer.Option("--format", help="Form of the rows.")] = ExportFormat.CSV,
    whole_history: Annotated[
        bool, typer.Option("--all", help="Every result ever stored, not only the newest per key.")
    ] = False,
) -> None:
    """Write one flat row per result to standard output. Unknown values are empty (CSV) or null (JSONL), never 0."""
    store = ResultStore.existing(results)
    rows = store.history() if whole_history else store.results()
    sys.stdout.writelines(export_lines(rows, output_format))
    _warn(store)


@app.command()
def backends(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="One backend, told in full.", show_default=False)
    ] = None,
    plugin: PluginModules = None,
    output_format: TextOrJson = ListFormat.TEXT,
) -> None:
    """List the installed backends: stack, plugin, pinned versions, and whether the environment is made."""
    entries = installed(_load_plugins(plugin), _venv().made)
    chosen = None if name is None else _backend(name, entries)
    if output_format is ListFormat.JSON:
        rows = [backend_row(entry) for entry in entries] if chosen is None else backend_row(chosen)
        print(json.dumps(rows, indent=2, default=str))
    else:
        text = render_backends(entries, *_screen()) if chosen is None else render_backend(chosen, *_screen())
        print(text, end="")


@app.command()
def doctor(
    results: ResultsFolder = Path("results"),
    plugin: PluginModules = None,
    output_format: TextOrJson = ListFormat.TEXT,
) -> None:
    """Say what this machine can run and what is missing, with what mends it.

    Exit code 0 where the quick matrix can run, with warnings or without; 1 where something needed is missing. Nothing goes online.
    """
    loaded = _load_plugins(plugin)
    checks = examine(installed(loaded, _venv().made), loaded.problems, cache.home(), results)
    if output_format is ListFormat.JSON:
        print(json.dumps(checks_row(checks), indent=2))
    else:
        print(render_checks(checks, *_screen()), end="")
    raise typer.Exit(OK if can_run(checks) else NOT_ALL_OK)


def main() -> NoReturn:
    """Entry point: expected mistakes end in one sentence and exit code 2."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    try:
        app()
    except HarnessError as error:
        _fail(str(error), BAD_INPUT)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM):
            raise
        _fail(f"{error.filename or 'a file'}: {error.strerror}; what was finished is kept", BAD_INPUT)
    sys.exit(OK)


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    """A polite end asked for from outside is a Ctrl-C: workers are ended, finished launches kept."""
    raise KeyboardInterrupt


def _fail(message: str, code: int) -> NoReturn:
    print(f"harness: {message}", file=sys.stderr)
    sys.exit(code)


def _stderr() -> Console:
    return Console(stderr=True, highlight=False, soft_wrap=True)


def _screen() -> tuple[int, bool]:
    """Columns of standard output, at least 80, and whether it shows colours (NO_COLOR and TERM=dumb are heeded)."""
    console = Console()
    return max(shutil.get_terminal_size((80, 24)).columns, 80), console.is_terminal and not console.no_color


def _load_plugins(modules: list[str] | None) -> plugins.Plugins:
    named = [name.strip() for name in os.environ.get("HARNESS_PLUGINS", "").split(",") if name.strip()]
    loaded = plugins.load([*named, *(modules or [])])
    for problem in loaded.problems:
        print(f"harness: warning: {problem}", file=sys.stderr)
    return loaded


def _expand(path: Path, loaded: plugins.Plugins, only: str | None) -> Matrix:
    matrix = expand(path, loaded, checkpoints.identify)
    return matrix if only is None else _narrowed(matrix, only, loaded)


def _narrowed(matrix: Matrix, only: str, loaded: plugins.Plugins) -> Matrix:
    holds = compile_filter(only, loaded.backends.values())
    kept = [
        replace(group, cells=tuple(planned for planned in group.cells if holds(planned.cell)))
        for group in matrix.groups
    ]
    groups = tuple(group for group in kept if group.cells)
    if not groups:
        raise HarnessError(f"--only {only!r} leaves none of the {len(matrix.cells)} cells; `harness plan` lists them")
    return replace(matrix, groups=groups)


def _executor(name: ExecutorName, reporter: ConsoleReporter) -> Executor:
    if name is ExecutorName.DOCKER:
        raise HarnessError("the docker executor is not there yet; use --executor venv")
    if name is ExecutorName.AUTO:
        reporter.note("executor venv: a virtual environment for each stack; images are not there yet")
    return _venv()


def _venv() -> VenvExecutor:
    return VenvExecutor(cache.room("environments"))


def _backend(name: str, entries: Sequence[BackendEntry]) -> BackendEntry:
    by_name = {entry.backend.name: entry for entry in entries}
    if name not in by_name:
        raise HarnessError(
            f"there is no backend {name!r}{did_you_mean(name, by_name)}; installed are {listed(by_name)}"
        )
    return by_name[name]


def _warn(store: ResultStore) -> None:
    for warning in store.warnings:
        print(f"harness: warning: {warning}", file=sys.stderr)


def _closing(outcome: schedule.Outcome, results: Path) -> str:
    kept = f" ({outcome.resumed} of them kept from former runs; --fresh measures anew)" if outcome.resumed else ""
    return f"{len(outcome.results)} results{kept} in {results}; `harness export {results}` gives rows."
