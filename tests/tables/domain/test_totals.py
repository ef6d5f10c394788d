"""Columns of a root table that its children give."""

import numpy as np
import pandas as pd
import pytest

from jam_dagster.common.yaml_text import parse_yaml, write_yaml
from jam_dagster.errors import DomainError
from jam_dagster.evaluation.expectations.checked_table import CheckedTable
from jam_dagster.evaluation.expectations.kinds import EXPECTATION_KINDS, expectation_names
from jam_dagster.tables import Domain, draft_table
from jam_dagster.tables.codes.roots import decode_two, encode_two, roots_with_children
from jam_dagster.tables.domain.children import Link
from jam_dagster.tables.domain.totals import Total
from jam_dagster.tables.sources.public import draft_with_children

LINK = Link("lines", "order", 4)


def orders(seed: int = 0, number: int = 600) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return orders whose total, number, discount and last day are those of their lines."""
    rng = np.random.default_rng(seed)
    owner = np.repeat(np.arange(number), rng.integers(0, 4, number))
    lines = pd.DataFrame(
        {
            "order": owner,
            "price": rng.integers(99, 9999, len(owner)) / 100,
            "pieces": rng.integers(1, 9, len(owner)),
            "sent": pd.Timestamp("2024-01-01")
            + pd.to_timedelta(rng.integers(0, 99, len(owner)), "D"),
        }
    )
    each = lines.assign(all=lines["price"] * lines["pieces"]).groupby("order")
    roots = pd.DataFrame({"order": range(number), "region": rng.integers(0, 4, number)})
    total = each["all"].sum().reindex(roots["order"]).fillna(0).round(2)
    roots["total"] = [f"${one:,.2f}" for one in total]
    roots["count"] = each.size().reindex(roots["order"]).fillna(0).astype(int).to_numpy()
    roots["dearest"] = each["price"].max().reindex(roots["order"]).to_numpy()
    roots["last"] = each["sent"].max().reindex(roots["order"]).to_numpy()
    return roots, lines


def test_a_draft_finds_what_the_lines_of_an_order_give(tmp_path):
    draft = draft_with_children({"": roots_with_children(*orders(), LINK)}, LINK)
    domain = draft.domain
    assert {one.name: one.expression for one in domain.children.totals} == {
        "total": 'text(sum(price * pieces), "$#,##0.00")',
        "count": "count()",
        "dearest": "round(max(price), 2)",
        "last": "max(sent)",
    }
    assert domain.roots.names == ("region",)
    assert "\n  count: count()  # 2" in draft.remark
    draft.save(tmp_path / "domain.yaml")
    assert Domain.load(tmp_path / "domain.yaml") == domain
    assert Domain.from_dict(parse_yaml(write_yaml(domain.to_dict()))).digest == domain.digest
    plain = Domain.from_dict(
        domain.to_dict() | {"children": None, "derived": None, "columns": None}
    )
    assert plain.digest != domain.digest
    # Other orders keep them after both of their tables are made, whatever their cells are.
    roots, lines = orders(1)
    codes = encode_two(roots, lines, domain)
    table, children = decode_two(codes, np.random.default_rng(0))
    assert table.dtypes[["total", "count", "dearest"]].astype(str).tolist() == [
        "str",
        "Int64",
        "float64",
    ]
    number = children.groupby("order").size().reindex(table["order"]).fillna(0)
    assert (table["count"].to_numpy() == number.to_numpy()).all()
    checked = CheckedTable(table, domain, len(table), None, None, children=children)
    for one in domain.children.totals:
        assert not checked.broken(one).any()
    wrong = CheckedTable(table.assign(count=9), domain, len(table), None, None, children=children)
    kind = EXPECTATION_KINDS["total"]
    assert [column.sum() for _, column in kind.frame(wrong).items()] == [0, len(table), 0, 0]
    names = [one.name for one in expectation_names(domain)]
    assert names[-4:] == ["total_1", "total_2", "total_3", "total_4"]


def test_what_children_do_not_give_is_modelled():
    roots, lines = orders()
    roots.loc[roots.index[roots["count"] == 1][3], "count"] = 7
    apart = roots.assign(total=np.random.default_rng(0).permutation(roots["total"]))
    draft = draft_with_children({"": roots_with_children(apart, lines, LINK)}, LINK)
    assert [one.name for one in draft.domain.children.totals] == ["dearest", "last"]
    few = draft_with_children({"": roots_with_children(*orders(0, 100), LINK)}, LINK)
    assert few.domain.children.totals == ()
    kept = draft_with_children({"": roots_with_children(*orders(), LINK)}, LINK, infer=False)
    assert kept.domain.children.totals == ()
    assert draft_table(roots.drop(columns="order")).domain.children is None


@pytest.mark.parametrize(
    ("expression", "values"),
    [
        ("count()", [2, 0, 1]),
        ("sum(a)", [4.0, 0.0, 0.0]),
        ("mean(a)", [4.0, None, None]),
        ("min(a * b) + 1", [9.0, None, None]),
        ("max(b)", [3, None, 5]),
        ("sum(b) * 2", [10, 0, 10]),
    ],
)
def test_what_aggregates_give(expression, values):
    children = pd.DataFrame({"a": [4.0, np.nan, np.nan], "b": [2, 3, 5]})
    total = Total("t", expression)
    owners = np.array([0, 0, 2])
    found = total.cells(children, owners, 3, {})
    assert [
        None if gone else one for one, gone in zip(found.values, found.missing, strict=True)
    ] == values


def file(totals, derived=None):
    child = {"key": "id", "max": 2, "totals": totals, "attributes": {"b": {"edges": [0, 9]}}}
    own = {"t": {"expression": None, "dtype": "float64"}} if derived is None else derived
    return {"attributes": {"a": {"values": [1]}}, "derived": own, "children": {"lines": child}}


@pytest.mark.parametrize(
    ("totals", "derived", "message"),
    [
        ({"t": "b + 1"}, None, "needs one of"),
        ({"t": "sum(b) + sum(b)"}, None, "needs one of"),
        ({"t": "sum(sum(b))"}, None, "needs one of"),
        ({"t": "count(b)"}, None, "takes nothing"),
        ({"t": "sum(b) / a"}, None, "reads 'a' outside its sum"),
        ({"t": "sum()"}, None, "takes one expression"),
        ({"t": "sum(x)"}, None, "no column of the table"),
        ({"t": "sum(text(b))"}, None, "takes the sum of numbers"),
        ({"t": "sum(" + "b+" * 300 + "b)"}, None, "needs one of"),
        ({"u": "sum(b)"}, None, "derived as null"),
        ({"t": "sum(b)"}, {"t": "a"}, "derived as null"),
        ({"t": "sum(b)"}, {"t": {"expression": None, "dtype": "str"}}, "cannot be str"),
    ],
)
def test_what_is_refused(totals, derived, message):
    with pytest.raises(DomainError, match=message):
        Domain.from_dict(file(totals, derived))
