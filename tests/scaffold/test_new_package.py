"""What `harness new-backend` writes: the template under another name, whole, loadable, and as tidy as the rest."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.model import Backend, Cell, HarnessError, Stack
from harness.plugins import Plugins, load
from harness.scaffold import new_package, package_files
from harness.scaffold.writing import TEMPLATE
from harness.testing.declared import declared, loaded

EAGER = Backend(
    "eager", Stack("pytorch", "p:p.lock", ("p",)), "p:R", "", offered_by="plugin 'pytorch' (harness-pytorch 0.1.0)"
)


def refused(name: str, into: Path) -> str:
    with pytest.raises(HarnessError) as error:
        new_package(name, into, {"eager": EAGER})
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.fixture
def plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Plugins]:
    """The plugins, with a generated one among them; it is forgotten afterwards."""
    folder = new_package("my_xla", tmp_path, {})
    monkeypatch.syspath_prepend(folder)
    yield load(["harness_my_xla.plugin"])
    for name in [name for name in sys.modules if name.startswith("harness_my_xla")]:
        del sys.modules[name]


def test_every_file_of_the_template_is_there_under_the_new_name(tmp_path: Path) -> None:
    folder = new_package("my_xla", tmp_path / "not" / "there" / "yet", {})
    assert folder == tmp_path / "not" / "there" / "yet" / "harness-my-xla"
    written = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert written == {
        "README.md",
        "pyproject.toml",
        "harness_my_xla/__init__.py",
        "harness_my_xla/bert.py",
        "harness_my_xla/my_xla.in",
        "harness_my_xla/my_xla.lock",
        "harness_my_xla/plugin.py",
        "harness_my_xla/py.typed",
        "harness_my_xla/runner.py",
        "tests/test_my_xla.py",
    }
    assert not [path for path in folder.rglob("*") if path.is_file() and "newcomer" in path.read_text().lower()]


def test_under_its_own_name_the_template_is_what_is_written() -> None:
    files = package_files("newcomer")
    assert files == {name: (TEMPLATE / name).read_text() for name in files}


def test_the_distribution_brings_plugin_lock_and_entry_point(tmp_path: Path) -> None:
    folder = new_package("my_xla", tmp_path, {})
    project = tomllib.loads((folder / "pyproject.toml").read_text())
    assert project["project"]["name"] == "harness-my-xla"
    assert project["project"]["entry-points"]["harness"] == {"my_xla": "harness_my_xla.plugin"}
    assert project["tool"]["setuptools"]["package-data"] == {"harness_my_xla": ["*.in", "*.lock", "py.typed"]}


def test_the_plugin_loads_and_what_it_declares_is_there(plugins: Plugins) -> None:
    backend = plugins.backends["my_xla"]
    assert (backend.runner, backend.stack.name) == ("harness_my_xla.runner:MyXlaRunner", "my_xla")
    assert declared(backend, Cell(model="m", checkpoint="c", threads=1, backend="my_xla")).faults == ()
    assert loaded("harness_my_xla.plugin", backend.stack).heavy == ()


def test_its_option_is_told_checked_and_in_the_key(plugins: Plugins) -> None:
    (option,) = plugins.backends["my_xla"].options
    assert (option.name, option.type, option.default) == ("transposed", bool, True)
    cells = [
        Cell(model="m", checkpoint="c", threads=1, backend="my_xla", options={"transposed": value})
        for value in (True, False)
    ]
    assert cells[0].key != cells[1].key


def test_its_supports_knows_bert_alone_and_says_nothing_of_a_model_that_is_not_known(plugins: Plugins) -> None:
    cell = Cell(model="m", checkpoint="c", threads=1, backend="my_xla", options={"transposed": True})
    cell = cell.model_copy(update={"task": "feature-extraction"})
    assert plugins.supports(cell, {}) is None
    config = {"model_type": "bert", "vocab_size": 64, "max_position_embeddings": 512}
    assert plugins.supports(cell, config) is None
    assert plugins.supports(cell, {**config, "model_type": "gpt2"}) == "model type gpt2: my_xla runs bert"
    assert plugins.supports(cell, {**config, "hidden_act": "relu"}) == "activation relu: my_xla knows gelu alone"


def test_the_code_of_the_runner_is_under_a_hundred_lines() -> None:
    lines = (TEMPLATE / "harness_newcomer" / "runner.py").read_text().splitlines()
    code = [line for line in lines if line.strip() and not line.strip().startswith(("#", '"""'))]
    assert len(code) < 100


def test_what_is_written_is_tidy(tmp_path: Path) -> None:
    folder = new_package("my_xla", tmp_path, {})
    rules = ["--isolated", "--no-cache", "--line-length", "120"]
    for command in (["check", "--select", "E,F,I,B,UP", *rules], ["format", "--check", *rules]):
        done = subprocess.run([sys.executable, "-m", "ruff", *command, str(folder)], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "my backend",
            "'my backend' cannot be the name of a backend: write small letters, digits and single underscores",
        ),
        ("my backend", ", as my_backend"),
        ("My-XLA", ", as my_xla"),
        ("2fast", ", as fast"),
        ("", "'' cannot be the name of a backend"),
        ("a__b", "cannot be the name"),
        ("../up", "cannot be the name"),
        ("class", "no backend can be named 'class', a word of Python's"),
        ("dtype", "no backend can be named 'dtype', which means something else in a matrix"),
        (
            "eager",
            "there is a backend 'eager' already, of plugin 'pytorch' (harness-pytorch 0.1.0); choose another name",
        ),
        ("pytorch", "there is an import package harness_pytorch already"),
        ("null", "no backend can be named 'null', which means something else in a matrix"),
        ("x" * 300, "a backend's name of 300 characters is too long to be a file's; write 64 at most"),
    ],
)
def test_a_name_that_cannot_be_one_is_refused_in_a_sentence(tmp_path: Path, name: str, said: str) -> None:
    assert said in refused(name, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_there_is_never_written_into(tmp_path: Path) -> None:
    mine = tmp_path / "harness-mine"
    mine.mkdir()
    assert refused("mine", tmp_path) == f"{mine} is there already; choose another name, or another folder with --into"
    assert list(mine.iterdir()) == []


def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("mine")
    assert refused("mine", tmp_path / "notes") == f"{tmp_path / 'notes'} is no folder; choose another with --into"


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("mine")
    said = refused("mine", tmp_path / "notes" / "below")
    assert said.endswith("harness-mine cannot be written: Not a directory; choose another folder with --into")
