"""The compiler that keeps what it has made: the same is not made twice, and nothing else is taken for the same."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("keeping_compiler.py")


@pytest.fixture
def compiler(tmp_path: Path) -> Path:
    """Makes of a file its last argument, and a line in the file `asked` of each time that it is asked."""
    program = tmp_path / "compiler"
    program.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\n[ "$2" = -o ] && cp "$1" "$3"\n')
    program.chmod(0o755)
    return program


@pytest.fixture
def asked(tmp_path: Path) -> Path:
    return tmp_path / "asked"


def compile_(compiler: Path, source: Path, *options: str) -> str:
    """What becomes of a source."""
    output = source.with_suffix(".so")
    output.unlink(missing_ok=True)
    assert ask(compiler, str(source), "-o", str(output), *options) == 0
    return output.read_text()


def ask(compiler: Path, *arguments: str) -> int:
    command = [sys.executable, "-IS", str(SCRIPT), str(compiler.parent / "kept"), str(compiler), *arguments]
    return subprocess.run(command, check=False).returncode


def test_the_same_text_is_compiled_once_wherever_it_stands(compiler: Path, asked: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "kernel.cpp").write_text("int x;")
        assert compile_(compiler, tmp_path / name / "kernel.cpp", "-O3") == "int x;"
    assert len(asked.read_text().splitlines()) == 1


def test_another_text_or_option_is_compiled(compiler: Path, asked: Path, tmp_path: Path) -> None:
    source = tmp_path / "kernel.cpp"
    for text, option in (("int x;", "-O3"), ("int y;", "-O3"), ("int y;", "-O0")):
        source.write_text(text)
        assert compile_(compiler, source, option) == text
    assert len(asked.read_text().splitlines()) == 3


def test_what_does_not_compile_is_not_kept_and_other_questions_reach_the_compiler(compiler: Path, asked: Path) -> None:
    missing = str(compiler.parent / "missing.cpp")
    Path(missing).write_text("")
    for _ in range(2):
        assert ask(compiler, missing, "-o", str(compiler.parent / "no" / "such" / "folder.so")) != 0
    ask(compiler, "--version")
    assert len(asked.read_text().splitlines()) == 3
