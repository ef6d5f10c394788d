"""The equivalent sample size of a synthetic table: private records with the same expected error.

McKenna, Mullins, Sheldon, Miklau: "AIM", VLDB 2022, Appendix C, which approximates the expected
error of a sample drawn with replacement by ``sqrt(2/pi) sqrt(p (1-p) / K)`` a cell. That overstates
the error of cells that are rare in a sample of K, as are most cells of large marginals. Here the
sample is drawn without replacement, so K is at most the number of records, and the expectation is
exact.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from jam_dagster.errors import SpecificationError
from jam_dagster.tables.codes.marginals import marginal_blocks

if TYPE_CHECKING:
    from jam_dagster.tables.codes.marginals import MarginalSource
    from jam_dagster.tables.codes.workload import Workload
    from jam_dagster.tables.domain.domain import Clique


class SampleErrors:
    """The expected workload errors of random samples of a table's records.

    `records` is n, the number of records to sample from; by default the table's own. The counts of
    a table of another size are scaled to it. `blocks` are the counts of the workload's marginals in
    the table, where they are known; they are read once. The counts of a table are statistics of it:
    if it is private, so are all results.
    """

    def __init__(
        self,
        table: MarginalSource,
        workload: Workload,
        *,
        records: int | None = None,
        blocks: Iterable[Mapping[Clique, np.ndarray]] | None = None,
    ) -> None:
        self.records = table.records if records is None else records
        weights = dict(zip(workload.cliques, workload.weights, strict=True))
        whole = sum(workload.weights)
        cells: dict[int, float] = defaultdict(float)
        # An empty table has no counts to scale.
        scale = self.records / max(1, table.records)
        for block in marginal_blocks(table, workload.cliques) if blocks is None else blocks:
            for clique, counts in block.items():
                # Most cells of a wide table are empty, and none of these is sorted.
                filled = counts[counts > 0]
                if scale != 1.0 or filled.dtype.kind != "i":
                    filled = np.rint(filled * scale).astype(np.int64)
                found, often = np.unique(filled[filled > 0], return_counts=True)
                for count, times in zip(found.tolist(), often.tolist(), strict=True):
                    cells[count] += times * weights[clique] / whole
        # A cell with no records, or with all of them, is exact in every sample.
        kept = sorted(count for count in cells if count < self.records)
        self._counts = np.array(kept, dtype=np.int64)
        self._often = np.array([cells[count] for count in kept])

    def expected(self, rows: int) -> float:
        """Return the expected mean workload error of a sample of K rows, as a fraction of them.

        K is from 1 to n, drawn without replacement. The number X of drawn records that are in a
        cell of c records is hypergeometric, with
        ``E|X - K c / n| = 2 x (n - c - K + x) / n  P[X = x]`` for ``x = floor(K c / n) + 1``
        (Ramasubban 1958).
        """
        n, c = self.records, self._counts
        if not 1 <= rows <= n:
            raise SpecificationError(f"a sample of {n} records has 1 to {n} rows, got {rows!r}")
        x = rows * c // n + 1
        possible = (x <= c) & (x <= rows) & (n - c - rows + x >= 0)
        if not possible.any():
            return 0.0
        c, x = c[possible], x[possible]
        chance = np.exp(
            log_choose(c, x)
            + log_choose(n - c, rows - x)
            - log_choose(np.array([n]), np.array([rows]))
        )
        deviation = 2 * x * (n - c - rows + x) / n * chance
        return float(self._often[possible] @ deviation) / rows

    def equivalent(self, error: float, *, least: int = 0, most: int | None = None) -> int:
        """Return K, the largest sample with an expected error of at least `error`, a fraction.

        A table with this error is at least as accurate as K records, and less accurate than K + 1.
        It is 0 if a single record has a smaller expected error, and n for no error or a negative
        one, which noise may give. `least` and `most` are bounds of K, where they are known.
        """
        # The expected error falls with every further record.
        low, high = least, self.records if most is None else most
        while low < high:
            middle = (low + high + 1) // 2
            if self.expected(middle) >= error:
                low = middle
            else:
                high = middle - 1
        return low


def log_choose(whole: np.ndarray, part: np.ndarray) -> np.ndarray:
    """Return the logarithms of binomial coefficients."""
    from scipy.special import gammaln

    chosen: np.ndarray = gammaln(whole + 1) - gammaln(part + 1) - gammaln(whole - part + 1)
    return chosen
