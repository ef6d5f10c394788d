"""Several public sources by name, each with all attributes of the domain or some."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from jam_dagster.common.validation import check_keys
from jam_dagster.errors import DomainError, InputError, SpecificationError
from jam_dagster.tables.codes.encode import encode
from jam_dagster.tables.codes.marginals import MarginalSource
from jam_dagster.tables.codes.public import PublicTables
from jam_dagster.tables.codes.roots import KEYS, children_apart
from jam_dagster.tables.codes.table import EncodedTable
from jam_dagster.tables.domain.attributes import Attribute
from jam_dagster.tables.domain.binned import BinnedAttribute
from jam_dagster.tables.domain.categorical import CategoricalAttribute
from jam_dagster.tables.domain.columns import exact_columns
from jam_dagster.tables.domain.domain import Domain
from jam_dagster.tables.sources.base import source_from_config, source_of
from jam_dagster.tables.sources.source import Source

if TYPE_CHECKING:
    import pandas as pd

    from jam_dagster.tables.domain.children import Link
    from jam_dagster.tables.domain.constraints import Repair
    from jam_dagster.tables.domain.numbering import Numbering
    from jam_dagster.tables.domain.totals import Total
    from jam_dagster.tables.drafting.drafted_domain import DraftedDomain, LeftOut

PUBLIC_TABLES = "tables"

MANY = 0.2
"""Share of a public column's cells above which a remark says that they are clipped or unread."""

_LOOKED_AT = 10_000

TABLE_NAME = re.compile(r"[a-z][a-z0-9_]*")
"""The pattern of a public table's name, which is part of the names of assets."""


@dataclass(frozen=True)
class PublicSources:
    """Several public tables, in order of preference; or one that may lack attributes.

    Parameters
    ----------
    tables
        The sources by name. A table may lack columns for attributes of the domain.

    Raises
    ------
    SpecificationError
        If there is none, or a name is not of lower-case letters, digits and '_'.
    """

    tables: Mapping[str, Source]

    def __post_init__(self) -> None:
        if not self.tables:
            raise SpecificationError("public.tables needs at least one table, such as census: ...")
        for name in self.tables:
            if not isinstance(name, str) or not TABLE_NAME.fullmatch(name):
                raise SpecificationError(
                    f"public.tables: a table's name begins with a lower-case letter and is of"
                    f" lower-case letters, digits and '_', got {name!r}."
                )
        object.__setattr__(self, "tables", dict(self.tables))

    def describe(self) -> str:
        """Return the tables' origins in words."""
        return "; ".join(f"{name}: {source.describe()}" for name, source in self.tables.items())

    def to_dict(self) -> dict[str, Any]:
        """Return the configuration, without credentials."""
        return {PUBLIC_TABLES: {name: source.to_dict() for name, source in self.tables.items()}}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> PublicSources:
        """Build the sources from ``{"tables": {name: source}}``; see `source_from_config`.

        Raises
        ------
        SpecificationError
            A key is unknown, missing or of the wrong type.
        """
        check_keys("public", config, (PUBLIC_TABLES,))
        given = config[PUBLIC_TABLES]
        if not isinstance(given, Mapping):
            raise SpecificationError(
                "public.tables needs tables by name, such as {census: census.parquet, survey:"
                f" survey.csv}}, got {type(given).__name__}."
            )
        sources = {}
        for name, source in given.items():
            try:
                sources[name] = source_from_config(source)
            except SpecificationError as error:
                raise SpecificationError(f"public.tables.{name}: {error}") from None
        return cls(sources)


def public_of(given: Any) -> Source | PublicSources | None:
    """Return the source of public tables that are given as for `source_of`, several, or none."""
    if given is None or isinstance(given, PublicSources):
        return given
    return source_of(given, "public")


def tables_of(public: Source | PublicSources | None) -> dict[str, Source]:
    """Return public tables by name; a single table has none."""
    if public is None:
        return {}
    return dict(public.tables) if isinstance(public, PublicSources) else {"": public}


def lacking(frame: pd.DataFrame, domain: Domain) -> list[str]:
    """Return the attributes for which a table has no column."""
    return [name for name in domain.names if name not in frame.columns]


def read_public(source: Source | PublicSources) -> dict[str, pd.DataFrame]:
    """Read the public tables, by name; a single table has none."""
    if not isinstance(source, PublicSources):
        frame = source.read(private=False)
        if not len(frame):
            raise InputError("The public table has no rows: give a table with rows.")
        return {"": frame}
    frames = {}
    for name, one in source.tables.items():
        try:
            frames[name] = one.read(private=False)
        except InputError as error:
            raise type(error)(f"Public table {name!r}: {error}") from error
        if not len(frames[name]):
            raise InputError(f"Public table {name!r} has no rows: give a table with rows.")
    return frames


