"""Withdrawals in certificates and their verification."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from jam_dagster.certificates.facts import Withdrawal

if TYPE_CHECKING:
    from jam_dagster.certificates.certificate import Certificate
    from jam_dagster.privacy import Ledger, ReleaseKey


def withdrawal_in(
    ledger: Ledger, key: ReleaseKey, drawn_on: Sequence[ReleaseKey] = ()
) -> Withdrawal | None:
    """Return a ledger's withdrawal of a release, or of the first that it was drawn on, or None."""
    from jam_dagster.privacy.ledger.withdrawal import withdrawal_of

    journal = ledger.events(key.dataset)
    for one in (key, *drawn_on):
        found = withdrawal_of(journal, one)
        if found is not None:
            return Withdrawal(found.at[:10], found.reason, "" if one == key else str(one))
    return None


def withdrawal_faults(certificate: Certificate, ledger: Ledger) -> Iterator[str]:
    """Yield the ledger's withdrawal of the certificate's release, or of one it was drawn on."""
    found = withdrawal_in(ledger, certificate.key, certificate.drawn_on)
    if found is not None:
        yield found.sentence
