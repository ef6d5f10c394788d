"""At most k rows of a person stay: any k alike, and nobody else's rows have a say in which."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jam_dagster.errors import (
    DomainError,
    InputError,
    PrivateValuesError,
    SourceError,
    SpecificationError,
)
from jam_dagster.tables import Domain, ParquetSource, PrivacyUnit
from jam_dagster.tables.codes.privacy_unit import (
    LimitedRows,
    PersonNumbers,
    new_secret,
    seeded_secret,
)
from jam_dagster.tables.sources.parquet import ParquetTable
from tests.examples import examples

ROW_SECRET = seeded_secret(0)
SECRET = "SENTINEL-7f3a"

people_of = st.sampled_from(["a", "b", "c", "7", "ä"])
people = st.lists(people_of, max_size=40)
limits = st.integers(1, 6)
secrets = st.integers(0, 50).map(seeded_secret)


def table(persons, column="who"):
    return pd.DataFrame({column: persons, "row": np.arange(len(persons))})


@given(people, limits, secrets)
def test_at_most_k_rows_stay_and_those_below_k_keep_all(persons, k, secret):
    before = table(pd.Series(persons, dtype="object"))
    kept = PrivacyUnit("who", k).limit(before, secret)
    assert list(kept.columns) == ["row"]
    assert list(kept["row"]) == sorted(set(kept["row"]))  # rows of the table, in its order
    whose = Counter(persons[row] for row in kept["row"])
    assert whose == {person: min(k, rows) for person, rows in Counter(persons).items()}


@given(people, st.lists(st.just("mine") | st.none(), max_size=9), limits, secrets)
def test_as_many_rows_are_counted_as_stay_and_one_person_moves_at_most_k(persons, mine, k, secret):
    unit = PrivacyUnit("who", k)
    others = table(pd.Series(persons, dtype="object"))
    alone = unit.count([others])
    assert alone == len(unit.limit(others, secret))
    # Rows of somebody who leaves the identifier out are nobody's, however many they are.
    with_me = unit.count([table(pd.Series(mine, dtype="object")), others])
    assert with_me == alone + min(k, mine.count("mine"))


def test_nobody_has_no_rows_and_a_column_all_the_same(tmp_path):
    nobody, unit = table([]).astype({"who": "str"}), PrivacyUnit("who", 2)
    assert unit.limit(nobody, ROW_SECRET).shape == (0, 1)
    nobody.to_parquet(tmp_path / "t.parquet")
    source = ParquetSource(str(tmp_path / "t.parquet"))
    assert source.counted(Domain.from_sizes({"row": 2}), unit, ROW_SECRET).records == 0
    other = PrivacyUnit("name", 2)
    with pytest.raises(InputError, match="no column 'name'"):
        other.limit(nobody, ROW_SECRET)
    with pytest.raises(InputError, match="no column 'name'"):
        source.counted(Domain.from_sizes({"row": 2}), other, ROW_SECRET)


@given(people, people, limits, secrets, st.randoms(use_true_random=False))
def test_nobody_else_decides_which_rows_stay(persons, others, k, secret, random):
    """The rows of others may come, go and change places: what stays of mine stays."""
    others = [f"other {other}" for other in others]
    merged = [(person, row) for row, person in enumerate(persons)]
    for other in others:
        merged.insert(random.randint(0, len(merged)), (other, -1))
    unit = PrivacyUnit("who", k)
    alone = unit.limit(pd.DataFrame(list(enumerate(persons)), columns=["row", "who"]), secret)
    among = unit.limit(pd.DataFrame(merged, columns=["who", "row"]), secret)
    assert list(among.loc[among["row"] >= 0, "row"]) == list(alone["row"])


@pytest.mark.slow
def test_every_choice_of_k_rows_is_as_likely():
    """One person of 6 rows under 3,000 keys: all 15 pairs, by chi-squared."""
    persons = table(["a"] * 6)
    seen = Counter(
        tuple(PrivacyUnit("who", 2).limit(persons, seeded_secret(seed))["row"])
        for seed in range(3_000)
    )
    assert len(seen) == 15
    expected = 3_000 / 15
    statistic = sum((number - expected) ** 2 / expected for number in seen.values())
    # The 1e-6 quantile of chi-squared with 14 degrees of freedom is 55.8.
    assert statistic < 55.8


@pytest.mark.slow
def test_persons_are_limited_independently():
    """Two persons of two rows each: their choices agree half of the time."""
    persons = table(["a", "b", "a", "b"])
    agree = 0
    for seed in range(2_000):
        first, second = PrivacyUnit("who").limit(persons, seeded_secret(seed))["row"]
        agree += {first, second} in ({0, 1}, {2, 3})
    # Binomial: five standard deviations are 112; beyond is less than 1e-6 likely.
    assert abs(agree - 1_000) < 112


def test_the_same_key_keeps_the_same_rows_and_another_one_others():
    persons = table([f"p{i % 40}" for i in range(400)])
    unit = PrivacyUnit("who", 3)
    pd.testing.assert_frame_equal(unit.limit(persons, ROW_SECRET), unit.limit(persons, ROW_SECRET))
    assert not unit.limit(persons, ROW_SECRET).equals(unit.limit(persons, new_secret()))
    assert len({new_secret() for _ in range(10)}) == 10


@pytest.mark.parametrize(
    "same",
    [
        [7, 7.0, "7"],
        [True, "True"],
        [pd.Timestamp("2026-01-02"), pd.Timestamp("2026-01-02")],
    ],
)
def test_a_person_is_known_by_the_text_of_the_value(same):
    assert len(PrivacyUnit("who").limit(table(pd.Series(same, dtype="object")), ROW_SECRET)) == 1


def test_texts_that_write_a_number_differently_are_different_persons():
    assert len(PrivacyUnit("who").limit(table(["7", "07", "7.0"]), ROW_SECRET)) == 3


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA])
def test_rows_of_nobody_are_refused(missing):
    persons = table(pd.Series([SECRET, missing, SECRET], dtype="object"))
    with pytest.raises(PrivateValuesError) as raised:
        PrivacyUnit("who").limit(persons, ROW_SECRET)
    assert str(raised.value) == str(PrivateValuesError())


def test_the_column_must_be_there_and_only_once():
    with pytest.raises(InputError, match="no column 'who'") as raised:
        PrivacyUnit("who").limit(table([SECRET], column=SECRET), ROW_SECRET)
    assert SECRET not in str(raised.value)
    twice = pd.DataFrame([[1, 2]], columns=["who", "who"])
    with pytest.raises(InputError, match="more than one column 'who'"):
        PrivacyUnit("who").limit(twice, ROW_SECRET)


@pytest.mark.parametrize(
    ("unit", "message"),
    [
        *((("who", rows), "a whole number of 1 or more") for rows in (0, -1, 1.5, True, "3")),
        # No noise could serve it.
        *((("who", rows), "must be at most 1,000,000") for rows in (1_000_001, 10**400)),
        *(((column,), "name of the column") for column in ("", None, 3)),
    ],
)
def test_units_that_are_refused(unit, message):
    with pytest.raises(SpecificationError, match=message):
        PrivacyUnit(*unit)


def test_the_column_cannot_be_an_attribute():
    domain = Domain.from_dict({"attributes": {"who": {"values": ["a"]}}})
    with pytest.raises(DomainError, match="'who' identifies a person"):
        PrivacyUnit("who").check(domain)
    PrivacyUnit("person").check(domain)


# --- in chunks

COLOURS = Domain.from_dict({"attributes": {"colour": {"values": ["red", "green", "blue"]}}})


@pytest.fixture
def parquet(tmp_path, monkeypatch):
    """A table of 500 rows of 120 persons in chunks of 64."""
    monkeypatch.setattr("jam_dagster.tables.sources.parquet.READ_ROWS", 64)
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(
        {"who": rng.integers(0, 120, 500), "colour": rng.choice(["red", "green", "blue"], 500)}
    )
    frame.to_parquet(tmp_path / "people.parquet")
    return frame, ParquetSource(str(tmp_path / "people.parquet"))


def in_file(source, unit, secret=ROW_SECRET):
    """Return the table as one that is too large for memory."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("jam_dagster.tables.sources.parquet.ENCODED_BYTES", 0)
        return source.counted(COLOURS, unit, secret)


