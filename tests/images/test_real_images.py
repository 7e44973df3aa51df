"""Images of a tiny plugin, really built: layers, labels, what a worker sees, and what changes make of them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import cli
from harness.engine import Engine
from harness.images import Image, Missing, Stale, ensure, find, replaced
from harness.images.base import LOCAL, OFFICIAL
from harness.images.client import Client, find_client
from harness.model import Backend, HarnessError
from harness.protocol import PROTOCOL_VERSION
from images.doubles import TinyPlugin, unheard

pytestmark = [pytest.mark.docker]

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def client(engine: Engine) -> Client:
    return find_client(engine.host)


@pytest.fixture
def built(engine: Engine, client: Client, plugin: TinyPlugin) -> Iterator[Image]:
    """The image of the tiny plugin; whatever has its tag in the end is removed."""
    (image,) = made(engine, plugin.backend())
    yield image
    client.run(["rmi", "--force", image.tag, image.id])


def made(engine: Engine, *backends: Backend, offline: bool = False) -> list[Image]:
    """From the base made here, where the engine lacks the official one: tests pull nothing."""
    local = engine.image(OFFICIAL) is None
    return ensure(backends, "cpu", engine, unheard, offline=offline, local_base=local)


def python(client: Client, image: Image, code: str) -> list[str]:
    hardened = ["--network=none", "--read-only", "--cap-drop=ALL", "--user=12345:12345"]
    outcome = client.run(["run", "--rm", *hardened, image.id, "python", "-I", "-c", code])
    assert outcome.returncode == 0, outcome.lines
    return list(outcome.lines)


def test_the_worker_in_an_image_greets_in_a_root_that_is_read_only(built: Image, client: Client) -> None:
    command = [str(client.path), "run", "--rm", "--interactive", "--network=none", "--read-only", built.id]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        hello = json.loads(process.stdout.readline())  # stdin stays open so long: its end would end the worker
    assert (hello["kind"], hello["protocol_version"]) == ("hello", PROTOCOL_VERSION)


def test_stack_and_plugin_are_there_compiled_for_any_user(built: Image, client: Client) -> None:
    code = "import tiny_images.runner as r, tiny_dependency as d; print(d.VERSION, r.__cached__, r.__spec__.origin)"
    (line,) = python(client, built, code)
    version, cached, origin = line.split()
    assert version == "1.0"
    assert origin == "/opt/harness/tiny_images/runner.py"
    assert python(client, built, f"import os; print(os.path.exists({cached!r}))") == ["True"]


def test_nothing_of_the_host_is_in_an_image_and_no_compiler_and_no_pip(built: Image, client: Client) -> None:
    code = (
        "import importlib.util as u, shutil;"
        "print([m for m in ('pip', 'setuptools', 'pluggy', 'pydantic', 'docker') if u.find_spec(m)],"
        " [c for c in ('pip', 'gcc', 'g++', 'make') if shutil.which(c)], u.find_spec('harness.cli'))"
    )
    assert python(client, built, code) == ["[] [] None"]


def test_an_image_runs_as_nobody_in_particular_where_no_user_is_named(built: Image, client: Client) -> None:
    outcome = client.run(["run", "--rm", "--network=none", built.id, "python", "-c", "import os; print(os.getuid())"])
    assert outcome.lines == ("10001",)


def test_an_image_tells_what_it_is(built: Image, engine: Engine) -> None:
    facts = engine.image(built.tag)
    assert facts is not None
    assert facts.labels["org.opencontainers.image.title"] == "backend-harness tiny_images (cpu)"
    assert {
        "backend",
        "stack",
        "device",
        "lock_sha256",
        "protocol_version",
        "identity",
        "base_id",
    } <= built.labels.keys()
    assert built.labels["base_image"] in (OFFICIAL, LOCAL)


def test_code_that_changes_makes_an_image_stale_and_only_the_code_is_built_anew_and_the_old_one_is_left(
    built: Image, engine: Engine, plugin: TinyPlugin
) -> None:
    plugin.write("runner.py", "changed = True\n")
    found = find(plugin.backend(), "cpu", engine)
    assert found == Stale(built.tag, built.id, "the plugin's code has changed")
    (again,) = made(engine, plugin.backend())
    assert again.layers[:-1] == built.layers[:-1]
    assert again.layers[-1] != built.layers[-1]
    assert again.identity != built.identity
    left = {image.id for image in replaced(engine)}
    assert built.id in left
    assert again.id not in left


def test_a_rebuild_of_the_same_things_has_the_same_identity(
    built: Image, client: Client, engine: Engine, plugin: TinyPlugin
) -> None:
    client.run(["rmi", "--force", built.tag])
    assert find(plugin.backend(), "cpu", engine) == Missing(built.tag)
    (again,) = made(engine, plugin.backend(), offline=True)
    assert again.identity == built.identity


def test_backends_of_one_stack_share_all_but_their_code_and_packages(
    built: Image, client: Client, engine: Engine, plugin: TinyPlugin
) -> None:
    (other,) = made(engine, plugin.backend("tiny_other"))
    client.run(["rmi", "--force", other.tag])
    assert other.layers == built.layers


def test_system_packages_are_installed_without_a_network_from_what_was_fetched(
    built: Image, client: Client, engine: Engine, plugin: TinyPlugin
) -> None:
    (other,) = made(engine, plugin.backend("tiny_tools", system_packages=("tree",)))
    try:
        assert python(client, other, "import shutil; print(shutil.which('tree'))") == ["/usr/bin/tree"]
        assert other.layers[: len(built.layers) - 2] == built.layers[:-2]
    finally:
        client.run(["rmi", "--force", other.tag])


def test_a_stack_that_does_not_install_is_told_with_pips_words(
    engine: Engine, plugin: TinyPlugin, wheels: Path
) -> None:
    plugin.lock(f"--no-index\n--find-links {wheels}\ntiny_dependency==1.0; python_version < '3'\nno_such_thing==1.0\n")
    with pytest.raises(HarnessError, match="cannot be built: stack tiny-images: its wheels cannot be fetched"):
        made(engine, plugin.backend("tiny_broken"))


def test_the_repository_itself_is_a_context(client: Client, engine: Engine, plugin: TinyPlugin, tmp_path: Path) -> None:
    """As docker/compose.yaml uses it: what the ignore file lets through is enough, and no wheels need be there."""
    context, tag = tmp_path / "repository", "backend-harness/tiny_repository:cpu"
    shutil.copytree(ROOT / "docker", context / "docker", ignore=shutil.ignore_patterns("*.whl", "*.deb"))
    shutil.copytree(ROOT / "harness", context / "harness", ignore=shutil.ignore_patterns("__pycache__"), symlinks=True)
    shutil.copytree(plugin.folder, context / "backends")
    (context / "backends" / "tiny.lock").write_text("# nothing\n")
    base = OFFICIAL if engine.image(OFFICIAL) else LOCAL
    arguments = {
        "BASE_IMAGE": base,
        "LOCK": "backends/tiny.lock",
        "PLUGINS": "backends/tiny_images",
        "BACKEND": "tiny_repository",
        "STACK": "tiny",
    }
    options = [f"--build-arg={name}={value}" for name, value in arguments.items()]
    where = [f"--file={context / 'docker' / 'Dockerfile'}", f"--tag={tag}", str(context)]
    outcome = client.run(["build", "--progress=plain", "--network=none", *options, *where])
    assert outcome.returncode == 0, "\n".join(outcome.lines)
    facts = engine.image(tag)
    client.run(["rmi", "--force", tag])
    assert facts is not None
    assert facts.labels["org.backend-harness.backend"] == "tiny_repository"


OWN_DOCKERFILE = """\
ARG BASE_IMAGE
FROM ${BASE_IMAGE}
ARG LOCK
ARG PLUGINS
COPY ${LOCK} /stack.lock
RUN python3 -m venv /opt/venv
RUN --mount=type=bind,source=docker/wheelhouse,target=/wheelhouse \\
    /opt/venv/bin/pip install --no-index --find-links /wheelhouse --requirement /stack.lock
