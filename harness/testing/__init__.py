"""The conformance kit: whether a backend keeps the promises that numbers rest on.

    findings = check_backend(backend, executor, weighty_checkpoint(executor, backends))
    assert_conforms(findings)

A launch is made in the backend's own stack, and its runner is led through everything that a measurement asks of it. What was
seen (`harness.worker.observations`) is judged here, each promise by a check of its own: docs/reference/conformance.md.
"""

from __future__ import annotations

from harness.testing.checking import assert_conforms, check_backend, weighty_checkpoint
from harness.testing.judging import CHECKS, Finding

__all__ = ["CHECKS", "Finding", "assert_conforms", "check_backend", "weighty_checkpoint"]
