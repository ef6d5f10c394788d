"""The history of a release in its ledger: partitions, editions and specifications before a run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jam_dagster.privacy.accounting import describe_rho, rho_within

if TYPE_CHECKING:
    from jam_dagster.privacy.ledger.journal import Event
    from jam_dagster.privacy.ledger.release_id import ReleaseId

_NAMED = 3


@dataclass(frozen=True)
class Drawn:
    """A release that was charged: its id, the day of its first charge, and its cost in units."""

    release_id: ReleaseId
    on: str
    units: int


def drawn_releases(journal: Iterable[Event], release: str) -> list[Drawn]:
    """Return the charged releases of one name, in the order of their first charges."""
    found: dict[ReleaseId, Drawn] = {}
    for event in journal:
        release_id = event.release_id
        if event.kind != "charged" or release_id is None or release_id.release != release:
            continue
        before = found.get(release_id, Drawn(release_id, event.at[:10], 0))
        found[release_id] = Drawn(release_id, before.on, before.units + (event.units or 0))
    return list(found.values())


def history_sentences(
    journal: Iterable[Event],
    release_id: ReleaseId,
    edition_of: Callable[[str], str],
    delta: float,
    *,
    as_defined: bool = True,
) -> list[str]:
    """Return what a person should know of a release's history before it is drawn.

    Parameters
    ----------
    journal
        The events of the dataset that pays.
    release_id
        The release that is to be drawn.
    edition_of
        Returns the edition that a partition of the release has now.
    delta
        The delta at which amounts are converted to epsilon.
    as_defined
        Whether it is the release of the definition. If options changed it, its specification says
        nothing of the others.

    Returns
    -------
    list of str
        Sentences; none of a release that was drawn itself, and is only repeated.
    """
    drawn = drawn_releases(journal, release_id.release)
    if any(one.release_id == release_id for one in drawn):
        return []
    if not as_defined:
        return [
            said
            for one in drawn
            if one.release_id.edition != release_id.edition
            for said in _drawn_again([one], release_id, delta)
        ]
    return [
        *_drawn_again(drawn, release_id, delta),
        *_other_partitions(drawn, release_id, edition_of),
        *_other_specifications(drawn, release_id),
    ]


def _drawn_again(drawn: Sequence[Drawn], release_id: ReleaseId, delta: float) -> Iterator[str]:
    """Yield what was drawn of the same partition before."""
    for one in drawn:
        its = one.release_id
        if its.partition != release_id.partition:
            continue
        cost = describe_rho(rho_within(one.units), delta)
        other = f"edition {its.edition}"
        if its.edition == release_id.edition:
            other += f" under specification {its.specification[:12]}"
        what = f"Partition {its.partition}" if its.partition else "The release"
        yield (
            f"{what} was drawn before: {other}, on {one.on}, for {cost}. This is edition"
            f" {release_id.edition}, which is drawn and paid again."
        )


def _other_partitions(
    drawn: Sequence[Drawn], release_id: ReleaseId, edition_of: Callable[[str], str]
) -> Iterator[str]:
    """Yield which other partitions a backfill would draw and pay again."""
    editions: dict[str, set[str]] = {}
    for one in drawn:
        editions.setdefault(one.release_id.partition, set()).add(one.release_id.edition)
    again = [
        name
        for name, known in sorted(editions.items())
        if name != release_id.partition and edition_of(name) not in known
    ]
    if again:
        yield (
            f"A backfill would draw and pay again for {_named(again)}, which"
            f" {'have' if len(again) > 1 else 'has'} another edition now than when"
            f" {'they were' if len(again) > 1 else 'it was'} drawn. An edition for one partition"
            " alone is under privacy.editions."
        )


def _other_specifications(drawn: Sequence[Drawn], release_id: ReleaseId) -> Iterator[str]:
    """Yield which other partitions were drawn under another specification."""
    specifications: dict[str, set[str]] = {}
    for one in drawn:
        its = one.release_id
        if its.partition != release_id.partition and its.specification != release_id.specification:
            specifications.setdefault(its.specification, set()).add(its.partition)
    for specification, names in specifications.items():
        yield (
            f"Its specification is {release_id.specification[:12]}, and {_named(sorted(names))}"
            f" {'were' if len(names) > 1 else 'was'} drawn under {specification[:12]}: a domain, a"
            " workload or a setting was edited since."
        )


def _named(names: Sequence[str]) -> str:
    """Return partitions in words, the first of many by name."""
    shown = ", ".join(names[:_NAMED])
    return f"{shown} and {len(names) - _NAMED} more" if len(names) > _NAMED else shown
