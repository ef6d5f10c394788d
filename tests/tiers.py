"""Which command runs which test.

`make test` runs what has neither mark, `make test-all` what is not marked `gate`, `make gate` all.
The mark of a test stands in its own file, or at the parameter or fixture that makes it long; the
functions here mark parameters.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]

TEST = "test"
TEST_ALL = "test-all"
GATE = "gate"

TIERS = (TEST, TEST_ALL, GATE)
"""The commands of make, each of which runs the tests of those before it as well."""

MARKS = {GATE: "gate", TEST_ALL: "slow"}
"""The mark that a test of each tier has; those of the first have none."""


by_jax = pytest.mark.xdist_group("jax")
"""Tests that train by jax, or import it: one worker runs them, and imports and compiles once."""


def slow(*values: Any) -> list[Any]:
    """Return parameters of a test as slow ones."""
    return [pytest.param(value, marks=pytest.mark.slow) for value in values]


def gate(*values: Any) -> list[Any]:
    """Return parameters of a test as ones of the gate."""
    return [pytest.param(value, marks=pytest.mark.gate) for value in values]


def slow_rows(*rows: tuple[Any, ...]) -> list[Any]:
    """Return rows of parameters as slow ones."""
    return [pytest.param(*row, marks=pytest.mark.slow) for row in rows]


def gate_rows(*rows: tuple[Any, ...]) -> list[Any]:
    """Return rows of parameters as ones of the gate."""
    return [pytest.param(*row, marks=pytest.mark.gate) for row in rows]


def first_quick(values: Iterable[Any]) -> list[Any]:
    """Return parameters of a test, all but the first as slow ones."""
    first, *others = values
    return [first, *slow(*others)]


def first_but_gate(values: Iterable[Any]) -> list[Any]:
    """Return parameters of a test, all but the first as ones of the gate."""
    first, *others = values
    return [first, *gate(*others)]


@cache
def names_of(function: str) -> list[str]:
    """Return every name that stands for a test: its folders', its module's, its own."""
    module, *classes = function.split("::")
    folders = module.split("/")
    return [
        *("/".join(folders[:end]) + "/" for end in range(1, len(folders))),
        *("::".join([module, *classes[:end]]) for end in range(len(classes) + 1)),
    ]


@dataclass
class Collected:
    """The tests that a run of pytest found, with their tiers, before it left any out."""

    tiers: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """The tiers of the tests that a name stands for."""

    def note(self, items: Iterable[pytest.Item]) -> None:
        """Note the tier of each test."""
        for item in items:
            marks = (one for one, mark in MARKS.items() if item.get_closest_marker(mark))
            tier = next(marks, TEST)
            for name in names_of(item.nodeid.partition("[")[0]):
                self.tiers[name].add(tier)

    @property
    def is_whole(self) -> bool:
        """Whether every module of tests was looked at."""
        modules = (ROOT / "tests").rglob("test_*.py")
        return all(module.relative_to(ROOT).as_posix() in self.tiers for module in modules)

    def tiers_of(self, name: str) -> list[str]:
        """Return the tiers of the tests that a name stands for, the first one first."""
        return [one for one in TIERS if one in self.tiers.get(name, ())]


COLLECTED = pytest.StashKey[Collected]()
