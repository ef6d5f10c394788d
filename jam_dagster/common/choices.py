"""Names and shares that a release is configured with; the packages that they mean build on them."""

from __future__ import annotations

from typing import Literal

NoiseName = Literal["exact", "numpy"]
Relation = Literal["replace_one", "add_remove"]
EvaluationMode = Literal["exact", "private", "off"]
Mark = Literal["none", "column", "comment"]

RECOMMENDED = "tilt"
"""The mechanism that runs where none is named: that of the least errors in docs/measurements."""

RECOMMENDED_WHERE = "with a public table and without"
"""When it is recommended, in the words of every advice."""

EVALUATION_SHARE = 0.05
"""The share of a release's rho that pays for private evaluation, unless configured."""

RECORDS_SHARE = 0.05
"""The share of a mechanism's rho that measures a private number of rows, unless configured."""

PLAN_SECONDS = 30.0
"""Seconds within which a plan's trials after the first are to end, unless others are given."""
