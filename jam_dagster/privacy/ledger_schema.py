"""What the ledger writes down: one append-only table of events, each sealed to the one before."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

import sqlalchemy as sa

from jam_dagster.errors import LedgerIntegrityError
from jam_dagster.privacy.accounting import rho_within
from jam_dagster.privacy.release_key import ReleaseKey, canonical_digest, key_fields

GENESIS = "0" * 64
"""What the first event names as the hash of the event before it."""


class Kind(StrEnum):
    """What can happen to a budget."""

    GRANTED = "granted"
    """A dataset's whole budget is now `units`; a later grant replaces it."""
    RESERVED = "reserved"
    """`units` of a dataset's budget are set aside for one share of a release."""
    CHARGED = "charged"
    """`units` of a share pay for one draw."""
    RETURNED = "returned"
    """`units` of a share were not spent and go back to the dataset."""
    CLOSED = "closed"
    """A share has ended; nothing more can be charged to it."""


@dataclass(frozen=True)
class Event:
    """One line of the journal.

    Parameters
    ----------
    seq : int
        Its number, from 1, without gaps.
    at : str
        When, in UTC, ISO 8601.
    kind : Kind
        What happened.
    dataset, release, partition, edition, specification : str
        To which release of which protected dataset; a grant names the dataset alone.
    share, step : str
        To which share of the release, and for which draw.
    units : int
        Amount in units of 1e-15 rho; `rho` gives it as a float.
    epsilon, delta : float or None
        The budget as the grantor stated it.
    run_id, by, reason : str
        Which run, who, and why.
    period, partitions, ground : str
        The policy that comes with a grant; empty in those that were made before there were any.
    counts_in : str
        The period in which a reservation, and all that follows it, counts; empty for a lifetime.
    opening : str
        Empty, or the number of the opening, from 2, of a release that was opened again.
    protects : str
        The neighbours that a reservation's release protects, as `Neighbours.code` has them.
    previous, hash : str
        Hash of the event before, and of this one.
    """

    seq: int
    at: str
    kind: Kind
    dataset: str
    release: str = ""
    partition: str = ""
    edition: str = ""
    specification: str = ""
    share: str = ""
    step: str = ""
    units: int = 0
    epsilon: float | None = None
    delta: float | None = None
    run_id: str = ""
    by: str = ""
    reason: str = ""
    period: str = ""
    partitions: str = ""
    ground: str = ""
    counts_in: str = ""
    opening: str = ""
    protects: str = ""
    previous: str = GENESIS
    hash: str = ""

    @property
    def rho(self) -> float:
        """The amount in rho."""
        return rho_within(self.units)

    @property
    def key(self) -> ReleaseKey | None:
        """The release's key, or None for a grant."""
        if self.kind == Kind.GRANTED:
            return None
        return ReleaseKey(
            self.dataset, self.release, self.specification, self.partition, self.edition
        )

    def seal(self) -> str:
        """Return the hash that this event must carry: SHA-256 over all else that it says.

        Empty fields are left out, so that a later version of the ledger can add fields without
        breaking the seals of what was written before.
        """
        said = {
            field.name: value
            for field in fields(self)
            if field.name != "hash" and (value := getattr(self, field.name)) not in ("", None)
        }
        return canonical_digest(said)


metadata = sa.MetaData()

_ACCOUNT_COLUMNS = ("dataset", "release", "partition", "edition", "specification", "share")

# Names that SQLite's strict tables know; there, both are 64 bits wide.
_WHOLE: sa.types.TypeEngine[int] = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_REAL: sa.types.TypeEngine[float] = sa.Double().with_variant(sa.REAL(), "sqlite")

