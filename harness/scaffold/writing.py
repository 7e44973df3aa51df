"""From a name to a package: the template's files, renamed, in a folder of their own."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from harness.declarations import name_fault
from harness.model import Backend, HarnessError

TEMPLATE = Path(__file__).parent / "template"

_LONGEST_NAME = 64
"""Of what may be part of a file's name, beside prefix and suffix, on any file system."""

_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
"""What can be a word of a matrix, an import package and, with hyphens, a distribution at once."""


def new_package(name: str, into: Path, taken: Mapping[str, Backend]) -> Path:
    """Write the package of a backend into a folder of `into`, and return that folder. `taken` are the backends there are.

    Raises HarnessError for a name that cannot be one, or is one already, and where the folder is there already.
    """
    if refusal := next(_refusals(name, taken), None):
        raise HarnessError(refusal)
    folder = into / f"harness-{name.replace('_', '-')}"
    if folder.exists():
        raise HarnessError(f"{folder} is there already; choose another name, or another folder with --into")
    if into.exists() and not into.is_dir():
        raise HarnessError(f"{into} is no folder; choose another with --into")
    try:
        _write(package_files(name), folder)
    except OSError as error:
        raise HarnessError(f"{folder} cannot be written: {error.strerror}; choose another folder with --into") from None
    return folder


def _write(files: Mapping[str, str], folder: Path) -> None:
    for path, text in files.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


def package_files(name: str) -> dict[str, str]:
    """Path below the package's folder -> text."""
    return {
        _renamed(path.relative_to(TEMPLATE).as_posix(), name): _renamed(path.read_text(encoding="utf-8"), name)
        for path in sorted(TEMPLATE.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }


def _renamed(text: str, name: str) -> str:
    """With the name where the template has its own, in each of its forms."""
    words = {
        "harness-newcomer": f"harness-{name.replace('_', '-')}",
        "Newcomer": "".join(part.capitalize() for part in name.split("_")),
        "NEWCOMER": name.upper(),
        "newcomer": name,
    }
    return re.sub("|".join(words), lambda found: words[found[0]], text)


def _refusals(name: str, taken: Mapping[str, Backend]) -> Iterator[str]:
    if not _NAME.fullmatch(name):
        yield (
            f"{name!r} cannot be the name of a backend: write small letters, digits and single underscores, beginning with a "
            f"letter{_as_for_example(name)}"
        )
    if len(name) > _LONGEST_NAME:
        yield f"a backend's name of {len(name)} characters is too long to be a file's; write {_LONGEST_NAME} at most"
    if fault := name_fault("backend", name):
        yield f"{fault}; choose another name"
    if name in taken:
        plugin = taken[name].offered_by
        yield f"there is a backend {name!r} already, of {plugin}; choose another name"
    if importlib.util.find_spec(f"harness_{name}"):
        yield f"there is an import package harness_{name} already, which would be hidden; choose another name"


def _as_for_example(name: str) -> str:
    near = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_0123456789")
    return f", as {near}" if _NAME.fullmatch(near) else ""
