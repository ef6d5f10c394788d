"""Names and shares that a release is configured with; the packages that they mean build on them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

NoiseName = Literal["exact", "numpy"]
Relation = Literal["replace_one", "add_remove"]
EvaluationMode = Literal["exact", "private", "off"]

RECOMMENDED: Mapping[str, str] = {
    "tilt": "where there is a public table",
    "aim": "where there is none",
}
"""The mechanisms that run where none is named: those of the least errors in docs/measurements."""

EVALUATION_SHARE = 0.05
"""The share of a release's rho that pays for private evaluation, unless configured."""

RECORDS_SHARE = 0.05
"""The share of a mechanism's rho that measures a private number of rows, unless configured."""

PLAN_SECONDS = 30.0
"""Seconds within which a plan's trials after the first are to end, unless others are given."""


def recommended(*, public: bool) -> str:
    """Return the name of the recommended mechanism."""
    with_public, without = RECOMMENDED
    return with_public if public else without
