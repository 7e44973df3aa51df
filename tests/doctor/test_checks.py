"""The judgements of `harness doctor`: what was read in, one check out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.doctor import can_run, checks
from harness.doctor.checks import CUDA_STACK_BYTES, GIB, SPARE_BYTES, STACK_BYTES, WORKER_BYTES, Check, Finding, System
from harness.doctor.trials import Build, Disk, Engine, Steadiness
from harness.inventory import BackendEntry, ImageEntry, ImageState, Pin, StackEntry
from harness.model import Backend, Stack
from harness.plugins import Provenance

OK, WARNING, MISSING = Finding

DEBIAN = System(
    is_debian=True,
    is_root=False,
    has_systemd=True,
    python="python3.11",
    python_prefix=Path("/usr"),
    include=Path("/usr/include/python3.11"),
)
FEDORA_ROOT = System(
    is_debian=False,
    is_root=True,
    has_systemd=False,
    python="python3.12",
    python_prefix=Path("/opt/python"),
    include=Path("/opt/python/include/python3.12"),
)

UNKNOWN = {"cpu_governor": "no scaling", "cpu_turbo": "no switch", "gpu_driver": "no driver", "gpu_models": "no driver"}


def machine(**facts: Any) -> dict[str, Any]:
    """Facts as harness.host tells them; a virtual machine of four processors where nothing else is said."""
    told = {"cpu_logical_cores": 4, "cpu_physical_cores": 2, "cpuset": "0-3", "cpu_smt": True, **facts}
    unknown = {name: reason for name, reason in UNKNOWN.items() if told.get(name) is None}
    return {**dict.fromkeys(UNKNOWN), **told, "reasons": unknown}


def stack(name: str = "pytorch", **fields: Any) -> StackEntry:
    declared = Stack(name=name, lock="p:p.lock", packages=("p",))
    return StackEntry(**{"stack": declared, "pins": (), "main_pins": (), "made": None, **fields})


def backend(name: str, image: ImageState = ImageState.READY) -> BackendEntry:
    entry = stack()
    declared = Backend(name=name, stack=entry.stack, runner="m:R", description="")
    return BackendEntry(declared, Provenance("harness-pytorch", "1.0"), entry, ImageEntry(image, None))


def compiling() -> Backend:
    return replace(backend("compile").backend, system_packages=("g++",))


MADE = stack(made=Path("/made"))


# --- software -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("version", "finding"), [((3, 10, 9), MISSING), ((3, 11, 0), OK), ((3, 14, 1), OK)])
def test_python_has_to_be_3_11_or_newer(version: tuple[int, int, int], finding: Finding) -> None:
    assert checks.python(version, DEBIAN).finding is finding


def test_a_python_that_is_too_old_is_mended_by_a_newer_one() -> None:
    assert checks.python((3, 9, 2), DEBIAN).remedy == "sudo apt-get install python3.11 python3.11-venv"


def test_without_ensurepip_no_environment_can_be_made() -> None:
    check = checks.venv(None, "ModuleNotFoundError: No module named 'ensurepip'", DEBIAN)
    assert (check.finding, check.remedy) == (MISSING, "sudo apt-get install python3.11-venv")
    assert "ensurepip" in check.seen


def test_a_remedy_is_neutral_where_packages_are_called_differently_and_needs_no_sudo_for_root() -> None:
    elsewhere = checks.venv(None, "no", FEDORA_ROOT).remedy
    assert elsewhere == "install the modules venv and ensurepip of python3.12 with your system's package manager"


def test_pip_that_comes_with_venv_is_told() -> None:
    check = checks.venv("24.0", None, DEBIAN)
    assert (check.finding, check.seen, check.remedy) == (OK, "pip 24.0 comes with venv", None)


@pytest.mark.parametrize(
    ("names", "problems", "finding", "words"),
    [
        ([], [], MISSING, "nothing to compare"),
        (["compile"], [], WARNING, "without eager"),
        (["eager"], ["plugin 'bad' cannot be imported"], WARNING, "missing"),
        (["eager", "compile"], [], OK, "compares them"),
    ],
)
def test_backends_should_be_there_with_the_one_that_makes_the_reference(
    names: list[str], problems: list[str], finding: Finding, words: str
) -> None:
    check = checks.backends([backend(name) for name in names], problems)
    assert check.finding is finding
    assert words in check.meaning
    assert all(problem in check.seen for problem in problems)
    assert (check.remedy is None) == (finding is OK)


def test_a_stack_that_is_not_made_yet_is_no_fault() -> None:
    check = checks.environments([MADE, stack("flax")])
    assert (check.finding, check.seen) == (OK, "pytorch made, flax not made yet")
    assert "1.5 GiB" in check.meaning
    assert check.facts == {"pytorch": True, "flax": False}


def test_with_every_stack_made_a_run_starts_at_once() -> None:
    assert checks.environments([MADE]).meaning == "a run starts at once"


def test_a_stack_whose_lock_is_gone_is_missing() -> None:
    check = checks.environments([MADE, stack("flax", problem="stack flax: there is no file flax.lock")])
    assert (check.finding, check.seen) == (MISSING, "stack flax: there is no file flax.lock")


NO_COMPILER = Build("g++", None, "there is no such command")
NO_HEADERS = Build("g++", "g++ 12", "x.cpp:1:10: fatal error: Python.h: No such file or directory")
NO_OPENMP = Build("g++", "g++ 12", "x.cpp:2:10: fatal error: omp.h: No such file or directory")
NO_LIBRARY = Build("g++", "g++ 12", "/usr/bin/ld: cannot find -lgomp: No such file or directory")
TOO_OLD = Build("g++", "g++ 7", "g++: error: unrecognized command line option '-std=c++20'")


@pytest.mark.parametrize(
    ("build", "on_debian", "elsewhere"),
    [
        (NO_COMPILER, "sudo apt-get install g++", "install a C++ compiler (g++) with"),
        (
            NO_HEADERS,
            "sudo apt-get install python3.11-dev",
            "reinstall python3.12 with its headers, from where it came",
        ),
        (NO_OPENMP, "sudo apt-get install g++ libgomp1", "OpenMP"),
        (NO_LIBRARY, "sudo apt-get install g++ libgomp1", "OpenMP"),
        (TOO_OLD, "sudo apt-get install g++ libgomp1", "g++ 10 or newer"),
    ],
)
def test_what_stops_the_compiler_decides_what_mends_it(build: Build, on_debian: str, elsewhere: str) -> None:
    needed = [compiling()]
    check = checks.compiler(build, needed, DEBIAN)
    assert (check.finding, check.remedy) == (MISSING, on_debian)
    assert elsewhere in str(checks.compiler(build, needed, FEDORA_ROOT).remedy)
    assert check.seen == f"g++: {build.error}"


def test_headers_of_a_python_that_is_not_debians_are_not_sought_in_debian() -> None:
    own = System(**{**vars(DEBIAN), "python_prefix": Path("/opt/py"), "include": Path("/opt/py/include/python3.11")})
    assert "/opt/py" in str(checks.compiler(NO_HEADERS, [], own).remedy)


def test_what_no_package_mends_has_no_remedy() -> None:
    assert checks.compiler(Build("g++", "g++ 12", "/results: Read-only file system"), [], DEBIAN).remedy is None


def test_a_compiler_that_no_backend_needs_is_only_a_warning() -> None:
    assert checks.compiler(NO_COMPILER, [backend("flax").backend], DEBIAN).finding is WARNING


def test_a_module_that_was_built_and_imported_is_enough() -> None:
    check = checks.compiler(Build("g++", "g++ 12.2", None), [compiling()], DEBIAN)
    assert (check.finding, check.seen, check.remedy) == (OK, "g++ 12.2", None)


# --- room -----------------------------------------------------------------------------------------------------------


def disk(free_bytes: int, error: str | None = None) -> Disk:
    return Disk(Path("/cache"), free_bytes, error)


def test_the_cache_needs_room_for_each_stack_that_is_not_made() -> None:
    two_stacks = 2 * STACK_BYTES + SPARE_BYTES
    unmade = [stack("a"), stack("b"), MADE]
    assert checks.cache_disk(disk(two_stacks), unmade).finding is OK
    assert checks.cache_disk(disk(two_stacks - 1), unmade).finding is MISSING
    assert checks.cache_disk(disk(SPARE_BYTES), [MADE]).finding is OK


def test_room_that_is_enough_for_cpu_builds_of_torch_alone_is_warned_of() -> None:
    torch = stack("a", pins=(Pin("torch", "2.13.0"),))
    for_cpu, for_cuda = STACK_BYTES + SPARE_BYTES, CUDA_STACK_BYTES + SPARE_BYTES
    assert checks.cache_disk(disk(for_cpu - 1), [torch]).finding is MISSING
    check = checks.cache_disk(disk(for_cpu), [torch])
    assert check.finding is WARNING
    assert (
        check.meaning
        == "enough: about 2.0 GiB are needed, and about 8.0 GiB where pip's index has CUDA builds of torch"
    )
    assert "CPU builds" in str(check.remedy)
    assert checks.cache_disk(disk(for_cuda), [torch]).finding is OK
    assert checks.cache_disk(disk(for_cpu), [stack("flax")]).finding is OK
    assert "7.5 GiB where pip's index has CUDA builds" in checks.environments([torch]).meaning


def test_a_disk_that_refuses_is_missing_whatever_is_free() -> None:
    check = checks.results_disk(disk(100 * GIB, "/cache is mounted noexec"))
    assert (check.finding, check.seen) == (MISSING, "/cache is mounted noexec")
    assert check.facts["free_bytes"] == 100 * GIB


def test_each_disk_has_its_own_way_to_another_folder() -> None:
    assert checks.cache_disk(disk(0), []).remedy == "export HARNESS_CACHE=/a/folder/elsewhere"
    assert checks.results_disk(disk(0)).remedy == "export BENCHMARK_RESULTS_DIR=/a/folder/elsewhere"


@pytest.mark.parametrize(
    ("available_bytes", "finding"),
    [(WORKER_BYTES - 1, MISSING), (5 * WORKER_BYTES - 1, WARNING), (5 * WORKER_BYTES, OK)],
)
def test_memory_is_weighed_against_the_workers_of_a_block(available_bytes: int, finding: Finding) -> None:
    assert checks.memory(available_bytes, None, 5).finding is finding


def test_a_memory_limit_is_told() -> None:
    assert checks.memory(GIB, 2 * GIB, 1).seen == "1.0 GiB available, of a limit of 2.0 GiB"


# --- noise ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cpuset", "limit", "finding", "seen"),
    [
        ("0-3", None, OK, "4 of 4 processors may be used"),
        ("0,2-3", None, OK, "3 of 4 processors may be used"),
        ("2", None, WARNING, "1 of 4 processors may be used"),
        (None, None, OK, "4 of 4 processors may be used"),
        ("0-3", 1.5, WARNING, "4 of 4 processors may be used, for the time of 1.5"),
        ("0-1", 2.0, OK, "2 of 4 processors may be used, for the time of 2"),
    ],
)
def test_processors_should_be_several_and_whole(
    cpuset: str | None, limit: float | None, finding: Finding, seen: str
) -> None:
    check = checks.processors(machine(cpuset=cpuset), limit)
    assert (check.finding, check.seen) == (finding, seen)


@pytest.mark.parametrize(("governor", "finding"), [("performance", OK), ("powersave", WARNING), (None, OK)])
def test_a_governor_that_follows_the_load_is_a_warning(governor: str | None, finding: Finding) -> None:
    assert checks.governor(machine(cpu_governor=governor), DEBIAN).finding is finding


def test_an_unknown_governor_is_null_with_its_reason() -> None:
    check = checks.governor(machine(), DEBIAN)
    assert check.facts["cpu_governor"] is None
    assert check.facts["reasons"]["cpu_governor"] == "no scaling"
    assert check.seen == "unknown: no scaling"


@pytest.mark.parametrize(("one_minute", "finding"), [(0.9, OK), (1.1, WARNING)])
def test_the_load_is_judged_by_processor(one_minute: float, finding: Finding) -> None:
    assert checks.load((one_minute, 9.0, 9.0), 4).finding is finding


@pytest.mark.parametrize(("spread", "finding"), [(0.029, OK), (0.031, WARNING)])
def test_arithmetic_should_be_as_steady_as_a_warm_up_has_to_be(spread: float, finding: Finding) -> None:
    assert checks.steadiness(Steadiness(0.005, spread, 60)).finding is finding


# --- devices and engines --------------------------------------------------------------------------------------------

H200 = {"gpu_driver": "550.54.15", "gpu_models": ["NVIDIA H200"]}


@pytest.mark.parametrize(
    ("facts", "cards", "has_device", "finding", "remedy"),
    [
        ({}, 0, False, OK, None),
        ({}, 1, False, WARNING, "sudo apt-get install nvidia-driver"),
        (H200, 1, False, WARNING, "start the container with --gpus all"),
        (H200, 1, True, OK, None),
    ],
)
def test_a_gpu_wants_a_driver_and_a_visible_device(
    facts: dict[str, Any], cards: int, has_device: bool, finding: Finding, remedy: str | None
) -> None:
    check = checks.nvidia(machine(**facts), cards, has_device, DEBIAN)
    assert (check.finding, check.remedy) == (finding, remedy)


def test_no_driver_is_null_with_its_reason() -> None:
    facts = checks.nvidia(machine(), 0, False, DEBIAN).facts
    assert (facts["gpu_driver"], facts["reasons"]["gpu_driver"]) == (None, "no driver")


@pytest.mark.parametrize(
    ("engine", "remedy"),
    [
        (Engine(True, "28.2", None), None),
        (Engine(False, None, "there is no such command"), "sudo apt-get install docker.io"),
        (Engine(True, None, "Cannot connect to the Docker daemon"), "sudo systemctl start docker"),
        (
            Engine(True, None, "permission denied while trying to connect"),
            "sudo usermod -aG docker $USER  # then log in anew",
        ),
    ],
)
def test_without_docker_backends_run_in_environments_and_nothing_is_missing(engine: Engine, remedy: str | None) -> None:
    check = checks.docker(engine, [backend("eager")], DEBIAN)
    assert (check.finding, check.remedy) == (WARNING if remedy else OK, remedy)
    assert ("virtual environments" in check.meaning) == (remedy is not None)


def test_an_engine_that_cannot_limit_its_containers_is_not_used_and_how_to_mend_it_is_told() -> None:
    check = checks.docker(Engine(True, "28.2", None, ("processors",)), [backend("eager")], DEBIAN)
    assert check.finding is WARNING
    assert check.seen == "engine 28.2 answers, but cannot limit processors of its containers"
    assert "virtual environments" in check.meaning
    assert "Rootless engines" in str(check.remedy)
    assert check.facts["cannot_limit"] == ["processors"]


def test_an_image_that_is_not_ready_is_told_and_is_no_fault() -> None:
    entries = [backend("eager"), backend("sdpa", ImageState.STALE), backend("flax", ImageState.NOT_BUILT)]
    check = checks.docker(Engine(True, "28.2", None), entries, DEBIAN)
    assert check.finding is OK
    assert check.meaning.endswith("sdpa (stale), flax (not built)")
    assert check.facts["images"] == {"eager": "ready", "sdpa": "stale", "flax": "not built"}


# --- all together ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("findings", "expected"), [([], True), ([OK, WARNING], True), ([OK, MISSING], False), ([MISSING, WARNING], False)]
)
def test_only_what_is_missing_keeps_the_quick_matrix_from_running(findings: Sequence[Finding], expected: bool) -> None:
    assert can_run([Check("x", finding, "seen", "meaning") for finding in findings]) is expected
