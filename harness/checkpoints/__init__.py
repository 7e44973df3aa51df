"""From a source as people write it to one checkpoint folder that every backend reads.

    identify("random:bert?hidden_size=64")      what it is: pinned, with its config; no weights are needed
    materialise(identity, make, progress)       where it is: one read-only folder, made once and kept

Sources are `hub:ORG/NAME[@REVISION]`, `package:NAME[==VERSION]`, `path:DIR` and `random:FAMILY?options`
(docs/reference/models.md). All end the same way: the same files of the same names, mended for both generations of Transformers,
and checked to be whole. No framework is imported here: what needs one is made by a stack, through the callable that
`materialise` is given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from harness import cache
from harness.checkpoints import hub, making, packages, paths, seeded
from harness.checkpoints.files import check, read_config, read_generation_config
from harness.checkpoints.mend import mend_folder
from harness.checkpoints.records import Checkpoint, Identity, Maker, Progress
from harness.model import HarnessError
from harness.spelling import did_you_mean, listed

__all__ = ["Checkpoint", "Identity", "Maker", "Progress", "identify", "materialise"]


@dataclass(frozen=True)
class _Kind:
    """One kind of source: how it is written, pinned and fetched."""

    form: str
    identify: Callable[[str, str], Identity]  # what follows the colon, the whole source
    fill: Callable[[Identity, Path, Maker, Progress], str | None]  # lays the files into a folder; the licence


_KINDS: Mapping[str, _Kind] = {
    "hub": _Kind("hub:ORG/NAME[@REVISION]", hub.identify, hub.fill),
    "package": _Kind("package:NAME[==VERSION]", packages.identify, packages.fill),
    "path": _Kind("path:DIR", paths.identify, paths.fill),
    "random": _Kind("random:FAMILY[?OPTION=VALUE&...]", seeded.identify, seeded.fill),
}


def identify(source: str) -> Identity:
    """What a source is. Reads the disk for `path:`; asks the Hub for `hub:` unless it names a commit; else neither.

    Equal checkpoints have equal identities, and an identity that is not a path's may itself be written as a source.
    Raises HarnessError for what is no source, with the nearest right spelling.
    """
    kind, colon, rest = source.partition(":")
    if not colon or kind not in _KINDS:
        forms = listed(known.form for known in _KINDS.values())
        hint = f"; did you mean 'hub:{source}'?" if hub.is_name(source) else did_you_mean(kind, _KINDS)
        raise HarnessError(f"{source!r} is no source of a model{hint}; write one of {forms}")
    return _KINDS[kind].identify(rest, source)


def materialise(identity: Identity, make: Maker, progress: Progress) -> Checkpoint:
    """The checkpoint's folder, found in the cache or fetched now.

    `make` is called where weights have to be made and are not there yet. Raises HarnessError where it cannot be had.
    """
    kind = _KINDS[identity.identity.partition(":")[0]]

    def fill(folder: Path) -> Mapping[str, str | None]:
        licence = kind.fill(identity, folder, make, progress)
        mend_folder(folder)
        check(folder)
        return {"licence": licence}

    place = cache.room("checkpoints") / cache.safe_name(f"{identity.identity} {making.RECIPE}")
    entry = cache.keep(place, fill, progress)
    config, generation_config = read_config(entry.folder), read_generation_config(entry.folder)
    return Checkpoint(identity.identity, entry.folder, entry.sha256, config, entry.facts["licence"], generation_config)
