"""Every way a worker can end, seen across the container boundary: whole runs on a real engine, with the fake backend's image."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from run_bench import PLUGINS, Bench, Commands, new_bench
from second_engine import SecondEngine

from harness import cache, checkpoints, images, plugins, schedule
from harness.engine import ContainerFacts, Engine
from harness.executors.containers import LAUNCH_LABEL
from harness.executors.docker import DockerExecutor
from harness.matrix import expand
from harness.model import Backend, CellError, Status
from harness.progress import ConsoleReporter
from harness.store import ResultStore

pytestmark = pytest.mark.docker

Start = Callable[[], subprocess.Popen[str]]

ODD = 'größe, "a:b" c'
"""As of a folder that a mount must name with care."""

SMALL = "--memory 192m --memory-swap 192m"


@pytest.fixture
def docker_bench(bench: Bench, engine: Engine) -> Bench:
    return with_docker(bench, engine)


def with_docker(bench: Bench, engine: Engine) -> Bench:
    """The wheels are the user's, as the environments are."""
    wheels = cache.room("wheelhouse")
    wheels.mkdir(parents=True, exist_ok=True)
    (bench.cache / "wheelhouse").symlink_to(wheels)
    bench.variables["HARNESS_EXECUTOR"] = "docker"
    bench.variables["DOCKER_HOST"] = engine.host
    return bench


def containers_of(engine: Engine, bench: Bench) -> list[ContainerFacts]:
    """Those of this test: other tests may run at the same time."""
    launches = {folder.name for folder in bench.results.glob("launches/*/*")}
    return [container for container in engine.containers(LAUNCH_LABEL) if container.labels[LAUNCH_LABEL] in launches]


def error_of(bench: Bench, backend: str) -> CellError:
    error = bench.by_backend()[backend].metadata.error
    assert error is not None
    return error


def until(holds: Callable[[], object], what: str) -> None:
    give_up_at = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < give_up_at, f"not within a minute: {what}"
        time.sleep(0.05)


