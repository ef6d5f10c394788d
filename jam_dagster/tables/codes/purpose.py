"""The purpose of a release: the analyses that it is for, as its file names them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

from jam_dagster.errors import InputError, SpecificationError

if TYPE_CHECKING:
    from jam_dagster.tables.domain.domain import Clique, Domain

Purpose = Sequence[Mapping[str, Any]]

FORMS = "{target: COLUMN}, {regress: COLUMN ~ COLUMN + COLUMN} or {pairs: [[COLUMN, COLUMN]]}"


def checked(purpose: object) -> list[dict[str, Any]]:
    """Return the analyses of a file as they are specified.

    Raises
    ------
    SpecificationError
        If an analysis has none of the three forms.
    """
    if not isinstance(purpose, Sequence) or isinstance(purpose, str) or not purpose:
        raise SpecificationError(f"purpose must be a list of analyses: {FORMS}.")
    made: list[dict[str, Any]] = []
    for one in purpose:
        if not isinstance(one, Mapping) or len(one) != 1:
            raise SpecificationError(f"an analysis of purpose must be {FORMS}, got {one!r}.")
        ((kind, given),) = one.items()
        if kind == "target" and isinstance(given, str) and given:
            made.append({kind: given})
        elif kind == "regress" and isinstance(given, str):
            outcome, predictors = terms(given)
            made.append({kind: f"{outcome} ~ {' + '.join(predictors)}"})
        elif kind == "pairs" and _are_pairs(given):
            made.append({kind: [list(pair) for pair in given]})
        else:
            raise SpecificationError(f"an analysis of purpose must be {FORMS}, got {one!r}.")
    return made


def _are_pairs(given: object) -> bool:
    return isinstance(given, list | tuple) and all(
        isinstance(pair, list | tuple)
        and len(pair) == len(set(pair)) == 2
        and all(isinstance(name, str) for name in pair)
        for pair in given
    )


def terms(formula: str) -> tuple[str, tuple[str, ...]]:
    """Return the outcome and the predictors of a formula such as ``income ~ age + education``."""
    outcome, tilde, right = (part.strip() for part in formula.partition("~"))
    predictors = tuple(name.strip() for name in right.split("+"))
    named = [outcome, *predictors]
    if not tilde or not all(named) or len(set(named)) < len(named):
        raise SpecificationError(
            f"a regression of purpose is COLUMN ~ COLUMN + COLUMN, with each column once, got"
            f" {formula!r}."
        )
    return outcome, predictors


def targets(purpose: Purpose) -> tuple[str, ...]:
    """Return the columns that classifiers predict."""
    return tuple(one["target"] for one in purpose if "target" in one)


def regressions(purpose: Purpose) -> tuple[str, ...]:
    """Return the formulas of the regressions."""
    return tuple(one["regress"] for one in purpose if "regress" in one)


def pairs_of(domain: Domain, purpose: Purpose) -> tuple[Clique, ...]:
    """Return the pairs of attributes that the analyses need, in the order of the domain.

    Raises
    ------
    InputError
        If an analysis names a column that the domain lacks.
    """
    found: dict[Clique, None] = {}
    for one in purpose:
        ((kind, given),) = one.items()
        if kind == "target":
            wanted = [(given, name) for name in domain.names if name != given]
        elif kind == "regress":
            outcome, predictors = terms(given)
            wanted = list(combinations((outcome, *predictors), 2))
        else:
            wanted = [tuple(pair) for pair in given]
        for pair in wanted:
            for name in pair:
                if name not in domain.positions:
                    raise InputError(f"purpose names {name!r}, which is no column of the domain.")
            found[domain.canonical(pair)] = None
    return tuple(sorted(found, key=lambda pair: [domain.positions[name] for name in pair]))
