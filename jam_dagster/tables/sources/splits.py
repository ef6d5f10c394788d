"""Splits of a table into a private part and a biased public sample, as in the JAM paper."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from jam_dagster.common.deferred import pd
from jam_dagster.errors import InputError, SpecificationError
from jam_dagster.tables.domain.categorical import CategoricalAttribute
from jam_dagster.tables.domain.columns import each_value
from jam_dagster.tables.domain.values import Value

Indices = npt.NDArray[np.intp]


def stratified_split(
    table: pd.DataFrame,
    *,
    by: str,
    value: Value,
    public_share: float,
    public_rows: float,
    private_share: float | None = None,
    private_rows: int | None = None,
    seed: int,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Split a table into a private part and a public sample with a given share of one value.

    This is the JAM paper's variable stratification: public data differ from private data in the
    share of one value of one attribute, such as a quarter of women in place of a third. It is for
    experiments: the sampled rows count as public.

    Parameters
    ----------
    table
        One row a record.
    by, value
        The column, and the value with a fixed share.
    public_share
        Share of the public rows that have `value`, from 0 to 1.
    public_rows
        Number of public rows (1 or more), or their fraction of the table (below 1).
    private_share
        Share of the private rows that have `value`; surplus rows of the other kind are dropped at
        random. None: all rows that are not public are private.
    private_rows
        Number of private rows to keep, at random, with that share. None: all.
    seed
        Fixes the drawn rows.

    Returns
    -------
    private, public
        Two tables without a row in common, each in the table's order, indexed from 0.

    Raises
    ------
    SpecificationError
        A share or a number of rows out of range.
    InputError
        The table has no such column, or too few rows of one kind. No message holds a value of
        the table or a count.
    """
    check_split(public_share, public_rows, private_share)
    check_column(table, by)
    rng = np.random.default_rng(seed)
    size = round(public_rows * len(table)) if public_rows < 1 else int(public_rows)
    wanted = CategoricalAttribute(by, (value,))
    # Compared as encoding compares, so that 1 finds "1.0" and True finds "TRUE".
    matches = each_value(table[by], lambda one: wanted.code_of(one) == 0, False).astype(bool)
    with_value, without = np.flatnonzero(matches), np.flatnonzero(~matches)
    public_with = round(size * public_share)
    if size < 1 or public_with > len(with_value) or size - public_with > len(without):
        raise InputError(
            f"the table has too few rows with {by} = {value!r}, or too few without, for the public"
            " sample: lower public_rows or change public_share"
        )
    with_value, without = rng.permutation(with_value), rng.permutation(without)
    public = np.concatenate([with_value[:public_with], without[: size - public_with]])
    with_value, without = with_value[public_with:], without[size - public_with :]
    if private_share is not None:
        with_value, without = _balanced(with_value, without, private_share)
    private = np.concatenate([with_value, without])
    if private_rows is not None:
        if private_rows > len(private):
            raise InputError(
                f"fewer private rows are left with that share of {by} = {value!r} than"
                " private_rows asks for: lower it, or public_rows"
            )
        share = len(with_value) / len(private) if private_share is None else private_share
        first = round(share * private_rows)
        private = np.concatenate([with_value[:first], without[: private_rows - first]])
    if not len(private):
        raise InputError(
            f"no private row is left with that share of {by} = {value!r}: lower public_rows or"
            " change private_share"
        )
    return _rows(table, private), _rows(table, public)


def check_column(table: pd.DataFrame, by: str) -> None:
    """Raise InputError unless the table has the split's column exactly once."""
    if list(table.columns).count(by) != 1:
        raise InputError(f"the table to split needs one column {by!r}: check the name")


def check_split(public_share: float, public_rows: float, private_share: float | None) -> None:
    """Raise SpecificationError if a parameter of `stratified_split` is out of range."""
    for name, share in (("public_share", public_share), ("private_share", private_share)):
        if share is not None and not 0 <= share <= 1:
            raise SpecificationError(f"{name} must be from 0 to 1, got {share!r}")
    if not public_rows > 0 or (public_rows >= 1 and public_rows != int(public_rows)):
        raise SpecificationError(
            "public_rows must be a number of rows (1 or more) or a fraction (below 1),"
            f" got {public_rows!r}"
        )


def _rows(table: pd.DataFrame, chosen: Indices) -> pd.DataFrame:
    return table.iloc[np.sort(chosen)].reset_index(drop=True)


def _balanced(with_value: Indices, without: Indices, share: float) -> tuple[Indices, Indices]:
    """Drop surplus rows of a kind until the share holds (to the nearest row)."""
    keep_with, keep_without = float(len(with_value)), float(len(without))
    if share < 1:
        keep_with = min(keep_with, keep_without * share / (1 - share))
    if share > 0:
        keep_without = min(keep_without, keep_with * (1 - share) / share)
    return with_value[: round(keep_with)], without[: round(keep_without)]
