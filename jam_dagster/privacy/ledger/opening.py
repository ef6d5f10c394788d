"""The opening of a release: whether it exists, fits the budget, and supersedes another one."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import sqlalchemy as sa

from jam_dagster.errors import BudgetError, BudgetExceededError, SpecificationError
from jam_dagster.privacy.account import shortfall
from jam_dagster.privacy.accounting import (
    UNITS_PER_DELTA,
    check_rho,
    delta_units_up,
    describe_rho,
    rho_within,
    units_down,
    units_up,
)
from jam_dagster.privacy.ledger.approval import check_approved
from jam_dagster.privacy.ledger.balance import Balance, grant_again_command, known_balance
from jam_dagster.privacy.ledger.bindings import (
    bindings,
    check_binding,
    latest_table,
    live_releases,
    live_sources,
    of_another_table,
    parallel_fault,
)
from jam_dagster.privacy.ledger.commands import (
    close_command,
    grant_command,
    rebind_command,
)
from jam_dagster.privacy.ledger.holdings import holdings
from jam_dagster.privacy.ledger.journal import (
    Kind,
    append,
    check_not_moved,
    events,
    moves_an_amount,
    of_release,
    read,
)
from jam_dagster.privacy.ledger.policy import (
    IN_ALL_TABLES,
    Holding,
    Policy,
    composed,
    mixture_fault,
    use,
)
from jam_dagster.privacy.ledger.release_id import ReleaseId, check_name, id_fields
from jam_dagster.privacy.ledger.reservation import close_share, counted
from jam_dagster.privacy.ledger.source_binding import SourceBinding
from jam_dagster.privacy.ledger.state import ReleaseState, release_state, states_in
from jam_dagster.privacy.sensitivity import REPLACE_ONE, Neighbours

SUPERSEDED = "superseded before its first draw"
"""The reason of a reservation's end when another specification, or another name, takes over."""

_NAMED = 3
_RELEASE = ("dataset", "release", "partition", "edition")
"""The parts of an id that name a release under any specification."""


@dataclass(frozen=True)
class Opening:
    """The plan of opening a release.

    Amounts are in units of 1e-15 rho, and `selections` in units of 1e-18 delta. `there` says that
    it is open already, or has been charged or has published the number of records: nothing is
    written then. `superseded` has the uncharged reservations of the same release under other
    specifications.
    """

    units: Mapping[str, int]
    there: bool
    selections: Mapping[str, int] = field(default_factory=dict)
    number: str = ""
    counts_in: str = ""
    protects: str = ""
    superseded: Mapping[ReleaseId, ReleaseState] = field(default_factory=dict)
    source: SourceBinding | None = None

    def write(
        self, connection: sa.Connection, release_id: ReleaseId, *, at: str, run_id: str
    ) -> None:
        """Write the plan to the journal: close superseded reservations, then reserve each share."""
        if self.there:
            return
        details = {"at": at, "run_id": run_id}
        for other, release in self.superseded.items():
            for share, state in release.shares.items():
                close_share(connection, other, share, state, reason=SUPERSEDED, **details)
        for share, amount in self.units.items():
            append(
                connection,
                Kind.RESERVED,
                **id_fields(release_id),
                share=share,
                units=amount,
                selections=self.selections.get(share),
                counts_in=self.counts_in,
                opening=self.number,
                protects=self.protects,
                source=self.source.text if self.source else "",
                **details,
            )


def share_units(shares: Mapping[str, float]) -> dict[str, int]:
    """Return the amount of each share in units of 1e-15 rho, rounded down."""
    if not shares:
        raise SpecificationError("a release must reserve at least one share, got none")
    units = {}
    for share in sorted(shares):
        check_name(share, "the share")
        units[share] = units_down(check_rho(shares[share], name=f"rho of share {share!r}"))
        if units[share] == 0:
            raise SpecificationError(
                f"rho of share {share!r} must be at least 1e-15, got {shares[share]!r}"
            )
    return units


