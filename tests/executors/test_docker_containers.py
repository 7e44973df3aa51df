"""Which containers an ended run has left: judged by the process that started them, removed from a real engine."""

from __future__ import annotations

import io
import subprocess
import tarfile
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from harness.engine import Engine, EngineLostError
from harness.executors import containers
from harness.executors.containers import LAUNCH_LABEL, Host

Create = Callable[[Host], str]


def ended_process() -> Host:
    """Of a process that was, with its number and start."""
    with subprocess.Popen(["sleep", "60"]) as process:
        started = containers._started_ticks(process.pid)
        process.kill()
    return replace(Host.this(), pid=process.pid, started_ticks=str(started))


def test_a_process_that_runs_is_not_gone_and_one_that_ended_is() -> None:
    assert Host.this().is_gone() is False
    assert ended_process().is_gone() is True


def test_a_process_that_got_the_same_number_later_is_another() -> None:
    assert replace(Host.this(), started_ticks="1").is_gone() is True


def test_whatever_ran_before_the_machine_was_started_is_gone() -> None:
    assert replace(Host.this(), boot="another").is_gone() is True


def test_of_a_process_in_another_namespace_nothing_is_known() -> None:
    assert replace(Host.this(), namespace="pid:[1]").is_gone() is None


def test_a_host_is_read_back_from_its_labels() -> None:
    assert Host.of(Host.this().labels()) == Host.this()


def test_a_container_without_a_host_is_of_an_unknown_one() -> None:
    assert Host.of({}).is_gone() is None


# --- on an engine ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def image(engine: Engine) -> Iterator[str]:
    """With nothing in it: containers are created here, never started."""
    assert engine.image("backend-harness-test:none") is None
    tag = f"backend-harness-test:{uuid.uuid4().hex[:8]}"
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("nothing"))
    subprocess.run(["docker", "import", "-", tag], input=content.getvalue(), capture_output=True, check=True)
    yield tag
    subprocess.run(["docker", "rmi", tag], capture_output=True, check=True)


@pytest.fixture
def create(engine: Engine, image: str) -> Iterator[Create]:
    created: list[str] = []

    def made_for(host: Host) -> str:
        launch_id = f"test-{uuid.uuid4().hex[:8]}"
        name = containers.name_of(launch_id)
        argv = ["docker", "create", "--name", name, *containers.labels_of(launch_id, host), image, "/nothing"]
        subprocess.run(argv, capture_output=True, check=True)
        created.append(name)
        return name

    yield made_for
    for name in created:
        engine.remove(name)


@pytest.mark.docker
def test_containers_of_ended_runs_are_removed_those_of_unknown_ones_only_where_asked_for(
    engine: Engine, create: Create
) -> None:
    left, living = create(ended_process()), create(Host.this())
    unseen = create(replace(Host.this(), namespace="pid:[1]"))
    done = containers.clean(engine)
    assert left in done.removed
    assert unseen in done.unknown
    assert {living, unseen} <= names(engine)
    done = containers.clean(engine, unknown_too=True)
    assert unseen in done.removed
    assert done.unknown == ()
    assert names(engine) & {left, living, unseen} == {living}


def names(engine: Engine) -> set[str]:
    return {container.name for container in engine.containers(LAUNCH_LABEL)}


@pytest.mark.docker
def test_a_container_that_is_not_there_is_no_error_to_end_or_remove(engine: Engine) -> None:
    engine.kill("backend-harness-no-such-launch")
    engine.remove("backend-harness-no-such-launch")
    assert engine.container("backend-harness-no-such-launch") is None


@pytest.mark.docker
def test_an_engine_tells_of_itself(engine: Engine) -> None:
    facts = engine.facts()
    assert facts.version
    assert facts.cgroup_version in ("1", "2")
    assert facts.kernel


# --- no engine ------------------------------------------------------------------------------------------------------


@pytest.fixture
def silent_client(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A client that knows of no context."""
    (tmp_path / "docker").write_text("#!/bin/sh\n")
    (tmp_path / "docker").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")


@pytest.mark.usefixtures("silent_client")
def test_a_socket_that_is_not_there_is_told_with_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    with pytest.raises(
        EngineLostError, match=r"no Docker engine answers at unix://.* \(No such file or directory\): start it"
    ):
        Engine.connect()


@pytest.mark.usefixtures("silent_client")
def test_an_engine_behind_a_network_is_refused_as_it_has_other_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://10.0.0.1:2375")
    with pytest.raises(EngineLostError, match=r"reached over a network"):
        Engine.connect()


@pytest.mark.usefixtures("silent_client")
def test_what_is_no_address_is_not_taken_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "garbage")
    with pytest.raises(EngineLostError, match=r"DOCKER_HOST is 'garbage', which is no address .*unix://"):
        Engine.connect()


def test_without_a_client_there_is_no_engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EngineLostError, match="there is no command `docker`"):
        Engine.connect()


def test_the_clients_context_says_where_the_engine_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    client = tmp_path / "docker"
    client.write_text(f'#!/bin/sh\n[ "$1 $2" = "context inspect" ] && echo unix://{tmp_path}/of-the-context.sock\n')
    client.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    with pytest.raises(EngineLostError, match=r"of-the-context\.sock"):
        Engine.connect()


def test_a_context_that_the_client_does_not_know_is_not_replaced_by_the_usual_engine(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    client = tmp_path / "docker"
    client.write_text("#!/bin/sh\necho context not found >&2\nexit 1\n")
    client.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    monkeypatch.setenv("DOCKER_CONTEXT", "remtoe")
    with pytest.raises(EngineLostError, match=r"DOCKER_CONTEXT is 'remtoe'.*context not found.*`docker context ls`"):
        Engine.connect()


def test_an_engine_that_has_gone_does_not_answer_and_every_question_says_so(tmp_path: Path) -> None:
    gone = Engine(f"unix://{tmp_path}/gone.sock", "1.41")
    assert not gone.answers()
    with pytest.raises(EngineLostError, match=r"no longer answers .*what was finished is kept"):
        gone.container("any")
