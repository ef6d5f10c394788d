"""The ledger's journals: two append-only tables, each row sealed to the one before.

`events` is the journal of budgets, releases, certificates and keys. `accesses` is the journal of
attempts to open private data. Whether an attempt ended well can depend on the data, so `events`
records no attempt: its numbers and hashes are published with certificates.
"""

from __future__ import annotations

import getpass
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, TypeVar

import sqlalchemy as sa

from jam_dagster.errors import BudgetError, LedgerIntegrityError, SpecificationError
from jam_dagster.privacy.accounting import rho_within
from jam_dagster.privacy.ledger.release_id import ReleaseId, canonical_digest, check_name, id_fields

_AnyKind = TypeVar("_AnyKind", bound=StrEnum)

GENESIS = "0" * 64
"""The `previous` hash of the first event."""


class Kind(StrEnum):
    """The kinds of events in the journal."""

    GRANTED = "granted"
    """A dataset's whole budget is now `units`; a later grant replaces it."""
    BY_HAND = "by hand"
    """From now on the officer grants each new dataset by hand, and definitions grant none."""
    ADOPTED = "adopted"
    """Releases name this ledger next to their definitions, and are refused any other."""
    RESERVED = "reserved"
    """`units` of a dataset's budget are set aside for one share of a release."""
    CHARGED = "charged"
    """`units` of a share pay for one draw."""
    RETURNED = "returned"
    """`units` of a share were not spent and go back to the dataset."""
    CLOSED = "closed"
    """A share has ended; nothing more can be charged to it."""
    STORED = "stored"
    """The outcome of a charged draw is stored, and has the digest `digest`."""
    DERIVED = "derived"
    """A decision, or a solver's records, which follow from outcomes, has the digest `digest`."""
    BOUND = "bound"
    """A release that is open reads the source `source` from now on."""
    COUNTED = "counted"
    """The source of a release has `records` records, and this number is public."""
    RAN = "ran"
    """The mechanism of a release ended; its transcript and model have the digest `digest`."""
    APPROVED = "approved"
    """A release of exactly this specification may be reserved; `units` limit how much, if any."""
    APPROVAL_WITHDRAWN = "approval withdrawn"
    """The approval of exactly this specification is withdrawn."""
    CERTIFIED = "certified"
    """A certificate with the digest `digest` was issued for a release."""
    WITHDRAWN = "withdrawn"
    """The certificate with the digest `digest` is no longer valid."""
    KEY_ADDED = "key added"
    """Certificates may be signed with the private half of the public key `digest`."""
    KEY_REVOKED = "key revoked"
    """Later signatures by the private half of the public key `digest` are not valid."""
    MOVED = "moved"
    """The ledger continues at `step`; nothing can be written here until it arrives here again."""
    ARRIVED = "arrived"
    """The ledger that moved to `step` continues here."""


SHARE_KINDS = frozenset({Kind.RESERVED, Kind.CHARGED, Kind.RETURNED, Kind.CLOSED})
"""The kinds that move an amount between a dataset's budget, a share of a release, and its draws."""


