"""`hub:ORG/NAME[@REVISION]`: a model of the Hub, pinned to a commit.

A commit never changes, so a source that names one (40 hex digits) is identified without asking. Any other revision is resolved,
and the model's config is fetched with it; that and the licence are remembered by commit.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from harness import cache
from harness.checkpoints import hub_client, memory
from harness.checkpoints.files import CONFIG, parse_config, read_config, require_checkpoint, select
from harness.checkpoints.hub_client import Snapshot
from harness.checkpoints.mend import mended_config
from harness.checkpoints.records import Identity, Maker, Progress
from harness.hub.answers import HubFile
from harness.model import HarnessError, Record

_DEFAULT_REVISION = "main"
_PART = r"\w(?:[\w.-]{0,94}\w)?"
_NAME = re.compile(rf"(?!.*(?:--|\.\.)){_PART}/{_PART}(?<!\.git)", re.ASCII)  # as huggingface_hub has it
_COMMIT = re.compile(r"[0-9a-f]{40}")
_REVISION = re.compile(r"\S{1,250}")


class _Known(Record):
    """What is remembered of a commit."""

    config: dict[str, Any]  # its config.json
    licence: str | None


def is_name(text: str) -> bool:
    """Whether a text could be the ORG/NAME of a model."""
    return _NAME.fullmatch(text) is not None


def identify(rest: str, source: str) -> Identity:
    """The identity of `ORG/NAME[@REVISION]`. A revision that is no commit is asked for, which needs the network.

    Of a commit that was never asked for, the config is {}. Raises HarnessError.
    """
    model, revision = _parse(rest, source)
    if _COMMIT.fullmatch(revision):
        return _identity(source, model, revision, _recall(model, revision))
    found = hub_client.describe(model, revision)
    where = f"hub:{model}@{revision}"
    if not _COMMIT.fullmatch(found.commit):
        raise HarnessError(f"{where}: the Hub names no commit of it but {found.commit!r}; see HF_ENDPOINT")
    require_checkpoint(found.files, where)
    return _identity(source, model, found.commit, _recall(model, found.commit) or _ask(model, found))


def fill(identity: Identity, folder: Path, make: Maker, progress: Progress) -> str | None:
    """Download the checkpoint's files into `folder`; their licence. Raises HarnessError where they cannot be had."""
    del make  # nothing to be made: the weights are there
    model, commit = _parse(identity.identity.removeprefix("hub:"), identity.source)
    found = hub_client.describe(model, commit, digests=True)
    # Not into `folder`: files that have come already are to outlive a download that is interrupted.
    aside = cache.room("checkpoints") / "downloads" / cache.safe_name(identity.identity)

    def fetch(name: str) -> Path:
        _announce(found.files[name], identity, progress)
        return hub_client.download(model, commit, found.files[name], aside)

    names = select(found.files, lambda name: fetch(name).read_bytes(), identity.identity)
    for path in [fetch(name) for name in names]:
        path.rename(folder / path.name)
    cache.remove(aside)
    _remember(model, commit, _Known(config=read_config(folder), licence=found.licence))
    return found.licence


def _parse(rest: str, source: str) -> tuple[str, str]:
    """Model and revision, a commit in small letters."""
    model, at, revision = rest.partition("@")
    if not is_name(model):
        raise HarnessError(
            f"{source!r}: {model!r} is no model's name on the Hub; write hub:ORG/NAME or hub:ORG/NAME@REVISION"
        )
    if at and not _REVISION.fullmatch(revision):
        raise HarnessError(f"{source!r}: {revision!r} is no revision; write hub:{model}@REVISION, as hub:{model}@main")
    return model, revision.lower() if _COMMIT.fullmatch(revision.lower()) else revision or _DEFAULT_REVISION


def _identity(source: str, model: str, commit: str, known: _Known | None) -> Identity:
    config, licence = (mended_config(known.config), known.licence) if known else ({}, None)
    return Identity(source, f"hub:{model}@{commit}", config, licence)


def _announce(file: HubFile, identity: Identity, progress: Progress) -> None:
    """Weights take time; all else is there at once."""
    if file.name.endswith(".safetensors"):
        size = "" if file.size_bytes is None else f" ({file.size_bytes / 1e6:.1f} MB)"
        progress(f"downloading {file.name} of {identity.identity}{size}")


# --- what is known of a commit --------------------------------------------------------------------------------------


def _ask(model: str, found: Snapshot) -> _Known:
    with tempfile.TemporaryDirectory() as folder:
        file = hub_client.download(model, found.commit, found.files[CONFIG], Path(folder))
        config = parse_config(file.read_bytes(), f"{CONFIG} of hub:{model}@{found.commit}")
    known = _Known(config=config, licence=found.licence)
    _remember(model, found.commit, known)
    return known


def _recall(model: str, commit: str) -> _Known | None:
    try:
        return _Known.model_validate(memory.recall("commits", f"{model}@{commit}"))
    except ValidationError:
        return None


def _remember(model: str, commit: str, known: _Known) -> None:
    memory.remember("commits", f"{model}@{commit}", known.model_dump())