@pytest.fixture
def start(docker_bench: Bench) -> Iterator[Start]:
    """Starts a run; one that a test leaves is ended."""
    started: list[subprocess.Popen[str]] = []

    def run() -> subprocess.Popen[str]:
        started.append(
            subprocess.Popen(
                docker_bench.command("run", "matrix.yaml"),
                cwd=docker_bench.folder,
                env=docker_bench.environment(),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
        return started[-1]

    yield run
    for each in started:
        with each:
            each.kill()


# --- ok -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory, commands: Commands, references: Path, engine: Engine) -> Bench:
    """After a run, into a folder whose name is not easily mounted, by an executor that was chosen."""
    bench = with_docker(new_bench(tmp_path_factory.mktemp("measured"), commands, references), engine)
    bench.variables["HARNESS_EXECUTOR"] = "auto"
    bench.write_matrix(protocol={"blocks": 1})
    run = bench.run("--results", ODD)
    assert run.returncode == 0, run.stderr
    assert "executor docker, an image for each backend: an engine answers at" in run.stderr
    bench.results.symlink_to(ODD)
    return bench


def test_a_run_in_containers_is_ok_and_leaves_no_container_and_only_files_of_the_caller(
    measured: Bench, engine: Engine
) -> None:
    assert {result.status for result in measured.by_backend().values()} == {Status.OK}
    assert containers_of(engine, measured) == []
    assert {path.stat().st_uid for path in measured.results.rglob("*")} == {os.getuid()}
    assert list((measured.folder / ODD).glob("launches/*/*/round-0.npz"))


def test_a_result_tells_image_lock_plugin_protocol_and_engine(measured: Bench, engine: Engine) -> None:
    result = measured.by_backend()["fake"]
    stack = result.metadata.environment["stack"]
    image = engine.image("backend-harness/fake:cpu")
    assert image is not None
    assert result.metadata.executor == "docker"
    assert stack["image"]["id"] == image.id
    assert {"lock_sha256", "plugin_versions", "protocol_version", "identity", "tag"} <= set(stack["image"])
    assert set(stack["engine"]) >= {"version", "cgroup_version", "storage_driver", "kernel"}


def test_a_second_run_takes_the_first_ones_results(measured: Bench) -> None:
    assert "2 of them kept from former runs" in measured.run().stdout


def test_what_an_untimed_launch_compiled_is_found_by_warm_ones(docker_bench: Bench) -> None:
    docker_bench.write_matrix(protocol={"blocks": 1}, fake={"compile_ms": 1.0}, compile_cache=["warm"])
    docker_bench.run("--only", "backend == 'fake'")
    result = docker_bench.by_backend()["fake"]
    assert result.status is Status.OK
    assert result.metadata.effective["compile_cache"] == "warm"


# --- the worker's own last words ------------------------------------------------------------------------------------


def test_unsupported_failed_and_out_of_memory_are_told_apart_with_type_and_stage(docker_bench: Bench) -> None:
    docker_bench.write_matrix(fake={"unsupported_in": "load"}, fake_b={"fail_in": "compile"}, protocol={"blocks": 1})
    assert docker_bench.run().returncode == 1
    assert docker_bench.by_backend()["fake"].status is Status.UNSUPPORTED
    assert docker_bench.by_backend()["fake_b"].status is Status.FAILED
    assert (error_of(docker_bench, "fake_b").type, error_of(docker_bench, "fake_b").stage) == (
        "RuntimeError",
        "compile",
    )


def test_a_devices_out_of_memory_keeps_the_frameworks_own_type(docker_bench: Bench) -> None:
    docker_bench.write_matrix(fake_b={"out_of_memory_in": "warmup"}, protocol={"blocks": 1})
    docker_bench.run()
    assert docker_bench.by_backend()["fake_b"].status is Status.OUT_OF_MEMORY
    assert (error_of(docker_bench, "fake_b").type, error_of(docker_bench, "fake_b").stage) == ("MemoryError", "warmup")


def test_a_worker_of_another_protocol_version_is_refused_whatever_its_images_label_says(
    docker_bench: Bench, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESS_CACHE", str(docker_bench.cache))
    monkeypatch.syspath_prepend(PLUGINS)
    loaded = plugins.load(["harness_fake.plugin"])
    matrix = expand(docker_bench.write_matrix(protocol={"blocks": 1}), loaded, checkpoints.identify)
    with speaking_another_protocol(engine, loaded.backends["fake"]) as changed:
        executor = DockerExecutor(engine, lambda *_: changed)
        store = ResultStore.open(docker_bench.results)
        with ConsoleReporter(Console(file=io.StringIO())) as reporter:
            outcome = schedule.run(matrix, schedule.Services(executor, loaded, store, reporter))
    assert {result.status for result in outcome.results} == {Status.FAILED}
    assert "the worker speaks protocol 0" in error_of(docker_bench, "fake").message
    assert "rebuild the image" in error_of(docker_bench, "fake").message


@contextmanager
def speaking_another_protocol(engine: Engine, backend: Backend) -> Iterator[images.Image]:
    """The backend's image with its worker changed by hand, as nobody should; the labels stay."""
    (image,) = images.ensure([backend], "cpu", engine, lambda _: None)
    change = (
        "sed -i 's/^PROTOCOL_VERSION = .*/PROTOCOL_VERSION = 0/' /opt/harness/harness/protocol.py;"
        "rm /opt/harness/harness/__pycache__/protocol.*"
    )
    name = f"changing-{os.getpid()}"
    subprocess.run(["docker", "run", "--name", name, "--user", "0", image.id, "sh", "-c", change], check=True)
    commit = ["docker", "commit", name]
    changed = subprocess.run(commit, capture_output=True, text=True, check=True).stdout.strip()
    try:
        yield replace(image, id=changed)
    finally:
        subprocess.run(["docker", "rm", name], capture_output=True, check=True)
        subprocess.run(["docker", "rmi", changed], capture_output=True, check=True)


# --- deaths ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("accident", "words"), [("exit_in", "exited with code 3"), ("kill_in", "ended by signal 9 (SIGKILL)")]
)
def test_a_worker_that_exits_or_is_killed_has_crashed_and_says_how(
    docker_bench: Bench, engine: Engine, accident: str, words: str
) -> None:
    docker_bench.write_matrix(fake_b={accident: "load"}, protocol={"blocks": 1})
    assert docker_bench.run().returncode == 1
    assert docker_bench.by_backend()["fake"].status is Status.OK
    assert docker_bench.by_backend()["fake_b"].status is Status.CRASHED
    assert words in error_of(docker_bench, "fake_b").message
    assert error_of(docker_bench, "fake_b").stage == "load"
    assert containers_of(engine, docker_bench) == []


def test_a_worker_killed_at_its_memory_limit_is_out_of_memory_and_not_just_killed(docker_bench: Bench) -> None:
    docker_bench.variables["HARNESS_DOCKER_OPTIONS"] = SMALL
    docker_bench.write_matrix(fake_b={"devour_in": "load"}, protocol={"blocks": 1})
    docker_bench.run()
    assert docker_bench.by_backend()["fake_b"].status is Status.OUT_OF_MEMORY
    assert "its container's memory limit of 192 MiB" in error_of(docker_bench, "fake_b").message


@pytest.mark.parametrize("phase", ["load", "steady"])
def test_a_launch_whose_child_ran_out_of_memory_is_out_of_memory_though_the_worker_ended_well(
    docker_bench: Bench, phase: str
) -> None:
    docker_bench.variables["HARNESS_DOCKER_OPTIONS"] = SMALL
    docker_bench.write_matrix(fake_b={"child_devours_in": phase}, protocol={"blocks": 1})
    docker_bench.run()
    assert docker_bench.by_backend()["fake"].status is Status.OK
    assert docker_bench.by_backend()["fake_b"].status is Status.OUT_OF_MEMORY


def test_a_hang_is_a_timeout_in_its_stage_and_its_container_is_gone(docker_bench: Bench, engine: Engine) -> None:
    docker_bench.write_matrix(fake_b={"hang_in": "load"}, protocol={"phase_timeout_seconds": 5.0, "blocks": 1})
    assert docker_bench.run().returncode == 1
    assert docker_bench.by_backend()["fake_b"].status is Status.TIMEOUT
    assert error_of(docker_bench, "fake_b").message == "no answer within 5 s in load; the worker was ended"
    assert containers_of(engine, docker_bench) == []


def test_a_container_that_the_engine_cannot_start_has_failed_with_the_engines_words(docker_bench: Bench) -> None:
    docker_bench.variables["HARNESS_DOCKER_OPTIONS"] = "--device /dev/no-such-device"
    docker_bench.write_matrix(protocol={"blocks": 1})
    assert docker_bench.run().returncode == 1
    assert docker_bench.by_backend()["fake"].status is Status.FAILED
    assert "was not started by the engine in start; its last line: docker: Error response from daemon: " in (
        error_of(docker_bench, "fake").message
    )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--memroy 1g", "unknown flag: --memroy"),
        ("--memory much", "much"),
        ("--runtime no-such-runtime", "no-such-runtime"),
        ("1g", "1g"),
    ],
)
def test_options_that_docker_refuses_are_refused_before_the_run(docker_bench: Bench, options: str, words: str) -> None:
    assert docker_bench.harness("build", "fake").returncode == 0  # an image to try them with
    docker_bench.variables["HARNESS_DOCKER_OPTIONS"] = options
    docker_bench.write_matrix()
    run = docker_bench.run()
    assert run.returncode == 2
    refusal = run.stderr.splitlines()[-1]
    assert refusal.startswith("harness: HARNESS_DOCKER_OPTIONS is ")
    assert words in refusal.partition("which Docker refuses: ")[2]
    assert not list(docker_bench.results.glob("launches/*"))


