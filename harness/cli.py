"""The command `harness`: arguments in, text and exit codes out. The only module that parses, prints or exits."""

from __future__ import annotations

import errno
import json
import os
import shlex
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import replace
from enum import StrEnum
from importlib.metadata import version
from pathlib import Path
from types import FrameType
from typing import Annotated, BinaryIO, NoReturn

import typer
from rich.console import Console

from harness import cache, checkpoints, images, plugins, schedule, selection
from harness import calibrate as calibration
from harness.doctor import can_run, examine
from harness.engine import Engine, EngineLostError
from harness.executors import choice, containers
from harness.executors.base import Executor
from harness.expressions import compile_filter
from harness.hub import configuration
from harness.hub.client import Dataset
from harness.hub.configuration import Off, Target
from harness.hub.files import wanted
from harness.hub.push import push as push_files
from harness.hub.rows import Form
from harness.hub.uploads import RunUploads, told_of
from harness.interchange import benchmark_v2
from harness.interchange.raw import raw_launches
from harness.interchange.reading import read as read_foreign
from harness.inventory import BackendEntry, installed
from harness.lease import lease, no_lease
from harness.matrix import expand
from harness.model import Backend, Cell, Group, HarnessError, ImportedResult, Matrix, PlannedCell, Protocol, Result
from harness.progress import ConsoleReporter
from harness.query import Answer, Question, ask, names_in
from harness.report import terminal
from harness.report.backends import backend_row, broken_row, render_backend, render_backends
from harness.report.calibration import render_calibration
from harness.report.doctor import checks_row, render_checks
from harness.report.export import export as export_lines
from harness.report.findings import finding_row, render_findings
from harness.report.found import found_as_csv, found_as_json, render_found, table_columns
from harness.report.images import render_images
from harness.report.imported import render_imported
from harness.report.parquet import write_parquet
from harness.scaffold import new_package
from harness.spelling import counted, listed
from harness.store import ResultStore
from harness.store.merging import Merged
from harness.store.merging import merge as merge_results
from harness.testing import check_installed, conforms

OK, NOT_ALL_OK, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130

