"""What of our own code goes into an environment or image: the worker and the plugin's packages, and their digests.

Nothing here imports a plugin: its files are found, not run.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import importlib.util
import sys
from collections.abc import Mapping
from pathlib import Path

from harness.model import Backend, HarnessError, Stack, digest

Files = Mapping[str, Path]
"""Path below site-packages, with forward slashes -> the file to copy there."""

_WORKER = ("__init__.py", "protocol.py", "tasks.py", "worker")
"""Of `harness`, what the worker imports. The rest needs the host's dependencies and stays out."""


def lock_file(stack: Stack, device: str = "cpu") -> Path:
    """The stack's lock for a device kind on this machine. Raises HarnessError."""
    return _shipped(stack.lock_for(device), f"stack {stack.name}: its lock", stack)


def dockerfile(backend: Backend) -> Path | None:
    """The Dockerfile that a backend brings along; None where it has none of its own. Raises HarnessError."""
    if backend.dockerfile is None:
        return None
    return _shipped(backend.dockerfile, f"backend {backend.name}: its Dockerfile", backend.stack)


def _shipped(reference: str, whose: str, stack: Stack) -> Path:
    """The file that "package:file" names."""
    package, _, name = reference.partition(":")
    path = package_folder(package, stack) / name
    if not name or not path.is_file():
        raise HarnessError(
            f"{whose} is given as {reference!r}, but there is no file {path}; "
            "write it as 'package:file' and make sure that the plugin ships the file as package data"
        )
    return path


def worker_files() -> Files:
    """What of `harness` runs in the container."""
    root = Path(__file__).parent.parent
    return {
        f"harness/{path.relative_to(root).as_posix()}": path
        for name in _WORKER
        for path in ([root / name] if (root / name).is_file() else _files_below(root / name))
    }


def plugin_files(package: str, stack: Stack) -> Files:
    """All files of one of the stack's import packages. Raises HarnessError."""
    root = package_folder(package, stack)
    prefix = package.replace(".", "/")
    return {f"{prefix}/{path.relative_to(root).as_posix()}": path for path in _files_below(root)}


def package_folder(package: str, stack: Stack) -> Path:
    """Where an import package lies on this host. Raises HarnessError."""
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):  # a parent is missing; an empty name
        spec = None
    if spec is None or not spec.submodule_search_locations:
        raise HarnessError(
            f"stack {stack.name}: it names {package!r}, which is no import package installed here; "
            "install the plugin that offers this stack, or mend the name in its plugin"
        )
    return Path(next(iter(spec.submodule_search_locations)))


def plugin_version(package: str) -> str | None:
    """Version of the distribution that an import package came with; None where its metadata does not tell."""
    distributions = _distributions_by_package(tuple(sys.path)).get(package.partition(".")[0])
    return importlib.metadata.version(distributions[0]) if distributions else None


@functools.cache
def _distributions_by_package(path: tuple[str, ...]) -> Mapping[str, list[str]]:  # noqa: ARG001 - what it depends on
    """All that are installed: to read what each of them has installed takes a fifth of a second."""
    return importlib.metadata.packages_distributions()


def files_digest(files: Files) -> str:
    """SHA-256 over names and contents."""
    return digest({name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in files.items()})


def _files_below(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
