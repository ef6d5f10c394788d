"""A measurement, the input of a model's fit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from jam_dagster.errors import InputError
from jam_dagster.tables import Clique, Domain

Origin = Literal["private", "public"]


LARGEST_MARGINAL_CELLS = 2**27
"""A gibibyte of counts, the limit of a marginal in tables and models."""

MEAN_ABSOLUTE_NORMAL = math.sqrt(2 / math.pi)
"""E|z| of a standard normal z: the expected L1 error of a cell under noise of sigma 1."""


@dataclass(frozen=True, eq=False)
class Measurement:
    """A measured marginal.

    Attributes
    ----------
    clique
        Attributes, in domain order.
    source
        ``private``: with Gaussian noise; ``public``: exact counts of the public table.
    values
        Counts (float64, shape of the clique), scaled to n records.
    sigma
        Standard deviation of the noise of each cell, in counts; 0 for public.
    round
        The round that measured it, from 0.
    step
        The name of the draw that measured it, or of the step that took it from a public table.
    """

    clique: Clique
    source: Origin
    values: np.ndarray
    sigma: float
    round: int
    step: str = ""


def check_marginal(domain: Domain, names: Sequence[str]) -> int:
    """Return the number of cells of a marginal, which a model can answer at once."""
    cells = domain.size(names)
    if len(set(names)) < len(names):
        raise InputError(f"An attribute is repeated in {tuple(names)}.")
    if cells > LARGEST_MARGINAL_CELLS:
        raise InputError(
            f"The marginal over {', '.join(names)} has {cells:,} cells, more than the "
            f"{LARGEST_MARGINAL_CELLS:,} that fit: ask for fewer attributes."
        )
    return cells
