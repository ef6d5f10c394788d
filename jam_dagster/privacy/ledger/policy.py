"""The policy of a budget: its period, and whether partitions add up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Literal, cast, get_args

from jam_dagster.common.choices import Relation
from jam_dagster.errors import SpecificationError
from jam_dagster.privacy.sensitivity import Neighbours

PeriodName = Literal["lifetime", "year", "quarter", "month"]
PartitionsName = Literal["add", "disjoint", "disjoint in all tables"]
IN_ALL_TABLES: PartitionsName = "disjoint in all tables"
"""The officer's word that no person is in two partitions of any tables of the dataset."""

RecordsName = Literal["private", "public"]
GROUNDS = ("add/remove neighbours", "membership public and fixed")
"""Grounds on which no person's change touches two partitions."""


ApprovalName = Literal["none", "required"]
REQUIRED = "required"

ANOTHER = "*"
"""Stands for a partition that has released nothing yet: no partition can have this name."""


def check_approval(value: str) -> str:
    """Return a grant's ``approval`` field: empty if releases do not wait for approval."""
    if value not in get_args(ApprovalName):
        raise SpecificationError(
            f"approval of a budget must be one of {', '.join(get_args(ApprovalName))}, got "
            f"{value!r}"
        )
    return REQUIRED if value == REQUIRED else ""


