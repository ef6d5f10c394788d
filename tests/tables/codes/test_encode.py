import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jam_dagster.errors import DomainError, InputError, OutsideDomainError, PrivateValuesError
from jam_dagster.tables import (
    CategoricalAttribute,
    Domain,
    EncodedTable,
    NumericAttribute,
    decode,
    encode,
)
from jam_dagster.tables.codes.encode import each_encoded
from jam_dagster.tables.domain.values import held_as
from tests.examples import examples


def codes(attribute, values, **options):
    column = values if isinstance(values, pd.Series) else pd.Series(values)
    return (
        encode(pd.DataFrame({attribute.name: column}), Domain((attribute,)), **options)
        .columns[0]
        .tolist()
    )


@examples(40)
@given(st.from_type(EncodedTable), st.integers(0, 2**32))
def test_encode_undoes_decode(table, seed):
    frame = decode(table, np.random.default_rng(seed))
    again = encode(frame, table.domain)
    assert all(map(np.array_equal, table.columns, again.columns))
    assert list(frame.columns) == list(table.domain.names)
    for attribute, codes in zip(table.domain.attributes, table.columns, strict=True):
        column = frame[attribute.name]
        assert str(column.dtype) == attribute.dtype
        assert column.isna().tolist() == (codes == attribute.null_code).tolist()
        values = column.dropna()
        if isinstance(attribute, CategoricalAttribute):
            assert set(values) <= set(held_as(attribute.listed, attribute.dtype))
        elif attribute.scale is not None:
            numbers = values.astype(float)
            assert (numbers == numbers.round(attribute.decimals or 0)).all()


TEXTS = ("str", "string", "object", "category")
NUMBERS = ("Float32", "Float64", "float32", "float64", "Int8", "UInt16")


@pytest.mark.parametrize("dtype", [*TEXTS, *NUMBERS])
def test_values_decode_to_the_declared_dtype(dtype):
    attribute = CategoricalAttribute(
        "a", ("x", "y"), nullable=True, dtype=dtype if dtype in TEXTS else None
    )
    if dtype in NUMBERS:
        whole = "nt" in dtype
        attribute = NumericAttribute("a", (0, 10, 100), integer=whole, nullable=True, dtype=dtype)
    table = EncodedTable(Domain((attribute,)), (np.array([1, 2, 0]),))
    column = decode(table, np.random.default_rng(0))["a"]
    assert str(column.dtype) == dtype
    assert column.isna().tolist() == [False, True, False]
    assert codes(attribute, column) == [1, 2, 0]


def test_numbers_are_uniform_within_their_bin():
    attribute = NumericAttribute("n", (0, 4, 10), integer=True)
    table = EncodedTable(Domain((attribute,)), (np.repeat([0, 1], [4000, 7000]),))
    counts = decode(table, np.random.default_rng(7))["n"].value_counts().sort_index()
    assert counts.index.tolist() == list(range(11))
    # 1,000 expected of each: six standard deviations are 182, passed with chance below 1e-7.
    assert counts.between(818, 1182).all()


def test_reals_are_uniform_within_their_bin():
    attribute = NumericAttribute("n", (-1.0, 3.0))
    table = EncodedTable(Domain((attribute,)), (np.zeros(10_000, dtype=int),))
    values = decode(table, np.random.default_rng(7))["n"]
    # Standard error of the mean 4 / sqrt(12 * 10,000); six of them.
    assert abs(values.mean() - 1.0) < 6 * 4 / np.sqrt(120_000)
    assert values.min() < -0.99
    assert values.max() > 2.99


@pytest.mark.parametrize("edges", [(-1.7e308, 1.7e308), (1 / 3, 1 / 3 + 2**-54, 0.5)])
def test_numbers_stay_in_bins_that_are_huge_or_tiny(edges):
    attribute = NumericAttribute("n", edges)
    drawn = np.arange(2000) % attribute.bins
    table = EncodedTable(Domain((attribute,)), (drawn,))
    values = decode(table, np.random.default_rng(7))["n"]
    assert np.isfinite(values).all()
    assert codes(attribute, values) == drawn.tolist()


def test_the_last_bin_is_closed_and_the_others_are_not():
    attribute = NumericAttribute("n", (0, 1, 2))
    assert codes(attribute, [0.0, 0.999, 1.0, 2.0]) == [0, 0, 1, 1]


def test_clipping_takes_infinity_and_fractions():
    attribute = NumericAttribute("n", (0, 10, 20), integer=True, clip=True)
    assert codes(attribute, [-np.inf, -1, 9.5, 10.2, 21, np.inf]) == [0, 0, 0, 1, 1, 1]


