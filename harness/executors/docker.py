"""Runs workers in containers on this machine's engine: one launch, one fresh container of the backend's own image.

The argv is `docker run` with the options of isolation.py, so a launch can be printed, pasted and rerun. The container is not
removed by the client (no --rm): how it ended is inspected first, as the exit code alone does not tell a worker that was killed for
want of memory from one that was killed, nor one whose child was. Ours is to remove it then; `containers.clean` finds what a
killed host could not.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from harness import images
from harness.engine import CLIENT, ContainerFacts, Engine
from harness.executors import containers, isolation
from harness.executors.base import Ending, LaunchSpec, Progress, Provided, signal_words, worker_variables
from harness.executors.isolation import Limits, User
from harness.executors.processes import LAUNCH_VARIABLE
from harness.model import Backend, HarnessError, Status, digest
from harness.monitor.gpus import Gpus, NoGpusError
from harness.protocol import PROTOCOL_VERSION

PYTHON = Path("/opt/venv/bin/python")
"""In every image: the environment with the stack, worker and plugin."""

OPTIONS_VARIABLE = "HARNESS_DOCKER_OPTIONS"
"""More options for `docker run`, after ours; of two that contradict each other the later counts. Stored, and hashed: they may
change what is measured."""

_NO_IMAGE = "backend-harness-has-no-image"
"""Where one must be named."""

_CLIENT_VARIABLES = ("PATH", "HOME", "DOCKER_CONFIG", "DOCKER_API_VERSION", "XDG_RUNTIME_DIR")
"""All that the client inherits. The worker inherits nothing: its variables are options of the argv."""

Ensure = Callable[[Backend, str, Progress], images.Image]
"""The image of a backend for a device kind, made where it is missing or stale. Raises HarnessError."""


class DockerExecutor:
    """Starts workers with `docker run`."""

    name = "docker"

    def __init__(self, engine: Engine, ensure: Ensure, limits: Limits | None = None) -> None:
        """`limits` are this machine's where none are given: read once, as this process may move off the measured processors."""
        self._engine = engine
        self._ensure = ensure
        self._limits = limits or Limits.of_this_machine()
        self._facts = engine.facts()
        self._user = User.of_worker(engine_is_rootless=self._facts.is_rootless)
        self._options = _more_options()
        self._host = containers.Host.this()
        self._images: dict[tuple[str, str], images.Image] = {}
        self._device_options: dict[str, list[str]] = {}
        self._ended: dict[str, ContainerFacts | None] = {}  # by launch: as inspected before the container was removed

    def try_options(self) -> None:
        """Have a container made with the user's options, and never started. Raises HarnessError in Docker's words.

        Where no image is there yet, the client alone reads them; what the engine refuses then shows when a launch is started.
        """
        if not self._options:
            return
        launch_id = f"options-{os.getpid()}"
        image = next((found.id for found in self._engine.images(images.BACKEND_LABEL)), _NO_IMAGE)
        argv = [
            *(CLIENT, "create", "--pull", "never", "--name", containers.name_of(launch_id)),
            *containers.labels_of(launch_id, self._host),
            *isolation.hardening(self._limits, self._user),
            *(*self._options, image),
        ]
        done = subprocess.run(argv, env=self._client_environment(), capture_output=True, text=True, check=False)
        self._engine.remove(containers.name_of(launch_id))
        if done.returncode and _NO_IMAGE not in done.stderr:
            raise HarnessError(
                f"{OPTIONS_VARIABLE} is {shlex.join(self._options)!r}, which Docker refuses: {_first_words(done.stderr)}; mend or "
                "unset it (docs/docker.md tells what it is for)"
            )

    def provide(self, backend: Backend, progress: Progress, device: str = "cpu") -> Provided:
        """Make the backend's image for a kind of device, or find it made. Raises HarnessError."""
        image = self._ensure(backend, device, progress)
        _check_protocol(image)
        self._images[backend.name, device] = image
        self._device_options[device], device_facts = _device(device)
        stack_hash = digest({"image": image.identity, "options": self._options})
        return Provided(backend.stack.name, stack_hash, PYTHON, {**self._image_facts(image), **device_facts})

    def command(self, launch: LaunchSpec, arguments: Sequence[str] = ("-m", "harness.worker")) -> list[str]:
        """The argv. The launch's folders become the worker's, where it is not the caller: ask just before the start."""
        self._give(launch, self._user)
        variables = worker_variables(isolation.visible(launch, launch.scratch))
        return [
            *(CLIENT, "run", "--interactive", "--init", "--pull", "never"),
            *("--name", containers.name_of(launch.launch_id)),
            *containers.labels_of(launch.launch_id, self._host),
            *isolation.hardening(self._limits, self._user),
            *isolation.mounts(launch),
            *self._device_options[launch.device],
            *isolation.variables({LAUNCH_VARIABLE: str(launch.scratch.absolute()), **variables}),
            *("--workdir", str(isolation.LAUNCH)),
            *self._options,
            *("--entrypoint", str(PYTHON)),
            *(self._images[launch.backend.name, launch.device].id, "-I", "-u", *arguments),
        ]

    def environment(self, launch: LaunchSpec) -> dict[str, str]:  # noqa: ARG002 - the same for every launch here
        """That of the client."""
        return self._client_environment()

    def _client_environment(self) -> dict[str, str]:
        """Leads it to the engine that we ask."""
        inherited = {name: os.environ[name] for name in _CLIENT_VARIABLES if name in os.environ}
        return {"PATH": os.defpath, **inherited, "DOCKER_HOST": self._engine.host}

    def visible(self, launch: LaunchSpec, path: Path) -> str:
        """The path inside the container."""
        return isolation.visible(launch, path)

    # --- endings ----------------------------------------------------------------------------------------------------

    def ending(self, launch: LaunchSpec, returncode: int) -> Ending:
        """What the engine says of the container, and where that is not all, the client's exit code.

        An engine that is stopped ends its containers too: so whatever they say, a worker whose engine does not answer is lost,
        and so is one whose client ended otherwise than the container.
        """
        try:
            container = self._inspect(launch)
        except HarnessError:
            return Ending(
                Status.ENGINE_LOST, f"was lost with its engine, which no longer answers at {self._engine.host}"
            )
        if container is None or not container.was_started:
            return Ending(Status.FAILED, "was not started by the engine")
        if container.oom_killed:
            return _out_of_memory(container)
        if container.is_running or container.exit_code != returncode:
            return Ending(
                Status.ENGINE_LOST, f"was lost: the client's connection to the engine broke (exit code {returncode})"
            )
        return Ending(Status.CRASHED, _exit_words(returncode))

    def hidden_ending(self, launch: LaunchSpec) -> Ending | None:
        """out_of_memory, where any process of the container was killed for want of memory: what it was to do is not done."""
        container = self._ended.get(launch.launch_id)
        return _out_of_memory(container) if container and container.oom_killed else None

    def kill(self, launch: LaunchSpec, pid: int) -> None:
        """End client and container now, note how it ended, remove it, and give the launch's folders back to the caller."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        # Where the engine is gone, so is what we could do; `containers.clean` does it later.
        with contextlib.suppress(HarnessError):
            self._engine.kill(containers.name_of(launch.launch_id))
        with contextlib.suppress(HarnessError):  # apart: podman refuses to kill what has ended, with 500
            self._ended[launch.launch_id] = self._inspect(launch)
            self._engine.remove(containers.name_of(launch.launch_id))
        self._give(launch, User(os.getuid(), os.getgid()))

    def survivors(self, launch: LaunchSpec) -> list[str]:
        """Its container, which has all its processes. Raises EngineLostError."""
        name = containers.name_of(launch.launch_id)
        return [f"container {name}"] if self._engine.container(name) else []

    def _inspect(self, launch: LaunchSpec) -> ContainerFacts | None:
        """As it is, or as it was before it was removed. Raises EngineLostError."""
        return self._engine.container(containers.name_of(launch.launch_id)) or self._ended.get(launch.launch_id)

    # --- details ----------------------------------------------------------------------------------------------------

    def _give(self, launch: LaunchSpec, owner: User) -> None:
        """Only root can, and only root must: any other caller's worker has the caller's number."""
        if os.getuid() == 0 and self._user.uid != 0:
            for folder in {launch.folder, launch.scratch}:
                _change_owner(folder, owner)

    def _image_facts(self, image: images.Image) -> dict[str, Any]:
        return {
            "image": {"tag": image.tag, "id": image.id, "size_bytes": image.size_bytes, **image.labels},
            "engine": asdict(self._facts),
            "limits": asdict(self._limits),
            "user": f"{self._user.uid}:{self._user.gid}",
            "options": self._options,
        }


def _device(device: str) -> tuple[list[str], Mapping[str, Any]]:
    """Options and facts of a device kind; of cuda, every GPU in NVML's order, and the one that launches get.

    Raises HarnessError where there is none, or it cannot be told which.
    """
    if device != "cuda":
        return [], {}
    try:
        installed = Gpus()
    except NoGpusError as error:
        raise HarnessError(f"cells of device cuda need an NVIDIA GPU ({error}); `harness doctor` tells more") from None
    chosen, reason = installed.first(os.environ)
    if chosen is None:
        raise HarnessError(f"which GPU cells of device cuda are to use cannot be told: {reason}")
    listed = [{"index": index, **asdict(gpu)} for index, gpu in enumerate(installed.listed)]
    return isolation.gpu(chosen), {"gpu": chosen, "gpus": listed}


def _check_protocol(image: images.Image) -> None:
    spoken = image.labels.get("protocol_version")
    if spoken != str(PROTOCOL_VERSION):
        raise HarnessError(
            f"the worker in image {image.tag} speaks protocol {spoken}, this host {PROTOCOL_VERSION}: rebuild the image with "
            f"`harness build {image.backend}`"
        )


def _more_options() -> list[str]:
    try:
        return shlex.split(os.environ.get(OPTIONS_VARIABLE, ""))
    except ValueError as error:
        raise HarnessError(
            f"{OPTIONS_VARIABLE} cannot be read as options ({error}): quote it as a shell would want it"
        ) from None


def _first_words(stderr: str) -> str:
    """Of what the client says, warnings and who says it left out."""
    said = [line for line in stderr.splitlines() if line.strip() and not line.startswith("WARNING")]
    return (
        re.sub(r"^(docker: |Error response from daemon: |Error: )+", "", said[0]).rstrip(".")
        if said
        else "without a word"
    )


def _out_of_memory(container: ContainerFacts) -> Ending:
    limit = f"{container.memory_bytes / isolation.MIB:.0f} MiB"
    return Ending(
        Status.OUT_OF_MEMORY, f"ran into its container's memory limit of {limit}, so that a process was killed"
    )


def _exit_words(code: int) -> str:
    """As the container's first process, which hands on what it hears, and a shell would write it: 128 and the signal's number."""
    if 128 < code < 128 + signal.NSIG:
        return f"ended by {signal_words(code - 128)}, or exited with code {code}"
    return f"exited with code {code}"


def _change_owner(folder: Path, owner: User) -> None:
    """Of all below it too. Links are changed, never followed: whoever wrote them is not trusted."""
    with contextlib.suppress(FileNotFoundError):
        os.chown(folder, owner.uid, owner.gid, follow_symlinks=False)
        for _, folders, files, descriptor in os.fwalk(folder):
            for name in (*folders, *files):
                os.chown(name, owner.uid, owner.gid, dir_fd=descriptor, follow_symlinks=False)
