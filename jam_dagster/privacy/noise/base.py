"""The noise that makes a release private, behind one protocol with two backends.

`ExactNoise` draws with OpenDP: integer arithmetic, a secure generator, no seed. `SeededNoise`
draws with NumPy from a seed, for research and reproduction; its output must not be released.
"""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from jam_dagster.errors import SpecificationError


class Noise(Protocol):
    """A source of the draws that private synthetic data need.

    Attributes
    ----------
    name : str
        ``"exact"`` or ``"numpy"``.
    releasable : bool
        Whether the output may be released.
    repeatable : bool
        Whether repeating a draw gives the same answer in any process.
    """

    @property
    def name(self) -> str:
        """Name of the backend, as in configurations and transcripts."""
        ...

    @property
    def releasable(self) -> bool:
        """Whether the output may be released."""
        ...

    @property
    def repeatable(self) -> bool:
        """Whether a draw of the same step with the same arguments always gives the same answer."""
        ...

    def gaussian_counts(
        self, counts: NDArray[np.int64], l2_sensitivity: float, rho: float, step: str
    ) -> tuple[NDArray[np.int64], float]:
        """Add discrete Gaussian noise to a marginal.

        Parameters
        ----------
        counts : int64 array of any shape
            Counts of one marginal.
        l2_sensitivity : float
            The largest change of the counts between neighbours, in L2.
        rho : float
            What the draw costs.
        step : str
            Which draw of the release this is, such as ``"round-003/measure"``.

        Returns
        -------
        noisy : int64 array of the same shape
            Counts plus noise; may be negative.
        sigma : float
            Scale of the noise in counts, ``l2_sensitivity / sqrt(2 rho)``.

        Raises
        ------
        SpecificationError
            If an argument is out of range; raised before anything is drawn.
        """
        ...

    def gaussian_values(
        self, values: NDArray[np.float64], l2_sensitivity: float, rho: float, step: str
    ) -> tuple[NDArray[np.float64], float]:
        """Add Gaussian noise to a vector of real statistics.

        Parameters
        ----------
        values : float64 array, shape (k,)
            Statistics that move together by at most `l2_sensitivity`.
        l2_sensitivity : float
            In the unit of `values`.
        rho : float
            What the draw costs.
        step : str
            Which draw of the release this is.

        Returns
        -------
        noisy : float64 array, shape (k,)
        sigma : float
            ``l2_sensitivity / sqrt(2 rho)``, in the unit of `values`.

        Raises
        ------
        SpecificationError
            If an argument is out of range; raised before anything is drawn.
        """
        ...

    def select_values(
        self,
        counts: NDArray[np.int64],
        l2_sensitivity: float,
        rho: float,
        delta: float,
        values: int,
        rows: int,
        step: str,
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], float, int]:
        """Publish the values whose count with discrete Gaussian noise reaches a threshold.

        Values are those that occur, and which these are depends on the data. It is rho-zCDP but
        with a probability of `delta`, which bounds the probability that any value is published
        which one person alone has (Rogers 2023, arXiv 2309.09170).

        Parameters
        ----------
        counts : int64 array, shape (m,)
            How often each value occurs, 1 or more; m may be 0.
        l2_sensitivity : float
            The largest change of the counts between neighbours, in L2.
        rho : float
            The cost of the draw.
        delta : float
            Its delta.
        values, rows : int
            How many counts move with one person, and by how much each.
        step : str
            Which draw of the release this is.

        Returns
        -------
        chosen : int64 array, shape (k,)
            Indices of the published values, increasing.
        noisy : int64 array, shape (k,)
            Their noisy counts.
        sigma : float
            Scale of the noise in counts.
        threshold : int
            The least noisy count that is published.

        Raises
        ------
        SpecificationError
            If an argument is out of range; raised before anything is drawn.
        """
        ...

    def select(self, scores: NDArray[np.float64], rho: float, sensitivity: float, step: str) -> int:
        """Choose a candidate by the exponential mechanism, in one draw.

        Candidate c is chosen with probability proportional to
        ``exp(epsilon scores[c] / (2 sensitivity))`` with ``epsilon = sqrt(8 rho)``.

        Parameters
        ----------
        scores : float64 array, shape (m,)
            The higher the better.
        rho : float
            What the draw costs.
        sensitivity : float
            The largest change of a score between neighbours.
        step : str
            Which draw of the release this is.

        Returns
        -------
        int
            Index of the chosen candidate.

        Raises
        ------
        SpecificationError
            If an argument is out of range; raised before anything is drawn.
        """
        ...


def check_selection(delta: float, values: int, rows: int) -> None:
    """Raise SpecificationError unless a selection of values can be made.

    `values` counts move with one person, each by at most `rows`.
    """
    if not 0.0 < delta < 1.0 or values < 1 or rows < 1:
        raise SpecificationError(
            f"a selection of values needs a delta between 0 and 1, got {delta!r}"
        )


def check_sensitivity(sensitivity: float) -> float:
    """Return `sensitivity` if it is positive and finite, else raise SpecificationError."""
    if not 0.0 < sensitivity < math.inf:
        raise SpecificationError(f"the sensitivity must be positive, got {sensitivity!r}")
    return float(sensitivity)


def check_counts(counts: NDArray[Any]) -> NDArray[np.int64]:
    """Return `counts` as int64 if they are whole numbers and not empty.

    An error holds the dtype or the shape, never a count.
    """
    array = np.asarray(counts)
    if array.dtype.kind not in "iu":
        raise SpecificationError(f"counts must be integers, got dtype {array.dtype}")
    if array.size == 0:
        raise SpecificationError(f"counts must not be empty, got shape {array.shape}")
    return array.astype(np.int64, copy=False)


def check_values(values: NDArray[Any], *, name: str) -> NDArray[np.float64]:
    """Return `values` as a float64 vector if they are finite and not empty.

    An error holds the shape or how many are not finite, never a value.
    """
    array = np.asarray(values)
    if array.dtype.kind not in "fiu":
        raise SpecificationError(f"{name} must be numbers, got dtype {array.dtype}")
    array = array.astype(np.float64, copy=False)
    if array.ndim != 1 or array.size == 0:
        raise SpecificationError(f"{name} must be a vector and not empty, got shape {array.shape}")
    wrong = int(array.size - np.isfinite(array).sum())
    if wrong:
        raise SpecificationError(f"{name} must be finite, {wrong} of {array.size} are not")
    return array
