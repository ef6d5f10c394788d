"""What a certificate and its verification say of a withdrawal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from jam_dagster.certificates.certificate import Certificate
    from jam_dagster.privacy import Event, Ledger, ReleaseKey


@dataclass(frozen=True)
class Withdrawal:
    """That the certificates of a release were withdrawn: on which day, UTC, and why."""

    on: str
    reason: str

    @classmethod
    def of(cls, event: Event) -> Self:
        """Return what a certificate tells of the ledger's event: not who withdrew it."""
        return cls(event.at[:10], event.reason)

    @classmethod
    def from_dict(cls, content: Mapping[str, str]) -> Self:
        """Return what a document holds."""
        return cls(str(content["on"]), str(content["reason"]))

    @property
    def told(self) -> str:
        """It in a sentence."""
        return f"It was withdrawn on {self.on}: {self.reason}"


def withdrawal_in(ledger: Ledger, key: ReleaseKey) -> Withdrawal | None:
    """Return how a ledger withdrew the certificates of a release, or None."""
    from jam_dagster.privacy.ledger.withdrawal import withdrawal_of

    found = withdrawal_of(ledger.events(key.dataset), key)
    return None if found is None else Withdrawal.of(found)


def withdrawal_faults(certificate: Certificate, ledger: Ledger) -> Iterator[str]:
    """Yield that the ledger withdrew the certificate, with the officer's reason."""
    found = withdrawal_in(ledger, certificate.key)
    if found is not None:
        yield found.told
