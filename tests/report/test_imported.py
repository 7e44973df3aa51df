"""Results of other tools as text: `imported.txt` beside this file holds exactly what the golden files of other tools render to.

After an intended change: `PYTHONPATH=tests python -m report.test_imported` from the repository's root, then read the difference.
"""

from __future__ import annotations

from pathlib import Path

from harness.interchange.reading import read
from harness.report.imported import render_imported

FORMS = Path(__file__).parents[1] / "interchange"
GOLDEN = Path(__file__).with_name("imported.txt")


def rendered(width: int = 80) -> str:
    files = ("benchmark_v2.json", "benchmark.json", "text_generation/benchmark_report.json")
    return render_imported([result for file in files for result in read(FORMS / file)], width)


def test_it_renders_as_it_always_did() -> None:
    assert rendered() == GOLDEN.read_text(encoding="utf-8")


def test_it_says_first_that_nothing_of_it_compares() -> None:
    assert "not ranked" in rendered().splitlines()[0]


def test_no_line_is_wider_than_the_screen() -> None:
    assert all(len(line) <= width for width in (80, 120) for line in rendered(width).splitlines())


def test_nothing_imported_is_nothing_told() -> None:
    assert render_imported([]) == ""


if __name__ == "__main__":
    GOLDEN.write_text(rendered(), encoding="utf-8")
