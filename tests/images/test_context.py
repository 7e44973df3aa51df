"""The build context: all that goes in, laid out as the Dockerfile expects it, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from harness.cache import Entry
from harness.executors import sources
from harness.images.context import build_arguments, lay_out, plugin_folders
from harness.images.spec import DOCKERFILE, ImageSpec, spec_of
from harness.images.supplies import Supplies
from images.doubles import TinyPlugin


@pytest.fixture
def spec(plugin: TinyPlugin) -> ImageSpec:
    return spec_of(plugin.backend(), "cpu")


@pytest.fixture
def supplies(tmp_path: Path) -> Supplies:
    for kind, name in (("wheels", "a-1.0-py3-none-any.whl"), ("debs", "b_1.0_amd64.deb")):
        (tmp_path / kind).mkdir()
        (tmp_path / kind / name).touch()
    return Supplies(Entry(tmp_path / "wheels", "", {}), Entry(tmp_path / "debs", "", {}))


def files_below(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_a_context_holds_supplies_lock_worker_and_plugins(spec: ImageSpec, supplies: Supplies, tmp_path: Path) -> None:
    lay_out(tmp_path / "context", spec, supplies)
    assert files_below(tmp_path / "context") == {
        "docker/wheelhouse/a-1.0-py3-none-any.whl",
        "docker/debs/b_1.0_amd64.deb",
        "stack.lock",
        *sources.worker_files(),
        *(f"plugins/tiny_images/{name}" for name in ("__init__.py", "runner.py", "tiny.lock", "tiny-cuda.lock")),
    }


def test_the_folders_that_the_dockerfile_mounts_are_there_when_empty(
    spec: ImageSpec, supplies: Supplies, tmp_path: Path
) -> None:
    lay_out(tmp_path / "context", spec, replace(supplies, debs=None))
    assert (tmp_path / "context" / "docker" / "debs").is_dir()


def test_supplies_are_linked_not_copied(spec: ImageSpec, supplies: Supplies, tmp_path: Path) -> None:
    lay_out(tmp_path / "context", spec, supplies)
    wheel = "a-1.0-py3-none-any.whl"
    assert (tmp_path / "context" / "docker" / "wheelhouse" / wheel).samefile(tmp_path / "wheels" / wheel)


def test_packages_of_one_namespace_are_one_folder(spec: ImageSpec) -> None:
    anywhere = Path("x")
    code = {
        "harness/protocol.py": anywhere,
        "space/a/x.py": anywhere,
        "space/b/y.py": anywhere,
        "z/__init__.py": anywhere,
    }
    assert plugin_folders(replace(spec, code=code)) == ["plugins/space", "plugins/z"]


def test_the_dockerfile_declares_every_argument_and_no_other_is_left_out(spec: ImageSpec) -> None:
    declared = {
        line.split()[1].partition("=")[0] for line in DOCKERFILE.read_text().splitlines() if line.startswith("ARG ")
    }
    assert set(build_arguments(spec, "a-base")) == declared
