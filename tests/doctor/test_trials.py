"""The trials of `harness doctor`: a real compiler, real commands, real disks."""

from __future__ import annotations

import itertools
import os
import shutil
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest
from engine_server import engine_that_tells

from harness.doctor import count_nvidia_cards, trials

INCLUDE = Path(sysconfig.get_path("include"))

needs_compiler = pytest.mark.skipif(
    shutil.which("g++") is None or not (INCLUDE / "Python.h").exists(), reason="no g++, or no headers of Python"
)

Install = Callable[[str, str], None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Puts a shell script on the path, where nothing else is."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delenv("CXX", raising=False)

    def install(name: str, script: str) -> None:
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)

    return install


# --- the compiler ---------------------------------------------------------------------------------------------------


@needs_compiler
def test_a_module_is_built_and_imported_and_nothing_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "g++")
    build = trials.build_extension(tmp_path / "not" / "there", INCLUDE)
    assert (build.compiler, build.error) == ("g++", None)
    assert "g++" in str(build.version)
    assert list(tmp_path.iterdir()) == []


@needs_compiler
def test_headers_that_are_not_there_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "g++")
    monkeypatch.delenv("CPATH", raising=False)
    empty = tmp_path / "include"
    empty.mkdir()
    assert "Python.h" in str(trials.build_extension(tmp_path, empty).error)


@pytest.mark.usefixtures("install")
def test_a_compiler_that_is_not_there_has_no_version(tmp_path: Path) -> None:
    build = trials.build_extension(tmp_path, INCLUDE)
    assert build == trials.Build("g++", None, "there is no such command")


