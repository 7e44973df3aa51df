"""What an image is to be made of, as far as this host decides it, and how what the engine has compares with that. Pure.

An image tells by its labels what it was made of. Two images of one `identity` have the same content.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

from harness.engine import ImageFacts
from harness.executors import sources
from harness.model import Backend, HarnessError, digest
from harness.protocol import PROTOCOL_VERSION
from harness.spelling import did_you_mean, listed

LABEL = "org.backend-harness."
"""What the names of our labels begin with."""

BACKEND_LABEL = f"{LABEL}backend"
"""By which images of ours are found."""

REPOSITORY = "backend-harness"

DEVICES = ("cpu", "cuda")

DOCKERFILE = Path(__file__).with_name("Dockerfile")
"""The shared one: in a checkout a link to docker/Dockerfile, where people look for it; in a wheel a copy."""


@dataclass(frozen=True)
class ImageSpec:
    """One image, before it is built. What base, wheels and Debian packages add is known when they are at hand."""

    backend: str
    stack: str
    device: str
    tag: str
    lock: Path
    dockerfile: Path  # the shared one, or the backend's own
    code: sources.Files  # worker and plugins, by their paths below site-packages
    system_packages: tuple[str, ...]
    content: Mapping[str, str]  # label, without prefix -> value: of these each decides what is in the image
    about: Mapping[str, str]  # label, without prefix -> value: these tell more, and decide nothing


@dataclass(frozen=True)
class Image:
    """An image that the engine has, made of what this host has now."""

    backend: str
    device: str
    tag: str
    id: str  # "sha256:...", what a launch names: a tag may move while a run goes on
    labels: Mapping[str, str]  # ours, without prefix: `identity`, `lock_sha256`, `protocol_version` ...
    size_bytes: int  # layers shared with other images counted too
    layers: tuple[str, ...]  # digests; equal ones are on the disk once
    seconds: float | None = None  # that building took; None: it was there

    @property
    def identity(self) -> str:
        """SHA-256 of all that decides the image's content: equal after a rebuild from the same things, unlike `id`."""
        return self.labels["identity"]


@dataclass(frozen=True)
class Stale:
    """The engine has an image under the tag, but it is made of something else than what this host has now."""

    tag: str
    id: str
    reason: str  # a clause, as "the worker's code has changed"


@dataclass(frozen=True)
class Missing:
    """The engine has no image under the tag."""

    tag: str


def spec_of(backend: Backend, device: str) -> ImageSpec:
    """What the image of a backend for a device kind is to be made of. Raises HarnessError."""
    _check_device(device)
    stack = backend.stack
    lock, worker = sources.lock_file(stack, device), sources.worker_files()
    dockerfile = sources.dockerfile(backend) or DOCKERFILE
    plugins = {package: sources.plugin_files(package, stack) for package in stack.packages}
    return ImageSpec(
        backend=backend.name,
        stack=stack.name,
        device=device,
        tag=tag_of(backend.name, device),
        lock=lock,
        dockerfile=dockerfile,
        code={**worker, **{name: path for files in plugins.values() for name, path in files.items()}},
        system_packages=backend.system_packages,
        content={
            "stack": stack.name,
            "device": device,
            "protocol_version": str(PROTOCOL_VERSION),
            "lock_sha256": sources.files_digest({"lock": lock}),
            "system_packages": " ".join(backend.system_packages),
            "dockerfile_sha256": sources.files_digest({"Dockerfile": dockerfile}),
            "worker_sha256": sources.files_digest(worker),
            "plugin_sha256": _json({package: sources.files_digest(files) for package, files in plugins.items()}),
        },
        about={
            "backend": backend.name,
            "harness_version": version("backend-harness"),
            "plugin_versions": _json({package: sources.plugin_version(package) for package in plugins}),
        },
    )


def place_dockerfile(dockerfile: Path, context: Path) -> None:
    """Copy a Dockerfile into a build context: builders do not follow a link that leads out of it."""
    (context / "Dockerfile").write_bytes(dockerfile.read_bytes())


def tag_of(backend: str, device: str) -> str:
    """`backend-harness/eager:cpu`. A name that Docker does not take (capitals, `_a`, `a___b`) gets its digest's start."""
    if re.fullmatch(r"[a-z0-9]+(?:__?[a-z0-9]+)*", backend):
        return f"{REPOSITORY}/{backend}:{device}"
    readable = re.sub(r"[^a-z0-9]+", "-", backend.lower()).strip("-") or "backend"
    return f"{REPOSITORY}/{readable}-{sha256(backend.encode()).hexdigest()[:8]}:{device}"


def compare(spec: ImageSpec, found: ImageFacts | None, base: ImageFacts | None) -> Image | Stale | Missing:
    """What the engine has under the spec's tag, judged. `base` is what it has under the name of the found image's base.

    A base that is no longer there makes nothing stale: what was made from it is still whole.
    """
    if found is None:
        return Missing(spec.tag)
    reasons = list(_differences(spec, labels_of(found), base))
    if reasons:
        return Stale(spec.tag, found.id, listed(reasons))
    return Image(spec.backend, spec.device, spec.tag, found.id, labels_of(found), found.size_bytes, found.layers)


def labels_of(found: ImageFacts) -> dict[str, str]:
    """Our labels of an image, without their prefix."""
    ours = {name: value for name, value in found.labels.items() if name.startswith(LABEL)}
    return {name.removeprefix(LABEL): value for name, value in ours.items()}


def identity_of(content: Mapping[str, str]) -> str:
    """SHA-256 over all that decides an image's content: the spec's, and base, wheels and Debian packages."""
    return digest(content)


def _differences(spec: ImageSpec, labels: Mapping[str, str], base: ImageFacts | None) -> Iterator[str]:
    if "identity" not in labels:
        yield "it was not built by `harness build`"
        return
    if labels.get("protocol_version") != spec.content["protocol_version"]:
        spoken, wanted = labels.get("protocol_version"), spec.content["protocol_version"]
        yield f"its worker speaks version {spoken} of the protocol, this harness version {wanted}"
    for label, clause in _CHANGES.items():
        if labels.get(label) != spec.content[label]:
            yield clause
    if base is not None and base.id != labels.get("base_id"):
        yield f"its base {labels.get('base_image')} has changed"


_CHANGES = {
    "stack": "the backend has moved to another stack",
    "device": "it is for another device",
    "lock_sha256": "the stack's lock has changed",
    "system_packages": "the backend's system packages have changed",
    "dockerfile_sha256": "the Dockerfile has changed",
    "worker_sha256": "the worker's code has changed",
    "plugin_sha256": "the plugin's code has changed",
}
"""Label -> what it means that it differs."""


def _check_device(device: str) -> None:
    if device not in DEVICES:
        raise HarnessError(
            f"there are no images for the device {device!r}{did_you_mean(device, DEVICES)}; there are for {listed(DEVICES)}"
        )


def _json(values: Mapping[str, str | None]) -> str:
    return json.dumps(values, sort_keys=True)
