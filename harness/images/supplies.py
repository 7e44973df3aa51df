"""What images are built from beside base and code: wheels and Debian packages, fetched once and kept in the harness's cache.

Wheels are fetched on the host, by its own pip: its settings (private indexes, CPU builds) hold there and not in a container.
Debian packages are fetched in a container of the base, whose release decides. So the builds themselves need no network.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness import cache
from harness.executors import pip
from harness.executors.base import Progress
from harness.images.base import Base
from harness.images.client import Client
from harness.images.spec import DOCKERFILE, ImageSpec, place_dockerfile
from harness.model import HarnessError, digest
from harness.spelling import listed

_OLDEST_GLIBC_MINOR = 5
"""Of the platform tags that wheels carry: manylinux_2_5 is what manylinux1 was."""

_FORMER_TAGS = ("manylinux1", "manylinux2010", "manylinux2014", "linux")
"""Names from before the version of glibc was part of them; `linux` is what private indexes carry."""


@dataclass(frozen=True)
class Supplies:
    """For one image; folders that are read-only."""

    wheels: cache.Entry
    debs: cache.Entry | None  # None: the backend has no system packages


def fetch(spec: ImageSpec, base: Base, client: Client, progress: Progress, *, offline: bool) -> Supplies:
    """What the image needs, from the cache or (unless `offline`) fetched into it. Raises HarnessError."""
    return Supplies(
        wheels=_wheels(spec, base, progress, offline=offline),
        debs=_debs(spec, base, client, progress, offline=offline) if spec.system_packages else None,
    )


def wheel_target(base: Base) -> list[str]:
    """pip's options for the base's interpreter and platform: every tag that its glibc satisfies."""
    major, minor = base.glibc
    tags = [f"manylinux_{major}_{each}" for each in range(minor, _OLDEST_GLIBC_MINOR - 1, -1)]
    platforms = [f"--platform={tag}_{base.machine}" for tag in (*tags, *_FORMER_TAGS)]
    return ["--implementation=cp", f"--python-version={base.python[0]}.{base.python[1]}", *platforms]


def fetch_debs_command(context: Path, base: Base, packages: Sequence[str], folder: Path) -> list[str]:
    """What follows `docker` to fetch Debian packages, with all they need beyond the base, into a folder."""
    arguments = {"BASE_IMAGE": base.name, "SYSTEM_PACKAGES": " ".join(packages)}
    built = [f"--build-arg={name}={value}" for name, value in arguments.items()]
    destination = str(folder).replace('"', '""')  # the value is a line of CSV
    output = f'--output=type=local,"dest={destination}"'
    return [
        "build",
        "--progress=plain",
        "--target=debs",
        output,
        *built,
        f"--file={context / 'Dockerfile'}",
        str(context),
    ]


def _wheels(spec: ImageSpec, base: Base, progress: Progress, *, offline: bool) -> cache.Entry:
    target = wheel_target(base)
    name = f"{spec.stack}-{spec.device}-{digest({'lock': spec.content['lock_sha256'], 'target': target})[:16]}"

    def make(folder: Path) -> dict[str, str]:
        _refuse(offline, f"the wheels of stack {spec.stack} for {spec.device}")
        pip.download(spec.lock, folder, target, spec.stack, progress)
        _refuse_cpu_builds(spec, folder)
        return {"lock_sha256": spec.content["lock_sha256"], "base": base.name}

    return cache.keep(cache.room("wheelhouse") / name, make, progress)


def _debs(spec: ImageSpec, base: Base, client: Client, progress: Progress, *, offline: bool) -> cache.Entry:
    packages = " ".join(spec.system_packages)
    name = digest({"base": base.id, "packages": packages})[:16]

    def make(folder: Path) -> dict[str, str]:
        _refuse(offline, f"the Debian packages {packages}")
        progress(f"{spec.backend}: fetching the Debian packages {packages}")
        _fetch_debs(spec, base, client, folder)
        return {"packages": packages, "base": base.name}

    return cache.keep(cache.room("debs") / name, make, progress)


def _fetch_debs(spec: ImageSpec, base: Base, client: Client, folder: Path) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        context = Path(scratch)
        place_dockerfile(DOCKERFILE, context)  # the shared one, which has the stage for it
        outcome = client.run(fetch_debs_command(context, base, spec.system_packages, folder))
    if outcome.returncode != 0:
        packages = " ".join(spec.system_packages)
        raise HarnessError(
            f"the Debian packages {packages} cannot be fetched in a container of {base.name} ({outcome.why}): containers must "
            "reach the Debian mirror that the base names, through a proxy where there is one (docs/docker.md)"
        )


def _refuse_cpu_builds(spec: ImageSpec, folder: Path) -> None:
    """The same pin is a CPU build on one index and a CUDA build on another; the former would run, without a GPU."""
    wrong = sorted(path.name for path in folder.iterdir() if "+cpu" in path.name)
    if spec.device != "cpu" and wrong:
        raise HarnessError(
            f"stack {spec.stack}: this host's pip finds CPU builds for the device {spec.device} ({listed(wrong)}); set it to an "
            "index that has the others (`pip config list`, PIP_FIND_LINKS)"
        )


def _refuse(offline: bool, what: str) -> None:
    if offline:
        raise HarnessError(f"{what} are not in {cache.home()}, and --offline forbids to fetch them: leave it out once")
