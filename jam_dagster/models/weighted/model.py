"""A model that is a table of weighted records: of public records, or of all there could be."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
import numpy.typing as npt

from jam_dagster.errors import InputError
from jam_dagster.models.base import check_rows
from jam_dagster.models.graphical.junction_tree import BYTES_PER_CELL, MEGABYTE
from jam_dagster.models.storage import Arrays, Facts, Kept, StoredModel, column_arrays, table_of
from jam_dagster.models.weighted.support import Support
from jam_dagster.tables import Clique, Domain, EncodedTable

EXACT_STATISTICS = "exact statistics of private data"
"""Why weights that no noise was added to are restricted."""


@dataclass(frozen=True, eq=False)
class WeightedTable(StoredModel):
    """A distribution over a support, with its total; a `MarginalSource`.

    The support is not stored where it is the whole domain. `log_weights` are logarithms up to a
    constant, float64, shape ``(support.size,)``, ``-inf`` for no weight: weights are made by long
    products. `restricted` weights follow private data exactly, and must not leave, stored or not.
    """

    support: Support
    total: float
    log_weights: npt.NDArray[np.float64]
    cliques: tuple[Clique, ...] = ()
    restricted: bool = False

    kind = "weighted_table"
    archive = "potentials.npz"

    def __post_init__(self) -> None:
        logs = np.asarray(self.log_weights, dtype=np.float64)
        object.__setattr__(self, "log_weights", logs)
        if logs.shape != (self.support.size,):
            raise InputError(
                f"A weighted table of {self.support.size} records needs as many weights, got "
                f"shape {logs.shape}."
            )
        if np.isnan(logs).any() or not math.isfinite(logs.max()):
            raise InputError(
                "The logarithms of weights must be numbers, at least one of them finite and none "
                "infinitely large."
            )
        if not 0 <= self.total < math.inf:
            raise InputError(f"The total must be a number, at least 0, got {self.total!r}.")

    def __repr__(self) -> str:
        mark = f"restricted: {EXACT_STATISTICS}, " if self.restricted else ""
        return f"WeightedTable({mark}{self.support.size} weighted records over {self.domain!r})"

    def _repr_html_(self) -> str:
        from jam_dagster.common.notebook import card

        facts = {
            "attributes": len(self.domain.names),
            "records": f"{self.total:,.0f}",
            "support": f"{self.support.size:,} records"
            + (" (all that are possible)" if self.support.whole else ""),
        }
        label = "restricted: domain from private data" if self.domain.restricted else ""
        if self.restricted:
            label = f"restricted: {EXACT_STATISTICS}"
        return card("Weighted table", facts, label=label)

    @property
    def domain(self) -> Domain:
        """The attributes and their values."""
        return self.support.domain

    @property
    def size_mb(self) -> float:
        """Size of the weights in megabytes, 8 bytes each."""
        return self.support.size * BYTES_PER_CELL / MEGABYTE

    @cached_property
    def probabilities(self) -> npt.NDArray[np.float64]:
        """The weights, summing to one, shape ``(support.size,)``."""
        weights: npt.NDArray[np.float64] = np.exp(self.log_weights - self.log_weights.max())
        weights /= weights.sum()
        return weights

    def marginals(self, cliques: Iterable[Clique]) -> dict[Clique, np.ndarray]:
        """Return many marginals; see `marginal`."""
        answers = self.support.marginals(cliques, self.probabilities)
        return {clique: answer * self.total for clique, answer in answers.items()}

    def sample(self, rows: int, rng: np.random.Generator) -> EncodedTable:
        """Sample a table with marginals as close to the model's as whole rows allow.

        Records are in lexicographic order, and each of `rows` even strata of their weights gives
        one, so the count of every run of records is within two of its expectation.
        """
        check_rows(rows)
        boundaries = np.cumsum(self.probabilities)
        places = (np.arange(rows) + rng.random(rows)) / rows * boundaries[-1]
        # Rounding must not carry the last place beyond the last record that has weight.
        np.minimum(places, np.nextafter(boundaries[-1], 0.0), out=places)
        chosen = np.searchsorted(boundaries, places, side="right")
        return self.support.table.take(rng.permutation(chosen))

    def _stored(self) -> tuple[Facts, Arrays]:
        """Return what `StoredModel.save` writes.

        A support that is the whole domain is left out: it follows from the domain.
        """
        facts: Facts = {"whole_domain": self.support.whole}
        if self.restricted:
            facts["restricted"] = EXACT_STATISTICS
        columns = {} if self.support.whole else column_arrays(self.support.table)
        return facts, {"log_weights": self.log_weights, **columns}

    @classmethod
    def _restored(cls, kept: Kept) -> Self:
        """Return the model of what `_stored` gave."""
        domain = kept.domain
        whole, restricted = kept.facts["whole_domain"], "restricted" in kept.facts
        support = Support.of_domain(domain) if whole else Support(table_of(domain, kept.arrays))
        return cls(support, kept.total, kept.arrays["log_weights"], kept.canonical, restricted)
