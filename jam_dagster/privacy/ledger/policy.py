"""How a budget counts: over which time, and whether partitions add up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Literal, cast, get_args

from jam_dagster.errors import SpecificationError
from jam_dagster.privacy.sensitivity import Neighbours, Relation

PeriodName = Literal["lifetime", "year", "quarter", "month"]
PartitionsName = Literal["add", "disjoint"]
GROUNDS = ("add/remove neighbours", "membership public and fixed")
"""What can make partitions disjoint: no person's change touches two of them."""


ANOTHER = "*"
"""Stands for a partition that has released nothing yet: no partition can have this name."""


@dataclass(frozen=True)
class Policy:
    """How the budget of a protected dataset counts.

    Parameters
    ----------
    period : {"lifetime", "year", "quarter", "month"}
        A renewing budget counts what was reserved in the current calendar period, in UTC. It
        bounds what each period's data may spend; over a lifetime it bounds nothing.
    partitions : {"add", "disjoint"}
        Whether partitions add up, or compose in parallel: what counts is then all that was
        released without a partition, and the largest sum over any one partition. The same name
        means the same slice of the data, and other names mean other people, in all releases of
        the dataset.
    ground : str
        Why disjoint partitions are; one of `GROUNDS`. Replacing a person by another could change
        two partitions at once, so under replace-one neighbours who is in which must be public and
        fixed.

    Raises
    ------
    SpecificationError
        If a value is unknown, or disjoint partitions have no ground.
    """

    period: PeriodName = "lifetime"
    partitions: PartitionsName = "add"
    ground: str = ""

    def __post_init__(self) -> None:
        for name, choices in (("period", PeriodName), ("partitions", PartitionsName)):
            if getattr(self, name) not in get_args(choices):
                raise SpecificationError(
                    f"{name} of a budget must be one of {', '.join(get_args(choices))}, got "
                    f"{getattr(self, name)!r}"
                )
        if self.partitions == "add" and self.ground:
            raise SpecificationError(
                "a ground is for disjoint partitions; partitions that add up need none"
            )
        if self.partitions == "disjoint" and self.ground not in GROUNDS:
            raise SpecificationError(
                "partitions are disjoint only on a ground, one of "
                f"{', '.join(map(repr, GROUNDS))}; got {self.ground!r}"
            )

    def period_of(self, at: str) -> str:
        """Return the period that an instant lies in: ``"2026-11"``, ``"2026-Q4"``, ``"2026"``.

        Parameters
        ----------
        at : str
            ISO 8601, with its offset.

        Returns
        -------
        str
            Empty for a lifetime.
        """
        when = datetime.fromisoformat(at).astimezone(UTC)
        return {
            "lifetime": "",
            "year": f"{when.year:04}",
            "quarter": f"{when.year:04}-Q{(when.month + 2) // 3}",
            "month": f"{when.year:04}-{when.month:02}",
        }[self.period]

    def renews_after(self, at: datetime) -> date | None:
        """Return the first day of the period after the one of an instant; None for a lifetime."""
        months = {"lifetime": 0, "year": 12, "quarter": 3, "month": 1}[self.period]
        if not months:
            return None
        when = at.astimezone(UTC)
        following = (when.month - 1) // months * months + months
        return date(when.year + following // 12, following % 12 + 1, 1)


@dataclass(frozen=True)
class Holding:
    """One reservation: when and for which partition it was made, and what became of it.

    Parameters
    ----------
    at : str
        When it was made, ISO 8601; what is charged to it counts in the period of this instant.
    partition : str
        Empty for an unpartitioned release.
    held, spent : int
        What is still reserved and what was charged, in units of 1e-15 rho.
    protects : str
        The neighbours that its release protects, as `Neighbours.code` has them.
    """

    at: str
    partition: str
    held: int
    spent: int
    protects: str = ""


@dataclass(frozen=True)
class Use:
    """What a dataset's reservations come to under a policy, in units of 1e-15 rho.

    Parameters
    ----------
    spent, reserved : int
        Charged, and what the reservations come to beyond that.
    by_partition : mapping of str to int
        Charged and reserved of each partition; under ``""`` what has none.
    """

    spent: int
    reserved: int
    by_partition: Mapping[str, int]


def use(policy: Policy, holdings: Iterable[Holding], period: str | None = None) -> Use:
    """Add reservations up as a policy says.

    Parameters
    ----------
    policy : Policy
        How.
    holdings : iterable of Holding
        What was reserved.
    period : str, optional
        Count that period only.
    """
    spent: dict[str, int] = {}
    used: dict[str, int] = {}
    for one in holdings:
        if period is None or policy.period_of(one.at) == period:
            spent[one.partition] = spent.get(one.partition, 0) + one.spent
            used[one.partition] = used.get(one.partition, 0) + one.spent + one.held
    all_spent = composed(policy, spent)
    return Use(all_spent, composed(policy, used) - all_spent, used)


def mixture_fault(policy: Policy, holdings: Iterable[Holding]) -> str:
    """Return why reservations do not add up under a policy; empty where they do.

    An amount of rho bounds what is learned between neighbours, so amounts add up only where all
    are about the same neighbours. Reservations that hold nothing and spent nothing do not count.
    """
    counted = [one for one in holdings if one.held or one.spent]
    protected = sorted({one.protects for one in counted})
    if len(protected) > 1:
        told = " and ".join(_told(code) for code in protected)
        return f"protects different neighbours ({told}), whose amounts do not add up"
    if policy.ground == GROUNDS[0] and any(
        one.partition and not one.protects.startswith("add_remove") for one in counted
    ):
        return (
            f"composes partitions in parallel on the ground of {GROUNDS[0]}, and a partition's "
            f"release protects {_told(protected[0])}: replacing a person can change two partitions"
        )
    return ""


def _told(code: str) -> str:
    relation, _, rows = (code or "replace_one 1").partition(" ")
    try:
        return f"{Neighbours(cast(Relation, relation), int(rows)).describe()!r}"
    except (SpecificationError, ValueError):
        return repr(code)


def composed(policy: Policy, by_partition: Mapping[str, int]) -> int:
    """Return what amounts of partitions come to together."""
    if policy.partitions == "add":
        return sum(by_partition.values())
    largest = max((amount for name, amount in by_partition.items() if name), default=0)
    return by_partition.get("", 0) + largest