def test_a_table_in_its_file_keeps_what_one_in_memory_keeps(parquet):
    frame, source = parquet
    unit = PrivacyUnit("who", 2)
    held, streamed = source.counted(COLOURS, unit, ROW_SECRET), in_file(source, unit)
    assert isinstance(streamed, ParquetTable)
    assert streamed.records == held.records == len(unit.limit(frame, ROW_SECRET)) < 500
    np.testing.assert_array_equal(streamed.marginal(("colour",)), held.marginal(("colour",)))


def test_a_file_that_changed_is_refused(parquet):
    frame, source = parquet
    table = in_file(source, PrivacyUnit("who"))
    for changed in (frame.head(499), pd.concat([frame, frame])):
        changed.to_parquet(source.path)
        with pytest.raises(SourceError, match="changed while it was read"):
            table.marginals([("colour",)])


def encoded(persons, colours, secret, k, rows_in_a_batch=3):
    """Return the rows that stay, encoded, and their persons."""
    frame = pd.DataFrame({"who": persons, "colour": colours}, dtype=object)
    starts = range(0, max(len(frame), 1), rows_in_a_batch)
    batches = (frame.iloc[start : start + rows_in_a_batch] for start in starts)
    rows = LimitedRows(PrivacyUnit("who", k), secret)
    codes = np.concatenate([one.columns[0] for one in rows.encoded(batches, COLOURS)])
    kept = rows.kept()
    return Counter(zip(frame["who"][kept], codes[kept].tolist(), strict=True))


