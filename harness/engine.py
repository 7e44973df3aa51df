"""The container engine as it tells of itself, its images and containers: asked through docker-py, never told to run anything.

What runs, runs through the client's argv (`harness.executors.docker`), so that it can be printed, pasted and rerun; here is what
an argv cannot tell: how a container ended, what an image is made of, and what is there under a label.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from docker.api import APIClient
from docker.errors import APIError, DockerException, ImageNotFound, NotFound

from harness import cgroups
from harness.model import HarnessError

CLIENT = "docker"
"""The command; the first one on the path."""

_DEFAULT_HOST = "unix:///var/run/docker.sock"

_LIMITED = {"memory": "memory", "cpuset": "processors", "pids": "processes"}
"""Controller of control groups -> what our containers are limited in by it."""

_TOLD = {"memory": "MemoryLimit", "cpuset": "CPUSet", "pids": "PidsLimit"}
"""Controller -> whether an engine has it, as it tells of itself. Old ones do not tell of all."""

_ANSWER_TIMEOUT_S = 20.0
"""Of one request. An engine that is busy unpacking layers answers late; one that hangs must not make us hang for ever."""


class EngineLostError(HarnessError):
    """No engine answers: there is none, it may not be asked, or it has gone."""


@dataclass(frozen=True)
class EngineFacts:
    """What of the engine is stored with each result."""

    version: str
    cgroup_version: str
    storage_driver: str
    kernel: str
    operating_system: str
    runtime: str  # "runc"
    is_rootless: bool  # it is a user's own: root in its containers is that user


@dataclass(frozen=True)
class ImageFacts:
    """An image that the engine has."""

    id: str  # "sha256:...": digest of its configuration
    tags: tuple[str, ...]
    labels: Mapping[str, str]
    size_bytes: int  # shared layers counted too
    layers: tuple[str, ...] = ()  # digests; equal ones are on the disk once


@dataclass(frozen=True)
class ContainerFacts:
    """A container, running or not."""

    name: str
    labels: Mapping[str, str]
    is_running: bool
    was_started: bool  # False: created, and then the engine could not start it
    exit_code: int
    oom_killed: bool  # some process in it, not only the first, was killed for want of memory
    error: str  # the engine's words where it could not start it, else empty
    memory_bytes: int  # that it may use


class Engine:
    """An engine on this machine. Every method but `answers` raises EngineLostError where it is gone."""

    def __init__(self, host: str, api_version: str) -> None:
        self.host = host  # "unix:///var/run/docker.sock": for DOCKER_HOST of the client
        self._api_version = api_version

    @classmethod
    def connect(cls) -> Engine:
        """The engine that the command `docker` would use. Raises EngineLostError with what is in the way."""
        host = _host()
        if "://" not in host:
            raise EngineLostError(
                f"DOCKER_HOST is {host!r}, which is no address of an engine: one begins with unix://, as {_DEFAULT_HOST}"
            )
        if not host.startswith("unix://"):
            raise EngineLostError(
                f"the Docker engine at {host} is reached over a network, but containers get folders of this machine; unset "
                "DOCKER_HOST, or choose a local context (`docker context use default`)"
            )
        try:
            with _client(host, "auto") as client:
                return cls(host, client.api_version)
        except (OSError, DockerException) as error:
            raise EngineLostError(_refusal(host, error)) from None

    def answers(self) -> bool:
        """Whether it is there now."""
        try:
            with self._asked() as client:
                return bool(client.ping())
        except EngineLostError:
            return False

    def facts(self) -> EngineFacts:
        with self._asked() as client:
            info = client.info()
        return EngineFacts(
            version=info["ServerVersion"],
            cgroup_version=_cgroup_version(info),
            storage_driver=info["Driver"],
            kernel=info["KernelVersion"],
            operating_system=info["OperatingSystem"],
            runtime=info.get("DefaultRuntime", ""),
            is_rootless=_is_rootless(info),
        )

    def cannot_limit(self, root: Path = Path("/")) -> tuple[str, ...]:
        """What it cannot limit for its containers, as "processors". `root` holds /sys.

        Docker then starts them without the limit, with a warning; podman does not start them.
        """
        with self._asked() as client:
            controllers = self._controllers(client.info(), root)
        return tuple(limited for controller, limited in _LIMITED.items() if controller not in controllers)

    def _controllers(self, info: Mapping[str, Any], root: Path) -> Collection[str]:
        """Those that the engine has. In version 2 the kernel is asked: podman 5.4 says there that it has no cpuset, and has."""
        if _is_rootless(info) and (_cgroup_version(info) == "1" or info.get("CgroupDriver") == "none"):
            return ()  # users get none in version 1; and Docker's none without systemd
        if _cgroup_version(info) == "1":
            return [controller for controller, told in _TOLD.items() if info.get(told, True)]
        owner = Path(self.host.removeprefix("unix://")).stat().st_uid if _is_rootless(info) else None
        delegated = cgroups.controllers(owner, root)
        return _LIMITED if delegated is None else delegated

    # --- images -----------------------------------------------------------------------------------------------------

    def image(self, reference: str) -> ImageFacts | None:
        """An image by tag or id; None where there is none."""
        with self._asked() as client:
            try:
                return _image_facts(client.inspect_image(reference))
            except ImageNotFound:
                return None

    def images(self, label: str) -> list[ImageFacts]:
        """All images with a label (`NAME` or `NAME=VALUE`), by id."""
        with self._asked() as client:
            ids = {found["Id"] for found in client.images(filters={"label": label})}
            return [_image_facts(client.inspect_image(each)) for each in sorted(ids)]

    # --- containers -------------------------------------------------------------------------------------------------

    def container(self, name: str) -> ContainerFacts | None:
        """A container by name; None where there is none."""
        with self._asked() as client:
            try:
                return _container_facts(client.inspect_container(name))
            except NotFound:
                return None

    def containers(self, label: str) -> list[ContainerFacts]:
        """All containers with a label (`NAME` or `NAME=VALUE`), those that have ended too, by name."""
        with self._asked() as client:
            names = [found["Id"] for found in client.containers(all=True, filters={"label": label})]
        found = [container for name in names if (container := self.container(name))]
        return sorted(found, key=lambda each: each.name)

    def kill(self, name: str) -> None:
        """End a container's processes now. One that is not running, or not there, is no error."""
        with self._asked() as client, _unless_gone():
            client.kill(name)

    def remove(self, name: str) -> None:
        """Remove a container, killing it first where it runs. One that is not there is no error."""
        with self._asked() as client, _unless_gone():
            client.remove_container(name, force=True, v=True)

    @contextmanager
    def _asked(self) -> Iterator[APIClient]:
        """A connection for one question: an engine may be restarted at any time."""
        try:
            with _client(self.host, self._api_version) as client:
                yield client
        except APIError as error:
            raise HarnessError(f"the Docker engine at {self.host} refuses: {error.explanation or error}") from None
        except (OSError, DockerException) as error:  # what requests raises is an OSError too
            raise EngineLostError(
                f"the Docker engine at {self.host} no longer answers ({_cause(error)}); start it and run the same command "
                "again: what was finished is kept"
            ) from None


