"""The boolean expressions of --only and --where, as `backend in ('eager', 'onnxruntime') and batch_size == 1`.

An expression sees a cell's axes by their names and a backend's options as `onnxruntime.optimum_level`. It is checked whole
before the first cell is judged: a name, an operator or anything else that it may not contain is refused with its column. No
functions, no attributes, no subscripts: what is left cannot reach beyond the cell. `harness.query` makes SQL of a checked one.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from simpleeval import DEFAULT_OPERATORS, EvalWithCompoundTypes, InvalidExpression

from harness.model import WORKLOAD_AXES, Backend, Cell, HarnessError
from harness.spelling import did_you_mean, listed

NAMES = ("backend", *WORKLOAD_AXES)
"""What an expression may name, beside the backends' options."""

EXAMPLE = "backend == 'eager' and batch_size == 8"

Filter = Callable[[Cell], bool]


def _ordering(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    """Null is neither more nor less than anything: cells of other backends have no value for a backend's option."""
    return lambda left, right: left is not None and right is not None and compare(left, right)


_OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    **{kind: DEFAULT_OPERATORS[kind] for kind in (ast.Eq, ast.NotEq, ast.In, ast.NotIn, ast.Not)},
    **{kind: DEFAULT_OPERATORS[kind] for kind in (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.USub)},
    ast.Lt: _ordering(operator.lt),
    ast.LtE: _ordering(operator.le),
    ast.Gt: _ordering(operator.gt),
    ast.GtE: _ordering(operator.ge),
}

_GRAMMAR = (
    *(ast.Expression, ast.BoolOp, ast.And, ast.Or, ast.UnaryOp, ast.BinOp, ast.Compare),
    *(ast.Name, ast.Attribute, ast.Constant, ast.Tuple, ast.List, ast.Load),
    *_OPERATORS,
)


def compile_filter(text: str, backends: Iterable[Backend] = ()) -> Filter:
    """The function that says of a cell whether the expression holds.

    `backends` are those whose options the expression may name. Raises HarnessError, naming the column, where the text is no
    such expression; the function raises it where the values do not fit the operators or the result is not true or false.
    """
    options = {backend.name: [option.name for option in backend.options] for backend in backends}
    return _Filter(check(text, NAMES, options, "--only"))


@dataclass(frozen=True)
class Expression:
    """A checked expression."""

    text: str
    tree: ast.expr  # an option that it names is one name in it, as "onnxruntime.optimum_level"
    options: tuple[str, ...]  # those it names
    given_as: str  # the command's option, for messages

    def error(self, column: int | None, message: str) -> HarnessError:
        """What is wrong with it; column from 1, None or 0 where it is not known."""
        return _error(self.given_as, self.text, column, message)


def check(text: str, names: Iterable[str], options: Mapping[str, Sequence[str]], given_as: str) -> Expression:
    """An expression that may name these, and options by backend. Raises HarnessError naming the column where it is none."""
    stripped = text.strip()
    resolver = _Resolver(stripped, names, options, given_as)
    try:
        tree = resolver.visit(ast.parse(stripped, mode="eval")).body
    except SyntaxError as error:
        raise _error(given_as, stripped, error.offset, f"{error.msg}; write it like {EXAMPLE}") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise _error(given_as, stripped, None, f"cannot be read: {error}") from None
    return Expression(stripped, tree, tuple(resolver.options), given_as)


@dataclass(frozen=True)
class _Filter:
    """A checked expression, ready to judge cells."""

    expression: Expression

    def __call__(self, cell: Cell) -> bool:
        expression = self.expression
        evaluator = EvalWithCompoundTypes(operators=_OPERATORS, functions={}, names=self._values(cell))
        try:
            value = evaluator.eval(expression.text, previously_parsed=expression.tree)
        except (InvalidExpression, TypeError, ArithmeticError, RecursionError) as error:
            raise expression.error(None, f"cannot be evaluated for {cell.label}: {error}") from None
        if not isinstance(value, bool):
            told = f"gives {value!r} for {cell.label}; it must be true or false, as {EXAMPLE} is"
            raise expression.error(None, told)
        return value

    def _values(self, cell: Cell) -> dict[str, Any]:
        axes = {name: getattr(cell, name) for name in NAMES if name != "input_seed"}
        options = {name: _option(cell, *name.split(".")) for name in self.expression.options}
        return {**axes, "input_seed": cell.inputs.seed, **options}


def _option(cell: Cell, backend: str, option: str) -> Any:
    return cell.options.get(option) if cell.backend == backend else None


class _Resolver(ast.NodeTransformer):
    """Refuses whatever is not of the grammar, and turns each `backend.option` into one name, so that no attribute is left."""

    def __init__(self, text: str, names: Iterable[str], backends: Mapping[str, Sequence[str]], given_as: str) -> None:
        self._text = text
        self._names = tuple(names)
        self._backends = backends
        self._given_as = given_as
        self.options: list[str] = []

    def visit(self, node: ast.AST) -> Any:
        if not isinstance(node, _GRAMMAR):
            raise self._refused(
                node, f"{type(node).__name__} is not offered; compare names with values, joined by and, or, not"
            )
        return super().visit(node)

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        if node.value is not None and not isinstance(node.value, (str, int, float)):
            raise self._refused(node, f"{node.value!r} is neither text, nor a number, nor True, False or None")
        return node

    def visit_Name(self, node: ast.Name) -> ast.Name:
        if node.id in self._backends:
            raise self._refused(node, f"{node.id} is a backend: write backend == {node.id!r}, or {node.id}.OPTION")
        if node.id not in self._names:
            known = listed([*self._names, *self._backends])
            hint = did_you_mean(node.id, [*self._names, *self._backends, "True", "False", "None"])
            there_are = "" if hint else f"; names: {known}"
            raise self._refused(node, f"unknown name {node.id!r}{hint} (text needs quotes{there_are})")
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.Name:
        owner = node.value
        if not isinstance(owner, ast.Name) or owner.id not in self._backends:
            hint = did_you_mean(owner.id, self._backends) if isinstance(owner, ast.Name) else ""
            raise self._refused(node, f"only a backend has options{hint} (backends: {listed(self._backends)})")
        options = self._backends[owner.id]
        if node.attr not in options:
            hint = did_you_mean(node.attr, options)
            raise self._refused(node, f"{owner.id} has no option {node.attr!r}{hint} (options: {listed(options)})")
        self.options.append(f"{owner.id}.{node.attr}")
        return ast.Name(id=self.options[-1], ctx=node.ctx)

    def _refused(self, node: ast.AST, message: str) -> HarnessError:
        return _error(self._given_as, self._text, getattr(node, "col_offset", -1) + 1, message)


def _error(given_as: str, text: str, column: int | None, message: str) -> HarnessError:
    """Column from 1; None or 0 where it is not known."""
    place = f", column {column}" if column else ""
    return HarnessError(f"{given_as} {text!r}{place}: {message}")
