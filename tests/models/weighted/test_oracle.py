"""The record that satisfies most of some queries, by hand and beside all records."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from jam_dagster.models.weighted.oracle import SLACK, BestRecords, CellQuery

# Places of the values of a, b and c, two of each.
TWICE, NOT_ONE = CellQuery((0, 2)), CellQuery((5,), negated=True)
QUERIES = {TWICE: 2.0, NOT_ONE: 1.0}


@pytest.mark.parametrize(
    ("bonus", "record", "worth"),
    [
        ([0, 0, 0, 0, 0, 0], (0, 0, 0), 3.0),
        # Noise of 5 on the first value of c: 3 - 5 is less than 2.
        ([0, 0, 0, 0, -5, 0], (0, 0, 1), 2.0),
    ],
)
def test_records_by_hand(bonus: list[float], record: tuple[int, int, int], worth: float) -> None:
    programs = BestRecords((2, 2, 2), QUERIES, np.array([bonus], float))
    found = programs.solve()
    assert tuple(found[0]) == record
    assert programs.worth(found) == pytest.approx([worth])
    assert programs.slack == pytest.approx(3 * SLACK)


def test_the_best_of_all_records_is_found() -> None:
    shape = (3, 2, 4)
    rng = np.random.default_rng(1)
    for _ in range(6):
        queries: dict[CellQuery, float] = {}
        for _ in range(12):
            axes = np.flatnonzero(rng.random(3) < 0.7)
            starts = np.cumsum([0, *shape])
            columns = tuple(int(starts[axis] + rng.integers(shape[axis])) for axis in axes)
            if columns:
                queries[CellQuery(columns, bool(rng.random() < 0.4))] = float(rng.integers(1, 4))
        bonuses = rng.random((2, 9)) * 0.1
        programs = BestRecords(shape, queries, bonuses)
        every = np.array(list(product(*map(range, shape))))
        for found, bonus in zip(programs.solve(), bonuses, strict=True):
            alone = BestRecords(shape, queries, np.tile(bonus, (len(every), 1)))
            assert tuple(found) == tuple(every[np.argmax(alone.worth(every))])


def test_without_a_query_the_bonuses_decide() -> None:
    programs = BestRecords((2, 3), {}, np.array([[0.1, 0.2, 0.3, 0.9, 0.1], [0.5, 0, 0, 0, 1]]))
    assert programs.solve().tolist() == [[1, 1], [0, 2]]


def test_many_queries_end_within_their_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is found then is a record, if not the best."""
    monkeypatch.setattr("jam_dagster.models.weighted.oracle.NODES", 0)
    rng = np.random.default_rng(0)
    queries = {
        CellQuery((int(a), 4 + int(b), 8 + int(c)), bool(negated)): 1.0
        for a, b, c, negated in rng.integers([4, 4, 4, 2], size=(60, 4))
    }
    (found,) = BestRecords((4, 4, 4), queries, rng.random((1, 12))).solve()
    assert ((found >= 0) & (found < 4)).all()
