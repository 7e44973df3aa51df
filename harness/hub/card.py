"""The dataset's card: `configs:` tells `datasets` and the viewer which files are which, `dataset_info:` which types columns have.

A card that people wrote keeps its text and all of its metadata but our entries in these two.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import yaml

from harness.hub import answers
from harness.hub.files import FOLDERS, LATEST
from harness.hub.rows import Form, columns
from harness.interchange.columns import features, merged
from harness.model import HarnessError

FILE = "README.md"

_DATA_FILES = {
    **{str(form): f"{folder}/*.jsonl" for form, folder in FOLDERS.items()},
    LATEST: f"{LATEST}/**/*.json",
}
_FORMS: Mapping[str, Form] = {str(form): form for form in Form} | {LATEST: Form.SUMMARIZED}

_NEW = """---
pretty_name: Benchmark results
---
# Benchmark results

Execution backends for Transformers models, measured and uploaded by backend-harness.

| config | a row is |
|---|---|
| `summarized` | one result: what was asked, the numbers, and what makes them defensible |
| `full` | the same with every launch's record and raw samples (`measurements.raw`) |
| `latest` | the newest result of each configuration |

Each row has `benchmark_config_hash`, `config`, `measurements` and `metadata`, with the fields of transformers' benchmark_v2
and, beside them, the harness's own. Mappings, and fields of several types, are JSON text. Failures are rows too:
`metadata.status` says how a cell ended. Results compare where their status is `ok` and their `metadata.hashes.host_hash` and
`protocol_hash` are equal.
"""


def card(stored: str | None, paths: Collection[str]) -> str:
    """The card of a dataset that holds files of these names; None: it has none yet. Raises HarnessError where it cannot be read."""
    from huggingface_hub import DatasetCard

    answers.quieten()
    names = [name for name in _DATA_FILES if any(path.startswith(_folder(name)) for path in paths)]
    try:
        found = DatasetCard(_NEW if stored is None else stored)
    except (ValueError, TypeError, yaml.YAMLError):
        raise HarnessError(
            f"the metadata at the head of the dataset's {FILE} cannot be read as YAML: mend it there"
        ) from None
    found.data["configs"] = _configs(_entries(found.data.get("configs")), names)
    found.data["dataset_info"] = _infos(_entries(found.data.get("dataset_info")), names)
    return str(found)


def _folder(name: str) -> str:
    return _DATA_FILES[name].partition("/")[0] + "/"


def _entries(value: Any) -> list[dict[str, Any]]:
    """Of a list, or of the one that stands for a list."""
    values = value if isinstance(value, list) else [value]
    return [each for each in values if isinstance(each, dict)]


def _configs(stored: Sequence[dict[str, Any]], names: Sequence[str]) -> list[dict[str, Any]]:
    """Ours first; the first is what is loaded where none is named, unless the card says otherwise."""
    others = [each for each in stored if each.get("config_name") not in _DATA_FILES]
    ours: list[dict[str, Any]] = [
        {"config_name": name, "data_files": [{"split": "train", "path": _DATA_FILES[name]}]} for name in names
    ]
    if ours and not any(each.get("default") for each in others):
        ours[0]["default"] = True
    return [*ours, *others]


def _infos(stored: Sequence[dict[str, Any]], names: Sequence[str]) -> list[dict[str, Any]]:
    by_name = {each.get("config_name"): each for each in stored}
    ours = {name: {"config_name": name, "features": _features(by_name.get(name, {}), name)} for name in names}
    return [*ours.values(), *(each for name, each in by_name.items() if name not in ours)]


def _features(stored: Mapping[str, Any], name: str) -> list[Any]:
    known = stored.get("features")
    return merged(known if isinstance(known, list) else [], features(columns(_FORMS[name])))