class AccessKind(StrEnum):
    """The kinds of lines in the journal of attempts to open private data."""

    ATTEMPTED = "attempted"
    """Private data of a dataset are about to be opened."""
    ENDED = "ended"
    """The attempt `attempt` ended well."""
    ACKNOWLEDGED = "acknowledged"
    """An operator has looked at all attempts before that did not end well."""


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
        To which share of the release, and for which draw. If an event is about no release, `step`
        is the ledger's other place.
    units : int
        Amount in units of 1e-15 rho; `rho` gives it as a float.
    epsilon, delta : float or None
        The budget as the grantor stated it.
    run_id, by, reason : str
        Which run, who, and why.
    period, partitions, ground : str
        The policy of a grant.
    records : str
        Whether a grant says that the number of records is public; the number in `COUNTED`.
    counts_in : str
        The period in which a reservation and its later events count; empty for a lifetime.
    opening : str
        Empty, or the number of the opening, from 2, of a release that was opened again.
    protects : str
        The neighbours that a reservation's release protects: its `Neighbours.code`.
    source : str
        What a release reads, or the table that a rebinding names: a `SourceBinding` as JSON; empty
        if none was bound.
    digest : str
        SHA-256 of a stored outcome, of what follows from outcomes or of a certificate, or a public
        key.
    selections : int or None
        How much of its delta a grant, or a reservation, has for selections of values, in units of
        1e-18; None: nothing.
    attempts : int or None
        How many attempts to open private data may fail in a period, from a grant.
    sources : str
        Which sources partitions may have, from a grant (see `Balance`); empty: one each.
    approval : str
        Whether releases wait for approval, from a grant; empty: they do not.
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
    records: str = ""
    counts_in: str = ""
    opening: str = ""
    protects: str = ""
    source: str = ""
    digest: str = ""
    attempts: int | None = None
    selections: int | None = None
    sources: str = ""
    approval: str = ""
    previous: str = GENESIS
    hash: str = ""

    @property
    def rho(self) -> float:
        """The amount in rho."""
        return rho_within(self.units)

    @property
    def moves_amount(self) -> bool:
        """Whether its kind is in `SHARE_KINDS`."""
        return self.kind in SHARE_KINDS

    @property
    def release_id(self) -> ReleaseId | None:
        """The id of the event's release, or None for an event about no release.

        Raises
        ------
        LedgerIntegrityError
            If no release can have that id.
        """
        if not self.release:
            return None
        try:
            return ReleaseId(self.dataset, *self.names)
        except SpecificationError as error:
            raise LedgerIntegrityError(
                f"event {self.seq} of the ledger names a release that cannot be: {error}. "
                "jam-dagster did not write it; only the ledger's owner can repair it, from a backup"
            ) from error

    @property
    def names(self) -> tuple[str, ...]:
        """The parts of its release's id after the dataset, in their order."""
        return self.release, self.specification, self.partition, self.edition

    def seal(self) -> str:
        """Return the hash that this event must carry: SHA-256 over all its other fields.

        Empty fields are left out, so that a later version of the ledger can add fields without
        breaking the seals of earlier events.
        """
        return _seal(self)


@dataclass(frozen=True)
class Access:
    """One line of the journal of attempts to open private data; it holds no cause.

    Lines are numbered from 1 without gaps. An acknowledgement names the dataset alone.
    """

    seq: int
    at: str
    kind: AccessKind
    dataset: str
    release: str = ""
    partition: str = ""
    edition: str = ""
    attempt: str = ""
    run_id: str = ""
    by: str = ""
    reason: str = ""
    previous: str = GENESIS
    hash: str = ""

    def seal(self) -> str:
        """Return the hash that this line must carry; see `Event.seal`."""
        return _seal(self)


def _seal(line: Event | Access) -> str:
    sealed = {
        field.name: value
        for field in fields(line)
        if field.name != "hash" and (value := getattr(line, field.name)) not in ("", None)
    }
    return canonical_digest(sealed)


metadata = sa.MetaData()

_TEXT = sa.Text()
# Names that SQLite's strict tables know; there, both are 64 bits wide.
_WHOLE: sa.types.TypeEngine[int] = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_REAL: sa.types.TypeEngine[float] = sa.Double().with_variant(sa.REAL(), "sqlite")
_TYPES: dict[str, sa.types.TypeEngine[Any]] = {
    "int": _WHOLE,
    "int | None": _WHOLE,
    "float | None": _REAL,
}


def _table(name: str, line: type[Event] | type[Access]) -> sa.Table:
    """Return the table of a journal: a column for each field of its lines.

    `migrations` makes it, with its constraints, indices and triggers.
    """
    columns: Iterator[sa.Column[Any]] = (
        sa.Column(
            field.name,
            _TYPES.get(str(field.type), _TEXT),
            primary_key=field.name == "seq",
            nullable=field.default is None,
            unique=field.name in ("previous", "hash"),
        )
        for field in fields(line)
    )
    return sa.Table(name, metadata, *columns)


events = _table("events", Event)
accesses = _table("accesses", Access)


# Built once: a draw executes each of them twice.
_INSERT = sa.insert(events)
_LAST_TWO = sa.select(events).order_by(events.c.seq.desc()).limit(2)
_FROM = sa.select(events).where(events.c.seq >= sa.bindparam("first")).order_by(events.c.seq)


def _latest(*conditions: sa.ColumnElement[bool]) -> sa.Select[Any]:
    return sa.select(events).where(*conditions).order_by(events.c.seq.desc()).limit(1)


