"""Changes of a function in its syntax tree, which no comment and no new format makes stale.

A change is a line `KIND X -> NEW`, or `drop KIND X`. KIND and X find one node:

- `result`: what the function returns; `result X`: the one of several that mentions X;
- `call X`: the call of X;
- `condition X`: the condition of an `if`, a `while` or a comprehension that mentions X;
- `comparison X`: the comparison that mentions X, of which NEW is the operator;
- `value X`: what the name X, the argument X or the key X is given;
- `statement X`: the simple statement that calls X;
- `expression X`: this expression, however it is written.

A name, an attribute or a text is a mention. NEW is an expression, or statements in place of one. In
it `it` stands for what was found, and `first` for the first argument of a call.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
SIMPLE = (ast.Expr, ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Return, ast.Raise)
Found = TypeVar("Found")


class StaleMutantError(Exception):
    """What a mutant changes is not there exactly once."""


@dataclass(frozen=True)
class Place:
    """A node where it stands: in a field of its parent, or in a list there."""

    node: ast.AST
    parent: ast.AST
    field: str
    index: int | None

    def put(self, *new: ast.AST) -> None:
        """Put other nodes here, or none."""
        if self.index is None:
            (node,) = new
            setattr(self.parent, self.field, node)
        else:
            getattr(self.parent, self.field)[self.index : self.index + 1] = new


def places(tree: ast.AST, within: bool = True) -> Iterator[Place]:
    """Yield the nodes below this one; `within` says whether those of definitions in it, too."""
    for field, value in ast.iter_fields(tree):
        for index, node in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if isinstance(node, ast.AST):
                yield Place(node, tree, field, index)
                if within or not isinstance(node, DEFINITIONS):
                    yield from places(node, within)


def is_named(node: ast.AST, name: str) -> bool:
    if isinstance(node, ast.Constant):
        return node.value == name
    dotted = isinstance(node, ast.Name | ast.Attribute)
    return dotted and f".{ast.unparse(node)}".endswith(f".{name}")


def calls(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Call) and is_named(node.func, name)


def is_given_to(place: Place, name: str) -> bool:
    """Return whether a node is the value of a name, an argument or a key."""
    parent = place.parent
    if isinstance(parent, ast.Dict) and place.field == "values":
        key = parent.keys[place.index or 0]
        return key is not None and is_named(key, name)
    if isinstance(parent, ast.keyword):
        return parent.arg == name
    targets = getattr(parent, "targets", [getattr(parent, "target", None)])
    return place.field == "value" and any(one and ast.unparse(one) == name for one in targets)


def fits(place: Place, kind: str, name: str) -> bool:
    """Return whether a node is of this kind, and has to do with a name."""
    node, parent = place.node, place.parent
    if kind == "call":
        return calls(node, name)
    if kind == "value":
        return is_given_to(place, name)
    if kind == "statement":
        return isinstance(node, SIMPLE) and any(calls(one, name) for one in ast.walk(node))
    if kind == "expression":
        return isinstance(node, ast.expr) and ast.unparse(node) == ast.unparse(ast.parse(name))
    of_kind = {
        "result": isinstance(parent, ast.Return),
        "condition": place.field in ("test", "ifs"),
        "comparison": isinstance(node, ast.Compare),
    }[kind]
    return of_kind and (not name or any(is_named(one, name) for one in ast.walk(node)))


def defined(tree: ast.AST, name: str) -> list[ast.AST]:
    """Return what defines a name directly in a module, a class or a function."""
    nodes = [place.node for place in places(tree, within=False)]
    found = [one for one in nodes if isinstance(one, DEFINITIONS) and one.name == name]
    constants = [one for one in nodes if isinstance(one, ast.Assign)]
    return found or [one for one in constants if is_named(one.targets[0], name)]


def only(found: list[Found], what: str) -> Found:
    """Return the one thing that was found."""
    if len(found) != 1:
        raise StaleMutantError(f"{what} is there {len(found)} times, not once")
    return found[0]


class _Filled(ast.NodeTransformer):
    """Puts what was found in the place of `it` and `first`."""

    def __init__(self, found: ast.AST) -> None:
        self.found = found

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        statement = isinstance(self.found, ast.stmt) and is_named(node.value, "it")
        return copy.deepcopy(self.found) if statement else self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id == "first" and isinstance(self.found, ast.Call):
            return copy.deepcopy(self.found.args[0])
        return copy.deepcopy(self.found) if node.id == "it" else node


def change(tree: ast.Module, qualname: str, line: str) -> None:
    """Change what a name of a module stands for.

    Raises
    ------
    StaleMutantError
        If the name, or what the change is of, is not there exactly once.
    """
    scope: ast.AST = tree
    for name in qualname.split("."):
        scope = only(defined(scope, name), qualname)
    wanted, _, new = line.removeprefix("drop ").rpartition(" -> ")
    kind, _, name = (wanted or new).partition(" ")
    # What a function returns is not what functions within it do.
    found = [one for one in places(scope, kind != "result") if fits(one, kind, name)]
    place = only(found, f"{kind} {name} in {qualname}")
    if line.startswith("drop value"):
        next(one for one in places(scope) if one.node is place.parent).put()
    elif line.startswith("drop "):
        place.put(ast.Pass())
    elif kind == "comparison":
        place.node.ops[:] = ast.parse(f"a {new} b", mode="eval").body.ops
    else:
        filled = _Filled(place.node).visit(ast.parse(new))
        statement = isinstance(place.node, ast.stmt)
        place.put(*(filled.body if statement else [filled.body[0].value]))
