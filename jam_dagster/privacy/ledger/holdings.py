"""The reservations of a protected dataset, and its last grant, as the journal has them."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from typing import Any, cast

import sqlalchemy as sa

from jam_dagster.errors import LedgerIntegrityError, SpecificationError
from jam_dagster.privacy.ledger.journal import (
    Event,
    Kind,
    events,
    moves_an_amount,
    read_by,
)
from jam_dagster.privacy.ledger.policy import (
    Holding,
    PartitionsName,
    PeriodName,
    Policy,
    RecordsName,
)


def last_grant(
    connection: sa.Connection, dataset: str, *, through: int | None = None
) -> Event | None:
    """Return a dataset's last grant, or None; see `balance_of` for `through`."""
    query = _of_kind(Kind.GRANTED, through is None, latest=True)
    return next(iter(read_by(connection, query, {"dataset": dataset, "through": through})), None)


def policy_of(grant: Event) -> Policy:
    """Return the policy of a grant; a grant without one is for a lifetime, and n private."""
    try:
        return Policy(
            cast(PeriodName, grant.period or "lifetime"),
            cast(PartitionsName, grant.partitions or "add"),
            grant.ground,
            cast(RecordsName, grant.records or "private"),
        )
    except SpecificationError as error:
        raise LedgerIntegrityError(f"a grant was altered: {error}") from error


def up_to(through: int | None) -> list[sa.ColumnElement[bool]]:
    """Return the condition that an event came no later than a number; none for None."""
    return [] if through is None else [events.c.seq <= through]


def holdings(
    connection: sa.Connection,
    dataset: str,
    *,
    without: Collection[str] = (),
    through: int | None = None,
) -> list[Holding]:
    """Return every reservation of a dataset with its held and spent amounts; see `balance_of`."""
    values = {"dataset": dataset, "through": through}
    counted = _of_kind(Kind.COUNTED, through is None)
    rows = connection.execute(_amounts(through is None), values)
    found = [
        Holding(one.at, one.partition, 0, 0, counted=True, names=one.names)
        for one in read_by(connection, counted, values)
    ]
    for *names, _, _, at, held, spent, mark, protects, selections in rows:
        if at is None:
            raise LedgerIntegrityError(
                f"the ledger holds charges of dataset {dataset!r} without a reservation; run "
                "`jam-dagster ledger verify`"
            )
        if held < 0:
            # A held amount is never negative: somebody returned an amount that had been spent.
            raise LedgerIntegrityError(
                f"the ledger returns or charges more of dataset {dataset!r} than was reserved; run "
                "`jam-dagster ledger verify`"
            )
        if mark not in without:
            amounts = int(held), int(spent)
            deltas = int(selections or 0)
            found.append(
                Holding(at, names[2], *amounts, protects, names=tuple(names), selections=deltas)
            )
    return found


@cache
def _of_kind(kind: Kind, whole: bool, latest: bool = False) -> sa.Select[Any]:
    """Return the query of a dataset's events of a kind, or the last of them, built once."""
    query = sa.select(events).where(
        events.c.dataset == sa.bindparam("dataset"), events.c.kind == kind.value
    )
    if not whole:
        query = query.where(events.c.seq <= sa.bindparam("through"))
    return query.order_by(events.c.seq.desc()).limit(1) if latest else query.order_by(events.c.seq)


@cache
def _amounts(whole: bool) -> sa.Select[tuple[Any, ...]]:
    """Return the query of a dataset's held and spent amounts, built once; see `holdings`.

    It is of the `whole` journal, or of that up to a number.
    """

    def total(*signed: tuple[Kind, int]) -> sa.ColumnElement[int]:
        amounts = [(events.c.kind == kind.value, sign * events.c.units) for kind, sign in signed]
        return sa.func.sum(sa.case(*amounts, else_=0))

    def reserved(column: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
        return sa.func.max(sa.case((events.c.kind == Kind.RESERVED.value, column)))

    account = [
        events.c[name]
        for name in ("release", "specification", "partition", "edition", "share", "opening")
    ]
    query = sa.select(
        *account,
        reserved(events.c.at),
        total((Kind.RESERVED, 1), (Kind.RETURNED, -1), (Kind.CHARGED, -1)),
        total((Kind.CHARGED, 1)),
        reserved(events.c.hash),
        reserved(events.c.protects),
        reserved(events.c.selections),
    ).where(events.c.dataset == sa.bindparam("dataset"), moves_an_amount())
    if not whole:
        query = query.where(events.c.seq <= sa.bindparam("through"))
    return query.group_by(*account)
