"""The base of models: marginals, sampled rows, and storage in a folder."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, overload

import numpy as np

from jam_dagster.common.deferred import pd
from jam_dagster.errors import InputError
from jam_dagster.tables import Attribute, Clique, Domain, EncodedTable, MarginalSource

if TYPE_CHECKING:
    from upath import UPath


LARGEST_TABLE_CELLS = 2**27
"""Cells of the largest table that a marginal may take to compute: a gibibyte of float64."""


class Model(ABC):
    """A fitted model, which answers marginals, samples rows, and is stored; a `MarginalSource`."""

    fitted_by: ClassVar[tuple[str, ...]] = ()
    """Packages other than numpy whose version may change the last digits of a fit."""

    if TYPE_CHECKING:

        @property
        def domain(self) -> Domain:
            """The attributes and their values."""

        @property
        def total(self) -> float:
            """The number of records of the model; marginals sum to it."""

        @property
        def cliques(self) -> tuple[Clique, ...]:
            """The marginals that the model was fitted to."""

    @property
    def records(self) -> int:
        """The total, rounded."""
        return round(self.total)

    @property
    @abstractmethod
    def size_mb(self) -> float:
        """Size of the model's tables in megabytes, 8 bytes a number."""

    @overload
    def marginal(self, names: Sequence[str]) -> np.ndarray: ...

    @overload
    def marginal(self, names: Sequence[str], *, labelled: Literal[True]) -> pd.DataFrame: ...

    def marginal(
        self, names: Sequence[str], *, labelled: bool = False
    ) -> np.ndarray | pd.DataFrame:
        """Return the model's marginal over `names`, in the order given.

        Parameters
        ----------
        names
            Distinct attributes, whether they were measured together or not.
        labelled
            Whether to return a table with the labels of the attributes' values.

        Returns
        -------
        ndarray or DataFrame
            Expected counts, float64, summing to `total`: an array with one axis an attribute, or,
            if labelled, a DataFrame with one column, ``count``, and one level of its index an
            attribute.

        Raises
        ------
        InputError
            If an attribute is unknown or repeated, or the answer is too large; see `marginals`.
        """
        (answer,) = self.marginals([tuple(names)]).values()
        return labelled_counts(self.domain, names, answer) if labelled else answer

    @abstractmethod
    def marginals(self, cliques: Iterable[Clique]) -> dict[Clique, np.ndarray]:
        """Return many marginals, which share the work; see `marginal`."""

    def distance(self, other: Model) -> float:
        """Return the largest L1 distance of any marginal that both were fitted to.

        It is a fraction of the records, and infinite if the models are of different kinds, or over
        different domains or marginals.
        """
        same = type(self) is type(other) and self.total == other.total
        if not same or self.domain.digest != other.domain.digest:
            return math.inf
        if set(self.cliques) != set(other.cliques):
            return math.inf
        cliques = list(self.cliques)
        here, there = self.marginals(cliques), other.marginals(cliques)
        apart = [float(np.abs(here[q] - there[q]).sum()) for q in cliques]
        return max(apart, default=0.0) / self.total

    @abstractmethod
    def sample(self, rows: int, rng: np.random.Generator) -> EncodedTable:
        """Sample a table with marginals as close to the model's as whole rows allow.

        Parameters
        ----------
        rows
            How many records.
        rng
            Drives the rounding and the shuffling. It is post-processing: it costs no budget.

        Raises
        ------
        InputError
            If `rows` is below 1, or the mechanism's `samples` is False.
        """

    @abstractmethod
    def save(self, directory: Path | UPath) -> None:
        """Write the model to a folder, ``model.json`` and arrays; `load_model` reads it."""


def answerable(source: MarginalSource, cliques: Iterable[Clique]) -> list[Clique]:
    """Return the marginals that a model can compute; a table can count any."""
    cells = getattr(source, "largest_table", None)
    return [one for one in cliques if cells is None or cells(one) <= LARGEST_TABLE_CELLS]


def labelled_counts(domain: Domain, names: Sequence[str], counts: np.ndarray) -> pd.DataFrame:
    """Return counts as a column ``count``, each level of the index labels of an attribute.

    Labels are ordered categories, so that ``unstack`` and charts keep the order of the domain.
    """
    if not names:
        return pd.DataFrame({"count": counts.reshape(1)})
    levels = [_labels_of(domain.attribute(name)) for name in names]
    index = pd.MultiIndex.from_product(levels) if len(levels) > 1 else levels[0]
    return pd.DataFrame({"count": counts.ravel()}, index=index)


def _labels_of(attribute: Attribute) -> pd.Index[str]:
    labels, name = list(attribute.labels), attribute.name
    # A value may read like the label of a missing one.
    if len(set(labels)) < len(labels):
        return pd.Index(labels, name=name)
    return pd.CategoricalIndex(labels, labels, ordered=True, name=name)


def check_rows(rows: object) -> None:
    """Raise InputError unless so many rows can be sampled."""
    if not isinstance(rows, int | np.integer) or rows < 1:
        raise InputError(
            f"The number of rows to sample must be a whole number, at least 1, got {rows!r}."
        )


def model_card(title: str, model: Model, **facts: str) -> str:
    """Return the card of a model in a notebook, with its measured cliques."""
    from jam_dagster.common.notebook import card

    domain, size = model.domain, f"{model.size_mb:.2f} MB"
    shown = {"attributes": len(domain.names), "records": f"{model.total:,.0f}", "size": size}
    label = "restricted: domain from private data" if domain.restricted else ""
    rows = ((" x ".join(clique), domain.size(clique)) for clique in model.cliques)
    return card(title, shown | facts, label=label, columns=("measured clique", "cells"), rows=rows)
