"""One file format for each type of asset, none of them pickle."""

from __future__ import annotations

import io
import json
from abc import ABC, abstractmethod
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from jam_dagster.certificates import Certificate, render_certificate
from jam_dagster.certificates.certificate import FILE_NAME
from jam_dagster.certificates.page import PAGE_NAME
from jam_dagster.common.files import copy_whole, write_whole
from jam_dagster.common.json_text import parse_json
from jam_dagster.common.yaml_text import parse_yaml, write_yaml
from jam_dagster.evaluation import TableErrors, WorkloadErrors
from jam_dagster.evaluation.utility import TargetUtility
from jam_dagster.privacy import NoiseCall
from jam_dagster.release.run import (
    RUN_FILE,
    ReleaseErrors,
    ReleaseRun,
    read_run,
    write_run,
)
from jam_dagster.tables import Domain, EncodedTable, PublicTables
from jam_dagster.tables.domain.columns import exact_columns, with_texts
from jam_dagster.tables.domain.text_dtype import from_arrow, with_dtypes
from jam_dagster.tables.sources.public import encoded_tables
from jam_dagster.tables.sources.table_file import TableFile

if TYPE_CHECKING:
    import pandas as pd
    from upath import UPath

_DOMAIN_KEY = b"jam_dagster.domain"
_CLIPPED_KEY = b"jam_dagster.clipped"


class Format(ABC):
    """How assets of one type are written and read.

    `kind` is the type of their values. `suffix` follows the asset's path. `marker` is, for a format
    that is a folder, the file in it that is written last.
    """

    name: str
    kind: type
    suffix: str
    marker: str = ""

    def path(self, base: UPath) -> UPath:
        """Return where an asset is stored whose path without suffix is `base`."""
        return base.with_name(base.name + self.suffix)

    def holds(self, value: object) -> bool:
        """Whether `value` is of this format's type."""
        return isinstance(value, self.kind)

    @abstractmethod
    def write(self, value: Any, path: UPath) -> None:
        """Write `value` to `path`, replacing what is there."""

    @abstractmethod
    def read(self, path: UPath) -> object:
        """Read what `write` wrote."""

    def without_types(self, value: Any) -> Any:
        """Return a private value such that none of its records decides how others are stored."""
        return value


class CodesFormat(Format):
    """An encoded table: Parquet, with its domain in the schema."""

    name = "encoded tables"
    kind = EncodedTable
    suffix = ".codes.parquet"

    def write(self, value: EncodedTable, path: UPath) -> None:
        """Write codes and domain."""
        import pyarrow as pa

        frame = value.to_frame()
        table = pa.Table.from_pandas(frame, preserve_index=False)
        facts = {_DOMAIN_KEY: value.domain.to_dict(), _CLIPPED_KEY: value.clipped}
        texts = {key: json.dumps(fact).encode() for key, fact in facts.items()}
        table = table.replace_schema_metadata({**table.schema.metadata, **texts})
        _write_parquet(table, path)

    def read(self, path: UPath) -> EncodedTable:
        """Read codes and domain."""
        import pyarrow.parquet as pq

        table = pq.read_table(io.BytesIO(path.read_bytes()))
        facts = table.schema.metadata
        domain = Domain.from_dict(parse_json(facts[_DOMAIN_KEY].decode()))
        # Tables of earlier versions do not say it.
        clipped = parse_json(facts.get(_CLIPPED_KEY, b"{}").decode())
        return replace(EncodedTable.from_frame(domain, table.to_pandas()), clipped=clipped)


class PublicTablesFormat(Format):
    """Several encoded public tables: a folder with one file each, and the whole domain."""

    name = "public tables"
    kind = PublicTables
    suffix = ".tables"
    marker = "tables.json"

    def write(self, value: PublicTables, path: UPath) -> None:
        """Write the tables, then their names in order."""
        marker = path / self.marker
        if marker.exists():
            marker.unlink()
        path.mkdir(parents=True, exist_ok=True)
        codes = CodesFormat()
        for name, table in encoded_tables(value).items():
            codes.write(table, codes.path(path / name))
        content = {"domain": value.domain.to_dict(), "tables": list(value.tables)}
        write_whole(marker, json.dumps(content, indent=1).encode())

    def read(self, path: UPath) -> PublicTables:
        """Read the tables."""
        content = parse_json((path / self.marker).read_text())
        codes = CodesFormat()
        tables = {name: codes.read(codes.path(path / name)) for name in content["tables"]}
        return PublicTables(Domain.from_dict(content["domain"]), tables)


