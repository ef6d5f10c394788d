"""Tables from CSV files, on disk or in any fsspec store."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, nullcontext
from csv import Error as CsvError
from csv import reader
from dataclasses import dataclass, field, replace
from io import BytesIO
from typing import IO, TYPE_CHECKING, Any, ClassVar, cast

import numpy as np

from jam_dagster.common.deferred import pd
from jam_dagster.common.redaction import private_values
from jam_dagster.common.validation import changed_fields
from jam_dagster.errors import SourceError, SpecificationError
from jam_dagster.tables.domain.column_notes import AS_PARQUET
from jam_dagster.tables.domain.columns import as_frame, each_value, frame_of, with_types
from jam_dagster.tables.domain.text_dtype import text_dtype
from jam_dagster.tables.domain.values import exact_number
from jam_dagster.tables.sources.csv_cells import CsvCells
from jam_dagster.tables.sources.csv_records import (
    BLOCK_BYTES,
    CsvRecords,
    Form,
    cuts_at_nul,
    nul_fault,
)
from jam_dagster.tables.sources.identity import (
    canonical,
    encoding_name,
    login_of,
    opened,
    place_of,
)
from jam_dagster.tables.sources.reading import each_batch, open_handle, reading, some_batch
from jam_dagster.tables.sources.source import Source

if TYPE_CHECKING:
    import pyarrow as pa

    from jam_dagster.tables.codes.privacy_unit import PrivacyUnit
    from jam_dagster.tables.domain.columns import Batch

MISSING = ("", "?", "NA", "N/A", "NaN", "nan", "null", "NULL")
"""Default markers of missing values."""


BLANKS = r"\s+"
"""The separator for any number of blanks."""

_HIDDEN = {ord("\r"): "\ue000", 0xE000: "\r"}
"""A return for a character of private use, and back."""


@dataclass(frozen=True)
class CsvSource(Source):
    r"""A CSV file with a header line.

    Columns without a name in the header (such as the row numbers that pandas writes) are left out.
    Blank lines are skipped, except in a file of one column: there each is a missing value, in a
    public file unless only blank lines follow.

    A private file is checked line by line before it is parsed (see
    `jam_dagster.tables.sources.csv_records`): each line is a record with as many fields as the
    header.

    Parameters
    ----------
    path
        A path or an fsspec URL; ``${VARIABLE}`` is expanded when the file is read.
    separator
        One character, or ``\s+`` for any number of blanks.
    encoding, decimal
        How the file is written; a byte order mark is ignored.
    skipinitialspace
        Whether blanks after a separator are skipped.
    missing
        Markers of missing values.
    text
        Columns to keep as texts though they look like numbers, such as postal codes with
        leading zeros.
    but
        What the files of single partitions have otherwise, by partition: any of the keys above.

    Raises
    ------
    SpecificationError
        `separator` or `decimal` is longer than a character, or is a quote or a line break.
    """

    path: str
    separator: str = ","
    encoding: str = "utf-8"
    decimal: str = "."
    skipinitialspace: bool = True
    missing: tuple[str, ...] = MISSING
    text: tuple[str, ...] = ()
    but: dict[str, dict[str, Any]] = field(default_factory=dict, hash=False)

    has_dialect: ClassVar[bool] = True

    def __post_init__(self) -> None:
        # pandas reads longer ones as regular expressions, which break quoted fields.
        single = len(self.separator) == 1 and self.separator not in '"\r\n'
        if not single and self.separator != BLANKS:
            raise SpecificationError(
                "separator must be one character (or \\s+ for blanks), but no quote or line"
                f" break, got {self.separator!r}"
            )
        if len(self.decimal) != 1:
            raise SpecificationError(f"decimal must be one character, got {self.decimal!r}")

    def of_partition(self, partition: str) -> CsvSource:
        """Return the source as the file of one partition is written."""
        return replace(self, **{"but": {}, **self.but.get(partition, {})}) if self.but else self

    def read(self, *, private: bool) -> pd.DataFrame:
        """Read the file (see `Source.read`).

        Private columns stay texts: the type of a column would depend on all its rows, and one
        record must not change the reading of the others.
        """
        if private:
            import pyarrow as pa

            with closing(self._batches(None)) as batches:
                table = frame_of(pa.Table.from_batches(list(batches)))
            return table.astype(text_dtype())
        return self.typed(reading(self.describe(), False, self._read_file))

    def batches(self, columns: Sequence[str]) -> Generator[Batch, None, None]:
        """Read some columns as texts, a block of lines at a time (see `Source.batches`)."""
        yield from self._batches(columns)

    def _batches(self, columns: Sequence[str] | None) -> Generator[pa.RecordBatch, None, None]:
        import pyarrow as pa

        with ExitStack() as until_read:

            def opened_records() -> tuple[CsvRecords, list[str]]:
                records = until_read.enter_context(self._records())
                names = self._names_in(BytesIO(records.header), "utf-8")
                self._check_names(names, private=True)
                return records, names

            records, names = reading(self.describe(), True, opened_records)
            named = {name: index for index, name in enumerate(names) if name != ""}
            wanted = named if columns is None or {*columns} - {*named} else columns
            places = {name: named[name] for name in wanted}
            cells = CsvCells(self.separator, self.skipinitialspace, self.missing, len(names))
            parsed = (self._batch(cells.read(lines, places)) for lines in records.blocks())
            schema = pa.schema([(name, pa.string()) for name in places])
            yield from each_batch(some_batch(parsed, schema), self.describe())

    def _batch(self, cells: pa.RecordBatch) -> pa.RecordBatch:
        """Return cells with points in their numbers."""
        import pyarrow as pa

        if self.decimal == ".":
            return cells
        table = self._with_points(as_frame(cells), private=True)
        return pa.RecordBatch.from_pandas(table, cells.schema, preserve_index=False)

    def names(self) -> list[str]:
        """Return the names of a public file's columns without reading a row.

        Raises
        ------
        SourceError
            The file cannot be found or read.
        """
        return reading(self.describe(), False, lambda: self._names_in(opened(self.path)))

    def _names_in(self, file: Any, encoding: str | None = None) -> list[str]:
        options = self._options | {"encoding": encoding or self.encoding}
        return [str(name) for name in pd.read_csv(file, header=None, nrows=1, **options).iloc[0]]

    def _read_file(self) -> pd.DataFrame:
        """Read a public file; its records may span several lines."""
        path = opened(self.path)
        if cuts_at_nul():
            self._refuse_nul(path)
        options = self._options | {"encoding": self.encoding}
        return self._parsed(path, self._names_in(path), options)

    def _refuse_nul(self, path: str) -> None:
        with open_handle(path, "r", encoding=self.encoding, compression="infer") as handle:
            file = cast(IO[str], handle.handle)
            while text := file.read(BLOCK_BYTES):
                if "\0" in text:
                    raise nul_fault(self.describe())

    @contextmanager
    def _records(self, *, checked: bool = True) -> Iterator[CsvRecords]:
        """Open a private file; see `CsvRecords`."""
        if self.separator == BLANKS:
            raise SourceError(
                f"{self.describe()}: fields of a private file are not separated by any number of"
                f" blanks: write it with another separator, or as Parquet: {AS_PARQUET}, with"
                r" sep=r'\s+' after 'FILE'"
            )
        if not self.separator.isascii():
            raise SourceError(
                f"{self.describe()}: the separator of a private file must be an ASCII character:"
                " write the file with another one"
            )
        form = Form(self.separator, self.skipinitialspace)
        path = opened(self.path)
        with open_handle(path, "rb", compression="infer", is_text=False) as handle:
            file = cast(IO[bytes], handle.handle)
            yield CsvRecords(file, self.describe(), self.encoding, form, checked=checked)

    def count_records(self, unit: PrivacyUnit | None) -> int:
        """Count the lines after the header, or the unit's (see `Source.count_records`).

        Each line is a record, even one with another number of fields than the header. An open quote
        is refused, as by `read`.
        """
        return reading(self.describe(), True, lambda: self._records_in_lines(unit))

    def _records_in_lines(self, unit: PrivacyUnit | None) -> int:
        with self._records(checked=False) as records:
            lines = records.lines()
            header = next(lines, None)
            if header is None:
                raise pd.errors.EmptyDataError
            if unit is None:
                return sum(1 for _ in lines)
            names = self._fields(header)
            # No value decides whether the column is missing, so the header is checked first.
            unit.count([pd.DataFrame(columns=names)])
            index = names.index(unit.column)
            people = [(*fields[index : index + 1], None)[0] for fields in map(self._fields, lines)]
            known = [None if one in self.missing else one for one in people]
            return unit.count([pd.DataFrame({unit.column: pd.Series(known, dtype=object)})])

    def _fields(self, line: str) -> list[str]:
        """Return the fields of a line that is read by itself; empty if they cannot be separated."""
        blanks = self.skipinitialspace or self.separator == " "
        try:
            # The reader takes a return for the end of a line.
            hidden = [line.translate(_HIDDEN)]
            (held,) = reader(hidden, delimiter=self.separator, skipinitialspace=blanks)
        except CsvError:
            return []
        return [field.translate(_HIDDEN) for field in held]

    @property
    def _options(self) -> dict[str, Any]:
        return {
            "sep": self.separator,
            "skipinitialspace": self.skipinitialspace,
            "keep_default_na": False,
            "dtype": text_dtype(),
        }

    def _parsed(self, file: Any, names: list[str], options: dict[str, Any]) -> pd.DataFrame:
        self._check_names(names, private=False)
        missing = list(self.missing)
        if len(names) == 1:
            lines = pd.read_csv(file, header=None, skip_blank_lines=False, **options)
            table = _one_column(lines, names[0], missing)
        else:
            table = pd.read_csv(file, na_values=missing, **options)
        if len(table.columns) != len(names) or not isinstance(table.index, pd.RangeIndex):
            raise SourceError(
                f"{self.describe()}: lines have more fields than the header: check the"
                " separator, and quote fields that contain it"
            )
        named = [index for index, name in enumerate(names) if name != ""]
        table = table.iloc[:, named]
        return table if self.decimal == "." else self._with_points(table, private=False)

    def typed(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return a table of texts, as `read` returns a private one, with types."""
        return with_types(table, self.text)

    def _check_names(self, names: list[str], *, private: bool) -> None:
        for name in self.text:
            if name not in names:
                raise SourceError(
                    f"{self.describe()} has no column {name!r}, which `text` lists: remove it there"
                )
        for number, name in enumerate(names, start=1):
            if name and names.count(name) > 1:
                # A private file may lack a header; its first line is then a record.
                which = f"column {number}" if private else f"column {name!r}"
                raise SourceError(
                    f"{self.describe()}: {which} has the name of another one: rename it, and check"
                    " that the first line is a header"
                )

    def _with_points(self, table: pd.DataFrame, *, private: bool) -> pd.DataFrame:
        """Return a table with decimal points in its numbers, converted value by value."""

        def with_point(text: str) -> str | None:
            written = text.replace(self.decimal, ".")
            if exact_number(written) is None:
                return text
            return None if exact_number(text) is not None and "." in text else written

        columns = {}
        for name, column in table.items():
            if name not in self.text:
                written = each_value(column, with_point, "")
                wrong = pd.isna(written)
                if wrong.any():
                    with private_values() if private else nullcontext():
                        raise SourceError(
                            f"{self.describe()}: column {name!r} holds numbers with a point, though"
                            f" `decimal` is {self.decimal!r}: correct them, or list the column in"
                            " `text`"
                        )
                written[column.isna()] = None
                column = pd.Series(written, index=column.index, dtype=text_dtype())
            columns[name] = column
        return pd.DataFrame(columns, index=table.index)

    def describe(self) -> str:
        """Return ``CSV file PATH``."""
        return f"CSV file {self.path}"

    def identity(self) -> str:
        """Return the file and its reading options (see `Source.identity`)."""
        options = changed_fields(self, "path", "encoding", "but")
        for name in ("missing", "text"):
            if name in options:
                options[name] = sorted({*options[name]})
        encoding = encoding_name(self.encoding)
        if encoding != encoding_name(CsvSource.encoding):
            options["encoding"] = encoding
        return canonical(csv=place_of(self.path), **login_of(self.path), **options)

    def to_dict(self) -> dict[str, Any]:
        """Return the options that differ from the defaults."""
        return {"csv": self.path} | changed_fields(self, "path")


def unnamed_columns(source: object) -> str:
    """Return a remark on columns of a public file that have no name and are not read, or ""."""
    if not isinstance(source, CsvSource) or not (number := source.names().count("")):
        return ""
    return (
        f"Columns of {source.describe()} without a name, such as row numbers of pandas, are left"
        f" out ({number}): to keep them, name them in both headers."
    )


def _one_column(lines: pd.DataFrame, name: str, missing: list[str]) -> pd.DataFrame:
    """Return the column under a header, given every line of a public file, blank ones too."""
    written = lines[0].fillna("")
    filled = np.flatnonzero(written != "")
    # Blank lines at its end are not records.
    column = written.iloc[filled[0] + 1 : filled[-1] + 1].reset_index(drop=True)
    return pd.DataFrame({name: column.mask(column.isin([*missing, ""]))})
