"""What `harness doctor` found, as lines of 80 columns and as JSON values."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

from rich.text import Text

from harness.doctor import can_run
from harness.doctor.checks import Check, Finding
from harness.report.layout import Row, paragraph, plain, table, to_string
from harness.spelling import counted

_STYLES = {Finding.OK: "", Finding.WARNING: "yellow", Finding.MISSING: "bold red"}


def render_checks(checks: Sequence[Check], width: int = 80, colour: bool = False) -> str:
    """Every check: what was seen, what it means, and what mends it; at the end whether the quick matrix can run."""
    names = max((len(check.name) for check in checks), default=0)
    rows = [row for check in checks for row in _rows(check, names)]
    return to_string([*table(rows, width), Text(), *paragraph(_conclusion(checks), width, style="bold")], width, colour)


def checks_row(checks: Sequence[Check]) -> dict[str, Any]:
    """The checks as JSON values, and whether the quick matrix can run."""
    return {"can_run": can_run(checks), "checks": [dataclasses.asdict(check) for check in checks]}


def _rows(check: Check, names: int) -> Iterator[Row]:
    yield Row(f"{check.finding:<7}  {check.name:<{names}} ", remark=plain(check.seen), style=_STYLES[check.finding])
    yield Row("", remark=plain(check.meaning), style="dim")
    if check.remedy:
        yield Row("", remark=f"→ {plain(check.remedy)}")


def _conclusion(checks: Sequence[Check]) -> str:
    missing = [check.name for check in checks if check.finding is Finding.MISSING]
    warnings = sum(check.finding is Finding.WARNING for check in checks)
    told = counted(warnings, "warning") if warnings else "no warnings"
    if missing:
        return f"The quick matrix cannot run here as it should: mend {', '.join(missing)} ({told})."
    return f"This machine can run the quick matrix ({told})."
