"""Several public tables, or one that lacks attributes, over the domain of the private one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from jam_dagster.errors import DomainError, InputError
from jam_dagster.tables.domain import Clique, Domain
from jam_dagster.tables.marginals import MarginalSource


@dataclass(frozen=True, eq=False)
class PublicTables:
    """Public tables about the same people or others, each with all attributes or some.

    As a `MarginalSource` it answers each marginal from the first table that has its attributes.

    Parameters
    ----------
    domain
        Of the private table: all attributes.
    tables
        The tables by name, in order of preference. Each is encoded over ``domain.project(names)``
        for the attributes that it has.

    Raises
    ------
    DomainError
        There is no table, one is encoded over another domain, or one is empty.
    """

    domain: Domain
    tables: Mapping[str, MarginalSource]

    def __post_init__(self) -> None:
        if not self.tables:
            raise DomainError("There is no public table: give at least one.")
        object.__setattr__(self, "tables", dict(self.tables))
        for name, table in self.tables.items():
            called = f"public table {name!r}" if name else "public table"
            strange = [one for one in table.domain.names if one not in self.domain.positions]
            if strange or self.domain.project(table.domain.names).digest != table.domain.digest:
                raise DomainError(
                    f"The private and the {called} are encoded over different domains; encode "
                    "both over one domain, or the public one over its projection on the "
                    "attributes that it has."
                )
            if table.records < 1:
                raise DomainError(f"The {called} is empty; it needs at least one record.")

    @classmethod
    def of(cls, domain: Domain, public: MarginalSource) -> PublicTables:
        """Return `public` as tables over `domain`: itself, or it alone, without a name."""
        if not isinstance(public, PublicTables):
            return cls(domain, {"": public})
        if public.domain.digest != domain.digest:
            raise DomainError(
                "The private and the public tables are encoded over different domains; encode "
                "all over one domain."
            )
        return public

    def __repr__(self) -> str:
        tables = ", ".join(
            f"{name or 'public'}: {table.records} records, {len(table.domain.names)} attributes"
            for name, table in self.tables.items()
        )
        return f"PublicTables({tables})"

    @property
    def records(self) -> int:
        """Number of records of the first table, to which all answers are scaled."""
        return next(iter(self.tables.values())).records

    def answering(self, clique: Clique) -> list[str]:
        """Return the names of the tables that have all attributes of a clique."""
        return [
            name
            for name, table in self.tables.items()
            if table.domain.positions.keys() >= set(clique)
        ]

    def marginal(self, clique: Clique) -> npt.NDArray[Any]:
        """Return the counts of a clique in the first table that has it, scaled to `records`.

        Raises
        ------
        InputError
            No table has all its attributes.
        """
        (answer,) = self.marginals([clique]).values()
        return answer

    def marginals(self, cliques: Iterable[Clique]) -> dict[Clique, npt.NDArray[Any]]:
        """Return the counts of several cliques; see `marginal`."""
        asked = [tuple(clique) for clique in cliques]
        by_table: dict[str, list[Clique]] = {}
        for clique in asked:
            names = self.answering(clique)
            if not names:
                raise InputError(f"No public table has all of {', '.join(clique)}.")
            by_table.setdefault(names[0], []).append(clique)
        answers: dict[Clique, npt.NDArray[Any]] = {}
        for name, some in by_table.items():
            table = self.tables[name]
            for clique, counts in table.marginals(some).items():
                same = table.records == self.records
                answers[clique] = counts if same else counts * (self.records / table.records)
        return {clique: answers[clique] for clique in asked}
