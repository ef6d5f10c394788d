"""Bindings of reservations to their sources by keyed digests, so that no other source is read.

Another query under the same reservation would answer another question without a charge. Two
releases of replace-one neighbours must not read different slices of one dataset either: their
numbers of records are public, and the difference is an exact count. A reservation that ends without
a charge therefore binds nobody, unless its release has read a public number of records.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import shlex
from collections.abc import Collection

import sqlalchemy as sa

from jam_dagster.errors import ReleaseClosedError, SourceBindingError, SpecificationError
from jam_dagster.privacy.ledger.balance import Balance
from jam_dagster.privacy.ledger.journal import Event, Kind, append, events, of_release, read
from jam_dagster.privacy.ledger.key import ReleaseKey, key_fields
from jam_dagster.privacy.ledger.reservation import share_states
from jam_dagster.privacy.private_store import PRIVATE_STORE_VARIABLE
from jam_dagster.privacy.sensitivity import Neighbours
from jam_dagster.tables.sources.identity import place_in

RECORDS = "records"
"""The step of the event that binds a release for good: its number of records was read."""

ANY_SOURCE = "any"
"""The word in a grant's ``sources`` that lets a partition have several sources."""

_TEMPLATE = re.compile(r"[0-9a-f]{16}:[0-9a-f]{64}")


def source_binding(secret: bytes, identity: str) -> str:
    """Return the keyed digest of a source, with the id of the secret that keyed it.

    It is ``KEYID:DIGEST``, or ``KEYID:DIGEST:PLACE`` where two identities can be of one place (see
    `place_in`); `with_template` adds another digest. Without the secret it reveals nothing.
    """
    name = hashlib.sha256(b"jam source key\0" + secret).hexdigest()[:16]
    texts = dict.fromkeys((identity, place_in(identity)))
    return ":".join((name, *(_keyed(secret, text) for text in texts)))


def _keyed(secret: bytes, text: str) -> str:
    message = b"jam source\0" + text.encode("utf-8", "surrogatepass")
    return hmac.new(secret, message, "sha256").hexdigest()


def with_template(source: str, template: str) -> str:
    """Return a source's binding with the digest of what it is made from in every partition."""
    name, digest, *place = source.split(":")
    return ":".join((name, digest, *(place or [digest]), template.split(":")[1]))


def template_in(source: str) -> str:
    """Return the template in a binding as ``KEYID:DIGEST``; empty if it has none."""
    name, *digests = source.split(":")
    return f"{name}:{digests[2]}" if len(digests) > 2 else ""


def same_source(bound: str, source: str) -> bool:
    """Return whether a release that is bound to a source reads the same one."""
    return bound == source or bound.startswith(f"{source}:")


def same_place(one: str, other: str) -> bool:
    """Return whether two bindings are of one place, whoever reads it and however."""
    return one.split(":")[1:3][-1:] == other.split(":")[1:3][-1:]


def is_vouched(source: str, sources: str) -> bool:
    """Return whether a grant lets a source be read in disjoint partitions."""
    template = template_in(source)
    return not template or template in sources.split(",")


def check_sources(sources: str) -> None:
    """Raise SpecificationError unless `sources` is a value that a grant can have."""
    words = sources.split(",") if sources else []
    if not all(word == ANY_SOURCE or _TEMPLATE.fullmatch(word) for word in words):
        raise SpecificationError(
            f"sources of a budget must be {ANY_SOURCE!r}, digests of sources as a refusal shows "
            "them, or both, separated by commas, or empty for one source per partition; got "
            f"{sources!r}"
        )


def one_source(protects: str, sources: str) -> bool:
    """Return whether a partition has one source, given the neighbours and the grant."""
    return ANY_SOURCE not in sources.split(",") and not protects.startswith("add_remove")


def bindings_of(journal: list[Event]) -> dict[ReleaseKey, str]:
    """Return the source of each bound release, from events of one dataset and partition."""
    bound: dict[ReleaseKey, str] = {}
    for event in journal:
        apply_binding(bound, event)
    return bound


