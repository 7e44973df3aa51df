"""The exporter's process, seen from the runner; a few lines of Python stand in for optimum."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest
from harness_onnxruntime import exporter
from harness_onnxruntime.exporter import Exporter, ExportError

OBEDIENT = """
import json, sys
print("{}", flush=True)
for line in sys.stdin:
    print(json.dumps({"heard": json.loads(line)}), flush=True)
"""


def stand_in(monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    monkeypatch.setattr(exporter, "ARGV", (sys.executable, "-I", "-c", script))


def test_a_step_goes_there_and_its_answer_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, OBEDIENT)
    process = Exporter()
    heard = process.ask("export", folder="x")["heard"]
    process.close()
    assert heard == {"step": "export", "arguments": {"folder": "x"}}


def test_closing_ends_the_process_and_may_be_done_again(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, OBEDIENT)
    process = Exporter()
    process.close()
    process.close()
    assert process._process.returncode == 0


def test_what_a_step_raises_is_raised_here(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(
        monkeypatch, """print("{}"); print('{"error": "ValueError: no such model"}', flush=True); input(); input()"""
    )
    process = Exporter()
    with pytest.raises(ExportError, match="ValueError: no such model"):
        process.ask("export")
    process._process.kill()
    process.close()


@pytest.mark.parametrize("said_before", ["", "{}"])
def test_an_exit_without_an_answer_is_an_error_that_tells_the_code(
    monkeypatch: pytest.MonkeyPatch, said_before: str
) -> None:
    stand_in(monkeypatch, f"print('{said_before}') if '{said_before}' else None; raise SystemExit(3)")
    with pytest.raises(ExportError, match="exited with code 3"):
        Exporter().ask("export")


def test_the_runner_dies_of_what_killed_the_exporter() -> None:
    script = """
        import sys
        from harness_onnxruntime import exporter
        exporter.ARGV = (sys.executable, "-c", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
        exporter.Exporter()
    """
    done = subprocess.run([sys.executable, "-I", "-c", textwrap.dedent(script)], check=False, timeout=30)
    assert done.returncode == -9
