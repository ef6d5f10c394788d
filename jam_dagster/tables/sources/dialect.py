"""Dialects of CSV files: released tables are written in the dialect of the public file."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from jam_dagster.common.choices import Mark
from jam_dagster.common.deferred import pd
from jam_dagster.errors import SpecificationError
from jam_dagster.tables.domain.columns import each_value
from jam_dagster.tables.domain.text_dtype import SYNTHETIC
from jam_dagster.tables.domain.values import is_formula
from jam_dagster.tables.sources.base import whole
from jam_dagster.tables.sources.csv import BLANKS, CsvSource
from jam_dagster.tables.sources.public import PublicSources
from jam_dagster.tables.sources.source import Source

if TYPE_CHECKING:
    from typing import IO

    from jam_dagster.tables.domain.domain import Domain

SAYS_SYNTHETIC = (
    "Synthetic data, sampled from a model by jam_dagster. certificate.json says what is promised."
)
"""The sentence by which the file of a synthetic table says that it is one."""

_PLAIN: dict[str, Any] = {"index": False, "lineterminator": "\n", "encoding": "utf-8"}


@dataclass(frozen=True)
class Dialect:
    """The dialect of a CSV file that is written; `missing` is the text of a missing cell.

    By its `mark` a file says that its table is synthetic: in a last ``column``, in a ``comment``
    before the header, or not at all. It is a SpecificationError if no reader can read it, or Python
    lacks the encoding.
    """

    separator: str = ","
    encoding: str = "utf-8"
    decimal: str = "."
    missing: str = ""
    mark: str = "none"

    def __post_init__(self) -> None:
        # A dialect may also come from a certificate that others wrote.
        CsvSource("", self.separator, self.encoding, self.decimal)
        try:
            "".encode(self.encoding)
        except LookupError:
            raise SpecificationError(
                f"encoding must be one that Python knows, got {self.encoding!r}"
            ) from None
        if self.mark not in get_args(Mark):
            raise SpecificationError(
                f"a file's mark must be {', '.join(get_args(Mark))}, got {self.mark!r}"
            )

    @classmethod
    def of(cls, public: Source | PublicSources | None) -> Dialect:
        """Return the dialect of the public table, or of the first; the default if it is no CSV."""
        if isinstance(public, PublicSources):
            public = next(iter(public.tables.values()))
        source = None if public is None else whole(public.parts[0])
        if not isinstance(source, CsvSource):
            return cls()
        separator, missing = source.separator, ""
        if separator in (" ", BLANKS):
            # With blanks as separators, an empty cell would disappear.
            missing = next(filter(None, source.missing), "")
            separator = " " if missing else cls.separator
        return cls(separator, source.encoding, source.decimal, missing)

    @property
    def changes(self) -> dict[str, str] | None:
        """The options that differ from the default dialect; None if they are all the same."""
        default = asdict(DEFAULT_DIALECT)
        return {name: one for name, one in asdict(self).items() if one != default[name]} or None

    def write(self, table: pd.DataFrame, file: IO[bytes], domain: Domain) -> None:
        """Write a table over a domain to an open file.

        Numbers have the decimals that the domain states. A file is in UTF-8 if its encoding lacks a
        character of the table. In the default dialect a number has the decimals that it needs.
        """
        head = f"# {SAYS_SYNTHETIC}\n" if self.mark == "comment" else ""
        if self.mark == "column":
            table = table.assign(**{SYNTHETIC: "true"})
        if replace(self, mark="none").changes is None:
            file.write(head.encode())
            table.to_csv(file, mode="wb", **_PLAIN)
        else:
            file.write(self._text(table, domain, head))

    def _text(self, table: pd.DataFrame, domain: Domain, head: str) -> bytes:
        decimals = {one.name: one.decimals for one in domain.attributes}
        derived = {one.name for one in domain.derived} if self.separator != "," else set()
        written = {
            name: self._column(column, decimals.get(str(name)), checked=name in derived)
            for name, column in table.items()
        }
        text: str = head + pd.DataFrame(written, index=table.index).to_csv(
            sep=self.separator, na_rep=self.missing, index=False, lineterminator="\n"
        )
        try:
            return text.encode(self.encoding)
        except UnicodeEncodeError:
            return text.encode()

    def _column(self, column: pd.Series[Any], decimals: int | None, *, checked: bool) -> Any:
        kinds = (
            pd.api.types.is_integer_dtype,
            pd.api.types.is_bool_dtype,
            pd.api.types.is_datetime64_any_dtype,
        )
        if any(is_kind(column.dtype) for is_kind in kinds):
            return column
        cell = partial(self._cell, decimals=decimals, checked=checked)
        return pd.Series(each_value(column, cell, None), index=column.index, dtype=object)

    def _cell(self, value: Any, *, decimals: int | None, checked: bool) -> Any:
        if isinstance(value, float | np.floating | Decimal):
            whole_text = str(value) if isinstance(value, Decimal) else repr(float(value))
            text = whole_text if decimals is None else f"{value:.{decimals}f}"
            return text.replace(".", self.decimal)
        # A derived text that is a formula becomes a missing cell.
        return None if checked and is_formula(value, commas=True) else value


DEFAULT_DIALECT = Dialect()
"""The dialect without a public CSV file: commas, points and UTF-8."""
