"""Outlook of a dataset's budget after a planned release; the ledger is only read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from jam_dagster.errors import BudgetError
from jam_dagster.privacy import describe_rho

if TYPE_CHECKING:
    from jam_dagster.planning.request import PlanRequest
    from jam_dagster.tables import Domain

_DUST_UNITS = 1000
"""The least amount, in units of 1e-15 rho, that pays for anything; see `Balance`."""


@dataclass(frozen=True)
class LedgerOutlook:
    """What a release would leave of a dataset's budget.

    Amounts are in epsilon at the delta of the budget; None if the ledger knows no budget, and
    `after_epsilon` if the release does not fit.
    """

    ledger: str
    dataset: str
    remaining_epsilon: float | None
    after_epsilon: float | None
    fits: bool
    note: str


def ledger_outlook(request: PlanRequest, domain: Domain, notes: list[str]) -> LedgerOutlook | None:
    """Read from the ledger what a release would leave."""
    spec = request.spec
    if request.ledger is None:
        return None
    if not spec.exact:
        notes.append("Seeded noise charges nothing: the ledger would stay as it is.")
        return None
    if not spec.dataset:
        notes.append("Name the protected dataset with --dataset ID to see what would be left.")
        return None
    # The ledger brings SQLAlchemy, for which a plan without one need not wait.
    from jam_dagster.privacy import Ledger
    from jam_dagster.privacy.accounting import rho_within
    from jam_dagster.privacy.ledger.opening import share_units

    ledger, key = Ledger(request.ledger), request.key(domain)
    if key.dataset not in ledger.datasets():
        note = (
            "The ledger grants this dataset nothing yet: its budget is granted by "
            "`jam-dagster ledger grant`, or by configuration when it is first used."
        )
        return LedgerOutlook(ledger.location, key.dataset, None, None, False, note)
    balance = ledger.balance(key.dataset)
    left = balance.remaining_units_in(key.partition)
    after = balance.remaining_units_after(sum(share_units(spec.shares).values()), key.partition)
    fits, note = True, f"It reserves {describe_rho(spec.budget.rho, spec.privacy.delta)}."
    before = ledger.release(key)
    if before is not None and before.spent:
        after = left
        note = "It was charged before: what it drew is stored, and costs nothing again."
    elif before is not None and not before.closed:
        after = left
        note = "It is reserved already: what is left counts without it."
    try:
        ledger.check(key, spec.shares, neighbours=spec.neighbours)
    except BudgetError as error:
        fits, note = False, str(error)
    # Rounding may leave so little that it pays for nothing.
    remaining, would_be = (
        balance.epsilon_of(rho_within(units)) if units >= _DUST_UNITS else 0.0
        for units in (left, after)
    )
    return LedgerOutlook(
        ledger.location, key.dataset, remaining, would_be if fits else None, fits, note
    )
