"""The fitted graphical model: answers any marginal, samples rows, saves without pickle."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from jam_dagster.errors import InputError
from jam_dagster.mechanisms.junction_tree import (
    BYTES_PER_CELL,
    MEGABYTE,
    Calibrated,
    JunctionTree,
    bits,
    calibrate,
    mask_of,
)
from jam_dagster.mechanisms.sampling import sample_codes
from jam_dagster.tables import Clique, Domain, EncodedTable
from jam_dagster.tables.files import write_whole

if TYPE_CHECKING:
    from upath import UPath

LARGEST_ANSWER_CELLS = 2**27


@dataclass(frozen=True, eq=False)
class FittedModel:
    """A Markov random field over a domain, with its total.

    Attributes
    ----------
    domain
        The attributes and their values.
    total
        The number of records that the model stands for; marginals sum to it.
    potentials
        Clique to log potential (float64, shape of the clique, attributes in domain order).
        Impossible combinations of the domain need not be here: they are fixed zeros.
    """

    domain: Domain
    total: float
    potentials: Mapping[Clique, np.ndarray]

    @classmethod
    def uniform(cls, domain: Domain, total: float) -> FittedModel:
        """Return the model that spreads `total` evenly over the possible cells of the domain."""
        return cls(domain, float(total), {})

    @property
    def cliques(self) -> tuple[Clique, ...]:
        """The cliques that carry potentials, in the order in which they were given."""
        return tuple(self.potentials)

    @property
    def records(self) -> int:
        """The total, rounded: makes the model a `MarginalSource`."""
        return round(self.total)

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
    def calibrated(self) -> Calibrated:
        """The junction tree with every clique's probabilities."""
        potentials = [(self._mask(clique), table) for clique, table in self.potentials.items()]
        for clique, impossible in self.domain.impossible_masks().items():
            potentials.append((self._mask(clique), np.where(impossible, -np.inf, 0.0)))
        return Calibrated(self.tree, calibrate(self.tree, potentials))

    def marginal(self, names: Sequence[str]) -> np.ndarray:
        """Return the model's marginal over `names`, in the order given.

        Parameters
        ----------
        names
            Distinct attributes, in a clique of the model or not.

        Returns
        -------
        ndarray
            Expected counts, float64, one axis an attribute, summing to `total`.

        Raises
        ------
        InputError
            If an attribute is unknown or repeated, or the answer would have more than 2^27 cells.
        """
        mask = self._mask(names)
        if mask.bit_count() != len(names):
            raise InputError(f"An attribute is repeated in {tuple(names)}.")
        cells = self.domain.size(self.domain.canonical(names))
        if cells > LARGEST_ANSWER_CELLS:
            raise InputError(
                f"The marginal over {tuple(names)} has {cells:,} cells, more than the "
                f"{LARGEST_ANSWER_CELLS:,} that fit; ask for fewer attributes."
            )
        ascending = list(bits(mask))
        order = [ascending.index(self._position[name]) for name in names]
        answer: np.ndarray = self.calibrated.marginal(mask).transpose(order) * self.total
        return answer

    def marginals(self, cliques: Iterable[Clique]) -> dict[Clique, np.ndarray]:
        """Return the marginals over many cliques; see `marginal`."""
        return {clique: self.marginal(clique) for clique in cliques}

    def sample(self, rows: int, rng: np.random.Generator) -> EncodedTable:
        """Draw a table whose marginals follow the model's as closely as whole rows can.

        Parameters
        ----------
        rows
            How many records.
        rng
            Drives the rounding and the shuffling. It is post-processing: it costs no budget.

        Returns
        -------
        EncodedTable
            Codes over `domain`, in random order.
        """
        if rows < 1:
            raise InputError(f"The number of rows to sample must be at least 1, got {rows}.")
        columns = sample_codes(self.tree, self.calibrated.beliefs, rows, rng)
        return EncodedTable(self.domain, tuple(columns))

    def save(self, directory: Path | UPath) -> None:
        """Write the model to a folder: ``model.json`` and ``potentials.npz``."""
        directory.mkdir(parents=True, exist_ok=True)
        description = {
            "total": self.total,
            "domain": self.domain.to_dict(),
            "cliques": [list(clique) for clique in self.potentials],
        }
        buffer = io.BytesIO()
        tables = {f"potential_{i}": table for i, table in enumerate(self.potentials.values())}
        np.savez_compressed(buffer, allow_pickle=False, **tables)
        write_whole(directory / "potentials.npz", buffer.getvalue())
        write_whole(directory / "model.json", json.dumps(description, indent=1).encode())

    @classmethod
    def load(cls, directory: Path | UPath) -> FittedModel:
        """Read a model that `save` wrote.

        Raises
        ------
        InputError
            If the folder does not hold a model.
        """
        path = directory / "model.json"
        if not path.exists():
            raise InputError(f"{directory} holds no model.json; give a folder that save() wrote.")
        description = json.loads(path.read_text())
        cliques = [tuple(clique) for clique in description["cliques"]]
        packed = io.BytesIO((directory / "potentials.npz").read_bytes())
        with np.load(packed, allow_pickle=False) as stored:
            potentials = {c: stored[f"potential_{i}"] for i, c in enumerate(cliques)}
        domain = Domain.from_dict(description["domain"])
        return cls(domain, float(description["total"]), potentials)
