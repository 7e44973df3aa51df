"""A checked expression as a condition of SQL, with Python's meaning: null is equal to null alone, and neither more nor less than
anything; text is never equal to a number. Values never become text of SQL: they are its parameters, and names come from our tables.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

from harness.expressions import EXAMPLE, Expression
from harness.query.fields import FIELDS, Kind, quoted


@dataclass(frozen=True)
class Sql:
    """A piece of SQL with its parameters."""

    text: str
    kind: Kind = Kind.TRUTH
    parameters: tuple[Any, ...] = ()

    def then(self, between: str, other: Sql, kind: Kind = Kind.TRUTH) -> Sql:
        """Both, in brackets, with an operator between them."""
        return Sql(f"({self.text} {between} {other.text})", kind, self.parameters + other.parameters)

    def within(self, before: str, after: str, kind: Kind = Kind.TRUTH) -> Sql:
        return Sql(before + self.text + after, kind, self.parameters)


def condition(expression: Expression) -> Sql:
    """What holds of a row of a table that has FIELDS by their names. Raises HarnessError naming the column."""
    found = _Translation(expression).of(expression.tree)
    if found.kind is not Kind.TRUTH:
        raise expression.error(None, f"is {found.kind.value}; it must be true or false, as {EXAMPLE} is")
    return found.within("coalesce(", ", FALSE)")


_NEVER = Sql("FALSE")

_ORDERINGS: Mapping[type[ast.cmpop], str] = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}
_ARITHMETIC: Mapping[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*"}


class _Translation:
    def __init__(self, expression: Expression) -> None:
        self._expression = expression

    def of(self, node: ast.AST) -> Sql:
        translate: Callable[[Any], Sql] = getattr(self, f"_{type(node).__name__}")
        return translate(node)

    # --- values -----------------------------------------------------------------------------------------------------

    def _Name(self, node: ast.Name) -> Sql:  # noqa: N802 - named after the node, as in ast.NodeVisitor
        if node.id in FIELDS:
            return Sql(quoted(node.id), FIELDS[node.id].kind)
        backend, option = node.id.split(".")
        return Sql(
            f"CASE WHEN {quoted('backend')} = ? THEN json_extract({quoted('options')}, ?) END",
            Kind.ANY,
            (backend, f'$."{option}"'),
        )

    def _Constant(self, node: ast.Constant) -> Sql:  # noqa: N802
        if node.value is None:
            return Sql("NULL", Kind.NULL)
        if isinstance(node.value, bool):
            return Sql("?::BOOLEAN", Kind.TRUTH, (node.value,))
        if isinstance(node.value, str):
            return Sql("?::VARCHAR", Kind.TEXT, (node.value,))
        assert isinstance(node.value, (int, float))  # `expressions.check` lets nothing else through
        return Sql("?::DOUBLE", Kind.NUMBER, (float(node.value),))

    def _UnaryOp(self, node: ast.UnaryOp) -> Sql:  # noqa: N802
        if isinstance(node.op, ast.Not):
            return self._truth(node.operand).within("(NOT ", ")")
        return self._number(node.operand).within("(-", ")", Kind.NUMBER)

    def _BinOp(self, node: ast.BinOp) -> Sql:  # noqa: N802
        left, right = self._number(node.left), self._number(node.right)
        if isinstance(node.op, ast.FloorDiv):
            return left.then("/", right).within("floor", "", Kind.NUMBER)
        return left.then(_ARITHMETIC[type(node.op)], right, Kind.NUMBER)

    # --- truths -----------------------------------------------------------------------------------------------------

    def _BoolOp(self, node: ast.BoolOp) -> Sql:  # noqa: N802
        word = "AND" if isinstance(node.op, ast.And) else "OR"
        return reduce(lambda left, right: left.then(word, right), map(self._truth, node.values))

    def _Compare(self, node: ast.Compare) -> Sql:  # noqa: N802
        """As Python reads `1 < a <= 8`: each neighbouring pair."""
        operands = [node.left, *node.comparators]
        pairs = [
            self._pair(left, how, right) for left, how, right in zip(operands, node.ops, node.comparators, strict=False)
        ]
        return reduce(lambda left, right: left.then("AND", right), pairs)

    def _pair(self, left: ast.expr, how: ast.cmpop, right: ast.expr) -> Sql:
        if isinstance(how, (ast.In, ast.NotIn)):
            found = self._contained(left, right)
            return found if isinstance(how, ast.In) else found.within("(NOT ", ")")
        if isinstance(how, (ast.Eq, ast.NotEq)):
            same = _same(self._value(left), self._value(right))
            return same if isinstance(how, ast.Eq) else same.within("(NOT ", ")")
        return self._ordered(left, how, right)

    def _ordered(self, left: ast.expr, how: ast.cmpop, right: ast.expr) -> Sql:
        first, second = _alike(self._value(left), self._value(right))
        if Kind.NULL in (first.kind, second.kind):
            return _NEVER
        if first.kind is not second.kind or first.kind is Kind.ANY:
            raise self._refused(left, f"{first.kind.value} is neither more nor less than {second.kind.value}")
        return first.then(_ORDERINGS[type(how)], second).within("coalesce(", ", FALSE)")

    def _contained(self, left: ast.expr, right: ast.expr) -> Sql:
        value = self._value(left)
        if isinstance(right, (ast.Tuple, ast.List)):
            return reduce(lambda found, item: found.then("OR", _same(value, self._value(item))), right.elts, _NEVER)
        part, text = (_as_text(each) for each in (value, self._value(right)))
        if part.kind is not Kind.TEXT or text.kind is not Kind.TEXT:
            raise self._refused(right, "`in` takes a list, or looks for text in text")
        return Sql(
            f"coalesce(contains({text.text}, {part.text}), FALSE)", Kind.TRUTH, text.parameters + part.parameters
        )

    # --- operands ---------------------------------------------------------------------------------------------------

    def _value(self, node: ast.expr) -> Sql:
        if isinstance(node, (ast.Tuple, ast.List)):
            raise self._refused(node, "a list stands only after `in`")
        return self.of(node)

    def _truth(self, node: ast.expr) -> Sql:
        found = self._value(node)
        if found.kind is not Kind.TRUTH:
            raise self._refused(
                node, f"{found.kind.value} stands where something must be true or false, as {EXAMPLE} is"
            )
        return found.within("coalesce(", ", FALSE)")

    def _number(self, node: ast.expr) -> Sql:
        found = _as_number(self._value(node))
        if found.kind is not Kind.NUMBER:
            raise self._refused(node, f"{found.kind.value} stands where a number is calculated with")
        return found

    def _refused(self, node: ast.expr, message: str) -> Exception:
        return self._expression.error(getattr(node, "col_offset", -1) + 1, message)


def _same(left: Sql, right: Sql) -> Sql:
    if Kind.NULL in (left.kind, right.kind):
        return _is_null(left).then("AND", _is_null(right))
    first, second = _alike(left, right)
    if first.kind is not second.kind:
        return _is_null(left).then("AND", _is_null(right))  # of different kinds only nulls are equal
    return first.then("IS NOT DISTINCT FROM", second).then("AND", _is_null(left).then("=", _is_null(right)))


def _is_null(value: Sql) -> Sql:
    """JSON has a null of its own."""
    if value.kind is Kind.ANY:
        return value.within("(coalesce(json_type(", "), 'NULL') = 'NULL')")
    return value.within("(", " IS NULL)")


def _alike(left: Sql, right: Sql) -> tuple[Sql, Sql]:
    """Two values as one kind, where one can be taken for the other's; a value of any kind is null where it is not of that one."""
    kinds = {left.kind, right.kind} - {Kind.ANY, Kind.NULL}
    if kinds == {Kind.NUMBER} or kinds == {Kind.TRUTH} or kinds == {Kind.NUMBER, Kind.TRUTH}:
        return _as_number(left), _as_number(right)
    if kinds == {Kind.TEXT}:
        return _as_text(left), _as_text(right)
    return left, right


def _as_text(value: Sql) -> Sql:
    if value.kind is not Kind.ANY:
        return value
    json = value.text
    return Sql(
        f"CASE WHEN json_type({json}) = 'VARCHAR' THEN json_extract_string({json}, '$') END",
        Kind.TEXT,
        value.parameters * 2,
    )


def _as_number(value: Sql) -> Sql:
    """True is 1, as in Python."""
    if value.kind is Kind.TRUTH:
        return value.within("CAST(", " AS DOUBLE)", Kind.NUMBER)
    if value.kind is not Kind.ANY:
        return value
    json = value.text
    return Sql(
        f"CASE json_type({json}) WHEN 'VARCHAR' THEN NULL WHEN 'BOOLEAN' THEN CAST(({json})::VARCHAR = 'true' AS DOUBLE) "
        f"ELSE TRY_CAST(json_extract_string({json}, '$') AS DOUBLE) END",
        Kind.NUMBER,
        value.parameters * 3,
    )
