"""Decoding: from codes to values that people recognise."""

from __future__ import annotations

from typing import Any

import numpy as np

from jam_dagster.common.deferred import pd
from jam_dagster.tables.codes.table import EncodedTable
from jam_dagster.tables.codes.unique_rows import draw_unique
from jam_dagster.tables.codes.within_bins import DrawnNumbers, put_in_order
from jam_dagster.tables.codes.within_formula import put_by_formula
from jam_dagster.tables.codes.within_roots import Kin, Room
from jam_dagster.tables.domain.binned import BinnedAttribute
from jam_dagster.tables.domain.columns import numbers_of
from jam_dagster.tables.domain.constraints import sorted_orders
from jam_dagster.tables.domain.derived import with_derived


def decode(
    encoded: EncodedTable,
    rng: np.random.Generator,
    *,
    before: int = 0,
    kin: Kin | None = None,
    room: Room | None = None,
) -> pd.DataFrame:
    """Decode codes to values; ``encode(decode(x)) == x`` unless `x` has unreadable ones.

    These are decoded to missing ones.

    A number is drawn uniformly from its bin (among the integers, or the numbers with the declared
    decimals), or from what the attribute says of it in `within`, and again if it would break an
    order or a formula, or repeat what no two rows share. Derived columns are computed from the
    others. Columns, their order and their dtypes are the domain's.

    Parameters
    ----------
    encoded
        Codes.
    rng
        Draws the numbers within the bins, and random keys.
    before
        Number of rows of the table that come before, by which rows are numbered.
    kin
        The roots of the rows, if these are children.
    room
        The numbers that children leave to them, if the rows are roots.

    Returns
    -------
    DataFrame of as many rows as there are records, in their order.
    """
    domain = encoded.domain
    orders, unique = domain.orders, domain.unique
    if kin is not None:
        orders, unique = sorted_orders((*orders, *kin.orders)), (*unique, *kin.two.unique)
    given = {} if kin is None else kin.given
    if room is not None:
        orders, given = sorted_orders((*orders, *room.orders)), room.given
    together = {name for one in orders for name in one.attributes}
    together |= {name for one in domain.formulas for name in one.attributes}
    codes_of = dict(zip(domain.names, encoded.columns, strict=True))
    columns: dict[str, pd.Series[Any]] = {}
    drawn: dict[str, DrawnNumbers] = {}
    alone: dict[str, DrawnNumbers] = {}
    differ = {name for one in unique for name in one.attributes}
    timed: list[DrawnNumbers] = []
    for attribute in domain.attributes:
        codes = codes_of[attribute.name]
        if not isinstance(attribute, BinnedAttribute):
            points = attribute.points_of(codes, rng)
            missing = np.isin(codes, attribute.missing_codes)
            columns[attribute.name] = attribute.column_of(points, missing)
            continue
        numbers = DrawnNumbers.draw(attribute, codes, rng)
        if attribute.hour_from is not None:
            timed.append(numbers)
        elif attribute.name in together:
            drawn[attribute.name] = numbers
        else:
            columns[attribute.name] = numbers.column
            if attribute.name in differ:
                alone[attribute.name] = numbers
    put_in_order({**drawn, **given}, orders, rng)
    for one in domain.formulas:
        put_by_formula(domain, codes_of, one, drawn, rng)
    columns |= {name: numbers.column for name, numbers in drawn.items()}
    for numbers in timed:
        time = numbers.attribute
        hours = numbers_of(columns[str(time.hour_from)])
        numbers.points = time.at_hours(numbers.points, hours)
        columns[time.name] = numbers.column
        alone[time.name] = numbers
    if kin is not None:
        columns[kin.two.link.column] = pd.Series(kin.owners)
    for rule in unique:
        draw_unique(columns, alone, rule, rng)
    if kin is not None:
        del columns[kin.two.link.column]
    made = pd.DataFrame(columns)
    return with_derived(made, domain.plan, list(domain.columns), rng, before, domain.formats)
