"""The public keys in the journal, by which certificates may be signed."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from jam_dagster.errors import BudgetError
from jam_dagster.privacy.ledger.backend import LedgerBackend
from jam_dagster.privacy.ledger.clock import ledger_time
from jam_dagster.privacy.ledger.commands import ledger_command
from jam_dagster.privacy.ledger.journal import Event, Kind, append, events, read, utc_now
from jam_dagster.privacy.ledger.release_id import check_name, fingerprint_of

PUBLIC_KEY_BYTES = 32
"""Length of an Ed25519 public key."""

SIGNING_KEY_KINDS = frozenset({Kind.KEY_ADDED, Kind.KEY_REVOKED})


@dataclass(frozen=True)
class SigningKey:
    """A public key that was journalled.

    `public` is 32 bytes in base64.
    """

    public: str
    added: Event
    revoked: Event | None = None

    @property
    def fingerprint(self) -> str:
        """The short name that people use for it."""
        return fingerprint_of(self.public)

    def covers(self, certified: Event | None) -> bool:
        """Return whether the key's signature is valid on a certificate with that ledger entry.

        A certificate that the ledger lists before the revocation stays signed; a later one is not.
        """
        if self.revoked is None:
            return True
        return certified is not None and certified.seq < self.revoked.seq


class SigningKeys:
    """The keys of one ledger; `Ledger.signing_keys` gives them."""

    def __init__(self, backend: LedgerBackend) -> None:
        self._backend = backend

    def all(self) -> tuple[SigningKey, ...]:
        """Return all keys ever added, in their order."""
        with self._backend.reading() as connection:
            return tuple(_keys(connection).values())

    def find(self, beginning: str) -> SigningKey:
        """Return the key with a fingerprint that begins with `beginning`."""
        found = [key for key in self.all() if key.fingerprint.startswith(beginning)]
        if len(found) != 1 or not beginning:
            known = ", ".join(key.fingerprint for key in self.all()) or "none"
            raise BudgetError(
                f"{len(found)} keys of the ledger {self._backend.location} have a fingerprint "
                f"that begins with {beginning!r}; it knows {known}"
            )
        return found[0]

    def check(self, public: str) -> None:
        """Raise unless certificates may be signed by a key now."""
        with self._backend.reading() as connection:
            key = _keys(connection).get(public)
        location = self._backend.location
        if key is None or key.revoked is not None:
            fault = "is not known to" if key is None else "was revoked in"
            raise BudgetError(
                f"the signing key {fingerprint_of(public)} {fault} the ledger {location}: sign "
                f"with another, or make one: {ledger_command('key new', location, out='FILE')}"
            )

    def add(self, public: str, *, reason: str = "") -> None:
        """Let certificates be signed with the private half of a key from now on."""
        check_name(reason, "the reason", required=False)
        with self._backend.writing() as connection:
            if fault := public_key_fault(public):
                raise BudgetError(f"the key {fault}")
            if public in _keys(connection):
                raise BudgetError(f"the key {fingerprint_of(public)} was added before")
            self._append(connection, Kind.KEY_ADDED, public, reason)

    def revoke(self, public: str, *, reason: str) -> None:
        """Revoke a key; certificates that were journalled before stay signed."""
        check_name(reason, "the reason")
        with self._backend.writing() as connection:
            key = _keys(connection).get(public)
            if key is None or key.revoked is not None:
                was = "is not known here" if key is None else "was revoked before"
                raise BudgetError(f"the key {fingerprint_of(public)} {was}")
            self._append(connection, Kind.KEY_REVOKED, public, reason)

    def _append(self, connection: sa.Connection, kind: Kind, public: str, reason: str) -> None:
        at = ledger_time(connection, utc_now)
        append(connection, kind, "", digest=public, at=at, reason=reason)


class SigningKeyAudit:
    """A replay of the rules of keys: each is added once, and revoked at most once after that."""

    def __init__(self) -> None:
        self._valid: dict[str, bool] = {}

    def fault(self, event: Event) -> str:
        """Return the fault of an event about a key; without one, apply it and return ""."""
        if event.dataset:
            return "is about a key and names a dataset"
        if event.kind == Kind.KEY_ADDED:
            if fault := public_key_fault(event.digest):
                return f"adds a key that {fault}"
            if event.digest in self._valid:
                return "adds the same key again"
        elif not self._valid.get(event.digest, False):
            return "revokes a key that is not valid"
        self._valid[event.digest] = event.kind == Kind.KEY_ADDED
        return ""


def public_key_fault(public: str) -> str:
    """Return the fault of a public key; empty if it has none."""
    try:
        raw = base64.b64decode(public, validate=True)
    except (binascii.Error, ValueError):
        return "is not in base64"
    if len(raw) != PUBLIC_KEY_BYTES or base64.b64encode(raw).decode() != public:
        return f"does not have {PUBLIC_KEY_BYTES} bytes"
    return ""


def _keys(connection: sa.Connection) -> dict[str, SigningKey]:
    """Return all keys ever added, by their base64 text."""
    kinds: Sequence[str] = sorted(kind.value for kind in SIGNING_KEY_KINDS)
    keys: dict[str, SigningKey] = {}
    for event in read(connection, events.c.kind.in_(kinds)):
        if event.kind == Kind.KEY_ADDED:
            keys[event.digest] = SigningKey(event.digest, event)
        elif event.digest in keys:
            keys[event.digest] = SigningKey(event.digest, keys[event.digest].added, event)
    return keys
