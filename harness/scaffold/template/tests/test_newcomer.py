"""newcomer keeps the promises that numbers rest on: one test for each check of the harness's conformance kit."""

from __future__ import annotations

import pytest

from harness.testing import Finding


@pytest.mark.conformance("newcomer")
def test_the_backend_keeps_its_promise(finding: Finding) -> None:
    assert finding.passed, finding.message
