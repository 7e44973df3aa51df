"""docs/reference/cli.md says what the program does: every command, option, word, variable, exit code and check."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
import typer

from harness import cache, cli, lease
from harness.doctor import checks
from harness.executors import docker

PAGE = (Path(__file__).parents[1] / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")

PROGRAM: Any = typer.main.get_command(cli.app)


def section(title: str) -> str:
    found = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert found, f"there is no section {title!r}"
    return found[1]


def rows(title: str) -> list[list[str]]:
    """The cells of every row, headings and rules left out, of all tables under a heading."""
    lines = re.findall(r"^\| (.*) \|$", section(title).replace("| |", "|  |"), re.MULTILINE)
    cells = [[cell.strip() for cell in line.split(" | ")] for line in lines]
    return [row for row in cells if row[0] not in ("option", "check", "variable", "code")]


def in_code(cell: str) -> set[str]:
    """The words in backticks, without what an option takes: `--only EXPR` is --only."""
    return {words.split()[0] for words in re.findall(r"`([^`]+)`", cell)}


def documented(title: str) -> dict[frozenset[str], list[str]]:
    """Spellings of an option, or an argument's name -> its row."""
    return {frozenset(in_code(row[0])): row for row in rows(title) if row[0].startswith("`")}


def spellings(parameter: Any) -> frozenset[str]:
    is_option = parameter.param_type_name == "option"
    return frozenset(parameter.opts if is_option else [parameter.metavar.strip("[]")])


def parameters() -> Iterator[tuple[str, Any]]:
    for name, command in PROGRAM.commands.items():
        yield from ((name, parameter) for parameter in command.params)


def test_every_command_is_documented_and_no_other() -> None:
    assert set(re.findall(r"^## harness ([\w-]+)$", PAGE, re.MULTILINE)) == set(PROGRAM.commands)


@pytest.mark.parametrize("name", PROGRAM.commands)
def test_every_option_of_a_command_is_documented_and_no_other(name: str) -> None:
    assert set(documented(f"harness {name}")) == set(map(spellings, PROGRAM.commands[name].params))


def test_the_options_of_the_program_itself_are_documented() -> None:
    own = {spellings(parameter) for parameter in PROGRAM.params}
    assert set(documented("harness")) == own | {frozenset(PROGRAM.context_settings["help_option_names"])}


@pytest.mark.parametrize(("name", "parameter"), [each for each in parameters() if isinstance(each[1].default, Enum)])
def test_every_word_that_an_option_takes_is_documented_with_its_default(name: str, parameter: Any) -> None:
    _, default, meaning = documented(f"harness {name}")[spellings(parameter)]
    assert default == f"`{parameter.default}`"
    assert {str(word) for word in type(parameter.default)} - {str(parameter.default)} <= in_code(meaning)


def test_every_environment_variable_of_ours_is_documented() -> None:
    of_options = {parameter.envvar for _, parameter in parameters() if parameter.envvar}
    ours = {cache.VARIABLE, lease.VARIABLE, docker.OPTIONS_VARIABLE, "HARNESS_PLUGINS"}
    assert {*of_options, *ours} <= {word for row in rows("Environment variables") for word in in_code(row[0])}


def test_every_exit_code_is_documented() -> None:
    codes = [cli.OK, cli.NOT_ALL_OK, cli.BAD_INPUT, cli.INTERRUPTED]
    assert [row[0] for row in rows("Exit codes")] == list(map(str, codes))


def test_every_check_of_the_doctor_is_documented_in_order() -> None:
    names = re.findall(r'partial\(Check, "([^"]+)"|_disk\("([^"]+)"', Path(checks.__file__).read_text(encoding="utf-8"))
    told = [row[0] for row in rows("harness doctor") if not row[0].startswith("`")]
    assert told == [first or second for first, second in names]


def test_each_usage_line_is_a_command_that_exists() -> None:
    usages = re.findall(r"^    harness ([\w-]+)", PAGE, re.MULTILINE)
    assert usages == list(PROGRAM.commands)
