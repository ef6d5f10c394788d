"""Columns that number the children of a root by another column, from a draft to decoded tables."""

import numpy as np
import pandas as pd
import pytest

from jam_dagster.errors import JamError
from jam_dagster.evaluation.expectations.checked_table import CheckedTable
from jam_dagster.evaluation.expectations.kinds import EXPECTATION_KINDS, expectation_names
from jam_dagster.tables import Domain, encode
from jam_dagster.tables.codes.roots import decode_two, encode_two, roots_with_children
from jam_dagster.tables.domain.children import Link
from jam_dagster.tables.domain.numbering import Numbering
from jam_dagster.tables.sources.public import draft_with_children

LINK = Link("visits", "patient", 6)


def patients(number=1500, *, written="", shuffled=False):
    """Return patients and their visits, which are numbered by their dates."""
    rng = np.random.default_rng(0)
    sizes = rng.integers(0, 6, number)
    owner = np.repeat(np.arange(number), sizes)
    days = np.concatenate([np.sort(rng.choice(300, size, replace=False)) for size in sizes])
    visits = pd.DataFrame(
        {
            "patient": owner,
            "visit": np.concatenate([np.arange(size) + 1 for size in sizes]),
            "visited": np.datetime64("2024-01-01") + days.astype("timedelta64[D]"),
            "ward": rng.choice(list("abc"), len(owner)),
        }
    )
    if written:
        visits["visited"] = visits["visited"].dt.strftime(written)
    if shuffled:
        visits["visited"] = rng.permutation(visits["visited"])
    roots = pd.DataFrame({"patient": range(number), "sex": rng.choice(["f", "m"], number)})
    return roots, visits.sample(frac=1, random_state=0, ignore_index=True)


def drafted(**given):
    tables = patients(**given)
    return tables, draft_with_children({"": roots_with_children(*tables, LINK)}, LINK)


@pytest.mark.parametrize("written", ["", "%d.%m.%Y"])
def test_visits_are_numbered_by_their_dates(written):
    tables, draft = drafted(written=written)
    domain = draft.domain
    assert domain.children.numbers == (Numbering("visit", "visited"),)
    assert "visit numbers the children of a row by visited  # " in draft.remark
    assert "visit" not in domain.children.domain.names
    assert Domain.from_dict(domain.to_dict()).digest == domain.digest

    codes = encode(roots_with_children(*tables, LINK), domain)
    roots, visits = decode_two(codes, np.random.default_rng(1))
    assert list(visits.columns) == ["patient", "visit", "visited", "ward"]
    for numbers in visits.groupby("patient")["visit"]:
        assert sorted(numbers[1]) == list(range(1, len(numbers[1]) + 1))
    again = encode_two(roots, visits, domain)
    assert all(np.array_equal(*pair) for pair in zip(again.columns, codes.columns, strict=True))

    (rule,) = domain.children.numbers
    table = CheckedTable(roots, domain, len(roots), None, None, children=visits)
    assert not table.broken_by_children(rule).any()
    (spec,) = [one for one in expectation_names(domain) if one.kind == "within_roots"]
    wrong = CheckedTable(roots, domain, 9, None, None, children=visits.assign(visit=1))
    frame = EXPECTATION_KINDS["within_roots"].frame(wrong)
    assert frame[spec.name].sum() == (visits["visit"] != 1).sum()
    gone = CheckedTable(roots, domain, 9, None, None, children=visits[["patient"]])
    assert EXPECTATION_KINDS["within_roots"].frame(gone).empty


def test_nothing_is_numbered_by_chance():
    _, draft = drafted(shuffled=True)
    assert draft.domain.children.numbers == ()
    _, few = drafted(number=60)
    assert few.domain.children.numbers == ()
    tables = patients()
    flat = roots_with_children(*tables, LINK)
    kept = draft_with_children({"": flat}, LINK, infer=False)
    assert kept.domain.children.numbers == ()


@pytest.mark.parametrize(
    ("numbers", "derived", "message"),
    [
        ({"n": "b"}, {}, "derived in the table 'lines' as null"),
        ({"n": "b"}, {"n": {"expression": None, "dtype": "str"}}, "dtype: Int64"),
        ({"n": "c"}, {"n": {"expression": None, "dtype": "Int64"}}, "no number and no date"),
        (["n"], {}, "must map columns"),
    ],
)
def test_what_is_refused(numbers, derived, message):
    child = {
        "key": "id",
        "max": 2,
        "numbers": numbers,
        "attributes": {"b": {"edges": [0, 9]}, "c": {"values": ["x"]}},
        "derived": derived,
    }
    content = {"attributes": {"a": {"values": ["x"]}}, "children": {"lines": child}}
    with pytest.raises(JamError, match=message):
        Domain.from_dict(content)