class TableFormat(Format):
    """A table of values: Parquet."""

    name = "pandas data frames"
    suffix = ".parquet"

    def holds(self, value: object) -> bool:
        """Whether `value` is a data frame."""
        import pandas as pd

        return isinstance(value, pd.DataFrame | TableFile)

    def write(self, value: pd.DataFrame | TableFile, path: UPath) -> None:
        """Write the table, without its index; cells of no common type as texts."""
        import pyarrow as pa

        if isinstance(value, TableFile):
            copy_whole(value.path, path)
            return
        typed = with_texts(exact_columns(value.copy(deep=False)))
        table = pa.Table.from_pandas(typed, preserve_index=False)
        schema = with_dtypes(table.schema, value)
        _write_parquet(table.replace_schema_metadata(schema.metadata), path)

    def without_types(self, value: pd.DataFrame | TableFile) -> pd.DataFrame | TableFile:
        """Return each cell of an object column as a text."""
        return value if isinstance(value, TableFile) else with_texts(value)

    def read(self, path: UPath) -> pd.DataFrame:
        """Read the table."""
        import pyarrow.parquet as pq

        return from_arrow(pq.read_table(io.BytesIO(path.read_bytes())))


class DomainFormat(Format):
    """A domain: the YAML file that people declare domains with."""

    name = "domains"
    kind = Domain
    suffix = ".yaml"

    def write(self, value: Domain, path: UPath) -> None:
        """Write the domain."""
        write_whole(path, write_yaml(value.to_dict()).encode())

    def read(self, path: UPath) -> Domain:
        """Read the domain."""
        return Domain.from_dict(parse_yaml(path.read_text(encoding="utf-8")))


class RunFormat(Format):
    """The result of a mechanism: a folder with the model, the transcript and the release."""

    name = "runs of a mechanism"
    kind = ReleaseRun
    suffix = ".run"
    marker = RUN_FILE

    def write(self, value: ReleaseRun, path: UPath) -> None:
        """Write the run."""
        write_run(value, path)

    def read(self, path: UPath) -> ReleaseRun:
        """Read the run."""
        return read_run(path)


class ErrorFormat(Format):
    """Workload errors: JSON."""

    name = "workload errors"
    kind = WorkloadErrors
    suffix = ".json"

    def write(self, value: WorkloadErrors, path: UPath) -> None:
        """Write the errors, marginal by marginal where they are known."""
        content: dict[str, Any] = {"mode": value.mode, "sigma": value.sigma, "rho": value.rho}
        content["call"] = value.call and value.call.to_dict()
        content["sample_equivalent"] = value.sample_equivalent
        content["equivalent_within"] = value.equivalent_within
        for table in self._TABLES:
            error: TableErrors | None = getattr(value, table)
            # The errors were measured for other tables only.
            if table == "uniform" and error is None:
                continue
            content[table] = error and {
                "mean": error.mean,
                "maximum": error.maximum,
                "per_marginal": error.per_marginal
                and [[list(clique), one] for clique, one in error.per_marginal.items()],
            }
        if value.utility is not None:
            content["utility"] = asdict(value.utility)
        if isinstance(value, ReleaseErrors):
            content["run"] = value.run
        write_whole(path, json.dumps(content, indent=1).encode())

    def read(self, path: UPath) -> WorkloadErrors:
        """Read the errors."""
        content = parse_json(path.read_text())
        for table in self._TABLES:
            if content.get(table) is not None:
                listed = content[table].pop("per_marginal")
                per_marginal = listed and {tuple(clique): one for clique, one in listed}
                content[table] = TableErrors(**content[table], per_marginal=per_marginal)
        content["call"] = content["call"] and NoiseCall(**content["call"])
        content["equivalent_within"] = tuple(content.get("equivalent_within") or ()) or None
        if "utility" in content:
            content["utility"] = TargetUtility.from_dict(content["utility"])
        return ReleaseErrors(**content) if "run" in content else WorkloadErrors(**content)

    _TABLES = ("synthetic", "public", "independent", "narrow", "uniform")


class PageFormat(Format):
    """A report: one HTML page."""

    name = "HTML pages"
    kind = str
    suffix = ".html"

    def write(self, value: str, path: UPath) -> None:
        """Write the page."""
        write_whole(path, value.encode())

    def read(self, path: UPath) -> str:
        """Read the page."""
        return str(path.read_text(encoding="utf-8"))


class CertificateFormat(Format):
    """A certificate: a folder with the document and its page."""

    name = "certificates"
    kind = Certificate
    suffix = ""
    marker = FILE_NAME
    page = PAGE_NAME

    def write(self, value: Certificate, path: UPath) -> None:
        """Write the page and the document."""
        path.mkdir(parents=True, exist_ok=True)
        write_whole(path / self.page, render_certificate(value).encode())
        value.save(path)

    def read(self, path: UPath) -> Certificate:
        """Read the document."""
        return Certificate.load(path)


def _write_parquet(table: Any, path: UPath) -> None:
    import pyarrow.parquet as pq

    buffer = io.BytesIO()
    pq.write_table(table, buffer)
    write_whole(path, buffer.getvalue())


# An encoded table before a data frame: its suffix is the longer one.
FORMATS: tuple[Format, ...] = (
    CodesFormat(),
    PublicTablesFormat(),
    TableFormat(),
    DomainFormat(),
    RunFormat(),
    ErrorFormat(),
    CertificateFormat(),
    PageFormat(),
)
