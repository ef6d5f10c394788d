from decimal import Decimal

import numpy as np
import pytest

from jam_dagster.errors import DomainError
from jam_dagster.tables import CategoricalAttribute, NumericAttribute
from jam_dagster.tables.domain.numeric import equal_width_edges
from jam_dagster.tables.domain.values import text_of


def test_null_cell_is_the_last():
    attribute = CategoricalAttribute("a", ("x", "y"), nullable=True)
    assert (attribute.size, attribute.null_code) == (3, 2)
    assert attribute.labels == ("x", "y", "(null)")
    numeric = NumericAttribute("n", (0, 1, 2), nullable=True)
    assert (numeric.size, numeric.null_code) == (3, 2)
    assert numeric.labels == ("[0, 1)", "[1, 2]", "(null)")


@pytest.mark.parametrize(
    ("one", "another", "same"),
    [
        (1, 1.0, True),
        (1, "1", True),
        (1, True, False),
        (0, False, False),
        (np.int8(3), "3", True),
        (True, np.bool_(True), True),
        ("a", "a ", False),
        (0.5, "0.5", True),
        (1e300, "1e+300", True),
    ],
)
def test_values_are_the_same_where_their_texts_are(one, another, same):
    assert (text_of(one) == text_of(another)) is same


@pytest.mark.parametrize(
    ("values", "nullable", "dtype"),
    [
        (("a", "b"), True, "str"),
        ((True, False), False, "bool"),
        ((True, False), True, "boolean"),
        ((1, 2), False, "int64"),
        ((1, 2), True, "Int64"),
        ((1, 2.5), True, "float64"),
        ((1, "a"), False, "str"),
    ],
)
def test_dtype_is_inferred_from_values(values, nullable, dtype):
    assert CategoricalAttribute("a", values, nullable=nullable).dtype == dtype


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"values": ()}, "no values"),
        ({"values": ("1", 1)}, "twice"),
        ({"values": ("a",), "other": "b"}, "not one of its values"),
        ({"values": ("a", None)}, "nullable"),
        ({"values": (1.0, float("nan"))}, "finite"),
        ({"values": ("a",), "dtype": "int64"}, "cannot be decoded"),
        ({"values": (1, 2), "dtype": "int64", "nullable": True}, "'Int64'"),
        ({"values": (1, 2), "dtype": "uint8", "nullable": True}, "'UInt8'"),
        ({"values": (1, 300), "dtype": "int8"}, "changes"),
        ({"values": (2**70,)}, "changes"),
        ({"values": (0.1,), "dtype": "float32"}, "changes"),
        ({"values": ("\ud800",)}, "text"),
        ({"values": ("a",), "name": ""}, "non-empty"),
    ],
)
def test_categorical_declarations_that_are_refused(arguments, message):
    with pytest.raises(DomainError, match=message):
        CategoricalAttribute(**{"name": "a", **arguments})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"edges": (1,)}, "increasing"),
        ({"edges": (1, 1)}, "increasing"),
        ({"edges": (2, 1)}, "increasing"),
        ({"edges": (0, float("inf"))}, "finite"),
        ({"edges": (0, "1")}, "finite"),
        ({"edges": (False, True)}, "finite"),
        ({"edges": (0, 0.2, 0.8, 2), "integer": True}, "bin 1 .* an integer"),
        ({"edges": (0.5, 0.7), "integer": True}, "bin 0"),
        ({"edges": (0, 0.01, 0.02), "decimals": 1}, "bin 1 .* 1 decimals"),
        ({"edges": (1.0, 1.0 + 1e-12, 2.0), "dtype": "float32", "decimals": None}, None),
        ({"edges": (1 + 1e-12, 1 + 2e-12), "dtype": "float32"}, "float32 number"),
        ({"edges": (0, 1), "integer": True, "decimals": 2}, "remove one"),
        ({"edges": (0, 1), "decimals": 99}, "0 to 15"),
        ({"edges": (0, 2**64), "integer": True}, "too large"),
        ({"edges": (0, 300), "integer": True, "dtype": "uint8"}, "do not fit"),
        ({"edges": (-1, 3), "integer": True, "dtype": "UInt8"}, "do not fit"),
        ({"edges": (0, 1), "dtype": "int64"}, "cannot be decoded"),
        ({"edges": (0, 1), "integer": True, "nullable": True, "dtype": "int32"}, "'Int32'"),
    ],
)
def test_numeric_declarations_that_are_refused(arguments, message):
    if message is None:
        assert NumericAttribute("n", **arguments).bins == 2
        return
    with pytest.raises(DomainError, match=message):
        NumericAttribute("n", **arguments)


