"""The conformance kit on every backend that ships, each in its real stack."""

from __future__ import annotations

import pytest
from launches import Lab

from harness.testing import assert_conforms, check_backend, weighty_checkpoint

pytestmark = pytest.mark.stacks


@pytest.mark.parametrize("name", ["eager", "sdpa", "compile", "onnxruntime", "flax"])
def test_a_backend_keeps_its_promises(lab: Lab, name: str) -> None:
    checkpoint = weighty_checkpoint(lab.executor, lab.backends)
    findings = check_backend(lab.backends[name], lab.executor, checkpoint)
    assert_conforms(findings)
    assert all(finding.passed for finding in findings), findings
