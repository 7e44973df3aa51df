"""The host's half of the conversation, against real processes that are no good workers."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from harness import protocol
from harness.executors.base import Ending, LaunchSpec, Progress, Provided
from harness.launch import MAX_LOG_BYTES, LaunchEndedError, RunningLaunch
from harness.model import Backend, Stack, Status

HELLO = 'print(\'{"kind": "hello", "protocol_version": 1, "pid": 1, "python": "3"}\', flush=True)\n'
BACKEND = Backend("script", Stack("script", "none:none", ()), runner="none:None", description="")


class ScriptExecutor:
    """Runs a Python text as the worker."""

    name = "script"

    def __init__(self, script: str, hidden: Ending | None = None) -> None:
        self.script = script
        self.hidden = hidden

    def provide(self, backend: Backend, progress: Progress, device: str = "cpu") -> Provided:
        raise NotImplementedError

    def command(self, launch: LaunchSpec, arguments: Sequence[str] = ()) -> list[str]:
        return [sys.executable, "-I", "-u", "-c", self.script]

    def environment(self, launch: LaunchSpec) -> dict[str, str]:
        return dict(os.environ)

    def visible(self, launch: LaunchSpec, path: Path) -> str:
        return str(path)

    def ending(self, launch: LaunchSpec, returncode: int) -> Ending:
        return Ending(Status.CRASHED, f"ended with {returncode}")

    def hidden_ending(self, launch: LaunchSpec) -> Ending | None:
        return self.hidden

    def kill(self, launch: LaunchSpec, pid: int) -> None:
        try:
            os.killpg(pid, signal.SIGKILL)
        except ProcessLookupError:
            return


def start(folder: Path, script: str) -> RunningLaunch:
    spec = LaunchSpec("launch-1", BACKEND, folder, folder)
    return RunningLaunch(ScriptExecutor(script), spec)


def ending_of(launch: RunningLaunch, timeout_s: float = 20.0) -> LaunchEndedError:
    with pytest.raises(LaunchEndedError) as caught:
        launch.receive(protocol.Closed, timeout_s)
    return caught.value


def test_an_answer_is_received_and_a_closed_worker_exits_in_peace(tmp_path: Path) -> None:
    launch = start(tmp_path, HELLO + 'import sys; sys.stdin.readline(); print(\'{"kind": "closed"}\', flush=True)')
    assert launch.receive(protocol.Hello, 20).protocol_version == 1
    launch.ask(protocol.Close(), protocol.Closed, 20)
    launch.close()
    assert not psutil.pid_exists(launch.pid)


def test_a_worker_that_dies_is_named_with_its_stage_and_its_last_line(tmp_path: Path) -> None:
    script = (
        'import sys, os\nprint(\'{"kind": "phase_started", "phase": "load"}\', flush=True)\n'
        "print('libfoo: cannot map weights', file=sys.stderr, flush=True)\nos._exit(3)"
    )
    ended = ending_of(start(tmp_path, script))
    assert ended.status is Status.CRASHED
    assert ended.error.stage == "load"
    assert ended.error.message == "the worker ended with 3 in load; its last line: libfoo: cannot map weights"


def test_a_worker_that_says_nothing_is_ended_at_its_time_out_children_included(tmp_path: Path) -> None:
    script = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        f"open({str(tmp_path / 'child')!r}, 'w').write(str(child.pid))\ntime.sleep(60)"
    )
    launch = start(tmp_path, script)
    while not (tmp_path / "child").exists() or not (tmp_path / "child").read_text():
        time.sleep(0.01)
    ended = ending_of(launch, timeout_s=0.2)
    assert ended.status is Status.TIMEOUT
    assert ended.error.message == "no answer within 0.2 s in start; the worker was ended"
    assert not psutil.pid_exists(launch.pid)
    await_end(int((tmp_path / "child").read_text()))


def await_end(pid: int) -> None:
    """Until a killed process, which nobody here may wait for, is gone; a minute at most."""
    give_up_at = time.monotonic() + 60
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < give_up_at, f"process {pid} goes on"
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        ("hello world", "the worker said what is no event: not a line of JSON: b'hello world\\n'"),
        ('{"kind": "closed", "mood": "fine"}', "unexpected"),
        ('{"kind": "ready"', "not a line of JSON"),
        ('{"kind": "imported", "import_ns": 5}', "the worker answered Imported where Closed was due"),
    ],
)
def test_a_worker_that_does_not_speak_the_protocol_is_ended_and_quoted(
    tmp_path: Path, said: str, complaint: str
) -> None:
    launch = start(tmp_path, f"import time; print({said!r}, flush=True); time.sleep(60)")
    ended = ending_of(launch)
    assert ended.status is Status.FAILED
    assert ended.error.type == "ProtocolError"
    assert complaint in ended.error.message
    assert not psutil.pid_exists(launch.pid)


def test_a_line_without_end_is_cut_off_instead_of_filling_the_memory_of_the_host(tmp_path: Path) -> None:
    launch = start(tmp_path, "import sys\nwhile True: sys.stdout.write('x' * 65536)")
    ended = ending_of(launch)
    assert "more to the conversation than the protocol allows" in ended.error.message
    assert not psutil.pid_exists(launch.pid)


def test_a_worker_that_prints_megabytes_to_stderr_goes_on_and_its_log_stays_small(tmp_path: Path) -> None:
    lines = MAX_LOG_BYTES // 65536 + 40
    script = f"import sys\nfor _ in range({lines}): sys.stderr.write('y' * 65535 + '\\n')\n" + HELLO
    launch = start(tmp_path, script)
    launch.receive(protocol.Hello, 60)
    launch.end()
    assert (tmp_path / "stderr.log").stat().st_size <= MAX_LOG_BYTES + 65536


def test_failed_is_told_with_the_workers_own_words(tmp_path: Path) -> None:
    for reason, status in (("error", "failed"), ("unsupported", "unsupported"), ("out_of_memory", "out_of_memory")):
        said = (
            f'{{"kind": "failed", "reason": "{reason}", "type": "ValueError", "message": "no such layer", '
            '"stage": "load", "traceback": ""}'
        )
        ended = ending_of(start(tmp_path, f"print({said!r}, flush=True)"))
        assert (ended.status, ended.error.type, ended.error.message, ended.error.stage) == (
            status,
            "ValueError",
            "no such layer",
            "load",
        )


def test_a_program_that_cannot_be_started_is_a_failed_launch(tmp_path: Path) -> None:
    executor = ScriptExecutor("")
    executor.command = lambda launch, arguments=(): [str(tmp_path / "no-such-python")]  # type: ignore[method-assign]  # noqa: ARG005
    with pytest.raises(LaunchEndedError) as caught:
        RunningLaunch(executor, LaunchSpec("launch-1", BACKEND, tmp_path, tmp_path))
    assert caught.value.status is Status.FAILED
    assert "no-such-python" in caught.value.error.message


def test_a_command_to_a_dead_worker_is_no_exception_of_its_own(tmp_path: Path) -> None:
    launch = start(tmp_path, "import os; os._exit(0)")
    psutil.Process(launch.pid).wait(20)
    for _ in range(3):
        launch.send(protocol.Close())
    assert ending_of(launch).status is Status.CRASHED


def test_a_waiting_host_uses_no_processor_time(tmp_path: Path) -> None:
    """A peer's parent process spins while its child measures, which makes its latencies 2.7 times too long on two cores."""
    launch = start(tmp_path, "import time; time.sleep(1.5)\n" + HELLO + "time.sleep(30)")
    before_s = time.process_time()
    launch.receive(protocol.Hello, 20)
    used_s = time.process_time() - before_s
    launch.end()
    assert used_s < 0.15  # of 1.5 s waited


