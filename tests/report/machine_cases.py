"""Inputs of the golden tests for `harness backends` and `harness doctor`; see cases.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.doctor.checks import Check, Finding
from harness.images import Image
from harness.inventory import BackendEntry, ImageEntry, ImageState, Pin, StackEntry
from harness.model import Backend, Option, Stack
from harness.plugins import Broken, Provenance
from harness.report.backends import render_backend, render_backends
from harness.report.doctor import render_checks
from harness.report.findings import render_findings
from harness.report.images import render_images
from harness.testing import Finding as Verdict

PYTORCH = StackEntry(
    Stack("pytorch", "harness_pytorch:pytorch.lock", ("harness_pytorch",), ("g++", "libpython3-dev")),
    pins=(Pin("numpy", "2.4.6"), Pin("sympy", "1.14.0"), Pin("torch", "2.13.0"), Pin("transformers", "5.24.0")),
    main_pins=(Pin("torch", "2.13.0"), Pin("transformers", "5.24.0")),
    made=Path("/home/someone/.cache/backend-harness/environments/base/pytorch-fa362a9427743c22"),
)
MANY = StackEntry(
    Stack("a_stack_of_a_long_name", "many:many.lock", ("many",)),
    pins=tuple(Pin(f"distribution-{number}", f"{number}.0") for number in range(12)),
    main_pins=tuple(Pin(f"distribution-{number}", f"{number}.0") for number in range(12)),
    made=None,
)
GONE = StackEntry(
    Stack("gone", "gone:gone.lock", ("gone",)),
    pins=(),
    main_pins=(),
    made=None,
    problem="stack gone: it names 'gone', which is no import package installed here",
)
OPTIONS = (
    Option("mode", str, None, "what compile time is spent on", ("default", "max-autotune")),
    Option("threads_of_the_session", int, 2, ""),
    Option("fullgraph", bool, False, "true: a graph break is an error, and with that the end of the launch"),
    Option("share", float, 0.5, "part of the memory", (0.25, 0.5, 1.0)),
)


IMAGES = {
    "compile": ImageEntry(ImageState.STALE, "backend-harness/compile:cpu", "the worker's code has changed"),
    "eager": ImageEntry(ImageState.READY, "backend-harness/eager:cpu"),
}
NO_ENGINE = ImageEntry(ImageState.UNKNOWN, None, "there is no command `docker`")


def entry(name: str, stack: StackEntry, **fields: Any) -> BackendEntry:
    plugin = fields.pop("plugin", Provenance("harness-pytorch", "0.1.0"))
    declared = {"runner": "harness_pytorch.runner:EagerRunner", "description": "the plainest path", **fields}
    return BackendEntry(Backend(name=name, stack=stack.stack, **declared), plugin, stack, IMAGES.get(name, NO_ENGINE))


COMPILE = entry(
    "compile",
    PYTORCH,
    description="torch.compile\nwith \x1b[31mInductor\x1b[0m, " + "told at length " * 6,
    options=OPTIONS,
    expects={"attn_implementation": "sdpa", "compiled": True, "graph_breaks": 0},
    system_packages=("g++", "libpython3-dev"),
    dockerfile="harness_pytorch:Dockerfile",
    model_types=("bert", "gpt2"),
    runs_encoder_decoders=False,
)
PLAIN = entry("plain", MANY, description="", plugin=Provenance(None, None))


def backends() -> str:
    return render_backends([COMPILE, entry("eager", PYTORCH), entry("lost", GONE), PLAIN])


def backend() -> str:
    return render_backend(COMPILE)


def backend_of_nothing() -> str:
    return render_backend(entry("lost", GONE, description="", plugin=Provenance(None, None)))


BROKEN = (
    Broken(
        "flax",
        Provenance("harness-flax", "0.1.0"),
        None,
        "plugin 'flax' (harness-flax 0.1.0) cannot be imported (ModuleNotFoundError: No module named 'jax'); its backends are "
        "missing, reinstall or remove it",
    ),
    Broken(
        "many",
        Provenance("harness-many", "2.0"),
        "many_b",
        "plugin 'many' (harness-many 2.0): the backend 'many_b': the option 'x' is declared twice",
    ),
)


def broken_backends() -> str:
    return render_backends([entry("eager", PYTORCH)], broken=BROKEN)


def no_backends() -> str:
    return render_backends([])


CHECKS = (
    Check("Python", Finding.OK, "Python 3.11.7", "environments are made with it"),
    Check(
        "C++ compiler",
        Finding.MISSING,
        "g++: x.cpp:1:10: fatal error: Python.h:\n No such file or directory",
        "torch.compile cannot build its kernels (backend compile)",
        "sudo apt-get install python3.11-dev",
    ),
    Check("load", Finding.WARNING, "load average 3.29", "something else is running", "end it"),
    Check(
        "Docker",
        Finding.WARNING,
        "permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock",
        "nothing for now: images are not used yet, stacks run in virtual environments",
        "sudo usermod -aG docker $USER  # then log in anew",
    ),
)


def doctor() -> str:
    return render_checks(CHECKS)


def doctor_without_findings() -> str:
    return render_checks(CHECKS[:1])


def doctor_with_a_warning() -> str:
    return render_checks([CHECKS[0], CHECKS[2]])


def images() -> str:
    return render_images(
        [
            Image("eager", "cpu", "backend-harness/eager:cpu", "sha256:1", {}, 1_302_001_635, (), 34.56),
            Image("compile", "cuda", "backend-harness/compile:cuda", "sha256:2", {}, 7_000_000_000, (), 1234.5),
            Image("flax", "cpu", "backend-harness/flax:cpu", "sha256:3", {}, 999_499, ()),
        ]
    )


FINDINGS = (
    Verdict("ends", True, "the launch went to its end"),
    Verdict("facts", False, "threads: asked for 1, in effect 2. Tell in facts() what the framework says is in effect"),
    Verdict("parity", None, "there is no eager to compare with: install harness-pytorch"),
)


def findings() -> str:
    return render_findings("mine", FINDINGS)


def findings_of_a_good_one() -> str:
    return render_findings("mine", FINDINGS[:1])


CASES = (
    backends, backend, backend_of_nothing, no_backends, doctor, doctor_without_findings, doctor_with_a_warning, images,
    findings, findings_of_a_good_one, broken_backends,
)  # fmt: skip