app = typer.Typer(
    name="harness",
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


class DeviceName(StrEnum):
    CPU = "cpu"
    CUDA = "cuda"


class CheckedOperation(StrEnum):
    FORWARD = "forward"
    PREFILL = "prefill"
    DECODE = "decode"
    GENERATE = "generate"


class ListFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


class ExportFormat(StrEnum):
    CSV = "csv"
    JSONL = "jsonl"
    PARQUET = "parquet"
    BENCHMARK_V2 = "benchmark-v2"


class FoundFormat(StrEnum):
    TEXT = "text"
    JSON = "json"
    CSV = "csv"


TABLE_LIMIT = 50
"""Results in a table of `harness results`, where --limit is not given."""

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
ExecutorOption = Annotated[
    ExecutorName,
    typer.Option(help="Where workers run; auto chooses and says what it chose.", envvar="HARNESS_EXECUTOR"),
]
AtOnce = Annotated[
    bool, typer.Option("--no-lease", help="Measure at once, also where another run measures on this machine.")
]


def _folder(text: str) -> Path:
    """An empty name would be the folder that one stands in: a variable of a script that is not set, and not what was meant."""
    if not text:
        raise typer.BadParameter("an empty name is no folder; write . for the one you are in")
    return Path(text)


ResultsFolder = Annotated[
    Path,
    typer.Option("--results", metavar="DIR", help="Results directory.", envvar="BENCHMARK_RESULTS_DIR", parser=_folder),
]
TextOrJson = Annotated[ListFormat, typer.Option("--format", help="Text for people or JSON.")]
Repo = Annotated[
    str | None,
    typer.Option(metavar="ORG/NAME", help="Dataset of the Hub.", envvar=configuration.REPO, show_default=False),
]
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
    executor: ExecutorOption = ExecutorName.AUTO,
    results: ResultsFolder = Path("results"),
    only: Only = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Measure everything anew, also what the results directory has.")
    ] = False,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Only the cells that a former run did not end well, and no others.")
    ] = False,
    shard: Annotated[
        str | None,
        typer.Option(
            metavar="I/N", help="One of N parts of the matrix, as 2/5; whole workloads each.", show_default=False
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Two blocks and no more: for an indication, without intervals or verdict.")
    ] = False,
    at_once: AtOnce = False,
    push: Annotated[
        bool, typer.Option("--push", help="Upload the results to a dataset of the Hub when the run has ended.")
    ] = False,
    push_each_cell: Annotated[
        bool, typer.Option("--push-each-cell", help="The same, and after each cell too.")
    ] = False,
    repo: Repo = None,
    plugin: PluginModules = None,
) -> None:
    """Run a matrix: measure its cells, store every result as soon as it exists, print the comparison.

    A second run continues the first: cells that are ok there, on this machine, with these settings, stacks and versions,
    are not measured again.
    """
    if fresh and retry_failed:
        raise HarnessError("--fresh measures everything and --retry-failed only what failed: give one of them")
    loaded = _load_plugins(plugin)
    planned = _sharded(_expand(matrix, loaded, only), shard)
    planned = replace(planned, protocol=planned.protocol.quick) if quick else planned
    store = ResultStore.open(results)
    _warn(store)
    try:
        with ConsoleReporter(_stderr()) as reporter:
            planned = replace(planned, protocol=_calibrated(planned.protocol, loaded, reporter))
            planned = _failed(planned, store, loaded, reporter) if retry_failed else planned
            chosen = _executor(executor, _needed(planned, loaded), reporter)
            services = schedule.Services(chosen, loaded, store, reporter, no_lease if at_once else lease)
            uploads = _uploads(push, push_each_cell, repo, services)
            outcome = schedule.run(planned, services, fresh=fresh)
    except KeyboardInterrupt:
        _fail(f"interrupted; what was finished is in {results}, and the same command goes on from there", INTERRUPTED)
    print(_comparison(outcome.results), end="")
    print(_closing(outcome, results), flush=True)
    if uploads:
        _finish(uploads, outcome)
    raise typer.Exit(OK if outcome.is_fine else NOT_ALL_OK)


@app.command()
def calibrate(
    matrix: Annotated[
        Path | None,
        typer.Argument(
            metavar="[MATRIX]",
            help="Matrix whose baseline and protocol are used; without it MiniLM on eager, in short rounds.",
            show_default=False,
        ),
    ] = None,
    comparisons: Annotated[int, typer.Option(metavar="N", min=1, help="Comparisons to be made.")] = 40,
    budget: Annotated[
        float, typer.Option(metavar="SECONDS", min=1, help="No comparison that would not end within.")
    ] = 3600.0,
    executor: ExecutorOption = ExecutorName.AUTO,
    at_once: AtOnce = False,
    plugin: PluginModules = None,
    output_format: TextOrJson = ListFormat.TEXT,
) -> None:
    """Compare a cell with itself, again and again: what differences this machine shows where there are none.

    What was found is kept for this machine, reports show it beside their verdicts, and runs bind threads where it was shown to
    help.
    """
    loaded = _load_plugins(plugin)
    cell, protocol = _to_calibrate(matrix, loaded)
    try:
        with ConsoleReporter(_stderr()) as reporter, tempfile.TemporaryDirectory() as folder:
            planned = Matrix("calibrate", "", (Group(cell.workload_key, (PlannedCell(cell),)),), protocol)
            chosen = _executor(executor, _needed(planned, loaded), reporter)
            lent = no_lease if at_once else lease
            services = schedule.Services(chosen, loaded, ResultStore.open(Path(folder)), reporter, lent)
            found = calibration.calibrate(cell, protocol, services, comparisons, budget)
    except KeyboardInterrupt:
        _fail("interrupted; nothing was kept, what was known of this machine still is", INTERRUPTED)
    if output_format is ListFormat.JSON:
        print(found.model_dump_json(indent=2))
    else:
        print(render_calibration(found, *_screen()), end="")


@app.command()
def report(results: ResultsArgument) -> None:
    """Print the comparison of the newest results in a results directory; results of other tools apart, below."""
    store = ResultStore.existing(results)
    print(_comparison(store.results()), end="")
    print(render_imported(store.imported(), *_screen()), end="")
    _warn(store)


