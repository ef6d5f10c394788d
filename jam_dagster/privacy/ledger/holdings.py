"""The reservations of a protected dataset, and its last grant, as the journal has them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, cast

import sqlalchemy as sa

from jam_dagster.errors import LedgerIntegrityError, SpecificationError
from jam_dagster.privacy.ledger.journal import Kind, events, moves_an_amount, read
from jam_dagster.privacy.ledger.policy import (
    Holding,
    PartitionsName,
    PeriodName,
    Policy,
    RecordsName,
)


def last_grant(
    connection: sa.Connection, dataset: str, *, through: int | None = None
) -> sa.Row[Any] | None:
    """Return the row of a dataset's last grant, or None; see `balance_of` for `through`."""
    return connection.execute(
        sa.select(events)
        .where(
            events.c.dataset == dataset,
            events.c.kind == Kind.GRANTED.value,
            *up_to(through),
        )
        .order_by(events.c.seq.desc())
        .limit(1)
    ).first()


def policy_of(period: str, partitions: str, ground: str, records: str) -> Policy:
    """Return the policy of a grant; a grant without one is for a lifetime, and n private."""
    try:
        return Policy(
            cast(PeriodName, period or "lifetime"),
            cast(PartitionsName, partitions or "add"),
            ground,
            cast(RecordsName, records or "private"),
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

    def total(*signed: tuple[Kind, int]) -> sa.ColumnElement[int]:
        amounts = [(events.c.kind == kind.value, sign * events.c.units) for kind, sign in signed]
        return sa.func.sum(sa.case(*amounts, else_=0))

    counts = read(
        connection,
        events.c.dataset == dataset,
        events.c.kind == Kind.COUNTED.value,
        *up_to(through),
    )

    def reserved(column: sa.ColumnElement[str]) -> sa.ColumnElement[str | None]:
        return sa.func.max(sa.case((events.c.kind == Kind.RESERVED.value, column)))

    account = [
        events.c[name]
        for name in ("release", "partition", "edition", "specification", "share", "opening")
    ]
    rows = connection.execute(
        sa.select(
            reserved(events.c.at),
            events.c.partition,
            total((Kind.RESERVED, 1), (Kind.RETURNED, -1), (Kind.CHARGED, -1)),
            total((Kind.CHARGED, 1)),
            reserved(events.c.hash),
            reserved(events.c.protects),
        )
        .where(events.c.dataset == dataset, moves_an_amount(), *up_to(through))
        .group_by(*account)
    )
    found = [Holding(one.at, one.partition, 0, 0, counted=True) for one in counts]
    for at, partition, held, spent, mark, protects in rows:
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
            found.append(Holding(at, partition, int(held), int(spent), protects))
    return found
