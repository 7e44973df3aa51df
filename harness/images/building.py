"""Finds images, and builds those that are missing or stale.

A build has no network: base, wheels and Debian packages are at hand before it starts (`base`, `supplies`). So what is fetched is
fetched once, and a build that worked works again.
"""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from harness import cache
from harness.engine import Engine, ImageFacts
from harness.executors.base import Progress
from harness.images.base import Base, choose
from harness.images.client import Client, Outcome, find_client
from harness.images.context import build_arguments, lay_out
from harness.images.spec import (
    BACKEND_LABEL,
    LABEL,
    Image,
    ImageSpec,
    Missing,
    Stale,
    compare,
    identity_of,
    labels_of,
    place_dockerfile,
    spec_of,
)
from harness.images.supplies import Supplies, fetch
from harness.model import Backend, HarnessError

_SHOWN_LINES = 12
"""Of the build's output, in the error."""

_PACKAGES = "packages"

_STAGES = {
    "base": "the base's environment",
    "pip": "pip, for this build only",
    "stack": "installing the stack",
    _PACKAGES: "installing Debian packages",
    "code": "compiling worker and plugin",
    "backend": "putting them together",
}
"""Stage of the Dockerfile -> what is going on in it."""

_STEP = re.compile(r"#\d+ \[([\w-]+) +\d+/\d+\]")
_INSTALLING = re.compile(r"#\d+ [\d.]+ Installing collected packages: (.+)")
_EXPORTING = re.compile(r"#\d+ exporting to image")
_NOISE = re.compile(r"^(#\d+ (?:[\d.]+ )?|-+$| *\d* *\|? *(>>> )?)")
"""What BuildKit puts before what was said."""

_FULL = re.compile(r"no space left on device|disk quota exceeded", re.IGNORECASE)


def find(backend: Backend, device: str, engine: Engine) -> Image | Stale | Missing:
    """What the engine has for a backend on a device kind. Raises HarnessError where the backend's own files are gone."""
    return _find(spec_of(backend, device), engine)


def ensure(
    backends: Sequence[Backend],
    device: str,
    engine: Engine,
    progress: Progress,
    *,
    note: Progress | None = None,
    offline: bool = False,
    local_base: bool = False,
) -> list[Image]:
    """The images of backends for a device kind, in order; those that are missing or stale are built.

    `note` is told decisions (which image is built and why, which base), `progress` what is going on; without `note` it is told
    both. `offline`: nothing is fetched. `local_base`: build from the base made here.

    Raises HarnessError, saying what is in the way of building: a stale image is never handed out.
    """
    builder = _Builder(engine, progress, note or progress, offline=offline, local_base=local_base)
    return [_ensured(spec_of(backend, device), engine, builder) for backend in backends]


def replaced(engine: Engine) -> list[ImageFacts]:
    """Images of ours that have lost their tag to a newer one. A run that began with one goes on with it."""
    return [found for found in engine.images(BACKEND_LABEL) if not found.tags]


def obstacle(engine: Engine, progress: Progress) -> str | None:
    """What keeps images from being built here: no BuildKit, no base to be had; None where nothing is known to.

    Fetches the base where it is not there: nothing less tells whether it can be.
    """
    try:
        choose(engine, find_client(engine.host), progress)
    except HarnessError as error:
        return str(error)
    return None


def build_command(context: Path, spec: ImageSpec, base: Base, labels: Mapping[str, str]) -> list[str]:
    """What follows `docker` to build an image from a context that is laid out."""
    arguments = [f"--build-arg={name}={value}" for name, value in build_arguments(spec, base.name).items()]
    labelled = [f"--label={name}={value}" for name, value in labels.items()]
    options = ["--progress=plain", "--network=none", f"--file={context / 'Dockerfile'}", f"--tag={spec.tag}"]
    return ["build", *options, *arguments, *labelled, str(context)]


def labels_for(spec: ImageSpec, base: Base, supplies: Supplies) -> dict[str, str]:
    """Every label of an image, with prefix: what it is made of, its identity, and what the OCI wants to be called so."""
    made_of = {
        **spec.content,
        "base_id": base.id,
        "wheels_sha256": supplies.wheels.sha256,
        "debs_sha256": supplies.debs.sha256 if supplies.debs else "",
    }
    ours = {**spec.about, **made_of, "base_image": base.name, "identity": identity_of(made_of)}
    standard = {"org.opencontainers.image.version": spec.about["harness_version"]}
    return {**{LABEL + name: value for name, value in ours.items()}, **standard}