@app.command()
def export(
    results: ResultsArgument,
    output_format: Annotated[ExportFormat, typer.Option("--format", help="Form of the rows.")] = ExportFormat.CSV,
    whole_history: Annotated[
        bool, typer.Option("--all", help="Every result ever stored, not only the newest per key.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Written here, not to standard output.", show_default=False
        ),
    ] = None,
) -> None:
    """Write one flat row per result, or the results in the form of transformers' benchmark_v2.

    Unknown values are empty (CSV) or null (all other forms), never 0. Results of other tools are rows too, with their origin.
    """
    store = ResultStore.existing(results)
    rows = store.history() if whole_history else store.results()
    if output_format is ExportFormat.PARQUET:
        _write_parquet([*rows, *store.imported()], output)
    elif output_format is ExportFormat.BENCHMARK_V2:
        _write(benchmark_v2.export((each, raw_launches(each, store)) for each in rows), output)
    else:
        _write(export_lines([*rows, *store.imported()], output_format), output)
    _warn(store)


@app.command(name="results")
def results_(
    folder: ResultsArgument,
    where: Annotated[
        str | None,
        typer.Option(
            metavar="EXPR",
            help="Those for which this holds, as \"backend == 'compile' and batch_size >= 8\".",
            show_default=False,
        ),
    ] = None,
    sort: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="By this column, smallest first.", show_default=False)
    ] = None,
    descending: Annotated[bool, typer.Option("--descending", help="Largest first.")] = False,
    limit: Annotated[
        int | None,
        typer.Option(metavar="N", min=0, help="So many at most; 50 where a table is shown.", show_default=False),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(metavar="NAMES", help="Columns of JSON and CSV, with commas between.", show_default=False),
    ] = None,
    whole_history: Annotated[
        bool, typer.Option("--all", help="Every result ever stored, not only the newest per key and host.")
    ] = False,
    output_format: Annotated[FoundFormat, typer.Option("--format", help="Form of the rows.")] = FoundFormat.TEXT,
) -> None:
    """Find results of a results directory: filtered, sorted, in seconds where there are a million."""
    is_text = output_format is FoundFormat.TEXT
    if is_text and columns:
        raise HarnessError("--columns is for --format json and csv: a table shows its own, and those that are named")
    named = [name.strip() for name in columns.split(",")] if columns else None
    if is_text:
        named, limit = (
            list(table_columns([*names_in(where), *filter(None, [sort])])),
            TABLE_LIMIT if limit is None else limit,
        )
    question = Question(where, sort, descending, limit, named, whole_history)
    with ask(folder, question) as answer:
        _print_found(answer, output_format)
    for warning in answer.warnings:
        print(f"harness: warning: {warning}", file=sys.stderr)


@app.command()
def merge(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Results directories.", show_default=False)],
    into: Annotated[
        Path,
        typer.Option(
            "--into",
            metavar="DIR",
            help="Results directory that gets them; made where missing.",
            show_default=False,
            parser=_folder,
        ),
    ],
) -> None:
    """Add the results of several directories to one: shards of a sweep, or machines. Twice changes nothing.

    Results of different machines stay apart. Exit code 1 where a result was left out, as another content has its place.
    """
    merged = merge_results(folders, into)
    for sentence in (*merged.torn, *merged.repeated, *merged.left_out):
        print(f"harness: warning: {sentence}", file=sys.stderr)
    print(_merged(merged, into))
    raise typer.Exit(NOT_ALL_OK if merged.left_out else OK)


@app.command(name="import")
def import_(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="Result files of other tools.", show_default=False)
    ],
    results: ResultsFolder = Path("results"),
) -> None:
    """Read result files of transformers' benchmark_v2 and of optimum-benchmark.

    They are kept apart, marked with their origin and with what they lack, and never ranked beside results of the harness.
    """
    found = [each for file in files for each in read_foreign(file)]
    store = ResultStore.open(results)
    added = sum([store.add_imported(each) for each in found])
    read = counted(len(found), "result")
    print(f"{read} read, {added} of them new, in {results}; `harness report {_typed(results)}` shows them apart.")


