"""The mechanisms that the battery tests: one line here, and a mechanism has every invariant."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest

from jam_dagster.mechanisms import JamPgm, Mechanism
from jam_dagster.privacy import Neighbours
from tests.privacy.neighbours import RELATIONS


@dataclass(frozen=True)
class Case:
    """A mechanism as the battery runs it.

    Parameters
    ----------
    name
        What the test is called.
    make
        Returns the mechanism; settings override those of a small, quick run.
    variants
        Settings at the ends of what is allowed, under which the charges must add up.
    public
        Given the scores of a selection, an index that measures public data; None where the
        mechanism has no such choice.
    """

    name: str
    make: Callable[..., Mechanism]
    variants: tuple[Mapping[str, Any], ...] = ({},)
    public: Callable[[np.ndarray], int] | None = None


def jam_pgm(estimator: str) -> Case:
    return Case(
        f"jam_pgm-{estimator}",
        partial(_jam_pgm, estimator),
        variants=(
            {"rounds": 1},
            {"rounds": 2},
            {"rounds": 7},
            {"rounds": 3, "alpha": 0.01},
            {"rounds": 3, "alpha": 0.99},
        ),
        # The second half of the scores are those of public candidates.
        public=lambda scores: len(scores) - 1,
    )


def _jam_pgm(estimator: str, **settings: Any) -> JamPgm:
    small: dict[str, Any] = {"rounds": 3, "iterations": 20, "estimator": estimator}
    return JamPgm(**small | settings)


CASES = [jam_pgm("accelerated"), jam_pgm("mirror_descent")]
SLOW_CASES = [jam_pgm("mbi")]

every_mechanism = pytest.mark.parametrize(
    "case",
    [
        *(pytest.param(case, id=case.name) for case in CASES),
        *(pytest.param(case, id=case.name, marks=pytest.mark.slow) for case in SLOW_CASES),
    ],
)

every_relation = pytest.mark.parametrize("relation", RELATIONS, ids=Neighbours.describe)
