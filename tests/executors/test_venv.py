"""The venv executor, with real environments of a tiny stack and real hosts that are killed."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from tiny_stack import Plugin, SlowSource

from harness.executors.base import LaunchSpec
from harness.executors.venv import VenvExecutor
from harness.model import HarnessError, Status

PROVIDE = textwrap.dedent("""\
    import sys
    from pathlib import Path
    from harness.executors.venv import VenvExecutor
    from harness.model import Backend, Stack
    stack = Stack(name="tiny", lock="tiny_plugin:tiny.lock", packages=("tiny_plugin",))
    backend = Backend(name="tiny", stack=stack, runner="tiny_plugin.runner:Runner", description="")
    VenvExecutor(Path(sys.argv[1])).provide(backend, lambda line: print(line, flush=True))
    """)
LIMIT_S = 60.0


def silent(line: str) -> None:
    """Progress that nobody reads."""


def wait_until(what: Callable[[], object]) -> None:
    give_up_at = time.monotonic() + LIMIT_S
    while not what():
        assert time.monotonic() < give_up_at, "waited too long"
        time.sleep(0.02)


def is_running(pid: int) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


@contextlib.contextmanager
def host(root: Path) -> Iterator[subprocess.Popen[str]]:
    """Another run of the harness that asks for the stack."""
    argv = [sys.executable, "-c", PROVIDE, str(root)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        yield process
        process.kill()


def run(python: Path, code: str) -> str:
    return subprocess.run([python, "-I", "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def leftovers(root: Path) -> list[Path]:
    return list(root.glob("*/.building-*"))


# --- providing ------------------------------------------------------------------------------------------------------


def test_a_stack_is_made_once_with_progress_and_found_again_in_silence(root: Path, plugin: Plugin) -> None:
    plugin.write("tiny.lock", (plugin.folder / "tiny_plugin/tiny.lock").read_text() + "# made once\n")
    first: list[str] = []
    again: list[str] = []
    made = VenvExecutor(root).provide(plugin.backend, first.append)
    found = VenvExecutor(root).provide(plugin.backend, again.append)
    assert first == [
        "tiny: making an environment from tiny.lock, once",
        "tiny: collecting tiny_dependency (1 of 1)",
        "tiny: installing 1 packages",
    ]
    assert again == []
    assert found == made


def test_a_stack_that_is_not_made_is_found_out_without_making_it(tmp_path: Path, root: Path, plugin: Plugin) -> None:
    untouched = tmp_path / "environments"
    assert VenvExecutor(untouched).made(plugin.stack) is None
    assert not untouched.exists()
    provided = VenvExecutor(root).provide(plugin.backend, silent)
    assert VenvExecutor(root).made(plugin.stack) == Path(provided.facts["base"])
    plugin.write("tiny.lock", (plugin.folder / "tiny_plugin/tiny.lock").read_text() + "# changed\n")
    assert VenvExecutor(root).made(plugin.stack) is None


def test_a_kind_of_device_with_a_lock_of_its_own_has_an_environment_of_its_own(
    root: Path, plugin: Plugin, launch: LaunchSpec
) -> None:
    lock = (plugin.folder / "tiny_plugin/tiny.lock").read_text()
    plugin.write("tiny-cuda.lock", lock.replace("==1.0", "==2.0"))
    stack = dataclasses.replace(plugin.stack, device_locks={"cuda": "tiny_plugin:tiny-cuda.lock"})
    backend = dataclasses.replace(plugin.backend, stack=stack)
    executor = VenvExecutor(root)
    for device, version in (("cpu", "1.0"), ("cuda", "2.0")):
        provided = executor.provide(backend, silent, device)
        assert provided.facts["lock"] == stack.lock_for(device)
        command = executor.command(dataclasses.replace(launch, backend=backend, device=device))
        assert run(Path(command[0]), "import tiny_dependency; print(tiny_dependency.VERSION)") == version


def test_the_environment_has_lock_worker_and_plugin_and_nothing_of_the_host(root: Path, plugin: Plugin) -> None:
    provided = VenvExecutor(root).provide(plugin.backend, silent)
    code = """
