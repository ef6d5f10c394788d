"""The built-in demonstration, splits, and sources from configuration."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import (
    Annotated,
    Any,
    cast,
    get_args,
    get_type_hints,
)

from pydantic import Field, WithJsonSchema

from jam_dagster.common.deferred import pd
from jam_dagster.common.redaction import private_values
from jam_dagster.common.section import adapter_of, allowed, is_of
from jam_dagster.common.validation import changed_fields, check_keys
from jam_dagster.errors import InputError, SpecificationError
from jam_dagster.tables.domain.children import linked_in
from jam_dagster.tables.domain.values import Value
from jam_dagster.tables.sources.asset import AssetSource
from jam_dagster.tables.sources.csv import CsvSource
from jam_dagster.tables.sources.duckdb import DuckDbSource
from jam_dagster.tables.sources.frame import FrameSource
from jam_dagster.tables.sources.health_survey import DemoTable, Part, demo_table
from jam_dagster.tables.sources.identity import canonical
from jam_dagster.tables.sources.parquet import ParquetSource
from jam_dagster.tables.sources.shifted import SHIFTED_PRIVATE, ShiftedSource
from jam_dagster.tables.sources.source import Source
from jam_dagster.tables.sources.spark import SparkSource
from jam_dagster.tables.sources.splits import check_column, check_split, stratified_split
from jam_dagster.tables.sources.sql import SqlSource
from jam_dagster.tables.sources.with_children import WithChildren


@dataclass(frozen=True)
class DemoSource(Source):
    """A part of the health survey of the demo, whose people are invented.

    Parameters
    ----------
    table
        "health_survey", or its people as two tables: "households", and the "persons" of each by
        ``household_id``.
    part
        "private" or "public".
    rows
        Number of people; None: all, 30,000 private or 3,000 public ones.
    period
        For the private part: a year, month or day, such as ``2026-03`` or ``{partition}``, whose
        sample of the people is read; later samples are older.
    """

    table: DemoTable = "health_survey"
    part: Part = "private"
    rows: Annotated[int, Field(ge=1)] | None = None
    period: str = ""

    def __post_init__(self) -> None:
        if self.table not in get_args(DemoTable):
            raise SpecificationError(
                f"the tables of the demo are {', '.join(get_args(DemoTable))}, not {self.table!r}"
            )
        for name, hint in field_types(type(self), "table").items():
            _checked("demo", name, getattr(self, name), hint)
        if self.part == "public" and self.period:
            raise SpecificationError("the demo: period is for the private part; remove it")

    def read(self, *, private: bool) -> pd.DataFrame:
        """Read the table (see `Source.read`)."""
        return demo_table(self.table, self.part, self.rows, self.period)

    def describe(self) -> str:
        """Return ``simulated health survey, PART part``."""
        period = f" of {self.period}" if self.period else ""
        table = "" if self.table == "health_survey" else f"{self.table} of the "
        return f"{table}simulated health survey, {self.part} part{period}"

    def identity(self) -> str:
        """Return the part: all of its tables have the same people (see `Source.identity`)."""
        return canonical(demo="health_survey", part=self.part)

    def to_dict(self) -> dict[str, Any]:
        """Return the configuration."""
        return {"demo": self.table, "part": self.part} | changed_fields(self, "table", "part")


@dataclass(frozen=True)
class SplitSource(Source):
    """The private or the public part of a table that is split for an experiment.

    Parameters
    ----------
    source
        The whole table.
    by, value, public_share, public_rows, private_share, seed
        As in `stratified_split`. With `private_share`, rows are dropped until the share holds: the
        number of private rows, which counts as public, then reveals how many have `value`. A
        private share is for research only (see `restricted_because`).
    part
        "private" or "public".
    """

    source: Source
    by: str
    value: Annotated[Value, WithJsonSchema({"type": ["string", "number", "boolean"]})]
    public_share: float
    public_rows: float
    private_share: float | None = None
    seed: int = 0
    part: Part = "private"

    def __post_init__(self) -> None:
        if self.part not in get_args(Part):
            raise SpecificationError(f"part must be 'private' or 'public', got {self.part!r}")
        if self.source.asset_key is not None:
            raise SpecificationError(
                f"asset {self.source.asset_key} cannot be split by a release, which would read the"
                " public part from a private table. Split it into two assets (with"
                " jam_dagster.tables.stratified_split), and name each"
            )
        if self.source.is_shifted:
            raise SpecificationError(f"{SHIFTED_PRIVATE}: shift the public part of the split")
        check_split(self.public_share, self.public_rows, self.private_share)

    @property
    def restricted_because(self) -> str | None:
        """A reason if there is a `private_share`, else the reason of the source that is split."""
        if self.private_share is not None:
            return (
                "the split has a private_share, so the number of private records reveals how"
                f" many of them have {self.by} = {self.value}: leave private_share out, or use"
                " seeded noise, for research"
            )
        return self.source.restricted_because

    def read(self, *, private: bool) -> pd.DataFrame:
        """Read and split (see `Source.read`); the whole table is private for either part."""
        table = self.source.read(private=True)
        check_column(table, self.by)
        # The check for enough rows of each kind depends on a count of private rows.
        with private_values():
            parts = stratified_split(
                table,
                by=self.by,
                value=self.value,
                public_share=self.public_share,
                public_rows=self.public_rows,
                private_share=self.private_share,
                seed=self.seed,
            )
        part = parts[get_args(Part).index(self.part)]
        return part if private else self.typed(part)

    def typed(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return the public part with the types that its texts show (see `CsvSource.typed`)."""
        return self.source.typed(table) if isinstance(self.source, _TYPED) else table

    def describe(self) -> str:
        """Return the source and the part of its split."""
        share = f", {self.public_share:.0%} of it {self.by} = {self.value}"
        return (
            f"{self.part} part of {self.source.describe()}, with {self.public_rows:g}"
            f"{' of the' if self.public_rows < 1 else ''} rows set aside as public{share}"
        )

    def identity(self) -> str:
        """Return the identity of the whole table and the split (see `Source.identity`)."""
        return canonical(**{**self.to_dict(), "split": self.source.identity()})

    def to_dict(self) -> dict[str, Any]:
        """Return the configuration."""
        return {
            "split": self.source.to_dict(),
            "by": self.by,
            "value": self.value,
            "public_share": self.public_share,
            "public_rows": self.public_rows,
            "private_share": self.private_share,
            "seed": self.seed,
            "part": self.part,
        }


