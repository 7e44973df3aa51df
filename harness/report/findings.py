"""The findings of the conformance kit, as a table of 80 columns and as JSON values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.text import Text

from harness.report.layout import Row, paragraph, plain, table, to_string
from harness.testing import Finding

_VERDICTS = {True: "ok", False: "failed", None: "no verdict"}
_STYLES = {True: "", False: "red", None: "dim"}


def render_findings(name: str, findings: Sequence[Finding], width: int = 80, colour: bool = False) -> str:
    """Every check of a backend with its verdict and what was seen; then what that comes to."""
    rows = [_row(finding) for finding in findings]
    lines = [*table(rows, width), Text(), *paragraph(_closing(name, findings), width)]
    return to_string(lines, width, colour)


def finding_row(finding: Finding) -> dict[str, Any]:
    """A finding as JSON values; `passed` is null where there is no verdict."""
    return {"check": finding.check, "passed": finding.passed, "message": finding.message}


def _row(finding: Finding) -> Row:
    label = f"{_VERDICTS[finding.passed]:<10}  {finding.check:<12} "
    return Row(label, remark=plain(finding.message), style=_STYLES[finding.passed])


def _closing(name: str, findings: Sequence[Finding]) -> str:
    failed = [finding.check for finding in findings if finding.passed is False]
    unjudged = sum(finding.passed is None for finding in findings)
    without = f" ({unjudged} without a verdict)" if unjudged else ""
    if failed:
        return f"{name} breaks {len(failed)} of its promises: {', '.join(failed)}{without}."
    return f"{name} keeps its promises{without}."
