"""Small expressions in the specs, evaluated in Python and translated to C from one syntax tree.

Examples: ``nodes > 1 and (commutative or consecutive)``, ``size if rank == root else 0``. The grammar is the
part of Python's expressions that has a direct equivalent in C.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from types import CodeType
from typing import Union

from collforge.errors import CollforgeError

Value = Union[int, bool, str, float]

COUNTS = ("size", "nodes", "min_node_size", "max_node_size")
FACTS = (*COUNTS, "threads", "consecutive", "commutative", "bytes", "total_bytes")
"""The names that predicates may read: the fields of struct cf_facts."""

INT_MAX = 2**31 - 1
"""INT_MAX of C: the largest parameter value, and the most bytes of a variant's buffer."""

CONSTANTS: Mapping[str, int] = {"INT_MAX": INT_MAX}
"""Names that every expression may read, with their values."""

_BINARY = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.FloorDiv: "/",
    ast.Div: "/",
    ast.Mod: "%",
}
_COMPARE = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}


class ExpressionError(CollforgeError):
    """An expression of a spec is not allowed; the message names file and key."""


@dataclass(frozen=True)
class Expression:
    """One checked expression. ``where`` names the file and key it came from, ``names`` what it reads."""

    text: str
    where: str
    names: frozenset[str]
    tree: ast.expr = field(compare=False, repr=False)

    @cached_property
    def _code(self) -> CodeType:
        return compile(ast.Expression(self.tree), self.where, "eval")

    def is_just(self, name: str) -> bool:
        """Whether it is this name and nothing else."""
        return isinstance(self.tree, ast.Name) and self.tree.id == name

    def evaluate(self, values: Mapping[str, Value]) -> Value:
        """The expression's value; ``values`` has one for each name it uses."""
        result: Value = eval(self._code, {"__builtins__": {}}, dict(values))
        return result

    def to_c(self, names: Mapping[str, str]) -> str:
        """The expression in C; ``names`` gives the C spelling of each name it uses."""
        return _render(self.tree, names)


class _Constants(ast.NodeTransformer):
    """Replaces the names of constants by their values."""

    def visit_Name(self, node: ast.Name) -> ast.expr:
        known = node.id in CONSTANTS
        return ast.copy_location(ast.Constant(CONSTANTS[node.id]), node) if known else node


@cache
def parse(text: str, allowed: tuple[str, ...], where: str) -> Expression:
    """Checks ``text`` against the grammar and the allowed names.

    Raises ExpressionError, naming ``where``, for anything else.
    """
    try:
        tree = _Constants().visit(ast.parse(text, mode="eval")).body
    except SyntaxError as error:
        raise ExpressionError(f"{where}: not an expression: {text!r}") from error
    used: dict[str, None] = {}
    _check(tree, used, where)
    unknown = sorted(set(used) - set(allowed))
    if unknown:
        known = ", ".join(sorted(allowed))
        raise ExpressionError(f"{where}: unknown fact {unknown[0]!r}; known are {known}")
    return Expression(text, where, frozenset(used), tree)


def _check(node: ast.expr, used: dict[str, None], where: str) -> None:
    children: list[ast.expr] = []
    if isinstance(node, ast.Name):
        used[node.id] = None
    elif isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        children = [node.left, node.right]
    elif isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _COMPARE:
        children = [node.left, node.comparators[0]]
    elif isinstance(node, ast.BoolOp):
        children = node.values
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        children = [node.operand]
    elif isinstance(node, ast.IfExp):
        children = [node.test, node.body, node.orelse]
    elif not (isinstance(node, ast.Constant) and isinstance(node.value, (int, bool))):
        raise ExpressionError(f"{where}: {ast.unparse(node)!r} is not allowed in an expression")
    for child in children:
        _check(child, used, where)


def _render(node: ast.expr, names: Mapping[str, str]) -> str:
    if isinstance(node, ast.Name):
        return names[node.id]
    if isinstance(node, ast.Constant):
        return str(node.value).lower() if isinstance(node.value, bool) else str(node.value)
    if isinstance(node, ast.BinOp):
        return _join([node.left, node.right], _BINARY[type(node.op)], names)
    if isinstance(node, ast.Compare):
        return _join([node.left, node.comparators[0]], _COMPARE[type(node.ops[0])], names)
    if isinstance(node, ast.BoolOp):
        operator = " && " if isinstance(node.op, ast.And) else " || "
        return operator.join(
            _render(part, names) if isinstance(part, ast.Compare) else _operand(part, names)
            for part in node.values
        )
    if isinstance(node, ast.UnaryOp):
        return f"!{_operand(node.operand, names)}"
    if isinstance(node, ast.IfExp):
        test, body, orelse = (_operand(n, names) for n in (node.test, node.body, node.orelse))
        return f"{test} ? {body} : {orelse}"
    raise AssertionError(ast.dump(node))  # parse() admits nothing else


def _join(nodes: Sequence[ast.expr], operator: str, names: Mapping[str, str]) -> str:
    return f" {operator} ".join(_operand(node, names) for node in nodes)


def _operand(node: ast.expr, names: Mapping[str, str]) -> str:
    text = _render(node, names)
    if isinstance(node, (ast.Name, ast.Constant)) or (
        isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
    ):
        return text
    return f"({text})"