def apply_binding(bound: dict[ReleaseKey, str], event: Event) -> None:
    """Apply an event to the bindings of its dataset and partition."""
    key = event.key
    if event.kind == Kind.BOUND and key is None:
        bound.clear()
    elif key is not None and event.kind in (Kind.RESERVED, Kind.BOUND):
        bound.pop(key, None)
        if event.source:
            bound[key] = event.source


def check_binding(
    connection: sa.Connection,
    location: str,
    balance: Balance,
    key: ReleaseKey,
    source: str,
    neighbours: Neighbours,
    *,
    there: bool,
    superseded: Collection[ReleaseKey],
) -> bool:
    """Return whether a release is still unbound; raise if it must not read a source.

    `there` says whether it has a reservation; a new one drops the binding of an ended one. It is a
    `SourceBindingError` if the release is bound to another source; if the partition has one source
    and another of its releases is bound to another; or if partitions are disjoint, and another one
    reads the same source, or the grant does not name what the source is made from.
    """
    if not source:
        return False
    bound = bindings_of(_binding_events(connection, key.dataset, key.partition))
    if there and key in bound:
        if not same_source(bound[key], source):
            raise SourceBindingError(
                f"{key} of dataset {key.dataset!r} {_differs(bound[key], source)}. Give the source "
                "that it was reserved for, or, if that has moved or has another user, rebind: "
                f"`{rebind_command(location, key)}`. Another table is another release: give it a "
                "new edition"
            )
        return False
    if _ended_charged(connection, key):
        # It draws no more, and repeats from its own source.
        return True
    if one_source(neighbours.code, balance.sources):
        counted = _live_or_charged(connection, key.dataset, key.partition) - {key, *superseded}
        others = (one for one in counted if not same_source(bound.get(one, source), source))
        other = next(others, None)
        if other is not None:
            raise SourceBindingError(
                f"{key} of dataset {key.dataset!r} would read another source than {other}, which "
                f"{_differs(bound[other], source)}. Under replace-one neighbours the number of "
                "records is public, and two sources of one dataset would reveal an exact count. "
                "Read the same source, protect add_remove neighbours, let the officer grant "
                f"several sources (`ledger grant ... --sources {ANY_SOURCE}`), or, if the "
                f"source has moved or has another user, rebind: `{rebind_command(location, key)}`"
            )
    if balance.policy.partitions == "disjoint":
        _check_apart(connection, balance, key, source)
        _check_vouched(location, balance, key, source)
    return True


def bind(connection: sa.Connection, key: ReleaseKey, source: str, *, at: str, run_id: str) -> None:
    """Bind a release that was reserved without a source."""
    append(connection, Kind.BOUND, **key_fields(key), source=source, at=at, run_id=run_id)


def bind_for_good(
    connection: sa.Connection, location: str, key: ReleaseKey, *, at: str, run_id: str
) -> None:
    """Bind an open release to its source even if it ends without a charge; once is enough."""
    if key in bound_for_good(connection, of_release(key)):
        return
    if all(state.closed for state in share_states(connection, key).values()):
        raise ReleaseClosedError(
            f"{key} of dataset {key.dataset!r} is not open in the ledger {location}: its number of "
            "records cannot be read"
        )
    source = bindings_of(_binding_events(connection, key.dataset, key.partition)).get(key, "")
    if not source:
        raise SourceBindingError(f"{key} of dataset {key.dataset!r} is bound to no source")
    details = {"at": at, "run_id": run_id}
    append(connection, Kind.BOUND, **key_fields(key), source=source, step=RECORDS, **details)


def bound_for_good(
    connection: sa.Connection, *conditions: sa.ColumnElement[bool]
) -> set[ReleaseKey]:
    """Return the releases that stay bound without a charge, of those that meet all conditions."""
    found = read(connection, *conditions, _for_good())
    return {event.key for event in found if event.key is not None}


def _for_good() -> sa.ColumnElement[bool]:
    return sa.and_(events.c.kind == Kind.BOUND.value, events.c.step == RECORDS)


def rebind(connection: sa.Connection, dataset: str, partition: str, *, at: str, reason: str) -> int:
    """Drop the bindings of a partition's releases; return how many were bound."""
    bound = bindings_of(_binding_events(connection, dataset, partition))
    if bound:
        append(connection, Kind.BOUND, dataset, partition=partition, at=at, reason=reason)
    return len(bound)