@app.command()
def push(
    results: ResultsArgument,
    repo: Repo = None,
    full: Annotated[bool, typer.Option("--full", help="Rows with raw samples and launch records only.")] = False,
    summarized: Annotated[bool, typer.Option("--summarized", help="Rows without them only.")] = False,
    both: Annotated[bool, typer.Option("--both", help="Both; so it is where nothing is said.")] = False,
    create: Annotated[bool, typer.Option("--create", help="Make the dataset where it is missing.")] = False,
    private: Annotated[bool, typer.Option("--private", help="Make it private; with --create.")] = False,
) -> None:
    """Upload what a dataset of the Hub lacks of a results directory, in one commit. The token is HF_TOKEN, or in .env."""
    store = ResultStore.existing(results)
    dataset = Dataset(_target(repo))
    forms = _forms(full=full, summarized=summarized, both=both)
    if private and not create:
        raise HarnessError("--private says how --create makes a dataset: give both, or change the dataset on its page")
    if create:
        dataset.create(private=private)
    print(told_of(push_files(dataset, wanted(store, forms)), dataset.repo))
    _warn(store)


@app.command()
def sync(results: ResultsFolder = Path("results"), repo: Repo = None) -> None:
    """Upload all that a dataset lacks of a results directory: what runs did not upload, or failed to. Twice changes nothing."""
    store = ResultStore.existing(results)
    dataset = Dataset(_target(repo))
    print(told_of(push_files(dataset, wanted(store, Form)), dataset.repo))
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
    loaded = _load_plugins(plugin)
    chosen = None if name is None else loaded.named(name)
    entries = installed(loaded, choice.venv_executor().made, choice.imaged())
    if chosen is None:
        _print_backends(entries, loaded.broken, output_format)
    else:
        _print_backend(next(entry for entry in entries if entry.backend is chosen), output_format)


@app.command(name="new-backend")
def new_backend(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Name of the backend, as a matrix will say it.", show_default=False)
    ],
    into: Annotated[Path, typer.Option("--into", metavar="DIR", help="Folder in which the package is made.")] = Path(),
) -> None:
    """Write the package of a new backend: a plugin that runs as it is, and says where your framework goes.

    It needs no other file of the harness and passes `harness check-backend`; its README tells the next steps.
    """
    folder = new_package(name, into, _load_plugins(None).backends)
    print(f"{folder} is a plugin that runs as it is. Next:\n")
    print(f"  python -m pip install --editable {_typed(folder)}\n  harness check-backend {name}\n")
    print(f"{folder / 'README.md'} tells where to go on.")


@app.command(name="check-backend")
def check_backend(
    name: Annotated[str, typer.Argument(metavar="NAME", help="An installed backend.", show_default=False)],
    executor: ExecutorOption = ExecutorName.AUTO,
    device: Annotated[DeviceName, typer.Option(help="Kind of device that it is checked on.")] = DeviceName.CPU,
    operation: Annotated[
        CheckedOperation, typer.Option(help="What of the backend is checked.")
    ] = CheckedOperation.FORWARD,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="SOURCE", help="Model to check with; one of random weights that runs quickly.", show_default=False
        ),
    ] = None,
    plugin: PluginModules = None,
    output_format: TextOrJson = ListFormat.TEXT,
) -> None:
    """Check whether a backend keeps the promises that numbers rest on. What fails says what to do.

    Exit code 0 where no check failed, 1 where one did.
    """
    loaded = _load_plugins(plugin)
    backend = loaded.named(name)
    try:
        with ConsoleReporter(_stderr()) as reporter:
            chosen = _executor(executor, [(backend, device)], reporter)
            findings = check_installed(
                name,
                loaded,
                chosen,
                model=model,
                operation=operation.value,
                device=device.value,
                progress=reporter.doing,
            )
    except KeyboardInterrupt:
        _fail("interrupted; workers are ended, nothing is kept", INTERRUPTED)
    if output_format is ListFormat.JSON:
        print(json.dumps([finding_row(finding) for finding in findings], indent=2))
    else:
        print(render_findings(name, findings, *_screen()), end="")
    raise typer.Exit(OK if conforms(findings) else NOT_ALL_OK)


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
    checks = examine(
        installed(loaded, choice.venv_executor().made, choice.imaged()), loaded.problems, cache.home(), results
    )
    if output_format is ListFormat.JSON:
        print(json.dumps(checks_row(checks), indent=2))
    else:
        print(render_checks(checks, *_screen()), end="")
    raise typer.Exit(OK if can_run(checks) else NOT_ALL_OK)


