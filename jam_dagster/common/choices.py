"""Names and shares that a release is configured with; the packages that they mean build on them."""

from __future__ import annotations

from typing import Literal

NoiseName = Literal["exact", "numpy"]
Relation = Literal["replace_one", "add_remove"]
EvaluationMode = Literal["exact", "private", "off"]

DEFAULT_MECHANISM = "jam_pgm"

EVALUATION_SHARE = 0.05
"""The share of a release's rho that pays for private evaluation, unless configured."""

RECORDS_SHARE = 0.05
"""The share of a mechanism's rho that measures a private number of rows, unless configured."""

MOST_DAYS = 36_500
"""The most days for which private copies are kept; without a number, for good."""
