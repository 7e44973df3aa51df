"""Which of our files go into an environment."""

from __future__ import annotations

import dataclasses

import pytest
from tiny_stack import Plugin

from harness.executors import sources
from harness.model import HarnessError


def test_of_the_harness_only_what_the_worker_imports_goes_in() -> None:
    names = sources.worker_files().keys()
    assert {"harness/__init__.py", "harness/protocol.py", "harness/worker/__init__.py"} <= names
    assert all(name.split("/")[1] in ("__init__.py", "protocol.py", "tasks.py", "worker") for name in names)
    assert not any("__pycache__" in name for name in names)


def test_all_files_of_a_plugin_go_in_but_compiled_ones(plugin: Plugin) -> None:
    plugin.write("data/table.csv", "1")
    plugin.write("__pycache__/runner.cpython-311.pyc", "")
    names = {"__init__.py", "runner.py", "tiny.lock", "data/table.csv"}
    assert sources.plugin_files("tiny_plugin", plugin.stack).keys() == {f"tiny_plugin/{name}" for name in names}


def test_the_digest_moves_with_names_and_with_contents(plugin: Plugin) -> None:
    def digest() -> str:
        return sources.files_digest(sources.plugin_files("tiny_plugin", plugin.stack))

    digests = [digest(), digest()]
    plugin.write("runner.py", "# changed")
    digests.append(digest())
    (plugin.folder / "tiny_plugin/runner.py").rename(plugin.folder / "tiny_plugin/other.py")
    digests.append(digest())
    assert digests[0] == digests[1]
    assert len(set(digests)) == 3


@pytest.mark.usefixtures("plugin")
def test_a_version_is_told_where_the_distribution_is_known_and_none_elsewhere() -> None:
    assert sources.plugin_version("pytest") == pytest.__version__
    assert sources.plugin_version("tiny_plugin") is None


@pytest.mark.parametrize("package", ["no_such_package", "no_such.package", "json.decoder", ""])
def test_a_package_that_is_not_there_is_named(plugin: Plugin, package: str) -> None:
    with pytest.raises(HarnessError, match=f"stack tiny: it names '{package}', which is no import package"):
        sources.plugin_files(package, plugin.stack)


@pytest.mark.parametrize("lock", ["tiny_plugin:other.lock", "tiny_plugin", "tiny_plugin:"])
def test_a_lock_that_is_not_there_is_named(plugin: Plugin, lock: str) -> None:
    with pytest.raises(HarnessError, match=f"stack tiny: its lock is given as '{lock}', but there is no file"):
        sources.lock_file(dataclasses.replace(plugin.stack, lock=lock))