colours = st.sampled_from(["red", "green", "blue"])


@examples(50)
@given(st.lists(st.tuples(people_of, colours), max_size=40), limits, secrets, st.randoms())
def test_no_order_of_rows_decides_what_stays(rows, k, secret, random):
    found = encoded(*zip(*rows, strict=True), secret, k) if rows else Counter()
    whose = Counter(person for person, _ in rows)
    assert {person: min(k, number) for person, number in whose.items()} == Counter(
        person for person, _ in found.elements()
    )
    others = [(f"other {person}", colour) for person, colour in rows]
    mixed = [*rows, *others]
    random.shuffle(mixed)
    if rows:
        among = encoded(*zip(*mixed, strict=True), secret, k, rows_in_a_batch=7)
        assert Counter({one: among[one] for one in among if "other" not in one[0]}) == found


@pytest.mark.slow
def test_every_row_of_a_person_is_as_likely_whatever_its_codes():
    """Six rows of one person, three of them alike, under 3,000 keys: each stays as often."""
    red = 0
    for seed in range(3_000):
        found = encoded(["a"] * 6, ["red"] * 3 + ["green"] * 2 + ["blue"], seeded_secret(seed), 2)
        red += found["a", 0]
    # The number of red ones among two has mean 1 and variance 0.4; 5 standard deviations are 173.2,
    # and beyond is less than 1e-6 likely.
    assert abs(red - 3_000) < 173


def test_a_null_of_a_dictionary_is_nobody():
    cells = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0, None]), pa.array(["a", None]))
    batch = pa.RecordBatch.from_arrays([cells], ["who"])
    assert PrivacyUnit("who").count([batch]) == 1
    with pytest.raises(PrivateValuesError):
        PersonNumbers(PrivacyUnit("who")).of(batch)