_TYPED = (CsvSource, SplitSource)


def check_not_split(source: Source) -> None:
    """Raise if a private table is a split by rows, though the release protects more than records.

    A split divides rows, not people, and the size of its public part follows from the number of
    private rows. It therefore protects only single records under replace-one neighbours.
    """
    if isinstance(source, SplitSource):
        raise SpecificationError(
            "a split table protects only single records under replace-one neighbours, since it"
            " divides rows instead of people, and its parts reveal the number of rows: give the"
            " private and the public table as separate sources, or use seeded noise, for research"
        )


def source_from_config(config: str | Mapping[str, Any] | Source) -> Source:
    """Build a source from its configuration; a source is returned as it is.

    Parameters
    ----------
    config
        A path that ends in .csv, .tsv or .parquet (also a compressed CSV), or
        ``{"csv": path, ...}``, ``{"parquet": path}``, ``{"sql": url, "query": sql}``,
        ``{"duckdb": path, "query": sql}``, ``{"spark": address, "query": sql}``,
        ``{"demo": "health_survey", "part": ...}``, ``{"asset": key}``,
        ``{"split": {...}, "by": ..., ...}`` or ``{"shift": {...}, "by": ...}`` with the
        parameters of the class as further keys; or two tables,
        ``{"roots": {...}, "children": {name: {"source": {...}, "key": column, "max": 6}}}``.

    Raises
    ------
    SpecificationError
        A key is unknown, missing or of the wrong type.
    """
    if isinstance(config, Source):
        return config
    if isinstance(config, str):
        return _source_of_path(config)
    if isinstance(config, Mapping) and "roots" in config:
        return _with_children(config)
    if not isinstance(config, Mapping):
        raise SpecificationError(f"a source must be a path or a mapping, got {config!r}")
    kinds = [key for key in SOURCES if key in config]
    if len(kinds) != 1:
        raise SpecificationError(
            f"a source needs one of the keys {', '.join(SOURCES)}, but it has"
            f" {', '.join(map(str, config)) or 'none'}"
        )
    kind = kinds[0]
    source, first = SOURCES[kind]
    hints = field_types(source, first)
    check_keys(f"source {kind!r}", config, [kind, *hints])
    given = {
        name: _checked(kind, name, value, hints[name])
        for name, value in config.items()
        if name != kind
    }
    if kind in COMPOSED:
        given[first] = source_from_config(config[kind])
    else:
        given[first] = _checked(kind, kind, config[kind], str)
    if "but" in given:
        given["but"] = {str(name): one for name, one in given["but"].items()}
        for partition, own in given["but"].items():
            try:
                like = source_from_config({kind: config[kind], **own})
            except (SpecificationError, TypeError) as error:
                raise SpecificationError(f"source {kind!r}: but.{partition}: {error}") from None
            given["but"][partition] = {name: getattr(like, name) for name in own}
    needed = [
        one.name
        for one in fields(source)
        if one.default is dataclasses.MISSING and one.default_factory is dataclasses.MISSING
    ]
    missing = [name for name in needed if name not in given]
    if missing:
        raise SpecificationError(f"source {kind!r} needs the key {missing[0]!r}")
    return cast(Source, source(**given))


