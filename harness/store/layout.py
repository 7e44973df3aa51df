"""Where each file of a results directory lies. Names only; nothing here touches the disk."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import PurePosixPath

from harness.model import Cell, Result

HISTORY = "history.jsonl"
PARTS = "parts.jsonl"
LOCK = ".lock"
LAUNCH = "launch.json"
LATEST = "latest"
LAUNCHES = "launches"
BLOCKS = "blocks"
IMPORTED = "imported"

_LONGEST = 80
"""Characters of one part of a name: three parts, a time and a temporary suffix stay below the file systems' 255 bytes."""


def run_file(result: Result) -> str:
    """`{org}_{model}/{org}_{model}_benchmark_{YYYYMMDD_HHMMSS}.json`, the time being the result's, in UTC."""
    name = "_".join(model_names(result.config.model))
    moment = datetime.fromisoformat(result.metadata.timestamp).astimezone(UTC)
    return f"{name}/{name}_benchmark_{moment:%Y%m%d_%H%M%S}.json"


def alternatives(file: str) -> Iterator[str]:
    """The name itself, then `…_2.json`, `…_3.json`: for runs of one model that began in the same second."""
    yield file
    stem = file.removesuffix(".json")
    number = 2
    while True:
        yield f"{stem}_{number}.json"
        number += 1


def latest_file(cell: Cell) -> str:
    """`latest/{task}/{org}/{model}/{params}.json`; the short key in params keeps look-alikes apart."""
    operation = "" if cell.operation == "forward" else f"{cell.operation}_"
    new_tokens = f"_n{cell.new_tokens}" if cell.new_tokens else ""
    shape = f"b{cell.batch_size}_s{cell.sequence_length}{new_tokens}_{cell.dtype}_{cell.device}_t{cell.threads}"
    params = f"{_cleaned(cell.label)}_{_cleaned(operation + shape)}_{cell.short_key}"
    return "/".join((LATEST, safe_name(cell.task), *model_names(cell.model), f"{params}.json"))


def launch_folder(key: str, launch_id: str) -> str:
    """`launches/{key}/{launch_id}`."""
    return f"{LAUNCHES}/{key}/{launch_id}"


def block_folder(block_id: str) -> str:
    """`blocks/{block_id}`."""
    return f"{BLOCKS}/{block_id}"


def imported_file(key: str) -> str:
    """`imported/{key}.json`."""
    return f"{IMPORTED}/{key}.json"


def model_names(source: str) -> tuple[str, str]:
    """(org, model) of a model source, safe as file names.

    `org/name` of the Hub keeps its org. Sources without one take their kind: `package:x` is ("package", "x"), `path:/a/b` is
    ("path", "b"), `random:bert?layers=2` is ("random", "bert-layers-2-…"), and a Hub name without an org is ("hub", name).
    """
    kind, colon, rest = source.partition(":")
    if not colon:
        kind, rest = "hub", source
    if kind == "path":
        rest = PurePosixPath(rest).name
    org, slash, name = rest.partition("/")
    if kind == "hub" and slash:
        return safe_name(org), safe_name(name)
    return safe_name(kind), safe_name(rest)


def safe_name(text: str) -> str:
    """The text where it is a plain file name, else a cleaned one ended by a digest, so that two texts never share a name."""
    cleaned = _cleaned(text)
    if cleaned == text != "":
        return text
    return f"{cleaned or 'unnamed'}-{hashlib.sha256(text.encode(errors='surrogatepass')).hexdigest()[:8]}"


def _cleaned(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-.")[:_LONGEST]
