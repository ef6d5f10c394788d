import numpy as np
import pandas as pd
import pytest

from jam_dagster.errors import DomainError, SpecificationError
from jam_dagster.tables import Domain, EncodedTable, draft_table
from jam_dagster.tables.codes.repair import repaired
from jam_dagster.tables.domain.constraints import described
from jam_dagster.tables.domain.missing_where import MissingWhere

ATTRIBUTES = {
    "status": {"values": ["open", "cancelled"], "nullable": True},
    "a": {"bounds": [0, 9], "integer": True, "nullable": True},
    "b": {"bounds": [0, 9], "integer": True, "nullable": True},
    "c": {"values": ["x", "y"], "nullable": True},
    "full": {"values": ["u", "v"]},
}
NULL = {"status": 2, "a": 10, "b": 10, "c": 2}


def domain(*entries, key="repairs"):
    return Domain.from_dict({"attributes": ATTRIBUTES, key: list(entries)})


@pytest.mark.parametrize("key", ["constraints", "repairs"])
@pytest.mark.parametrize(
    ("entry", "found", "words"),
    [
        (
            {"missing": ["a", "b", "c"]},
            [MissingWhere("b", "a", (10,)), MissingWhere("c", "a", (10,))],
            "a, b and c are missing together",
        ),
        (
            {"missing": "a", "where": {"status": "cancelled"}},
            [MissingWhere("a", "status", (1,))],
            "a is missing exactly where status cancelled",
        ),
        (
            {"missing": ["b", "c"], "only_where": {"a": [{"from": 8}, None]}},
            [MissingWhere(name, "a", (8, 9, 10), exactly=False) for name in "bc"],
            "b and c are missing only where a from 8 or null",
        ),
    ],
)
def test_the_file_form_is_kept_and_in_words(key, entry, found, words):
    made = domain(entry, key=key)
    assert list(getattr(made, key)) == found
    assert made.to_dict()[key] == [entry]
    assert described(made, found) == [words]
    assert made.digest != domain(key=key).digest


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"missing": ["a"]}, "needs two columns"),
        ({"missing": ["a", "a"]}, "needs two columns"),
        ({"missing": "a", "where": {"b": None}, "only_where": {"c": None}}, "remove one"),
        ({"missing": "a", "where": "b"}, "one attribute to a condition"),
        ({"missing": "a", "where": {"a": None}}, "name another"),
        ({"missing": "full", "where": {"a": None}}, "never missing"),
        ({"missing": "a", "where": {"full": None}}, "not nullable"),
        ({"missing": "a", "where": {"status": "lost"}}, "not one of its values"),
        ({"missing": "a", "if": {"b": None}}, "unknown key 'if'"),
    ],
)
def test_what_cannot_hold_is_refused(entry, message):
    with pytest.raises((DomainError, SpecificationError), match=message):
        domain(entry)


@pytest.mark.parametrize(
    "entries",
    [
        [{"missing": ["a", "a"], "where": {"b": None}}],
        [{"missing": ["b", "a"]}, {"missing": "a", "where": {"b": None}}],
    ],
)
def test_what_is_said_twice_could_not_be_read_again_and_is_refused(entries):
    with pytest.raises(DomainError, match="say twice where 'a' is missing"):
        domain(*entries)


def test_codes_outside_the_attribute_are_refused():
    with pytest.raises(DomainError, match="codes outside 0 to 2"):
        MissingWhere("a", "status", (3,)).checked(domain())


def test_a_model_is_given_the_cells_that_break_it():
    made = domain({"missing": ["a", "c"]}, key="constraints")
    mask = made.impossible_masks()["a", "c"]
    assert mask[:10, 2].all()
    assert mask[10, :2].all()
    assert mask.sum() == 12
    only = domain({"missing": "a", "only_where": {"status": "open"}}, key="constraints")
    assert only.impossible_masks()["status", "a"].tolist() == [
        [False] * 11,
        [False] * 10 + [True],
        [False] * 10 + [True],
    ]


def sampled(seed=0, records=4000, share=0.1):
    """Return records of which each column is missing by itself, and b is a or one more."""
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 9, records)
    columns = {
        "status": rng.integers(0, 2, records),
        "a": a,
        "b": a + rng.integers(0, 2, records),
        "c": rng.integers(0, 2, records),
        "full": rng.integers(0, 2, records),
    }
    for name in ("a", "b", "c"):
        columns[name] = np.where(rng.random(records) < share, NULL[name], columns[name])
    return columns