def _with_children(config: Mapping[str, Any]) -> WithChildren:
    """Return the source of two tables that `WithChildren.to_dict` describes."""
    check_keys("source 'roots'", config, ("roots", "children"))
    link, own = linked_in(config.get("children"))
    check_keys(f"source 'roots': children.{link.table}", own, ("source",))
    if "source" not in own:
        raise SpecificationError(f"source 'roots': children.{link.table} needs the key 'source'")
    return WithChildren(
        source_from_config(config["roots"]), source_from_config(own["source"]), link
    )


def source_of(given: Any, name: str) -> Source:
    """Return the source of a table: a path, a source's configuration, a source or a table."""
    if isinstance(given, os.PathLike):
        given = os.fspath(given)
    if isinstance(given, str | Mapping | Source):
        return source_from_config(given)
    return FrameSource(given, name)


def config_from_text(text: str) -> str | dict[str, Any]:
    """Return the configuration of a source that a text holds: a path, or a mapping in JSON."""
    # The text may hold a password, and errors end in logs, so no error quotes it.
    if not text.lstrip().startswith("{"):
        if "://" in text and "@" in text:
            raise InputError(
                "A table in a database is given in JSON, with a query: "
                '{"sql": URL, "query": "select ..."}.'
            )
        return text
    try:
        return dict(json.loads(text))
    except ValueError as error:
        raise InputError(
            f"A source is not valid JSON: {error}. Give a path, or a source."
        ) from None


SOURCES: dict[str, tuple[type[Any], str]] = {
    "csv": (CsvSource, "path"),
    "parquet": (ParquetSource, "path"),
    "sql": (SqlSource, "url"),
    "duckdb": (DuckDbSource, "path"),
    "spark": (SparkSource, "address"),
    "demo": (DemoSource, "table"),
    "split": (SplitSource, "source"),
    "asset": (AssetSource, "key"),
    "shift": (ShiftedSource, "source"),
}
"""Each kind of source by its key: its class, and the parameter that the key holds."""

COMPOSED = ("split", "shift")
"""The keys that hold another source."""


def path_of(source: object) -> str | None:
    """Return the path of a source that reads a file or folder; None for other sources."""
    path = getattr(source, "path", None)
    return path if isinstance(path, str) else None


def whole(source: Source) -> Source:
    """Return a source, or the whole source that it splits or shifts."""
    while isinstance(source, SplitSource | ShiftedSource):
        source = source.source
    return source


def _source_of_path(path: str) -> Source:
    suffixes = [suffix.lower() for suffix in Path(path).suffixes]
    if {".csv", ".txt"} & set(suffixes[-2:]):
        return CsvSource(path)
    if ".tsv" in suffixes[-2:]:
        return CsvSource(path, separator="\t")
    if suffixes[-1:] in ([".parquet"], [".pq"]):
        return ParquetSource(path)
    raise SpecificationError(
        f"the suffix of {path!r} does not show its format: use .csv, .tsv or .parquet, or a"
        f" mapping with a key of {', '.join(SOURCES)}"
    )


def field_types(source: Any, first: str) -> dict[str, Any]:
    """Return the types of a source's parameters, except the one that its key holds."""
    hints = get_type_hints(source, include_extras=True)
    return {one.name: hints[one.name] for one in fields(source) if one.name != first}


def _checked(kind: str, name: str, value: Any, hint: Any) -> Any:
    """Return a value of a source's parameter, a list as a tuple, if it is of its type."""
    given = tuple(value) if isinstance(value, list) else value
    if not is_of(hint, given):
        expected = allowed(adapter_of(hint).json_schema())
        raise SpecificationError(f"source {kind!r}: {name} must be {expected}, got {value!r}")
    return given


def absolute_paths(config: Any, folder: Path) -> Any:
    """Return a source's configuration with its relative file paths made relative to a folder."""
    if isinstance(config, str):
        return _anchor(config, folder)
    if not isinstance(config, Mapping):
        return config
    changed = dict(config)
    for key in (kind for kind, (_, first) in SOURCES.items() if first == "path"):
        if isinstance(changed.get(key), str):
            changed[key] = _anchor(changed[key], folder)
    for key in COMPOSED:
        if key in changed:
            changed[key] = absolute_paths(changed[key], folder)
    # The given table of {previous_release: {first: ...}}.
    given = changed.get("previous_release")
    if isinstance(given, Mapping) and "first" in given:
        changed["previous_release"] = {
            **given,
            "first": absolute_paths(given["first"], folder),
        }
    tables = changed.get("tables")
    if isinstance(tables, Mapping):
        changed["tables"] = {name: absolute_paths(table, folder) for name, table in tables.items()}
    return changed


def _anchor(path: str, folder: Path) -> str:
    # Variables are expanded when the source is read.
    if "://" in path or path.startswith(("${", "~")):
        return path
    return str(folder / path)