@contextmanager
def _client(host: str, api_version: str) -> Iterator[APIClient]:
    """Raises OSError where there is no engine."""
    with socket.socket(socket.AF_UNIX) as trial:  # docker-py leaves its own open, and wraps the reason three times over
        trial.settimeout(_ANSWER_TIMEOUT_S)
        trial.connect(host.removeprefix("unix://"))
    client = APIClient(base_url=host, version=api_version, timeout=_ANSWER_TIMEOUT_S)
    try:
        yield client
    finally:
        client.close()


@contextmanager
def _unless_gone() -> Iterator[None]:
    """404: no such container. 409: it is not running, or is being removed already."""
    try:
        yield
    except APIError as error:
        if error.status_code not in (404, 409):
            raise


def _host() -> str:
    """Where the client would look: DOCKER_HOST, else its current context's endpoint, which docker-py does not ask for."""
    if shutil.which(CLIENT) is None:
        raise EngineLostError(f"there is no command `{CLIENT}`: install Docker (docs/docker.md tells how)")
    if os.environ.get("DOCKER_HOST"):
        return os.environ["DOCKER_HOST"]
    asked = [CLIENT, "context", "inspect", "--format", "{{.Endpoints.docker.Host}}"]
    try:
        told = subprocess.run(asked, capture_output=True, text=True, timeout=_ANSWER_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return _DEFAULT_HOST
    if told.returncode and "DOCKER_CONTEXT" in os.environ:  # asked for by name: no other engine may stand for it
        raise EngineLostError(
            f"DOCKER_CONTEXT is {os.environ['DOCKER_CONTEXT']!r}, which `{CLIENT}` does not know ({told.stderr.strip()}): name "
            f"one that `{CLIENT} context ls` lists, or unset it"
        )
    return told.stdout.strip() or _DEFAULT_HOST  # a client that knows no contexts, as podman's, says nothing


def _refusal(host: str, error: Exception) -> str:
    cause = _cause(error)
    if "permission denied" in cause.lower():
        return f"the Docker engine at {host} refuses this user: add the user to the group docker and log in anew"
    return f"no Docker engine answers at {host} ({cause}): start it"


def _cause(error: Exception) -> str:
    return (isinstance(error, OSError) and error.strerror) or str(error)


def _cgroup_version(info: Mapping[str, Any]) -> str:
    return str(info.get("CgroupVersion", "1"))  # engines before 20.10 knew no other and did not tell


def _is_rootless(info: Mapping[str, Any]) -> bool:
    return any("name=rootless" in option for option in info.get("SecurityOptions") or ())


def _image_facts(found: Mapping[str, Any]) -> ImageFacts:
    return ImageFacts(
        id=found["Id"],
        tags=tuple(found.get("RepoTags") or ()),
        labels=found["Config"].get("Labels") or {},
        size_bytes=found["Size"],
        layers=tuple(found.get("RootFS", {}).get("Layers") or ()),
    )


def _container_facts(found: Mapping[str, Any]) -> ContainerFacts:
    state = found["State"]
    return ContainerFacts(
        name=found["Name"].lstrip("/"),
        labels=found["Config"].get("Labels") or {},
        is_running=state["Running"],
        was_started=not state["StartedAt"].startswith("0001-"),
        exit_code=state["ExitCode"],
        oom_killed=state["OOMKilled"],
        error=state["Error"],
        memory_bytes=found["HostConfig"]["Memory"],
    )