def plan_opening(
    connection: sa.Connection,
    location: str,
    release_id: ReleaseId,
    units: Mapping[str, int],
    at: str,
    neighbours: Neighbours = REPLACE_ONE,
    source: SourceBinding | None = None,
    takes_over: Collection[ReleaseId] = (),
    selections: Mapping[str, int] | None = None,
) -> Opening:
    """Return the plan of opening a release; write nothing.

    A release that ended without a charge is opened again. An open or charged one, or one that
    published the number of records, is returned unchanged. An open reservation of the same release
    under another specification is superseded if it is neither, and so are those in `takes_over`.

    `units` are the requested amounts by share, and `selections` the delta that selections of values
    have, in units of 1e-18, of those shares that select any. Other shares than before are a
    `SpecificationError`, and what does not fit, is not approved, is bound elsewhere or protects
    other neighbours is a `BudgetError` of its own class.
    """
    check_not_moved(connection)
    same = sa.and_(*(events.c[name] == getattr(release_id, name) for name in _RELEASE))
    versions = states_in(read(connection, same, moves_an_amount()))
    release = versions.pop(release_id, ReleaseState())
    begun = counted(connection, same)

    spent_before = any(one.spent for one in versions.values())
    for other in takes_over:
        versions[other] = release_state(connection, other)
        begun |= counted(connection, of_release(other))

    if release_id in begun or release.spent or not release.closed:
        reserved = {share: state.reserved for share, state in release.shares.items()}
        _check_shares(release_id, reserved, units)
        deltas = {share: state.reservation.selections for share, state in release.shares.items()}
        if {share: delta for share, delta in deltas.items() if delta} != (selections or {}):
            raise SpecificationError(
                f"{release_id} of dataset {release_id.dataset!r} was opened with another delta for"
                " selections of values; give it a new edition to reserve again"
            )
        balance = known_balance(connection, location, release_id.dataset, at)
        # If it is not bound, it will be once its data are opened.
        check_binding(connection, location, balance, release_id, source, neighbours, there=True)
        return Opening(reserved, there=True)
    opened = max((int(one.reservation.opening or 1) for one in release.shares.values()), default=0)
    superseded = {
        other: its for other, its in versions.items() if other not in begun and not its.spent
    }
    freed = {
        state.reservation.hash
        for its in superseded.values()
        for state in its.shares.values()
        if not state.closed
    }
    balance = known_balance(connection, location, release_id.dataset, at, without=freed)
    _check_fit(connection, balance, location, release_id, units, spent_before=spent_before)
    _check_selections(balance, location, release_id, sum((selections or {}).values()))
    requested = Holding(at, release_id.partition, sum(units.values()), 0, neighbours.code)
    _check_mixture(
        release_id, balance, [*holdings(connection, release_id.dataset, without=freed), requested]
    )
    reads = balance, release_id, source, neighbours
    check_binding(connection, location, *reads, there=False, superseded=superseded)
    check_approved(connection, location, release_id, sum(units.values()), balance)
    return Opening(
        units,
        there=False,
        selections=selections or {},
        number=str(opened + 1) if opened else "",
        counts_in=balance.policy.period_of(at),
        protects=neighbours.code,
        superseded=superseded,
        source=source,
    )


def _check_mixture(release_id: ReleaseId, balance: Balance, held: Sequence[Holding]) -> None:
    if fault := mixture_fault(balance.policy, held):
        raise BudgetError(
            f"with {release_id}, the budget of dataset {release_id.dataset!r} {fault}. Protect the "
            "same neighbours in all its releases, or name a protected dataset of its own, with a "
            "budget of its own"
        )


def _check_shares(
    release_id: ReleaseId, reserved: Mapping[str, int], units: Mapping[str, int]
) -> None:
    # A share may lose a little on its way from units to a float and back.
    same = reserved.keys() == units.keys() and all(
        abs(reserved[share] - amount) <= 1 + units_up(math.ulp(rho_within(amount)))
        for share, amount in units.items()
    )
    if not same:
        raise SpecificationError(
            f"{release_id} of dataset {release_id.dataset!r} was opened with shares "
            f"{_listed(reserved)}, not {_listed(units)}, under the same specification; give it a "
            "new edition to reserve again"
        )


def _listed(units: Mapping[str, int]) -> str:
    return ", ".join(f"{share} = {rho_within(amount):.6g}" for share, amount in units.items())


def _check_fit(
    connection: sa.Connection,
    balance: Balance,
    location: str,
    release_id: ReleaseId,
    units: Mapping[str, int],
    *,
    spent_before: bool,
) -> None:
    requested, left = sum(units.values()), balance.remaining_units_in(release_id.partition)
    if requested <= left:
        return
    changed = (
        " (it was released before with another specification; a changed specification is a new "
        "release and pays again)"
    )
    period = "" if balance.period == "lifetime" else f" for {balance.period}"
    raise BudgetExceededError(
        f"{release_id} {shortfall(requested, left, balance.delta)} in the budget of dataset "
        f"{release_id.dataset!r}{period}{changed if spent_before else ''}. Ask for less, or raise "
        f"the budget: {grant_command(location, release_id.dataset)}"
        f"{_or_close(connection, balance, location)}"
    )


