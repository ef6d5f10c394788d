"""A source of two tables: roots, and the children that belong to them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jam_dagster.errors import SpecificationError
from jam_dagster.tables.codes.privacy_unit import PrivacyUnit, seeded_secret
from jam_dagster.tables.codes.roots import children_in, encode_roots, roots_with_children
from jam_dagster.tables.domain.children import Link
from jam_dagster.tables.sources.identity import canonical
from jam_dagster.tables.sources.source import Limit, Source

if TYPE_CHECKING:
    import pandas as pd

    from jam_dagster.tables.codes.marginals import MarginalSource
    from jam_dagster.tables.domain.domain import Clique, Domain


@dataclass(frozen=True)
class WithChildren(Source):
    """A root table with the children of its rows, read as one row a root.

    Neither table may be an asset, or of the kind that only counts single records.
    """

    roots: Source
    children: Source
    link: Link

    def __post_init__(self) -> None:
        for one in self.parts:
            if one.asset_key is not None or one.records_only is not None:
                raise SpecificationError(
                    f"{one.describe()} cannot have children or be them: read a file, a query by"
                    " 'sql', or a DataFrame"
                )

    @property
    def parts(self) -> tuple[Source, ...]:
        """The sources of both tables."""
        return (self.roots, self.children)

    @property
    def linked(self) -> Link:
        """How children belong to roots."""
        return self.link

    @property
    def restricted_because(self) -> str | None:
        """The reason of either source."""
        return self.roots.restricted_because or self.children.restricted_because

    @property
    def is_polars(self) -> bool:
        """Whether the root table is of polars."""
        return self.roots.is_polars

    def check(self, domain: Domain, unit: PrivacyUnit | None) -> None:
        """Look at the columns of both tables (see `Source.check`)."""
        two = children_in(domain)
        for one, own in zip(self.parts, (two.roots, two.domain), strict=True):
            one.check(own, PrivacyUnit(self.link.column))

    def read(self, *, private: bool) -> pd.DataFrame:
        """Read both public tables, and return a row a root (see `roots_with_children`)."""
        if private:
            raise SpecificationError("two private tables are read in batches, not as one table")
        roots, children = (one.read(private=False) for one in self.parts)
        return roots_with_children(roots, children, self.link)

    def _counted(
        self, domain: Domain, limit: Limit | None, cliques: Sequence[Clique]
    ) -> MarginalSource:
        """Encode both private tables batch by batch."""
        two, secret = children_in(domain), seeded_secret(0) if limit is None else limit[1]
        roots, children = (
            one.batches([*names, self.link.column])
            for one, names in zip(self.parts, (two.roots.names, two.domain.names), strict=True)
        )
        with closing(roots), closing(children):
            return encode_roots(roots, children, domain, secret)

    def count_records(self, unit: PrivacyUnit | None) -> int:
        """Return the number of roots (see `Source.count_records`)."""
        return self.roots.count_records(PrivacyUnit(self.link.column))

    def contents(self, names: Sequence[str]) -> str | None:
        """Return a digest of the columns of both tables in memory (see `Source.contents`)."""
        own = self.link.name(1, "")
        children = [name.removeprefix(own) for name in names if name.startswith(own)]
        slots, others = (own, self.link.name(2, "")), (self.link.table, self.link.column)
        roots = [name for name in names if not name.startswith(slots) and name not in others]
        found = [
            one.contents([*columns, self.link.column])
            for one, columns in zip(self.parts, (roots, children), strict=True)
        ]
        if None in found:
            return None
        return hashlib.sha256(canonical(tables=found).encode()).hexdigest()

    def describe(self) -> str:
        """Return the origins of both tables."""
        return f"{self.roots.describe()}, with {self.link.table} of {self.children.describe()}"

    def identity(self) -> str:
        """Return the identity of both tables and their link (see `Source.identity`)."""
        roots, children = (one.identity() for one in self.parts)
        return canonical(
            roots=roots, children=children, table=self.link.table, **self.link.to_dict()
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the configuration of both tables and their link."""
        return {
            "roots": self.roots.to_dict(),
            "children": {
                self.link.table: {"source": self.children.to_dict(), **self.link.to_dict()}
            },
        }
