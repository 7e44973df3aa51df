"""Judges what a plugin declares: whether a backend, its options and their names make sense, before anything rests on them."""

from __future__ import annotations

import keyword
import math
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import PurePosixPath

from pydantic import TypeAdapter, ValidationError

from harness.model import CHOICES, WORKLOAD_AXES, Backend, Cell, Option, Stack
from harness.protocol import RUNNER_VERSION
from harness.spelling import did_you_mean, listed

_NO_TEXT_IN_YAML = ("null", "Null", "NULL", "true", "TRUE", "false", "FALSE")
RESERVED_NAMES = frozenset({*WORKLOAD_AXES, *Cell.model_fields, *_NO_TEXT_IN_YAML, "include", "exclude"})
"""Words that mean something else in a matrix or in --only, so no backend and no option may be called so."""


_STACK_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
"""What environments may be called on disk."""

_DEBIAN_PACKAGE = re.compile(r"[a-z0-9][a-z0-9+.-]+(=[A-Za-z0-9.+~:-]+)?")
"""A name, or a name and a version, as apt-get takes them: no options, and nothing that a shell would read."""


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_name(value: object) -> bool:
    return isinstance(value, str) and value.isidentifier() and not keyword.iskeyword(value)


def _is_module(value: object) -> bool:
    """By its full name: a worker imports it by that alone, so `.runner` would be of no package."""
    return isinstance(value, str) and all(map(_is_name, value.split(".")))


def _is_runner(value: object) -> bool:
    if not isinstance(value, str):
        return False
    module, _, name = value.partition(":")
    return _is_module(module) and _is_name(name)


def _is_file(value: object) -> bool:
    """Of the form "package:file", the file inside the package."""
    if not isinstance(value, str):
        return False
    package, _, name = value.partition(":")
    path = PurePosixPath(name)
    return _is_module(package) and bool(name.strip()) and name.isprintable() and not {"/", ".."} & set(path.parts)


def _matches(pattern: re.Pattern[str], value: object) -> bool:
    return isinstance(value, str) and pattern.fullmatch(value) is not None


def _is_truth_value(value: object) -> bool:
    return isinstance(value, bool)


def _are(is_one: Callable[[object], bool]) -> Callable[[object], bool]:
    """Whether a value is a tuple of such."""
    return lambda value: isinstance(value, tuple) and all(map(is_one, value))


def _is_mapping(value: object) -> bool:
    return isinstance(value, Mapping) and all(map(_is_text, value))


def _are_locks(value: object) -> bool:
    return isinstance(value, Mapping) and value.keys() <= set(CHOICES["device"]) and all(map(_is_file, value.values()))


Fields = Mapping[str, tuple[Callable[[object], bool], str]]
"""Field -> whether its value is one, and what to write. Nothing checks the types of a declaration before this."""

_BACKEND_FIELDS: Fields = {
    "runner": (_is_runner, "'module:Class', the module by its full name"),
    "description": (_is_text, "text"),
    "model_types": (_are(_is_text), "a tuple of texts"),
    "runs_encoder_decoders": (_is_truth_value, "True or False"),
    "expects": (_is_mapping, "{'name of a fact': value}"),
    "has_compile_cache": (_is_truth_value, "True or False"),
    "system_packages": (_are(partial(_matches, _DEBIAN_PACKAGE)), "a tuple of names of Debian packages, as ('g++',)"),
    "dockerfile": (lambda value: value is None or _is_file(value), "'package:file', or None"),
    "by_default": (_is_truth_value, "True or False"),
}
_STACK_FIELDS: Fields = {
    "name": (partial(_matches, _STACK_NAME), "letters, digits, '_', '.' and '-'"),
    "lock": (_is_file, "'package:file'"),
    "packages": (_are(_is_module), "a tuple of import packages, as ('harness_mine',)"),
    "checkpoint_maker": (lambda value: value is None or _is_module(value), "the full name of a module, or None"),
    "device_locks": (_are_locks, "{'cuda': 'package:file'}"),
}
_OPTION_FIELDS: Fields = {"help": (_is_text, "text")}


def fault_of(backend: object) -> str | None:
    """The first thing wrong with an object offered as a backend, as a clause that can follow the plugin's name."""
    return next(_backend_faults(backend), None)


def name_fault(kind: str, name: object) -> str | None:
    """Why a backend or an option (the kind) cannot be called so; None where it can."""
    return next(_name_faults(kind, name), None)