def _ensured(spec: ImageSpec, engine: Engine, builder: _Builder) -> Image:
    found = _find(spec, engine)
    return found if isinstance(found, Image) else builder.build(spec, found)


def _find(spec: ImageSpec, engine: Engine) -> Image | Stale | Missing:
    found = engine.image(spec.tag)
    base = labels_of(found).get("base_image") if found else None
    return compare(spec, found, engine.image(base) if base else None)


class _Builder:
    """Builds images from one base, which is chosen when the first is built."""

    def __init__(self, engine: Engine, progress: Progress, note: Progress, *, offline: bool, local_base: bool) -> None:
        self._engine = engine
        self._progress = progress
        self._note = note
        self._offline = offline
        self._local_base = local_base
        self._chosen: tuple[Client, Base] | None = None

    def build(self, spec: ImageSpec, found: Stale | Missing) -> Image:
        """Build one image. Raises HarnessError that says which, why it is needed, and what is in the way."""
        why = f"is stale: {found.reason}" if isinstance(found, Stale) else "is not there yet"
        self._note(f"image {spec.tag} {why}; building it")
        try:
            return self._built(spec)
        except HarnessError as error:
            raise HarnessError(f"image {spec.tag} {why}; it cannot be built: {error}") from error

    def _built(self, spec: ImageSpec) -> Image:
        started = time.monotonic()
        client, base = self._choose()
        supplies = fetch(spec, base, client, self._progress, offline=self._offline)
        outcome = self._run(client, spec, base, supplies)
        if outcome.returncode != 0:
            raise HarnessError(_failure(outcome))
        image = _find(spec, self._engine)
        if not isinstance(image, Image):
            raise HarnessError(
                "it was built, but the engine does not have it as it was built: something changed it meanwhile; run the same "
                "command again"
            )
        return replace(image, seconds=time.monotonic() - started)

    def _choose(self) -> tuple[Client, Base]:
        if self._chosen is None:
            client = find_client(self._engine.host)
            base = choose(self._engine, client, self._note, local=self._local_base, offline=self._offline)
            self._chosen = client, base
        return self._chosen

    def _run(self, client: Client, spec: ImageSpec, base: Base, supplies: Supplies) -> Outcome:
        # Beside the supplies, as links do not reach across disks.
        with (
            cache.explained("lay out a build"),
            tempfile.TemporaryDirectory(prefix="context-", dir=cache.room("wheelhouse")) as folder,
        ):
            context = Path(folder)
            lay_out(context, spec, supplies)
            place_dockerfile(spec.dockerfile, context)
            command = build_command(context, spec, base, labels_for(spec, base, supplies))
            return client.run(command, _Narrator(spec, self._progress).hear)


class _Narrator:
    """Listens to BuildKit and tells progress."""

    def __init__(self, spec: ImageSpec, progress: Progress) -> None:
        self._backend = spec.backend
        self._idle = set() if spec.system_packages else {_PACKAGES}
        self._progress = progress
        self._last = ""

    def hear(self, line: str) -> None:
        told = self._told(line)
        if told and told != self._last:
            self._last = told
            self._progress(f"{self._backend}: {told}")

    def _told(self, line: str) -> str | None:
        if match := _STEP.match(line):
            return None if match[1] in self._idle else _STAGES.get(match[1])
        if match := _INSTALLING.match(line):
            return f"installing {len(match[1].split(','))} packages"
        return "writing the image" if _EXPORTING.match(line) else None


def _failure(outcome: Outcome) -> str:
    said = [_NOISE.sub("", line) for line in outcome.lines]
    shown = "".join(f"\n  {line}" for line in [line for line in said if line.strip()][-_SHOWN_LINES:])
    full = any(_FULL.search(line) for line in outcome.lines)
    cause = "the engine's disk is full: `docker system prune` frees space" if full else f"`docker build`: {outcome.why}"
    return f"{cause}. Its last lines:{shown}"
