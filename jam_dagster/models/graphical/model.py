"""The fitted graphical model: answers any marginal, samples rows, saves without pickle."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from jam_dagster.errors import InputError
from jam_dagster.models.base import LARGEST_TABLE_CELLS, check_rows, model_card
from jam_dagster.models.graphical.answers import Calibrated
from jam_dagster.models.graphical.belief_propagation import calibrate
from jam_dagster.models.graphical.conditioning import condition_beliefs
from jam_dagster.models.graphical.junction_tree import (
    BYTES_PER_CELL,
    MEGABYTE,
    JunctionTree,
    bits,
    mask_of,
)
from jam_dagster.models.graphical.routes import Routes
from jam_dagster.models.graphical.sampling import sample_codes
from jam_dagster.models.storage import Arrays, Facts, Kept, StoredModel
from jam_dagster.tables import Clique, Domain, EncodedTable, marginal_blocks
from jam_dagster.tables.domain.impossible import codes_of

Where = Mapping[str, object]
"""For each attribute concerned a condition: a value, None for the null, for numeric attributes
``{"from": x, "below": y}`` or ``{"bins": [0, 1]}``, or a list of these, of which one has to be
met. All attributes' conditions have to be met together."""


@dataclass(frozen=True, eq=False)
class FittedModel(StoredModel):
    """A Markov random field over a domain, with its total.

    Attributes
    ----------
    domain
        The attributes and their values.
    total
        The number of records of the model; marginals sum to it.
    potentials
        Clique to log potential (float64, shape of the clique, attributes in domain order).
        Impossible combinations of the domain need not be here: they are fixed zeros.
    """

    domain: Domain
    total: float
    potentials: Mapping[Clique, np.ndarray]

    archive = "potentials.npz"

    def __repr__(self) -> str:
        return f"FittedModel({len(self.potentials)} measured cliques over {self.domain!r})"

    def _repr_html_(self) -> str:
        return model_card("Fitted model", self)

    @classmethod
    def uniform(cls, domain: Domain, total: float) -> FittedModel:
        """Return the uniform model over the possible cells of the domain, with sum `total`."""
        return cls(domain, float(total), {})

    @classmethod
    def with_beliefs(
        cls,
        domain: Domain,
        total: float,
        potentials: Mapping[Clique, np.ndarray],
        calibrated: Calibrated,
    ) -> FittedModel:
        """Return a model with known beliefs, without propagation."""
        model = cls(domain, float(total), potentials)
        vars(model).update(tree=calibrated.tree, routes=calibrated.routes, calibrated=calibrated)
        return model

    def recalibrated(self) -> FittedModel:
        """Return the model with beliefs propagated from its potentials alone, as from `load`.

        The beliefs of a fit differ by rounding, which is enough to sample other rows.
        """
        return type(self)(self.domain, self.total, self.potentials)

    @property
    def cliques(self) -> tuple[Clique, ...]:
        """The cliques with potentials, in the given order."""
        return tuple(self.potentials)

    @property
    def size_mb(self) -> float:
        """Size of the junction tree in megabytes, 8 bytes a cell."""
        return self.tree.cells * BYTES_PER_CELL / MEGABYTE

    @cached_property
    def _position(self) -> dict[str, int]:
        return {name: position for position, name in enumerate(self.domain.names)}

    def _mask(self, names: Iterable[str]) -> int:
        unknown = [name for name in names if name not in self._position]
        if unknown:
            raise InputError(
                f"The model has no attribute {unknown[0]!r}; it has {', '.join(self.domain.names)}."
            )
        return mask_of(self._position[name] for name in names)

    @cached_property
    def tree(self) -> JunctionTree:
        """The junction tree over the potentials and the impossible combinations."""
        masks = [self._mask(clique) for clique in self.potentials]
        masks += [self._mask(clique) for clique in self.domain.impossible_masks()]
        return JunctionTree.build(self.domain.shape, masks)

    @cached_property
    def routes(self) -> Routes:
        """The plan for gathering marginals from the tree."""
        return Routes(self.tree)

    @cached_property
    def calibrated(self) -> Calibrated:
        """The junction tree with every clique's probabilities."""
        potentials = [(self._mask(clique), table) for clique, table in self.potentials.items()]
        for clique, impossible in self.domain.impossible_masks().items():
            potentials.append((self._mask(clique), np.where(impossible, -np.inf, 0.0)))
        return Calibrated(self.tree, calibrate(self.tree, potentials), self.routes)

    def marginals(
        self, cliques: Iterable[Clique], *, held_cells: int | None = None
    ) -> dict[Clique, np.ndarray]:
        """Return many marginals, which share the work; see `marginal`.

        Raises
        ------
        InputError
            If an attribute is unknown or repeated, or a table of more than 2^27 cells would be
            needed: for the answer, or on the way to it (see `largest_table`). Nothing was
            computed then.
        """
        requested = [tuple(clique) for clique in cliques]
        masks = [self._answerable(names) for names in requested]
        asked: dict[int, list[Clique]] = {mask: [] for mask in masks}
        for names, mask in zip(requested, masks, strict=True):
            asked[mask].append(names)
        answers = {}
        # Each is scaled at once, so that none is held twice.
        for mask, answer in self.calibrated.marginals(masks, held_cells=held_cells):
            ascending = list(bits(mask))
            for names in asked[mask]:
                order = [ascending.index(self._position[name]) for name in names]
                answers[names] = answer.transpose(order) * self.total
        self.calibrated.forget()
        return {names: answers[names] for names in requested}

    def _answerable(self, names: Sequence[str]) -> int:
        """Return the mask of a marginal, or raise if it is too large to be computed."""
        mask = self._mask_once(names)
        cells = self.routes.largest_table(mask)
        if cells > LARGEST_TABLE_CELLS:
            answer_cells = self.domain.size(names)
            if answer_cells == cells:
                what = f"has {cells:,} cells"
            else:
                what = f"has {answer_cells:,} cells and takes a table of {cells:,} to compute"
            raise InputError(
                f"The marginal over {', '.join(names)} {what}, more than the"
                f" {LARGEST_TABLE_CELLS:,} that fit: ask for fewer attributes, or count it in a"
                " table that the model samples."
            )
        return mask

    def largest_table(self, names: Sequence[str]) -> int:
        """Return the cells of the largest table that the marginal over `names` takes to compute.

        It costs microseconds, whatever the size. A marginal inside a clique of the model takes no
        more than its own cells; one that spans cliques is gathered through tables that also hold
        attributes on the way. Several tables are held at a time: in a tree of a dozen cliques up
        to eight times the largest.

        Raises
        ------
        InputError
            If an attribute is unknown or repeated.
        """
        return self.routes.largest_table(self._mask_once(names))

    def _mask_once(self, names: Sequence[str]) -> int:
        mask = self._mask(names)
        if mask.bit_count() != len(names):
            raise InputError(f"An attribute is repeated in {tuple(names)}.")
        return mask

    def probability(self, where: Where) -> float:
        """Return the probability that a record of the model meets a condition.

        Raises
        ------
        InputError
            If `where` names an unknown attribute or value, or a bound that cuts through a bin.
        """
        return condition_beliefs(self.tree, self.calibrated.beliefs, self._evidence(where))[0]

    def condition(self, where: Where) -> FittedModel:
        """Return the model of those records that meet a condition.

        Parameters
        ----------
        where
            The condition, such as ``{"sex": "Female", "age": [30, 31]}`` or
            ``{"age": {"from": 30, "below": 40}}``; see `Where`. In a domain without values (the
            papers' form) they are the codes. The model has no detail within a bin, so a number
            must be a bin's only value, and a bound an edge of a bin.

        Returns
        -------
        FittedModel
            Over the same domain, with the same junction tree. Its total is the expected number of
            records that meet the condition, so its marginals are the parts of this model's.

        Raises
        ------
        InputError
            If `where` names an unknown attribute or value, or a bound that cuts through a bin, or
            no record of the model can meet it.
        """
        probability, beliefs = self._conditioned(where)
        potentials = dict(self.potentials)
        for position, allowed in self._evidence(where).items():
            name = self.domain.names[position]
            here = potentials.get((name,), np.zeros(len(allowed)))
            potentials[name,] = np.where(allowed, here, -np.inf)
        return FittedModel.with_beliefs(
            self.domain,
            self.total * probability,
            potentials,
            Calibrated(self.tree, beliefs, self.routes),
        )

    def _conditioned(self, where: Where) -> tuple[float, tuple[np.ndarray, ...]]:
        evidence = self._evidence(where)
        probability, beliefs = condition_beliefs(self.tree, self.calibrated.beliefs, evidence)
        if not beliefs:
            raise InputError(
                f"The condition on {', '.join(where)} has probability zero in the model: no record"
                " can meet it. Allow more values, or fewer attributes."
            )
        return probability, beliefs

    def _evidence(self, where: Where) -> dict[int, np.ndarray]:
        """Return for each attribute of a condition, by position, which of its codes meet it."""
        met = codes_meeting(self.domain, where)
        return {self._position[name]: allowed for name, allowed in met.items()}

    def sample(
        self, rows: int, rng: np.random.Generator, where: Where | None = None
    ) -> EncodedTable:
        """Sample a table with marginals as close to the model's as whole rows allow.

        Parameters
        ----------
        rows
            Number of records.
        rng
            Random generator of rounding and shuffling, which are post-processing and cost nothing.
        where
            A condition that all records meet, as in `condition`: the table follows the model of
            the records that meet it. None: no condition.

        Returns
        -------
        EncodedTable
            Codes over `domain`, in random order.

        Raises
        ------
        InputError
            If `rows` is below 1, or as `condition` does.
        """
        check_rows(rows)
        beliefs = self._conditioned(where)[1] if where else self.calibrated.beliefs
        return EncodedTable(self.domain, tuple(sample_codes(self.tree, beliefs, rows, rng)))

    def _stored(self) -> tuple[Facts, Arrays]:
        """Return what `StoredModel.save` writes."""
        return {}, {f"potential_{i}": table for i, table in enumerate(self.potentials.values())}

    @classmethod
    def _restored(cls, kept: Kept) -> Self:
        """Return the model of what `_stored` gave."""
        potentials = {c: kept.arrays[f"potential_{i}"] for i, c in enumerate(kept.cliques)}
        return cls(kept.domain, kept.total, potentials)


