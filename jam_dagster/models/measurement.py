"""A measurement: what a model is fitted to."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from jam_dagster.tables import Clique

Origin = Literal["private", "public"]


LARGEST_MARGINAL_CELLS = 2**27
"""A gibibyte of counts: no table counts, and no model answers, a larger marginal."""

MEAN_ABSOLUTE_NORMAL = math.sqrt(2 / math.pi)
"""E|z| of a standard normal z: what noise of sigma 1 adds to the L1 error of a cell."""


@dataclass(frozen=True, eq=False)
class Measurement:
    """A marginal that was measured.

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
    cell
        Where only one cell of the marginal was measured, its place in the flattened marginal; then
        `values` has shape ``(1,)``.
    """

    clique: Clique
    source: Origin
    values: np.ndarray
    sigma: float
    round: int
    cell: int | None = None
