"""The conformance kit: whether a backend keeps the promises that numbers rest on.

    findings = check_installed("mine", plugins.load(), executor)
    assert_conforms(findings)

A launch is made in the backend's own stack, and its runner is led through everything that a measurement asks of it. What was
seen there (`harness.worker.observations`) and from outside (`outside`) is judged here, each promise by a check of its own:
docs/reference/conformance.md. `harness.pytest_plugin` makes a test of each check, the command `harness check-backend` a line.
"""

from __future__ import annotations

from harness.testing.checking import assert_conforms, check_backend, check_installed, conforms, weighty_checkpoint
from harness.testing.judging import CHECKS, Finding
from harness.testing.killing import KILL_IN

__all__ = [
    "CHECKS",
    "KILL_IN",
    "Finding",
    "assert_conforms",
    "check_backend",
    "check_installed",
    "conforms",
    "weighty_checkpoint",
]
