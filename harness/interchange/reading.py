"""Result files of other tools, each entry an ImportedResult that says what it lacks.

Forms: transformers' benchmark_v2 (now, and of autumn 2025) and optimum-benchmark's `benchmark.json` and `benchmark_report.json`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.interchange import optimum_benchmark, reading_v2
from harness.interchange.foreign import ForeignFile
from harness.model import HarnessError, ImportedResult

_READERS: Sequence[tuple[Callable[[Mapping[str, Any]], bool], Callable[[ForeignFile], list[ImportedResult]]]] = (
    (optimum_benchmark.is_benchmark, optimum_benchmark.of_benchmark),
    (optimum_benchmark.is_report, optimum_benchmark.of_report),
    (reading_v2.is_benchmark_v2, reading_v2.of_benchmark_v2),
)
"""(whether a file's content is of a form, the results in such a file)"""

_KNOWN = "benchmark_v2 files of transformers, and benchmark.json or benchmark_report.json of optimum-benchmark"


def read(path: Path) -> list[ImportedResult]:
    """The results in a file of another tool. Raises HarnessError where it is of no form that is known."""
    file = ForeignFile.read(path)
    for is_of_form, results in _READERS:
        if is_of_form(file.content):
            return results(file)
    raise HarnessError(f"{path} is {_what(file.content)}; `harness import` reads {_KNOWN}")


def _what(content: Mapping[str, Any]) -> str:
    entries = [entry for entry in content.values() if isinstance(entry, dict)]
    if "schema_version" in content or any("schema_version" in entry for entry in entries):
        return "a file of the harness itself, which needs no import"
    return "of no form that is known"
