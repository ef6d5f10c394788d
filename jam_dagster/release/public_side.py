"""The public side of a release: its tables, the domain they may give, and their codes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from jam_dagster.errors import InputError, SourceError, SpecificationError
from jam_dagster.evaluation.coarse_pairs import CoarsePairs
from jam_dagster.tables import Domain, EncodedTable, PublicTables, Source
from jam_dagster.tables.codes.encode import encode
from jam_dagster.tables.domain.binned import BinnedAttribute
from jam_dagster.tables.domain.categorical import CategoricalAttribute
from jam_dagster.tables.domain.columns import missing_in
from jam_dagster.tables.drafting.paid_draft import with_public_values
from jam_dagster.tables.sources.base import whole
from jam_dagster.tables.sources.csv import unnamed_columns
from jam_dagster.tables.sources.public import (
    MANY,
    clipped_shares,
    encode_public,
    read_public,
    sampled_rows,
)
from jam_dagster.tables.sources.public_apart import check_headers, check_no_people
from jam_dagster.tables.sources.sniffing import marks_remark, sniffed

if TYPE_CHECKING:
    import pandas as pd

    from jam_dagster.release.spec import ReleaseSpec
    from jam_dagster.tables import Attribute, Source
    from jam_dagster.tables.drafting.drafted_domain import DraftedDomain

Public = EncodedTable | PublicTables


def public_records(
    spec: ReleaseSpec, notify: Callable[[str], None] = lambda sentence: None
) -> dict[str, pd.DataFrame]:
    """Read the public tables of a release, by name; one alone has none."""
    if spec.public is None:
        return {}
    column = spec.person_column
    try:
        # By their headers first: a table of persons is not even read.
        check_headers(spec.public, column)
        frames = read_public(spec.public)
    except SourceError as error:
        raise SourceError(f"{error}{_dialect_hint(_csv_of(spec))}") from None
    if remark := unnamed_columns(spec.public):
        notify(remark)
    drafted, csv = spec.domain.declared is None, _csv_of(spec)
    if drafted and csv is not None and (remark := marks_remark(csv)):
        notify(remark)
    for name, frame in frames.items():
        check_no_people(frame.columns, column, name)
    return frames


def domain_of(
    spec: ReleaseSpec,
    public: Mapping[str, pd.DataFrame],
    notify: Callable[[str], None] = lambda sentence: None,
) -> Domain:
    """Return the domain of a release: the declared one, or one drafted from the public tables.

    One that asks for values keeps those of the public table, and one whose workload may lack a pair
    has those that are related there.
    """
    domain = spec.domain.declared
    if domain is None:
        draft = draft_of(spec, public)
        if draft.remark:
            notify(draft.remark)
        domain = draft.domain
    elif spec.asks_by_tables and public:
        domain = with_public_values(domain, public[""])
    domain = with_related(spec, public, domain)
    unit = spec.privacy.protection.unit
    if unit is not None:
        unit.check(domain)
    return domain


def with_related(spec: ReleaseSpec, public: Mapping[str, pd.DataFrame], domain: Domain) -> Domain:
    """Return a domain with the pairs that are related in the public table, if any are added.

    They are the strongest relations of the workload's attributes that it lacks, at most as many as
    its marginals, so that they have no more than half of its weight.
    """
    if not spec.relates or not public or domain.related is not None:
        return domain
    wanted = {*spec.lacking(domain)}
    if not wanted:
        return domain
    codes = encode(public[""], domain, private=False)
    found = [one for one in CoarsePairs.of(domain, codes).related(codes) if one in wanted]
    most = len(spec.workload.build(domain))
    return replace(domain, related=tuple(found[:most])) if found else domain


def identified(spec: ReleaseSpec, source: Source | None = None) -> ReleaseSpec:
    """Return a release whose domain asks for each column, if all are bought without a public table.

    The names of the private columns, and the types that a schema declares, are no secret; no row is
    read.

    Parameters
    ----------
    spec
        The release.
    source
        What has the columns; None: the release's private table.

    Raises
    ------
    SpecificationError
        If names are unknown or like values, or the release cannot pay for it.
    """
    if spec.domain.identify != "paid" or spec.public is not None:
        return spec
    source, unit = source or spec.private, spec.privacy.unit
    names = [one for one in source.names() if unit is None or one != unit.column]
    if not names or source.linked is not None:
        raise SpecificationError(
            f"The domain of release {spec.release} cannot be bought, since the columns of"
            f" {source.describe()} are not known without a row, or are of two tables: declare it."
        )
    return spec.with_domain(spec.domain.paid(names, source.types()))


def draft_of(spec: ReleaseSpec, public: Mapping[str, pd.DataFrame]) -> DraftedDomain:
    """Draft the domain of a release from its public tables.

    Raises
    ------
    InputError
        A public CSV file has one column, whose name holds another separator; or the draft has fewer
        attributes than the workload's degree. The error names the columns left out first, which are
        the ones to correct.
    """
    _check_separator(spec, public)
    draft = spec.domain.drafted(public, spec.private.linked)
    one = spec.public_tables.get("")
    if one is not None and one.is_shifted:
        draft = draft.without_shift_advice()
    try:
        spec.workload.build(draft.domain)
    except InputError as error:
        reasons = "; ".join([*draft.said_left_out, *draft.said_notes])
        if len(draft.domain.names) >= (spec.workload.degree or 0) or not reasons:
            raise
        raise InputError(
            f"the public table does not give all columns ({reasons}): {error}"
        ) from None
    return draft


def _check_separator(spec: ReleaseSpec, public: Mapping[str, pd.DataFrame]) -> None:
    from jam_dagster.tables.drafting.draft_notes import separator_of

    source = _csv_of(spec)
    if source is not None:
        (frame,) = public.values()
        if hint := separator_of(list(frame.columns)):
            raise InputError(f"{source.describe()} has one column{_dialect_hint(source) or hint}")


def _csv_of(spec: ReleaseSpec) -> Source | None:
    """Return the CSV file that the one public table is read from; None if it is another source."""
    public = spec.public_tables.get("")
    source = None if public is None else whole(public)
    return source if source is not None and source.has_dialect else None


def _dialect_hint(source: Source | None) -> str:
    """Return how to declare the dialect that a public CSV file shows, or ""."""
    try:
        found = None if source is None else sniffed(source)[0]
    except SourceError:
        return ""
    if found is None or found == source:
        return ""
    return f"; as its lines show, the table is {json.dumps(found.to_dict())}"


def public_codes(
    spec: ReleaseSpec, public: Mapping[str, pd.DataFrame], domain: Domain
) -> Public | None:
    """Encode the public tables of a release; None if there are none."""
    if not public:
        return None
    may_be_named = spec.previous is None and spec.mechanism.build().takes_named_public
    return encode_public(public, domain, may_be_named=may_be_named)


def public_remarks(public: Mapping[str, pd.DataFrame], domain: Domain) -> list[str]:
    """Return remarks on attributes for which cells of a public table are not in the domain.

    A domain from private data gives no remarks. At most 10,000 rows of a table are looked at.
    """
    if domain.restricted:
        return []
    remarks = []
    for name, frame in public.items():
        rows, clipped = sampled_rows(frame), clipped_shares(frame, domain)
        table = f"public table {name!r}" if name else "the public table"
        for one in domain.attributes:
            if one.name not in rows or rows.empty:
                continue
            # A column whose sampled rows are empty is looked at whole.
            if _empty(rows[one.name], one) and _empty(frame[one.name], one):
                remarks.append(
                    f"{one.name}: each cell of {table} is missing or infinite, so it says nothing"
                    " about this column: give it values, or leave the column out"
                )
                continue
            if isinstance(one, CategoricalAttribute):
                unlisted = _unlisted(rows[one.name], one)
                if unlisted > MANY:
                    remarks.append(
                        f"{one.name}: {unlisted:.0%} of the values in {table} are not listed in the"
                        " domain and are released as missing: list them, or write them as the"
                        " domain does"
                    )
            if not isinstance(one, BinnedAttribute):
                continue
            numbers = one.numbers_in(rows[one.name])
            unread = (np.isnan(numbers) & ~missing_in(rows[one.name])).mean()
            if beyond := clipped.get(one.name):
                remarks.append(
                    f"{one.name}: {beyond:.0%} of the values in {table} are beyond the bounds,"
                    f" {' to '.join(one.bounds_text)}, and are moved to them:"
                    f" {'shift the dates there' if one.dated else 'change the unit'}, or correct"
                    " the bounds"
                )
            elif unread > MANY:
                remarks.append(
                    f"{one.name}: {unread:.0%} of the values in {table} cannot be parsed and are"
                    " released as missing: if they are no words for missing values, write them as"
                    " the domain says, or correct the format"
                )
    return remarks


def _unlisted(column: pd.Series[Any], attribute: CategoricalAttribute) -> float:
    """Return the share of cells with a value that is not listed and counts as missing."""
    if attribute.other is not None or attribute.unreadable == "error":
        return 0.0
    codes, null = attribute.codes_in(column)
    return float(((null | np.isin(codes, attribute.missing_codes)) & ~missing_in(column)).mean())


def _empty(column: pd.Series[Any], attribute: Attribute) -> bool:
    """Return whether each cell of a column is missing or infinite."""
    missing = missing_in(column)
    if isinstance(attribute, BinnedAttribute):
        missing = missing | np.isinf(attribute.numbers_in(column))
    return bool(missing.all())
