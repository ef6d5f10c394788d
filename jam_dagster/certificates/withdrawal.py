"""Withdrawals in certificates and their verification."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from jam_dagster.certificates.facts import Withdrawal

if TYPE_CHECKING:
    from jam_dagster.certificates.certificate import Certificate
    from jam_dagster.privacy import Ledger, ReleaseKey


def withdrawal_in(ledger: Ledger, key: ReleaseKey) -> Withdrawal | None:
    """Return a ledger's withdrawal of a release's certificates, or None."""
    from jam_dagster.privacy.ledger.withdrawal import withdrawal_of

    found = withdrawal_of(ledger.events(key.dataset), key)
    return None if found is None else Withdrawal.of(found)


def withdrawal_faults(certificate: Certificate, ledger: Ledger) -> Iterator[str]:
    """Yield the ledger's withdrawal of the certificate, with the officer's reason."""
    found = withdrawal_in(ledger, certificate.key)
    if found is not None:
        yield found.sentence
