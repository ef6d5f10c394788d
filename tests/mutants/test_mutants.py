"""The mutants still apply, and each promise has one; `make mutants` runs them all."""

from __future__ import annotations

import ast
import dataclasses
import re
from collections import defaultdict
from functools import cache

import pytest

from tests.mutants.changes import StaleMutantError, change
from tests.mutants.planting import ROOT, catalog, verdict
from tests.test_security_page import promised

MUTANTS = {mutant.name: mutant for mutant in catalog()}
OF_THESE_TESTS = "tests/mutants/"

MODULE = '''
class Ledger:
    """Charges."""

    def charge(self, rho, *, kind="draw"):
        # A comment.
        if rho > self.left and kind != "free":
            raise ValueError(rho)
        self.left -= units(rho)
        note(self.left, paid=rho)
        return self.left
'''


@cache
def read(path: str) -> str:
    return (ROOT / path).read_text()


@cache
def segments(path: str) -> dict[str, str]:
    """Return the source of what is defined in a module, by its names."""
    source, found = read(path), defaultdict[str, str](str)
    lines = source.splitlines(keepends=True)
    for node in ast.parse(source).body:
        named = [getattr(node, "name", ""), *map(ast.unparse, getattr(node, "targets", []))]
        first = min(one.lineno for one in (node, *getattr(node, "decorator_list", [])))
        for name in filter(None, named):
            found[name] += "".join(lines[first - 1 : node.end_lineno])
    return found


@pytest.mark.parametrize("path", {mutant.path: None for mutant in MUTANTS.values()})
def test_every_mutant_still_applies(path: str) -> None:
    for mutant in (one for one in MUTANTS.values() if one.path == path):
        if path.endswith(".py"):
            # The rest of the module is as it was.
            tree = mutant.changed_tree(segments(path)[mutant.at.partition(":")[2].split(".")[0]])
            assert tree.body, mutant.name
            compile(ast.fix_missing_locations(tree), path, "exec")
        else:
            mutant.changed()
        module, *name = f"tests/{mutant.tests}".partition("[")[0].split("::")
        assert not name or f"def {name[0]}(" in read(module), mutant.name


def test_every_promise_has_a_mutant() -> None:
    tests = [f"tests/{mutant.tests}" for mutant in MUTANTS.values()]
    without = [
        line
        for line, cited in promised()
        if OF_THESE_TESTS not in cited and not any(one.startswith(tuple(cited)) for one in tests)
    ]
    assert without == []


@pytest.mark.parametrize(
    ("line", "before", "after"),
    [
        ("result -> it * 2", "return self.left", "return self.left * 2"),
        ("call units -> first", "-= units(rho)", "-= rho"),
        ("condition rho -> not it", "if rho >", "if not (rho >"),
        ("comparison rho -> >=", "rho > self.left", "rho >= self.left"),
        ("value self.left -> 0", "-= units(rho)", "-= 0"),
        ("value paid -> 0", "paid=rho", "paid=0"),
        ("drop value paid", ", paid=rho", ""),
        ("drop statement note", "note(self.left, paid=rho)", "pass"),
        ("statement note -> it; done()", "paid=rho)", "paid=rho)\n        done()"),
        ("expression kind!='free' -> True", "kind != 'free'", "True"),
    ],
)
def test_a_change(line: str, before: str, after: str) -> None:
    tree = ast.parse(MODULE)
    change(tree, "Ledger.charge", line)
    whole = ast.unparse(ast.parse(MODULE))
    assert whole.count(before) == 1
    changed = re.sub(r"[()]", "", ast.unparse(tree))
    assert changed == re.sub(r"[()]", "", whole.replace(before, after))


@pytest.mark.parametrize(
    ("at", "line"),
    [
        ("Ledger.draw", "result -> 0"),
        ("charge", "result -> 0"),
        ("Ledger.charge", "call notes -> 0"),
        ("Ledger.charge", "expression self.left -> 0"),
    ],
)
def test_what_is_not_there_once_is_refused(at: str, line: str) -> None:
    with pytest.raises(StaleMutantError, match="not once"):
        change(ast.parse(MODULE), at, line)


@pytest.mark.slow
def test_tests_that_prove_nothing_miss_a_mutant() -> None:
    assert not verdict(dataclasses.replace(MUTANTS["l1-by-column"], change="result -> it")).noticed


@pytest.mark.slow
@pytest.mark.parametrize("name", ["selection-not-charged", "l1-by-column"])
def test_a_mutant_is_noticed(name: str) -> None:
    assert verdict(MUTANTS[name]).noticed