def codes_meeting(domain: Domain, where: Where) -> dict[str, np.ndarray]:
    """Return for each attribute of a condition which of its codes meet it, as a mask."""
    met = {}
    for name, condition in where.items():
        attribute = domain.attribute(name)
        allowed = np.zeros(attribute.size, dtype=bool)
        allowed[list(codes_of(attribute, _plain(condition), of="the argument where"))] = True
        met[name] = allowed
    return met


def possible_cells(domain: Domain, clique: Clique) -> np.ndarray:
    """Return a mask of a marginal's possible cells, given the domain's combinations."""
    if not domain.forbidden:
        return np.ones([domain.size((name,)) for name in clique], dtype=bool)
    possible: np.ndarray = FittedModel.uniform(domain, 1.0).marginal(clique) > 0
    return possible


def possible_sizes(domain: Domain, cliques: Sequence[Clique]) -> np.ndarray:
    """Return the number of possible cells of each marginal, float64, shape ``(m,)``."""
    if not domain.forbidden:
        return np.array([domain.size(clique) for clique in cliques], dtype=np.float64)
    sizes = {
        clique: np.count_nonzero(answer)
        for block in marginal_blocks(FittedModel.uniform(domain, 1.0), cliques)
        for clique, answer in block.items()
    }
    return np.array([sizes[clique] for clique in cliques], dtype=np.float64)


def _plain(condition: object) -> object:
    """Return a condition with NumPy's numbers, texts and lists as Python's."""
    if isinstance(condition, np.ndarray | np.generic):
        return condition.tolist()
    if isinstance(condition, list | tuple | set | frozenset | range):
        return [_plain(item) for item in condition]
    if isinstance(condition, Mapping):
        return {key: _plain(item) for key, item in condition.items()}
    return condition
