"""What a launch in a container is started with: pure, no engine needed."""

from __future__ import annotations

import csv
import itertools
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from harness.engine import ContainerFacts, EngineFacts, ImageFacts
from harness.executors import docker, isolation
from harness.executors.base import LaunchSpec, Progress
from harness.executors.containers import Host, name_of
from harness.executors.docker import OPTIONS_VARIABLE, DockerExecutor
from harness.executors.isolation import Limits, User
from harness.images import Image
from harness.model import Backend, HarnessError, Stack
from harness.monitor.gpus import NoGpusError
from harness.monitor.log import Gpu
from harness.protocol import PROTOCOL_VERSION

BACKEND = Backend("tiny", Stack("tiny", "tiny:tiny.lock", ()), runner="tiny:Runner", description="")
LIMITS = Limits(cpuset="0-3", memory_bytes=4 << 30, pids=384)


class SilentEngine:
    """An engine without containers."""

    host = "unix:///run/some.sock"

    def __init__(self, *, is_rootless: bool = False) -> None:
        self.is_rootless = is_rootless

    def facts(self) -> EngineFacts:
        return EngineFacts("28.1", "2", "overlay2", "6.1.0", "Debian", "runc", self.is_rootless)

    def container(self, name: str) -> ContainerFacts | None:
        return None

    def images(self, label: str) -> list[ImageFacts]:
        return []

    def remove(self, name: str) -> None:
        pass


class EngineThatKillsNothingEnded(SilentEngine):
    """As podman's, which answers with 500 where Docker's says that there is nothing to kill."""

    def __init__(self) -> None:
        super().__init__()
        self.removed: list[str] = []

    def kill(self, name: str) -> None:
        raise HarnessError(f"can only kill running containers; {name} is in state exited")

    def remove(self, name: str) -> None:
        self.removed.append(name)


def image_of(labels: dict[str, str]) -> Image:
    return Image("tiny", "cpu", "backend-harness/tiny:cpu", "sha256:1234", labels, 1000, ())


def ensure(backend: Backend, device: str, progress: Progress) -> Image:  # noqa: ARG001 - an Ensure
    return image_of({"identity": "same", "protocol_version": str(PROTOCOL_VERSION), "lock_sha256": "ab"})


def silent(line: str) -> None:
    pass


@pytest.fixture
def spec(tmp_path: Path) -> LaunchSpec:
    folder, inputs = tmp_path / "launch", tmp_path / "inputs"
    (folder / "scratch").mkdir(parents=True)
    inputs.mkdir()
    return LaunchSpec("launch-1", BACKEND, folder, folder / "scratch", (inputs,))


@pytest.fixture
def executor() -> DockerExecutor:
    made = DockerExecutor(SilentEngine(), ensure, LIMITS)  # type: ignore[arg-type]
    made.provide(BACKEND, silent)
    return made


def values(argv: Sequence[str], option: str) -> list[str]:
    return [value for name, value in itertools.pairwise(argv) if name == option]


# --- the argv -------------------------------------------------------------------------------------------------------


def test_a_launch_gets_no_network_no_privileges_and_a_root_it_cannot_write(
    executor: DockerExecutor, spec: LaunchSpec
) -> None:
    argv = executor.command(spec)
    assert argv[:4] == ["docker", "run", "--interactive", "--init"]
    assert values(argv, "--network") == ["none"]
    assert values(argv, "--cap-drop") == ["ALL"]
    assert values(argv, "--security-opt") == ["no-new-privileges"]
    assert values(argv, "--log-driver") == ["none"]
    assert "--read-only" in argv
    assert "--rm" not in argv  # how it ended is inspected first
    assert not any("docker.sock" in word for word in argv)


def test_a_launch_gets_the_limits_of_the_executor_without_swap(executor: DockerExecutor, spec: LaunchSpec) -> None:
    argv = executor.command(spec)
    assert values(argv, "--cpuset-cpus") == ["0-3"]
    assert values(argv, "--pids-limit") == ["384"]
    assert values(argv, "--memory") == values(argv, "--memory-swap") == [f"{4 << 30}b"]


