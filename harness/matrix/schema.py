"""What a matrix file may say: keys, axes and their values, given the installed backends. Nodes in, typed settings out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from harness.matrix.source import Node, shown
from harness.model import CHOICES, WORKLOAD_AXES, Backend, Cell, InputSpec, Option, OptionValue, Protocol
from harness.spelling import did_you_mean, listed

TOP_LEVEL_KEYS = ("name", "description", "defaults", "matrix", "protocol")


@dataclass(frozen=True)
class Setting:
    """A value that an axis is to take, and where the file says so."""

    value: Any  # of the axis' type
    node: Node


Settings = Mapping[str, Setting]
"""By axis name; a backend's option is called "onnxruntime.optimum_level"."""


@dataclass(frozen=True)
class Entry:
    """One item of include or exclude."""

    node: Node
    settings: Settings


@dataclass(frozen=True)
class Document:
    """A matrix file, validated but not expanded."""

    name: str
    description: str
    node: Node  # of the key "matrix"
    defaults: Settings
    axes: Mapping[str, Sequence[Setting]]  # in the order written
    include: Sequence[Entry]
    exclude: Sequence[Entry]
    protocol: Protocol


@dataclass(frozen=True)
class Axis:
    """One thing a matrix may vary."""

    name: str
    type: TypeAdapter[Any]
    choices: tuple[OptionValue, ...] | None = None

    def read(self, node: Node) -> Setting:
        """The node's value, checked strictly: nothing is converted but whole numbers where any number will do."""
        if isinstance(node.content, (list, dict)):
            raise node.error(f"is {node.seen}; it must be one value")
        try:
            value = self.type.validate_python(node.content, strict=True)
        except ValidationError as error:
            raise node.error(f"is {node.seen}; {self._must_be(node) or _must_be(error)}") from None
        if self.choices is not None and value is not None and value not in self.choices:
            raise node.error(f"is {node.seen}; {self._must_be(node)}")
        return Setting(value, node)

    def _must_be(self, node: Node) -> str:
        """What choice there is, with the nearest; empty where there are no choices."""
        if self.choices is None:
            return ""
        words = [str(choice) for choice in self.choices]
        return f"it must be one of {listed(map(shown, self.choices))}{did_you_mean(str(node.content), words)}"


WhyMissing = Callable[[str], str | None]
"""Of a name that no backend has: why it has none, where a broken plugin offers it, or may; None where none does."""


@dataclass(frozen=True)
class BackendAxis(Axis):
    """The axis whose values are the backends that can be used."""

    why_missing: WhyMissing = lambda _: None

    def read(self, node: Node) -> Setting:
        """The node's value. One that a broken plugin keeps from being there is refused with what is broken."""
        if isinstance(node.content, str) and node.content not in (self.choices or ()):
            _refuse_broken(node, node.content, self.why_missing)
        return super().read(node)


def _refuse_broken(node: Node, name: str, why_missing: WhyMissing) -> None:
    if reason := why_missing(name):
        raise node.error(f"asks for {name!r}, which cannot be used: {reason}")


class Vocabulary:
    """Every axis that a matrix may name: those of the workload, `backend`, and the backends' options."""

    def __init__(self, backends: Mapping[str, Backend], why_missing: WhyMissing = lambda _: None) -> None:
        self.backend = BackendAxis("backend", TypeAdapter(str), tuple(backends), why_missing)
        self._plain = {name: _workload_axis(name) for name in WORKLOAD_AXES} | {"backend": self.backend}
        self._options = {backend.name: _option_axes(backend) for backend in backends.values()}

    def axes(self, node: Node, also: Iterable[str] = ()) -> Iterator[tuple[Axis, Node]]:
        """The axes that a mapping names, in order; `also` are keys it may have besides, which are passed over."""
        known = (*self._plain, *self._options, *also)
        for key, child in mapping(node, known, self.backend.why_missing).items():
            if key in self._plain:
                yield self._plain[key], child
            elif key in self._options:
                options = self._options[key]
                yield from ((options[name], value) for name, value in mapping(child, options).items())


def read_document(root: Node, backends: Mapping[str, Backend], why_missing: WhyMissing = lambda _: None) -> Document:
    """What the file says. Raises HarnessError for the first thing it may not say."""
    keys = mapping(root, TOP_LEVEL_KEYS)
    if "matrix" not in keys:
        raise root.error("has no key 'matrix'; add it, with the axes as lists under it")
    matrix = keys["matrix"]
    vocabulary = Vocabulary(backends, why_missing)
    return Document(
        name=_text(keys, "name", Path(root.file).stem),
        description=_text(keys, "description", ""),
        node=matrix,
        defaults=_settings(vocabulary, keys["defaults"]) if "defaults" in keys else {},
        axes={axis.name: [axis.read(item) for item in items(node)] for axis, node in _axes(vocabulary, matrix)},
        include=_entries(vocabulary, matrix, "include"),
        exclude=_entries(vocabulary, matrix, "exclude"),
        protocol=_protocol(keys["protocol"], vocabulary) if "protocol" in keys else Protocol(),
    )


