"""Bins that are bought: edges follow from noisy counts, and from nothing else."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest

from jam_dagster.errors import DomainError, JamError, OutsideDomainError
from jam_dagster.privacy import Budget
from jam_dagster.privacy.noise.seeded import discrete_gaussian
from jam_dagster.tables import Domain
from jam_dagster.tables.domain.binned import BinnedAttribute
from jam_dagster.tables.domain.bought import (
    BOUND_RISK,
    LEVELS,
    Asked,
    Draw,
    PaidCounts,
    bought_singles,
    nothing,
)

ASKED = Domain.from_dict(
    {
        "share": 0.2,
        "attributes": {
            "sex": {"values": ["f", "m"]},
            "age": {"edges": "paid", "integer": True},
            "income": {"edges": "paid", "decimals": 2, "bins": 12, "range": [0, 1e9]},
            "weight": {"edges": "paid", "nullable": False},
            "born": {"edges": "paid", "unit": "day", "bins": 8},
        },
    }
)

ROWS = 20_000


def numbers(seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    income = np.where(rng.random(ROWS) < 0.3, 0.0, rng.lognormal(10.0, 0.8, ROWS).round(2))
    return {
        "age": np.clip(rng.normal(45.0, 18.0, ROWS), 0, 99).round(),
        "income": income,
        "weight": rng.normal(75.0, 9.0, ROWS),
        "born": rng.integers(-20_000, 11_000, ROWS).astype(float),
    }


class Paid:
    """Draws with noise of a seed, which remembers what was drawn."""

    def __init__(self, sigma: float, lost: Sequence[str] = (), seed: int = 0) -> None:
        self.sigma, self.lost, self.levels = sigma, lost, [[]] * 0
        self.rng, self.numbers = np.random.default_rng(seed), numbers(seed)

    def __call__(self, draws: Sequence[Draw]) -> list[PaidCounts]:
        self.levels.append([one.attribute.edges for one in draws])
        return [self.counts(one.step, one.attribute) for one in draws]

    def counts(self, step: str, attribute: BinnedAttribute) -> PaidCounts:
        exact = shares(attribute, self.numbers[attribute.name]) * ROWS
        noise = self.rng.normal(0.0, self.sigma, attribute.size)
        cells = np.append(exact, [0.0] * (attribute.size - attribute.bins)) + noise
        values = None if step in self.lost else tuple(np.rint(cells).astype(int).tolist())
        sigma = None if values is None else self.sigma
        return PaidCounts(step, attribute.name, attribute.size, 1e-4, 2**0.5, sigma, values)


def shares(attribute: BinnedAttribute, values: np.ndarray) -> np.ndarray:
    return np.bincount(attribute._bins_of(values), minlength=attribute.bins) / len(values)


def binned(domain: Domain, name: str) -> BinnedAttribute:
    found = domain.attribute(name)
    assert isinstance(found, BinnedAttribute)
    return found


def test_a_file_asks_and_is_read_again() -> None:
    assert ASKED.asked is not None
    assert ASKED.asked.bins == {"age": 24, "income": 12, "weight": 24, "born": 8}
    assert ASKED.asked.draws == 4 * LEVELS
    assert Domain.from_dict(json.loads(json.dumps(ASKED.to_dict()))) == ASKED
    age, weight = binned(ASKED, "age"), binned(ASKED, "weight")
    assert (age.bins, age.clip, age.nullable, age.unreadable) == (24, True, True, "apart")
    assert not weight.nullable
    another = replace(ASKED, asked=replace(ASKED.asked, share=0.1))
    assert another.digest != ASKED.digest


def test_edges_are_round_numbers_at_quantiles_of_noisy_counts() -> None:
    paid = Paid(sigma=40.0)
    domain = ASKED.buy(paid)
    assert domain.asked is None
    assert domain.specified == ASKED.digest != domain.digest
    for name, values in paid.numbers.items():
        attribute = binned(domain, name)
        asked = 0 if ASKED.asked is None else ASKED.asked.bins[name]
        assert asked - 4 <= attribute.bins <= asked
        held = shares(attribute, values)
        # Zero incomes are one value; no other bin holds much more than its part.
        assert np.sort(held)[-2] < 2.5 / asked
        assert attribute.edges[0] <= np.quantile(values, 0.01)
        assert attribute.edges[-1] >= np.quantile(values, 0.98)
    assert binned(domain, "income").edges[:2] == (0.0, 0.01)
    assert all(edge % 1 == 0 for edge in binned(domain, "age").edges)
    born = binned(domain, "born")
    assert [str(born.written(edge))[5:] for edge in born.edges[:-1]] == ["01-01"] * born.bins
    # Within a bin, numbers are as its parts were counted.
    assert all(most < 200 for _, most, _ in binned(domain, "weight").within)


def test_where_nothing_is_beyond_the_noise_the_range_stays() -> None:
    domain = ASKED.buy(Paid(sigma=1e6))
    for attribute, asked in zip(domain.attributes, ASKED.attributes, strict=True):
        assert attribute == asked


def test_a_bin_that_surely_holds_records_is_within_the_bounds_whatever_its_parts_say() -> None:
    paid = Paid(sigma=40.0, lost=[f"domain-{level}/1" for level in (2, 3, 4)])
    age = binned(ASKED.buy(paid), "age")
    low, high = np.quantile(paid.numbers["age"], [0.01, 0.98])
    assert age.edges[0] <= low
    assert high <= age.edges[-1] <= 200.0


NUMBERS = Domain.from_dict({"attributes": {"weight": {"edges": "paid"}}})


class Empty:
    """Draws of a column without records: noise of a seed, or given counts of one bin."""

    def __init__(self, sigma: float, noise: np.random.Generator | Sequence[int]) -> None:
        self.sigma, self.noise, self.bins = sigma, noise, 0

    def __call__(self, draws: Sequence[Draw]) -> list[PaidCounts]:
        (draw,) = draws
        level, size = int(draw.step[len("domain-")]), draw.attribute.size
        values: list[int] | None = [0] * size
        if isinstance(self.noise, np.random.Generator):
            values = discrete_gaussian(self.noise, self.sigma, size).tolist()
        elif level <= LEVELS - len(self.noise):
            values = None
        else:
            values[20] = self.noise[level - LEVELS - 1]
        self.bins = self.bins or draw.attribute.bins
        sigma = None if values is None else self.sigma
        listed = None if values is None else tuple(values)
        return [PaidCounts(draw.step, draw.attribute.name, size, 1e-4, 1.0, sigma, listed)]


@pytest.mark.parametrize("sigma", [0.4, 1.0, 3.0, 60.0])
@pytest.mark.parametrize("times", range(1, LEVELS + 1))
def test_noise_alone_bounds_a_column_as_rarely_as_is_said(sigma: float, times: int) -> None:
    def bounds(total: int) -> bool:
        paid = Empty(sigma, [(total + place) // times for place in range(times)])
        return NUMBERS.buy(paid).attributes != NUMBERS.attributes

    least = math.floor(4.0 * sigma * times**0.5)
    assert not bounds(least)
    while not bounds(least):
        least += 1
    # The exact distribution of the sum.
    reach = math.ceil(12.0 * sigma * times**0.5)
    one = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2.0 * sigma * sigma))
    weights = one = one / one.sum()
    for _ in range(times - 1):
        weights = np.convolve(weights, one)
    chance = float(weights[times * reach + least :].sum())
    paid = Empty(sigma, np.random.default_rng(0))
    NUMBERS.buy(paid)
    allowed = BOUND_RISK / LEVELS / paid.bins
    assert chance <= allowed
    # Where the noise is wide, what is allowed is nearly used.
    assert chance >= allowed / 2.0 or sigma < 60.0


@pytest.mark.slow  # Thousands of columns.
def test_bounds_are_hardly_ever_from_noise_alone() -> None:
    # One in ten thousand may be. More than five of 2,500 are, in one of four million such runs;
    # the limit of splits would leave seven.
    paid = Empty(30.0, np.random.default_rng(0))
    bought = (NUMBERS.buy(paid).attributes for _ in range(2500))
    assert sum(one != NUMBERS.attributes for one in bought) <= 5


def test_the_first_bins_are_those_of_any_table() -> None:
    first, second = Paid(sigma=40.0), Paid(sigma=40.0, seed=1)
    second.numbers["age"] *= 1000.0
    ASKED.buy(first)
    ASKED.buy(second)
    assert first.levels[0] == second.levels[0]
    assert first.levels[1] != second.levels[1]


def test_a_bought_domain_follows_from_its_counts() -> None:
    domain = ASKED.buy(Paid(sigma=40.0, lost=("domain-2/1", "domain-4/3")))
    content = json.loads(json.dumps(domain.to_dict()))
    assert Domain.from_dict(content) == domain
    assert Domain.from_dict(content).digest == domain.digest

    def refused(fault: str, *path: Any, value: Any) -> None:
        changed = json.loads(json.dumps(content))
        part = changed
        for key in path[:-1]:
            part = part[key]
        part[path[-1]] = value
        with pytest.raises(DomainError, match=fault):
            Domain.from_dict(changed)

    counts = content["bought"]["counts"]
    refused("does not follow", "attributes", "age", "edges", 3, value=24.5)
    refused(
        "by other draws", "bought", "counts", 0, "values", 36, value=counts[0]["values"][36] + 9e3
    )
    refused("by other draws", "bought", "counts", 0, "step", value="domain-1/2")
    refused("by other draws", "bought", "counts", 0, "cells", value=5)
    refused("by other draws", "bought", "counts", value=counts[:-1])
    refused("by other draws", "bought", "counts", value=[*counts, counts[-1]])
    refused("is damaged", "bought", "counts", 0, value={"step": "domain-1/1"})


@pytest.mark.parametrize(
    ("entry", "fault"),
    [
        ({"edges": "paid", "bins": 1}, "bins must be from 2"),
        ({"edges": "paid", "bins": 1000}, "bins must be from 2"),
        ({"edges": "paid", "range": [0]}, "range must be two values"),
        ({"edges": "paid", "range": [5, 1]}, "increasing"),
        ({"edges": "paid", "bounds": [0, 1]}, "'bounds'"),
        ({"edges": "paid", "within": [[0, 1]]}, "'within'"),
        ({"edges": "paid", "outside": "error"}, "'outside'"),
        ({"edges": "paid", "values": ["a"]}, "needs one of"),
        ({"edges": "paid", "unit": "minute", "dtype": "timedelta64[us]"}, "need a range"),
    ],
)
def test_what_cannot_be_asked_is_refused(entry: dict[str, Any], fault: str) -> None:
    with pytest.raises(JamError, match=fault):
        Domain.from_dict({"attributes": {"a": entry}})


@pytest.mark.parametrize("share", [0, 1, -0.1, "a"])
def test_a_share_is_a_part(share: Any) -> None:
    asks: dict[str, Any] = {"attributes": {"a": {"edges": "paid"}}, "share": share}
    with pytest.raises(JamError, match="share"):
        Domain.from_dict(asks)
    with pytest.raises(JamError, match="no attribute with `edges: paid`"):
        Domain.from_dict({"attributes": {"a": {"values": [1]}}, "share": 0.1})


@pytest.mark.parametrize(
    "entry",
    [
        {"unit": "second", "dtype": "time64[us][pyarrow]"},
        {"unit": "minute", "dtype": "timedelta64[us]", "range": [0, 600]},
        {"unit": "hour", "range": ["2020-01-01", "2020-12-31"]},
        {"unit": "year"},
        {"integer": True, "range": [0, 1]},
        {"range": [0.001, 0.002]},
        {"decimals": 3, "format": "#,##0.000", "range": [-10, 10]},
    ],
)
def test_every_kind_can_be_asked(entry: dict[str, Any]) -> None:
    asked = Domain.from_dict({"attributes": {"a": {"edges": "paid", "bins": 6, **entry}}})
    assert Domain.from_dict(asked.to_dict()) == asked
    low, high = (binned(asked, "a").edges[place] for place in (0, -1))
    paid = Paid(sigma=20.0)
    rng = np.random.default_rng(3)
    paid.numbers = {"a": low + (high - low) * rng.beta(2.0, 6.0, ROWS)}
    domain = asked.buy(paid)
    assert Domain.from_dict(domain.to_dict()) == domain
    assert 1 <= binned(domain, "a").bins <= 6


LISTED = Domain.from_dict(
    {
        "delta_share": 0.25,
        "attributes": {
            "sick": {"values": "paid", "at_most": 3, "public": ["I10", "Z99"]},
            "sex": {"values": "paid"},
            "age": {"edges": "paid", "integer": True},
        },
    }
)


class Selected(Paid):
    """Draws that publish some values."""

    found: dict[str, dict[str, int]] = {
        "sick": {"C1": 50, "C2": 70, "C3": 60, "I10": 65, "other": 66}
    }

    def __call__(self, draws: Sequence[Draw]) -> list[PaidCounts]:
        if draws[0].attribute.binned:
            return super().__call__(draws)
        return [self.selected(one.step, one.attribute.name) for one in draws]

    def selected(self, step: str, name: str) -> PaidCounts:
        found = self.found.get(name, {})
        values, names = tuple(found.values()), tuple(found)
        return PaidCounts(step, name, len(names), 4e-4, 1.0, 5.0, values, names, 1e-10, 40)


def test_values_are_asked_for_and_read_again() -> None:
    assert LISTED.asked is not None
    assert LISTED.asked.names == ("age", "sick", "sex")
    assert Domain.from_dict(json.loads(json.dumps(LISTED.to_dict()))) == LISTED
    assert LISTED.attribute("sick").size == 2 + 3 + 1 + 1
    # All selections are within what the release has for them.
    whole = LISTED.asked.selections(1e-9)
    assert whole == 2.5e-10
    assert 2 * LISTED.asked.delta_of(1e-9) <= whole


@pytest.mark.parametrize("many", range(1, 17))
def test_a_grant_of_the_share_pays_for_any_number_of_selections(many: int) -> None:
    asked = Asked({}, {f"c{number}": (9, ()) for number in range(many)})
    for delta in (1e-9, 3e-7, 1.7e-5):
        whole = asked.selections(delta)
        assert Fraction(repr(whole)) == Fraction(repr(delta)) / 2
        drawn = many * Fraction(repr(asked.delta_of(delta)))
        lost = Fraction(repr(whole)) - drawn
        assert 0 <= lost < Fraction(2 * many, 10**18)
    # A release asks for no more rho than a grant of the documented figures has.
    assert Budget(1.0, 1e-9, asked.selections(1e-9)).rho == Budget(1.0, 1e-9, 5e-10).rho
    assert asked.selections(1e-9) == 5e-10


def test_without_selections_rho_has_all_of_delta() -> None:
    assert Asked({"age": 8}).selections(1e-9) == 0.0


def test_public_values_stay_and_the_most_frequent_are_selected() -> None:
    domain = LISTED.buy(Selected(sigma=40.0))
    assert domain.attribute("sick").listed == ("I10", "Z99", "C1", "C2", "C3", "other")
    assert domain.attribute("sex").listed == ("other",)
    assert domain.attribute("sick").other_code == 5
    # Public ones take the place of no other.
    few = replace(LISTED, asked=replace(LISTED.asked, values={"sick": (1, ("I10",))}))
    assert few.buy(Selected(sigma=40.0)).attribute("sick").listed == ("I10", "C2", "other")
    content = json.loads(json.dumps(domain.to_dict()))
    assert Domain.from_dict(content) == domain
    counts = content["bought"]["counts"]
    assert [one["step"] for one in counts[:3]] == ["domain/1", "domain/2", "domain-1/1"]
    for changed, fault in (
        ({"names": ["C1", "C2", "C3", "I10", "alice"]}, "does not follow"),
        ({"names": ["C1"]}, "by other draws"),
        ({"values": [1]}, "by other draws"),
        ({"threshold": None}, "by other draws"),
    ):
        bought = {**content["bought"], "counts": [{**counts[0], **changed}, *counts[1:]]}
        with pytest.raises(DomainError, match=fault):
            Domain.from_dict({**content, "bought": bought})


def test_a_lost_selection_leaves_the_public_values() -> None:
    lost = PaidCounts("domain/1", "sick", 0, 4e-4, 1.0, None, None, None, 1e-10, 0)
    paid = Selected(sigma=40.0)
    domain = LISTED.buy(
        lambda draws: (
            [lost if one.step == lost.step else paid([one])[0] for one in draws]
            if not draws[0].attribute.binned
            else paid(draws)
        )
    )
    assert domain.attribute("sick").listed == ("I10", "Z99", "other")
    assert Domain.from_dict(json.loads(json.dumps(domain.to_dict()))) == domain


@pytest.mark.parametrize(
    ("entry", "fault"),
    [
        ({"values": "paid", "at_most": 0}, "at_most must be from 1"),
        ({"values": "paid", "public": ["a", "a"]}, "twice"),
        ({"values": "paid", "public": ["other"]}, "'other'"),
        ({"values": "paid", "other": "rest"}, "remove 'other'"),
        ({"values": "paid", "dtype": "int64"}, "'dtype'"),
    ],
)
def test_values_that_cannot_be_asked_for(entry: dict[str, Any], fault: str) -> None:
    with pytest.raises(JamError, match=fault):
        Domain.from_dict({"attributes": {"a": entry}})
    with pytest.raises(JamError, match="delta_share"):
        Domain.from_dict({"attributes": {"a": {"values": "paid"}}, "delta_share": 1})


@pytest.mark.parametrize(
    "rule",
    [
        {"impossible": [{"age": {"bins": [0]}, "sex": ["f"]}]},
        {"constraints": ["age <= height"]},
        {"repairs": ["age <= height"]},
    ],
)
def test_no_rule_is_about_what_is_still_to_be_bought(rule: dict[str, Any]) -> None:
    attributes = {
        "sex": {"values": ["f", "m"]},
        "age": {"edges": "paid", "integer": True},
        "height": {"bounds": [0, 250], "bins": 5},
    }
    with pytest.raises(DomainError, match="a rule is about 'age'"):
        Domain.from_dict({"attributes": attributes, **rule})
    full = Domain.from_dict({"attributes": attributes, "repairs": [{"not_null": ["age"]}]})
    assert full.buy(nothing).repairs == full.repairs


def test_a_value_that_looks_like_another_is_written_as_that_one() -> None:
    entry = {"values": ["caf\u00e9 ", "x"], "alike": True}
    with pytest.raises(DomainError, match="outer blanks or in another form"):
        Domain.from_dict({"attributes": {"a": entry}})
    plain = Domain.from_dict({"attributes": {"a": {"values": ["caf\u00e9", "x"]}}})
    alike = Domain.from_dict({"attributes": {"a": {"values": ["caf\u00e9", "x"], "alike": True}}})
    cell = pd.Series([" cafe\u0301"])
    assert alike.attribute("a").codes_in(cell)[0].tolist() == [0]
    # Case matches the values that an author declares, and none that were bought.
    cell = pd.Series([" CAFE\u0301"])
    assert plain.attribute("a").codes_in(cell)[0].tolist() == [0]
    with pytest.raises(OutsideDomainError):
        alike.attribute("a").codes_in(cell)
    assert plain.digest != alike.digest
    assert Domain.from_dict(alike.to_dict()) == alike


def test_the_counts_of_a_purchase_say_what_single_attributes_are_like() -> None:
    paid = Paid(sigma=40.0)
    asked = ASKED.asked
    assert asked is not None
    domain = ASKED.buy(paid)
    assert domain.bought is not None
    singles = bought_singles(ASKED.attributes, asked, domain.bought.counts, ROWS)
    assert singles.keys() == paid.numbers.keys()
    for name, values in paid.numbers.items():
        attribute = binned(domain, name)
        weights = np.array(singles[name])
        held = np.append(shares(attribute, values), [0.0] * len(attribute.missing_codes))
        assert len(weights) == attribute.size
        assert np.abs(weights / weights.sum() - held).sum() < 0.1
    # Nothing is beyond the noise.
    blind = ASKED.buy(Paid(sigma=1e6)).bought
    assert blind is not None
    assert bought_singles(ASKED.attributes, asked, blind.counts, ROWS) == {}


def test_the_counts_of_a_selection_leave_the_rest_to_other() -> None:
    asking = Domain.from_dict({"attributes": {"a": {"values": "paid", "public": ["z"]}}})
    found = PaidCounts("domain/1", "a", 2, 0.1, 1.0, 2.0, (60, 30), ("x", "y"), 1e-9, 9)
    bought = asking.buy(lambda draws: [found]).bought
    assert bought is not None
    assert asking.asked is not None
    singles = bought_singles(asking.attributes, asking.asked, bought.counts, 100)
    assert singles == {"a": [0.0, 60.0, 30.0, 10.0, 0.0]}
