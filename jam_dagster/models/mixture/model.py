"""A mixture of products: the model of GEM and of RAP^softmax."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

import numpy as np

from jam_dagster.errors import DomainError, InputError
from jam_dagster.models.base import check_rows, model_card
from jam_dagster.models.graphical.junction_tree import BYTES_PER_CELL, MEGABYTE
from jam_dagster.models.graphical.kernels import one_thread
from jam_dagster.models.measurement import check_marginal
from jam_dagster.models.mixture.answers import expected
from jam_dagster.models.storage import Arrays, Facts, Kept, StoredModel
from jam_dagster.tables import Clique, Domain, EncodedTable

# Cells of the comparisons that are held at a time when rows are drawn.
_BLOCK_CELLS = 1 << 22


@dataclass(frozen=True, eq=False)
class ProductMixture(StoredModel):
    """K product distributions over the attributes, equally likely, with a total.

    The tables have, for each attribute in domain order, the probabilities of its values in each
    component: float64, shape ``(K, size)``, every row summing to 1. The domain has no impossible
    combinations.
    """

    domain: Domain
    total: float
    tables: tuple[np.ndarray, ...]
    cliques: tuple[Clique, ...] = ()

    kind = "product_mixture"
    fitted_by = ("jax",)
    archive = "tables.npz"

    def __post_init__(self) -> None:
        check_products(self.domain)
        shapes = [table.shape for table in self.tables]
        rows = shapes[0][0] if shapes and len(shapes[0]) == 2 else 0
        if rows < 1 or shapes != [(rows, size) for size in self.domain.shape]:
            raise InputError("a mixture of products needs a table (K, size) for each attribute")
        for table in self.tables:
            if not (np.all(table >= 0) and np.allclose(table.sum(axis=1), 1.0, atol=1e-9)):
                raise InputError("each row of a mixture of products must be a distribution")

    def __repr__(self) -> str:
        return f"ProductMixture({self.components} products over {self.domain!r})"

    def _repr_html_(self) -> str:
        return model_card("Mixture of products", self, products=f"{self.components:,}")

    @property
    def components(self) -> int:
        """K, the number of products."""
        return len(self.tables[0])

    @property
    def size_mb(self) -> float:
        """Size of the tables in megabytes, 8 bytes a number."""
        return self.components * sum(self.domain.shape) * BYTES_PER_CELL / MEGABYTE

    def marginals(self, cliques: Iterable[Clique]) -> dict[Clique, np.ndarray]:
        """Return many marginals; see `marginal`."""
        requested = [tuple(names) for names in cliques]
        for names in requested:
            check_marginal(self.domain, names)
        positions = self.domain.positions
        # With several threads the last digits depend on how many there are.
        with one_thread():
            return {
                names: expected([self.tables[positions[name]] for name in names]) * self.total
                if names
                else np.array(float(self.total))
                for names in requested
            }

    def sample(self, rows: int, rng: np.random.Generator) -> EncodedTable:
        """Sample a table with marginals close to the model's.

        Components get equally many rows, but for those left over. Within a component each
        attribute is drawn by itself, by systematic sampling: its counts are within one of their
        expectation.
        """
        check_rows(rows)
        share, left = divmod(int(rows), self.components)
        sizes = np.full(self.components, share)
        sizes[rng.choice(self.components, size=left, replace=False)] += 1
        component = np.repeat(np.arange(self.components), sizes)
        starts = np.repeat(np.cumsum(sizes) - sizes, sizes)
        order = rng.permutation(int(rows))
        columns = []
        for table in self.tables:
            # Each row's rank among its component's rows, in an order of this attribute's own.
            shuffled = np.lexsort((rng.random(int(rows)), component))
            rank = np.empty(int(rows))
            rank[shuffled] = np.arange(int(rows))
            offset = rng.random(self.components)
            at = (rank - starts + offset[component]) / sizes[component]
            columns.append(_values(table, component, at)[order])
        return EncodedTable(self.domain, tuple(columns))

    def _stored(self) -> tuple[Facts, Arrays]:
        """Return what `StoredModel.save` writes."""
        return {}, {f"table_{number}": table for number, table in enumerate(self.tables)}

    @classmethod
    def _restored(cls, kept: Kept) -> Self:
        """Return the model of what `_stored` gave."""
        domain = kept.domain
        tables = tuple(
            np.asarray(kept.arrays[f"table_{number}"], dtype=np.float64)
            for number in range(len(domain.names))
        )
        return cls(domain, kept.total, tables, kept.canonical)


def check_products(domain: Domain) -> None:
    """Raise DomainError if the domain has impossible combinations.

    A mixture of products gives each of them some weight. Leaving it out of every marginal alike
    would take the joint distribution of all attributes that any combination names, in every
    component, which is what a mixture is there to avoid.
    """
    if domain.forbidden:
        where = " x ".join(domain.forbidden[0].attributes)
        raise DomainError(
            f"A mixture of products cannot keep impossible combinations of {where} at zero: "
            "choose a mechanism that honours them, such as jam_pgm or tilt, or take them out of "
            "the domain."
        )


def _values(table: np.ndarray, component: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Return for each row the value at which its component's distribution function passes `at`."""
    reached = np.cumsum(table, axis=1)
    # Rounding must not select a value beyond the last, or one without probability.
    last = table.shape[1] - 1 - np.argmax(table[:, ::-1] > 0, axis=1)
    values = np.empty(len(at), dtype=np.int64)
    step = max(1, _BLOCK_CELLS // table.shape[1])
    for start in range(0, len(at), step):
        rows = slice(start, start + step)
        values[rows] = (reached[component[rows]] <= at[rows, None]).sum(axis=1)
    found: np.ndarray = np.minimum(values, last[component])
    return found
