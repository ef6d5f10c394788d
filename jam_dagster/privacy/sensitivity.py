"""Sensitivities under replace-one neighbours: the one place where they are stated.

Two tables are neighbours if they have the same number of records n and differ in one record
(bounded differential privacy), so n is public. Below, D and D' are neighbours that differ in
the record x of D and x' of D'; q(D) is the vector of counts of one marginal.
"""

from __future__ import annotations

import math

from jam_dagster.errors import SpecificationError

MARGINAL_L1 = 2.0
"""L1 sensitivity of one marginal, in counts.

Replacing x by x' takes one from the cell of x and adds one to the cell of x', so
``||q(D) - q(D')||_1`` is 2, or 0 where both fall into the same cell.
"""

MARGINAL_L2 = math.sqrt(2.0)
"""L2 sensitivity of one marginal, in counts.

At most two cells change, each by one: ``sqrt(1 + 1)``. (The float is above the root of two.)
"""

JAM_SCORE = 4.0
"""Sensitivity of the score by which JAM-PGM chooses a marginal and its source.

The score of marginal q is ``||q(D) - q(M)||_1 - predicted``, in counts, with M the current model.
By the triangle inequality the first term moves by at most ``MARGINAL_L1 = 2``. For a private
candidate, ``predicted = sqrt(2 / pi) sigma cells`` does not depend on D. For a public candidate,
``predicted = ||q(D) - q(D_pub) n / n_pub||_1`` moves by at most 2 as well, in the other direction
where the model and the public counts lie on opposite sides of q(D) in the two cells. Sum: 4, and
it is reached.
"""


def mean_error(records: int) -> float:
    """Sensitivity of a mean workload error, as a fraction.

    Definition 2.8: ``sum_q w_q ||q(D) - q(S) n / |S|||_1 / n`` with weights that add up to 1. By
    the triangle inequality each norm moves by at most ``MARGINAL_L1`` counts, so the mean moves
    by at most ``2 / n``.

    Parameters
    ----------
    records : int
        n, the number of private records.

    Raises
    ------
    SpecificationError
        If `records` is not positive.
    """
    if records < 1:
        raise SpecificationError(f"the number of records must be positive, got {records!r}")
    return MARGINAL_L1 / records


def mean_errors_l2(records: int, means: int) -> float:
    """L2 sensitivity of several mean workload errors released together, as a fraction.

    Each of the `means` moves by at most ``2 / n``, so the vector moves by at most
    ``2 sqrt(means) / n``; for the synthetic and the public table together, ``2 sqrt(2) / n``.

    Parameters
    ----------
    records : int
        n, the number of private records.
    means : int
        How many means the vector holds.

    Raises
    ------
    SpecificationError
        If `records` or `means` is not positive.
    """
    if means < 1:
        raise SpecificationError(f"the number of means must be positive, got {means!r}")
    return mean_error(records) * math.sqrt(means)
