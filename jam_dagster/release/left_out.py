"""Columns of the private table that a release leaves out.

Their names are schema, which neighbouring tables share, and not values. They are read only after
every attribute of the domain has its column, so the first line of a CSV file is a header.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING

from jam_dagster.common.shown_text import one_line
from jam_dagster.tables import Domain, Source
from jam_dagster.tables.domain.columns import alike_columns

if TYPE_CHECKING:
    from jam_dagster.tables import PrivacyUnit

_NAMED = 10
_INDEX = re.compile(r"__index_level_\d+__", re.ASCII)
"""The name that a file has for an index of pandas without one."""


def left_out_remark(source: Source, domain: Domain, unit: PrivacyUnit | None) -> str:
    """Return which columns of an encoded private table the domain does not have; empty if none.

    Parameters
    ----------
    source
        The private table. A source that does not know its columns without its rows has no remark.
    domain
        The domain, over which the table was encoded. One from private data has no remark.
    unit
        The privacy unit, whose column is not left out.
    """
    if domain.restricted:
        return ""
    if source.has_dialect and all(name.isdecimal() for name in domain.names):
        # Numbers may also be a record of a file without a header.
        return ""
    held: list[str] = []
    # The draws do not need the names, so an error here must not cost the release.
    with suppress(Exception):
        held = source.names()
    known = {*domain.columns, *domain.names, *(() if unit is None else (unit.column,))}
    # A column that looks like a name that none has is read as that.
    known.update(alike_columns(held, [*known]).values())
    others = [name for name in held if name not in known]
    left_out = [one_line(name) for name in others if one_line(name) and not _INDEX.fullmatch(name)]
    remarks = [_named(left_out)] if left_out else []
    if unnamed := len(others) - len(left_out):
        remarks.append(
            "Columns of the private table without a name, such as an index that pandas stored, are"
            f" left out ({unnamed}): to keep them, name them in both tables."
        )
    return " ".join(remarks)


def _named(left_out: list[str]) -> str:
    more = f" and {len(left_out) - _NAMED} more" if len(left_out) > _NAMED else ""
    return (
        "The release leaves out columns of the private table that the domain does not have:"
        f" {', '.join(left_out[:_NAMED])}{more}. To keep one, add it to the public table, or"
        " declare it in the domain."
    )
