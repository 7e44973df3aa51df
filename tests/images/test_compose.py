"""docker/compose.yaml gives the Dockerfile what `harness build` would."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from harness import plugins
from harness.images.context import build_arguments
from harness.images.spec import DEVICES, DOCKERFILE, spec_of

ROOT = Path(__file__).parents[2]

SERVICES: dict[str, Any] = yaml.safe_load((ROOT / "docker" / "compose.yaml").read_text())["services"]

SET_UP = {"harness_pytorch", "harness_onnxruntime", "harness_flax"}
"""The plugins that `make setup` installs: whatever else is installed is built by `harness build` alone."""

BACKENDS = {
    name: backend
    for name, backend in plugins.load().backends.items()
    if backend.by_default and SET_UP.issuperset(backend.stack.packages)
}


def service(backend: str, device: str) -> dict[str, Any]:
    return SERVICES[backend if device == "cpu" else f"{backend}-{device}"]


def test_every_backend_is_there_for_every_device_and_nothing_else() -> None:
    ours = {"eager", "sdpa", "compile", "onnxruntime", "flax"}
    assert set(SERVICES) == ours | {f"{name}-cuda" for name in ours}
    assert ours == set(BACKENDS)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", BACKENDS)
def test_a_service_has_the_arguments_of_harness_build(name: str, device: str) -> None:
    spec, described = spec_of(BACKENDS[name], device), service(name, device)
    arguments = described["build"]["args"]
    expected = {key: value for key, value in build_arguments(spec, "").items() if value}
    same = {
        key: value for key, value in expected.items() if key not in ("BASE_IMAGE", "PIP_NO_INDEX", "LOCK", "PLUGINS")
    }
    assert same.items() <= arguments.items()
    assert arguments.keys() == expected.keys() | {"BASE_IMAGE"}
    assert described["image"] == spec.tag


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", BACKENDS)
def test_a_service_names_the_lock_and_the_plugins_where_they_lie(name: str, device: str) -> None:
    spec, arguments = spec_of(BACKENDS[name], device), service(name, device)["build"]["args"]
    assert (ROOT / arguments["LOCK"]).samefile(spec.lock)
    folders = [ROOT / folder for folder in arguments["PLUGINS"].split()]
    assert {folder.name for folder in folders} == set(BACKENDS[name].stack.packages)
    assert all((folder / "__init__.py").is_file() for folder in folders)


def test_every_service_is_built_from_the_one_dockerfile() -> None:
    for described in SERVICES.values():
        build = described["build"]
        assert (ROOT / "docker" / build["context"] / build["dockerfile"]).samefile(DOCKERFILE)


def test_images_for_a_gpu_are_built_on_request_only() -> None:
    assert {name for name, described in SERVICES.items() if described.get("profiles") == ["cuda"]} == {
        name for name in SERVICES if name.endswith("-cuda")
    }