def _check_selections(balance: Balance, location: str, release_id: ReleaseId, asked: int) -> None:
    """Raise unless the grant has so much delta left for selections of values."""
    if asked <= balance.remaining_selections_in(release_id.partition):
        return
    used, granted = balance.used_selections, balance.granted_selections
    again = grant_again_command(location, balance, **{"selection-delta": _delta(used + asked)})
    held = f"{_delta(granted)}, of which {_delta(used)} is taken" if granted else "none"
    raise BudgetExceededError(
        f"{release_id} selects values of private columns, which takes {_delta(asked)} of the delta"
        f" of dataset {release_id.dataset!r}. Its grant gives selections {held}. Declare the values"
        f" or let the officer grant more, which leaves less delta for rho: {again}"
    )


def _delta(units: int) -> str:
    """Return a delta as a command takes it: it is worth at least these units."""
    short, exact = f"{units / UNITS_PER_DELTA:g}", repr(units / UNITS_PER_DELTA)
    return short if delta_units_up(float(short)) >= units else exact


def check_granted(
    connection: sa.Connection,
    location: str,
    before: Balance,
    granted: int,
    policy: Policy,
    delta: float,
    selections: int,
    sources: str,
    at: str,
) -> None:
    """Raise BudgetError unless a new budget covers what is spent and reserved of the old."""
    held = holdings(connection, before.dataset)
    if fault := mixture_fault(policy, held):
        raise BudgetError(f"the budget of dataset {before.dataset!r} cannot be granted: it {fault}")
    # Partitions that add up are charged for all people, and nothing kept them apart.
    becomes = policy.newly_parallel(before.policy)
    live = live_sources(bindings(connection, before.dataset), live_releases(before.dataset, held))
    if becomes and (fault := parallel_fault(live, sources, policy)):
        again = rebind_command(location, before.dataset, "PARTITION")
        raise BudgetError(
            f"the budget of dataset {before.dataset!r} cannot be granted: it {fault}. Grant "
            "partitions that add up. Or, if no person is in two of them, name the query or asset "
            f"in the grant (`--sources`), or drop the binding of a file: `{again}`. If no person is"
            f" in two partitions of several tables, grant `--partitions '{IN_ALL_TABLES}'`"
            f"{_or_name_table(location, before.dataset, live)}"
        )
    used = use(policy, held, policy.period_of(at))
    if selections < composed(policy, used.selections):
        raise BudgetError(
            f"the budget of dataset {before.dataset!r} cannot be granted: selections of values"
            f" have {_delta(composed(policy, used.selections))} of its delta; grant them at least"
            " so much (--selection-delta)"
        )
    if granted < used.spent + used.reserved:
        raise BudgetError(
            f"the budget of dataset {before.dataset!r} cannot be lowered to "
            f"{describe_rho(rho_within(granted), delta)}: "
            f"{describe_rho(rho_within(used.spent), delta)} is spent and "
            f"{describe_rho(rho_within(used.reserved), delta)} is reserved; grant at "
            f"least {describe_rho(rho_within(used.spent + used.reserved), delta)}"
            f"{_or_close(connection, before, location)}"
        )


def _or_name_table(
    location: str, dataset: str, live: Mapping[str, Collection[SourceBinding | None]]
) -> str:
    """Return the remedy for one table of two names; empty if no other is known."""
    read = latest_table(live)
    partition = of_another_table(read, live)
    if read is None or not partition:
        return ""
    return (
        f". If all releases of partition {partition!r} are of the table that was read last, name "
        f"it: `{rebind_command(location, dataset, partition, read.table_name)}`"
    )


def _or_close(connection: sa.Connection, budget: Balance, location: str) -> str:
    """Return the remedy of closing releases, by name; empty if no amount is reserved."""
    if not budget.reserved_units:
        return ""
    held = open_reservations(connection, budget.dataset)
    named = "; ".join(
        f"{describe_rho(rho_within(amount), budget.delta)} by {release_id}: "
        f"{close_command(location, release_id)}"
        for release_id, amount in held[:_NAMED]
    )
    more = f"; more by {len(held) - _NAMED} others" if len(held) > _NAMED else ""
    return (
        f"; or close an abandoned release, since "
        f"{describe_rho(budget.reserved, budget.delta)} is reserved: {named}{more}"
    )


def open_reservations(connection: sa.Connection, dataset: str) -> list[tuple[ReleaseId, int]]:
    """Return the releases of a dataset that hold an amount, each with it, the latest first."""
    journal = read(connection, events.c.dataset == dataset, moves_an_amount())
    held = {
        release_id: sum(share.held for share in release.shares.values())
        for release_id, release in states_in(journal).items()
    }
    return [(release_id, amount) for release_id, amount in reversed(held.items()) if amount]
