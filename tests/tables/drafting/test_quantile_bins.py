"""Bins by a public column: what holds them, where they end, and what decoded numbers are like."""

import numpy as np
import pandas as pd
import pytest

from jam_dagster.errors import DomainError, SpecificationError
from jam_dagster.tables import Domain, decode, draft_domain, encode

RNG = np.random.default_rng(0)
COLUMNS = {
    "ages that heap": np.r_[RNG.integers(18, 90, 3000), np.repeat(range(20, 90, 10), 150)],
    "delays": np.round(RNG.exponential(40, 5000) ** 1.3) - 20,
    "incomes": np.r_[np.zeros(1500), np.round(RNG.lognormal(10, 1, 3000), 2), np.full(600, 99999)],
    "reals": RNG.standard_t(2, 3000),
    "single": RNG.standard_t(2, 3000).astype("float32"),
    "single cents": np.round(RNG.lognormal(3, 1, 3000), 2).astype("float32"),
    "few": RNG.choice([0.5, 2.5, 6, 9, 13, 16.5, 23], 1000),
    "sixty": RNG.integers(-30, 30, 2000) * 1000,
}


def drafted(values):
    return draft_domain(pd.DataFrame({"a": values}))


def there_and_back(values, domain):
    encoded = encode(pd.DataFrame({"a": values}), domain, private=False)
    table = decode(encoded, np.random.default_rng(1))
    assert np.array_equal(encode(table, domain, private=False).columns[0], encoded.columns[0])
    return encoded, table["a"].to_numpy(dtype=np.float64)


@pytest.mark.parametrize("name", COLUMNS)
def test_every_bin_holds_rows_and_none_holds_many(name):
    values = COLUMNS[name]
    domain = drafted(values)
    encoded, decoded = there_and_back(values, domain)
    counts = np.bincount(encoded.columns[0])
    assert counts.min() > 0
    assert 6 <= len(counts) <= 40
    alone = [
        bool((values[encoded.columns[0] == code] == values[encoded.columns[0] == code][0]).all())
        for code in range(len(counts))
    ]
    assert max(counts[~np.array(alone)], default=0) <= 4 * len(values) / 32
    assert Domain.from_dict(domain.to_dict()) == domain
    # Its mean and spread come out, wide bins of the tail included.
    assert abs(decoded.mean() - values.mean()) < 0.06 * values.std()
    assert set(decoded) <= set(values) or len(set(values)) > 100
    if len(set(values)) <= 100:
        shares = [np.unique(one, return_counts=True)[1] / len(values) for one in (values, decoded)]
        assert np.abs(shares[0] - shares[1]).max() < 0.02


@pytest.mark.parametrize("scale", [1e-320, 1e-310, 1e-300, 1e150])
def test_the_least_and_largest_floats_have_bins(scale):
    values = np.random.default_rng(0).random(3000) * scale
    domain = drafted(values)
    encoded, _ = there_and_back(values, domain)
    assert np.bincount(encoded.columns[0]).min() > 0


def test_edges_are_round_numbers():
    edges = drafted(COLUMNS["incomes"]).attributes[0].edges
    # But for those around a value that many share.
    assert {edge for edge in edges[:-1] if edge != float(f"{edge:.2g}")} == {99999, 99999.01}


def test_shared_values_have_a_bin_of_their_own():
    low, high = drafted(COLUMNS["incomes"]).attributes[0].bin_limits
    alone = low[low == high].tolist()
    assert alone[0] == 0
    assert 99999 in alone


def test_columns_that_hang_together_still_do_within_wide_bins():
    late = np.round(RNG.exponential(30, 20_000) ** 1.3)
    table = pd.DataFrame({"late": late, "later": late + RNG.integers(-9, 10, len(late))})
    domain = draft_domain(table)
    again = decode(encode(table, domain), np.random.default_rng(0)).astype(float)
    slope = np.polyfit(again["late"], again["later"], 1)[0]
    assert 0.97 < slope < 1.01


def test_heaps_within_a_bin_come_out():
    values = COLUMNS["delays"].copy()
    values[values > 200] = 240
    _, decoded = there_and_back(values, drafted(values))
    assert abs((decoded == 240).mean() - (values == 240).mean()) < 0.01


def test_times_of_day_have_sixty_minutes_an_hour_also_where_few_rows_are():
    rng = np.random.default_rng(0)
    minutes = np.concatenate([rng.integers(0, 600, 30), rng.integers(600, 1440, 3000)])
    clock = minutes // 60 * 100 + minutes % 60
    _, back = there_and_back(clock, drafted(clock))
    assert (back % 100 < 60).all()
    # Numbers that only look like it in part are numbers.
    counts = np.append(clock, 675)
    _, back = there_and_back(counts, drafted(counts))
    assert not (back % 100 < 60).all()


def test_a_domain_from_both_tables_has_no_such_weights():
    table = pd.DataFrame({"a": COLUMNS["few"]})
    attribute = draft_domain(table, private=table).attributes[0]
    assert attribute.within == ()
    assert attribute.bins == 32


@pytest.mark.parametrize(
    ("values", "step", "decimals"),
    [
        (RNG.integers(1, 400, 3000) / 20, 0.05, 2),
        ((RNG.integers(1, 400, 3000) / 20).round(2).astype("float32"), 0.05, 2),
        (RNG.integers(1, 400, 3000) + 0.99, 1.0, 2),
        (RNG.integers(1, 4000, 3000) * 10**9, 10.0**9, None),
        (RNG.integers(1, 4000, 3000) * 10.0**9, 10.0**9, None),
        (np.r_[np.zeros(900), RNG.integers(-300, 300, 3000) * 2], 2.0, None),
        (np.round(RNG.gamma(2, 3e-7, 3000), 9), None, 9),
        (RNG.gamma(2, 3e-7, 3000), None, None),
        (RNG.gamma(2, 3e-7, 3000).astype("float32"), None, None),
    ],
)
def test_steps_and_significant_digits_are_those_of_the_column(values, step, decimals):
    domain = drafted(values)
    attribute = domain.attribute("a")
    assert (attribute.step, attribute.decimals) == (step, decimals)
    assert Domain.from_dict(domain.to_dict()) == domain
    assert Domain.from_dict(domain.to_dict()).digest == domain.digest
    _, decoded = there_and_back(values, domain)
    if step:
        apart = (decoded - float(values.min())) / step
        assert np.allclose(apart, np.rint(apart), atol=1e-4)
        assert len(np.unique(decoded)) > 150
    if decimals:
        assert (decoded == decoded.astype(values.dtype).round(decimals)).all()


@pytest.mark.parametrize("step", [0, -1, 0.015, "x"])
def test_a_step_is_a_multiple_of_the_last_decimal(step):
    entry = {"edges": [0, 1, 2], "decimals": 2, "step": step}
    with pytest.raises((DomainError, SpecificationError), match="step"):
        Domain.from_dict({"attributes": {"a": entry}})
    with pytest.raises(DomainError, match="step must be"):
        Domain.from_dict({"attributes": {"a": {"edges": [0, 1], "step": 1}}})
