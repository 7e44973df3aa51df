"""`path:DIR`: a checkpoint on this disk. Its identity is its content, so it may lie anywhere and under any name.

Hashing gigabytes at every plan would be slow, so the digest of each file is remembered by device, inode, size and times. A
file that changed within the last seconds is hashed again next time: a second change could fall into the same tick of the clock.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

from harness import cache
from harness.checkpoints import memory
from harness.checkpoints.files import check, read_config, select
from harness.checkpoints.mend import mended_config
from harness.checkpoints.records import Identity, Maker, Progress
from harness.model import HarnessError

_SETTLED_NS = 2_000_000_000  # coarser than any file system's clock


def identify(rest: str, source: str) -> Identity:
    """The identity of a folder, relative to the current one. Raises HarnessError where it holds no checkpoint."""
    folder = Path(rest).expanduser().absolute()
    _require_folder(folder, source)
    with _readable(folder):
        check(folder)
        identity = f"path:sha256:{_sha256(folder)}"
        return Identity(source, identity, mended_config(read_config(folder)), _licence(folder), folder)


def fill(identity: Identity, folder: Path, make: Maker, progress: Progress) -> str | None:
    """Link or copy the files into `folder`; their licence. Raises HarnessError if they are no longer those identified."""
    del make  # nothing to be made: the weights are there
    assert identity.folder is not None
    progress(f"copying {identity.folder}")
    with _readable(identity.folder):
        names = _names(identity.folder)
    for name in names:
        _copy(identity.folder / name, folder / name)
    copied = cache.folder_sha256({name: cache.sha256_of(folder / name) for name in names})
    if f"path:sha256:{copied}" != identity.identity:
        raise HarnessError(f"{identity.folder} has changed since it was planned: start again")
    return identity.licence


def _require_folder(folder: Path, source: str) -> None:
    if not folder.exists():
        raise HarnessError(f"{source!r}: there is no folder {folder}; paths are relative to the current folder")
    if not folder.is_dir():
        raise HarnessError(f"{source!r}: {folder} is a file; name the folder that holds it")


@contextlib.contextmanager
def _readable(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise HarnessError(f"cannot read {error.filename or folder}: {error.strerror}; see its permissions") from error


def _names(folder: Path) -> list[str]:
    names = {path.name for path in folder.iterdir() if path.is_file()}
    return select(names, lambda name: (folder / name).read_bytes(), str(folder))


def _copy(source: Path, target: Path) -> None:
    """Weights are linked where the disk allows: they are large and never written to. All else may have to be mended."""
    if target.suffix == ".safetensors":
        with contextlib.suppress(OSError):  # another disk, or a file of somebody else's
            os.link(source.resolve(), target)
            return
    shutil.copyfile(source, target)


def _licence(folder: Path) -> str | None:
    """The licence that a model card's first block names; null without one."""
    with contextlib.suppress(OSError, UnicodeDecodeError, yaml.YAMLError):
        parts = (folder / "README.md").read_text(encoding="utf-8").split("---\n", 2)
        card = yaml.safe_load(parts[1]) if len(parts) == 3 and not parts[0].strip() else None
        licence = card.get("license") if isinstance(card, dict) else None
        return licence if isinstance(licence, str) else None
    return None


# --- digests, remembered --------------------------------------------------------------------------------------------


def _sha256(folder: Path) -> str:
    known = memory.recall("digests", str(folder))
    before = time.time_ns() - _SETTLED_NS
    stamps = {name: _Stamp.of(folder / name) for name in _names(folder)}
    hashes = {name: known.get(stamp.label) or cache.sha256_of(folder / name) for name, stamp in stamps.items()}
    settled = {stamps[name].label: hashes[name] for name in hashes if stamps[name].changed_ns < before}
    memory.remember("digests", str(folder), settled)
    return cache.folder_sha256(hashes)


@dataclass(frozen=True)
class _Stamp:
    """What cannot stay the same while a file's bytes change, once its times are past."""

    label: str
    changed_ns: int  # since the epoch

    @classmethod
    def of(cls, path: Path) -> _Stamp:
        status = path.stat()
        times = (status.st_mtime_ns, status.st_ctime_ns)
        parts = (path.name, status.st_dev, status.st_ino, status.st_size, *times)
        return cls(" ".join(map(str, parts)), max(times))
