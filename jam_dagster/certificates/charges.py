"""Checks that the entries of a ledger pay for every draw once and in full."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from jam_dagster.certificates.facts import COUNTED, DERIVED, RAN, STORED
from jam_dagster.privacy.accounting import (
    UNITS_PER_DELTA,
    delta_units_up,
    units_down,
    units_up,
)

if TYPE_CHECKING:
    from jam_dagster.certificates.facts import Entry, PaidDraw

_ROUNDING = 2
"""Units of 1e-15 rho: an amount that went through a float may have lost one."""


def spent_units(draws: Iterable[PaidDraw]) -> int:
    """Return the total price of draws, in units of 1e-15 rho."""
    return sum(units_up(draw.call.rho) for draw in draws)


def charge_faults(
    draws: Sequence[PaidDraw],
    entries: Sequence[Entry],
    shares: Mapping[str, float],
    selections: float = 0.0,
) -> Iterator[str]:
    """Yield the faults of a release's charges, in sentences.

    `entries` are all of the release; an earlier opening without a charge is allowed. `shares` are
    the requested rho, and `selections` is the requested delta of selections of values.
    """
    if sum(Fraction(repr(one.call.delta)) for one in draws) > Fraction(
        delta_units_up(selections), UNITS_PER_DELTA
    ):
        yield "selections of values take more delta than was asked for"
    if not entries:
        yield "no ledger was charged for the draws"
        return
    openings: dict[str, dict[str, list[Entry]]] = {}
    entries = [entry for entry in entries if entry.kind not in (COUNTED, DERIVED, RAN)]
    for entry in entries:
        openings.setdefault(entry.opening, {}).setdefault(entry.share, []).append(entry)
    for opening, by_share in openings.items():
        for share in sorted({*shares, *by_share}):
            yield from _share_faults(share, by_share.get(share, []), shares.get(share))
        reserved = (one.selections or 0 for its in by_share.values() for one in its)
        if sum(reserved) != delta_units_up(selections):
            yield "another delta was reserved for selections of values than was asked for"
        if opening != entries[-1].opening and any(
            entry.kind == "charged" for listed in by_share.values() for entry in listed
        ):
            yield "the release was opened again after it had been charged"
    charged = {(e.share, e.step): e.units for e in entries if e.kind == "charged"}
    drawn = {(one.share, one.call.step): units_up(one.call.rho) for one in draws}
    if len(drawn) < len(draws):
        yield "a draw is listed twice"
    for share, step in sorted(drawn.keys() - charged.keys()):
        yield f"the draw {step} of share {share} was not charged"
    for share, step in sorted(charged.keys() - drawn.keys()):
        yield f"the charge for {step} of share {share} paid for no draw that is listed"
    for share, step in sorted(drawn.keys() & charged.keys()):
        if abs(drawn[share, step] - charged[share, step]) > _ROUNDING:
            yield f"the draw {step} of share {share} was charged another amount than it cost"


def _share_faults(share: str, entries: Sequence[Entry], rho: float | None) -> Iterator[str]:
    """Yield the faults of one share, which must be reserved once and returned in full."""
    if rho is None:
        yield f"share {share} was reserved and not asked for"
        return
    amounts: dict[str, list[int]] = defaultdict(list)
    for entry in entries:
        amounts[entry.kind].append(entry.units)
    unknown = amounts.keys() - {"reserved", "charged", STORED, "returned", "closed"}
    if unknown:
        yield f"share {share} has an entry of an unknown kind"
    if len(amounts["reserved"]) != 1:
        yield f"share {share} was reserved {len(amounts['reserved'])} times"
        return
    (reserved,) = amounts["reserved"]
    if abs(reserved - units_down(rho)) > _ROUNDING:
        yield f"share {share} was reserved another amount than was asked for"
    charged, returned = sum(amounts["charged"]), sum(amounts["returned"])
    if charged + returned > reserved:
        yield f"share {share} was charged more than it held"
    paid: set[str] = set()
    for entry in entries:
        if entry.kind == "charged":
            paid.add(entry.step)
        elif entry.kind == STORED and entry.step not in paid:
            yield f"the outcome of {entry.step} was stored before it was paid for"
    if amounts["closed"] and charged + returned != reserved:
        yield f"share {share} was closed with something unaccounted for"
    if returned and not amounts["closed"]:
        yield f"share {share} was returned and not closed"
