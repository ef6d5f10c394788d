"""One file format for each type of asset, none of them pickle."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from jam_dagster.certificates import Certificate, render_certificate
from jam_dagster.certificates.certificate import FILE_NAME
from jam_dagster.certificates.page import PAGE_NAME
from jam_dagster.common.deferred import pd
from jam_dagster.common.files import copy_whole, write_whole
from jam_dagster.common.json_text import parse_json
from jam_dagster.common.yaml_text import parse_yaml, write_yaml
from jam_dagster.evaluation import WorkloadErrors
from jam_dagster.release.run import (
    RUN_FILE,
    ReleaseRun,
    errors_json,
    read_errors,
    read_run,
    write_run,
)
from jam_dagster.tables import Domain, EncodedTable, PublicTables
from jam_dagster.tables.domain.columns import exact_columns, with_texts
from jam_dagster.tables.domain.text_dtype import from_arrow, with_dtypes
from jam_dagster.tables.sources.public import encoded_tables
from jam_dagster.tables.sources.table_file import TableFile

if TYPE_CHECKING:
    from upath import UPath

_DOMAIN_KEY = b"jam_dagster.domain"
_CLIPPED_KEY = b"jam_dagster.clipped"


@dataclass(frozen=True)
class Format:
    """How assets of one type are written and read.

    `kind` is the type of their values. `suffix` follows the asset's path. `write` replaces what is
    at a path, and `read` reads it. `marker` is, for a format that is a folder, the file in it that
    is written last.
    """

    name: str
    kind: type
    suffix: str
    write: Callable[[Any, UPath], None]
    read: Callable[[UPath], Any]
    marker: str = ""

    def path(self, base: UPath) -> UPath:
        """Return where an asset is stored whose path without suffix is `base`."""
        return base.with_name(base.name + self.suffix)

    def holds(self, value: object) -> bool:
        """Whether `value` is of this format's type."""
        return isinstance(value, self.kind)


def codes_file(value: EncodedTable) -> bytes:
    """Return the file of an encoded table; `codes_of` reads it."""
    import pyarrow as pa

    table = pa.Table.from_pandas(value.to_frame(), preserve_index=False)
    facts = {_DOMAIN_KEY: value.domain.to_dict(), _CLIPPED_KEY: value.clipped}
    texts = {key: json.dumps(fact).encode() for key, fact in facts.items()}
    return _parquet(table.replace_schema_metadata({**table.schema.metadata, **texts}))


def codes_of(content: bytes) -> EncodedTable:
    """Return the encoded table of a file."""
    import pyarrow.parquet as pq

    table = pq.read_table(io.BytesIO(content))
    facts = table.schema.metadata
    domain = Domain.from_dict(parse_json(facts[_DOMAIN_KEY].decode()))
    clipped = parse_json(facts[_CLIPPED_KEY].decode())
    return replace(EncodedTable.from_frame(domain, table.to_pandas()), clipped=clipped)


CODES = Format(
    "encoded tables",
    EncodedTable,
    ".codes.parquet",
    lambda value, path: write_whole(path, codes_file(value)),
    lambda path: codes_of(path.read_bytes()),
)
"""An encoded table: Parquet, with its domain in the schema."""

_TABLES = "tables.json"


def _write_public_tables(value: PublicTables, path: UPath) -> None:
    marker = path / _TABLES
    if marker.exists():
        marker.unlink()
    path.mkdir(parents=True, exist_ok=True)
    for name, table in encoded_tables(value).items():
        CODES.write(table, CODES.path(path / name))
    content = {"domain": value.domain.to_dict(), "tables": list(value.tables)}
    write_whole(marker, json.dumps(content, indent=1).encode())


def _read_public_tables(path: UPath) -> PublicTables:
    content = parse_json((path / _TABLES).read_text())
    tables = {name: CODES.read(CODES.path(path / name)) for name in content["tables"]}
    return PublicTables(Domain.from_dict(content["domain"]), tables)


PUBLIC_TABLES = Format(
    *("public tables", PublicTables, ".tables", _write_public_tables, _read_public_tables, _TABLES)
)
"""Several encoded public tables: a folder with one file each, and the whole domain."""


def _write_table(value: pd.DataFrame | TableFile, path: UPath) -> None:
    """Write a table without its index; cells of no common type as texts."""
    import pyarrow as pa

    if isinstance(value, TableFile):
        copy_whole(value.path, path)
        return
    typed = with_texts(exact_columns(value.copy(deep=False)))
    table = pa.Table.from_pandas(typed, preserve_index=False)
    schema = with_dtypes(table.schema, value)
    write_whole(path, _parquet(table.replace_schema_metadata(schema.metadata)))


def _read_table(path: UPath) -> pd.DataFrame:
    import pyarrow.parquet as pq

    return from_arrow(pq.read_table(io.BytesIO(path.read_bytes())))


class _TableFormat(Format):
    def holds(self, value: object) -> bool:
        return super().holds(value) or isinstance(value, pd.DataFrame)


TABLE = _TableFormat("pandas data frames", TableFile, ".parquet", _write_table, _read_table)
"""A table of values: Parquet."""

DOMAIN = Format(
    "domains",
    Domain,
    ".yaml",
    lambda value, path: write_whole(path, write_yaml(value.to_dict()).encode()),
    lambda path: Domain.from_dict(parse_yaml(path.read_text(encoding="utf-8"))),
)
"""A domain: the YAML file that people declare domains with."""

RUN = Format("runs of a mechanism", ReleaseRun, ".run", write_run, read_run, RUN_FILE)
"""The result of a mechanism: a folder with the model, the transcript and the release."""

ERRORS = Format(
    "workload errors",
    WorkloadErrors,
    ".json",
    lambda value, path: write_whole(path, errors_json(value)),
    read_errors,
)
"""Workload errors: JSON."""

PAGE = Format(
    "HTML pages",
    str,
    ".html",
    lambda value, path: write_whole(path, value.encode()),
    lambda path: path.read_text(encoding="utf-8"),
)
"""A report: one HTML page."""


def _write_certificate(value: Certificate, path: UPath) -> None:
    path.mkdir(parents=True, exist_ok=True)
    write_whole(path / PAGE_NAME, render_certificate(value).encode())
    value.save(path)


CERTIFICATE = Format(
    *("certificates", Certificate, "", _write_certificate, Certificate.load, FILE_NAME)
)
"""A certificate: a folder with the document and its page."""


def _parquet(table: Any) -> bytes:
    import pyarrow.parquet as pq

    buffer = io.BytesIO()
    pq.write_table(table, buffer)
    return buffer.getvalue()


FORMATS = (CODES, PUBLIC_TABLES, TABLE, DOMAIN, RUN, ERRORS, CERTIFICATE, PAGE)
"""An encoded table comes before a data frame: its suffix is the longer one."""