# --- phases, and whose mistakes are whose ---------------------------------------------------------------------------


def saying(*lines: str) -> str:
    return "import time\n" + "".join(f"print({line!r}, flush=True)\n" for line in lines) + "time.sleep(60)"


def test_a_phase_is_waited_for_whatever_is_said_before(tmp_path: Path) -> None:
    launch = start(
        tmp_path,
        saying(
            '{"kind": "phase_started", "phase": "load"}',
            '{"kind": "imported", "import_ns": 5}',
            '{"kind": "phase_started", "phase": "compile"}',
        ),
    )
    launch.await_phase("compile", 20)
    assert launch.stage == "compile"
    launch.end()


def test_a_launch_that_fails_before_the_phase_waited_for_has_ended(tmp_path: Path) -> None:
    launch = start(tmp_path, saying(failed_line("load", "RuntimeError", "no weights")))
    with pytest.raises(LaunchEndedError, match="no weights"):
        launch.await_phase("compile", 20)
    assert not psutil.pid_exists(launch.pid)


def failed_line(stage: str, kind: str, message: str) -> str:
    failed = protocol.Failed("error", kind, message, stage, "")
    return protocol.encode(failed).decode().strip()


@pytest.mark.parametrize(
    ("stage", "kind", "is_the_plugins"),
    [("import", "ImportError", True), ("compile", "ContractError", True), ("load", "RuntimeError", False)],
)
def test_what_only_the_plugins_author_can_mend_names_the_plugin(
    tmp_path: Path, stage: str, kind: str, is_the_plugins: bool
) -> None:
    mine = replace(BACKEND, offered_by="plugin 'mine' (harness-mine 1.0)")
    spec = LaunchSpec("launch-1", mine, tmp_path, tmp_path)
    ended = ending_of(RunningLaunch(ScriptExecutor(saying(failed_line(stage, kind, "it lacks close"))), spec))
    assert ended.error.message == ("plugin 'mine' (harness-mine 1.0): " if is_the_plugins else "") + "it lacks close"