_LAST = _latest()

# A line that was added by hand after the move does not undo it.
_LAST_MOVE = _latest(events.c.kind.in_([Kind.MOVED.value, Kind.ARRIVED.value]))


def utc_now() -> datetime:
    """Return the time, in UTC."""
    return datetime.now(UTC)


def instant(when: datetime) -> str:
    """Return a time as the journal writes it."""
    return when.astimezone(UTC).isoformat(timespec="microseconds")


def chain_fault(entry: Event | Access, number: int, previous: str, name: str) -> str:
    """Return why an entry does not follow the one before; empty if it does."""
    if entry.seq != number:
        return f"should be {name} {number}: one is missing"
    if entry.previous != previous:
        return f"does not carry the hash of the {name} before it"
    if entry.hash != entry.seal():
        return "was altered: its hash does not fit its fields"
    return ""


def user() -> str:
    """Return who writes entries: the user's name, empty if there is none that can be written."""
    try:
        return check_name(getpass.getuser(), "the user")
    except (OSError, KeyError, SpecificationError):
        # A container may run under a user without a name.
        return ""


def append(
    connection: sa.Connection, kind: Kind, dataset: str, *, at: str = "", **details: Any
) -> Event:
    """Append one event to the journal; the caller's transaction holds the write lock.

    An empty time means now; `by` is the user unless it is given. `details` are the other fields of
    `Event`. A ledger that has moved is a `BudgetError`.
    """
    if kind != Kind.ARRIVED:
        check_not_moved(connection)
    return append_after(connection, last_lines(connection), kind, dataset, at=at, **details)


def last_lines(connection: sa.Connection) -> list[Event]:
    """Return the last two events of the journal in their order, or all if there are fewer.

    Both must be written by this package; see `check_chain`.
    """
    lines = _events(connection.execute(_LAST_TWO))[::-1]
    _next(lines, events)
    return lines


def append_after(
    connection: sa.Connection,
    tail: Sequence[Event],
    kind: Kind,
    dataset: str,
    *,
    at: str = "",
    **details: Any,
) -> Event:
    """Append one event as `append` does to a ledger that has not moved.

    `tail` are its `last_lines`, as this transaction has read and checked them.
    """
    seq, previous = (tail[-1].seq + 1, tail[-1].hash) if tail else (1, GENESIS)
    at = at or instant(utc_now())
    details = {"by": user(), **details}
    event = Event(seq=seq, at=at, kind=kind, dataset=dataset, previous=previous, **details)
    event = replace(event, hash=event.seal())
    connection.execute(_INSERT, _row(event))
    return event


def append_access(
    connection: sa.Connection, kind: AccessKind, dataset: str, *, at: str = "", **details: str
) -> Access:
    """Append one line to the journal of attempts; see `append`."""
    check_not_moved(connection)
    last_two = sa.select(accesses).order_by(accesses.c.seq.desc()).limit(2)
    seq, previous = _next(_accesses(connection.execute(last_two))[::-1], accesses)
    at = at or instant(utc_now())
    details = {"by": user(), **details}
    access = Access(seq=seq, at=at, kind=kind, dataset=dataset, previous=previous, **details)
    access = replace(access, hash=access.seal())
    connection.execute(sa.insert(accesses), _row(access))
    return access


def check_chain(
    lines: Sequence[Event | Access], number: int, previous: str, table: sa.Table
) -> tuple[int, str]:
    """Return the number after those of a table's lines, and the hash of the last one.

    It raises unless they follow each other, from that number and that hash, and have their seals:
    a role with the right to insert could have added one, and later ones would carry its hash.
    """
    for line in lines:
        if fault := chain_fault(line, number, previous, "line"):
            raise LedgerIntegrityError(
                f"line {line.seq} of the table {table.name} {fault}. jam-dagster did not write it "
                "so, and adds nothing after it. Run `jam-dagster ledger verify`; only the ledger's "
                "owner can repair it, from a backup"
            )
        number, previous = line.seq + 1, line.hash
    return number, previous


def _next(tail: Sequence[Event | Access], table: sa.Table) -> tuple[int, str]:
    """Check the last two lines of a table, or all if there are fewer; see `check_chain`."""
    # Only the line before the first of two could say which hash that one must carry.
    first = (tail[0].seq, tail[0].previous) if len(tail) == 2 else (1, GENESIS)
    return check_chain(tail, *first, table)


