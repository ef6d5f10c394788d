"""Children that keep what holds within their root, from a draft to the decoded tables."""

import numpy as np
import pandas as pd
import pytest

from jam_dagster.evaluation.expectations.checked_table import CheckedTable
from jam_dagster.evaluation.expectations.kinds import EXPECTATION_KINDS, expectation_names
from jam_dagster.tables import Domain, EncodedTable
from jam_dagster.tables.codes.repair import repaired
from jam_dagster.tables.codes.roots import (
    decode_two,
    encode_two,
    exchanged,
    roots_with_children,
)
from jam_dagster.tables.domain.children import Link
from jam_dagster.tables.domain.constraints import Order
from jam_dagster.tables.domain.unique import Unique
from jam_dagster.tables.sources.public import draft_with_children

LINK = Link("lines", "order", 6)


def orders(seed=0, number=2000):
    """Return orders and their lines: a product once an order, and sent after it was asked for."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(0, 6, number)
    owner = np.repeat(np.arange(number), sizes)
    products = [rng.choice(20, size, replace=False) for size in sizes]
    asked = np.datetime64("2024-01-01") + rng.integers(0, 300, number).astype("timedelta64[D]")
    waited = np.floor(rng.gamma(2, 6, len(owner))).astype("timedelta64[D]")
    roots = pd.DataFrame({"order": range(number), "asked": asked})
    lines = pd.DataFrame(
        {
            "order": owner,
            "product": np.concatenate(products),
            "sent": asked[owner] + waited,
            "pieces": rng.integers(1, 9, len(owner)),
        }
    )
    return roots, lines


def drafted(roots, lines):
    return draft_with_children({"": roots_with_children(roots, lines, LINK)}, LINK)


def apart(codes, rng):
    """Return roots of which each child's columns are those of any child."""
    columns = dict(zip(codes.domain.names, codes.columns, strict=True))
    for slot in (1, 2):
        there = np.flatnonzero(columns["lines"] >= slot)
        for name in codes.domain.children.link.slot(slot, codes.domain.children.domain.names):
            columns[name] = columns[name].copy()
            columns[name][there] = rng.permutation(columns[name][there])
    return EncodedTable(codes.domain, tuple(columns.values()))


def released(codes, seed=0):
    rng = np.random.default_rng(seed)
    made = repaired(exchanged(codes, rng), rng)
    return made, decode_two(made, rng)


def broken(domain, tables):
    roots, lines = tables
    table = CheckedTable(roots, domain, len(roots), None, None, children=lines)
    return [int(table.broken_by_children(one).sum()) for one in domain.children.rules]


def test_a_draft_finds_what_holds_within_an_order():
    draft = drafted(*orders())
    assert draft.domain.children.rules == (
        Order("asked", "lines.sent"),
        Unique(("order", "product")),
    )
    assert "\n  asked <= lines.sent  # 1" in draft.remark
    assert "\n  no two rows have the same order and product  # " in draft.remark


def test_a_draft_invents_nothing_within_an_order():
    roots, lines = orders()
    rng = np.random.default_rng(1)
    mixed = pd.DataFrame({name: rng.permutation(column) for name, column in lines.items()})
    assert drafted(roots, mixed.astype(lines.dtypes)).domain.children.rules == ()
    assert drafted(*orders(number=300)).domain.children.rules == ()
    # Any pair of products and pieces differs, since the products do.
    few = lines.assign(kind=lines["product"] % 2)
    assert Unique(("order", "product")) in drafted(roots, few).domain.children.rules
    assert len(drafted(roots, few).domain.children.unique) == 1


def test_synthetic_lines_keep_what_holds_within_an_order():
    domain = drafted(*orders()).domain
    codes = apart(encode_two(*orders(1), domain), np.random.default_rng(2))
    plain = domain.roots.with_children(LINK, domain.children.domain)
    _, before = released(EncodedTable(plain, codes.columns))
    assert min(broken(domain, before)) > 200
    made, after = released(codes)
    assert broken(domain, after) == [0, 0]
    # The tables are those that were sampled, and few codes are others.
    again = encode_two(*after, domain)
    assert all((one == other).all() for one, other in zip(made.columns, again.columns, strict=True))
    assert (made.column("lines") == codes.column("lines")).all()
    products = [table["product"].value_counts(normalize=True) for _, table in (before, after)]
    assert (products[0] - products[1]).abs().sum() < 0.1
    assert (before[1]["pieces"].to_numpy()[:50] > 0).all()


def test_what_cannot_be_mended_stays_and_is_counted():
    content = {
        "attributes": {"region": {"values": ["N"]}},
        "children": {
            "lines": {
                "key": "order",
                "max": 4,
                "attributes": {"product": {"values": ["a", "b"], "nullable": True}},
                "repairs": [{"unique": ["order", "product"]}],
            }
        },
    }
    domain = Domain.from_dict(content)
    number = np.full(100, 4)
    zeros = np.zeros(100, np.intp)
    _, (roots, lines) = released(EncodedTable(domain, (zeros, number, zeros, zeros)))
    assert broken(domain, (roots, lines)) == [200]
    assert lines.groupby("order")["product"].nunique().eq(2).all()
    _, (roots, lines) = released(EncodedTable(domain, (zeros, number, zeros + 2, zeros + 2)))
    assert lines["product"].isna().all()
    kind = EXPECTATION_KINDS["within_roots"]
    wrong = CheckedTable(roots, domain, 100, None, None, children=lines.assign(product="a"))
    assert kind.frame(wrong)["within_roots_1"].sum() == 300
    gone = CheckedTable(roots, domain, 100, None, None, children=lines[["order"]])
    assert kind.frame(gone).empty
    (spec,) = [one for one in expectation_names(domain) if one.kind == "within_roots"]
    assert (spec.table, spec.blocking) == ("lines", False)


@pytest.mark.parametrize("strict", [False, True])
def test_a_number_is_drawn_on_the_right_side_of_its_roots(strict):
    sign = "<" if strict else "<="
    number = {"bounds": [0, 100], "bins": 5, "integer": True, "outside": "clip"}
    content = {
        "attributes": {"a": {**number, "nullable": True}, "z": number},
        "repairs": [
            {"order": f"a {sign} lines.b", "apart": [[int(strict), 3, 1]]},
            "lines.c <= z",
            f"a {sign} z",
        ],
        "children": {
            "lines": {
                "key": "id",
                "max": 2,
                "attributes": {"b": number, "c": number},
                "repairs": ["b <= c"],
            }
        },
    }
    domain = Domain.from_dict(content)
    rng = np.random.default_rng(0)
    rows = 3000
    number = np.full(rows, 2)
    roots = (rng.integers(0, 6, rows), np.full(rows, 4))
    codes = (*roots, number, *(rng.integers(0, 5, rows) for _ in range(4)))
    made, tables = released(EncodedTable(domain, codes))
    # A root leaves a higher number to each child that is in the same bin.
    assert max(broken(domain, tables)) == 0
    assert encode_two(*tables, domain).column("a").tolist() == made.column("a").tolist()
    both = tables[1].merge(tables[0], left_on=tables[1].columns[0], right_on=tables[0].columns[0])
    same = both[(both["a"] // 20 == both["b"] // 20) & (both["a"] % 20 < 15)]
    assert (same["b"] - same["a"] <= 3).mean() > 0.7
    assert (both["b"] <= both["c"]).all()
    assert set(np.unique(made.column("a"))) == set(range(6))
