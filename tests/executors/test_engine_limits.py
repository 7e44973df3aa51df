"""Which limits an engine cannot set for its containers, and what a run makes of it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from engine_server import engine_that_tells

from harness.engine import Engine
from harness.executors import choice
from harness.executors.venv import VenvExecutor
from harness.model import HarnessError

ROOT, OWN = "", f"user.slice/user-{os.getuid()}.slice/user@{os.getuid()}.service"
ROOTLESS = {"SecurityOptions": ["name=seccomp,profile=default", "name=rootless"]}
ALL = "cpuset cpu io memory pids"


@pytest.mark.parametrize(
    ("info", "controllers", "unlimited"),
    [
        ({}, {}, ()),  # an old engine
        ({"CgroupVersion": "1", "MemoryLimit": True, "CPUSet": True, "PidsLimit": True}, {}, ()),
        ({"CgroupVersion": "1", "MemoryLimit": False, "CPUSet": True, "PidsLimit": True}, {}, ("memory",)),
        ({"CgroupVersion": "2", "CPUSet": False}, {ROOT: ALL}, ()),  # podman 5.4, whose containers have a cpuset
        ({"CgroupVersion": "2"}, {ROOT: "cpuset cpu io pids"}, ("memory",)),
        ({"CgroupVersion": "2", **ROOTLESS}, {ROOT: ALL, OWN: "cpu memory pids"}, ("processors",)),
        ({"CgroupVersion": "2", **ROOTLESS}, {ROOT: ALL, OWN: ALL}, ()),
        ({"CgroupVersion": "2", **ROOTLESS}, {ROOT: ALL}, ()),  # no services of the user's: it cannot be told
        (
            {"CgroupVersion": "2", "CgroupDriver": "none", **ROOTLESS},
            {ROOT: ALL},
            ("memory", "processors", "processes"),
        ),
        ({"CgroupVersion": "1", **ROOTLESS}, {}, ("memory", "processors", "processes")),
    ],
)
def test_an_engine_limits_what_it_has_controllers_for(
    tmp_path: Path, info: Mapping[str, Any], controllers: Mapping[str, str], unlimited: tuple[str, ...]
) -> None:
    for group, names in controllers.items():
        folder = tmp_path / "sys/fs/cgroup" / group
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "cgroup.controllers").write_text(f"{names}\n")
    with engine_that_tells(tmp_path, **info) as host:
        assert Engine(host, "1.41").cannot_limit(tmp_path) == unlimited


@pytest.fixture
def lax_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    """One that would start containers without two of their limits."""
    (tmp_path / "docker").write_text("#!/bin/sh\n")
    (tmp_path / "docker").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with engine_that_tells(tmp_path, MemoryLimit=False, CPUSet=False) as host:
        monkeypatch.setenv("DOCKER_HOST", host)
        yield Engine.connect()


def test_containers_without_their_limits_are_refused_and_what_to_do_is_said(lax_engine: Engine) -> None:
    with pytest.raises(
        HarnessError,
        match=r"cannot limit memory, processors of its containers: .*Rootless engines; or use --executor venv",
    ):
        choice.docker_executor(lax_engine, lambda _: None)


@pytest.mark.usefixtures("lax_engine")
def test_where_nobody_asked_for_containers_there_are_environments_instead_and_why_is_said() -> None:
    told: list[str] = []
    assert isinstance(choice.chosen_executor([], told.append, told.append), VenvExecutor)
    assert "executor venv" in told[0]
    assert "cannot limit memory, processors of its containers" in told[0]