# --- shapes ---------------------------------------------------------------------------------------------------------


def mapping(node: Node, known: Iterable[str], why_missing: WhyMissing = lambda _: None) -> dict[str, Node]:
    """The node's entries, all of them of known keys. `why_missing` tells of keys that would be backends."""
    if not isinstance(node.content, dict):
        raise node.error(f"is {node.seen}; it must be a mapping, written as 'key: value' lines")
    known = tuple(known)
    for key, child in node.content.items():
        if key not in known:
            hint = did_you_mean(key, known)
            if not hint:
                _refuse_broken(child, key, why_missing)
            raise child.error(f"is no key that can stand here{hint} (known: {listed(known)})")
    return node.content


def items(node: Node) -> list[Node]:
    """The node's items, at least one."""
    if isinstance(node.content, dict):
        raise node.error("is a mapping; it must be a list")
    if not isinstance(node.content, list):
        raise node.error(f"is {node.seen}; it must be a list: write [{_as_written(node)}]")
    if not node.content:
        raise node.error("is an empty list; give it a value, or leave the key out")
    return node.content


def _as_written(node: Node) -> str:
    return node.content if isinstance(node.content, str) else node.seen


def _text(keys: Mapping[str, Node], key: str, default: str) -> str:
    if key not in keys:
        return default
    content = keys[key].content
    if not isinstance(content, str) or not content.strip():
        raise keys[key].error(f"is {keys[key].seen}; it must be text")
    return content.strip()


def _must_be(error: ValidationError) -> str:
    """Pydantic's messages, one for each kind of value that is allowed, turned to follow "... is 0; "."""
    return "it must " + " or ".join(fault["msg"].removeprefix("Input should ") for fault in error.errors())


# --- axes -----------------------------------------------------------------------------------------------------------


def _workload_axis(name: str) -> Axis:
    """The axis of one of Cell's fields, with that field's type and limits."""
    field = InputSpec.model_fields["seed"] if name == "input_seed" else Cell.model_fields[name]
    return Axis(name, TypeAdapter(field.rebuild_annotation()), CHOICES.get(name))


def _option_axes(backend: Backend) -> dict[str, Axis]:
    return {option.name: _option_axis(backend.name, option) for option in backend.options}


def _option_axis(backend: str, option: Option) -> Axis:
    """Null, "left to the framework", may be asked for where it is the default."""
    kind: Any = option.type if option.default is not None else option.type | None
    return Axis(f"{backend}.{option.name}", TypeAdapter(kind), option.choices)


def _axes(vocabulary: Vocabulary, matrix: Node) -> Iterator[tuple[Axis, Node]]:
    return vocabulary.axes(matrix, also=("include", "exclude"))


def _settings(vocabulary: Vocabulary, node: Node) -> dict[str, Setting]:
    return {axis.name: axis.read(child) for axis, child in vocabulary.axes(node)}


def _entries(vocabulary: Vocabulary, matrix: Node, key: str) -> list[Entry]:
    content = matrix.content
    if not isinstance(content, dict) or key not in content:
        return []
    return [_entry(vocabulary, node) for node in items(content[key])]


def _entry(vocabulary: Vocabulary, node: Node) -> Entry:
    """An entry that names a backend's options is an entry for that backend, said or not."""
    settings = _settings(vocabulary, node)
    if not settings:
        raise node.error("says nothing; name at least one axis")
    owners = {name.partition(".")[0]: setting for name, setting in settings.items() if "." in name}
    if "backend" in settings:
        owners[settings["backend"].value] = settings["backend"]
    if len(owners) > 1:
        raise node.error(f"is for the backends {listed(sorted(owners))} at once; write one entry for each")
    for backend, setting in owners.items():
        settings["backend"] = Setting(backend, setting.node)
    return Entry(node, settings)


# --- protocol -------------------------------------------------------------------------------------------------------


def _protocol(node: Node, vocabulary: Vocabulary) -> Protocol:
    fields = mapping(node, Protocol.model_fields)
    for role in ("reference", "baseline"):
        if role in fields:
            vocabulary.backend.read(fields[role])
    try:
        return Protocol.model_validate({name: _plain(child) for name, child in fields.items()}, strict=True)
    except ValidationError as error:
        child = fields[str(error.errors()[0]["loc"][0])]
        raise child.error(f"is {child.seen}; {_must_be(error)}") from None


def _plain(node: Node) -> Any:
    if isinstance(node.content, (list, dict)):
        raise node.error(f"is {node.seen}; it must be one value")
    return node.content
