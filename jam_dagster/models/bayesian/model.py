"""A Bayesian network: the model of PrivBayes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from jam_dagster.errors import DomainError, InputError
from jam_dagster.models.base import answerable, check_rows, model_card
from jam_dagster.models.graphical.junction_tree import (
    BYTES_PER_CELL,
    MEGABYTE,
    cells_of,
    mask_of,
    triangulate,
)
from jam_dagster.models.graphical.model import FittedModel
from jam_dagster.models.graphical.sampling import sample_given
from jam_dagster.models.measurement import check_marginal
from jam_dagster.models.storage import Arrays, Facts, Kept, StoredModel
from jam_dagster.tables import Clique, Domain, EncodedTable

EXACT_MB = 80
"""Largest junction tree by which marginals are computed."""

COUNTED_ROWS = 2**20
"""Rows of which marginals are counted where the junction tree is larger."""


@dataclass(frozen=True, eq=False)
class BayesianNetwork(StoredModel):
    """Conditional distributions of attributes given their parents, with a total.

    `conditionals` has parents and, last, an attribute to its probabilities given the parents:
    float64, one axis each, the last one summing to 1. No attribute is named before its own entry,
    but for those without one, which are uniform. The domain has no impossible combinations.

    Marginals are exact where the network has a junction tree of 80 MB at most. Otherwise, they are
    shares of a sample of 2^20 rows with a fixed seed.
    """

    domain: Domain
    total: float
    conditionals: Mapping[Clique, np.ndarray]

    kind = "bayesian_network"
    archive = "conditionals.npz"

    def __post_init__(self) -> None:
        check_possible(self.domain)
        named: set[str] = set()
        for family, table in self.conditionals.items():
            if family[-1] in named or len(set(family)) < len(family):
                raise InputError(f"the attribute {family[-1]!r} follows what depends on it")
            named.update(family)
            if table.shape != tuple(self.domain.size((name,)) for name in family):
                raise InputError(f"the table of {family[-1]!r} does not fit its attributes")
            if not (np.all(table >= 0) and np.allclose(table.sum(axis=-1), 1.0, atol=1e-9)):
                raise InputError(f"the table of {family[-1]!r} holds no distributions")

    def __repr__(self) -> str:
        return f"BayesianNetwork({len(self.conditionals)} tables over {self.domain!r})"

    def _repr_html_(self) -> str:
        return model_card("Bayesian network", self)

    def given(self, attribute: str, clique: Clique, counts: np.ndarray) -> BayesianNetwork:
        """Return the network with one more attribute, by its noisy marginal with its parents.

        Negative counts are zero, and the attribute is uniform where its parents have no count.
        """
        axis = clique.index(attribute)
        kept = np.moveaxis(np.maximum(counts, 0.0), axis, -1)
        sums = kept.sum(axis=-1, keepdims=True)
        even = 1.0 / counts.shape[axis]
        table = np.divide(kept, sums, out=np.full(kept.shape, even), where=sums > 0)
        family = (*(name for name in clique if name != attribute), attribute)
        grown = BayesianNetwork(self.domain, self.total, {**self.conditionals, family: table})
        # No other attribute is sampled otherwise now.
        grown._columns.update(self._columns)
        grown._columns.pop(attribute, None)
        return grown

    @property
    def cliques(self) -> tuple[Clique, ...]:
        """Each attribute with its parents, in the order of the domain."""
        return tuple(map(self.domain.canonical, self.conditionals))

    @property
    def size_mb(self) -> float:
        """Size of the tables in megabytes, 8 bytes a number."""
        cells = sum(table.size for table in self.conditionals.values())
        return cells * BYTES_PER_CELL / MEGABYTE

    def marginals(self, cliques: Iterable[Clique]) -> dict[Clique, np.ndarray]:
        """Return many marginals; see `marginal`."""
        requested = [tuple(names) for names in cliques]
        for names in requested:
            check_marginal(self.domain, names)
        answers: dict[Clique, np.ndarray] = {}
        if self._exact is not None:
            answers = self._exact.marginals(answerable(self._exact, requested))
        for names in requested:
            if names not in answers:
                answers[names] = self._counted(names) if names else np.array(self.total)
        return {names: answers[names] for names in requested}

    @cached_property
    def _exact(self) -> FittedModel | None:
        """The network as a graphical model, unless its junction tree is too large."""
        shape, position = self.domain.shape, self.domain.positions
        masks = [mask_of(position[name] for name in clique) for clique in self.cliques]
        cells = sum(cells_of(mask, shape) for mask in triangulate(shape, masks))
        if cells * BYTES_PER_CELL > EXACT_MB * MEGABYTE:
            return None
        potentials = {}
        with np.errstate(divide="ignore"):
            for family, table in self.conditionals.items():
                clique = self.domain.canonical(family)
                order = [family.index(name) for name in clique]
                potentials[clique] = np.log(table).transpose(order)
        return FittedModel(self.domain, self.total, potentials)

    @cached_property
    def _columns(self) -> dict[str, np.ndarray]:
        """Attributes of the rows that are counted, so far as they were asked for."""
        return {}

    def _counted(self, names: Clique) -> np.ndarray:
        """Return a marginal of rows that are the same whatever is asked for, and in any order."""
        wanted = set(names)
        for name in reversed(self._tables):
            if name in wanted:
                wanted.update(self._tables[name][0])
        for name, (parents, table) in self._tables.items():
            if name in wanted and name not in self._columns:
                given = [self._columns[parent] for parent in parents]
                rng = np.random.default_rng(self.domain.positions[name])
                self._columns[name] = sample_given(given, table, COUNTED_ROWS, rng)
        clique = self.domain.canonical(names)
        columns = tuple(self._columns[name] for name in clique)
        rows = EncodedTable(self.domain.project(clique), columns)
        counts = rows.marginal(clique) * (self.total / COUNTED_ROWS)
        return counts.transpose([clique.index(name) for name in names])

    @cached_property
    def _tables(self) -> dict[str, tuple[Clique, np.ndarray]]:
        """The parents of each attribute and its table, in an order of sampling."""
        named = {family[-1] for family in self.conditionals}
        tables: dict[str, tuple[Clique, np.ndarray]] = {
            name: ((), np.ones(self.domain.size((name,))))
            for name in self.domain.names
            if name not in named
        }
        for family, table in self.conditionals.items():
            tables[family[-1]] = family[:-1], table
        return tables

    def sample(self, rows: int, rng: np.random.Generator) -> EncodedTable:
        """Sample a table, each attribute given its parents.

        Rows whose parents agree divide the attribute's distribution into even strata, as in
        `jam_dagster.models.graphical.sampling.sample_codes`.
        """
        check_rows(rows)
        columns: dict[str, np.ndarray] = {}
        for name, (parents, table) in self._tables.items():
            given = [columns[parent] for parent in parents]
            columns[name] = sample_given(given, table, int(rows), rng)
        return EncodedTable(self.domain, tuple(columns[name] for name in self.domain.names))

    def _stored(self) -> tuple[Facts, Arrays]:
        """Return what `StoredModel.save` writes."""
        facts = {"families": [list(family) for family in self.conditionals]}
        return facts, {f"table_{i}": one for i, one in enumerate(self.conditionals.values())}

    @classmethod
    def _restored(cls, kept: Kept) -> Self:
        """Return the model of what `_stored` gave."""
        families = [tuple(family) for family in kept.facts["families"]]
        tables = [np.asarray(kept.arrays[f"table_{i}"], np.float64) for i in range(len(families))]
        return cls(kept.domain, kept.total, dict(zip(families, tables, strict=True)))


def check_possible(domain: Domain) -> None:
    """Raise DomainError if the domain has impossible combinations.

    A network gives each of them some weight, unless an attribute has all the others as parents.
    """
    if domain.forbidden:
        where = " x ".join(domain.forbidden[0].attributes)
        raise DomainError(
            f"A Bayesian network cannot keep impossible combinations of {where} at zero: choose a "
            "mechanism that honours them, such as tilt, or take them out of the domain."
        )