@pytest.mark.parametrize(
    "column",
    [
        pd.Series([1, 2, 1]),
        pd.Series([1.0, 2.0, 1.0]),
        pd.Series(["1", "2", "1"]),
        pd.Series(["1", "2", "1"], dtype="category"),
        pd.Series([1, 2, 1], dtype="category"),
        pd.Series([1, "2", 1.0], dtype=object),
        pd.Series([Decimal(1), Decimal(2), Decimal("1.0")], dtype=object),
        pd.Series([1, 2, 1], dtype="Int8"),
        pd.Series([1, 2, 1], dtype="int64[pyarrow]"),
        pd.Series(["1", "2", "1"], dtype="string[pyarrow]"),
    ],
)
def test_a_value_is_the_same_however_the_reader_stored_it(column):
    for listed in ((1, 2), ("1", "2"), (1.0, 2.0)):
        assert codes(CategoricalAttribute("a", listed), column) == [0, 1, 0]
    assert codes(NumericAttribute("a", (1, 2, 3), integer=True), column) == [0, 1, 0]


@pytest.mark.parametrize(
    "column",
    [
        pd.Series(["x", None]),
        pd.Series(["x", np.nan], dtype=object),
        pd.Series(["x", pd.NA], dtype="string"),
        pd.Series(["x", None], dtype="category"),
        pd.Series(["x", pd.NaT], dtype=object),
        pd.Series([0.5, np.nan]),
        pd.Series([0.5, None], dtype=object),
        pd.Series([0.5, pd.NA], dtype="Float64"),
        pd.Series(["0.5", None]),
        pd.Series([0.5, None], dtype="category"),
        pd.Series([0, None], dtype="category"),
    ],
)
def test_every_kind_of_missing_value_is_null(column):
    attribute = NumericAttribute("a", (0, 1), nullable=True)
    if column[0] == "x":
        attribute = CategoricalAttribute("a", ("x",), nullable=True)
    assert codes(attribute, column) == [0, 1]


def test_booleans_are_numbers_only_where_nothing_else_is_listed():
    mixed = pd.Series([True, 1, "True", False], dtype=object)
    assert codes(CategoricalAttribute("a", (True, False)), mixed) == [0, 0, 0, 1]
    with pytest.raises(PrivateValuesError):
        codes(CategoricalAttribute("a", (True, False, "x"), dtype="object"), mixed)
    assert codes(CategoricalAttribute("a", (True, False, 1)), mixed) == [0, 2, 0, 1]
    for booleans in (pd.Series([True, False]), pd.Series([True, False], dtype="boolean")):
        with pytest.raises(DomainError, match="dtype bool"):
            codes(NumericAttribute("n", (0, 1)), booleans)
    with pytest.raises(OutsideDomainError, match=r"1 of 2 rows \(True\)"):
        codes(NumericAttribute("n", (0, 1)), pd.Series([True, 0], dtype=object), private=False)


def test_a_column_is_the_only_one_whose_name_looks_like_an_attribute():
    domain = Domain((CategoricalAttribute("Gr\u00f6\u00dfe", ("x", "y")),))

    def coded_in(*names):
        table = pd.DataFrame([["y"] * len(names)], columns=list(names))
        batches = [pa.RecordBatch.from_pandas(table)]
        (by_batch,) = each_encoded(batches, domain)
        found = encode(table, domain)
        assert by_batch.columns[0].tolist() == found.columns[0].tolist()
        return found.columns[0].tolist()

    assert coded_in("Gro\u0308\u00dfe") == coded_in("other", " GR\u00d6SSE\u200b") == [1]
    with pytest.raises(DomainError, match="no column"):
        coded_in("gr\u00f6\u00dfe", "GR\u00d6\u00dfE")
    with pytest.raises(DomainError, match="no column"):
        coded_in("Grosse")
    two = Domain(tuple(CategoricalAttribute(name, ("x",)) for name in ("a", "A")))
    with pytest.raises(DomainError, match="no column 'A'"):
        encode(pd.DataFrame({"a": ["x"]}), two)


def test_other_takes_what_is_not_listed_and_null_stays_null():
    attribute = CategoricalAttribute("a", ("x", "rest"), nullable=True, other="rest")
    assert codes(attribute, ["x", "y", " x", None, "rest"]) == [0, 1, 0, 2, 1]


def test_extra_columns_and_the_order_of_columns_do_not_matter():
    domain = Domain.from_sizes({"a": 2, "b": 2})
    table = pd.DataFrame({"z": ["?"], "b": [0], "a": [1]})
    assert [column.tolist() for column in encode(table, domain).columns] == [[1], [0]]