def test_the_compiler_is_what_cxx_names(tmp_path: Path, install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    install(
        "other++",
        'if [ "$1" = --version ]; then echo "other 9"; echo more; else echo "wrong\nan error: no" >&2; exit 1; fi',
    )
    monkeypatch.setenv("CXX", "other++")
    assert trials.build_extension(tmp_path, INCLUDE) == trials.Build("other++", "other 9", "an error: no")


def test_what_a_linker_misses_is_told_rather_than_that_it_failed(tmp_path: Path, install: Install) -> None:
    install("g++", '[ "$1" = --version ] || { echo "ld: cannot find -lgomp\ncollect2: error: ld failed" >&2; exit 1; }')
    assert trials.build_extension(tmp_path, INCLUDE).error == "ld: cannot find -lgomp"


def test_a_compiler_that_builds_nothing_that_can_be_imported_is_found_out(tmp_path: Path, install: Install) -> None:
    install("g++", "echo fine")
    assert "No module named" in str(trials.build_extension(tmp_path, INCLUDE).error)


def test_a_folder_where_nothing_can_be_built_is_named(tmp_path: Path, install: Install) -> None:
    install("g++", "echo fine")
    file = tmp_path / "results"
    file.write_text("mine")
    assert str(file) in str(trials.build_extension(file, INCLUDE).error)


# --- Docker ---------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("install")
def test_no_docker_command_is_no_client() -> None:
    assert trials.ask_docker() == trials.Engine(False, None, "there is no such command")


def test_an_engine_that_answers_has_a_version(install: Install) -> None:
    install("docker", 'echo "28.2.2"')
    assert trials.ask_docker() == trials.Engine(True, "28.2.2", None)


def test_what_an_engine_cannot_limit_is_asked_for(
    install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install("docker", 'echo "28.2.2"')
    with engine_that_tells(tmp_path, CPUSet=False) as host:
        monkeypatch.setenv("DOCKER_HOST", host)
        assert trials.ask_docker() == trials.Engine(True, "28.2.2", None, ("processors",))


def test_an_engine_that_refuses_is_quoted(install: Install) -> None:
    install("docker", 'echo; echo "Cannot connect to the Docker daemon" >&2; exit 1')
    assert trials.ask_docker() == trials.Engine(True, None, "Cannot connect to the Docker daemon")


def test_an_engine_that_hangs_is_given_up(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    install("docker", "exec /bin/sleep 30")
    monkeypatch.setattr(trials, "_ANSWER_TIMEOUT_S", 0.2)
    assert trials.ask_docker() == trials.Engine(True, None, "no answer within 0.2 s")


def test_a_command_that_says_nothing_is_told_by_its_exit_code(install: Install) -> None:
    install("docker", "exit 5")
    assert trials.ask_docker().error == "it ended with exit code 5"


# --- Python, disk, arithmetic ---------------------------------------------------------------------------------------


def test_the_pip_of_new_environments_is_told() -> None:
    version, error = trials.bundled_pip()
    assert error is None
    assert str(version)[0].isdecimal()


def test_a_python_that_starts_slowly_is_waited_for_longer_than_an_engine(
    install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trials, "_ANSWER_TIMEOUT_S", 0.1)
    install("python", "/bin/sleep 0.3; echo 25.0")
    assert trials.bundled_pip(tmp_path / "bin" / "python") == ("25.0", None)


def test_a_python_without_ensurepip_says_so(install: Install, tmp_path: Path) -> None:
    install("python", f"exec {sys.executable} -c 'import sys; sys.modules[\"ensurepip\"] = None; import ensurepip'")
    version, error = trials.bundled_pip(tmp_path / "bin" / "python")
    assert version is None
    assert "ensurepip" in str(error)


def test_a_folder_that_is_not_there_yet_is_on_the_disk_of_the_nearest_one(tmp_path: Path) -> None:
    disk = trials.read_disk(tmp_path / "a" / "b")
    assert (disk.folder, disk.error) == (tmp_path / "a" / "b", None)
    assert disk.free_bytes > 0
    assert trials.nearest(tmp_path / "a" / "b") == tmp_path
    assert not (tmp_path / "a").exists()


def test_a_file_is_no_place_for_a_folder(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("mine")
    assert trials.read_disk(tmp_path / "a" / "b").error == f"{tmp_path / 'a'} is a file"


def test_a_disk_that_refuses_programs_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounted = os.statvfs_result((4096, 4096, 100, 50, 40, 10, 10, 10, os.ST_NOEXEC | os.ST_NOSUID, 255))
    monkeypatch.setattr(os, "statvfs", lambda _path: mounted)
    disk = trials.read_disk(tmp_path)
    assert disk.free_bytes == 40 * 4096  # what a user may take, not what the superuser keeps
    assert disk.error == f"{tmp_path} is mounted noexec, so no library can be loaded from there"


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The superuser, whom these tests may be run by, is refused by nothing but a read-only disk.
    monkeypatch.setattr(os, "access", lambda _path, mode: not mode & os.W_OK)
    assert trials.read_disk(tmp_path).error == f"{tmp_path} cannot be written"


def test_the_spread_of_arithmetic_is_that_of_its_middle_eight_tenths() -> None:
    def clock(durations_ns: list[int]) -> Callable[[], int]:
        stamps = itertools.accumulate(itertools.chain.from_iterable((0, each) for each in durations_ns))
        return lambda: next(stamps)

    even = trials.time_arithmetic(10, clock([100] * 10))
    assert (even.median_s, even.spread, even.repetitions) == (100e-9, 0.0, 10)
    once = trials.time_arithmetic(100, clock([100] * 95 + [1000] * 5))
    assert once.spread == 0.0
    often = trials.time_arithmetic(100, clock([100] * 80 + [200] * 20))
    assert often.spread == 1.0


def test_only_display_and_compute_cards_of_nvidia_are_counted(tmp_path: Path) -> None:
    devices = {
        "0": ("0x10de", "0x030200"),
        "1": ("0x10de", "0x040300"),
        "2": ("0x1002", "0x030000"),
        "3": ("0x10de", "0x030000"),
    }
    for name, (vendor, kind) in devices.items():
        folder = tmp_path / "sys/bus/pci/devices" / name
        folder.mkdir(parents=True)
        (folder / "vendor").write_text(f"{vendor}\n")
        (folder / "class").write_text(f"{kind}\n")
    assert count_nvidia_cards(tmp_path) == 2
    assert count_nvidia_cards(tmp_path / "nowhere") == 0