def test_the_last_bin_alone_is_closed():
    attribute = NumericAttribute("n", (0, 10, 20), integer=True)
    low, high = attribute.bin_limits
    assert low.tolist() == [0, 10]
    assert high.tolist() == [9, 20]
    assert attribute.labels == ("0 to 9", "10 to 20")


def test_decimals_are_judged_by_the_float_that_the_value_becomes():
    # 0.29 * 100 is 28.999999999999996 in floating point.
    attribute = NumericAttribute("n", (0.28, 0.29, 0.30), decimals=2)
    assert attribute.labels == ("0.28", "0.29 to 0.30")
    assert attribute.grid_limits[0].tolist() == [28, 29]


@pytest.mark.parametrize("bins", [1, 2, 7, 32, 33])
@pytest.mark.parametrize("low", [-50, 0, 1_000_000])
def test_as_many_bins_as_integers_hold_one_each(low, bins):
    edges = equal_width_edges(low, low + bins - 1, bins)
    lower, upper = NumericAttribute("n", edges, integer=True).bin_limits
    assert lower.tolist() == upper.tolist() == list(range(low, low + bins))


def test_equal_width_edges_are_the_decimals_that_a_table_holds():
    assert equal_width_edges(0.1, 0.5, 4) == (0.1, 0.2, 0.3, 0.4, 0.5)


def test_minus_zero_is_zero():
    one, another = NumericAttribute("n", (-0.0, 1)), NumericAttribute("n", (0, 1))
    assert one == another
    assert str(one.edges[0]) == "0.0"


def test_labels_stay_apart_where_edges_are_close():
    labels = NumericAttribute("n", (1.0, 1.0 + 1e-10, 1.0 + 2e-10)).labels
    assert len(set(labels)) == 2


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ("01", 3),
        ("1", 0),
        (" 1.0 ", 0),
        ("001", 0),
        ("2.50", 1),
        ("25e-1", 1),
        ("TRUE", 2),
        (True, 2),
        ("1e16", 4),
        (1e16, 4),
        (10**16 + 1, None),
        ("10000000000000001", None),
        ("yes", None),
        ("nan", None),
        ("9" * 5000, None),
        (Decimal("2.50"), 1),
        (Decimal("NaN"), None),
        (Decimal("-Infinity"), None),
    ],
)
def test_a_text_is_first_itself_and_then_the_number_or_boolean_it_writes(value, code):
    attribute = CategoricalAttribute("a", (1, 2.5, True, "01", 10**16), dtype="object")
    assert attribute.code_of(value) == code
    # A text is no number.
    texts = CategoricalAttribute("a", ("1", "2.5", "True", "01"))
    assert texts.code_of("1.0") is None
    assert texts.code_of("TRUE") == 2


def test_a_text_is_the_only_one_that_it_looks_like():
    attribute = CategoricalAttribute("a", ("K\u00f6ln", "z", "Z", "ss", "other", 3), dtype="object")
    for text in ("Ko\u0308ln", " K\u00f6ln\t", "k\u00f6ln", "KO\u0308LN", "K\u200b\u00f6ln\ufeff"):
        assert attribute.code_of(text) == 0, text
    # Two look like one, and each is itself alone.
    assert [attribute.code_of(text) for text in ("z", "Z", " z")] == [1, 2, None]
    assert attribute.code_of("\u00df") == 3
    assert attribute.code_of("Koln") is None
    with_other = CategoricalAttribute("a", ("x", "rest"), other="rest")
    assert [with_other.code_of(text) for text in ("X ", "y", "Rest")] == [0, 1, 1]
    # Values that were bought never match by case.
    bought = CategoricalAttribute("a", ("x",), alike=True)
    assert [bought.code_of(text) for text in (" x", "X")] == [0, None]


BOOLEANS = [(True, False), (1, 0), (1.0, 0.0), ("t", "f"), ("Yes", "No"), ("1.0", "0.0")]


@pytest.mark.parametrize("values", BOOLEANS)
def test_two_values_of_a_boolean_take_every_spelling_of_one(values):
    attribute = CategoricalAttribute("a", values)
    for true, false in (
        *((True, False), (np.True_, np.False_), ("TRUE", "false"), ("T", "f"), ("y", "N")),
        *(("yes", "NO"), (" on", "off "), (1, 0), (1.0, np.int8(0)), ("1", "0"), ("1.0", "0.00")),
        (Decimal("1.0"), Decimal("-0")),
    ):
        assert (attribute.code_of(true), attribute.code_of(false)) == (0, 1), (true, false)
    assert attribute.code_of("2") is attribute.code_of("") is attribute.code_of("truth") is None
    # Other values next to them have meanings of their own.
    assert CategoricalAttribute("a", (*values, 2.0), dtype="object").code_of("on") is None
    assert CategoricalAttribute("a", values, other=values[0]).code_of("on") == 0
