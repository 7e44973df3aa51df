"""How large a plugin is: files, and lines of code without blank ones, comments and docstrings."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Sequence
from pathlib import Path

SIZES_BEGIN = "<!-- counted by tests/backends/plugin_sizes.py -->"
"""Stands in the page before the table."""

_NO_CODE = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)


def sizes_table(backends: Path, names: Sequence[str]) -> str:
    """A row for each plugin, in Markdown."""
    rows = [_row(name, backends / name / f"harness_{name}") for name in names]
    return "\n".join(["| plugin | Python files | lines of code | of them for the host |", "|---|---|---|---|", *rows])


def _row(name: str, package: Path) -> str:
    files = [path for path in sorted(package.glob("*.py")) if path.read_text()]
    lines = {path.name: code_lines(path.read_text()) for path in files}
    return f"| `harness-{name}` | {len(files)} | {sum(lines.values())} | {lines['plugin.py']} |"


def code_lines(source: str) -> int:
    """Lines with code on them."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    spans = [(token.start[0], token.end[0]) for token in tokens if token.type not in _NO_CODE]
    lines = {line for first, last in spans for line in range(first, last + 1)}
    return len(lines - _docstring_lines(source))


def _docstring_lines(source: str) -> set[int]:
    """Of strings that stand by themselves: docstrings, and those that describe the name above them."""
    alone = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    ]
    return {line for node in alone for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)}
