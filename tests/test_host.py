"""Facts of the machine and of the checkout."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from harness import host
from harness.host import Unknown

X86 = """\
processor\t: 0
vendor_id\t: AuthenticAMD
cpu family\t: 25
model\t\t: 17
model name\t: AMD EPYC 9B14 96-Core Processor
flags\t\t: fpu vme hypervisor lahf_lm
cpu cores\t: 2

processor\t: 1
model name\t: AMD EPYC 9B14 96-Core Processor
"""
ARM_WITHOUT_NAME = """\
processor\t: 0
BogoMIPS\t: 50.00
CPU implementer\t: 0x41
CPU architecture: 8
CPU part\t: 0xd0c

processor\t: 1
CPU implementer\t: 0x41
CPU part\t: 0xd0c
"""
ARM_BIG_AND_LITTLE = ARM_WITHOUT_NAME.replace("0xd0c\n\n", "0xd03\n\n")
POWER = "processor\t: 0\ncpu\t\t: POWER9, altivec supported\nclock\t\t: 3800.000000MHz\n"

NVIDIA = """\
NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023
GCC version:  gcc version 11.4.0
"""
NVIDIA_OPEN = """\
NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.15  Release Build  (dvs-builder@U16)
GCC version:  gcc version 12.2.0 (Debian 12.2.0-14)
"""


@pytest.mark.parametrize(
    ("cpuinfo", "model"),
    [
        (X86, "AMD EPYC 9B14 96-Core Processor"),
        (ARM_WITHOUT_NAME, "ARM implementer 0x41 part 0xd0c"),
        (ARM_BIG_AND_LITTLE, "ARM implementer 0x41 part 0xd03 + 0xd0c"),
        (POWER, "POWER9, altivec supported"),
    ],
)
def test_a_processor_is_named_by_what_the_kernel_tells_of_it(cpuinfo: str, model: str) -> None:
    assert host.parse_cpu_model(cpuinfo) == model


def test_a_processor_without_any_name_is_unknown() -> None:
    with pytest.raises(Unknown, match="names no processor"):
        host.parse_cpu_model("processor : 0\nhart : 0\n")


@pytest.mark.parametrize(("text", "version"), [(NVIDIA, "535.104.05"), (NVIDIA_OPEN, "550.54.15")])
def test_the_driver_version_is_read_from_both_kinds_of_kernel_module(text: str, version: str) -> None:
    assert host.parse_nvidia_driver(text) == version


@pytest.mark.parametrize(
    ("cpus", "text"), [({0}, "0"), ({0, 1}, "0-1"), ({3, 1, 2, 8}, "1-3,8"), ({0, 2, 4}, "0,2,4"), (set(), "")]
)
def test_processor_numbers_are_written_as_the_kernel_writes_them(cpus: set[int], text: str) -> None:
    assert host.format_cpus(cpus) == text


def test_the_choice_that_holds_is_the_one_in_brackets() -> None:
    assert host.parse_choice("always [madvise] never\n") == "madvise"
    with pytest.raises(Unknown, match="with nothing in brackets"):
        host.parse_choice("always\n")


def test_a_virtual_machine_shows_on_x86_alone() -> None:
    assert host.parse_virtualised(X86)
    assert not host.parse_virtualised(X86.replace(" hypervisor", ""))
    with pytest.raises(Unknown, match="only x86"):
        host.parse_virtualised(ARM_WITHOUT_NAME)


@pytest.mark.parametrize(("mark", "kind"), [(".dockerenv", "docker"), ("run/.containerenv", "podman"), ("etc", "none")])
def test_the_container_around_the_host_is_known_by_its_engines_mark(tmp_path: Path, mark: str, kind: str) -> None:
    assert host.host_facts(_machine(tmp_path, {mark: ""}))["container"] == kind


class _Driver:
    """NVML where there is a driver for CUDA 12.8."""

    NVMLError = host.pynvml.NVMLError

    def nvmlInit(self) -> None:  # noqa: N802 - NVML's names
        """Here."""

    nvmlShutdown = nvmlInit  # noqa: N815

    def nvmlSystemGetCudaDriverVersion_v2(self) -> int:  # noqa: N802
        return 12080


def test_the_newest_cuda_of_the_driver_is_asked_of_nvml_where_there_is_a_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = _machine(tmp_path, {"proc/driver/nvidia/version": NVIDIA_OPEN})
    assert host.host_facts(root)["reasons"]["gpu_driver_cuda"].startswith("NVML: ")
    monkeypatch.setattr(host, "pynvml", _Driver())
    assert host.host_facts(root)["gpu_driver_cuda"] == "12.8"
    assert host.host_facts(tmp_path / "elsewhere")["reasons"]["gpu_driver_cuda"] == "no NVIDIA driver is loaded"


def _machine(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_switches_and_gpus_are_read_where_the_machine_has_them(tmp_path: Path) -> None:
    first_cpu = min(os.sched_getaffinity(0))
    root = _machine(
        tmp_path,
        {
            "proc/cpuinfo": X86,
            f"sys/devices/system/cpu/cpu{first_cpu}/cpufreq/scaling_governor": "performance\n",
            "sys/devices/system/cpu/smt/active": "1\n",
            "sys/devices/system/cpu/intel_pstate/no_turbo": "1\n",
            "sys/devices/system/node/node0/cpulist": "0-1\n",
            "sys/devices/system/node/node1/cpulist": "2-3\n",
            "sys/kernel/mm/transparent_hugepage/enabled": "[always] madvise never\n",
            "proc/driver/nvidia/version": NVIDIA_OPEN,
            "proc/driver/nvidia/gpus/0000:17:00.0/information": "Model: \t\t NVIDIA H200\nIRQ:   \t\t 42\n",
            "proc/driver/nvidia/gpus/0000:65:00.0/information": "Model: \t\t NVIDIA H200\nIRQ:   \t\t 43\n",
        },
    )
    facts = host.host_facts(root)
    expected = {
        "cpu_model": "AMD EPYC 9B14 96-Core Processor",
        "cpu_governor": "performance",
        "cpu_smt": True,
        "cpu_turbo": False,
        "numa_nodes": 2,
        "transparent_hugepages": "always",
        "virtualised": True,
        "gpu_driver": "550.54.15",
        "gpu_models": ["NVIDIA H200", "NVIDIA H200"],
    }
    assert facts.items() >= expected.items()


def test_turbo_is_read_from_the_switch_of_other_drivers_too(tmp_path: Path) -> None:
    root = _machine(tmp_path, {"sys/devices/system/cpu/cpufreq/boost": "1\n"})
    assert host.host_facts(root)["cpu_turbo"] is True


def test_a_fact_that_is_unknown_is_none_with_a_reason(tmp_path: Path) -> None:
    root = _machine(tmp_path, {"sys/devices/system/cpu/smt/active": "maybe\n"})
    facts = host.host_facts(root)
    absent = {"cpu_model", "cpu_governor", "cpu_smt", "cpu_turbo", "gpu_models", "gpu_driver", "gpu_driver_cuda"}
    unknown = absent | {"numa_nodes", "transparent_hugepages", "virtualised"}
    assert {name for name in unknown if facts[name] is None} == unknown
    assert unknown <= facts["reasons"].keys()
    assert facts["reasons"]["gpu_driver"] == "no NVIDIA driver is loaded"
    assert facts["reasons"]["cpu_smt"] == "/sys says 'maybe', not 0 or 1"


def test_this_machine_tells_its_facts_and_every_none_has_its_reason() -> None:
    facts = host.host_facts()
    assert facts["cpuset"] == host.format_cpus(os.sched_getaffinity(0))
    assert facts["memory_bytes"] > 1 << 20
    assert facts["reasons"].keys() == {name for name, value in facts.items() if value is None}


def test_the_host_hash_moves_with_what_decides_comparability_alone() -> None:
    facts = host.host_facts()
    same = host.host_hash({**facts, "memory_bytes": 1, "python": "3.99", "reasons": {}}, {})
    assert same == host.host_hash(facts, {})
    deciding = ("cpu_model", "cpuset", "cpu_governor", "transparent_hugepages", "numa_nodes", "kernel", "gpu_driver")
    changed = [{**facts, name: "other"} for name in deciding]
    hashes = {host.host_hash(facts, {}), host.host_hash(facts, {"room": 21}), *(host.host_hash(f, {}) for f in changed)}
    assert len(hashes) == 2 + len(deciding)


def test_the_page_names_every_fact_and_says_which_decide_comparability() -> None:
    page = (Path(__file__).parents[1] / "docs/reference/results.md").read_text()
    rows = re.findall(
        r"^\| `(\w+)` \| (yes|no) \|", page.partition("\n## Host\n")[2].partition("\n## ")[0], re.MULTILINE
    )
    facts = host.host_facts()
    assert {name for name, _ in rows} == facts.keys() - {"reasons"}
    for name, decides in rows:
        changed = host.host_hash({**facts, name: "other"}, {}) != host.host_hash(facts, {})
        assert changed == (decides == "yes"), name


# --- git ------------------------------------------------------------------------------------------------------------


def _git(folder: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=trunk")
    subprocess.run(["git", *identity, "-C", str(folder), *arguments], check=True, capture_output=True)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "file").write_text("one")
    _git(tmp_path, "init")
    _git(tmp_path, "add", "file")
    _git(tmp_path, "commit", "-m", "Say one\n\nAt length.")
    return tmp_path


def test_a_checkout_tells_commit_branch_and_message(checkout: Path) -> None:
    facts = host.git_facts(checkout)
    assert len(facts.pop("commit")) == 40
    assert facts == {"branch": "trunk", "message": "Say one", "dirty": False, "reasons": {}}


def test_a_checkout_is_dirty_by_changed_files_but_not_by_new_ones(checkout: Path) -> None:
    (checkout / "results").write_text("new")
    assert host.git_facts(checkout)["dirty"] is False
    (checkout / "file").write_text("two")
    assert host.git_facts(checkout)["dirty"] is True


def test_a_checkout_without_a_branch_says_so(checkout: Path) -> None:
    _git(checkout, "checkout", "--detach")
    facts = host.git_facts(checkout)
    assert facts["branch"] is None
    assert facts["reasons"] == {"branch": "a commit is checked out, no branch"}


def test_a_git_hook_asking_for_another_folder_is_answered_for_that_folder(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = host.git_facts(checkout)
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    assert host.git_facts(checkout) == expected


def test_outside_a_repository_every_git_fact_is_none_with_gits_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    facts = host.git_facts(tmp_path)
    assert {facts[name] for name in ("commit", "branch", "message", "dirty")} == {None}
    assert "not a git repository" in facts["reasons"]["commit"]


def test_without_git_every_git_fact_is_none_and_says_so(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(checkout))
    assert host.git_facts(checkout)["reasons"]["commit"] == "git is not installed"
