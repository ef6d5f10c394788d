"""Bindings of reservations to their sources by keyed digests, so that no other source is read.

Another query under the same reservation would answer another question without a charge. If
single records are protected under replace-one neighbours, the number of records of a source is
public, so it is one number for each dataset and partition: two slices of one dataset, or one query
whose rows change, would reveal exact counts without a charge. A reservation that ends without a
charge therefore binds nobody, unless its release has published the number of records.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import combinations

import sqlalchemy as sa

from jam_dagster.errors import SourceBindingError, SpecificationError
from jam_dagster.privacy.ledger.balance import Balance, grant_again_command
from jam_dagster.privacy.ledger.commands import rebind_command
from jam_dagster.privacy.ledger.holdings import holdings
from jam_dagster.privacy.ledger.journal import Event, Kind, append, events, read
from jam_dagster.privacy.ledger.policy import GROUNDS, IN_ALL_TABLES, Holding, Policy
from jam_dagster.privacy.ledger.release_id import ReleaseId, id_fields
from jam_dagster.privacy.ledger.source_binding import (
    SourceBinding,
    binding_of,
    is_digest_name,
)
from jam_dagster.privacy.ledger.state import release_state
from jam_dagster.privacy.private_store import PRIVATE_STORE_VARIABLE
from jam_dagster.privacy.sensitivity import Neighbours

FIXED = GROUNDS[1]
"""The ground on which replacing a person changes one partition alone."""

Bindings = dict[str, dict[ReleaseId, SourceBinding | None]]
"""The binding of each reserved release of a dataset, by partition; None without a source."""


def of_another_table(
    source: SourceBinding | None, live: Mapping[str, Iterable[SourceBinding | None]]
) -> str:
    """Return a partition with a release that may be of another table than a source; else empty.

    `live` are the `live_sources`. A release without a source may be of any table, and those under
    the secrets of two private stores cannot be compared. One that was bound keeps its table until
    the officer names another (see `apply_binding`).
    """

    def differs(one: SourceBinding | None) -> bool:
        return one is None or source is None or not one.is_of_table(source)

    return next((name for name, its in live.items() if name and any(map(differs, its))), "")


def parallel_fault(
    live: Mapping[str, Iterable[SourceBinding | None]], sources: str, policy: Policy
) -> str:
    """Return why releases that were bound before do not compose in parallel; empty if they do.

    `live` are the `live_sources`; `sources` and `policy` are of the grant that calls partitions
    disjoint.
    """
    pairs = [(partition, one) for partition, its in live.items() if partition for one in its]
    known = [(partition, one) for partition, one in pairs if one is not None]
    for (one, first), (other, second) in combinations(dict.fromkeys(known), 2):
        if one != other and first.may_share_place(second):
            why = (
                "releases of both read one source"
                if first.secret == second.secret
                else "their sources were bound under the secrets of two private stores, so they "
                "cannot be compared"
            )
            return f"composes partitions {one!r} and {other!r} in parallel, and {why}"
    for partition, source in known:
        if not is_vouched(source, sources):
            return (
                f"composes partitions in parallel, and a release of partition {partition!r} reads "
                "a query, an asset, a folder or a URL that the grant does not name: "
                f"{source.template_name}"
            )
    if policy.of_one_table and len(pairs) > 1 and of_another_table(latest_table(live), live):
        return (
            "composes partitions in parallel, and releases of them read several tables, or "
            "unknown ones"
        )
    return ""


def latest_table(live: Mapping[str, Iterable[SourceBinding | None]]) -> SourceBinding | None:
    """Return the table of the last release of a partition that has one; None if none has."""
    known = [one for name, its in live.items() if name for one in its if one is not None]
    return known[-1].let_go() if known else None


def live_sources(
    bound: Bindings, live: Collection[ReleaseId]
) -> dict[str, list[SourceBinding | None]]:
    """Return the bindings of the releases in `live`, by partition."""
    return {
        partition: [source for release_id, source in its.items() if release_id in live]
        for partition, its in bound.items()
    }


def live_releases(dataset: str, held: Iterable[Holding]) -> set[ReleaseId]:
    """Return a dataset's releases with a held or spent amount, or a public number of records.

    A reservation that ended without any of these binds no other release.
    """
    live = {one.names for one in held if one.counts}
    return {ReleaseId(dataset, *names) for names in live}


def is_vouched(source: SourceBinding, sources: str) -> bool:
    """Return whether a grant names what a source is made from; no grant need name a file."""
    return not source.template or source.template_name in sources.split(",")


def check_sources(sources: str) -> None:
    """Raise SpecificationError unless `sources` is a value that a grant can have."""
    words = sources.split(",") if sources else []
    if not all(map(is_digest_name, words)):
        raise SpecificationError(
            "sources of a budget must be digests of sources as a refusal shows them, separated by "
            f"commas, got {sources!r}"
        )


def public_fault(policy: Policy, partition: str, source: SourceBinding, sources: str) -> str:
    """Return why the number of records of a source is not public; empty if a grant says so."""
    if policy.records != "public":
        return "no grant calls public"
    if partition and policy.ground != FIXED:
        return "no grant calls public in each partition"
    if not is_vouched(source, sources):
        return "no grant calls public for this query or asset"
    return ""


def bindings(connection: sa.Connection, dataset: str) -> Bindings:
    """Return the binding of each reserved release of a dataset, by partition."""
    bound: Bindings = {}
    kinds = events.c.kind.in_([Kind.RESERVED.value, Kind.BOUND.value])
    for event in read(connection, events.c.dataset == dataset, kinds):
        apply_binding(bound, event)
    return bound


def apply_binding(bound: Bindings, event: Event) -> None:
    """Apply a reservation, or an event that binds, to the bindings of its dataset.

    A rebinding drops the sources of a partition. The table of each stays what it was, unless the
    event names the one that all of them are of.
    """
    its, release_id, new = (
        bound.setdefault(event.partition, {}),
        event.release_id,
        binding_of(event),
    )
    if release_id is None:
        for one, old in its.items():
            its[one] = new or (old and old.let_go())
        return
    its.pop(release_id, None)
    its[release_id] = new


def check_binding(
    connection: sa.Connection,
    location: str,
    balance: Balance,
    release_id: ReleaseId,
    source: SourceBinding | None,
    neighbours: Neighbours,
    *,
    there: bool,
    superseded: Collection[ReleaseId] = (),
) -> SourceBinding | None:
    """Return the source if a release is still to be bound to it; raise if it must not read it.

    `there` says whether it has a reservation; a new one drops the binding of an ended one. It is a
    `SourceBindingError` if the release is bound to another source; if the number of records is not
    hidden, and no grant calls it public or another release of the partition is bound to another
    source; or if partitions are disjoint, and another one reads the same source, the grant does
    not name what the source is made from, or other releases read another table of the dataset.
    """
    if source is None:
        return None
    all_bound = bindings(connection, release_id.dataset)
    bound = all_bound.get(release_id.partition, {})
    again = _again(location, balance, release_id, source, release_id.partition)
    its = bound.get(release_id) if there else None
    if its is not None and its.source:
        if not its.reads_same(source):
            raise SourceBindingError(
                f"{release_id} of dataset {release_id.dataset!r} {_differs(its, source)}. Give the "
                "source that it was reserved for, or, if that has moved or has another user, "
                f"rebind: `{again}`. Another table is another release: give it a new edition"
            )
        return None
    _check_one_table(
        location, balance, release_id, source, {release_id.partition: [its] if its else []}
    )
    release = release_state(connection, release_id)
    if release.closed and release.spent:
        # The release draws no more, and repeats from its own source.
        return source
    disjoint = balance.policy.parallel
    if not (neighbours.records_public or disjoint):
        return source
    live = live_releases(release_id.dataset, holdings(connection, release_id.dataset))
    counted = live - {release_id, *superseded}
    if neighbours.records_public:
        _check_public(location, balance, release_id, source)
        for other, its in bound.items():
            if other not in counted or its is None or not its.source or its.reads_same(source):
                continue
            raise SourceBindingError(
                f"{release_id} of dataset {release_id.dataset!r} would read another source than "
                f"{other}, which {_differs(its, source)}. Under replace-one neighbours the number "
                "of records is public, and two sources of one dataset would reveal an exact count. "
                "Read one table in all its releases. For several tables of the same people, let "
                "the officer grant the dataset a private number of records (`ledger grant "
                "--records private`), and protect add_remove neighbours in all its releases. Or, "
                f"if the source has moved or has another user, rebind: `{again}`"
            )
    if disjoint:
        _check_apart(location, balance, release_id, source, live_sources(all_bound, live))
        _check_vouched(location, balance, release_id, source)
        _check_one_table(location, balance, release_id, source, live_sources(all_bound, counted))
    return source


def bind(
    connection: sa.Connection, release_id: ReleaseId, source: SourceBinding, *, at: str, run_id: str
) -> None:
    """Bind a release that was reserved without a source."""
    append(
        connection, Kind.BOUND, **id_fields(release_id), source=source.text, at=at, run_id=run_id
    )


def rebind(
    connection: sa.Connection, dataset: str, partition: str, table: str, *, at: str, reason: str
) -> int:
    """Drop the sources of a partition's releases, or name their table; return how many changed."""
    named = SourceBinding.to_table(table) if table else None
    its = bindings(connection, dataset).get(partition, {}).values()
    changed = sum(one != named if named else bool(one and one.source) for one in its)
    if changed:
        source = named.text if named else ""
        details = {"partition": partition, "source": source, "at": at, "reason": reason}
        append(connection, Kind.BOUND, dataset, **details)
    return changed


