import numpy as np

from jam_dagster.tables import Domain, EncodedTable
from jam_dagster.tables.codes import repair
from jam_dagster.tables.codes.repair import repaired

ATTRIBUTES = {
    "a": {"values": ["x", "y", "other"], "other": "other", "nullable": True},
    "b": {"values": ["u", "v"], "nullable": True},
    "n": {"bounds": [0, 3], "integer": True},
    "m": {"bounds": [0, 3], "integer": True},
}


def records(rows, **content):
    domain = Domain.from_dict({"attributes": ATTRIBUTES} | content)
    codes = np.array([row for row, times in rows.items() for _ in range(times)])
    return EncodedTable(domain, tuple(codes.T))


def rows_of(table):
    found, times = np.unique(np.stack(table.columns, axis=1), axis=0, return_counts=True)
    return dict(zip(map(tuple, found.tolist()), times.tolist(), strict=True))


def test_without_repairs_nothing_is_drawn():
    rng = np.random.default_rng(0)
    table = records({(0, 0, 0, 0): 3})
    assert repaired(table, rng) is table
    assert rng.random() == np.random.default_rng(0).random()


def test_a_rare_missing_value_is_drawn_anew_and_a_frequent_one_stays():
    rules = {"repairs": [{"not_null": ["a", "b"]}]}
    table = records({(3, 0, 0, 0): 5, (0, 2, 0, 0): 50, (1, 0, 0, 0): 945}, **rules)
    after = rows_of(repaired(table, np.random.default_rng(0)))
    assert not [row for row in after if row[0] == 3]
    assert after[0, 2, 0, 0] == 50
    # Nobody has the value that no row has.
    assert sum(times for row, times in after.items() if row[0] == 2) == 0


def test_of_a_row_that_breaks_a_repair_one_cell_changes_to_what_others_have():
    rules = {"repairs": [{"combinations": [{"a": "x", "b": "u"}, {"a": ["y", "other"]}]}, "n <= m"]}
    table = records(
        {(0, 0, 1, 1): 500, (1, 1, 1, 2): 494, (0, 1, 1, 1): 6, (3, 1, 3, 2): 1}, **rules
    )
    after = repaired(table, np.random.default_rng(0))
    assert (after.column("n") <= after.column("m")).all()
    changed = [
        (before != now).astype(int)
        for before, now in zip(table.columns, after.columns, strict=True)
    ]
    assert np.unique(sum(changed)).tolist() == [0, 1]
    assert sum(changed)[:994].sum() == 0
    rows = rows_of(after)
    assert (0, 1, 1, 1) not in rows
    # A missing value breaks no combination.
    assert sum(times for row, times in rows.items() if row[0] == 3) == 1
    assert rows == rows_of(repaired(table, np.random.default_rng(0)))


def test_a_repair_breaks_nothing_that_cannot_be():
    rules = {
        "repairs": [{"not_null": ["b"]}],
        "impossible": [{"a": "x", "b": "u"}],
        "constraints": [{"combinations": [{"b": "v"}, {"b": "u", "n": 0}]}],
    }
    rows = {(0, 2, 1, 0): 5, (1, 0, 0, 0): 900, (0, 1, 0, 0): 95}
    after = repaired(records(rows, **rules), np.random.default_rng(0))
    assert not any((row[0], row[1]) == (0, 0) for row in rows_of(after))
    assert not any(row[1] == 0 and row[2] for row in rows_of(after))


def test_work_is_bounded(monkeypatch):
    monkeypatch.setattr(repair, "_MOST_WORK", 4)
    table = records({(3, 0, 0, 0): 1, (0, 0, 0, 0): 999}, repairs=[{"not_null": ["a"]}])
    assert rows_of(repaired(table, np.random.default_rng(0))) == {(0, 0, 0, 0): 1000}
    table = records({(0, 0, 3, 2): 1, (0, 0, 0, 0): 999}, repairs=["n <= m"])
    assert repaired(table, np.random.default_rng(0)).column("n").max() == 3
