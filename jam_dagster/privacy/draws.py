"""Draws that are charged before they are made and stored before they are used.

A mechanism never holds a noise generator. It holds `Draws`, and through it every random draw on
private data goes the same way: charge the account, draw, store the outcome. A draw whose outcome
is stored is post-processing and is handed out again for nothing.
"""

from __future__ import annotations

import io
import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from jam_dagster.errors import LostDrawError
from jam_dagster.privacy.accounting import UNITS_PER_RHO, rho_within, units_down, units_up
from jam_dagster.privacy.noise import check_counts, check_sensitivity, check_values
from jam_dagster.tables.files import write_whole

if TYPE_CHECKING:
    from upath import UPath

    from jam_dagster.privacy.account import Account
    from jam_dagster.privacy.noise import Noise

Outcome = dict[str, Any]


class OutcomeStore(Protocol):
    """Where the outcomes of draws are kept; they are differentially private, so releasable."""

    def get(self, step: str) -> Outcome | None:
        """Return the outcome of `step`, None if it was never stored."""

    def put(self, step: str, outcome: Outcome) -> None:
        """Store the outcome of `step`, durably."""


class MemoryStore:
    """An `OutcomeStore` that lives as long as the process."""

    def __init__(self) -> None:
        self._outcomes: dict[str, Outcome] = {}

    def get(self, step: str) -> Outcome | None:
        """Return the outcome of `step`, None if it was never stored."""
        return self._outcomes.get(step)

    def put(self, step: str, outcome: Outcome) -> None:
        """Keep the outcome of `step`."""
        self._outcomes[step] = outcome


class DirectoryStore:
    """An `OutcomeStore` with one ``.npz`` file a draw, on a local disk or any fsspec store.

    Parameters
    ----------
    directory
        The folder; it is made on the first `put`.
    """

    def __init__(self, directory: Path | UPath) -> None:
        self._directory = directory

    def _path(self, step: str) -> Path | UPath:
        return self._directory / (step.replace("/", "-") + ".npz")

    def get(self, step: str) -> Outcome | None:
        """Return the outcome of `step`, None if it was never stored."""
        path = self._path(step)
        if not path.exists():
            return None
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as stored:
            outcome: Outcome = json.loads(str(stored["scalars"]))
            outcome.update({name: stored[name] for name in stored.files if name != "scalars"})
        return outcome

    def put(self, step: str, outcome: Outcome) -> None:
        """Store the outcome of `step`; on a local disk it is whole and synced, or not there."""
        arrays = {name: value for name, value in outcome.items() if isinstance(value, np.ndarray)}
        scalars = {name: value for name, value in outcome.items() if name not in arrays}
        buffer = io.BytesIO()
        np.savez_compressed(buffer, allow_pickle=False, scalars=json.dumps(scalars), **arrays)
        path = self._path(step)
        self._directory.mkdir(parents=True, exist_ok=True)
        write_whole(path, buffer.getvalue())


