"""The network of public tables: its likelihood, its structure, tables that lack attributes."""

from __future__ import annotations

import math

import numpy as np
import pytest

from jam_dagster.mechanisms import FittedModel
from jam_dagster.models.tilted import network
from jam_dagster.models.tilted.network import STRENGTHS, learn_network, network_domain
from jam_dagster.models.tilted.prior import PublicPrior
from jam_dagster.tables import Domain, EncodedTable, PublicTables

DOMAIN = Domain.from_sizes({"a": 3, "b": 2, "c": 4, "d": 2})


def rows(seed: int, records: int, domain: Domain = DOMAIN) -> EncodedTable:
    """Return a table in which each attribute follows the one before, three times in four."""
    rng = np.random.default_rng(seed)
    columns = [rng.integers(0, domain.shape[0], records)]
    for size in domain.shape[1:]:
        kept = rng.random(records) < 0.75
        columns.append(np.where(kept, columns[-1] % size, rng.integers(0, size, records)))
    return EncodedTable(domain, tuple(columns))


def of(*tables: EncodedTable) -> PublicTables:
    return PublicTables(DOMAIN, {f"t{number}": one for number, one in enumerate(tables)})


def left_out(table: EncodedTable, child: str, levels, strengths) -> float:
    """Return the leave-one-out log likelihood, record by record.

    A level has the group of each value, for each parent that it knows.
    """
    total = 0.0
    for one in range(table.records):
        others = table.take(np.arange(table.records) != one)
        share = 1 / table.domain.sizes[child]
        for level, strength in zip(levels, strengths, strict=True):
            alike = np.ones(others.records, dtype=bool)
            for name, groups in level.items():
                alike &= groups[others.column(name)] == groups[table.column(name)[one]]
            hits = (alike & (others.column(child) == table.column(child)[one])).sum()
            share = (hits + strength * share) / (alike.sum() + strength)
        total += math.log(share)
    return total


@pytest.mark.parametrize("parents", [(), ("a",), ("a", "b"), ("b", "a")])
def test_the_likelihood_is_that_of_each_record_under_the_others(parents):
    table = rows(0, 30)
    found = network._fitted(network._Counts(DOMAIN, of(table)), "c", parents)
    levels = [{name: np.arange(4) for name in parents[:known]} for known in range(len(parents) + 1)]
    wanted = left_out(table, "c", levels, found.strengths)
    assert found.likelihood == pytest.approx(wanted, rel=1e-12)
    # No other strength of the last level is likelier.
    for other in STRENGTHS:
        assert left_out(table, "c", levels, (*found.strengths[:-1], other)) <= wanted + 1e-9


LONG = Domain.from_sizes({"x": 40, "y": 3, "z": 25})
"""Attributes of many values: the back-off knows groups of them."""


