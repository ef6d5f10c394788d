import numpy as np
import pandas as pd
import pytest

from jam_dagster.errors import DomainError, InputError, SpecificationError
from jam_dagster.tables import Domain, EncodedTable, decode, draft_table, encode
from jam_dagster.tables.codes.repair import repaired
from jam_dagster.tables.domain.constraints import described
from jam_dagster.tables.domain.derived import broken_rows
from jam_dagster.tables.domain.formula import Formula

ROWS = 2000
ATTRIBUTES = {
    "a": {"edges": [0, 50, 100], "integer": True, "nullable": True},
    "b": {"edges": [0, 50, 100], "integer": True},
    "total": {"edges": [0, 50, 100, 150, 200], "integer": True, "nullable": True},
    "kind": {"values": ["x", "y"]},
}
TOTAL = {"formula": {"total": "a + b"}}


def domain(*entries, key="repairs", **more):
    return Domain.from_dict({"attributes": ATTRIBUTES | more, key: list(entries)})


def rows(made, **codes):
    given = {"a": 0, "b": 0, "total": 0, "kind": 0} | codes
    return EncodedTable(made, tuple(np.full(ROWS, given[name]) for name in made.names))


def assert_unchanged(encoded):
    fitted = repaired(encoded, np.random.default_rng(0))
    assert all(map(np.array_equal, fitted.columns, encoded.columns))


def test_the_file_form_is_kept_and_in_words():
    made = domain(TOTAL)
    assert made.repairs == (Formula("total", "a + b"),)
    assert made.to_dict()["repairs"] == [TOTAL]
    assert described(made, made.repairs) == ["total is a + b, where all are known"]
    assert made.digest != domain().digest
    assert [one.name for one in made.rules] == ["total"]


@pytest.mark.parametrize(
    ("entry", "error", "message"),
    [
        ({"formula": "a + b"}, SpecificationError, "map one attribute to an expression"),
        ({"formula": {"total": 7}}, SpecificationError, "must be a text"),
        ({"formula": {"total": "7"}}, DomainError, "must read other attributes"),
        ({"formula": {"total": "total + a"}}, DomainError, "must read other attributes"),
        ({"formula": {"total": "a + c"}}, InputError, "no attribute 'c'"),
        ({"formula": {"kind": "a + b"}}, DomainError, "declare edges or bounds"),
        ({"formula": {"total": "text(a)"}}, DomainError, "gives no number"),
        ({"formula": {"total": "a + kind"}}, DomainError, "between integer and text"),
        ({"formula": {"total": "("}}, DomainError, "'total'"),
    ],
)
def test_what_does_not_fit_is_refused(entry, error, message):
    with pytest.raises(error, match=message):
        domain(entry)


def test_one_cell_follows_from_one_rule():
    with pytest.raises(DomainError, match="an order are on 'a'"):
        domain(TOTAL, "a <= b")
    twice = {"formula": {"c": "b * 2"}}
    with pytest.raises(DomainError, match="another formula are on 'b'"):
        domain(TOTAL, twice, c={"bounds": [0, 200], "integer": True})
    with pytest.raises(DomainError, match="which no model keeps: move it to 'repairs'"):
        domain(TOTAL, key="constraints")
    with pytest.raises(DomainError, match="more than 20 formulas"):
        domain(*[TOTAL] * 21)


@pytest.mark.parametrize("total", [1, 2])
def test_numbers_are_drawn_so_that_the_formula_holds_in_their_bins(total):
    # Of 0 to 49 and 50 to 99 the sum is 50 to 148, in either of two bins.
    made = domain(TOTAL)
    encoded = rows(made, b=1, total=total)
    table = decode(encoded, np.random.default_rng(0))
    assert (table["a"] + table["b"] == table["total"]).all()
    assert table["a"].between(0, 49).all()
    assert table["b"].between(50, 100).all()
    assert table["total"].between(50 * total, 50 * total + 49).all()
    # They are what is drawn in the bins if only the rows with such a total are kept.
    first, second = (one.ravel() for one in np.mgrid[0:50, 50:101])
    kept = (first + second) // 50 == total
    # A mean of 2,000 leaves six standard errors once in 10^9.
    error = first[kept].std() / np.sqrt(ROWS)
    assert abs(table["a"].mean() - first[kept].mean()) < 6 * error


