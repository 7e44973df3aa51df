"""The conformance kit on every backend that ships, each in its real stack."""

from __future__ import annotations

import pytest
from launches import Lab

from harness.testing import assert_conforms, check_backend, weighty_checkpoint

pytestmark = pytest.mark.stacks


KILLED_IN = {"compile": ("compile",), "onnxruntime": ("prepare",), "flax": ("compile",)}
"""Where children are at work, or the framework's own threads: each launch that is killed costs seconds."""


@pytest.mark.parametrize("name", ["eager", "sdpa", "compile", "onnxruntime", "flax"])
def test_a_backend_keeps_its_promises(lab: Lab, name: str) -> None:
    checkpoint = weighty_checkpoint(lab.executor, lab.backends)
    backend = lab.backends[name]
    findings = check_backend(
        backend,
        lab.executor,
        checkpoint,
        plugin=f"{backend.stack.packages[0]}.plugin",
        reference=lab.backends["eager"],
        kill_in=KILLED_IN.get(name, ()),
    )
    assert_conforms(findings)
    unjudged = {finding.check for finding in findings if finding.passed is None}
    assert unjudged == (set() if name in KILLED_IN else {"kill"}), findings
