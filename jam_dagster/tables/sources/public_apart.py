"""Checks that a public table is not the private table, before either is opened.

A private table that is given as the public one by mistake would be copied, previewed and measured
without noise.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from jam_dagster.errors import InputError, SourceError, SpecificationError
from jam_dagster.tables.sources.base import SplitSource, path_of, whole
from jam_dagster.tables.sources.duckdb import DuckDbSource
from jam_dagster.tables.sources.frame import FrameSource
from jam_dagster.tables.sources.identity import canonical, database_of, place_of
from jam_dagster.tables.sources.partition_template import PLACEHOLDER
from jam_dagster.tables.sources.public import PublicSources, tables_of
from jam_dagster.tables.sources.shifted import ShiftedSource
from jam_dagster.tables.sources.source import Source
from jam_dagster.tables.sources.spark import SparkSource
from jam_dagster.tables.sources.sql import SqlSource

_DATABASES = (DuckDbSource, SqlSource)
_BLOCK = 1 << 20
_REMEDY = "name a table that is public, or leave the public table out"


def same_rows(one: Source, other: Source) -> bool:
    """Return whether two sources read the same rows, without opening them.

    Files are the same if they are one file on the disk, or one is in the folder of the other;
    queries, if they differ only by white space, comments or case; tables in memory, if they are one
    object. The two parts of one split are different rows.
    """
    if len(one.parts) + len(other.parts) > 2:
        return any(same_rows(mine, theirs) for mine in one.parts for theirs in other.parts)
    one, other = (each.source if isinstance(each, ShiftedSource) else each for each in (one, other))
    if isinstance(one, SplitSource) and isinstance(other, SplitSource):
        split, another = one.to_dict(), other.to_dict()
        if split.pop("part") != another.pop("part") and split == another:
            return False
    one, other = whole(one), whole(other)
    if isinstance(one, FrameSource) and isinstance(other, FrameSource):
        return one.table is other.table
    ours, theirs = _rows_of(one), _rows_of(other)
    if ours == theirs:
        return True
    if isinstance(one, _DATABASES) or isinstance(other, _DATABASES):
        return _same_database_file(one, other)
    return _within(ours, theirs) or _within(theirs, ours) or _one_file(ours, theirs)


def snapshot_of(private: Source, public: Source) -> str | None:
    """Return the partition of a private table that a public one equals, by its path or query."""
    if len(private.parts) + len(public.parts) > 2:
        pairs = ((mine, theirs) for mine in private.parts for theirs in public.parts)
        return next(filter(None, (snapshot_of(*pair) for pair in pairs)), None)
    template = _rows_of(whole(private))
    if PLACEHOLDER not in template:
        return None
    first, *others = map(re.escape, template.split(PLACEHOLDER))
    pattern = "(?P=name)".join(others)
    found = re.fullmatch(f"{first}(?P<name>[\\w.-]+){pattern}", _rows_of(whole(public)))
    return None if found is None else found["name"]


def check_apart(private: Source, public: Source | PublicSources | None) -> None:
    """Raise if a public table is the private one."""
    for name, one in tables_of(public).items():
        if same_rows(private, one):
            raise SpecificationError(
                f"{_called(name)} is the private table: {one.describe()} is the same as"
                f" {private.describe()}, or shares records with it. Nothing was opened and nothing"
                f" charged: {_REMEDY}."
            )


def check_no_copy(private: Source, public: Source | PublicSources | None) -> None:
    """Raise if a public table is a copy of the private one: the same bytes, or equal frames.

    It reads both, and whether it raises is an answer about values. So it runs within an opening of
    the private table that is journalled, and its error stays within that. A copy in which one byte
    differs is not noticed.
    """
    for name, one in _each_table(public):
        if any(_is_copy(whole(mine), whole(one)) for mine in private.parts):
            raise InputError(f"{_called(name)} ({one.describe()}) is a copy of the private table.")


def _is_copy(private: Source, public: Source) -> bool:
    if isinstance(private, FrameSource) and isinstance(public, FrameSource):
        ours, theirs = private.table, public.table
        return type(ours) is type(theirs) and hasattr(ours, "equals") and bool(ours.equals(theirs))
    ours, theirs = _files_of(private), _files_of(public)
    sizes: dict[int, list[Path]] = {}
    for file in theirs:
        sizes.setdefault(file.stat().st_size, []).append(file)
    return bool(ours) and all(
        any(_same_bytes(file, other) for other in sizes.get(file.stat().st_size, ()))
        for file in ours
    )


def _files_of(source: Source) -> list[Path]:
    """Return the local files that a source reads."""
    place = path_of(source)
    place = None if place is None else place_of(place)
    if place is None or "://" in place:
        return []
    found = Path(place)
    if found.is_dir():
        return [file for file in sorted(found.rglob("*")) if file.is_file()]
    return [found] if found.is_file() else []


def _same_bytes(one: Path, other: Path) -> bool:
    with one.open("rb") as ours, other.open("rb") as theirs:
        while block := ours.read(_BLOCK):
            if block != theirs.read(_BLOCK):
                return False
        return not theirs.read(1)


def check_outside(public: Source | PublicSources | None, roots: Iterable[str], what: str) -> None:
    """Raise if a public table is in a folder of private files."""
    for name, one in _each_table(public):
        place = _file_of(whole(one))
        if place is None:
            continue
        if any(_within(place, root) or _linked_from(place, root) for root in roots):
            raise SpecificationError(
                f"{_called(name)} ({one.describe()}) is in {what}, where private tables are"
                f" kept. Nothing was opened and nothing charged: {_REMEDY}."
            )


def restricted_folders(public: Source | PublicSources | None) -> list[str]:
    """Return the private folders of releases that contain a public table."""
    found = []
    for _, one in _each_table(public):
        place = _file_of(whole(one))
        if place is None or "://" in place:
            continue
        found += [
            str(folder)
            for folder in Path(place).parents
            if folder.name == "restricted" and (folder.parent / "release.json").exists()
        ]
    return found


def check_no_people(names: Iterable[Any], column: str | None, table: str = "") -> None:
    """Raise if a public table holds the column that identifies a person in the private one."""
    if column is None:
        return
    if column.strip().casefold() in {str(name).strip().casefold() for name in names}:
        raise InputError(
            f"{_called(table)} has the column {column!r}, which identifies a person in the private"
            " table: a table of persons is not public. Check that this is the intended table; if"
            " so, drop or rename that column in it. Nothing was charged."
        )


def check_headers(public: Source | PublicSources | None, column: str | None) -> None:
    """Raise the errors of `check_no_people`, from the headers of public files; no row is read."""
    for name, one in tables_of(public).items():
        source = whole(one)
        # The columns of an asset are checked when it is read.
        if column is not None:
            check_no_people(source.names(), column, name)


def _each_table(public: Source | PublicSources | None) -> Iterator[tuple[str, Source]]:
    """Yield each table that public data are read from, with the name of its data."""
    for name, source in tables_of(public).items():
        for one in source.parts:
            yield name, one


def _called(name: str) -> str:
    return f"Public table {name!r}" if name else "The public table"


def _rows_of(source: Source) -> str:
    """Return the identity of a source's rows, without its reading options."""
    try:
        if isinstance(source, DuckDbSource):
            return canonical(duckdb=place_of(source.path), query=_loosely(source.query))
        if isinstance(source, SparkSource):
            # Another server may have the same tables.
            return canonical(spark=_loosely(source.query))
        if (path := path_of(source)) is not None:
            return place_of(path)
        if isinstance(source, SqlSource):
            return canonical(
                sql=database_of(source.url) | {"user": ""}, query=_loosely(source.query)
            )
        return source.identity()
    except SourceError:
        # A variable that is not set here may be set in the process that reads the source.
        return canonical(**source.to_dict())


