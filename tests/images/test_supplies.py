"""Wheels and Debian packages: fetched once, for the base, and complete or not there."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import cast

import pytest
from executors.tiny_wheel import make_wheel

from harness import cache
from harness.images.client import Client, Outcome
from harness.images.spec import ImageSpec, spec_of
from harness.images.supplies import Supplies, fetch, fetch_debs_command, wheel_target
from harness.model import HarnessError
from images.doubles import BASE, Spoken, TinyPlugin, unheard


def fetched(spec: ImageSpec, client: Spoken | None = None, *, offline: bool = False) -> Supplies:
    return fetch(spec, BASE, cast(Client, client or Spoken()), unheard, offline=offline)


def names(entry: cache.Entry | None) -> list[str]:
    return sorted(path.name for path in entry.folder.iterdir()) if entry else []


def test_the_wheels_of_the_lock_are_fetched_by_the_hosts_pip(plugin: TinyPlugin) -> None:
    supplies = fetched(spec_of(plugin.backend(), "cpu"))
    assert names(supplies.wheels) == ["tiny_dependency-1.0-py3-none-any.whl"]
    assert supplies.debs is None


def test_each_device_has_the_wheels_of_its_own_lock(plugin: TinyPlugin) -> None:
    assert names(fetched(spec_of(plugin.backend(), "cuda")).wheels) == ["tiny_dependency-2.0-py3-none-any.whl"]


def test_what_was_fetched_once_is_there_offline(plugin: TinyPlugin) -> None:
    spec = spec_of(plugin.backend(), "cpu")
    first = fetched(spec)
    assert fetched(spec, offline=True) == first


def test_offline_nothing_is_fetched(plugin: TinyPlugin) -> None:
    with pytest.raises(HarnessError, match=r"wheels of stack tiny-images for cpu are not in .*, and --offline forbids"):
        fetched(spec_of(plugin.backend(), "cpu"), offline=True)


def test_an_index_that_lacks_a_version_is_named_as_the_cause(plugin: TinyPlugin, wheels: Path) -> None:
    plugin.lock(f"--no-index\n--find-links {wheels}\ntiny_dependency==9.0\n")
    lacking = r"no wheel of tiny_dependency==9.0 for the Python and platform of the images' base"
    with pytest.raises(HarnessError, match=rf"wheels cannot be fetched for .*: the index has {lacking}"):
        fetched(spec_of(plugin.backend(), "cpu"))
    assert not list(cache.room("wheelhouse").glob("tiny-images-*[0-9a-f]"))


def test_a_cpu_build_for_a_gpu_is_refused(plugin: TinyPlugin, tmp_path: Path) -> None:
    make_wheel(tmp_path, "tiny_torch", "2.0+cpu")
    plugin.lock(f"--no-index\n--find-links {tmp_path}\ntiny_torch==2.0\n", "-cuda")
    with pytest.raises(HarnessError, match=r"CPU builds for the device cuda \(tiny_torch-2.0\+cpu"):
        fetched(spec_of(plugin.backend(), "cuda"))


def test_wheels_are_chosen_for_the_bases_python_and_glibc() -> None:
    target = wheel_target(BASE)
    assert target[:3] == ["--implementation=cp", "--python-version=3.11", "--platform=manylinux_2_36_x86_64"]
    assert {"--platform=manylinux_2_5_x86_64", "--platform=manylinux2014_x86_64", "--platform=linux_x86_64"} <= {
        *target
    }
    assert "--platform=manylinux_2_37_x86_64" not in target


def test_debian_packages_are_fetched_in_the_base(plugin: TinyPlugin) -> None:
    client = Spoken()
    fetched(spec_of(plugin.backend(system_packages=("g++", "make")), "cpu"), client)
    (asked,) = client.asked
    assert {"--target=debs", "--build-arg=BASE_IMAGE=python:3.11-slim", "--build-arg=SYSTEM_PACKAGES=g++ make"} <= {
        *asked
    }


def test_a_folder_of_any_name_can_take_debian_packages() -> None:
    folder = Path('/a, b/"c"')
    command = fetch_debs_command(Path("context"), BASE, ("g++",), folder)
    (output,) = [word.removeprefix("--output=") for word in command if word.startswith("--output=")]
    assert next(csv.reader([output])) != []
    assert next(csv.reader([output])) == ["type=local", f"dest={folder}"]


def test_packages_that_cannot_be_fetched_leave_nothing_and_say_why(plugin: TinyPlugin) -> None:
    client = Spoken({"build": Outcome(1, ("E: Unable to locate package g+",))})
    with pytest.raises(HarnessError, match=r"Debian packages g\+ cannot be fetched .*Unable to locate package"):
        fetched(spec_of(plugin.backend(system_packages=("g+",)), "cpu"), client)
    assert not [path for path in cache.room("debs").iterdir() if path.is_dir()]
