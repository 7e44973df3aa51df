"""What all executors share."""

import subprocess

from harness.executors.base import shell_command


def test_a_command_printed_with_its_environment_runs_when_pasted_into_a_shell() -> None:
    environment = {"PATH": "/usr/bin:/bin", "WORDS": "it's $HOME"}
    line = shell_command(["sh", "-c", 'echo "$WORDS;$1;$UNSET"', "sh", "two words"], environment)
    assert "\n" not in line
    answer = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=True, env={"UNSET": "leaked"})
    assert answer.stdout == "it's $HOME;two words;\n"