def moved_to(connection: sa.Connection) -> str:
    """Return the place the ledger has moved to, without a password; empty if it has not moved."""
    move = next(iter(_events(connection.execute(_LAST_MOVE))), None)
    return move.step if move is not None and move.kind == Kind.MOVED else ""


def check_not_moved(connection: sa.Connection) -> None:
    """Raise if the ledger has moved to another place."""
    refuse_moved(moved_to(connection))


def refuse_moved(place: str) -> None:
    """Raise if the ledger has moved to a place, and not if that is empty; see `moved_to`."""
    if place:
        raise BudgetError(
            f"this ledger has moved to {place}: name that one. Nothing can be written here. If the "
            "move was interrupted, run `jam-dagster ledger move` again"
        )


def copy_rows(
    connection: sa.Connection, journal: Sequence[Event], attempts: Sequence[Access]
) -> None:
    """Insert events and lines of the journal of attempts unchanged, with their seals."""
    for table, lines in ((events, journal), (accesses, attempts)):
        if lines:
            connection.execute(sa.insert(table), [_row(line) for line in lines])


def read(connection: sa.Connection, *conditions: sa.ColumnElement[bool]) -> list[Event]:
    """Return the events that meet all conditions, in the order they were written."""
    return _events(connection.execute(sa.select(events).where(*conditions).order_by(events.c.seq)))


def last(connection: sa.Connection, *conditions: sa.ColumnElement[bool]) -> Event | None:
    """Return the last event that meets all conditions, or None."""
    query = _latest(*conditions) if conditions else _LAST
    return next(iter(_events(connection.execute(query))), None)


def read_by(
    connection: sa.Connection, query: sa.Select[Any], values: dict[str, Any]
) -> list[Event]:
    """Return the events that a query of theirs selects, which was built before."""
    return _events(connection.execute(query, values))


def read_from(connection: sa.Connection, first: int) -> list[Event]:
    """Return the events from a number on, in the order they were written."""
    return _events(connection.execute(_FROM, {"first": first}))


def read_accesses(connection: sa.Connection, *conditions: sa.ColumnElement[bool]) -> list[Access]:
    """Return the lines of the journal of attempts that meet all conditions; see `read`."""
    lines = sa.select(accesses).where(*conditions).order_by(accesses.c.seq)
    return _accesses(connection.execute(lines))


def withdrawal_of(journal: Sequence[Event], release_id: ReleaseId) -> Event | None:
    """Return the last withdrawal of a release's certificates, or None.

    One withdrawal covers all of them: a certificate that is issued again, by another version or
    for files elsewhere, is about the same release.
    """
    found = [one for one in journal if one.kind == Kind.WITHDRAWN and one.release_id == release_id]
    return found[-1] if found else None


def of_release(release_id: ReleaseId) -> sa.ColumnElement[bool]:
    """Return the condition that an event belongs to the release of that id."""
    return sa.and_(*(events.c[name] == value for name, value in id_fields(release_id).items()))


def moves_an_amount() -> sa.ColumnElement[bool]:
    """Return the condition that an event's kind is in `SHARE_KINDS`."""
    return events.c.kind.in_(sorted(kind.value for kind in SHARE_KINDS))


def _events(result: sa.CursorResult[Any]) -> list[Event]:
    return [Event(**{**row, "kind": _kind(row, Kind)}) for row in result.mappings()]


def _accesses(result: sa.CursorResult[Any]) -> list[Access]:
    return [Access(**{**row, "kind": _kind(row, AccessKind)}) for row in result.mappings()]


def _kind(row: sa.RowMapping, kinds: type[_AnyKind]) -> _AnyKind:
    try:
        return kinds(row["kind"])
    except ValueError:
        raise LedgerIntegrityError(
            f"event {row['seq']} of the ledger is of the unknown kind {row['kind']!r}: "
            "read the ledger with the version that wrote it; if jam-dagster did not write it, only"
            " the ledger's owner can repair it, from a backup"
        ) from None


def _row(line: Event | Access) -> dict[str, Any]:
    row = {field.name: getattr(line, field.name) for field in fields(line)}
    return {**row, "kind": line.kind.value}
