"""The public side of a release: its tables, the domain they may give, and their codes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from jam_dagster.tables import Domain, EncodedTable, PublicTables
from jam_dagster.tables.sources.public import encode_public, read_public
from jam_dagster.tables.sources.public_apart import check_headers, check_no_people

if TYPE_CHECKING:
    import pandas as pd

    from jam_dagster.release.spec import ReleaseSpec

Public = EncodedTable | PublicTables


def public_records(spec: ReleaseSpec) -> dict[str, pd.DataFrame]:
    """Read the public tables of a release, by name; one alone has none."""
    if spec.public is None:
        return {}
    unit = spec.privacy.protection.unit
    column = None if unit is None else unit.column
    # By their headers first: a table of persons is not even read.
    check_headers(spec.public, column)
    frames = read_public(spec.public)
    for name, frame in frames.items():
        check_no_people(frame.columns, column, name)
    return frames


def domain_of(
    spec: ReleaseSpec,
    public: Mapping[str, pd.DataFrame],
    notify: Callable[[str], None] = lambda sentence: None,
) -> Domain:
    """Return the domain of a release: the declared one, or one drafted from the public tables."""
    domain = spec.domain.declared
    if domain is None:
        draft = spec.domain.drafted(public)
        if draft.left_out:
            notify(draft.remark)
        domain = draft.domain
    unit = spec.privacy.protection.unit
    if unit is not None:
        unit.check(domain)
    return domain


def public_codes(
    spec: ReleaseSpec, public: Mapping[str, pd.DataFrame], domain: Domain
) -> Public | None:
    """Encode the public tables of a release; None where there are none."""
    if not public:
        return None
    may_be_named = spec.previous is None and spec.mechanism.build().takes_named_public
    return encode_public(public, domain, may_be_named=may_be_named)