def encode_public(
    frames: Mapping[str, pd.DataFrame],
    domain: Domain,
    *,
    private: bool = False,
    may_be_named: bool = False,
) -> EncodedTable | PublicTables:
    """Encode public tables, each over its own attributes; an unnamed one over all attributes."""
    if list(frames) == [""]:
        return _encode_whole(frames[""], domain, private, may_be_named)
    tables = {}
    for name, frame in frames.items():
        missing = lacking(frame, domain)
        names = [one for one in domain.names if one not in missing]
        if not names:
            raise DomainError(
                f"Public table {name!r} has no column of the domain: give its columns the"
                " names of the private table's columns, or leave it out."
            )
        try:
            tables[name] = _encoded(frame, domain.project(names), private)
        except InputError as error:
            raise type(error)(f"Public table {name!r}: {error}") from error
    return PublicTables(domain, tables)


def _encode_whole(
    frame: pd.DataFrame, domain: Domain, private: bool, may_be_named: bool
) -> EncodedTable:
    """Encode a table that must have all attributes."""
    try:
        return _encoded(frame, domain, private)
    except DomainError as error:
        if not may_be_named or not 0 < len(lacking(frame, domain)) < len(domain.names):
            raise
        raise DomainError(
            f"{error}; or give the public table a name, since a named one may lack attributes: "
            "--public NAME=TABLE on the command line, public: {tables: {NAME: TABLE}} in YAML, "
            "PublicSources({NAME: SOURCE}) in Python"
        ) from error


def _encoded(frame: pd.DataFrame, domain: Domain, private: bool) -> EncodedTable:
    encoded = encode(frame, domain, private=private)
    # Bounds that follow from private data are not compared with anything.
    return encoded if private else replace(encoded, clipped=clipped_shares(frame, domain))


