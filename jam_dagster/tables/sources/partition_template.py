"""Sources of snapshots, with ``{partition}`` in a path or a query for the partition to read."""

from __future__ import annotations

import dataclasses
import os
import re
import stat
from typing import Any, TypeVar, cast

from jam_dagster.errors import SpecificationError
from jam_dagster.tables.sources.base import path_of, whole
from jam_dagster.tables.sources.csv import CsvSource
from jam_dagster.tables.sources.identity import is_one_file, place_of, places_in, selects_records
from jam_dagster.tables.sources.public import PublicSources
from jam_dagster.tables.sources.source import Source

AnySource = TypeVar("AnySource", bound=Source | PublicSources)

PLACEHOLDER = "{partition}"

_LONGEST = 100
# No quote, space or slash, so that it is safe in a query and in a path. Two hyphens begin a comment
# in a query, and so does a hyphen at the end if the query adds another.
_PARTITION = re.compile(r"[A-Za-z0-9](?:-?[A-Za-z0-9_.])*")


def check_partition(partition: object) -> str:
    """Return the name of a partition if it is safe in paths and queries, or raise."""
    if (
        not isinstance(partition, str)
        or len(partition) > _LONGEST
        or not _PARTITION.fullmatch(partition)
    ):
        raise SpecificationError(
            f"a partition must be a text of at most {_LONGEST} letters, digits, '.', '_' and '-'"
            f" that begins with a letter or a digit, since paths and queries contain it; it has"
            f" no '--' and no '-' at the end, since '--' begins a comment in a query; got"
            f" {partition!r}: rename it, such as with '_'"
        )
    return partition


def is_partitioned(source: Source | PublicSources) -> bool:
    """Return whether any text of a source, such as its path or query, has ``{partition}``."""
    return any(
        PLACEHOLDER in value if isinstance(value, str) else is_partitioned(value)
        for value in _parts(source).values()
    )


def at_partition(source: AnySource, partition: str) -> AnySource:
    """Return the source of one partition; the same source if it has no ``{partition}``."""
    if not is_partitioned(source):
        return source
    check_partition(partition)
    source = _as_in(source, partition)
    changed: dict[str, Any] = {
        name: value.replace(PLACEHOLDER, partition)
        if isinstance(value, str)
        else at_partition(value, partition)
        for name, value in _parts(source).items()
    }
    if isinstance(source, PublicSources):
        changed = {"tables": changed}
    return dataclasses.replace(source, **changed)  # type: ignore[type-var]  # it has fields


def template_of(source: Source, partition: str, *, counted: bool = False) -> str:
    """Return the identity with an open ``{partition}``; empty if no officer must vouch for it.

    An officer vouches for partitions that are not files of their own and, if the number of records
    is public (`counted`), for queries and assets, which can select records.
    """
    identity = (at_partition(source, partition) if partition else source).identity()
    vouched = bool(partition and not is_one_file(identity)) or (
        counted and selects_records(identity)
    )
    return _opened(source, partition) if vouched else ""


def table_of(source: Source, partition: str) -> str:
    """Return the files or queries of a source with an open ``{partition}``: all partitions' table.

    Empty without a partition.
    """
    return "+".join(places_in(_opened(source, partition))) if partition else ""


def _opened(source: Source, partition: str) -> str:
    """Return the identity with an open ``{partition}``, if the partition's own follows from it.

    Else a link is in the way, of the partition's file or folder or of one that is named
    ``{partition}`` itself: what it leads to is a table of its own.
    """
    if not partition:
        return source.identity()
    opened = _as_in(source, partition).identity()
    identity = at_partition(source, partition).identity()
    return opened if opened.replace(PLACEHOLDER, partition) == identity else identity


def _as_in(source: AnySource, partition: str) -> AnySource:
    """Return the source with the reading options of one partition, and its texts as they are."""
    if isinstance(source, CsvSource):
        return cast("AnySource", source.of_partition(partition))
    changed: dict[str, Any] = {
        name: _as_in(value, partition)
        for name, value in _parts(source).items()
        if not isinstance(value, str)
    }
    if not changed:
        return source
    changed = {"tables": changed} if isinstance(source, PublicSources) else changed
    return dataclasses.replace(source, **changed)  # type: ignore[type-var]  # it has fields


def linked_file(source: Source) -> str:
    """Return the description of a local file that has a second name, by a hard link; else empty."""
    for one in source.parts:
        table = whole(one)
        path = path_of(table)
        if path is None:
            continue
        try:
            found = os.stat(place_of(path))
        except (OSError, ValueError):
            continue
        if stat.S_ISREG(found.st_mode) and found.st_nlink > 1:
            return table.describe()
    return ""


def _parts(source: Any) -> dict[str, Any]:
    """Return the texts among a source's fields, and the sources within it."""
    if isinstance(source, PublicSources):
        return dict(source.tables)
    if not dataclasses.is_dataclass(source):
        return {}
    values = {one.name: getattr(source, one.name) for one in dataclasses.fields(source)}
    return {
        name: value
        for name, value in values.items()
        if isinstance(value, str) or dataclasses.is_dataclass(value)
    }