# --- the host ends --------------------------------------------------------------------------------------------------


def test_ctrl_c_ends_the_containers(docker_bench: Bench, engine: Engine, start: Start) -> None:
    docker_bench.write_matrix(fake_b={"hang_in": "load"}, protocol={"blocks": 1})
    process = start()
    until(lambda: containers_of(engine, docker_bench), "a container")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert containers_of(engine, docker_bench) == []


def test_workers_of_a_killed_host_end_and_clean_removes_their_containers_but_none_of_a_living_run(
    docker_bench: Bench, engine: Engine, start: Start
) -> None:
    docker_bench.write_matrix(fake_b={"hang_in": "load"}, protocol={"blocks": 1})
    process = start()
    until(lambda: len(containers_of(engine, docker_bench)) == 2, "two containers")
    assert docker_bench.harness("clean").returncode == 0
    assert len(containers_of(engine, docker_bench)) == 2
    process.kill()
    process.communicate()
    until(lambda: not any(each.is_running for each in containers_of(engine, docker_bench)), "the workers' end")
    left = {container.name for container in containers_of(engine, docker_bench)}
    assert left
    cleaned = docker_bench.harness("clean")
    assert cleaned.returncode == 0
    assert all(name in cleaned.stdout for name in left)
    assert containers_of(engine, docker_bench) == []


