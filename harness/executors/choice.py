"""Which executor a run gets, and the line that says why; and what there is for it already."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from harness import cache, images
from harness.engine import Engine, EngineLostError
from harness.executors import containers
from harness.executors.base import Executor, Progress
from harness.executors.docker import DockerExecutor
from harness.executors.venv import VenvExecutor
from harness.images.building import obstacle
from harness.inventory import Imaged, ImageEntry, ImageState
from harness.model import Backend, HarnessError
from harness.spelling import listed


def venv_executor() -> VenvExecutor:
    """Environments of this user's cache."""
    return VenvExecutor(cache.room("environments"))


def docker_executor(engine: Engine, note: Progress) -> DockerExecutor:
    """Containers on an engine, first rid of those that ended runs have left. `note` is told what is worth keeping.

    Raises HarnessError where the engine would not hold them to their limits, or the user's options are none.
    """
    if (unlimited := _limits_obstacle(engine)) is not None:
        raise HarnessError(f"{unlimited}; or use --executor venv")
    removed = containers.clean(engine).removed
    if removed:
        note(f"removed {len(removed)} container(s) that an ended run had left")
    executor = DockerExecutor(engine, partial(_ensure, engine, note))
    executor.try_options()
    return executor


def chosen_executor(backends: Sequence[tuple[Backend, str]], progress: Progress, note: Progress) -> Executor:
    """Docker where an engine answers, limits its containers and has the images, or can build them; else virtual environments.

    Says which, and why.

    `backends` are those of the run, each with its device kind.
    """
    try:
        engine = Engine.connect()
        obstacle = _limits_obstacle(engine) or _images_obstacle(backends, engine, progress)
    except EngineLostError as error:
        note(f"executor venv, a virtual environment for each stack: {error}")
        return venv_executor()
    if obstacle is not None:
        note(f"executor venv, a virtual environment for each stack: {obstacle}")
        return venv_executor()
    note(f"executor docker, an image for each backend: an engine answers at {engine.host}")
    return docker_executor(engine, note)


def imaged() -> Imaged:
    """What tells of each backend's image; without an engine, only that."""
    try:
        engine = Engine.connect()
    except EngineLostError as error:
        unknown = ImageEntry(ImageState.UNKNOWN, None, str(error))
        return lambda backend: unknown  # noqa: ARG005 - an Imaged
    return partial(_image_entry, engine)


def _image_entry(engine: Engine, backend: Backend) -> ImageEntry:
    try:
        found = images.find(backend, "cpu", engine)
    except HarnessError as error:
        return ImageEntry(ImageState.UNKNOWN, None, str(error))
    match found:
        case images.Image():
            return ImageEntry(ImageState.READY, found.tag)
        case images.Stale():
            return ImageEntry(ImageState.STALE, found.tag, found.reason)
        case images.Missing():
            return ImageEntry(
                ImageState.NOT_BUILT, found.tag, f"`harness build {backend.name}` or the first run builds it"
            )


def _ensure(engine: Engine, note: Progress, backend: Backend, device: str, progress: Progress) -> images.Image:
    (image,) = images.ensure([backend], device, engine, progress, note=note)
    return image


def _limits_obstacle(engine: Engine) -> str | None:
    """What keeps containers from being held to the limits that a result tells of; None where they are."""
    unlimited = engine.cannot_limit()
    if not unlimited:
        return None
    return (
        f"the engine at {engine.host} cannot limit {listed(unlimited)} of its containers: delegate the control groups' "
        "controllers to its user, as docs/docker.md tells under Rootless engines"
    )


def _images_obstacle(backends: Sequence[tuple[Backend, str]], engine: Engine, progress: Progress) -> str | None:
    """What keeps images that are missing or stale from being built; None where they are there, or can be."""
    if all(_needs_no_building(backend, device, engine) for backend, device in backends):
        return None
    found = obstacle(engine, progress)
    return found and f"images cannot be built here ({found})"


def _needs_no_building(backend: Backend, device: str, engine: Engine) -> bool:
    """An image that is there; or one that nobody can make, which is that backend's trouble, and said where it is needed."""
    try:
        return isinstance(images.find(backend, device, engine), images.Image)
    except EngineLostError:
        raise
    except HarnessError:
        return True