COPY harness /opt/venv/own/harness
COPY ${PLUGINS} /opt/venv/own/tiny_images
RUN echo /opt/venv/own > "$(/opt/venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/own.pth"
"""
"""The least that will do: an environment at the place where executors look for it."""


def test_the_command_builds_from_a_plugins_own_dockerfile(
    engine: Engine,
    client: Client,
    plugin: TinyPlugin,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    plugin.write("Dockerfile", OWN_DOCKERFILE)
    plugin.write(
        "plugin.py",
        "from harness.hookspecs import hookimpl\n"
        "from harness.model import Backend, Stack\n"
        f"STACK = Stack({plugin.stack.name!r}, {plugin.stack.lock!r}, {plugin.stack.packages!r})\n"
        "@hookimpl\n"
        "def harness_register_backends():\n"
        "    yield Backend('tiny_own', STACK, 'm:R', '', dockerfile='tiny_images:Dockerfile')\n",
    )
    local = ["--local-base"] if engine.image(OFFICIAL) is None else []
    monkeypatch.setattr(sys, "argv", ["harness", "build", "tiny_own", "--plugin", "tiny_images.plugin", *local])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == cli.OK
    assert "backend-harness/tiny_own:cpu" in capsys.readouterr().out
    try:
        command = ["run", "--rm", "--network=none", "backend-harness/tiny_own:cpu", "/opt/venv/bin/python", "-I", "-c"]
        seen = client.run(
            [*command, "import harness.protocol, tiny_images.runner as r; print(r.tiny_dependency.VERSION)"]
        )
        assert seen.lines == ("1.0",)
    finally:
        client.run(["rmi", "--force", "backend-harness/tiny_own:cpu"])