@dataclass(frozen=True)
class Policy:
    """How the budget of a protected dataset counts, and what its officer says of its people.

    Parameters
    ----------
    period : {"lifetime", "year", "quarter", "month"}
        A renewing budget counts the reservations of the current calendar period, in UTC. It
        bounds the spending of each period; over a lifetime it gives no bound.
    partitions : {"add", "disjoint", "disjoint in all tables"}
        Whether partitions add up, or compose in parallel: those of one table, or, if no person is
        in two partitions of all tables, those of any table. In parallel, the amount that counts is
        the sum over unpartitioned releases plus the largest sum over any single partition. In all
        releases of the dataset, the same name must mean the same slice of the data, and different
        names different people.
    ground : str
        Why no person's change touches two partitions, from `GROUNDS`; needed where they are
        disjoint. Replacing a person by another could change two partitions at once, so under
        replace-one neighbours the membership in partitions must be public and fixed.
    records : {"private", "public"}
        Whether the number of records is public, of the dataset or, with the ground ``"membership
        public and fixed"``, of each partition. It is for one fixed set of people. Replace-one
        neighbours of single records do not hide that number, so their releases need the word.

    Raises
    ------
    SpecificationError
        If a value is unknown, disjoint partitions have no ground, or others have one that is not
        about their membership.
    """

    period: PeriodName = "lifetime"
    partitions: PartitionsName = "add"
    ground: str = ""
    records: RecordsName = "private"

    def __post_init__(self) -> None:
        for name, choices in (
            ("period", PeriodName),
            ("partitions", PartitionsName),
            ("records", RecordsName),
        ):
            if getattr(self, name) not in get_args(choices):
                raise SpecificationError(
                    f"{name} of a budget must be one of {', '.join(get_args(choices))}, got "
                    f"{getattr(self, name)!r}"
                )
        if not self.parallel and self.ground not in ("", GROUNDS[1]):
            raise SpecificationError(
                f"partitions that add up have no ground but {GROUNDS[1]!r}, got {self.ground!r}:"
                " leave it out, or grant disjoint partitions"
            )
        if self.parallel and self.ground not in GROUNDS:
            raise SpecificationError(
                "disjoint partitions need a ground: "
                f"{' or '.join(map(repr, GROUNDS))}; got {self.ground!r}"
            )

    @property
    def parallel(self) -> bool:
        """Whether partitions compose in parallel."""
        return self.partitions != "add"

    @property
    def of_one_table(self) -> bool:
        """Whether partitions compose in parallel, and those of one table alone do."""
        return self.partitions == "disjoint"

    def newly_parallel(self, before: Policy) -> bool:
        """Return whether partitions count in parallel on a ground that another policy lacks."""
        held = before.parallel and (before.of_one_table or not self.of_one_table)
        return self.parallel and not held

    def period_of(self, at: str) -> str:
        """Return the period of an instant: ``"2026-11"``, ``"2026-Q4"``, ``"2026"``.

        Parameters
        ----------
        at : str
            ISO 8601, with its offset.

        Returns
        -------
        str
            Empty for a lifetime.
        """
        if self.period == "lifetime":
            return ""
        when = datetime.fromisoformat(at).astimezone(UTC)
        return {
            "year": f"{when.year:04}",
            "quarter": f"{when.year:04}-Q{(when.month + 2) // 3}",
            "month": f"{when.year:04}-{when.month:02}",
        }[self.period]

    def renews_after(self, at: datetime) -> date | None:
        """Return the first day of the next period after an instant; None for a lifetime."""
        months = {"lifetime": 0, "year": 12, "quarter": 3, "month": 1}[self.period]
        if not months:
            return None
        when = at.astimezone(UTC)
        following = (when.month - 1) // months * months + months
        return date(when.year + following // 12, following % 12 + 1, 1)


@dataclass(frozen=True)
class Holding:
    """One reservation: its time, its partition, and its held and spent amounts.

    `held` and `spent` are in units of 1e-15 rho; charges count in the period of `at`. `counted`
    says that its release has published the number of records. `names` are the parts of that
    release's id after the dataset. `selections` is the delta, in units of 1e-18, that it has for
    selections of values: it counts until a reservation without a charge has ended.
    """

    at: str
    partition: str
    held: int
    spent: int
    protects: str = ""
    counted: bool = False
    names: tuple[str, ...] = ()
    selections: int = 0

    @property
    def counts(self) -> bool:
        """Whether it holds or has spent an amount, or has published the number of records."""
        return bool(self.held or self.spent or self.counted)


@dataclass(frozen=True)
class Use:
    """The totals of a dataset's reservations under a policy, in units of 1e-15 rho.

    `reserved` is what is reserved beyond the charges. `by_partition` has both; ``""`` is for
    unpartitioned releases. `selections` is delta by partition, in units of 1e-18.
    """

    spent: int
    reserved: int
    by_partition: Mapping[str, int]
    selections: Mapping[str, int]


def use(policy: Policy, holdings: Iterable[Holding], period: str | None = None) -> Use:
    """Return the totals of reservations under a policy.

    With `period`, that one alone counts.
    """
    spent: dict[str, int] = {}
    used: dict[str, int] = {}
    deltas: dict[str, int] = {}
    for one in holdings:
        if period is None or policy.period_of(one.at) == period:
            if one.held or one.spent:
                deltas[one.partition] = deltas.get(one.partition, 0) + one.selections
            spent[one.partition] = spent.get(one.partition, 0) + one.spent
            used[one.partition] = used.get(one.partition, 0) + one.spent + one.held
    all_spent = composed(policy, spent)
    return Use(all_spent, composed(policy, used) - all_spent, used, deltas)


def mixture_fault(policy: Policy, holdings: Iterable[Holding]) -> str:
    """Return why reservations do not add up under a policy; empty if they do.

    Amounts of rho bound the difference between neighbours, so they add up only for the same
    neighbouring relation. Reservations without a held or spent amount do not count, but for those
    that published the number of records, which add/remove neighbours would have protected.
    """
    counted = [one for one in holdings if one.counts]
    protected = sorted({one.protects for one in counted})
    if len(protected) > 1:
        relations = " and ".join(_described(code) for code in protected)
        return f"protects different neighbours ({relations}), and their amounts do not add up"
    if policy.ground == GROUNDS[0] and any(
        one.partition and not one.protects.startswith("add_remove") for one in counted
    ):
        return (
            f"composes partitions in parallel on the ground of {GROUNDS[0]}, and a partition's "
            f"release protects {_described(protected[0])}: replacing a person can change two "
            "partitions"
        )
    return ""


def _described(code: str) -> str:
    relation, _, rows = (code or "replace_one 1").partition(" ")
    try:
        return f"{Neighbours(cast(Relation, relation), int(rows)).describe()!r}"
    except (SpecificationError, ValueError):
        return repr(code)


def composed(policy: Policy, by_partition: Mapping[str, int]) -> int:
    """Return the composed amount of several partitions."""
    if not policy.parallel:
        return sum(by_partition.values())
    largest = max((amount for name, amount in by_partition.items() if name), default=0)
    return by_partition.get("", 0) + largest