def _loosely(query: str) -> str:
    bare = re.sub(r"--[^\n]*|/\*.*?\*/", " ", query, flags=re.DOTALL)
    bare = re.sub(r"\s*([(),;=<>])\s*", r"\1", re.sub(r"\s+", " ", bare))
    return bare.strip(" ;").casefold()


def _file_of(source: Source) -> str | None:
    """Return the file or URL that a source reads, or None."""
    try:
        if (path := path_of(source)) is not None:
            return place_of(path)
        if isinstance(source, SqlSource):
            database = database_of(source.url)
            return database["name"] if os.path.isabs(database["name"]) else None
    except SourceError:
        pass
    return None


def _within(place: str, root: str) -> bool:
    return place == root or place.startswith(f"{root.rstrip('/')}/")


def _one_file(one: str, other: str) -> bool:
    """Return whether two paths are one file or folder on the disk, as two hard links are."""
    try:
        return os.path.samefile(one, other)
    except (OSError, ValueError):
        return False


def _same_database_file(one: Source, other: Source) -> bool:
    if not isinstance(one, _DATABASES) or not isinstance(other, _DATABASES):
        return False
    ours, theirs = _file_of(one), _file_of(other)
    same = ours is not None and theirs is not None and _one_file(ours, theirs)
    return same and _loosely(one.query) == _loosely(other.query)


def _linked_from(place: str, root: str) -> bool:
    """Return whether a folder also holds a file, by a hard link."""
    try:
        held = os.stat(place)
        if held.st_nlink < 2 or not os.path.isfile(place) or not os.path.isdir(root):
            return False
        return any(
            os.path.samestat(held, os.stat(os.path.join(folder, name)))
            for folder, _, names in os.walk(root)
            for name in names
        )
    except (OSError, ValueError):
        return False
