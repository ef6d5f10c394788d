"""The privacy budget ledger: who spent what on which protected dataset.

An append-only journal in one SQLite file, or in a PostgreSQL database. A budget belongs to a
protected dataset. A release reserves its whole price before it opens private data, charges each
draw before it draws, and returns the rest at its end. Every balance follows from the journal alone,
and every event carries the hash of the one before.
"""

from __future__ import annotations

import os

from jam_dagster.privacy.ledger.audit import Verification
from jam_dagster.privacy.ledger.clock import ledger_time
from jam_dagster.privacy.ledger.journal import check_not_moved
from jam_dagster.privacy.ledger.key import check_name
from jam_dagster.privacy.ledger.keys import LedgerKeys
from jam_dagster.privacy.ledger.move import move_journal
from jam_dagster.privacy.ledger.officer import OfficerEntries
from jam_dagster.privacy.ledger.runs import RunEntries


class Ledger(OfficerEntries, RunEntries):
    """The budgets of protected datasets and the journal of their use.

    Constructing the object reads and writes nothing; only `grant` creates a ledger. The object can
    be pickled and used in several processes at the same time.

    Parameters
    ----------
    url_or_path : str or path
        A file, or a ``sqlite:///`` or ``postgresql://`` URL; ``~`` and ``${VARIABLES}`` in it are
        expanded, and shown by their names. The password of a URL is shown nowhere and does not
        travel in a pickle; see `LedgerServer`.
    clock : callable returning datetime, optional
        Returns the time, which decides the period of a renewing budget. The ledger's time is never
        earlier than its last entry.

    Raises
    ------
    SpecificationError
        If the location is no file or supported database, or names a variable that is not set.

    Examples
    --------
    >>> ledger = Ledger("ledger.db")
    >>> ledger.grant("people", epsilon=3.0, delta=1e-9, reason="policy of 2026")
    >>> key = ReleaseKey("people", "yearly", specification="3f9a...")
    >>> release = ledger.open_release(key, Budget(1.0, 1e-9).shares(evaluation=0.05))
    >>> release.account("mechanism").charge("round-000/select", 1e-4)
    >>> release.close("done")
    """

    def upgrade(self) -> None:
        """Upgrade a ledger of an earlier version; no event is rewritten.

        Raises
        ------
        BudgetError
            If there is no ledger, or it cannot be written.
        """
        self._backend.upgrade()

    def check_writable(self) -> None:
        """Check that the ledger can be written or created, without writing anything.

        Raises
        ------
        BudgetError
            If it cannot, or has moved elsewhere.
        """
        if self.exists:
            with self._backend.reading() as connection:
                check_not_moved(connection)
        self._backend.check_writable()

    def move(self, url_or_path: str | os.PathLike[str], *, reason: str = "") -> Verification:
        """Move the whole ledger to another place, and close this one.

        A move that was interrupted at any instant is finished by the same call; until then
        neither place can be written. A ledger moves back in the same way.

        Parameters
        ----------
        url_or_path : str or path
            The new place: empty, an empty ledger, or the remains of an interrupted move.
        reason : str
            Written in the journal, beside the user's name.

        Returns
        -------
        Verification
            Of the ledger at its new place.

        Raises
        ------
        LedgerIntegrityError
            If the journal does not add up; nothing is moved then.
        BudgetError
            If the ledger has moved elsewhere, another ledger is there, or either place cannot be
            written.
        """
        check_name(reason, "the reason", required=False)
        destination = Ledger(url_or_path, clock=self._clock)
        self.verify()
        with self._backend.reading() as connection:
            at = ledger_time(connection, self._clock)
        move_journal(self._backend, destination._backend, at=at, reason=reason)
        return destination.verify()

    @property
    def keys(self) -> LedgerKeys:
        """The public keys by which certificates may be signed."""
        return LedgerKeys(self._backend)