@app.command()
def build(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="BACKEND", help="Backends; those of a matrix that names none.", show_default=False),
    ] = None,
    device: Annotated[DeviceName, typer.Option(help="Kind of device that the images are for.")] = DeviceName.CPU,
    offline: Annotated[
        bool, typer.Option("--offline", help="Fetch nothing: build from what the harness's cache and the engine have.")
    ] = False,
    local_base: Annotated[
        bool, typer.Option("--local-base", help="Start from a base made on this host, from a Debian mirror.")
    ] = False,
    plugin: PluginModules = None,
) -> None:
    """Build the images of backends that are missing or stale, and print each image's size and the seconds it took.

    Wheels and Debian packages are fetched first, and kept; the builds themselves have no network.
    """
    chosen = _chosen(names, _load_plugins(plugin))
    try:
        with ConsoleReporter(_stderr()) as reporter:
            built = images.ensure(
                chosen,
                device,
                Engine.connect(),
                reporter.doing,
                note=reporter.note,
                offline=offline,
                local_base=local_base,
            )
    except KeyboardInterrupt:
        _fail("interrupted; images that were finished are there, and the same command goes on from them", INTERRUPTED)
    print(render_images(built, *_screen()), end="")


@app.command()
def clean(
    everything: Annotated[
        bool, typer.Option("--all", help="Also those of which cannot be told from here whether their run goes on.")
    ] = False,
) -> None:
    """Remove the containers that runs which were killed have left, and name the images that newer ones have replaced.

    Containers of runs that go on stay.
    """
    engine = Engine.connect()
    print(_cleaned(containers.clean(engine, unknown_too=everything)))
    if replaced := images.replaced(engine):
        print(_left(len(replaced)))


