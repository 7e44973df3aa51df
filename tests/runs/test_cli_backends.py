"""`harness backends` and `harness doctor`, as users type them."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from run_bench import Bench


def told(bench: Bench, *arguments: str, code: int = 0) -> str:
    done = bench.harness(*arguments)
    assert done.returncode == code, (done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    return done.stdout


def test_backends_are_listed_by_name_with_stack_plugin_and_description(bench: Bench) -> None:
    lines = [line.split() for line in told(bench, "backends").splitlines()]
    names = [words[0] for words in lines if len(words) > 2 and words[1] in ("pytorch", "onnxruntime", "fake")]
    assert names == sorted(names)
    assert {"compile", "eager", "fake", "onnxruntime"} <= set(names)
    (eager,) = (words for words in lines if words[:2] == ["eager", "pytorch"])
    assert eager[-2:] == ["harness-pytorch", "0.1.0"]
    assert ["sleeps", "instead", "of", "computing"] in lines


def test_backends_as_json_is_a_list_with_options_pins_and_state(bench: Bench) -> None:
    listed = {each["name"]: each for each in json.loads(told(bench, "backends", "--format", "json"))}
    assert listed["eager"]["plugin"] == {"distribution": "harness-pytorch", "version": "0.1.0"}
    assert {"name": "torch", "version": "2.13.0"} in listed["eager"]["stack"]["main_pins"]
    assert listed["eager"]["expects"]["attn_implementation"] == "eager"
    assert listed["fake"]["plugin"] == {"distribution": None, "version": None}
    assert listed["fake"]["options"][0] == {
        "name": "call_ms",
        "type": "float",
        "default": None,
        "choices": None,
        "help": "how long one call takes (null: 1)",
    }


def test_a_stack_is_made_once_a_run_has_made_it_and_asking_makes_nothing(bench: Bench) -> None:
    def is_made() -> bool:
        stack = json.loads(told(bench, "backends", "fake", "--format", "json"))["stack"]
        assert (stack["environment"] is None) == bool(stack["reason"])
        return stack["environment"] is not None and Path(stack["environment"], "bin", "python").exists()

    bench.write_matrix(protocol={"blocks": 1})
    assert bench.run("--only", "backend == 'fake'").returncode == 0
    assert is_made()
    (bench.cache / "environments").unlink()  # a link to where the user's are
    assert not is_made()
    assert not (bench.cache / "environments").exists()


def test_one_backend_is_told_in_full(bench: Bench) -> None:
    text = " ".join(told(bench, "backends", "compile").split())
    for words in (
        "torch.compile with Inductor",
        "harness-pytorch 0.1.0",
        "g++, libpython3-dev",
        "compiled: true",
        "mode str, default null (left to the framework), one of default | reduce-overhead",
        "sympy==",
    ):
        assert words in text


def test_a_misspelt_backend_is_refused_with_the_nearest(bench: Bench) -> None:
    for arguments in (["backends", "eagr"], ["backends", "eagr", "--format", "json"]):
        done = bench.harness(*arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert "there is no backend 'eagr'; did you mean 'eager'?" in done.stderr
        assert len(done.stderr.splitlines()) == 1


@pytest.fixture
def broken_plugin(bench: Bench) -> None:
    """An installed plugin that cannot be imported."""
    info = bench.folder / "site" / "harness_broken-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: harness-broken\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[harness]\nbroken = no_such_framework\n")
    bench.variables["PYTHONPATH"] = f"{bench.environment()['PYTHONPATH']}:{info.parent}"


@pytest.mark.usefixtures("broken_plugin")
def test_a_plugin_that_cannot_be_imported_is_a_warning_and_the_rest_is_listed(bench: Bench) -> None:
    done = bench.harness("backends", "--format", "json")
    assert done.returncode == 0
    assert "harness: warning: plugin 'broken' (harness-broken 1.0) cannot be imported" in done.stderr
    assert "eager" in [each["name"] for each in json.loads(done.stdout)]
    checks = checks_of(bench, "doctor", "--format", "json")
    assert checks["backends"]["finding"] == "warning"
    assert "harness-broken" in checks["backends"]["seen"]


def checks_of(bench: Bench, *arguments: str) -> dict[str, dict[str, Any]]:
    done = bench.harness(*arguments)
    answer = json.loads(done.stdout)
    is_missing = any(check["finding"] == "missing" for check in answer["checks"])
    assert (done.returncode, answer["can_run"]) == ((1, False) if is_missing else (0, True)), done.stderr
    return {check["name"]: check for check in answer["checks"]}


def test_the_doctor_looks_at_everything_and_every_finding_has_its_words(bench: Bench) -> None:
    checks = checks_of(bench, "doctor", "--format", "json")
    assert list(checks) == [
        "Python",
        "venv and pip",
        "backends",
        "environments",
        "C++ compiler",
        "cache disk",
        "results disk",
        "memory",
        "processors",
        "governor",
        "load",
        "steadiness",
        "NVIDIA driver",
        "Docker",
    ]
    assert all(check["seen"] and check["meaning"] for check in checks.values())
    assert all(check["finding"] == "ok" or check["remedy"] for check in checks.values())
    assert checks["Python"]["facts"]["version"] == ".".join(map(str, sys.version_info[:3]))
    assert checks["results disk"]["facts"]["folder"] == str(bench.results)
    assert checks["cache disk"]["facts"]["folder"] == str(bench.cache)


def test_the_doctor_writes_nothing(bench: Bench) -> None:
    before = sorted(bench.folder.rglob("*"))
    bench.harness("doctor")
    assert sorted(bench.folder.rglob("*")) == before


def test_a_missing_compiler_is_exit_code_1_and_says_what_mends_it(bench: Bench) -> None:
    bench.variables["CXX"] = str(bench.folder / "no" / "g++")
    text = " ".join(told(bench, "doctor", code=1).split())
    assert "missing C++ compiler" in text
    assert "there is no such command" in text
    assert "→ " in text
    assert "The quick matrix cannot run here" in text


def test_a_results_folder_that_is_a_file_is_missing(bench: Bench) -> None:
    bench.results.write_text("mine")
    checks = checks_of(bench, "doctor", "--format", "json")
    assert checks["results disk"]["finding"] == "missing"
    assert "is a file" in checks["results disk"]["seen"]
    elsewhere = checks_of(bench, "doctor", "--results", str(bench.folder / "other"), "--format", "json")
    assert elsewhere["results disk"]["finding"] == "ok"


def test_without_docker_the_doctor_says_that_nothing_is_lost(bench: Bench) -> None:
    tools = bench.folder / "tools"
    tools.mkdir()
    for name in ("g++", "git"):
        if found := shutil.which(name):
            (tools / name).symlink_to(found)
    bench.variables["PATH"] = str(tools)
    docker = checks_of(bench, "doctor", "--format", "json")["Docker"]
    assert (docker["finding"], docker["seen"]) == ("warning", "there is no command `docker`")
    assert "virtual environments" in docker["meaning"]