INTEGER = NumericAttribute("n", (0, 10), integer=True)


@pytest.mark.parametrize(
    ("attribute", "values", "error", "message"),
    [
        (CategoricalAttribute("a", ("x",)), ["x", "y"], OutsideDomainError, "declare a value as"),
        (CategoricalAttribute("a", ("x",)), ["x", None], OutsideDomainError, "nullable"),
        (CategoricalAttribute("a", (True, False)), ["maybe"], OutsideDomainError, "in the domain"),
        (CategoricalAttribute("a", (1, 2)), [np.inf], OutsideDomainError, "not in the domain"),
        (INTEGER, [11], OutsideDomainError, "outside: clip"),
        (INTEGER, [np.inf], OutsideDomainError, "outside: clip"),
        (INTEGER, [-np.inf], OutsideDomainError, "outside: clip"),
        (INTEGER, [1.5], OutsideDomainError, "integer: false"),
        (INTEGER, [np.nan, 1], OutsideDomainError, "nullable"),
        (INTEGER, ["1", "many"], OutsideDomainError, "missing-value marker"),
        (INTEGER, ["1", "nan"], OutsideDomainError, "missing-value marker"),
        (INTEGER, [1j], DomainError, "complex128"),
        (INTEGER, [datetime.datetime(2024, 1, 31)], DomainError, "declare a `unit`"),
        (INTEGER, [datetime.date(2024, 1, 31)], OutsideDomainError, "holds other values"),
        (INTEGER, [[1, 2]], OutsideDomainError, "holds other values"),
    ],
)
def test_values_that_are_refused(attribute, values, error, message):
    with pytest.raises(error, match=message):
        codes(attribute, values, private=False)
    # The type of a whole column depends on no value.
    if error is DomainError:
        with pytest.raises(error, match=message):
            codes(attribute, values, private=True)
    else:
        with pytest.raises(PrivateValuesError):
            codes(attribute, values, private=True)


@pytest.mark.parametrize(
    ("table", "error", "message"),
    [
        (pd.DataFrame({"a": [0]}), DomainError, "the (private|public) table has no column 'b'"),
        (pd.DataFrame([[0, 0, 1]], columns=["a", "b", "b"]), DomainError, "'b' twice"),
        ({"a": [0], "b": [0]}, InputError, "needs a pandas DataFrame, got dict"),
    ],
)
def test_tables_that_are_refused(table, error, message):
    for private in (True, False):
        with pytest.raises(error, match=message):
            encode(table, Domain.from_sizes({"a": 2, "b": 2}), private=private)


@pytest.mark.parametrize("dtype", ["object", "str", "float64", "Int64"])
def test_whether_a_private_table_has_rows_is_not_told(dtype):
    domain = Domain((CategoricalAttribute("a", (1, 2)), NumericAttribute("b", (0, 10, 20))))
    table = pd.DataFrame({"a": [], "b": []}, dtype=dtype)
    assert encode(table, domain).records == 0
    with pytest.raises(InputError, match="no rows"):
        encode(table, domain, private=False)
    # Its columns are looked at, as those of any other.
    with pytest.raises(DomainError, match="the private table has no column 'b'"):
        encode(table[["a"]], domain)


def test_errors_of_public_tables_say_how_many_and_which():
    attribute = CategoricalAttribute("a", ("x",))
    with pytest.raises(OutsideDomainError, match=r"in 7 of 8 rows \('b', 'c', 'd', 'e', 'f', \.\."):
        codes(attribute, list("xbcdefgb"), private=False)
    with pytest.raises(DomainError, match=r"it has z, y"):
        encode(pd.DataFrame({"z": [1], "y": [1]}), Domain((attribute,)), private=False)


def test_impossible_rows_are_refused():
    domain = Domain.from_dict(
        {
            "attributes": {
                "age": {"edges": [0, 15, 90], "integer": True},
                "status": {"values": ["single", "married"]},
            },
            "impossible": [{"age": {"below": 15}, "status": "married"}],
        }
    )
    table = pd.DataFrame({"age": [3, 40], "status": ["single", "married"]})
    assert encode(table, domain).records == 2
    table["status"] = "married"
    words = r"impossible \(age below 15 and status married\)"
    with pytest.raises(PrivateValuesError):
        encode(table, domain)
    with pytest.raises(OutsideDomainError, match=r"in 1 of 2 rows .* " + words):
        encode(table, domain, private=False)