def rebind_command(location: str, key: ReleaseKey) -> str:
    """Return the command that drops the bindings of a partition, as errors quote it."""
    partition = f" --partition {key.partition}" if key.partition else ""
    return (
        f"jam-dagster ledger rebind --ledger {location} --dataset {key.dataset}{partition} "
        "--reason REASON"
    )


def _differs(bound: str, source: str) -> str:
    """Return in words how a binding differs from a source; neither is shown."""
    if bound.partition(":")[0] == source.partition(":")[0]:
        return "was reserved for another source"
    return (
        "was bound under the secret of another private store, so the two cannot be compared "
        "(name the original store: --private-store, or "
        f"{PRIVATE_STORE_VARIABLE}, on the command line)"
    )


def _ended_charged(connection: sa.Connection, key: ReleaseKey) -> bool:
    """Return whether a release has ended after it was charged."""
    shares = share_states(connection, key).values()
    return all(one.closed for one in shares) and any(one.spent for one in shares)


def _check_apart(connection: sa.Connection, balance: Balance, key: ReleaseKey, source: str) -> None:
    """Raise if another partition reads the same source: people in both would be charged once."""
    by_partition: dict[str, dict[ReleaseKey, str]] = {}
    for event in _binding_events(connection, key.dataset):
        if event.partition != key.partition:
            apply_binding(by_partition.setdefault(event.partition, {}), event)
    for partition, bound in by_partition.items():
        same = {one for one, its in bound.items() if same_place(its, source)}
        if same & _live_or_charged(connection, key.dataset, partition):
            raise SourceBindingError(
                f"{key} of dataset {key.dataset!r} would read the same source as partition "
                f"{partition!r}, and the officer granted partitions as disjoint "
                f"({balance.policy.ground}): no person may be in two of them. Give each partition "
                "a source of its own, or let the officer grant partitions that add up"
            )


def _check_vouched(location: str, balance: Balance, key: ReleaseKey, source: str) -> None:
    """Raise unless the officer vouches for a source that no file tells apart from another's."""
    if not key.partition or is_vouched(source, balance.sources):
        return
    policy, template = balance.policy, template_in(source)
    words = ["jam-dagster", "ledger", "grant", "--ledger", location, "--dataset", key.dataset]
    words += ["--epsilon", f"{balance.epsilon!r}", "--delta", f"{balance.delta!r}"]
    words += ["--period", policy.period, "--partitions", policy.partitions]
    words += ["--ground", policy.ground, "--sources"]
    words += [",".join(filter(None, (balance.sources, template)))]
    raise SourceBindingError(
        f"{key} of dataset {key.dataset!r} reads a query, an asset, a folder or a URL, and "
        f"the officer granted partitions as disjoint ({policy.ground}): only who reads it can tell "
        f"that no person is in two of them. Its digest is {template}. Give each partition a file "
        "of its own, or let the officer look at the definition and grant it: "
        f"{shlex.join([*words, '--reason', 'REASON'])}"
    )


def _binding_events(
    connection: sa.Connection, dataset: str, partition: str | None = None
) -> list[Event]:
    """Return the events that bind releases of a dataset, of one partition or of all."""
    within = () if partition is None else (events.c.partition == partition,)
    kinds = events.c.kind.in_([Kind.RESERVED.value, Kind.BOUND.value])
    return read(connection, events.c.dataset == dataset, *within, kinds)


def _live_or_charged(connection: sa.Connection, dataset: str, partition: str) -> set[ReleaseKey]:
    """Return the releases of a partition with a held or spent amount, or bound for good."""
    amounts = sa.case(
        (events.c.kind == Kind.RESERVED.value, events.c.units),
        (events.c.kind == Kind.RETURNED.value, -events.c.units),
        (_for_good(), 1),
        else_=0,
    )
    names = ("release", "specification", "partition", "edition")
    columns = [events.c[name] for name in names]
    rows = connection.execute(
        sa.select(*columns)
        .where(events.c.dataset == dataset, events.c.partition == partition)
        .where(events.c.release != "")
        .group_by(*columns)
        .having(sa.func.sum(amounts) > 0)
    )
    return {ReleaseKey(dataset, **row) for row in rows.mappings()}