def trend(seed: int, records: int) -> EncodedTable:
    """Return rows whose y and z rise with x; no x is above 35."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 36, records)
    y = (x + rng.integers(-9, 10, records)) // 18
    z = np.clip(x // 2 + rng.integers(-4, 5, records), 0, 24)
    return EncodedTable(LONG, (x, np.clip(y, 0, 2), z))


def test_from_many_values_it_backs_off_to_groups_of_neighbours():
    table = trend(0, 200)
    counts = network._Counts(LONG, PublicTables.of(LONG, table))
    coarse, fine = counts.groups("x")
    np.testing.assert_array_equal(fine, np.arange(40))
    present = table.marginal(("x",)) > 0
    assert (np.diff(coarse[present]) >= 0).all()
    assert coarse.max() == network.GROUPS
    # Values without a record are a group apart.
    assert (coarse[36:] == network.GROUPS).all()
    np.testing.assert_array_equal(coarse == network.GROUPS, ~present)
    found = network._fitted(counts, "z", ("x", "y"))
    x, y = ({"x": fine}, {"x": fine, "y": np.arange(3)})
    levels = [{}, {"x": coarse}, x, y]
    assert [len(level) for level in found.levels] == [0, 1, 1, 2]
    wanted = left_out(table, "z", levels, found.strengths)
    assert found.likelihood == pytest.approx(wanted, rel=1e-12)
    # The conditional backs off through the same levels.
    shares = np.exp(network._potential(LONG, counts, found))
    np.testing.assert_allclose(shares.sum(axis=2), 1.0, rtol=1e-12)
    np.testing.assert_allclose(shares[36:], shares[36:37].repeat(4, axis=0), rtol=1e-12)


def test_groups_that_make_no_record_likelier_are_no_level():
    table = trend(0, 200)
    rng = np.random.default_rng(0)
    columns = (table.columns[0], table.columns[1], rng.permutation(table.columns[2]))
    counts = network._Counts(LONG, PublicTables.of(LONG, EncodedTable(LONG, columns)))
    assert [len(level) for level in network._fitted(counts, "z", ("x",)).levels] == [0, 1]


def test_few_records_keep_a_trend(monkeypatch):
    def slope() -> float:
        learnt = learn_network(LONG, PublicTables.of(LONG, trend(1, 400)))
        pair = FittedModel(LONG, 1.0, learnt).marginal(("x", "z"))
        x, z = np.arange(40), np.arange(25)
        means = x @ pair.sum(axis=1), z @ pair.sum(axis=0)
        return float((x - means[0]) @ pair @ (z - means[1]))

    grouped = slope()
    monkeypatch.setattr(network, "GROUPS", 1000)
    table = trend(1, 400)
    kept = np.cov(table.column("x"), table.column("z"))[0, 1]
    assert slope() < 0.8 * kept
    assert grouped == pytest.approx(kept, rel=0.15)


def test_conditionals_sum_to_one_and_back_off_to_positive():
    learnt = learn_network(DOMAIN, of(rows(1, 200)))
    placed: set[str] = set()
    for clique, logs in learnt.items():
        (child,) = [name for name in clique if name not in placed]
        assert len(clique) <= 3
        shares = np.exp(logs).sum(axis=clique.index(child))
        np.testing.assert_allclose(shares, 1.0, rtol=1e-12)
        placed.add(child)
    assert placed == set(DOMAIN.names)


def test_what_follows_is_found():
    table = rows(2, 4000)
    learnt = learn_network(DOMAIN, of(table))
    pairs = [{"a", "b"}, {"b", "c"}, {"c", "d"}]
    assert all(any(pair <= set(clique) for clique in learnt) for pair in pairs)
    (found,) = [one for clique, one in learnt.items() if clique == ("a",)] or [None]
    if found is not None:
        np.testing.assert_allclose(np.exp(found), table.marginal(("a",)) / 4000, atol=0.02)


def test_few_records_of_independent_attributes_link_none() -> None:
    """Among thousands of families of 100 records some are likelier by chance."""
    rng = np.random.default_rng(3)
    domain = Domain.from_sizes(dict.fromkeys("abcdefghij", 4))
    table = EncodedTable(domain, [rng.integers(4, size=100) for _ in domain.names])
    assert set(learn_network(domain, PublicTables.of(domain, table))) == {
        (n,) for n in domain.names
    }


def test_attributes_that_no_table_has_are_left_out():
    part = DOMAIN.project(("a", "b"))
    whole = rows(4, 100)
    partial = EncodedTable(part, whole.columns[:2])
    assert {name for clique in learn_network(DOMAIN, of(partial)) for name in clique} == {"a", "b"}


def test_tables_with_different_attributes_make_one_network():
    whole = rows(5, 400)
    first = EncodedTable(DOMAIN.project(("a", "b")), whole.columns[:2])
    second = EncodedTable(DOMAIN.project(("b", "c", "d")), whole.columns[1:])
    learnt = learn_network(DOMAIN, of(first, second))
    assert {name for clique in learnt for name in clique} == set(DOMAIN.names)
    # Nothing is known of a beside c or d.
    assert not any("a" in clique and {"c", "d"} & set(clique) for clique in learnt)


def test_tables_that_are_alike_are_one():
    one, other = rows(6, 50), rows(7, 70)
    both = EncodedTable(
        DOMAIN,
        tuple(np.concatenate(pair) for pair in zip(one.columns, other.columns, strict=True)),
    )
    together, apart = learn_network(DOMAIN, of(both)), learn_network(DOMAIN, of(one, other))
    assert together.keys() == apart.keys()
    for clique, logs in together.items():
        np.testing.assert_array_equal(logs, apart[clique])
    assert PublicPrior.of(DOMAIN, of(one, other)).populations == 1


def test_tables_that_differ_are_populations():
    one, other = rows(6, 3000), rows(7, 9000)
    flipped = EncodedTable(DOMAIN, ((other.columns[0] + 1) % 3, *other.columns[1:]))
    learnt = learn_network(DOMAIN, of(one, flipped))
    np.testing.assert_allclose(np.exp(learnt[("table",)]), [0.25, 0.75])
    model = FittedModel(network_domain(DOMAIN, 2), 1.0, learnt)
    for number, table in enumerate((one, flipped)):
        share = model.marginal(("a", "b", "table"))[..., number] * (4.0, 4 / 3)[number]
        np.testing.assert_allclose(share, table.marginal(("a", "b")) / table.records, atol=0.02)
    # What does not differ is learnt from both.
    assert not any({"c", "d", "table"} <= set(clique) for clique in learnt)


def test_a_table_that_lacks_an_attribute_borrows_what_others_say_of_it():
    whole = rows(5, 2000)
    flipped = ((whole.columns[0] + 1) % 3, whole.columns[1])
    part = EncodedTable(DOMAIN.project(("a", "b")), flipped)
    model = FittedModel(network_domain(DOMAIN, 2), 1.0, learn_network(DOMAIN, of(part, whole)))
    of_part, of_whole = model.marginal(("table", "b", "c"))
    np.testing.assert_allclose(of_part, of_whole, atol=0.02)


def test_the_attribute_of_tables_has_a_name_of_its_own():
    taken = Domain.from_sizes({"table": 2, "b": 2})
    assert network_domain(taken, 3).names == ("table", "b", "table_")
    assert network_domain(taken, 1) is taken


def test_families_that_are_too_large_are_not_counted(monkeypatch):
    monkeypatch.setattr(network, "LARGEST_FAMILY_CELLS", 8)
    learnt = learn_network(DOMAIN, of(rows(8, 300)))
    assert all(logs.size <= 8 for logs in learnt.values())
