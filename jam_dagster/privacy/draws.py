"""Draws that are charged before they are made and stored before they are used.

A mechanism never holds a noise generator. It holds `Draws`, by which every random draw on private
data takes the same steps: charge the account, draw, store the outcome, journal its digest. A
stored outcome is returned again without a charge: reading it is post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, cast

import numpy as np

from jam_dagster.common.choices import RECORDS_SHARE
from jam_dagster.common.redaction import private_values
from jam_dagster.errors import (
    BudgetExceededError,
    ChargedBeforeError,
    DamagedOutcomeError,
    LedgerIntegrityError,
    LostDrawError,
    SpecificationError,
)
from jam_dagster.privacy.accounting import (
    UNITS_PER_DELTA,
    UNITS_PER_RHO,
    equal_part,
    exponential_epsilon,
    rho_within,
    units_down,
    units_up,
)
from jam_dagster.privacy.noise.base import check_counts, check_sensitivity, check_values
from jam_dagster.privacy.noise.calls import (
    COUNTS,
    INTEGERS,
    RECORDS,
    SELECTION,
    THRESHOLD,
    DrawKind,
    NoiseCall,
    subject_of_choices,
    subject_of_values,
)
from jam_dagster.privacy.outcome_store import (
    MemoryStore,
    Outcome,
    OutcomeStore,
    choice_digest,
    decision_step,
    derived_digest,
    solution_step,
    values_digest,
)
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
                f"records_share must be between 0 and 1, both excluded, got {records_share!r}"
            )
        self.neighbours = neighbours
        self.records_share = records_share
        self._noise = noise
        self._account = account
        self._store: OutcomeStore = MemoryStore() if store is None else store
        self._units_of: dict[str, int] = {}
        self._units = 0
        self._calls: dict[str, NoiseCall] = {}
        self._deltas: dict[str, float] = {}

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

    def decided(self, number: int, holds: bool) -> bool:
        """Return a decision as the run that is resumed made it; else keep it as it is made now.

        It follows from released outcomes, and costs nothing; see `_derived`.
        """
        return bool(self._derived(decision_step(number), "holds", lambda: holds))

    def solved(self, step: str, solve: Callable[[], np.ndarray]) -> np.ndarray:
        """Return what a solver found in the run that is resumed; else solve, and keep it.

        It follows from released outcomes, and costs nothing; see `_derived`.
        """
        return np.asarray(self._derived(solution_step(step), "records", solve))

    def _derived(
        self, step: str, name: str, make: Callable[[], bool | np.ndarray]
    ) -> bool | np.ndarray:
        """Return what follows from outcomes as it was stored, or make it, store it and note it.

        Everyone who may write to the store can put another one there, and the next prices or the
        table follow from it. So it is taken only if the account has its digest. Without a digest it
        is computed again: nothing was charged on it.

        Raises
        ------
        LedgerIntegrityError
            If it was changed or lost, and comes out otherwise here.
        """
        try:
            kept = cast("bool | np.ndarray | None", (self._store.get(step) or {}).get(name))
        except DamagedOutcomeError:
            kept = None
        if kept is not None and self._account.derived(step, derived_digest(kept)):
            return kept
        made = make()
        self._store.put(step, {name: made})
        self._account.derive(step, derived_digest(made))
        return made

    def select(
        self,
        step: str,
        scores: Callable[[], np.ndarray],
        *,
        size: int,
        rho: float,
        sensitivity: float,
        choices: int = 1,
        distinct: bool = False,
        named: Callable[[int], str] = str,
    ) -> list[int]:
        """Choose indices by the exponential mechanism, all from the same scores.

        Parameters
        ----------
        step
            The name of this draw within its release.
        scores
            Returns the scores, shape ``(size,)``; the higher, the likelier. A stored outcome does
            without.
        size
            How many candidates there are.
        rho
            What the choices may cost together, each an equal part; for one the mechanism runs with
            ``eps = sqrt(8 rho)``.
        sensitivity
            How far one person's replacement moves any score.
        choices
            How many there are. They are independent, and may be the same.
        distinct
            Whether each is chosen among those that are left.
        named
            Returns the name of the candidate at an index, which the ledger's digest covers.

        Returns
        -------
        list of int
            The chosen indices, in order.

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
        check_sensitivity(sensitivity)
        call = NoiseCall(step, SELECTION, rho, sensitivity, None, size, choices=choices)
        stored = self._recalled(call)
        if stored is None:
            # Invalid scores must fail before the charge.
            values = _checked(partial(check_values, name="scores"), scores(), call)
            self._pay(call)
            # One choice keeps the name of its draw, and so its seed.
            steps = [step] if choices == 1 else [f"{step}/{at + 1}" for at in range(choices)]
            part = equal_part(rho, choices)
            made: list[int] = []
            for one in steps:
                index = int(self._noise.select(values, part, sensitivity, one))
                if distinct:
                    values = np.delete(values, index)
                    for before in sorted(made):
                        index += index >= before
                made.append(index)
            stored = {"index": made, "rho": rho}
            self._store.put(step, stored)
        chosen = [int(index) for index in stored["index"]]
        valid = len(chosen) == choices and all(0 <= index < size for index in chosen)
        if not valid or (distinct and len(set(chosen)) < choices):
            raise LedgerIntegrityError(
                f"the stored outcome of {step} chooses a candidate that does not exist: it was "
                "changed after it was drawn. Restore the stored outcomes from a copy"
            )
        subject = subject_of_choices([named(index) for index in chosen])
        self._account.confirm(step, choice_digest(subject, float(stored["rho"])))
        self._note(step, exponential_epsilon(equal_part(rho, choices)), subject)
        return chosen

    def measure(
        self,
        step: str,
        counts: Callable[[], np.ndarray],
        *,
        size: int,
        rho: float,
        subject: str = "",
    ) -> tuple[np.ndarray, float]:
        """Measure a marginal with discrete Gaussian noise.

        Parameters
        ----------
        step
            The name of this draw within its release.
        counts
            Returns the marginal, integer counts of any shape. A stored outcome does without.
        size
            How many cells it has.
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
        sensitivity = self.neighbours.marginal_l2
        call = NoiseCall(step, COUNTS, rho, sensitivity, None, size, subject=subject)
        return self._measured(call, counts)

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
        counts, sensitivity = np.array([records], dtype=np.int64), self.neighbours.records
        for attempt in count(1):
            step = "records" if attempt == 1 else f"records-{attempt}"
            rho = self.records_share * self.remaining
            call = NoiseCall(step, COUNTS, rho, sensitivity, None, 1, subject=RECORDS)
            try:
                noisy, _ = self._measured(call, lambda: counts, least=1.0)
            except LostDrawError:
                continue
            return int(noisy[0])
        raise AssertionError("unreachable")

    def _measured(
        self, call: NoiseCall, counts: Callable[[], np.ndarray], *, least: float = -math.inf
    ) -> tuple[np.ndarray, float]:
        stored = self._recalled(call)
        if stored is None:
            # Invalid counts must fail before the charge.
            exact = _checked(check_counts, counts(), call)
            self._pay(call)
            step, sensitivity = call.step, call.sensitivity
            values, sigma = self._noise.gaussian_counts(exact, sensitivity, call.rho, step)
            stored = {"values": values, "sigma": float(sigma), "rho": call.rho}
            self._store.put(step, stored)
        return self._released(call, stored, least=least)

    def values(
        self,
        step: str,
        compute: Callable[[], np.ndarray],
        *,
        size: int,
        rho: float,
        sensitivity: float,
        subject: str = "",
        integers: bool = False,
    ) -> tuple[np.ndarray, float]:
        """Release statistics with Gaussian noise.

        If it depends on private values whether `compute` fails, the charge pays for that answer:
        it stays, and the draw is lost.

        Parameters
        ----------
        step
            The name of this draw within its release.
        compute
            Returns the values, shape ``(size,)``, after the charge. A stored outcome does without.
        size
            How many values there are.
        rho
            What the release of the whole vector may cost.
        sensitivity
            How far one person's replacement moves the vector, in L2.
        subject
            What they are, which the ledger's digest covers. A stored outcome of something else is
            lost.
        integers
            Whether they are whole numbers, of dtype int64. Their noise is discrete.

        Returns
        -------
        tuple of ndarray and float
            Noisy values, float64 of shape ``(size,)``, and their sigma.

        Raises
        ------
        BudgetExceededError, LostDrawError, LedgerIntegrityError, ReleaseClosedError
            As for `select`.
        """
        check_sensitivity(sensitivity)
        kind: DrawKind = INTEGERS if integers else "Gaussian"
        call = NoiseCall(step, kind, rho, sensitivity, None, size, subject=subject)
        stored = self._recalled(call)
        if stored is not None and stored.get("subject") != subject:
            raise LostDrawError(
                f"{step} was drawn of something else than this run has; it counts as spent and "
                "cannot be drawn again."
            )
        if stored is None:
            self._pay(call)
            check = check_counts if integers else partial(check_values, name="values")
            draw = self._noise.gaussian_counts if integers else self._noise.gaussian_values
            noisy, sigma = draw(_checked(check, compute(), call), sensitivity, rho, step)
            stored = {"values": noisy, "sigma": float(sigma), "rho": rho, "subject": subject}
            self._store.put(step, stored)
        return self._released(call, stored)

    def select_values(
        self,
        step: str,
        counts: Callable[[], Mapping[str, int]],
        *,
        rho: float,
        delta: float,
        subject: str,
    ) -> tuple[tuple[str, ...], np.ndarray]:
        """Publish the values that surely more than one person has; see `Noise.select_values`.

        Parameters
        ----------
        step
            The name of this draw within its release.
        counts
            Returns how many rows have each value that occurs. A stored outcome does without.
        rho
            The price of the draw.
        delta
            Its delta, which is a part of what the account has for selections.
        subject
            The attribute whose values these are. The ledger's digest covers it, and the values.

        Returns
        -------
        tuple of tuple and ndarray
            The published values, in the order of `counts`, and their noisy counts, int64.

        Raises
        ------
        BudgetExceededError
            If the account does not hold `rho`, or has less delta for all selections.
        LostDrawError, LedgerIntegrityError, ReleaseClosedError
            As for `select`.
        """
        neighbours = self.neighbours
        call = NoiseCall(step, THRESHOLD, rho, neighbours.marginal_l2, None, 0, delta=delta)
        self._deltas[step] = delta
        taken = sum(Fraction(repr(one)) for one in self._deltas.values())
        if taken > Fraction(self._account.selections, UNITS_PER_DELTA):
            raise BudgetExceededError(
                f"{step} selects values, which takes a delta of {delta:g}, and this account has"
                " less left for it"
            )
        stored = self._recalled(call)
        if stored is None:
            with private_values():
                held = dict(counts())
                exact = np.array(list(held.values()), dtype=np.int64)
            self._pay(call)
            chosen, noisy, sigma, threshold = self._noise.select_values(
                exact,
                call.sensitivity,
                rho,
                delta,
                neighbours.values_of_one,
                neighbours.max_rows,
                step,
            )
            occurring = list(held)
            stored = {
                "values": noisy,
                "names": [occurring[index] for index in chosen.tolist()],
                "sigma": float(sigma),
                "threshold": int(threshold),
                "rho": rho,
            }
            self._store.put(step, stored)
        names, noisy = tuple(map(str, stored["names"])), np.asarray(stored["values"], np.int64)
        sigma, paid = float(stored["sigma"]), float(stored["rho"])
        threshold, of = int(stored["threshold"]), subject_of_values(subject, names)
        digest = values_digest(noisy.astype(np.float64), sigma, paid, f"{of} from {threshold}")
        self._account.confirm(step, digest)
        noted = replace(self._calls[step], scale=sigma, lost=False, subject=of)
        self._calls[step] = replace(noted, cells=len(names), threshold=threshold)
        return names, noisy

    def _released(
        self, call: NoiseCall, stored: Outcome, *, least: float = -math.inf
    ) -> tuple[np.ndarray, float]:
        """Confirm noisy values by the digest of what is released, and return them with sigma."""
        released = np.maximum(np.asarray(stored["values"], dtype=np.float64), least)
        sigma, paid = float(stored["sigma"]), float(stored["rho"])
        # The digest of n names nothing.
        subject = "" if call.subject == RECORDS else call.subject
        self._account.confirm(call.step, values_digest(released, sigma, paid, subject))
        self._note(call.step, sigma, call.subject)
        return released, sigma

    def _note(self, step: str, scale: float, subject: str) -> None:
        call = self._calls[step]
        self._calls[step] = replace(call, scale=scale, lost=False, subject=subject)

    def _recalled(self, call: NoiseCall) -> Outcome | None:
        """Return the stored outcome of a draw; None if it is still to be paid for."""
        stored = self._store.get(call.step)
        if stored is None or self._is_lost(call.step):
            return None
        paid = float(stored["rho"])
        self._calls[call.step] = replace(call, rho=paid, lost=True)
        self._count(call.step, units_up(paid))
        return stored

    def _pay(self, call: NoiseCall) -> None:
        """Charge a draw, which may be made then; raise LostDrawError if it was charged before."""
        step, rho = call.step, call.rho
        charged = self._charge(step, rho)
        repeats = charged is None or self._repeats(charged, rho)
        paid = rho if charged is None or repeats else charged
        self._calls[step] = replace(call, rho=paid, lost=True)
        if charged is not None and not repeats:
            # The amount came through a float, which may have lost a unit of what was charged.
            self._count(step, units_up(math.nextafter(charged, math.inf)))
            raise LostDrawError(
                f"{step} was charged (rho = {charged:.6g}) but the ledger never had its outcome; "
                "it counts as spent and cannot be drawn again."
            )
        self._count(step, units_up(rho))

    def _count(self, step: str, units: int) -> None:
        self._units += units - self._units_of.get(step, 0)
        self._units_of[step] = units

    def _is_lost(self, step: str) -> bool:
        """Return whether a stored outcome may be anybody's: it was paid for, and never confirmed.

        A process that was killed before the ledger had the digest leaves such an outcome. So does
        everyone who can write to the store and is not part of the release.
        """
        if self._noise.repeatable or self._account.confirmed(step):
            return False
        return self._account.charged(step) is not None

    def _charge(self, step: str, rho: float) -> float | None:
        """Charge a step; return what was charged for it before, and nothing is charged then.

        No read comes first: the charge itself looks, in its own transaction, whether the step was
        charged before, by any run at any time.
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


def _checked(
    check: Callable[[np.ndarray], np.ndarray], statistics: np.ndarray, call: NoiseCall
) -> np.ndarray:
    """Return what a draw is of, once it is of the draw's size.

    Its faults, and their number, may depend on private values.
    """
    with private_values():
        checked = check(statistics)
        if checked.size != call.cells:
            raise SpecificationError(f"{call.step} has {checked.size} values of {call.cells}")
    return checked