import importlib.util as u, harness.protocol, harness.worker, tiny_plugin.runner, tiny_dependency, sys
seen = [name for name in ("pydantic", "pluggy", "harness.model", "harness.executors", "pytest") if u.find_spec(name)]
print(tiny_dependency.VERSION, harness.protocol.__file__.startswith(sys.prefix), seen)
"""
    assert run(provided.python, code) == "1.0 True []"


def test_facts_tell_what_the_environment_is_made_of(root: Path, plugin: Plugin) -> None:
    facts = VenvExecutor(root).provide(plugin.backend, silent).facts
    assert facts["lock"] == "tiny_plugin:tiny.lock"
    assert facts["python"] == ".".join(str(part) for part in sys.version_info[:3])
    assert facts["installed"]["tiny_dependency"] == "1.0"
    assert facts["plugin_versions"] == {"tiny_plugin": None}
    assert Path(facts["folder"]).is_dir()
    assert {"lock_sha256", "platform", "worker_sha256", "plugin_sha256", "base"} <= facts.keys()


def test_our_code_is_compiled_before_the_first_launch(root: Path, plugin: Plugin) -> None:
    plugin.write("fresh.py", "")
    overlay = Path(VenvExecutor(root).provide(plugin.backend, silent).facts["folder"])
    compiled = {path.name.partition(".")[0] for path in overlay.rglob("__pycache__/*.pyc")}
    assert {"fresh", "protocol", "api"} <= compiled


def test_changed_code_gives_a_new_overlay_on_the_same_base(root: Path, plugin: Plugin) -> None:
    before = VenvExecutor(root).provide(plugin.backend, silent)
    plugin.write("runner.py", "WORDS = 'changed'\n")
    after = VenvExecutor(root).provide(plugin.backend, silent)
    assert after.facts["base"] == before.facts["base"]
    assert after.stack_hash != before.stack_hash
    assert run(after.python, "import tiny_plugin.runner as r; print(r.WORDS)") == "changed"
    assert run(before.python, "import tiny_plugin.runner as r; print(hasattr(r, 'WORDS'))") == "False"


def test_a_changed_lock_gives_a_new_base(root: Path, plugin: Plugin, wheels: Path) -> None:
    before = VenvExecutor(root).provide(plugin.backend, silent)
    plugin.write("tiny.lock", f"--no-index\n--find-links {wheels}\ntiny_dependency==2.0\n")
    after = VenvExecutor(root).provide(plugin.backend, silent)
    assert after.facts["base"] != before.facts["base"]
    assert after.stack_hash != before.stack_hash
    assert run(after.python, "import tiny_dependency as d; print(d.VERSION)") == "2.0"


def test_two_hosts_at_once_make_one_environment_and_the_second_says_that_it_waits(
    root: Path, plugin: Plugin, slow_source: SlowSource
) -> None:
    plugin.write("tiny.lock", f"--no-index\n{slow_source.requirement}\n")
    with host(root) as first:
        wait_until(slow_source.building_pid)
        with host(root) as second:
            assert second.stdout is not None
            waiting = second.stdout.readline()
            slow_source.release()
            told = [*first.communicate()[0].splitlines(), *second.communicate()[0].splitlines()]
            assert (first.returncode, second.returncode) == (0, 0)
    assert waiting == "tiny: waiting for another run that makes the same environment\n"
    assert sum("collecting" in line for line in told) == 1


def test_a_host_killed_while_pip_runs_takes_pip_and_its_files_along_and_the_next_one_makes_it_whole(
    root: Path, plugin: Plugin, slow_source: SlowSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin.write("tiny.lock", f"--no-index\n{slow_source.requirement}\n# killed\n")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with host(root) as killed:
        wait_until(slow_source.building_pid)
        building = slow_source.building_pid()
        killed.kill()
    wait_until(lambda: building and not is_running(building))
    assert len(leftovers(root)) == 1
    assert list(tmp_path.glob("pip-*")) == []
    slow_source.release()
    provided = VenvExecutor(root).provide(plugin.backend, silent)
    assert run(provided.python, "import tiny_slow; print(tiny_slow.VERSION)") == "1.0"
    assert leftovers(root) == []


def test_ctrl_c_while_pip_runs_ends_pip_and_leaves_nothing(root: Path, plugin: Plugin, slow_source: SlowSource) -> None:
    plugin.write("tiny.lock", f"--no-index\n{slow_source.requirement}\n# interrupted\n")
    with host(root) as interrupted:
        wait_until(slow_source.building_pid)
        building = slow_source.building_pid()
        interrupted.send_signal(signal.SIGINT)
        assert interrupted.wait(LIMIT_S) != 0
    wait_until(lambda: building and not is_running(building))
    assert leftovers(root) == []


def test_a_version_that_the_index_lacks_is_told_in_pips_words(root: Path, plugin: Plugin, wheels: Path) -> None:
    plugin.write("tiny.lock", f"--no-index\n--find-links {wheels}\ntiny_dependency==9.0\n")
    with pytest.raises(HarnessError, match=r"no wheel of tiny_dependency==9\.0 for Python 3") as raised:
        VenvExecutor(root).provide(plugin.backend, silent)
    assert "No matching distribution found for tiny_dependency==9.0" in str(raised.value).splitlines()[-1]
    assert leftovers(root) == []


def test_what_is_there_as_source_alone_is_not_tried_unless_the_lock_wants_it(
    root: Path, plugin: Plugin, tmp_path: Path
) -> None:
    """As the packages of a lock for a Python that is newer than their wheels: numpy builds for minutes, and torch is not there."""
    (tmp_path / "tiny_source-1.0.tar.gz").write_text("not even an archive: whoever tries it is told so")
    lock = f"--no-index\n--find-links {tmp_path}\ntiny_source==1.0\n"
    plugin.write("tiny.lock", lock)
    with pytest.raises(HarnessError, match=r"no wheel of tiny_source==1\.0"):
        VenvExecutor(root).provide(plugin.backend, silent)
    plugin.write("tiny.lock", f"{lock}--no-binary tiny_source\n")
    with pytest.raises(HarnessError, match="pip ended with"):
        VenvExecutor(root).provide(plugin.backend, silent)


def test_an_index_that_cannot_be_reached_is_told(root: Path, plugin: Plugin, monkeypatch: pytest.MonkeyPatch) -> None:
    plugin.write("tiny.lock", "--index-url http://127.0.0.1:9/simple\ntiny_dependency==1.0\n")
    monkeypatch.setenv("PIP_RETRIES", "1")
    with pytest.raises(HarnessError, match="the package index could not be reached"):
        VenvExecutor(root).provide(plugin.backend, silent)


def test_a_cache_that_cannot_be_written_is_told_with_its_folder(plugin: Plugin, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(HarnessError, match=rf"of stack tiny in {tmp_path}/file/root: .*HARNESS_CACHE"):
        VenvExecutor(tmp_path / "file" / "root").provide(plugin.backend, silent)


# --- launching ------------------------------------------------------------------------------------------------------


def test_a_command_is_an_isolated_interpreter_for_the_worker_or_a_tool(
    root: Path, plugin: Plugin, launch: LaunchSpec
) -> None:
    executor = VenvExecutor(root)
    python = str(executor.provide(plugin.backend, silent).python)
    assert executor.command(launch) == [python, "-I", "-u", "-m", "harness.worker"]
    assert executor.command(launch, ("-m", "tool", "x"))[3:] == ["-m", "tool", "x"]
    assert executor.visible(launch, launch.folder) == str(launch.folder)


def test_a_worker_inherits_compilers_but_no_threads_tokens_or_caches(
    root: Path, launch: LaunchSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    unwanted = ["OMP_NUM_THREADS", "KMP_AFFINITY", "MKL_NUM_THREADS", "GOMP_CPU_AFFINITY", "OPENBLAS_NUM_THREADS"]
    unwanted += ["HF_TOKEN", "JAX_COMPILATION_CACHE_DIR", "PYTHONPATH", "TRANSFORMERS_CACHE"]
    for name in unwanted:
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("CXX", "my-compiler")
    environment = VenvExecutor(root).environment(launch)
    assert not environment.keys() & set(unwanted)
    assert (environment["PATH"], environment["CXX"]) == (os.environ["PATH"], "my-compiler")
    assert (environment["HF_HUB_OFFLINE"], environment["TRANSFORMERS_OFFLINE"]) == ("1", "1")


def test_every_folder_that_a_worker_is_given_for_caches_lies_in_its_scratch(root: Path, launch: LaunchSpec) -> None:
    environment = VenvExecutor(root).environment(launch)
    places = ("HOME", "TMPDIR", "XDG_CACHE_HOME", "HF_HOME", "TORCHINDUCTOR_CACHE_DIR")
    assert all(Path(environment[name]).is_relative_to(launch.scratch) for name in places)
    assert Path(environment["TMPDIR"]).is_dir()


@pytest.mark.parametrize(
    ("returncode", "message"),
    [
        (0, "exited with code 0"),
        (3, "exited with code 3"),
        (-signal.SIGSEGV, "ended by signal 11 (SIGSEGV)"),
        (-signal.SIGKILL, "ended by signal 9 (SIGKILL)"),
        (-40, "ended by signal 40"),
    ],
)
def test_an_ending_is_told_in_words(root: Path, launch: LaunchSpec, returncode: int, message: str) -> None:
    ending = VenvExecutor(root).ending(launch, returncode)
    assert (ending.status, ending.message) == (Status.CRASHED, message)


@pytest.mark.parametrize(
    ("kills", "returncode", "status"),
    [
        (8, -signal.SIGKILL, Status.OUT_OF_MEMORY),
        (7, -signal.SIGKILL, Status.CRASHED),
        (8, -signal.SIGABRT, Status.CRASHED),
    ],
)
def test_a_kill_is_out_of_memory_where_the_kernel_counted_one_meanwhile(
    root: Path, plugin: Plugin, launch: LaunchSpec, tmp_path: Path, kills: int, returncode: int, status: Status
) -> None:
    vmstat = tmp_path / "vmstat"
    vmstat.write_text("pgfault 1\noom_kill 7\nnuma_hit 2\n")
    executor = VenvExecutor(root, vmstat)
    executor.provide(plugin.backend, silent)
    executor.command(launch)
    vmstat.write_text(f"pgfault 1\noom_kill {kills}\nnuma_hit 2\n")
    assert executor.ending(launch, returncode).status is status


FAMILY = """
import os, subprocess, sys, time
sleep = [sys.executable, "-c", "import time; time.sleep(300)"]
child = subprocess.Popen(sleep)
escaped = subprocess.Popen(sleep, start_new_session=True)
bare = subprocess.Popen(sleep, env={})
print(child.pid, escaped.pid, bare.pid, flush=True)
time.sleep(300)
"""


@contextlib.contextmanager
def family(executor: VenvExecutor, launch: LaunchSpec) -> Iterator[tuple[subprocess.Popen[str], list[int]]]:
    """A launch with children: one in its group, one that left it, one with an environment of its own."""
    argv = [sys.executable, "-c", FAMILY]
    environment = executor.environment(launch)
    with subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stdout is not None
        pids = [process.pid, *(int(pid) for pid in process.stdout.readline().split())]
        try:
            yield process, pids
        finally:
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def test_kill_ends_a_launch_with_all_its_children_and_no_other(root: Path, launch: LaunchSpec, tmp_path: Path) -> None:
    executor = VenvExecutor(root)
    neighbour = dataclasses.replace(launch, scratch=tmp_path / "scratch-2")
    with family(executor, launch) as (process, pids), family(executor, neighbour) as (_, others):
        executor.kill(launch, process.pid)
        assert process.wait(LIMIT_S) == -signal.SIGKILL
        wait_until(lambda: not any(is_running(pid) for pid in pids))
        assert all(is_running(pid) for pid in others)
        executor.kill(launch, process.pid)  # again: nothing left to do


def test_kill_finds_children_whose_parent_ended_first(root: Path, launch: LaunchSpec) -> None:
    executor = VenvExecutor(root)
    with family(executor, launch) as (process, pids):
        process.kill()
        process.wait(LIMIT_S)
        executor.kill(launch, process.pid)
        wait_until(lambda: not any(is_running(pid) for pid in pids))
