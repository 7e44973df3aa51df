"""Checkpoints whose weights have to be made first: of a spec, by the stack that has a checkpoint maker.

The maker works in a folder of its own. What it leaves is held against what was asked for before it becomes a checkpoint.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from harness.checkpoints.files import CONFIG, WEIGHTS, read_json, select
from harness.checkpoints.mend import mended_config
from harness.checkpoints.records import Maker
from harness.model import HarnessError

RECIPE = 2
"""Raised when the maker would make other weights of the same spec; checkpoints of an older recipe are made anew."""


def have_made(
    folder: Path,
    spec: Mapping[str, Any],
    asked: Mapping[str, Any],
    make: Maker,
    source: str,
    lay: Callable[[Path], None] = lambda _: None,
) -> None:
    """Have the checkpoint of a spec made in `folder`, which is left with it alone.

    `asked` are keys of config.json and the values that they must have in the end. `lay` puts into the maker's folder what it
    needs beside the spec. Raises HarnessError where something else was made than was asked for.
    """
    spec_json, made = folder / "spec.json", folder / "made"
    spec_json.write_text(json.dumps(spec, indent=1))
    made.mkdir()
    lay(made)
    make(spec_json, made)
    _require_files(made, source)
    _keep_what_was_asked(made / CONFIG, asked, source)
    _take(made, folder)
    spec_json.unlink()
    shutil.rmtree(made)


def _require_files(made: Path, source: str) -> None:
    for name in (CONFIG, WEIGHTS):
        if not (made / name).is_file():
            raise HarnessError(f"{source!r}: the checkpoint maker left no {name}; see its stack's plugin")


def _keep_what_was_asked(file: Path, asked: Mapping[str, Any], source: str) -> None:
    """Write out keys that Transformers leaves away as its own defaults (the other generation's may differ); none may differ."""
    config = mended_config({**asked, **read_json(file)})
    for name, value in asked.items():
        if config[name] != value:
            raise HarnessError(
                f"{source!r}: the checkpoint maker made {name} {config[name]!r} of {value!r}: the Transformers of its stack "
                "cannot make this checkpoint; see the stack's lock"
            )
    file.write_text(json.dumps(config, indent=2) + "\n")


def _take(made: Path, folder: Path) -> None:
    """Only the files of a checkpoint: what was laid beside them stays behind."""
    names = [path.name for path in made.iterdir()]
    for name in select(names, lambda name: (made / name).read_bytes(), str(made)):
        (made / name).rename(folder / name)