def check_table(table: str) -> None:
    """Raise SpecificationError unless `table` is a value that a rebinding can have."""
    if table and not is_digest_name(table):
        raise SpecificationError(
            f"the table must be a digest of a table as a refusal shows it, got {table!r}"
        )


def _again(
    location: str, balance: Balance, release_id: ReleaseId, source: SourceBinding, partition: str
) -> str:
    """Return the command after which a partition's releases may be of the source of another."""
    named = release_id.partition and partition and balance.policy.of_one_table
    table = source.table_name if named else ""
    return rebind_command(location, release_id.dataset, partition, table)


def _differs(bound: SourceBinding, source: SourceBinding) -> str:
    """Return in words how a binding differs from a source; neither is shown."""
    if bound.secret == source.secret:
        return "was reserved for another source"
    return (
        "was bound under the secret of another private store, so the two cannot be compared "
        "(name the original store: --private-store, or "
        f"{PRIVATE_STORE_VARIABLE}, on the command line)"
    )


def _check_apart(
    location: str,
    balance: Balance,
    release_id: ReleaseId,
    source: SourceBinding,
    live: Mapping[str, list[SourceBinding | None]],
) -> None:
    """Raise if another partition reads the same source: people in both would be charged once."""
    for partition, sources in live.items():
        same = [one for one in sources if one is not None and one.may_share_place(source)]
        if partition == release_id.partition or not same:
            continue
        if all(one.secret != source.secret for one in same):
            again = _again(location, balance, release_id, source, partition)
            raise SourceBindingError(
                f"{release_id} of dataset {release_id.dataset!r} may read the same source as "
                f"partition {partition!r}, which {_differs(same[0], source)}, and the officer "
                f"granted partitions as disjoint ({balance.policy.ground}). If that store is lost, "
                f"let the officer rebind that partition: `{again}`"
            )
        raise SourceBindingError(
            f"{release_id} of dataset {release_id.dataset!r} would read the same source as "
            f"partition {partition!r}, and the officer granted partitions as disjoint "
            f"({balance.policy.ground}): no person may be in two of them. Give each partition a "
            "source of its own, or let the officer grant partitions that add up"
        )


