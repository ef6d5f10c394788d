"""Expressions of derived columns: read from text, and evaluated on rows."""

from __future__ import annotations

import ast
import json
import keyword
import unicodedata
import warnings
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from jam_dagster.errors import DomainError
from jam_dagster.tables.domain.cell_functions import FUNCTIONS
from jam_dagster.tables.domain.computed_cells import ARITHMETIC, Cells, Rows, arithmetic
from jam_dagster.tables.domain.lookups import Lookup
from jam_dagster.tables.domain.values import LARGEST_INTEGER, Value, kind_of, plain_value

_MOST_CHARACTERS = 500
_MOST_DEPTH = 30

_OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
}


_COLUMN = "col"
"""The function that reads the column of a name."""


@dataclass(frozen=True)
class _Call:
    function: str
    arguments: tuple[Any, ...]


Tree = _Call | Lookup | Value | None


def syntax_of(text: str) -> ast.expr | None:
    """Return the syntax of an expression; None for a text that is not one."""
    with warnings.catch_warnings(), suppress(SyntaxError, ValueError, MemoryError, RecursionError):
        warnings.simplefilter("ignore")
        return ast.parse(text.strip(), mode="eval").body
    return None


def parsed(name: str, expression: str) -> Tree:
    """Return the tree of the expression of a derived column."""
    what = f"the expression of derived column {name!r}" if name else f"expression {expression!r}"
    if len(expression) > _MOST_CHARACTERS:
        raise DomainError(f"{what} is longer than {_MOST_CHARACTERS} characters")
    node = syntax_of(expression)
    if node is None:
        raise DomainError(
            f"{what} cannot be read: write arithmetic on columns, such as hour * 100 + minute;"
            ' a column whose name is no identifier is col("its name")'
        )
    return _tree(what, node, 0)


def _tree(what: str, node: ast.expr, depth: int) -> Tree:
    if depth > _MOST_DEPTH:
        raise DomainError(f"{what} is nested deeper than {_MOST_DEPTH} levels")

    def inner(one: ast.expr) -> Tree:
        return _tree(what, one, depth + 1)

    match node:
        case ast.Constant(value=str() | int() | float() as value):
            if isinstance(value, int) and abs(value) > LARGEST_INTEGER:
                raise DomainError(f"{what} has an integer beyond 2^53")
            return plain_value(what, value)
        case (
            ast.Name(id=name)
            | ast.Call(func=ast.Name(id="col"), args=[ast.Constant(value=str() as name)])
        ):
            return _Call(_COLUMN, (name,))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _Call("-", (0, inner(operand)))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _Call(_OPERATORS[type(op)], (inner(left), inner(right)))
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in FUNCTIONS:
            _, cells, takes = FUNCTIONS[name]
            given = tuple(map(inner, arguments))
            rest = given[cells:]
            try:
                if len(given) >= cells and (not rest or (len(rest) == 1 and takes(rest[0]))):
                    return _Call(name, given)
            except DomainError as error:
                raise DomainError(f"{what}: {name}: {error}") from None
            raise DomainError(f"{what} gives {name} arguments that it does not take")
    raise DomainError(
        f"{what} holds what is not allowed ({type(node).__name__}): use numbers, texts,"
        f" columns, + - * / // %, {', '.join(FUNCTIONS)}"
    )


def columns_of(tree: Tree) -> set[str]:
    """Return the columns that a tree reads."""
    if isinstance(tree, Lookup):
        return set(tree.columns)
    if isinstance(tree, _Call) and tree.function == _COLUMN:
        return set(tree.arguments)
    arguments = tree.arguments if isinstance(tree, _Call) else ()
    return {name for one in arguments for name in columns_of(one)}


def is_random(tree: Tree) -> bool:
    """Return whether a tree gives other cells each time: it has a UUID."""
    if not isinstance(tree, _Call) or tree.function == _COLUMN:
        return False
    return tree.function == "uuid" or any(map(is_random, tree.arguments))


def written_format(tree: Tree) -> str | None:
    """Return the format of the texts that a tree gives, if they are of dates or numbers."""
    match tree:
        case _Call(function="text", arguments=(_, str() as written)):
            return written
    return None


def evaluated(tree: Tree, rows: Rows) -> Cells:
    """Return the cells that a tree gives in rows."""
    if isinstance(tree, Lookup):
        return tree.cells(rows)
    if isinstance(tree, _Call):
        if tree.function == _COLUMN:
            return rows.columns(*tree.arguments)
        if tree.function in ARITHMETIC:
            left, right = (evaluated(one, rows) for one in tree.arguments)
            return arithmetic(tree.function, left, right)
        function, count, _ = FUNCTIONS[tree.function]
        given = [evaluated(one, rows) for one in tree.arguments[:count]]
        for one in given:
            if one.kind == "nothing":
                return one
        return function(rows, *given, *tree.arguments[count:])
    missing = np.full(rows.count, tree is None)
    if tree is None:
        return Cells("nothing", np.zeros(rows.count), missing)
    kind = kind_of([tree])
    return Cells(kind, np.full(rows.count, tree, object if kind == "text" else None), missing)


def column_text(name: str) -> str:
    """Return a column as an expression has it: its name, or `col` of it."""
    plain = name.isidentifier() and not keyword.iskeyword(name)
    if plain and unicodedata.normalize("NFKC", name) == name:
        return name
    return f"col({json.dumps(name, ensure_ascii=False)})"
