"""The build context of one image: only what goes in, laid out as docker/Dockerfile expects it.

docker/wheelhouse/   wheels
docker/debs/         Debian packages
harness/             the worker
plugins/             import packages of plugins
stack.lock
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from harness.images.spec import ImageSpec
from harness.images.supplies import Supplies

LOCK = "stack.lock"
PLUGINS = "plugins"


def lay_out(folder: Path, spec: ImageSpec, supplies: Supplies) -> None:
    """Fill an empty folder, on the disk of the supplies: these are linked, not copied."""
    _link_all(supplies.wheels.folder, folder / "docker" / "wheelhouse")
    _link_all(supplies.debs.folder if supplies.debs else None, folder / "docker" / "debs")
    _copy(spec.lock, folder / LOCK)
    for name, source in spec.code.items():
        _copy(source, folder / (name if name.startswith("harness/") else f"{PLUGINS}/{name}"))


def plugin_folders(spec: ImageSpec) -> list[str]:
    """Where the context has the plugins: one folder for each that lies in site-packages (`a` for the package `a.b`)."""
    names = {name.partition("/")[0] for name in spec.code} - {"harness"}
    return [f"{PLUGINS}/{name}" for name in sorted(names)]


def build_arguments(spec: ImageSpec, base: str) -> Mapping[str, str]:
    """The Dockerfile's arguments."""
    return {
        "BASE_IMAGE": base,
        "LOCK": LOCK,
        "PIP_NO_INDEX": "1",  # the wheels are there, complete
        "SYSTEM_PACKAGES": " ".join(spec.system_packages),
        "PLUGINS": " ".join(plugin_folders(spec)),
        "BACKEND": spec.backend,
        "STACK": spec.stack,
        "DEVICE": spec.device,
    }


def _link_all(source: Path | None, target: Path) -> None:
    target.mkdir(parents=True)
    for path in source.iterdir() if source else ():
        os.link(path, target / path.name)


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
