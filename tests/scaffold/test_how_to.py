"""docs/how-to/add-a-backend.md, typed word for word in a fresh environment: what it says is what happens."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from harness.executors.environments import site_packages
from harness.testing import CHECKS

pytestmark = pytest.mark.stacks

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "how-to" / "add-a-backend.md").read_text(encoding="utf-8")

COMMANDS = [
    line
    for block in re.findall(r"^```console\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    for line in block.splitlines()
]


class Shell:
    """Types commands in a folder, with a fresh environment first on the path; what each printed is kept."""

    def __init__(self, folder: Path, environment: Path) -> None:
        self.folder = folder
        self.printed: dict[str, str] = {}
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("HARNESS_", "PYTEST_"))}
        path = f"{environment / 'bin'}{os.pathsep}{os.environ['PATH']}"
        self.variables = {**inherited, "PATH": path, "HARNESS_LEASES": str(folder)}

    def type(self, command: str) -> None:
        done = subprocess.run(
            command, shell=True, cwd=self.folder, env=self.variables, capture_output=True, text=True, timeout=600
        )
        fine = (0, 1) if command.startswith("harness run ") else (0,)  # a busy machine may leave a cell unsteady
        assert done.returncode in fine, (command, done.stdout, done.stderr)
        self.printed[command] = done.stdout


def install(environment: Path, *sources: Path) -> None:
    """What users install: distributions, built from copies of their sources."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True, timeout=120)
    borrow_dependencies(environment)
    pip = [
        environment / "bin" / "python",
        "-m",
        "pip",
        "--disable-pip-version-check",
        "install",
        "--quiet",
        "--no-deps",
    ]
    subprocess.run([*pip, "--no-compile", *sources], check=True, timeout=600)


def borrow_dependencies(environment: Path) -> None:
    """What `make setup` has installed beside the harness and its plugins: unpacking all that again tells nothing new."""
    borrowed = environment / "borrowed"
    borrowed.mkdir()
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if not entry.name.startswith(("__editable__", "backend_harness", "harness_")):
            (borrowed / entry.name).symlink_to(entry)
    (site_packages(environment) / "borrowed.pth").write_text(f"{borrowed}\n")


def copied(folder: Path, *names: str, into: Path) -> Path:
    unwanted = shutil.ignore_patterns("__pycache__", "*.egg-info")
    into.mkdir(parents=True)
    for name in names:
        source = folder / name
        if source.is_dir():
            shutil.copytree(source, into / name, symlinks=True, ignore=unwanted)
        else:
            shutil.copy(source, into)
    return into


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """After all of the page's commands."""
    folder = tmp_path_factory.mktemp("how-to")
    harness = ("harness", "docker", "pyproject.toml", "README.md", "LICENSE", "MANIFEST.in")
    environment = folder / "environment"
    install(
        environment,
        copied(ROOT, *harness, into=folder / "sources" / "harness"),
        copied(ROOT / "backends" / "pytorch", "harness_pytorch", "pyproject.toml", into=folder / "sources" / "pytorch"),
    )
    shell = Shell(folder / "work", environment)
    shell.folder.mkdir()
    (matrix,) = re.findall(r"^```yaml\n(# mine\.yaml\n.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    (shell.folder / "mine.yaml").write_text(matrix)
    for command in COMMANDS:
        shell.type(command)
    return shell


def printed(shell: Shell, command: str) -> str:
    """Of the command that begins so, its words with one space between."""
    (told,) = [text for typed, text in shell.printed.items() if typed.startswith(command)]
    return " ".join(told.split())


def test_the_generated_backend_is_listed_with_plugin_and_option(shell: Shell) -> None:
    told = printed(shell, "harness backends mine")
    assert "plugin harness-mine 0.1.0" in told
    assert "transposed bool, default true" in told


def test_it_keeps_every_promise_and_each_is_judged(shell: Shell) -> None:
    told = printed(shell, "harness check-backend mine")
    assert told.endswith("mine keeps its promises.")
    assert told.count("ok ") >= len(CHECKS)


def test_its_own_tests_are_one_for_each_check_and_pass(shell: Shell) -> None:
    assert f"{len(CHECKS)} passed" in printed(shell, "python -m pytest harness-mine/tests")


def test_it_is_measured_beside_eager_with_its_option_as_an_axis(shell: Shell) -> None:
    plan = printed(shell, "harness plan mine.yaml")
    table = printed(shell, "harness run mine.yaml")
    for label in ("eager", "mine[transposed=True]", "mine[transposed=False]"):
        assert label in plan
        assert label in table