events = sa.Table(
    "events",
    metadata,
    sa.Column("seq", _WHOLE, primary_key=True),
    sa.Column("at", sa.Text, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    *(sa.Column(name, sa.Text, nullable=False) for name in _ACCOUNT_COLUMNS),
    sa.Column("step", sa.Text, nullable=False),
    sa.Column("units", _WHOLE, nullable=False),
    sa.Column("epsilon", _REAL),
    sa.Column("delta", _REAL),
    *(sa.Column(name, sa.Text, nullable=False) for name in ("run_id", "by", "reason")),
    sa.Column("previous", sa.Text, nullable=False, unique=True),
    sa.Column("hash", sa.Text, nullable=False, unique=True),
    sa.CheckConstraint("units >= 0", name="units_not_negative"),
    sa.CheckConstraint(
        "kind IN ({})".format(", ".join(f"'{kind.value}'" for kind in Kind)), name="known_kind"
    ),
    *(
        sa.Column(name, sa.Text, nullable=False, server_default="")
        for name in ("period", "partitions", "ground", "counts_in", "opening", "protects")
    ),
    sqlite_strict=True,
)
"""The table as it is now; `migrations` makes it."""

sa.Index("events_by_account", *(events.c[name] for name in _ACCOUNT_COLUMNS))


def _once(name: str, kind: Kind, *columns: str) -> None:
    condition = events.c.kind == kind.value
    sa.Index(
        name,
        *(events.c[column] for column in columns),
        unique=True,
        sqlite_where=condition,
        postgresql_where=condition,
    )


# The code looks before it writes; these hold even where it would not.
_once("one_charge_a_step", Kind.CHARGED, *_ACCOUNT_COLUMNS, "step")
_once("one_reservation_a_share", Kind.RESERVED, *_ACCOUNT_COLUMNS, "opening")
_once("one_return_a_share", Kind.RETURNED, *_ACCOUNT_COLUMNS, "opening")
_once("one_closure_a_share", Kind.CLOSED, *_ACCOUNT_COLUMNS, "opening")


def utc_now() -> datetime:
    """Return the time, in UTC."""
    return datetime.now(UTC)


def instant(when: datetime) -> str:
    """Return a time as the journal writes it."""
    return when.astimezone(UTC).isoformat(timespec="microseconds")


def append(
    connection: sa.Connection, kind: Kind, dataset: str, *, at: str = "", **said: Any
) -> Event:
    """Append one event to the journal; the caller's transaction holds the write lock.

    Parameters
    ----------
    connection : sqlalchemy.Connection
        In a transaction that no other writer can interleave with.
    kind : Kind
        What happened.
    dataset : str
        To which protected dataset.
    at : str
        When; empty means now.
    **said
        The other fields of `Event`.
    """
    last = connection.execute(
        sa.select(events.c.seq, events.c.hash).order_by(events.c.seq.desc()).limit(1)
    ).first()
    seq, previous = (last.seq + 1, last.hash) if last else (1, GENESIS)
    at = at or instant(utc_now())
    draft = Event(seq=seq, at=at, kind=kind, dataset=dataset, previous=previous, **said)
    event = Event(**{**_row(draft), "kind": kind, "hash": draft.seal()})
    connection.execute(sa.insert(events), _row(event))
    return event


def read(connection: sa.Connection, *conditions: sa.ColumnElement[bool]) -> list[Event]:
    """Return the events that meet all conditions, in the order they were written.

    Raises
    ------
    LedgerIntegrityError
        If an event is of a kind that nobody writes.
    """
    rows = connection.execute(sa.select(events).where(*conditions).order_by(events.c.seq))
    return [Event(**{**row, "kind": _kind(row)}) for row in rows.mappings()]


def of_release(key: ReleaseKey) -> sa.ColumnElement[bool]:
    """Return the condition that an event belongs to the release of that key."""
    return sa.and_(*(events.c[name] == value for name, value in key_fields(key).items()))


def _kind(row: sa.RowMapping) -> Kind:
    try:
        return Kind(row["kind"])
    except ValueError:
        raise LedgerIntegrityError(
            f"event {row['seq']} of the ledger is of the unknown kind {row['kind']!r}"
        ) from None


def _row(event: Event) -> dict[str, Any]:
    row = {field.name: getattr(event, field.name) for field in fields(event)}
    return {**row, "kind": event.kind.value}