class Draws:
    """The only way from private data to an outcome: charge, draw, store.

    Parameters
    ----------
    noise
        What draws: exact for a release, seeded for research.
    account
        The share of the release's reservation that pays.
    store
        Where outcomes are kept. A draw found here is returned without a charge.

    Notes
    -----
    `spent` counts the draws that this object was asked for, paid now or by an earlier run of the
    same release. A run that finds its first draws stored therefore divides its budget just as the
    run that made them did.
    """

    def __init__(self, noise: Noise, account: Account, store: OutcomeStore | None = None) -> None:
        self._noise = noise
        self._account = account
        self._store: OutcomeStore = MemoryStore() if store is None else store
        self._units_of: dict[str, int] = {}

    @property
    def noise_name(self) -> str:
        """The name of the noise backend."""
        return self._noise.name

    @property
    def releasable(self) -> bool:
        """Whether the noise is exact and unseeded, so that outcomes may leave."""
        return self._noise.releasable

    @property
    def total(self) -> float:
        """The rho that this account holds for the whole run."""
        return self._account.reserved

    @property
    def spent(self) -> float:
        """The rho of all draws asked for so far, lost ones included."""
        return self._units / UNITS_PER_RHO

    @property
    def remaining(self) -> float:
        """The rho left for further draws, rounded so that charging all of it always fits."""
        return rho_within(max(0, units_down(self.total) - self._units))

    @property
    def _units(self) -> int:
        return sum(self._units_of.values())

    def select(self, step: str, scores: np.ndarray, *, rho: float, sensitivity: float) -> int:
        """Choose an index by the exponential mechanism.

        Parameters
        ----------
        step
            The name of this draw within its release.
        scores
            Shape ``(m,)``; the higher, the likelier.
        rho
            What the choice may cost; the mechanism runs with ``eps = sqrt(8 rho)``.
        sensitivity
            How far one person's replacement moves any score.

        Returns
        -------
        int
            The chosen index.

        Raises
        ------
        BudgetExceededError
            If the account does not hold `rho`.
        LostDrawError
            If the draw was charged by an earlier run that never stored it.
        """
        # What cannot be drawn from must fail before it is charged.
        scores = check_values(scores, name="scores")
        check_sensitivity(sensitivity)
        stored = self._open(step, rho)
        if stored is not None:
            return int(stored["index"])
        index = self._noise.select(scores, rho, sensitivity, step)
        self._store.put(step, {"index": int(index), "rho": rho})
        return index

    def measure(self, step: str, counts: np.ndarray, *, rho: float) -> tuple[np.ndarray, float]:
        """Measure a marginal with discrete Gaussian noise.

        Parameters
        ----------
        step
            The name of this draw within its release.
        counts
            The marginal, integer counts of any shape.
        rho
            What the measurement may cost; the noise has ``sigma^2 = 1 / rho``, since replacing a
            person changes a marginal by sqrt 2 in L2.

        Returns
        -------
        tuple of ndarray and float
            Noisy counts (float64, the same shape) and sigma in counts.

        Raises
        ------
        BudgetExceededError, LostDrawError
            As for `select`.
        """
        counts = check_counts(counts)
        stored = self._open(step, rho)
        if stored is None:
            values, sigma = self._noise.gaussian_counts(counts, rho, step)
            self._store.put(step, {"values": values, "sigma": float(sigma), "rho": rho})
        else:
            values, sigma = stored["values"], float(stored["sigma"])
        return values.astype(np.float64), sigma

    def means(
        self, step: str, values: np.ndarray, *, l2_sensitivity: float, rho: float
    ) -> tuple[np.ndarray, float]:
        """Release real-valued statistics with Gaussian noise.

        Parameters
        ----------
        step
            The name of this draw within its release.
        values
            Shape ``(k,)``.
        l2_sensitivity
            How far one person's replacement moves the vector, in L2.
        rho
            What the release of the whole vector may cost.

        Returns
        -------
        tuple of ndarray and float
            Noisy values, shape ``(k,)``, and their sigma.

        Raises
        ------
        BudgetExceededError, LostDrawError
            As for `select`.
        """
        values = check_values(values, name="values")
        check_sensitivity(l2_sensitivity)
        stored = self._open(step, rho)
        if stored is None:
            noisy, sigma = self._noise.gaussian_values(values, l2_sensitivity, rho, step)
            self._store.put(step, {"values": noisy, "sigma": float(sigma), "rho": rho})
        else:
            noisy, sigma = stored["values"], float(stored["sigma"])
        return noisy, sigma

    def _open(self, step: str, rho: float) -> Outcome | None:
        """Return the stored outcome of a step, or charge it and return None."""
        stored = self._store.get(step)
        if stored is not None:
            self._units_of[step] = units_up(float(stored["rho"]))
            return stored
        charged = self._account.charged(step)
        if charged is not None:
            # The amount came through a float, which may have lost a unit of what was charged.
            self._units_of[step] = units_up(math.nextafter(charged, math.inf))
            raise LostDrawError(
                f"{step} was charged (rho = {charged:.6g}) but its outcome was never stored; "
                "it counts as spent and cannot be drawn again."
            )
        self._account.charge(step, rho)
        self._units_of[step] = units_up(rho)
        return None