def sampled_rows(frame: pd.DataFrame) -> pd.DataFrame:
    """Return at most 10,000 rows of a public table, at equal distances."""
    return frame.iloc[:: -(-len(frame) // _LOOKED_AT) or 1]


def clipped_shares(frame: pd.DataFrame, domain: Domain) -> dict[str, float]:
    """Return by attribute the share of public cells that are moved to its bounds, if it is large.

    At most 10,000 rows are looked at.
    """
    rows, shares = sampled_rows(frame), {}
    for one in domain.binned:
        if one.name in rows and len(rows):
            numbers = one.numbers_in(rows[one.name])
            beyond = ((numbers < one.edges[0]) | (numbers > one.edges[-1])).mean()
            if beyond > MANY:
                shares[one.name] = float(beyond)
    return shares


@overload
def over_bought(public: MarginalSource, domain: Domain) -> MarginalSource: ...
@overload
def over_bought(public: MarginalSource | None, domain: Domain) -> MarginalSource | None: ...
def over_bought(public: MarginalSource | None, domain: Domain) -> MarginalSource | None:
    """Return a public table over a bought domain; another one is returned as it is.

    Parameters
    ----------
    public
        The table, encoded over the domain that asked: each of its values is in both.
    domain
        The domain of the private table.
    """
    if domain.bought is None or not isinstance(public, EncodedTable):
        return public
    asked = domain.bought.asked.asked
    if asked is None or public.domain.digest == domain.digest:
        return public
    columns = []
    for codes, before, after in zip(
        public.columns, public.domain.attributes, domain.attributes, strict=True
    ):
        if before.name in asked.values and isinstance(after, CategoricalAttribute):
            # No public row has a value that stands for one to be selected.
            now = [after.code_of(value) for value in before.listed]
            codes = np.array([*now, *after.missing_codes], dtype=np.int64)[codes]
        elif (
            before.name in asked.bins
            and isinstance(before, BinnedAttribute)
            and isinstance(after, BinnedAttribute)
        ):
            # A release before that knew no edges either says nothing but the middles of bins.
            edges = np.array(before.edges) / 2.0
            bins = after._bins_of(edges[1:] + edges[:-1])
            codes = np.array([*bins, *after.missing_codes], dtype=np.int64)[codes]
        columns.append(codes)
    return EncodedTable(domain, tuple(columns), public.clipped)


def encoded_tables(public: MarginalSource) -> dict[str, EncodedTable]:
    """Return the encoded tables of public data, by name; a single table has none."""
    tables = public.tables if isinstance(public, PublicTables) else {"": public}
    found = {name: table for name, table in tables.items() if isinstance(table, EncodedTable)}
    if len(found) < len(tables):
        raise InputError("The public tables must be encoded in memory: encode them.")
    return found


def draft_public(
    frames: Mapping[str, pd.DataFrame],
    *,
    columns: Sequence[str] | None = None,
    bins: int | None = None,
) -> DraftedDomain:
    """Draft a domain of all tables' attributes, each from the first table that allows it."""
    # Most processes draft nothing.
    from jam_dagster.tables.drafting.draft import (
        chosen_columns,
        draft_attributes,
        draft_table,
        drafted,
    )
    from jam_dagster.tables.drafting.draft_notes import notes_of

    if list(frames) == [""]:
        return draft_table(frames[""], columns=columns, bins=bins)
    frames = {name: exact_columns(frame.copy(deep=False)) for name, frame in frames.items()}
    union = list(dict.fromkeys(name for frame in frames.values() for name in frame.columns))
    wanted = chosen_columns(union, columns)
    attributes: dict[str, Attribute] = {}
    left_out: dict[str, LeftOut] = {}
    for frame in frames.values():
        new = [name for name in frame.columns if name in wanted and name not in attributes]
        found, rest = draft_attributes(frame[new], bins=bins)
        attributes.update((one.name, one) for one in found)
        left_out = {one.name: one for one in rest} | left_out
    made = drafted(
        list(attributes.values()),
        [left_out[name] for name in wanted if name in left_out and name not in attributes],
    )
    notes: dict[str, str] = {}
    for table, frame in frames.items():
        held = frame[[name for name in frame.columns if name in attributes]]
        if held.empty:
            continue
        read = encode(held, made.domain.project(list(held.columns)), private=False)
        for name, note in notes_of(held, read).items():
            notes[name] = "; ".join(filter(None, (notes.get(name), f"in {table}: {note}")))
    return replace(made, notes=notes)


def draft_with_children(
    frames: Mapping[str, pd.DataFrame],
    link: Link,
    *,
    columns: Sequence[str] | None = None,
    exclude: Sequence[str] = (),
    **options: Any,
) -> DraftedDomain:
    """Draft a domain of one public table of roots with two children, from the rows of both.

    Columns are of either table; one of which none is named keeps all. Further options are those of
    `draft_table`.
    """
    from jam_dagster.tables.drafting.draft import chosen_columns, draft_table, with_placeholders
    from jam_dagster.tables.drafting.found_totals import found_totals
    from jam_dagster.tables.drafting.found_within_roots import (
        found_numbers,
        found_within_roots,
    )

    if list(frames) != [""]:
        raise InputError("the domain of roots with children is drafted from one public table")
    marks = frames[""].attrs.get(KEYS, {})
    link = replace(link, width=marks.get("width", 0))
    roots, children = children_apart(frames[""], link)
    chosen_columns([*roots.columns, *children.columns], columns, exclude)

    def drafted_of(frame: pd.DataFrame) -> DraftedDomain:
        own, without = (
            [one for one in names if one in frame.columns] for names in (columns or (), exclude)
        )
        return draft_table(frame, columns=own or None, exclude=without, **options)

    merged, child = drafted_of(roots), drafted_of(children)
    totals: dict[Total, int] = {}
    if options.get("infer", True):
        names = list(merged.domain.columns)
        taken = [one.name for one in merged.domain.derived]
        formats = merged.domain.formats, child.domain.formats
        totals = found_totals(frames[""], link, roots[names], *formats, taken)
    left = [name for name in merged.domain.names if name not in {one.name for one in totals}]
    if totals and left:
        later = {one.name for one in totals}
        kept = [name for name in merged.domain.columns if name not in later]
        merged = with_placeholders(draft_table(roots, columns=kept, **options), roots, later)
    numbers: dict[Numbering, int] = {}
    if options.get("infer", True):
        numbers = found_numbers(frames[""], link, child.domain, children)
    if numbers:
        later = {one.name for one in numbers}
        kept = [name for name in child.domain.columns if name not in later]
        child = with_placeholders(draft_table(children, columns=kept, **options), children, later)
    rules = found_within_roots(frames[""], link, merged.domain, child.domain)
    counted: dict[str | Repair, int] = {
        **merged.breakable,
        **{one.name: rows for one, rows in totals.items()},
        **{one.name: rows for one, rows in numbers.items()},
        **{one: rows for one, rows in rules.items()},  # noqa: C416  # of a wider type
    }
    return replace(
        merged,
        domain=merged.domain.with_children(
            link, child.domain, totals if left else (), rules, numbers
        ),
        children=child,
        breakable=counted,
        notes={**merged.notes, **_rootless(marks.get("rootless", 0), link)},
    )


def _rootless(number: int, link: Link) -> dict[str, str]:
    """Return a note on the public children that have no root."""
    if not number:
        return {}
    return {
        link.column: f"{number:,} public rows of {link.table} have the key of no row of the root"
        " table, and are left out, as private ones are"
    }
