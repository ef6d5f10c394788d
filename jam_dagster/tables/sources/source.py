"""The base class of sources: where a table is, how it is counted, and how it is identified."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import closing
from typing import TYPE_CHECKING, Any, ClassVar

from jam_dagster.common.redaction import redacted
from jam_dagster.errors import SpecificationError
from jam_dagster.tables.codes.encode import each_encoded
from jam_dagster.tables.codes.privacy_unit import LimitedRows, PrivacyUnit
from jam_dagster.tables.codes.table import joined
from jam_dagster.tables.codes.texts import counted_texts

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Sequence

    import pandas as pd

    from jam_dagster.tables.codes.marginals import MarginalSource
    from jam_dagster.tables.domain.children import Link
    from jam_dagster.tables.domain.columns import Batch
    from jam_dagster.tables.domain.domain import Clique, Domain


Limit = tuple[PrivacyUnit, bytes]
"""A privacy unit, and the secret that decides which rows of a person are kept."""


def check_records_only(source: Source, limited: bool) -> None:
    """Raise if the rows of a person are limited in a source that only counts records."""
    kind = source.records_only
    if limited and kind is not None:
        raise SpecificationError(
            f"source {kind!r} protects single records only, and the release has a privacy unit:"
            " read Parquet with the key 'parquet', a database with 'sql', or prepare a table of one"
            " row a person"
        )


def needed(domain: Domain, unit: PrivacyUnit | None) -> list[str]:
    """Return the columns of a private table that are read."""
    return [*domain.names, *([] if unit is None else [unit.column])]


class Source(ABC):
    """A place that a table can be read from.

    A source has `read`, `describe`, `identity` and `to_dict`, and `batches` unless its table is in
    memory. One that keeps counts alone, or counts elsewhere, overrides `_counted`, and
    `count_records` if it knows the number of rows without their values.

    Attributes
    ----------
    has_rows
        Whether rows are in memory once the table is counted.
    records_only
        The source's kind, if it cannot limit the rows of a person; None: it can.
    changes
        Whether rows may come and go between two readings, as a database's may.
    is_shifted
        Whether dates are moved to another period, as they are of public tables alone.
    has_dialect
        Whether a dialect separates the cells, and the first line names the columns.
    """

    has_rows: ClassVar[bool] = True
    records_only: ClassVar[str | None] = None
    changes: ClassVar[bool] = False
    is_shifted: ClassVar[bool] = False
    has_dialect: ClassVar[bool] = False

    @property
    def restricted_because(self) -> str | None:
        """Why results of the table must not be released, such as a count that depends on values.

        None if they may be; otherwise the release must not use exact noise.
        """
        return None

    @property
    def asset_key(self) -> str | None:
        """Key of the Dagster asset that the table is, which only a run can load; else None."""
        return None

    @property
    def parts(self) -> tuple[Source, ...]:
        """The sources of the tables that are read: this one, if there is one table."""
        return (self,)

    @property
    def linked(self) -> Link | None:
        """The children that a table's rows have, if they are of a table of their own."""
        return None

    @property
    def is_polars(self) -> bool:
        """Whether the table is of polars, so that a synthetic one is, too."""
        return False

    def check(self, domain: Domain, unit: PrivacyUnit | None) -> None:
        """Raise if `counted` would fail whatever the rows are; none is read.

        Raises
        ------
        SourceError, DomainError, InputError
            The table cannot be reached, or it refuses the columns.
        """
        check_records_only(self, unit is not None)

    def contents(self, names: Sequence[str]) -> str | None:
        """Return a SHA-256 of some columns of a private table in memory, of all its rows.

        It must be keyed before it is stored. None: the codes or counts of any other table show it.

        Parameters
        ----------
        names
            The columns, which exist.
        """
        return None

    @abstractmethod
    def read(self, *, private: bool) -> pd.DataFrame:
        """Read the table.

        Parameters
        ----------
        private
            Whether the rows are private. Then no error quotes values, warnings are suppressed, and
            the reading of a row depends on that row alone: a CSV file gives texts.

        Raises
        ------
        SourceError
            The table cannot be found or read.
        PrivateValuesError
            A private table has a fault that depends on its values.
        """

    def names(self) -> list[str]:
        """Return the names of the columns without reading a row; empty if they are not known so."""
        return []

    def types(self) -> dict[str, str]:
        """Return the types that the schema declares, by column; empty if it declares none."""
        return {}

    def counted(
        self,
        domain: Domain,
        unit: PrivacyUnit | None,
        secret: bytes | None,
        cliques: Iterable[Clique] = (),
    ) -> MarginalSource:
        """Return the private table as marginals, once each of its records is in the domain.

        Parameters
        ----------
        domain
            The values that each column may hold.
        unit, secret
            The privacy unit, and the secret that decides which rows of a person are kept; None:
            every record is a person of its own.
        cliques
            The marginals that may be asked for. A source that keeps no rows answers no others.

        Raises
        ------
        SourceError, InputError, DomainError, PrivateValuesError
            As for `read` and `jam_dagster.tables.encode`.
        """
        check_records_only(self, unit is not None)
        if unit is not None and secret is None:
            raise SpecificationError(
                "the rows of a person are limited by a secret: give it with the privacy unit"
            )
        with redacted("reading and encoding the private table"):
            limit = None if unit is None or secret is None else (unit, secret)
            return self._counted(domain, limit, tuple(cliques))

    def texts(
        self, names: Sequence[str], unit: PrivacyUnit | None, secret: bytes | None
    ) -> dict[str, dict[str, int]]:
        """Return how many rows of the private table have each text; see `counted_texts`.

        Parameters
        ----------
        names
            The columns.
        unit, secret
            As for `counted`.

        Raises
        ------
        SourceError, InputError, DomainError, PrivateValuesError
            As for `counted`.
        """
        check_records_only(self, unit is not None)
        columns = [*names, *([] if unit is None else [unit.column])]
        with (
            redacted("counting the values of the private table"),
            closing(self.batches(columns)) as batches,
        ):
            return counted_texts(batches, names, unit, secret)

    def batches(self, columns: Sequence[str]) -> Generator[Batch, None, None]:
        """Read some columns of a private table, some rows at a time.

        Close the generator to stop early: what is open is open until then.

        Parameters
        ----------
        columns
            Names. If one is missing, the batches have all existing columns.

        Yields
        ------
        RecordBatch or DataFrame
            One row a record, each once; for an empty table, its columns alone. Arrow data have the
            types that the table's schema declares.

        Raises
        ------
        SourceError, PrivateValuesError
            As `read`.
        """
        yield self.read(private=True)

    def _counted(
        self, domain: Domain, limit: Limit | None, cliques: Sequence[Clique]
    ) -> MarginalSource:
        """Encode the private table batch by batch; its codes are held."""
        with closing(self.batches(needed(domain, limit and limit[0]))) as batches:
            if limit is None:
                return joined(each_encoded(batches, domain), domain)
            rows = LimitedRows(*limit)
            # All records are in the domain, whichever stay.
            whole = joined(rows.encoded(batches, domain), domain)
            return whole.take(rows.kept())

    def count_records(self, unit: PrivacyUnit | None) -> int:
        """Return how many records of the private table the privacy unit lets stay.

        Values do not decide whether it can be counted: only those that identify a person are looked
        at. A row without a person does not count (`PrivacyUnit.count`).

        Parameters
        ----------
        unit
            The privacy unit; None: every record is a person of its own.

        Raises
        ------
        SourceError, InputError
            The table, or the unit's column, cannot be found or read.
        """
        with redacted("counting the private table"):
            table = self.read(private=True)
            return len(table) if unit is None else unit.count([table])

    @abstractmethod
    def describe(self) -> str:
        """Return the table's origin in words, without credentials."""

    @abstractmethod
    def identity(self) -> str:
        """Return the resolved source as canonical text without credentials.

        It has the absolute real path or normalised URL, and the options that decide the rows, the
        columns and their reading, such as a query or a separator. All spellings of a file have the
        same text, in every process. Use it for comparison; it reveals a path if it is shown.

        Raises
        ------
        SourceError
            A variable is not set, or a database's URL is malformed.
        """

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return the configuration that `source_from_config` takes, without credentials."""