def _check_one_table(
    location: str,
    balance: Balance,
    release_id: ReleaseId,
    source: SourceBinding,
    live: Mapping[str, list[SourceBinding | None]],
) -> None:
    """Raise if partitions may be of another table: nothing keeps those two apart.

    A person in one table's January and in another table's February would be charged once.
    """
    if not (release_id.partition and balance.policy.of_one_table):
        return
    partition = of_another_table(source, live)
    if not partition:
        return
    unknown = "" if all(live[partition]) else ", which is bound to no source"
    again = _again(location, balance, release_id, source, partition)
    command = grant_again_command(location, balance, partitions=IN_ALL_TABLES)
    raise SourceBindingError(
        f"{release_id} of dataset {release_id.dataset!r} would read another table than a release "
        f"of partition {partition!r}{unknown}, and the officer granted partitions as disjoint "
        f"({balance.policy.ground}) in one table: a person in two partitions, one of each table, "
        "would be charged once. If it is one table, write {partition} for the partition in its "
        "path, so that all its partitions have one name. If all releases of that partition are of "
        f"this table, which has moved, let the officer say so: `{again}`; each partition takes a "
        "command of its own. If no person is in two partitions of all tables of the dataset, let "
        f"the officer grant it: {command}. Otherwise, let the officer grant partitions that add up"
    )


def _check_public(
    location: str, balance: Balance, release_id: ReleaseId, source: SourceBinding
) -> None:
    """Raise unless the officer says that the number of records of a source is public."""
    if not public_fault(balance.policy, release_id.partition, source, balance.sources):
        return
    wanted, people = {"records": "public"}, "one fixed set of people"
    if release_id.partition:
        wanted["ground"] = FIXED
        people = "in each partition one fixed set of people, whose membership is public"
    if not is_vouched(source, balance.sources):
        wanted["sources"] = _with(balance.sources, source.template_name)
        people += f", all of whom its query or asset selects ({source.template_name})"
    raise SourceBindingError(
        f"{records_shown(release_id, people)}, and their number is no secret, let the officer "
        f"grant it: {grant_again_command(location, balance, **wanted)}"
    )


def records_shown(release_id: ReleaseId, people: str = "one fixed set of people") -> str:
    """Return that a release shows how many records there are, and remedies up to the last one."""
    return (
        f"{release_id} of dataset {release_id.dataset!r} protects replace_one neighbours, which do "
        "not hide the number of records, and no grant says that it is public. Protect add_remove "
        "neighbours (privacy.neighbours, or --neighbours add_remove), which measure it with "
        f"privacy.records_share of the budget. Or, if the table has {people}"
    )


def _with(sources: str, template: str) -> str:
    return ",".join(filter(None, (sources, template)))


def _check_vouched(
    location: str, balance: Balance, release_id: ReleaseId, source: SourceBinding
) -> None:
    """Raise unless the officer vouches for a source that no file distinguishes from another's."""
    if not release_id.partition or is_vouched(source, balance.sources):
        return
    template = source.template_name
    command = grant_again_command(location, balance, sources=_with(balance.sources, template))
    raise SourceBindingError(
        f"{release_id} of dataset {release_id.dataset!r} reads a query, an asset, a folder or a "
        f"URL, and the officer granted partitions as disjoint ({balance.policy.ground}): only who "
        f"reads it can know that no person is in two of them. Its digest is {template}. Give each "
        "partition a file of its own, or let the officer look at the definition and grant it: "
        f"{command}"
    )
