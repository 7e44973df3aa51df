"""Reads a YAML file into nodes that know where they stand, so that every later error can name file, line and key.

Plain words are read by the core rules of YAML 1.2, not by PyYAML's older ones: `no` and `on` are text, `010` is ten, `1e3`
is a number. Tags are refused, so no file can make objects; anchors and aliases are fine, up to a limit on what they expand
to, so no file can exhaust memory.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import yaml

from harness.model import HarnessError
from harness.spelling import listed, nearest

MAX_BYTES = 256 * 1024
"""Of a matrix file. A long one has a few thousand; PyYAML needs seconds for this many."""

MAX_VALUES = 100_000
"""Values a file may hold once its aliases are written out."""

LARGEST = 2**63 - 1
"""Of whole numbers, either way: what Parquet and DuckDB can hold of a result's settings."""

MATRICES = Path("matrices")
"""Where matrices are kept by custom: a misspelt name is looked up there too."""

Scalar = str | int | float | bool | None


@dataclass(frozen=True, eq=False)
class Node:
    """A value of the file and its place: line and column (from 1) of its key, or of itself where it is in a list."""

    content: Scalar | list[Node] | dict[str, Node]
    file: str
    line: int
    column: int
    key: str  # "matrix.batch_size[0]"; empty for the whole file

    def error(self, predicate: str) -> HarnessError:
        """The error that says `predicate` of this node, as "m.yaml:3:15: matrix.batch_size[0] is 0; ..."."""
        return HarnessError(f"{self.file}:{self.line}:{self.column}: {self.key or 'the file'} {predicate}")

    @property
    def seen(self) -> str:
        """What a message calls the content."""
        if isinstance(self.content, dict):
            return "a mapping"
        if isinstance(self.content, list):
            return "a list"
        return shown(self.content)


def shown(value: Scalar) -> str:
    """A value as YAML writes it; long text is cut."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:76]}...'"


def read(path: Path) -> Node:
    """The file's root node. Raises HarnessError."""
    text = _decoded(path, _bytes(path))
    try:
        root = yaml.compose(text, Loader=_CoreLoader)
        if root is None:
            raise HarnessError(f"{path}: the file is empty; a matrix needs at least the key 'matrix'")
        return _Builder(str(path)).node(root, "", root.start_mark)
    except yaml.MarkedYAMLError as error:
        raise _syntax_error(path, error) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise HarnessError(f"{path}:{line}: not YAML: a character it does not allow ({error.reason})") from None
    except RecursionError:
        raise HarnessError(f"{path}: nested too deeply, or an alias stands inside its own anchor") from None


# --- the file -------------------------------------------------------------------------------------------------------


def _bytes(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        raise HarnessError(f"no such matrix file: {path}{_near(path)}") from None
    except IsADirectoryError:
        raise HarnessError(f"{path} is a folder, not a matrix file{_offer(_matrix_files(path))}") from None
    except (OSError, ValueError) as error:
        raise HarnessError(f"{path}: cannot be read: {error}") from None
    if len(content) > MAX_BYTES:
        raise HarnessError(f"{path}: larger than {MAX_BYTES} bytes, so hardly a matrix file")
    return content


def _decoded(path: Path, content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        what = f"byte 0x{content[error.start]:02x} is not UTF-8"
        raise HarnessError(f"{path}:{line}: {what}; save the file with that encoding") from None


def _near(path: Path) -> str:
    """What to try instead: the file of the nearest name, in the folder that was named or where matrices are kept."""
    files = [*_matrix_files(path.parent), *_matrix_files(MATRICES)]
    stem = nearest(path.stem, [file.stem for file in files])
    match = next((file for file in files if file.stem == stem), None)
    return f"; did you mean {match}?" if match else _offer(files)


def _offer(files: list[Path]) -> str:
    return f"; there are: {listed(files[:10])}" if files else "; no matrix files are there either"


def _matrix_files(folder: Path) -> list[Path]:
    return sorted(file for pattern in ("*.yaml", "*.yml") for file in folder.glob(pattern))


def _syntax_error(path: Path, error: yaml.MarkedYAMLError) -> HarnessError:
    mark = error.problem_mark or error.context_mark
    place = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else str(path)
    said = ", ".join(part for part in (error.context, error.problem) if part)
    return HarnessError(f"{place}: not YAML: {said}")


# --- YAML -----------------------------------------------------------------------------------------------------------

_STANDARD = "tag:yaml.org,2002:"

_PLAIN_WORDS = (  # the first that fits; all else is text
    ("null", r"~|null|Null|NULL|"),
    ("bool", r"true|True|TRUE|false|False|FALSE"),
    ("int", r"[-+]?[0-9]+"),
    ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?"),
)


class _CoreLoader(yaml.SafeLoader):
    """Resolves plain words as YAML 1.2 does."""

    yaml_implicit_resolvers = {}  # noqa: RUF012 - PyYAML's own name: empty here, so that nothing is inherited


for _tag, _pattern in _PLAIN_WORDS:
    _CoreLoader.add_implicit_resolver(_STANDARD + _tag, re.compile(f"^(?:{_pattern})$"), None)


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(text)
    return number


def _whole(text: str) -> int:
    number = int(text)
    if not -LARGEST <= number <= LARGEST:
        raise OverflowError(text)
    return number


_SCALARS: dict[str, Callable[[str], Scalar]] = {
    _STANDARD + "null": lambda text: None,  # noqa: ARG005
    _STANDARD + "bool": lambda text: text.lower() == "true",
    _STANDARD + "int": _whole,
    _STANDARD + "float": _finite,
    _STANDARD + "str": str,
}


class _Builder:
    """Turns PyYAML's nodes into ours, with aliases written out."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._count = 0

    def node(self, source: yaml.Node, key: str, mark: yaml.Mark) -> Node:
        """The node of `key`, whose place is `mark`."""
        self._count += 1
        place = Node(None, self._file, mark.line + 1, mark.column + 1, key)
        if self._count > MAX_VALUES:
            raise place.error(f"is one value too many: with its aliases written out the file has over {MAX_VALUES}")
        return Node(self._content(source, place), place.file, place.line, place.column, key)

    def _content(self, source: yaml.Node, place: Node) -> Scalar | list[Node] | dict[str, Node]:
        if isinstance(source, yaml.MappingNode) and source.tag == _STANDARD + "map":
            return self._mapping(source, place)
        if isinstance(source, yaml.SequenceNode) and source.tag == _STANDARD + "seq":
            return [self.node(item, f"{place.key}[{i}]", item.start_mark) for i, item in enumerate(source.value)]
        if isinstance(source, yaml.ScalarNode) and source.tag in _SCALARS:
            return _scalar(source, place)
        raise place.error(f"has the tag {source.tag!r}, which means nothing here; leave it out")

    def _mapping(self, source: yaml.MappingNode, place: Node) -> dict[str, Node]:
        content: dict[str, Node] = {}
        for key, value in source.value:
            if not isinstance(key, yaml.ScalarNode):
                raise place.error("has a key that is no single word")
            path = f"{place.key}.{key.value}".removeprefix(".")
            node = self.node(value, path, key.start_mark)
            if key.value in content:
                raise node.error(f"is there twice, first in line {content[key.value].line}; remove one")
            content[key.value] = node
        return content


def _scalar(source: yaml.ScalarNode, place: Node) -> Scalar:
    try:
        return _SCALARS[source.tag](source.value)
    except OverflowError:
        raise place.error(f"is {shown(source.value)}; it must be {LARGEST} at most") from None
    except ValueError:
        raise place.error(f"is {shown(source.value)}; it must be a finite number") from None
