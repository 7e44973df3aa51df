"""docs/reference/models.md says what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness import checkpoints
from harness.checkpoints.families import FAMILIES, show
from harness.checkpoints.packages import KNOWN

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "models.md").read_text(encoding="utf-8")


def rows(family: str) -> list[str]:
    table = FAMILIES[family]
    defaults = {name: show(value) for name, value in table.complete({}).items()}
    if table.width:
        defaults[table.spread] = f"1.6/√{table.width}"
    return [f"| `{name}` | {rule.allowed} | {defaults[name]} |" for name, rule in sorted(table.options.items())]


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_is_documented_with_its_options_limits_and_defaults(family: str) -> None:
    section = PAGE.partition(f"### {family}\n")[2].partition("\n#")[0]
    assert [line for line in section.splitlines() if line.startswith("| `")] == rows(family)


@pytest.mark.parametrize("name", KNOWN)
def test_every_known_package_is_documented_with_version_and_licence(name: str) -> None:
    (line,) = [line for line in PAGE.splitlines() if line.startswith(f"| `{name}` |")]
    assert f"| {KNOWN[name].version} |" in line
    assert line.endswith(f"| {KNOWN[name].licence} |")


def test_every_kind_of_source_is_documented() -> None:
    for kind in checkpoints._KINDS:
        assert f"\n## {kind}:\n" in PAGE


@pytest.mark.parametrize("source", re.findall(r"^    (random:\S+)", PAGE, re.MULTILINE))
def test_the_examples_are_sources(source: str) -> None:
    assert checkpoints.identify(source).identity.startswith("random:")
