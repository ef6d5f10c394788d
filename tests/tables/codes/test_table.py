import numpy as np
import pandas as pd
import pytest

from jam_dagster.errors import InputError, OutsideDomainError
from jam_dagster.tables import Domain, EncodedTable
from jam_dagster.tables.codes.table import digest_of


def random_table(sizes, rows, seed=0):
    rng = np.random.default_rng(seed)
    domain = Domain.from_sizes(sizes)
    return EncodedTable(domain, tuple(rng.integers(0, size, rows) for size in domain.shape))


def test_columns_take_the_smallest_type_and_are_read_only():
    table = random_table({"a": 2, "b": 256, "c": 257, "d": 70_000}, rows=10)
    assert [str(column.dtype) for column in table.columns] == ["uint8", "uint8", "uint16", "uint32"]
    with pytest.raises(ValueError, match="read-only"):
        table.columns[0][0] = 1


def test_the_caller_keeps_an_array_to_write_to():
    codes = np.zeros(3, dtype=np.uint8)
    EncodedTable(Domain.from_sizes({"a": 2}), (codes,))
    codes[0] = 1


@pytest.mark.parametrize(
    ("columns", "error", "message"),
    [
        (([0, 1],), InputError, "as many columns"),
        (([0, 1], [0]), InputError, "equally long"),
        (([0, 1], [0.0, 1.0]), InputError, "'b' must be a one-dimensional integer"),
        (([0, 1], [[0], [1]]), InputError, "'b' must be a one-dimensional integer"),
        (([0, 2], [0, 1]), OutsideDomainError, "'a' must be in 0 to 1"),
        (([0, -1], [0, 1]), OutsideDomainError, "'a' must be in 0 to 1"),
    ],
)
def test_columns_that_are_refused(columns, error, message):
    with pytest.raises(error, match=message):
        EncodedTable(Domain.from_sizes({"a": 2, "b": 3}), tuple(map(np.array, columns)))


def test_frames_go_there_and_back():
    table = random_table({"b": 3, "a": 300}, rows=20)
    frame = table.to_frame()
    assert list(frame.columns) == ["b", "a"]
    shuffled = frame[["a", "b"]].assign(extra="x", b=frame["b"].astype("Int64"))
    again = EncodedTable.from_frame(table.domain, shuffled)
    assert all(map(np.array_equal, table.columns, again.columns))


@pytest.mark.parametrize(
    ("frame", "error", "message"),
    [
        (pd.DataFrame({"a": [0]}), InputError, "no column 'b'"),
        (pd.DataFrame([[0, 0, 1]], columns=["a", "b", "b"]), InputError, "'b' twice"),
        (pd.DataFrame({"a": [0], "b": [0.0]}), InputError, "'b' .* integers"),
        (pd.DataFrame({"a": [0], "b": [True]}), InputError, "'b' .* integers"),
        (
            pd.DataFrame({"a": [0], "b": pd.array([None], dtype="Int64")}),
            InputError,
            "'b' .* integers",
        ),
        (pd.DataFrame({"a": [0], "b": [7]}), OutsideDomainError, "'b' must be in 0 to 2"),
    ],
)
def test_frames_that_are_refused(frame, error, message):
    with pytest.raises(error, match=message):
        EncodedTable.from_frame(Domain.from_sizes({"a": 2, "b": 3}), frame)


def test_take_by_indices_and_by_mask():
    table = random_table({"a": 5}, rows=6)
    assert table.take([5, 0]).columns[0].tolist() == table.columns[0][[5, 0]].tolist()
    mask = np.arange(6) % 2 == 0
    assert table.take(mask).records == 3
    assert table.take([]).records == 0


def test_a_digest_tells_which_table_has_which_column():
    codes = np.zeros(4, dtype=np.uint8)
    domain = Domain.from_sizes({"a": 2, "b": 2, "c": 2})

    def table(*names):
        return EncodedTable(domain.project(names), tuple(codes for _ in names))

    made = [
        {"": table("a", "b", "c")},
        {"one": table("a", "b"), "two": table("c")},
        {"one": table("a"), "two": table("b", "c")},
        {"two": table("a", "b"), "one": table("c")},
    ]
    assert len({digest_of(tables) for tables in made}) == 4