def test_the_next_run_removes_what_a_killed_one_has_left_and_goes_on(
    docker_bench: Bench, engine: Engine, start: Start
) -> None:
    docker_bench.write_matrix(fake={"call_ms": 30.0}, fake_b={"call_ms": 30.0})
    process = start()
    until(lambda: len(list(docker_bench.results.glob("launches/*/*/round-0.npz"))) == 2, "rounds")
    process.kill()
    process.communicate()
    left = {container.name for container in containers_of(engine, docker_bench)}
    run = docker_bench.run()
    assert run.returncode == 0, run.stderr
    assert "that an ended run had left" in run.stderr
    assert not left & {container.name for container in engine.containers(LAUNCH_LABEL)}


# --- the engine ends ------------------------------------------------------------------------------------------------


@pytest.fixture
def second_engine(docker_bench: Bench, engine: Engine) -> Iterator[SecondEngine]:
    """An engine that may be stopped, with the fake backend's images."""
    built = docker_bench.harness("build", "fake", "fake_b")
    assert built.returncode == 0, built.stderr
    with SecondEngine.started() as second:
        for tag in ("backend-harness/fake:cpu", "backend-harness/fake_b:cpu"):
            second.copy_image(engine, tag)
        yield second


def test_an_engine_that_stops_loses_its_launches_and_the_run_ends_and_can_go_on(
    docker_bench: Bench, second_engine: SecondEngine, start: Start
) -> None:
    docker_bench.variables["DOCKER_HOST"] = second_engine.host
    docker_bench.write_matrix(fake={"call_ms": 50.0}, fake_b={"call_ms": 50.0}, protocol={"blocks": 1})
    process = start()
    until(lambda: list(docker_bench.results.glob("launches/*/*/round-0.npz")), "a round")
    second_engine.stop()
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 1, stderr
    assert "Traceback" not in stderr
    assert "engine_lost" in stdout
    assert {result.status for result in docker_bench.by_backend().values()} == {Status.ENGINE_LOST}
    second_engine.start()
    again = docker_bench.run()
    assert again.returncode == 0, again.stderr
    assert {result.status for result in docker_bench.by_backend().values()} == {Status.OK}


def test_without_an_engine_auto_takes_virtual_environments_and_says_why(docker_bench: Bench, tmp_path: Path) -> None:
    docker_bench.variables |= {"DOCKER_HOST": f"unix://{tmp_path}/none.sock", "HARNESS_EXECUTOR": "auto"}
    docker_bench.write_matrix(protocol={"blocks": 1})
    run = docker_bench.run()
    assert run.returncode == 0, run.stderr
    assert "executor venv, a virtual environment for each stack: no Docker engine answers at" in run.stderr
    assert docker_bench.by_backend()["fake"].metadata.executor == "venv"


def test_docker_asked_for_without_an_engine_is_one_sentence_and_exit_code_2(
    docker_bench: Bench, tmp_path: Path
) -> None:
    docker_bench.variables["DOCKER_HOST"] = f"unix://{tmp_path}/none.sock"
    docker_bench.write_matrix()
    run = docker_bench.run()
    assert run.returncode == 2
    assert run.stderr.startswith("harness: no Docker engine answers at unix://")
    assert len(run.stderr.splitlines()) == 1