def main() -> NoReturn:
    """Entry point: expected mistakes end in one sentence and exit code 2."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    try:
        configuration.load_env_file(Path.cwd())
        code = app(sys.argv[1:] or ["--help"], standalone_mode=False)
    except HarnessError as error:
        _fail(str(error), BAD_INPUT)
    except typer.TyperException as error:
        _fail(_misuse(error), BAD_INPUT)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM):
            raise
        _fail(f"{error.filename or 'a file'}: {error.strerror}; what was finished is kept", BAD_INPUT)
    if code == INTERRUPTED:
        _fail("interrupted", INTERRUPTED)
    sys.exit(code or OK)


def _misuse(error: typer.TyperException) -> str:
    """What is wrong with a command line, in a sentence as of any other mistake."""
    said = " ".join(error.format_message().split()).rstrip(".")
    said = said.replace(": Value error, ", ": ").replace(": Input should be ", ": it must be ")  # not pydantic's words
    said = said.partition(", unable to parse")[0]
    context = getattr(error, "ctx", None)
    command = context.command_path if context else app.info.name
    return f"{said[0].lower()}{said[1:]}{'' if said.endswith('?') else ';'} `{command} --help` tells what there is"


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
    loaded = plugins.load([*named, *(modules or [])], _print_warning)
    for problem in loaded.problems:
        _print_warning(problem)
    return loaded


def _print_warning(sentence: str) -> None:
    print(f"harness: warning: {sentence}", file=sys.stderr)


def _expand(path: Path, loaded: plugins.Plugins, only: str | None) -> Matrix:
    matrix = expand(path, loaded, checkpoints.identify)
    return matrix if only is None else _narrowed(matrix, only, loaded)


def _narrowed(matrix: Matrix, only: str, loaded: plugins.Plugins) -> Matrix:
    holds = compile_filter(only, loaded.backends.values())
    kept = selection.narrowed(matrix, lambda planned: holds(planned.cell))
    if not kept.groups:
        raise HarnessError(
            f"--only {only!r} leaves none of the {counted(len(matrix.cells), 'cell')}; `harness plan` lists them"
        )
    return kept


def _sharded(matrix: Matrix, shard: str | None) -> Matrix:
    """After --only, so that shards are of even size."""
    return matrix if shard is None else selection.Shard.parse(shard).of(matrix)


def _failed(matrix: Matrix, store: ResultStore, loaded: plugins.Plugins, reporter: ConsoleReporter) -> Matrix:
    kept = selection.failed(matrix, store.history(), calibration.host_hash(loaded))
    reporter.note(
        f"{len(kept.cells)} of {counted(len(matrix.cells), 'cell')} did not end well in {store.root}: only these are run."
    )
    return kept


def _executor(name: ExecutorName, needed: Sequence[tuple[Backend, str]], reporter: ConsoleReporter) -> Executor:
    """For backends, each with its device kind."""
    if name is ExecutorName.VENV:
        return choice.venv_executor()
    if name is ExecutorName.DOCKER:
        return choice.docker_executor(_engine_or_venv(), reporter.note)
    return choice.chosen_executor(needed, reporter.doing, reporter.note)


def _engine_or_venv() -> Engine:
    """For a run, which could do without: the message says so."""
    try:
        return Engine.connect()
    except EngineLostError as error:
        raise HarnessError(f"{error}; or use --executor venv") from None


def _needed(planned: Matrix, loaded: plugins.Plugins) -> list[tuple[Backend, str]]:
    """The backends of a run, that of the reference too, each with its device kind."""
    cells = [each.cell for each in planned.cells if each.status is None]
    names = dict.fromkeys((name, cell.device) for cell in cells for name in (cell.backend, planned.protocol.reference))
    return [(loaded.backends[name], device) for name, device in names if name in loaded.backends]


def _to_calibrate(matrix: Path | None, loaded: plugins.Plugins) -> tuple[Cell, Protocol]:
    if matrix is None:
        identity = checkpoints.identify(calibration.MODEL).identity
        return calibration.default_cell(loaded, identity), calibration.PROTOCOL
    expanded = _expand(matrix, loaded, None)
    return calibration.cell_of(expanded), expanded.protocol


def _calibrated(protocol: Protocol, loaded: plugins.Plugins, reporter: ConsoleReporter) -> Protocol:
    """With threads bound where that was shown to help on this machine, and the matrix says nothing of it."""
    found = calibration.known(calibration.host_hash(loaded))
    if found is None or not found.bind_threads or "bind_threads" in protocol.model_fields_set:
        return protocol
    reporter.note(
        f"threads are bound, as calibrating has shown: {found.bind_reason}; `bind_threads` under `protocol` decides"
    )
    return protocol.model_copy(update={"bind_threads": True})


def _comparison(results: Sequence[Result]) -> str:
    hosts = {result.metadata.hashes.host_hash for result in results}
    known = {host: found for host in hosts if (found := calibration.known(host))}
    return terminal.render_results(results, *_screen(), calibrations=known)


def _print_backends(
    entries: Sequence[BackendEntry], broken: Sequence[plugins.Broken], output_format: ListFormat
) -> None:
    if output_format is ListFormat.JSON:
        rows = [*map(backend_row, entries), *map(broken_row, broken)]
        print(json.dumps(rows, indent=2, default=str))
    else:
        print(render_backends(entries, *_screen(), broken=broken), end="")


def _print_backend(entry: BackendEntry, output_format: ListFormat) -> None:
    if output_format is ListFormat.JSON:
        print(json.dumps(backend_row(entry), indent=2, default=str))
    else:
        print(render_backend(entry, *_screen()), end="")


def _chosen(names: list[str] | None, loaded: plugins.Plugins) -> list[Backend]:
    """The backends named, each once; without names, those that a matrix means which names none."""
    if names:
        return [loaded.named(name) for name in dict.fromkeys(names)]
    return [backend for backend in loaded.backends.values() if backend.by_default]


def _cleaned(done: containers.Cleaned) -> str:
    told = f"removed: {listed(done.removed)}"
    if done.unknown:
        told += f"\nkept, as their runs cannot be seen from here (--all removes them too): {listed(done.unknown)}"
    return told


def _left(replaced: int) -> str:
    return (
        f"kept, as a run may be using them: {replaced} image(s) that newer ones have replaced; "
        f"`docker image prune --filter label={images.BACKEND_LABEL}` removes those that no container uses"
    )


def _uploads(at_end: bool, after_each_cell: bool, repo: str | None, services: schedule.Services) -> RunUploads | None:
    """The uploads of a run, where they are asked for and possible; it is said which it is, and why."""
    note = services.reporter.note
    asked = at_end or after_each_cell
    found = configuration.target(repo, os.environ) if asked else Off("--push is not given")
    if isinstance(found, Off):
        note(f"Uploads are off: {found.reason}.")
        return None
    note(f"Uploads are on: to {found}, {'after each cell and ' if after_each_cell else ''}when the run has ended.")
    uploads = RunUploads(Dataset(found), services.store, note, after_each_cell=after_each_cell)
    services.plugins.add_observer("the harness's uploads", uploads)
    return uploads


def _finish(uploads: RunUploads, outcome: schedule.Outcome) -> None:
    try:
        uploads.finish(outcome.results)
    except KeyboardInterrupt:
        _fail("interrupted while uploading; `harness sync` finishes it", INTERRUPTED)


def _target(repo: str | None) -> Target:
    found = configuration.target(repo, os.environ)
    if isinstance(found, Off):
        raise HarnessError(f"nothing can be uploaded, {found.reason}: give it in the environment or in a file .env")
    return found


def _forms(*, full: bool, summarized: bool, both: bool) -> list[Form]:
    if sum((full, summarized, both)) > 1:
        raise HarnessError("--full, --summarized and --both exclude one another: give one of them")
    return [Form.FULL] if full else [Form.SUMMARIZED] if summarized else list(Form)


def _print_found(answer: Answer, output_format: FoundFormat) -> None:
    if output_format is FoundFormat.JSON:
        sys.stdout.writelines(found_as_json(answer.columns, answer.rows))
    elif output_format is FoundFormat.CSV:
        sys.stdout.writelines(found_as_csv(answer.columns, answer.rows))
    else:
        print(render_found(answer.rows, answer.total, *_screen()), end="")


def _merged(merged: Merged, into: Path) -> str:
    """As "120 results added to all, 4 were there already; 2 hosts, kept apart."."""
    told = f"{counted(merged.added, 'result')} added to {into}, {merged.present} were there already"
    if merged.left_out:
        told += f", {len(merged.left_out)} left out"
    hosts = len(merged.hosts)
    return f"{told}; {hosts} hosts, kept apart." if hosts > 1 else f"{told}."


def _write(lines: Iterable[str], output: Path | None) -> None:
    if output is None:
        sys.stdout.writelines(lines)
        return
    with _writable(output) as file:
        file.writelines(line.encode() for line in lines)


def _write_parquet(results: Sequence[Result | ImportedResult], output: Path | None) -> None:
    if output is None and sys.stdout.isatty():
        raise HarnessError("Parquet is not for a terminal: give --output FILE, or redirect standard output")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "results.parquet"
        write_parquet(results, file)
        with sys.stdout.buffer if output is None else _writable(output) as target:
            target.write(file.read_bytes())


def _writable(path: Path) -> BinaryIO:
    try:
        return path.open("wb")
    except OSError as error:
        raise HarnessError(f"{path} cannot be written: {error.strerror}; give another --output") from None


def _warn(store: ResultStore) -> None:
    for warning in store.warnings:
        print(f"harness: warning: {warning}", file=sys.stderr)


def _typed(path: Path) -> str:
    """As a shell takes it for one word."""
    return shlex.quote(str(path))


def _closing(outcome: schedule.Outcome, results: Path) -> str:
    kept = f" ({outcome.resumed} of them kept from former runs; --fresh measures anew)" if outcome.resumed else ""
    return (
        f"{counted(len(outcome.results), 'result')}{kept} in {results}; `harness export {_typed(results)}` gives rows."
    )
