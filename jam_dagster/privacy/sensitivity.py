"""Sensitivities of all statistics that are released with noise.

By default two tables are neighbours if they have the same number of records n and differ in one
record (replace-one, bounded differential privacy), so n is public. The constants below hold for
this relation: D and D' are neighbours that differ in the record x of D and x' of D'; q(D) is the
vector of counts of one marginal. `Neighbours` has the sensitivities for the other relations.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, get_args

import numpy as np

from jam_dagster.common.choices import Relation
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
where the model and the public counts are on opposite sides of q(D) in the two cells. The sum is 4,
which is attained.
"""

MOST_TOGETHER = 20
"""Attributes of residuals whose sensitivity is exact; that of more is an upper bound."""


@dataclass(frozen=True)
class Neighbours:
    """The neighbouring relation that a release protects, and the sensitivities under it.

    Parameters
    ----------
    relation : {"replace_one", "add_remove"}
        Whether neighbours differ by replacing one person's rows by another's, or by adding or
        removing one person's rows.
    max_rows : int
        k, the most rows of one person.

    Raises
    ------
    SpecificationError
        If the relation is unknown, or `max_rows` is not a positive whole number.

    Notes
    -----
    =====================  =============  ==========
    sensitivity            replace-one    add/remove
    =====================  =============  ==========
    marginal, L1           2 k            k
    marginal, L2           sqrt(2) k      k
    score of JAM-PGM       4 k            2 k
    score of an error      2 k w          k w
    score of a gain        2 k w          k w
    score of dependence    8 k (6 if k=1) 4 k
    cell of a marginal     k              k
    values of one person   2 k            k
    number of rows         k (0 if k = 1) k
    =====================  =============  ==========

    All k rows may be in one cell, so the L2 norm grows with k and not with its root. Replacing a
    person with exactly one row does not change the number of rows.
    """

    relation: Relation = "replace_one"
    max_rows: int = 1

    def __post_init__(self) -> None:
        if self.relation not in get_args(Relation):
            raise SpecificationError(
                f"the neighbours must be {' or '.join(get_args(Relation))}, got {self.relation!r}"
            )
        whole = isinstance(self.max_rows, int) and not isinstance(self.max_rows, bool)
        if not whole or self.max_rows < 1:
            raise SpecificationError(
                f"max_rows must be a whole number of 1 or more, got {self.max_rows!r}"
            )

    @property
    def records_public(self) -> bool:
        """Whether the number of rows n is the same in neighbouring tables, hence public."""
        return self.relation == "replace_one" and self.max_rows == 1

    @property
    def marginal_l1(self) -> float:
        """L1 sensitivity of one marginal, in counts."""
        whole = MARGINAL_L1 if self.relation == "replace_one" else 1.0
        return whole * self.max_rows

    @property
    def marginal_l2(self) -> float:
        """L2 sensitivity of one marginal, in counts."""
        if self.relation == "add_remove":
            return float(self.max_rows)
        if self.max_rows == 1:
            return MARGINAL_L2
        # The product of floats may be below sqrt(2) k.
        return math.nextafter(MARGINAL_L2 * self.max_rows, math.inf)

    @property
    def jam_score(self) -> float:
        """Sensitivity of JAM-PGM's score, in counts; see `JAM_SCORE`."""
        return 2.0 * self.marginal_l1

    @property
    def values_of_one(self) -> int:
        """The most values of a column whose counts one person moves: k, or k before and k after."""
        return self.max_rows * (2 if self.relation == "replace_one" else 1)

    @property
    def cell(self) -> float:
        """Sensitivity of one cell of a marginal, in counts, and of its distance from an answer.

        All rows of a person may leave or enter the cell: k under either relation.
        """
        return float(self.max_rows)

    def error_score(self, weight: float = 1.0) -> float:
        """Sensitivity of a score ``w (||q(D) - q(M)||_1 - predicted)``, in weighted counts.

        Neither w nor the prediction depends on D, so it is w times that of the marginal in L1.

        Parameters
        ----------
        weight : float
            w, the largest weight among the candidates.
        """
        return self.marginal_l1 * weight

    def gain_score(self, weight: float) -> float:
        """Sensitivity of TILT's score, ``max over lambda of sum_t N_t sum_cells g(d)``, in counts.

        d is a cell's deviation, the private count less the model's, and
        ``g(d) = |d| - sqrt(((1 - f) d)^2 + c)`` with f from 0 to 1 and c at least 0, which depend
        on the model, the noise and lambda, not on D. Its derivative is
        ``sign(d) (1 - (1 - f)^2 |d| / sqrt(((1 - f) d)^2 + c))``, of a size from f to 1: g moves
        by no more than d. So a margin's sum moves by at most the L1 sensitivity of a marginal, and
        their weighted sum by its product with ``sum_t N_t``. The largest of several sums, or of
        them and 0, moves no further than one of them. That is attained if f is 1 in the cells that
        change.

        Parameters
        ----------
        weight : float
            The largest ``sum_t N_t`` among the candidates. N must not depend on D.
        """
        return weight * self.marginal_l1

    @property
    def independence_score(self) -> float:
        """Sensitivity of ``||n_ab - n_a n_b / n||_1`` of two attributes, in counts.

        Let C be the table of ``n_ab - n_a n_b / n``, and P_a, P_b the attributes' distributions. A
        record e more gives ``C + (1 - 1 / (n + 1)) (e_a - P_a) (e_b - P_b)``, and each factor has
        an L1 norm of at most 2: the norm moves by less than 4. Replacing e by f moves it by the
        norm of ``e_a e_b - f_a f_b - (e_a - f_a) P_b - P_a (e_b - f_b)`` at most, less than 6. k
        records more move it by 4 k, and replacing k by k others by 8 k.
        """
        if self.relation == "add_remove":
            return 4.0 * self.max_rows
        return 6.0 if self.max_rows == 1 else 8.0 * self.max_rows

    def residuals(self, scales: Mapping[tuple[str, ...], int], sizes: Mapping[str, int]) -> float:
        """L2 sensitivity of integer residuals of marginals together, each times a scale, in counts.

        The integer residual of a marginal A is its table, from which the mean over each of its
        attributes is taken away, one after another, times its number of cells
        ``N_A = prod_A n_i``. A record's has the squared norm ``N_A prod_A (n_i - 1)``, and two
        records' have the inner product ``N_A prod_A (n_i [the same value] - 1)``. So all move
        together by ``sum_A k_A^2 N_A prod_A (n_i - 1)`` at most, squared, where a record comes or
        goes, and by twice that less ``2 sum_A k_A^2 N_A prod_A (n_i [i is not in S] - 1)`` where it
        is replaced by one that differs in the attributes S: the worst S counts. Both are attained,
        and computed in whole numbers; the root is rounded up. k records move as one does, k times:
        the norm is convex in what each of them is.

        Parameters
        ----------
        scales : mapping
            k_A, the scale of each integer residual, by the attributes of A.
        sizes : mapping
            n_i, the number of values of each attribute.
        """
        weights = {
            part: int(scale) ** 2 * math.prod(sizes[name] for name in part)
            for part, scale in scales.items()
        }
        square = sum(
            weight * math.prod(sizes[name] - 1 for name in part) for part, weight in weights.items()
        )
        if self.relation == "replace_one":
            square = 2 * (square - _least_inner_product(weights, sizes))
        most = Fraction(self.cell) ** 2 * square
        root = math.sqrt(most)
        while Fraction(root) ** 2 < most:
            root = math.nextafter(root, math.inf)
        return root

    @property
    def records(self) -> float:
        """Sensitivity of the number of rows; 0 where it is public."""
        return 0.0 if self.records_public else float(self.max_rows)

    def mean_error(self, records: int) -> float:
        """Sensitivity of a mean workload error, as a fraction.

        Definition 2.8: ``sum_q w_q ||q(D) - q(S) n / |S|||_1 / n`` with weights that add up to 1.
        By the triangle inequality each norm moves by at most `marginal_l1` counts. n is public, or
        a measured number that divides both neighbours.

        Parameters
        ----------
        records : int
            n, the number of private records, or its measured value.

        Raises
        ------
        SpecificationError
            If `records` is not positive.
        """
        if records < 1:
            raise SpecificationError(f"the number of records must be positive, got {records!r}")
        return self.marginal_l1 / records

    def mean_association(self, records: int) -> float:
        """Sensitivity of a mean distance of associations, as a fraction.

        It is the mean over pairs of ``|sum_D f_a f_b / n - c|`` with c of another table and scores
        f from -1 to 1, which follow from released or public rows and not from D. A record is one
        term of each sum, from -1 to 1: one that comes or goes moves it by at most 1, and one that
        is replaced by at most 2. So it is that of a mean error.

        Parameters
        ----------
        records : int
            n, the number of private records, or its measured value.
        """
        return self.mean_error(records)

    def mean_errors_l2(self, records: int, means: int) -> float:
        """L2 sensitivity of several mean errors and associations released together, as a fraction.

        Each of the `means` moves by at most `mean_error`, which `mean_association` equals; for k of
        them and replace-one neighbours, ``2 sqrt(k) / n``.

        Parameters
        ----------
        records : int
            n, the number of private records, or its measured value.
        means : int
            How many means the vector holds.

        Raises
        ------
        SpecificationError
            If `records` or `means` is not positive.
        """
        if means < 1:
            raise SpecificationError(f"the number of means must be positive, got {means!r}")
        return self.mean_error(records) * math.sqrt(means)

    def evaluation_l2(self, records: int, means: int, histograms: int) -> float:
        """L2 sensitivity of mean errors and histograms released together, as a fraction.

        A record is in one cell of each histogram of shares, which moves as a marginal does: by
        `marginal_l2` counts, divided by n.

        Parameters
        ----------
        records : int
            n, the number of private records, or its measured value.
        means : int
            How many means the vector holds.
        histograms : int
            How many histograms the vector holds.
        """
        cells = self.marginal_l2 / records
        joint = math.hypot(self.mean_errors_l2(records, means), math.sqrt(histograms) * cells)
        return math.nextafter(joint, math.inf) if histograms else joint

    def describe(self) -> str:
        """Return the relation in words, for certificates and reports."""
        rows = "one record" if self.max_rows == 1 else f"one person's rows, at most {self.max_rows}"
        how = "replaced" if self.relation == "replace_one" else "added or removed"
        return f"{rows}, {how}"

    @property
    def code(self) -> str:
        """The relation in ledger entries: empty for `REPLACE_ONE`."""
        return "" if self == REPLACE_ONE else f"{self.relation} {self.max_rows}"

    def to_dict(self) -> dict[str, Any]:
        """Return the relation as plain values."""
        return {"relation": self.relation, "max_rows": self.max_rows}


def _least_inner_product(weights: Mapping[tuple[str, ...], int], sizes: Mapping[str, int]) -> int:
    """Return the least weighted inner product of two records' residuals; of many attributes, less.

    It is a polynomial that is linear in each [the same value], so that a value of all sets of
    attributes comes from its coefficients, attribute by attribute.
    """
    names = [name for name in sizes if any(name in part for part in weights)]
    if len(names) > MOST_TOGETHER:
        # The least of each: one attribute differs, the one with the fewest values.
        return -sum(
            weight * math.prod(sorted(sizes[name] - 1 for name in part)[1:])
            for part, weight in weights.items()
        )
    # Python's whole numbers: they are beyond 64 bits.
    values = np.zeros([2] * len(names), dtype=object)
    for part, weight in weights.items():
        values[tuple(int(name in part) for name in names)] = weight
    for axis, name in enumerate(names):
        without, within = np.moveaxis(values, axis, 0)
        values = np.stack([without + (sizes[name] - 1) * within, without - within], axis=axis)
    return int(values.min())


REPLACE_ONE = Neighbours()
"""One record replaced by another: the relation of the papers, and the default."""