def test_a_row_with_a_missing_cell_is_left_alone():
    made = domain(TOTAL)
    plain = domain()
    for codes in ({"total": 4}, {"a": 2, "total": 3}):
        encoded = rows(made, **codes)
        table = decode(encoded, np.random.default_rng(0))
        others = decode(rows(plain, **codes), np.random.default_rng(0))
        assert_unchanged(encoded)
        pd.testing.assert_frame_equal(table, others)
        assert not broken_rows(made.rules[0], table).any()


def test_a_number_moves_to_the_bin_in_which_the_formula_has_it():
    made = domain(TOTAL)
    fitted = repaired(rows(made, total=3), np.random.default_rng(0))
    # Both are 0 to 49.
    assert set(fitted.column("total").tolist()) == {0, 1}
    assert not fitted.column("a").any()
    table = decode(fitted, np.random.default_rng(0))
    assert not broken_rows(made.rules[0], table).any()
    assert broken_rows(made.rules[0], table.assign(total=table["total"] + 1)).all()


def test_a_total_beyond_the_bounds_stays_and_is_counted_as_broken():
    made = domain({"formula": {"total": "a + b + 201"}})
    encoded = rows(made)
    assert_unchanged(encoded)
    table = decode(encoded, np.random.default_rng(0))
    assert broken_rows(made.rules[0], table).all()


@pytest.mark.parametrize(
    ("dtype", "entry"),
    [
        ("float32", {"bounds": [0, 200], "bins": 4, "dtype": "float32"}),
        ("float64", {"bounds": [0, 200], "bins": 4}),
        ("Int64", {"bounds": [0, 200], "bins": 4, "integer": True, "dtype": "Int64"}),
        ("float64", {"bounds": [0, 200], "bins": 4, "decimals": 1}),
    ],
)
def test_every_dtype_of_numbers_holds_what_a_formula_gives(dtype, entry):
    own = dict.fromkeys(("a", "b", "total"), entry)
    written = "round(a + b, 1)" if "decimals" in entry else "a + b"
    made = domain({"formula": {"total": written}}, **own)
    table = decode(rows(made), np.random.default_rng(0))
    assert str(table["total"].dtype) == dtype
    assert not broken_rows(made.rules[0], table).any()


def test_a_number_is_in_its_bin_as_its_dtype_rounds_it():
    made = domain(
        {"formula": {"share": "one * 0.0999999999"}},
        one={"values": [1]},
        share={"edges": [0, 0.1, 1], "dtype": "float32"},
    )
    encoded = EncodedTable(made, tuple(np.zeros(ROWS, int) for _ in made.names))
    fitted = repaired(encoded, np.random.default_rng(0))
    table = decode(fitted, np.random.default_rng(0))
    assert not broken_rows(made.rules[0], table).any()
    again = encode(table, made, private=False)
    # The nearest number of 32 bits is above 0.1.
    assert set(again.column("share").tolist()) == {1}
    assert np.array_equal(again.column("share"), fitted.column("share"))


def flights(seed):
    rng = np.random.default_rng(seed)
    minutes = rng.integers(0, 1440, ROWS)
    delay = rng.integers(-30, 300, ROWS).astype(float)
    time = (minutes + delay).astype(int) % 1440
    table = pd.DataFrame(
        {
            "planned": minutes // 60 * 100 + minutes % 60,
            "delay": delay,
            "arrival": (time // 60 * 100 + time % 60).astype(float),
        }
    )
    table.loc[rng.random(ROWS) < 0.05, "delay"] = np.nan
    table.loc[rng.random(ROWS) < 0.05, "arrival"] = np.nan
    return table


def test_a_draft_keeps_a_formula_of_a_column_with_missing_cells_of_its_own():
    table = flights(0)
    made = draft_table(table).domain
    (found,) = made.formulas
    assert (found.attribute, found.sources) == ("arrival", ("delay", "planned"))
    assert not broken_rows(made.rules[-1], table).any()
    # Each column is shuffled by itself, so the formula holds in the bins of few rows.
    other = flights(1)
    codes = encode(other, made, private=False)
    mixed = EncodedTable(
        made,
        tuple(
            np.random.default_rng(place).permutation(one) for place, one in enumerate(codes.columns)
        ),
    )
    fitted = decode(repaired(mixed, np.random.default_rng(0)), np.random.default_rng(0))
    assert broken_rows(made.rules[-1], fitted).mean() < 0.005
    assert fitted["arrival"].isna().sum() == other["arrival"].isna().sum()


def test_a_formula_that_one_row_breaks_is_not_found():
    table = flights(0)
    row = table.dropna().index[5]
    table.loc[row, "arrival"] = table.loc[row, "arrival"] // 100 * 100 + 1
    assert not draft_table(table).domain.formulas
