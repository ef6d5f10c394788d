"""The model of tilted mechanisms: a graphical model mixed with weighted public records."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self

import numpy as np

from jam_dagster.errors import InputError
from jam_dagster.models.base import Model, check_rows, model_card
from jam_dagster.models.graphical.model import FittedModel
from jam_dagster.models.storage import Arrays, Facts, Kept, StoredModel, column_arrays, table_of
from jam_dagster.models.weighted.model import WeightedTable
from jam_dagster.models.weighted.support import Support
from jam_dagster.tables import Clique, Domain, EncodedTable

SHARED_CELLS = 2**23
"""64 MiB of tables that answers share; four times that saves a fifteenth of the time."""


@dataclass(frozen=True, eq=False)
class TiltedModel(StoredModel):
    """``p = (1 - b) network + b records``, with its total; a `MarginalSource`.

    `rows` are the weighted public records, None if there are none, and `share` is b, their
    probability. If there are several `populations`, which are public tables, the last attribute of
    the network says which; the model's own domain is without. `before` are the records with their
    weights before any measurement, None if those are the same.
    """

    network: FittedModel
    rows: WeightedTable | None
    share: float
    cliques: tuple[Clique, ...] = field(default=())
    populations: int = 1
    before: WeightedTable | None = None

    kind = "tilted"
    archive = "potentials.npz"

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1 or (self.rows is None and self.share):
            raise InputError(
                f"The share of the public records must be from 0 to 1, and 0 without records, got "
                f"{self.share!r}."
            )

    @cached_property
    def domain(self) -> Domain:
        """The attributes and their values."""
        whole = self.network.domain
        return whole if self.populations == 1 else whole.project(whole.names[:-1])

    def __repr__(self) -> str:
        return f"TiltedModel({len(self.cliques)} measured cliques over {self.domain!r})"

    def _repr_html_(self) -> str:
        share = {"share of public records": f"{self.share:.1%}"}
        return model_card("Tilted model", self, **share)

    @property
    def total(self) -> float:
        """The number of records of the model; marginals sum to it."""
        return self.network.total

    @property
    def size_mb(self) -> float:
        """Size of the junction tree and the weights in megabytes, 8 bytes a number."""
        return self.network.size_mb + (0.0 if self.rows is None else self.rows.size_mb)

    def largest_table(self, names: Sequence[str]) -> int:
        """See `FittedModel.largest_table`."""
        return self.network.largest_table(names)

    def marginals(self, cliques: Iterable[Clique]) -> dict[Clique, np.ndarray]:
        """Return many marginals, which share the work; see `marginal`."""
        wanted = [tuple(clique) for clique in cliques]
        answers = self.network.marginals(wanted, held_cells=SHARED_CELLS)
        if self.rows is None or not self.share:
            return answers
        for clique in answers:
            answers[clique] = (1 - self.share) * answers[clique]
            answers[clique] += self.share * self.rows.marginal(clique)
        return answers

    def distance(self, other: Model) -> float:
        """Return the largest distance in a marginal, the share, the network or the records.

        The parts that come from public data need not have been measured.
        """
        apart = super().distance(other)
        if not isinstance(other, TiltedModel):
            return apart
        network, shares = self.network.distance(other.network), abs(self.share - other.share)
        records = self.share * _rows_apart(self.rows, other.rows)
        before = self.share * _rows_apart(self.before or self.rows, other.before or other.rows)
        return max(apart, shares, network, records, before)

    def sample(self, rows: int, rng: np.random.Generator) -> EncodedTable:
        """Sample a table with marginals as close to the model's as whole rows allow."""
        check_rows(rows)
        of_records = int(rows * self.share + rng.random())
        if self.rows is None or not of_records:
            return self._sample_network(rows, rng)
        ours = self.rows.sample(of_records, rng)
        if of_records == rows:
            return ours
        theirs = self._sample_network(rows - of_records, rng)
        order = rng.permutation(rows)
        columns = zip(ours.columns, theirs.columns, strict=True)
        both = EncodedTable(self.domain, tuple(np.concatenate(pair) for pair in columns))
        return both.take(order)

    def _sample_network(self, rows: int, rng: np.random.Generator) -> EncodedTable:
        columns = self.network.sample(rows, rng).columns
        return EncodedTable(self.domain, columns[: len(self.domain.names)])

    def _stored(self) -> tuple[Facts, Arrays]:
        """Return what `StoredModel.save` writes."""
        potentials = self.network.potentials
        facts = {
            "domain": self.network.domain.to_dict(),
            "share": self.share,
            "populations": self.populations,
            "potentials": [list(clique) for clique in potentials],
            "records": self.rows is not None,
        }
        arrays = {f"potential_{index}": table for index, table in enumerate(potentials.values())}
        if self.rows is not None:
            arrays["log_weights"] = self.rows.log_weights
            arrays |= column_arrays(self.rows.support.table)
        if self.before is not None:
            arrays["log_frequencies"] = self.before.log_weights
        return facts, arrays

    @classmethod
    def _restored(cls, kept: Kept) -> Self:
        """Return the model of what `_stored` gave."""
        potentials = {
            tuple(clique): kept.arrays[f"potential_{index}"]
            for index, clique in enumerate(kept.facts["potentials"])
        }
        network = FittedModel(kept.domain, kept.total, potentials)
        made = cls(network, None, 0.0, kept.canonical, int(kept.facts["populations"]))
        if not kept.facts["records"]:
            return made
        support = Support(table_of(made.domain, kept.arrays))
        rows = WeightedTable(support, kept.total, kept.arrays["log_weights"])
        frequencies = kept.arrays.get("log_frequencies")
        before = None if frequencies is None else replace(rows, log_weights=frequencies)
        return replace(made, rows=rows, share=float(kept.facts["share"]), before=before)


def _rows_apart(rows: WeightedTable | None, others: WeightedTable | None) -> float:
    """Return the distance of two distributions over records; infinite over different ones."""
    if rows is None or others is None:
        return 0.0 if rows is others else math.inf
    columns = rows.support.table.columns, others.support.table.columns
    if not all(np.array_equal(*pair) for pair in zip(*columns, strict=True)):
        return math.inf
    return float(np.abs(rows.probabilities - others.probabilities).sum())
