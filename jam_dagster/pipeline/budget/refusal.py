"""How a run ends that the ledger refuses: with the reason, the next renewal, and as canceled."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from jam_dagster.errors import BudgetError, BudgetExceededError, LedgerIntegrityError
from jam_dagster.privacy.ledger.forecast import renewal_after

if TYPE_CHECKING:
    import dagster as dg

    from jam_dagster.release.funding import LedgerFunding


@contextmanager
def renewal_added(funding: LedgerFunding) -> Iterator[None]:
    """Add to the error of a release that does not fit when the budget renews."""
    try:
        yield
    except BudgetExceededError as error:
        balance = funding.ledger.balance(funding.release_id.dataset)
        renewal = renewal_after(balance, datetime.now(UTC))
        raise BudgetExceededError(f"{error}. {renewal}") from None


@contextmanager
def refusal_ends_run(context: dg.AssetExecutionContext) -> Iterator[None]:
    """End the run as canceled where the ledger refuses the release, after a line that says why.

    Dagster shows each asset and check that a failed run leaves unmade as failed. A canceled run
    leaves them as they were, is not retried, and ends a command with an error all the same.
    """
    try:
        yield
    except LedgerIntegrityError:
        raise
    except BudgetError as refused:
        context.log.error(f"Refused: {refused}")
        context.instance.report_run_canceling(context.run, message="The release is refused.")
        raise
