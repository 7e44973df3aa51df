"""Looks at a plugin without running its backend: what is declared, and what importing it brings along."""

from __future__ import annotations

import ast
import importlib.metadata
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from harness.executors.sources import dockerfile, lock_file, package_folder
from harness.inventory import canonical, is_pin, parse_names, parse_pins
from harness.model import Backend, Cell, HarnessError, Stack
from harness.spelling import did_you_mean, listed
from harness.testing.outside import Declared, Loaded

DISTRIBUTION = "backend-harness"

FRAMEWORKS = frozenset({"torch", "jax", "flax", "tensorflow", "transformers", "onnxruntime", "optimum", "openvino"})
"""Never on the host, whatever a lock pins. What else is not to be there follows from the stack's lock."""

IMPORT_LIMIT_S = 120.0

_IMPORT = """\
import importlib, json, sys
import harness.plugins
before = set(sys.modules)
importlib.import_module(sys.argv[1])
print(json.dumps(sorted({name.partition(".")[0] for name in set(sys.modules) - before})))
"""


def declared(backend: Backend, cell: Cell) -> Declared:
    """What is wrong with a backend's declaration, beyond what keeps its plugin from being loaded. `cell` is one of its."""
    return Declared(tuple(_faults(backend, cell)))


def loaded(module: str, stack: Stack) -> Loaded:
    """What importing a plugin's module brings along, seen in a process that has imported the harness alone."""
    path = os.pathsep.join(entry for entry in sys.path if entry)
    done = subprocess.run(
        [sys.executable, "-c", _IMPORT, module],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        errors="replace",
        timeout=IMPORT_LIMIT_S,
        check=False,
    )
    if done.returncode != 0:
        return Loaded(module, (done.stderr.strip().splitlines() or ["it printed nothing"])[-1], (), ())
    brought = json.loads(done.stdout.splitlines()[-1])
    return Loaded(module, None, tuple(brought), tuple(sorted(_stack_modules(stack) & set(brought))))


# --- what belongs into the stack ------------------------------------------------------------------------------------


def _stack_modules(stack: Stack) -> frozenset[str]:
    """Top-level modules that a plugin must leave to its runner: of what its lock pins, and the harness does not need itself."""
    try:
        pins = {canonical(pin.name) for pin in parse_pins(lock_file(stack).read_text("utf-8"))}
    except HarnessError:  # no lock: that is another check's finding
        return FRAMEWORKS
    pinned = pins - {canonical(name) for name in parse_names("\n".join(_requirements()))}
    found = importlib.metadata.packages_distributions().items()
    return FRAMEWORKS | {module for module, owners in found if pinned & set(map(canonical, owners))}


def _requirements() -> Iterable[str]:
    return importlib.metadata.requires(DISTRIBUTION) or ()


# --- the declaration ------------------------------------------------------------------------------------------------


def _faults(backend: Backend, cell: Cell) -> Iterator[str]:
    if not backend.description.strip():
        yield "it has no description. Say in one line what it is"
    if helpless := [option.name for option in backend.options if not option.help.strip()]:
        yield f"the options {listed(helpless)} have no help. Say of each in one line what it does"
    yield from _stack_faults(backend.stack)
    yield from _refusal(dockerfile, backend)
    yield from _runner_faults(backend)
    yield from _supports_faults(backend, cell)


def _stack_faults(stack: Stack) -> Iterator[str]:
    for device in ("cpu", *stack.device_locks):
        try:
            lines = lock_file(stack, device).read_text("utf-8").splitlines()
        except HarnessError as error:
            yield str(error)
            continue
        if loose := [line for line in map(str.strip, lines) if line and line[0] not in "#-" and not is_pin(line)]:
            yield f"{stack.lock_for(device)} leaves open what is installed ({loose[0]!r}). Pin every package as NAME==VERSION"
    for package in stack.packages:
        yield from _refusal(package_folder, package, stack)


def _refusal(find: Callable[..., object], *what: object) -> Iterator[str]:
    """Why a file or a package that is declared is not found, if it is not."""
    try:
        find(*what)
    except HarnessError as error:
        yield str(error)


def _runner_faults(backend: Backend) -> Iterator[str]:
    module, _, name = backend.runner.partition(":")
    package, *inner = module.split(".")
    if package not in {each.partition(".")[0] for each in backend.stack.packages}:
        yield f"the runner is in {module}, which no worker will find. Name its package in the stack's packages"
        return
    source = _source(package, inner, backend.stack)
    if source is None:
        yield f"the runner is in {module}, which has no file. Write it as 'module:Class'"
        return
    try:
        names = set(_top_level_names(ast.parse(source.read_bytes(), str(source))))
    except (SyntaxError, ValueError) as error:
        yield f"{module} is no Python: {error}. Mend it"
        return
    if name not in names and "*" not in names:
        yield f"{module} has no class {name!r}{did_you_mean(name, names)}. Name the runner as its file does"


def _source(package: str, inner: list[str], stack: Stack) -> Path | None:
    """The file of a module that is not to be imported here."""
    try:
        place = package_folder(package, stack).joinpath(*inner)
    except HarnessError:  # told of already
        return None
    files = (place.with_suffix(".py"), place / "__init__.py")
    return next((file for file in files if file.is_file()), None)


def _top_level_names(module: ast.Module) -> Iterator[str]:
    """What a module defines, imports or assigns; "*" among them where not all can be told."""
    for node in module.body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            yield node.name
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from (alias.asname or alias.name for alias in node.names)
        elif isinstance(node, ast.Assign):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, (ast.If, ast.Try, ast.With)):
            yield "*"


def _supports_faults(backend: Backend, cell: Cell) -> Iterator[str]:
    try:
        first, second = (backend.supports(cell, {}) for _ in range(2))
    except (Exception, SystemExit) as error:
        yield (
            f"supports() raised {type(error).__name__} ({error}) for a model whose config is not known yet. Return None then: "
            "it is no reason against anything"
        )
        return
    if first != second:
        yield f"supports() says {first!r}, then {second!r} of one cell. Judge from the arguments alone"