def _backend_faults(backend: object) -> Iterator[str]:
    if not isinstance(backend, Backend):
        yield f"harness_register_backends offers {backend!r}, which is no harness.model.Backend"
        return
    yield from _name_faults("backend", backend.name)
    if not isinstance(backend.stack, Stack):
        yield f"the backend {backend.name!r} has the stack {backend.stack!r}, which is no harness.model.Stack"
        return
    yield from _fields_faults(f"the backend {backend.name!r}", backend, _BACKEND_FIELDS)
    yield from _fields_faults(f"the stack of the backend {backend.name!r}", backend.stack, _STACK_FIELDS)
    if backend.runner_version != RUNNER_VERSION:
        yield (
            f"the runner of the backend {backend.name!r} is written for version {backend.runner_version} of harness.worker.api, "
            f"this harness has version {RUNNER_VERSION}; install a version of the plugin that is for it"
        )
    yield from _axes_faults(backend)
    if not callable(backend.supports):
        yield f"the backend {backend.name!r} has supports={backend.supports!r}, which cannot be called"
    for fault in _options_faults(backend.options):
        yield f"the backend {backend.name!r}: {fault}"


def _name_faults(kind: str, name: object) -> Iterator[str]:
    if isinstance(name, str) and keyword.iskeyword(name):
        yield f"no {kind} can be named {name!r}, a word of Python's: --only could not name it"
    elif not _is_name(name):
        yield f"the {kind} name {name!r} cannot be written in --only; use letters, digits and underscores"
    elif name in RESERVED_NAMES:
        yield f"no {kind} can be named {name!r}, which means something else in a matrix"


def _axes_faults(backend: Backend) -> Iterator[str]:
    """Of the tasks, operations, devices and dtypes it declares: a word that no matrix can say would be one never run."""
    yield from _words_faults(backend.name, "tasks", "task", backend.tasks)
    yield from _words_faults(backend.name, "operations", "operation", backend.operations)
    if not isinstance(backend.dtypes, Mapping):
        yield f"the backend {backend.name!r} has dtypes={backend.dtypes!r}; write {{'cpu': ('float32',)}}"
        return
    yield from _words_faults(backend.name, "dtypes", "device", tuple(backend.dtypes))
    for device, dtypes in backend.dtypes.items():
        yield from _words_faults(backend.name, f"dtypes[{device!r}]", "dtype", dtypes)


def _words_faults(backend: str, field: str, axis: str, words: object) -> Iterator[str]:
    if not isinstance(words, tuple) or not words:
        yield f"the backend {backend!r} has {field}={words!r}; write a tuple of words, at least one"
        return
    for word in words:
        if word not in CHOICES[axis]:
            nearest = did_you_mean(str(word), CHOICES[axis])
            yield f"the backend {backend!r} has the {axis} {word!r}{nearest} (known: {listed(CHOICES[axis])})"


def _fields_faults(owner: str, declared: object, fields: Fields) -> Iterator[str]:
    for name, (is_one, to_write) in fields.items():
        value = getattr(declared, name)
        if not is_one(value):
            yield f"{owner} has {name}={value!r}; write {to_write}"


def _options_faults(options: object) -> Iterator[str]:
    if not isinstance(options, tuple):
        yield f"its options are {options!r}, not a tuple of harness.model.Option"
        return
    names: set[str] = set()
    for option in options:
        if not isinstance(option, Option):
            yield f"the option {option!r} is no harness.model.Option"
            return
        if option.name in names:
            yield f"the option {option.name!r} is declared twice"
        names.add(option.name)
        yield from _option_faults(option)


def _option_faults(option: Option) -> Iterator[str]:
    yield from _name_faults("option", option.name)
    if option.type not in (str, int, float, bool):
        yield f"the option {option.name!r} has the type {option.type!r}; use str, int, float or bool"
        return
    yield from _fields_faults(f"the option {option.name!r}", option, _OPTION_FIELDS)
    if option.default is not None and not _is_of(option.type, option.default):
        yield f"the option {option.name!r} is of type {option.type.__name__}, but its default is {option.default!r}"
    if option.choices is not None:
        yield from _choices_faults(option, option.choices)


def _choices_faults(option: Option, choices: object) -> Iterator[str]:
    if not isinstance(choices, tuple) or not choices:
        yield f"the option {option.name!r} has the choices {choices!r}, not a tuple of values"
        return
    for choice in choices:
        if not _is_of(option.type, choice):
            yield f"the option {option.name!r} is of type {option.type.__name__}, but offers the choice {choice!r}"
    if option.default is not None and option.default not in choices:
        yield f"the option {option.name!r} has the default {option.default!r}, which is none of its choices"


def _is_of(kind: type, value: object) -> bool:
    """Whether a matrix could give this value to an option of this type: no truth values for integers, nothing infinite."""
    try:
        TypeAdapter(kind).validate_python(value, strict=True)
    except ValidationError:
        return False
    return not isinstance(value, float) or math.isfinite(value)
