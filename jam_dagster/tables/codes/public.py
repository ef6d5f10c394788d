"""Public tables over the private domain: several, or one that lacks attributes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from jam_dagster.errors import DomainError
from jam_dagster.tables.codes.marginals import MarginalSource
from jam_dagster.tables.domain.domain import Clique, Domain


@dataclass(frozen=True, eq=False)
class PublicTables:
    """Public tables about the same people or others, each with all attributes or some.

    As a `MarginalSource` it answers marginals from public data alone: with the counts of the first
    table that has all their attributes, else with the product of the largest parts that tables
    have, uniform in attributes that no table has.

    Parameters
    ----------
    domain
        Domain of the private table, with all attributes.
    tables
        The tables by name, in order of preference. Each is encoded over ``domain.project(names)``
        for its own attributes.

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
        """Return `public` as `PublicTables` over `domain`; a single table has no name."""
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
        """Return the public answer to a marginal, in counts that sum to `records`."""
        (answer,) = self.marginals([clique]).values()
        return answer

    def marginals(self, cliques: Iterable[Clique]) -> dict[Clique, npt.NDArray[Any]]:
        """Return the public answers to several marginals; see `marginal`."""
        parts_of = {tuple(clique): self._parts(tuple(clique)) for clique in cliques}
        wanted: dict[str, dict[Clique, None]] = {}
        for parts in parts_of.values():
            for name, part in parts:
                if name is not None:
                    wanted.setdefault(name, {})[part] = None
        counted = {name: self.tables[name].marginals(parts) for name, parts in wanted.items()}
        answers: dict[Clique, npt.NDArray[Any]] = {}
        for clique, parts in parts_of.items():
            (name, part), *others = parts
            if name is not None and not others and self.tables[name].records == self.records:
                answers[clique] = counted[name][part]
                continue
            answer = np.full(1, float(self.records))
            for name, part in parts:
                shape = tuple(self.domain.sizes[one] for one in part)
                share = (
                    np.full(shape, 1 / math.prod(shape))
                    if name is None
                    else counted[name][part] / self.tables[name].records
                )
                answer = np.multiply.outer(answer, share)
            order = [one for _, part in parts for one in part]
            answers[clique] = answer[0].transpose([order.index(one) for one in clique])
        return answers

    def _parts(self, clique: Clique) -> list[tuple[str | None, Clique]]:
        """Return the parts of a clique, each with the table that answers it, None for none."""
        parts: list[tuple[str | None, Clique]] = []
        left = self.domain.canonical(clique)
        while left:
            having = {
                name: tuple(one for one in left if one in table.domain.positions)
                for name, table in self.tables.items()
            }
            name = max(having, key=lambda one: len(having[one]))
            part = having[name]
            if not part:
                parts.append((None, left))
                break
            parts.append((name, part))
            left = tuple(one for one in left if one not in part)
        return parts or [(next(iter(self.tables)), ())]


def is_known(public: MarginalSource, clique: Clique) -> bool:
    """Return whether a public table has all attributes of a clique."""
    return not isinstance(public, PublicTables) or bool(public.answering(clique))