def test_the_image_is_named_by_its_id_and_runs_the_worker_of_its_environment(
    executor: DockerExecutor, spec: LaunchSpec
) -> None:
    argv = executor.command(spec)
    assert argv[-5:] == ["sha256:1234", "-I", "-u", "-m", "harness.worker"]
    assert values(argv, "--entrypoint") == ["/opt/venv/bin/python"]
    assert values(argv, "--pull") == ["never"]


def test_exactly_the_launchs_folders_are_mounted_and_only_its_own_can_be_written(
    executor: DockerExecutor, spec: LaunchSpec
) -> None:
    assert values(executor.command(spec), "--mount") == [
        f"type=bind,source={spec.folder},target=/launch",
        f"type=bind,source={spec.readable[0]},target=/readable/0,readonly",
    ]


def test_the_worker_inherits_nothing_and_the_client_no_token(
    executor: DockerExecutor, spec: LaunchSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.setenv("DOCKER_CONTEXT", "elsewhere")
    assert not any("hf_secret" in word or "OMP_" in word for word in executor.command(spec))
    environment = executor.environment(spec)
    assert environment["DOCKER_HOST"] == "unix:///run/some.sock"
    assert not {"HF_TOKEN", "OMP_NUM_THREADS", "DOCKER_CONTEXT"} & set(environment)


def test_every_cache_of_the_worker_lies_in_its_scratch_folder(executor: DockerExecutor, spec: LaunchSpec) -> None:
    told = dict(value.split("=", 1) for value in values(executor.command(spec), "--env"))
    assert told["HOME"] == told["TMPDIR"] == "/launch/scratch"
    assert told["TORCHINDUCTOR_CACHE_DIR"] == "/launch/scratch/inductor"
    assert told["HF_HUB_OFFLINE"] == "1"
    assert told["HARNESS_LAUNCH"] == str(spec.scratch)  # by which the monitor knows our processes from others'


def test_a_tools_scratch_folder_that_lies_elsewhere_is_mounted_too(
    executor: DockerExecutor, spec: LaunchSpec, tmp_path: Path
) -> None:
    scratch = tmp_path / "elsewhere"
    scratch.mkdir()
    tool = LaunchSpec("tool-1", BACKEND, spec.folder, scratch, spec.readable)
    argv = executor.command(tool, ("-m", "maker"))
    assert f"type=bind,source={scratch},target=/scratch" in values(argv, "--mount")
    assert executor.visible(tool, scratch) == "/scratch"
    assert argv[-2:] == ["-m", "maker"]


def test_the_container_tells_which_process_started_it(executor: DockerExecutor, spec: LaunchSpec) -> None:
    argv = executor.command(spec)
    labels = dict(value.split("=", 1) for value in values(argv, "--label"))
    assert labels["org.backend-harness.launch"] == "launch-1"
    assert Host.of(labels) == Host.this()
    assert values(argv, "--name") == ["backend-harness-launch-1"]


def test_more_options_come_last_so_that_they_count_and_decide_whether_results_compare(
    spec: LaunchSpec, executor: DockerExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(OPTIONS_VARIABLE, "--memory 1g '--label=a b'")
    other = DockerExecutor(SilentEngine(), ensure, LIMITS)  # type: ignore[arg-type]
    provided = other.provide(BACKEND, silent)
    argv = other.command(spec)
    assert values(argv, "--memory")[-1] == "1g"
    assert "--label=a b" in argv
    assert provided.facts["options"] == ["--memory", "1g", "--label=a b"]
    assert provided.stack_hash != executor.provide(BACKEND, silent).stack_hash


def test_options_that_no_shell_would_read_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(OPTIONS_VARIABLE, "--label 'a")
    with pytest.raises(HarnessError, match="HARNESS_DOCKER_OPTIONS cannot be read"):
        DockerExecutor(SilentEngine(), ensure, LIMITS)  # type: ignore[arg-type]


# --- identity -------------------------------------------------------------------------------------------------------


def test_equal_content_is_the_same_stack_whatever_the_images_id(executor: DockerExecutor) -> None:
    def rebuilt(backend: Backend, device: str, progress: Progress) -> Image:
        return Image("tiny", "cpu", "t", "sha256:5678", ensure(backend, device, progress).labels, 1000, ())

    again = DockerExecutor(SilentEngine(), rebuilt, LIMITS)  # type: ignore[arg-type]
    assert again.provide(BACKEND, silent).stack_hash == executor.provide(BACKEND, silent).stack_hash


def test_a_result_can_tell_image_engine_limits_and_user(executor: DockerExecutor) -> None:
    facts = executor.provide(BACKEND, silent).facts
    assert facts["image"]["id"] == "sha256:1234"
    assert facts["image"]["lock_sha256"] == "ab"
    assert facts["engine"]["version"] == "28.1"
    assert facts["limits"] == {"cpuset": "0-3", "memory_bytes": 4 << 30, "pids": 384}
    assert facts["user"].count(":") == 1


def test_an_image_whose_worker_speaks_another_protocol_is_refused_before_it_starts() -> None:
    old = DockerExecutor(SilentEngine(), lambda *_: image_of({"identity": "x", "protocol_version": "0"}), LIMITS)  # type: ignore[arg-type]
    with pytest.raises(
        HarnessError, match=r"speaks protocol 0, this host .* rebuild the image with `harness build tiny`"
    ):
        old.provide(BACKEND, silent)


# --- paths ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a,b", 'say "hi"', "C:\\temp", "with space", "größe", "a=b", "'"])
def test_a_path_with_separators_quotes_or_letters_beyond_ascii_is_one_field(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    spec = LaunchSpec("l", BACKEND, folder, folder / "scratch")
    (told,) = values(isolation.mounts(spec), "--mount")
    (fields,) = csv.reader([told])
    assert fields == ["type=bind", f"source={folder}", "target=/launch"]


@pytest.mark.parametrize("name", ["line\nbreak", "bell\a", "ends with space ", os.fsdecode(b"\xff")])
def test_a_path_that_docker_cannot_mount_is_refused_in_one_sentence(tmp_path: Path, name: str) -> None:
    spec = LaunchSpec("l", BACKEND, tmp_path / name, tmp_path / name / "scratch")
    with pytest.raises(HarnessError, match=r"Docker cannot mount .*; use another folder"):
        isolation.mounts(spec)


def test_the_worker_sees_each_folder_under_a_name_of_its_own(spec: LaunchSpec) -> None:
    assert isolation.visible(spec, spec.folder / "outputs-before") == "/launch/outputs-before"
    assert isolation.visible(spec, spec.scratch / "reusable") == "/launch/scratch/reusable"
    assert isolation.visible(spec, spec.readable[0] / "input_ids.npy") == "/readable/0/input_ids.npy"


def test_a_path_that_is_not_mounted_is_no_path_of_the_worker(spec: LaunchSpec) -> None:
    with pytest.raises(HarnessError, match="is not mounted"):
        isolation.visible(spec, Path("/etc/passwd"))


# --- who and how much -----------------------------------------------------------------------------------------------


def test_the_worker_is_the_caller_but_never_the_machines_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    monkeypatch.setattr(os, "getgid", lambda: 1001)
    assert User.of_worker(engine_is_rootless=False) == User(1000, 1001)
    monkeypatch.setattr(os, "getuid", lambda: 0)
    assert User.of_worker(engine_is_rootless=False) == User(10001, 10001)


def test_root_inside_a_rootless_engines_container_is_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    assert User.of_worker(engine_is_rootless=True) == User(0, 0)


def test_limits_leave_the_machine_something_and_heed_what_this_process_may_use() -> None:
    limits = Limits.of_this_machine()
    assert limits.cpuset
    assert 0 < limits.memory_bytes < os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert limits.pids >= 256


# --- GPUs -----------------------------------------------------------------------------------------------------------


class TwoGpus:
    """As the monitor finds them."""

    listed = (Gpu("GPU-aaaa1111", "H200", None), Gpu("MIG-bbbb2222", "H200", "GPU-bbbb2222"))

    def first(self, environment: Mapping[str, str]) -> tuple[str | None, str | None]:
        return {"0": ("GPU-aaaa1111", None), "1": ("MIG-bbbb2222", None)}.get(
            environment.get("CUDA_VISIBLE_DEVICES", "0"),
            (None, "CUDA_VISIBLE_DEVICES begins with '7', which names no GPUs here"),
        )


@pytest.fixture
def _two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docker, "Gpus", TwoGpus)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")


@pytest.mark.usefixtures("_two_gpus")
def test_a_cuda_launch_requests_its_device_by_uuid_and_stores_what_index_it_has(
    spec: LaunchSpec, executor: DockerExecutor
) -> None:
    facts = executor.provide(BACKEND, silent, "cuda").facts
    cuda = LaunchSpec("l", BACKEND, spec.folder, spec.scratch, device="cuda")
    assert values(executor.command(cuda), "--gpus") == ["device=MIG-bbbb2222"]
    assert values(executor.command(spec), "--gpus") == []
    assert facts["gpu"] == "MIG-bbbb2222"
    assert [(gpu["index"], gpu["uuid"]) for gpu in facts["gpus"]] == [(0, "GPU-aaaa1111"), (1, "MIG-bbbb2222")]


@pytest.mark.usefixtures("_two_gpus")
def test_a_gpu_that_cannot_be_told_is_refused_with_the_reason(
    executor: DockerExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    with pytest.raises(HarnessError, match="cannot be told: CUDA_VISIBLE_DEVICES begins with '7'"):
        executor.provide(BACKEND, silent, "cuda")


def test_without_a_driver_cells_of_device_cuda_are_refused(
    executor: DockerExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> TwoGpus:
        raise NoGpusError("NVML: no driver")

    monkeypatch.setattr(docker, "Gpus", refuse)
    with pytest.raises(HarnessError, match=r"need an NVIDIA GPU \(NVML: no driver\)"):
        executor.provide(BACKEND, silent, "cuda")


def test_a_token_of_this_process_is_handed_to_neither_client_nor_container(
    executor: DockerExecutor, spec: LaunchSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_SeCrEt")
    assert "SeCrEt" not in " ".join(executor.command(spec))
    assert "HF_TOKEN" not in executor.environment(spec)


# --- options of the user --------------------------------------------------------------------------------------------


Refusing = Callable[[str, str], DockerExecutor]
"""An executor with options, whose client refuses all it is asked with these words on stderr."""


@pytest.fixture
def refusing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Refusing:
    def make(options: str, stderr: str) -> DockerExecutor:
        (tmp_path / "words").write_text(stderr)
        (tmp_path / "docker").write_text(f"#!/bin/sh\ncat {tmp_path}/words >&2\nexit 125\n")
        (tmp_path / "docker").chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
        monkeypatch.setenv(OPTIONS_VARIABLE, options)
        return DockerExecutor(SilentEngine(), ensure, LIMITS)  # type: ignore[arg-type]

    return make


@pytest.mark.parametrize(
    ("stderr", "words"),
    [
        ("unknown flag: --memroy\nSee 'docker create --help'.\n", "unknown flag: --memroy;"),
        (
            "WARNING: no swap\nError response from daemon: Unknown runtime specified x.\n",
            "Unknown runtime specified x;",
        ),
    ],
)
def test_options_are_tried_before_a_run_and_refused_in_dockers_words(
    refusing: Refusing, stderr: str, words: str
) -> None:
    with pytest.raises(
        HarnessError, match="HARNESS_DOCKER_OPTIONS is '--memroy 1g', which Docker refuses: "
    ) as refused:
        refusing("--memroy 1g", stderr).try_options()
    assert words in str(refused.value)


def test_without_an_image_the_client_alone_reads_them(refusing: Refusing) -> None:
    refusing("--memory 1g", f"Error response from daemon: No such image: {docker._NO_IMAGE}:latest\n").try_options()


def test_without_options_nothing_is_tried(refusing: Refusing) -> None:
    refusing("", "whatever").try_options()


# --- the end --------------------------------------------------------------------------------------------------------


def test_a_container_that_the_engine_refuses_to_kill_as_it_has_ended_is_removed_all_the_same(spec: LaunchSpec) -> None:
    engine = EngineThatKillsNothingEnded()
    executor = DockerExecutor(engine, ensure, LIMITS)  # type: ignore[arg-type]
    ended = subprocess.Popen(["true"], start_new_session=True)
    ended.wait()
    executor.kill(spec, ended.pid)
    assert engine.removed == [name_of(spec.launch_id)]
