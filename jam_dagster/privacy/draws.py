"""Draws that are charged before they are made and stored before they are used.

A mechanism never holds a noise generator. It holds `Draws`, by which every random draw on private
data takes the same steps: charge the account, draw, store the outcome, journal its digest. A
stored outcome is returned again without a charge: reading it is post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING

import numpy as np

from jam_dagster.common.choices import RECORDS_SHARE
from jam_dagster.errors import (
    ChargedBeforeError,
    LedgerIntegrityError,
    LostDrawError,
    SpecificationError,
)
from jam_dagster.privacy.accounting import (
    UNITS_PER_RHO,
    exponential_epsilon,
    rho_within,
    units_down,
    units_up,
)
from jam_dagster.privacy.noise.base import check_counts, check_sensitivity, check_values
from jam_dagster.privacy.noise.calls import SELECTION, DrawKind, NoiseCall
from jam_dagster.privacy.outcome_digest import choice_digest, values_digest
from jam_dagster.privacy.outcome_store import MemoryStore, Outcome, OutcomeStore
from jam_dagster.privacy.sensitivity import REPLACE_ONE, Neighbours

if TYPE_CHECKING:
    from jam_dagster.privacy.account import Account
    from jam_dagster.privacy.noise.base import Noise


class Draws:
    """The only way from private data to an outcome: charge, draw, store, confirm.

    Parameters
    ----------
    noise
        What draws: exact for a release, seeded for research.
    account
        The share of the release's reservation that pays.
    store
        Where outcomes are kept. A draw found here is returned without a charge.
    neighbours
        The neighbouring relation that the release protects; it decides the noise of every draw.
    records_share
        The part of the account that measures the number of rows, where that is private.

    Raises
    ------
    SpecificationError
        If `records_share` is out of range.

    Notes
    -----
    `spent` counts the draws requested from this object, paid now or by an earlier run of the same
    release. A run that finds its first draws stored therefore divides its budget just as the run
    that made them did.

    A draw that was charged and whose outcome was never confirmed is lost, and stays charged: exact
    noise would give another outcome, and both together reveal more than was paid for. Noise that
    is `Noise.repeatable` repeats the paid draw without a charge.
    """

    def __init__(
        self,
        noise: Noise,
        account: Account,
        store: OutcomeStore | None = None,
        *,
        neighbours: Neighbours = REPLACE_ONE,
        records_share: float = RECORDS_SHARE,
    ) -> None:
        if not 0.0 < records_share < 1.0:
            raise SpecificationError(
                f"records_share must lie between 0 and 1, both excluded, got {records_share!r}"
            )
        self.neighbours = neighbours
        self.records_share = records_share
        self._noise = noise
        self._account = account
        self._store: OutcomeStore = MemoryStore() if store is None else store
        self._units_of: dict[str, int] = {}
        self._units = 0
        self._calls: dict[str, NoiseCall] = {}

    @property
    def calls(self) -> tuple[NoiseCall, ...]:
        """The draws requested so far, in order, lost ones included."""
        return tuple(self._calls.values())

    @property
    def noise_name(self) -> str:
        """The name of the noise backend."""
        return self._noise.name

    @property
    def releasable(self) -> bool:
        """Whether the noise is exact and unseeded, so that outcomes may be released."""
        return self._noise.releasable

    @property
    def total(self) -> float:
        """The rho that this account holds for the whole run."""
        return self._account.reserved

    @property
    def spent(self) -> float:
        """The rho of all draws requested so far, lost ones included."""
        return self._units / UNITS_PER_RHO

    @property
    def remaining(self) -> float:
        """The rho left for further draws, rounded so that charging all of it always fits."""
        return rho_within(max(0, units_down(self.total) - self._units))

    def can_make(self, step: str) -> bool:
        """Return whether a step is still to be drawn: neither stored, nor lost, nor closed."""
        if self._store.get(step) is not None:
            return False
        if self._account.charged(step) is not None:
            return self._noise.repeatable
        return not self._account.closed

    def select(
        self,
        step: str,
        scores: np.ndarray,
        *,
        rho: float,
        sensitivity: float,
        named: Callable[[int], str] = str,
    ) -> int:
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
        named
            Returns the name of the candidate at an index, which the ledger's digest covers.

        Returns
        -------
        int
            The chosen index.

        Raises
        ------
        BudgetExceededError
            If the account does not hold `rho`.
        LostDrawError
            If the draw was charged by an earlier run that never stored it, unless the noise
            repeats it.
        LedgerIntegrityError
            If the stored outcome does not match the digest in the ledger.
        ReleaseClosedError
            If the account is closed, or was closed before the outcome was journalled.
        """
        # Invalid scores must fail before the charge.
        scores = check_values(scores, name="scores")
        check_sensitivity(sensitivity)
        stored = self._open(step, rho, SELECTION, sensitivity, scores.size)
        if stored is None:
            index = self._noise.select(scores, rho, sensitivity, step)
            stored = {"index": int(index), "rho": rho}
            self._store.put(step, stored)
        chosen = int(stored["index"])
        if not 0 <= chosen < scores.size:
            raise LedgerIntegrityError(
                f"the stored outcome of {step} chooses a candidate that does not exist: it was "
                "changed after it was drawn. Restore the stored outcomes from a copy"
            )
        self._account.confirm(step, choice_digest(named(chosen), float(stored["rho"])))
        self._note(step, exponential_epsilon(rho))
        return chosen

    def measure(
        self, step: str, counts: np.ndarray, *, rho: float, subject: str = ""
    ) -> tuple[np.ndarray, float]:
        """Measure a marginal with discrete Gaussian noise.

        Parameters
        ----------
        step
            The name of this draw within its release.
        counts
            The marginal, integer counts of any shape.
        rho
            What the measurement may cost; with replace-one neighbours, where a marginal moves by
            sqrt 2 in L2, the noise has ``sigma^2 = 1 / rho``.
        subject
            What is measured, which the ledger's digest covers.

        Returns
        -------
        tuple of ndarray and float
            Noisy counts (float64, the same shape) and sigma in counts.

        Raises
        ------
        BudgetExceededError, LostDrawError, LedgerIntegrityError, ReleaseClosedError
            As for `select`.
        """
        counts = check_counts(counts)
        return self._measure(step, counts, self.neighbours.marginal_l2, rho, subject)

    def records(self, records: int) -> int:
        """Return the number of rows, measured where it is private.

        Parameters
        ----------
        records
            The exact n.

        Returns
        -------
        int
            n where it is public; else n with discrete Gaussian noise of ``sigma = k / sqrt(2 rho)``
            for k rows a person, at least 1, with rho the `records_share` of the remaining rho. A
            lost measurement is repeated with the rho that remains then.

        Raises
        ------
        BudgetExceededError
            If the account cannot pay for the measurement.
        LedgerIntegrityError, ReleaseClosedError
            As for `select`.
        """
        if self.neighbours.records_public:
            self._account.publish_records(records)
            return records
        counts = np.array([records], dtype=np.int64)
        for attempt in count(1):
            step = "records" if attempt == 1 else f"records-{attempt}"
            rho = self.records_share * self.remaining
            try:
                noisy, _ = self._measure(step, counts, self.neighbours.records, rho, least=1.0)
            except LostDrawError:
                continue
            return int(noisy[0])
        raise AssertionError("unreachable")

    def _measure(
        self,
        step: str,
        counts: np.ndarray,
        l2_sensitivity: float,
        rho: float,
        subject: str = "",
        *,
        least: float = -math.inf,
    ) -> tuple[np.ndarray, float]:
        stored = self._open(step, rho, "discrete Gaussian", l2_sensitivity, counts.size)
        if stored is None:
            values, sigma = self._noise.gaussian_counts(counts, l2_sensitivity, rho, step)
            stored = {"values": values, "sigma": float(sigma), "rho": rho}
            self._store.put(step, stored)
        # The digest covers the released values.
        released = np.maximum(np.asarray(stored["values"], dtype=np.float64), least)
        sigma = float(stored["sigma"])
        self._confirm(step, released, sigma, stored, subject)
        return released, sigma

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
        BudgetExceededError, LostDrawError, LedgerIntegrityError, ReleaseClosedError
            As for `select`.
        """
        values = check_values(values, name="values")
        return self.means_of(
            step, lambda: values, size=values.size, l2_sensitivity=l2_sensitivity, rho=rho
        )

    def means_of(
        self,
        step: str,
        compute: Callable[[], np.ndarray],
        *,
        size: int,
        l2_sensitivity: float,
        rho: float,
    ) -> tuple[np.ndarray, float]:
        """Release real-valued statistics as `means` does, but compute them after the charge.

        Where it depends on private values whether `compute` fails, the charge pays for that answer:
        it stays, and the draw is lost.

        Parameters
        ----------
        step, l2_sensitivity, rho
            As for `means`.
        compute
            Returns the values, shape ``(size,)``; a stored outcome does without.
        size
            How many values there are.
        """
        check_sensitivity(l2_sensitivity)
        stored = self._open(step, rho, "Gaussian", l2_sensitivity, size)
        if stored is None:
            values = check_values(compute(), name="values")
            noisy, sigma = self._noise.gaussian_values(values, l2_sensitivity, rho, step)
            stored = {"values": noisy, "sigma": float(sigma), "rho": rho}
            self._store.put(step, stored)
        released, sigma = np.asarray(stored["values"]), float(stored["sigma"])
        self._confirm(step, released, sigma, stored)
        return released, sigma

    def _confirm(
        self, step: str, values: np.ndarray, sigma: float, stored: Outcome, subject: str = ""
    ) -> None:
        paid = float(stored["rho"])
        self._account.confirm(step, values_digest(values, sigma, paid, subject))
        self._note(step, sigma)

    def _note(self, step: str, scale: float) -> None:
        self._calls[step] = replace(self._calls[step], scale=scale, lost=False)

    def _open(
        self, step: str, rho: float, kind: DrawKind, sensitivity: float, cells: int
    ) -> Outcome | None:
        """Return the stored outcome of a step, or None once it is paid for and may be drawn."""
        stored = self._store.get(step)
        if stored is not None and not self._is_lost(step):
            paid = float(stored["rho"])
            self._calls[step] = NoiseCall(step, kind, paid, sensitivity, None, cells, lost=True)
            self._count(step, units_up(paid))
            return stored
        charged = self._charge(step, rho)
        repeats = charged is None or self._repeats(charged, rho)
        paid = rho if charged is None or repeats else charged
        self._calls[step] = NoiseCall(step, kind, paid, sensitivity, None, cells, lost=True)
        if charged is not None and not repeats:
            # The amount came through a float, which may have lost a unit of what was charged.
            self._count(step, units_up(math.nextafter(charged, math.inf)))
            raise LostDrawError(
                f"{step} was charged (rho = {charged:.6g}) but the ledger never had its outcome; "
                "it counts as spent and cannot be drawn again."
            )
        self._count(step, units_up(rho))
        return None

    def _count(self, step: str, units: int) -> None:
        self._units += units - self._units_of.get(step, 0)
        self._units_of[step] = units

    def _is_lost(self, step: str) -> bool:
        """Return whether a stored outcome may be anybody's: it was paid for, and never confirmed.

        A process that was killed before the ledger had the digest leaves such an outcome. So does
        whoever can write to the store, and is no part of the release.
        """
        if self._noise.repeatable or self._account.confirmed(step):
            return False
        return self._account.charged(step) is not None

    def _charge(self, step: str, rho: float) -> float | None:
        """Charge a step; return what was charged for it before, and nothing is charged then.

        No read comes first: the charge itself looks, in its own transaction, whether the step was
        charged before, whoever did it and whenever.
        """
        try:
            # A refused charge is no draw.
            self._account.charge(step, rho)
        except ChargedBeforeError:
            return self._account.charged(step)
        return None

    def _repeats(self, charged: float, rho: float) -> bool:
        """Return whether repeating a draw gives exactly the outcome that was paid for.

        Another price makes another draw: the same noise at another scale, added to the same
        counts, reveals the counts.
        """
        return self._noise.repeatable and rho_within(units_up(rho)) == charged
