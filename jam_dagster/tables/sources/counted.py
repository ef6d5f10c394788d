"""Private tables that answer marginals: read whole and encoded, unless a source counts in place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jam_dagster.common.redaction import redacted
from jam_dagster.errors import SpecificationError
from jam_dagster.tables.codes.encode import encode

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pandas as pd

    from jam_dagster.tables.codes.marginals import MarginalSource
    from jam_dagster.tables.codes.privacy_unit import PrivacyUnit
    from jam_dagster.tables.domain.domain import Clique, Domain


def check_limit(unit: PrivacyUnit | None, key: bytes | None) -> None:
    """Raise where the rows of a person would not be limited for want of a key."""
    if unit is not None and key is None:
        raise SpecificationError(
            "the rows of a person are limited by a secret key: give it with the privacy unit"
        )


def check_records_only(source: object, limited: bool) -> None:
    """Raise if the rows of a person are to be limited where only records are counted.

    Raises
    ------
    SpecificationError
        If `source` is a `DuckDbSource` or a `SparkSource`, and `limited`.
    """
    kind = getattr(source, "records_only", None)
    if limited and kind is not None:
        raise SpecificationError(
            f"source {kind!r} protects single records only, and the release has a privacy unit:"
            " read Parquet with the key 'parquet', a database with 'sql', or prepare a table of one"
            " row a person"
        )


class ReadWhole:
    """A source that is read whole before its marginals are counted."""

    def read(self, *, private: bool) -> pd.DataFrame:
        """Read the table (see `Source.read`)."""
        raise NotImplementedError

    def counted(
        self,
        domain: Domain,
        unit: PrivacyUnit | None,
        key: bytes | None,
        cliques: Iterable[Clique] = (),
    ) -> MarginalSource:
        """Read, limit and encode the private table (see `Source.counted`)."""
        check_limit(unit, key)
        with redacted("reading the private table"):
            records = self.read(private=True)
            if unit is not None and key is not None:
                records = unit.limit(records, key)
        with redacted("encoding the private table"):
            return encode(records, domain, private=True)

    def count_records(self, unit: PrivacyUnit | None) -> int:
        """Read the private table and count its rows (see `Source.count_records`)."""
        with redacted("counting the private table"):
            table = self.read(private=True)
            return len(table) if unit is None else unit.count([table])