def repair(made, columns):
    table = EncodedTable(made, tuple(columns[name] for name in made.names))
    after = repaired(table, np.random.default_rng(1))
    return {name: after.column(name).astype(int) for name in made.names}


def test_columns_become_missing_together_and_keep_their_shares():
    columns = sampled()
    after = repair(domain({"missing": ["a", "b", "c"]}), columns)
    missing = {name: after[name] == NULL[name] for name in "abc"}
    assert (missing["a"] == missing["b"]).all()
    assert (missing["a"] == missing["c"]).all()
    for name in "abc":
        before = np.mean(columns[name] == NULL[name])
        assert abs(missing[name].mean() / before - 1) < 0.1
    assert (after["a"] == columns["a"]).all()


def test_a_cell_that_is_filled_fits_its_row():
    columns = sampled()
    after = repair(domain({"missing": ["a", "b"]}), columns)
    filled = (columns["b"] == NULL["b"]) & (after["b"] != NULL["b"])
    assert filled.sum() > 300
    assert np.isin((after["b"] - after["a"])[filled], (0, 1)).all()


def test_missing_cells_change_places_where_they_may_be():
    columns = sampled()
    after = repair(domain({"missing": "b", "only_where": {"status": "open"}}), columns)
    missing = after["b"] == NULL["b"]
    assert missing.sum() == (columns["b"] == NULL["b"]).sum()
    assert not (missing & (after["status"] == 1)).any()


def test_where_no_row_has_a_value_nothing_can_be_filled():
    columns = sampled() | {"b": np.full(4000, NULL["b"])}
    after = repair(domain({"missing": ["a", "b"]}), columns)
    assert (after["b"] == NULL["b"]).all()


def test_a_constraint_of_the_domain_wins():
    """Where a cannot be missing beside c = x, no repair makes it so."""
    impossible = [{"a": None, "c": "x"}]
    made = Domain.from_dict(
        {
            "attributes": ATTRIBUTES,
            "impossible": impossible,
            "repairs": [{"missing": "a", "where": {"status": "cancelled"}}],
        }
    )
    columns = sampled()
    columns["c"] = np.where((columns["a"] == 10) & (columns["c"] == 0), 1, columns["c"])
    after = repair(made, columns)
    assert not ((after["a"] == 10) & (after["c"] == 0)).any()


# --- found in a public table


def public(**changes):
    rng = np.random.default_rng(2)
    rows = 4000
    numbers = rng.integers(0, 1000, (3, rows)).astype(float)
    table = pd.DataFrame(dict(zip("abc", numbers, strict=True)))
    table["status"] = rng.choice(["open", "closed", "cancelled"], rows, p=[0.6, 0.3, 0.1])
    return table.assign(**changes), rng


def rules(table):
    made = draft_table(table).domain
    kept = [one for one in made.repairs if isinstance(one, MissingWhere)]
    return described(made, kept)


def test_columns_that_are_missing_together_or_within_another_are_found():
    table, rng = public()
    wide = rng.random(len(table)) < 0.1
    narrow = wide & (rng.random(len(table)) < 0.5)
    table.loc[wide, ["a", "b"]] = np.nan
    table.loc[narrow, "c"] = np.nan
    assert rules(table) == ["b and a are missing together", "c is missing only where a null"]


def test_columns_that_are_missing_at_values_are_found():
    table, rng = public()
    cancelled = table["status"] == "cancelled"
    table.loc[cancelled, ["a", "b"]] = np.nan
    table.loc[(table["status"] == "closed") & (rng.random(len(table)) < 0.3), "c"] = np.nan
    assert rules(table) == [
        "a is missing exactly where status cancelled",
        "b and a are missing together",
        "c is missing only where status closed or null",
    ]


def test_what_chance_explains_is_not_found():
    table, rng = public()
    for name in "abc":
        table.loc[rng.random(len(table)) < 0.05, name] = np.nan
    table.loc[:3999, "d"] = np.where(np.arange(len(table)) < 5, np.nan, 1.0 + np.arange(len(table)))
    table.loc[:3999, "e"] = table["d"] * 2 + rng.random(len(table))
    assert rules(table) == []
