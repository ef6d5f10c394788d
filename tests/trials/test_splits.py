"""Splits of one public table: two halves, one of which plays a table of any size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from jam_dagster.errors import InputError
from jam_dagster.tables import Domain, EncodedTable
from jam_dagster.trials.splits import RepeatedTable, Split, SplitFiles


def small_table(rows: int = 101) -> EncodedTable:
    rng = np.random.default_rng(1)
    attributes = {"a": {"values": ["x", "y"]}, "b": {"edges": [0, 1, 2, 3]}}
    domain = Domain.from_dict({"attributes": attributes})
    return EncodedTable(domain, (rng.integers(0, 2, rows), rng.integers(0, 3, rows)))


def whole(tables: Iterable[EncodedTable]) -> list[tuple[int, ...]]:
    frames = pd.concat([table.to_frame() for table in tables])
    return sorted(map(tuple, frames.to_numpy().tolist()))


def test_halves_hold_every_record_once() -> None:
    table = small_table()

    halves = Split.halves(table, 101, seed=3)

    assert isinstance(halves.private, RepeatedTable)
    assert halves.public is not None
    assert whole([halves.private.table, halves.public]) == whole([table])
    assert abs(halves.private.table.records - halves.public.records) == 1


def test_rows_in_neither_table_are_held_out_each_as_often_as_it_is_there_more(
    tmp_path: Path,
) -> None:
    table = small_table(200)
    order = np.random.default_rng(2).permutation(200)
    for name, rows in (("priv", order[:120]), ("pub", order[120:150]), ("more", order)):
        frame = pd.DataFrame(dict(zip("ab", table.take(rows).columns, strict=True)))
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    (tmp_path / "domain.json").write_text('{"a": 2, "b": 3}')
    texts = {name: str(tmp_path / f"{name}.csv") for name in ("priv", "pub", "more")}
    files = SplitFiles(
        "own",
        private=texts["priv"],
        public=texts["pub"],
        domain=str(tmp_path / "domain.json"),
        target="a",
        test=texts["more"],
    )
    split = files.load()

    assert split.target == "a"
    assert split.test is not None
    held = [tuple(row) for row in table.take(order[150:]).to_frame().to_numpy()]
    found = [tuple(row) for row in split.test.to_frame().to_numpy()]
    assert Counter(found) == Counter(held)
    # A table without any further row tests nothing.
    assert replace(files, test=texts["priv"]).load().test is None


def test_seeds_split_differently_and_repeat() -> None:
    table = small_table()
    first, again, other = (
        Split.halves(table, 300, seed).private.marginal(("a", "b")).tolist() for seed in (0, 0, 1)
    )
    assert first == again != other


@pytest.mark.parametrize("records", [1, 50, 51, 1000, 1033])
def test_a_half_plays_a_table_of_any_size(records: int) -> None:
    table = small_table(51)

    played = RepeatedTable.to(records, table, np.random.default_rng(0))

    counts = played.marginal(("a", "b"))
    assert played.records == records == counts.sum()
    assert counts.dtype.kind == "i"
    # Nothing but chance in which records come once more.
    expected = table.marginal(("a", "b")) * (records / 51)
    assert np.all(np.abs(counts - expected) <= table.marginal(("a", "b")))
    assert played.marginal(("a",)).tolist() == counts.sum(axis=1).tolist()
    assert played.take(np.arange(records)).marginal(("a", "b")).tolist() == counts.tolist()


def test_one_row_cannot_play_both_parts() -> None:
    with pytest.raises(InputError, match="fewer than two rows"):
        Split.halves(small_table(1), 10, seed=0)
