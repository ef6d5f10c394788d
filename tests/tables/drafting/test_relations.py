"""What a draft finds among values: money, rates, dates, powers and comparisons, and no chance."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from jam_dagster.errors import DomainError
from jam_dagster.evaluation.expectations.checked_table import broken_rows
from jam_dagster.tables import Domain, EncodedTable, decode, draft_table, encode
from jam_dagster.tables.codes.repair import repaired
from jam_dagster.tables.domain.derived import DerivedColumn
from jam_dagster.tables.drafting.determined import determined

ROWS = 600
RNG = np.random.default_rng(0)


def proposed(**columns: Any) -> dict[str, Any]:
    table = pd.DataFrame(columns)
    return determined(table, list(table))


def euros(values: np.ndarray) -> list[str]:
    return [f"{one:,.2f}".replace(",", " ").replace(".", ",") + " €" for one in values]


def dollars(values: np.ndarray) -> list[str]:
    return [f"${one:,.2f}" for one in values]


def invoices(seed: int = 0, rows: int = ROWS) -> pd.DataFrame:
    """Return invoices in dollars and German dates, of which some are not yet paid."""
    rng = np.random.default_rng(seed)
    net = np.round(np.exp(rng.normal(6, 0.8, rows)), 2)
    rate = rng.choice([0, 10, 20], rows)
    tax = np.round(net * rate / 100, 2)
    issued = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, rows), "D")
    days = rng.choice([15, 30, 60], rows)
    due = issued + pd.to_timedelta(days, "D")
    paid = (issued + pd.to_timedelta(rng.integers(0, 90, rows), "D")).to_series(index=range(rows))
    paid = paid.mask(rng.random(rows) < 0.2)
    late = np.where(paid.isna(), "open", np.where(paid > due, "late", "in time"))
    return pd.DataFrame(
        {
            "net": dollars(net),
            "rate": [f"{one} %" for one in rate],
            "tax": dollars(tax),
            "total": dollars(net + tax),
            "issued": issued.strftime("%d.%m.%Y"),
            "days": days,
            "due": due.strftime("%d.%m.%Y"),
            "paid": paid.dt.strftime("%d.%m.%Y"),
            "status": late,
        }
    )


def test_invoices_that_add_up_and_are_due_in_time() -> None:
    draft = draft_table(invoices())
    found = {one.name: one.to_entry() for one in draft.domain.derived}
    assert found == {
        "tax": 'text(round(number(net) * number(rate) / 100, 2), "$#,##0.00")',
        "total": 'text(number(net) + number(tax), "$#,##0.00")',
        "due": 'text(after(issued, days, "day"), "%d.%m.%Y")',
        "status": {
            "expression": "compared(due, paid)",
            "values": {"<": "late", "=": "in time", ">": "in time", "null": "open"},
        },
    }
    assert all(draft.breakable[name] > 200 for name in found)
    assert "  # 399 public rows could have broken it" in draft.remark
    # Rows of other invoices keep all of it, whatever their codes.
    made = decode(encode(invoices(1), draft.domain, private=False), RNG)
    assert list(made) == list(invoices())
    for rule in draft.domain.rules:
        if hasattr(rule, "tree"):
            assert not broken_rows(rule, made, draft.domain.formats).any()
    assert made["total"].str.startswith("$").all()
    assert (made["status"].eq("open") == made["paid"].isna()).all()


def test_money_with_decimal_commas() -> None:
    net = RNG.integers(100, 900_000, ROWS) / 100
    fee = RNG.integers(10, 9_000, ROWS) / 100
    found = proposed_texts(net=euros(net), fee=euros(fee), gross=euros(net + fee))
    assert found == {"gross": 'text(number(net) + number(fee), "# ##0,00 €")'}


def proposed_texts(**columns: Any) -> dict[str, Any]:
    draft = draft_table(pd.DataFrame(columns))
    return {one.name: one.to_entry() for one in draft.domain.derived}


def test_sums_of_three_and_mean_values() -> None:
    a, b, c = RNG.integers(0, 50, (3, ROWS))
    assert proposed(a=a, b=b, c=c, all=a + b + c) == {"all": "a + b + c"}
    assert proposed(a=a, b=b, c=c, d=2 * a + 3 * b - c) == {"d": "a * 2 + b * 3 - c"}
    assert proposed(a=a, b=b, c=c, mean=np.round((a + b + c) / 3, 2)) == {
        "mean": "round((a + b + c) / 3, 2)"
    }
    assert proposed(a=a, b=b, share=np.round((a - b) / 4, 2)) == {"share": "round((a - b) / 4, 2)"}
    flags = RNG.random((3, ROWS)) < 0.3
    x, y, z = flags
    assert proposed(x=x, y=y, z=z, many=flags.sum(axis=0)) == {
        "many": "number(x) + number(y) + number(z)"
    }


def test_sums_of_many_neighbours() -> None:
    parts = {f"part{at}": RNG.integers(0, 20, ROWS) for at in range(7)}
    table = pd.DataFrame(parts | {"all": sum(parts.values())})
    assert determined(table, list(table)) == {"all": " + ".join(parts)}


def test_shares_that_add_up() -> None:
    rng = np.random.default_rng(0)
    shares = rng.dirichlet([6, 3, 2, 2, 1, 1], 2 * ROWS)
    counts = np.array([rng.multinomial(1000, one) for one in shares]) / 10
    table = pd.DataFrame(counts, columns=[f"s{at}" for at in range(6)])
    table["kind"] = RNG.choice(list("abc"), len(table))
    public, private = table[:ROWS].reset_index(drop=True), table[ROWS:].reset_index(drop=True)
    domain = draft_table(public).domain
    (formula,) = domain.formulas
    assert formula.expression == "round(100 - s1 - s2 - s3 - s4 - s5, 1)"
    assert not domain.derived
    codes = encode(private, domain, private=False)
    made = decode(repaired(codes, rng), rng)
    assert np.allclose(made.iloc[:, :6].sum(axis=1), 100)
    # Shuffled codes of a column each, of which most fit no more.
    apart = EncodedTable(domain, tuple(rng.permutation(one) for one in codes.columns))
    made = decode(repaired(apart, rng), rng)
    assert np.isclose(made.iloc[:, :6].sum(axis=1), 100).mean() > 0.85
    assert (made.iloc[:, :6] >= 0).all(axis=None)
    public.loc[3, "s0"] += 0.1
    assert not draft_table(public).domain.formulas


@pytest.mark.parametrize(
    "columns", [["s0", "s1", "s2"], ["s0", "s1", "s2", "s3"], ["s0", "x", "s1", "s2"]]
)
def test_few_shares_that_add_up_are_not_below_zero(columns: list[str]) -> None:
    rng = np.random.default_rng(0)
    names = [one for one in columns if one != "x"]
    # One share is never above another one: the sum is kept, not the order.
    shares = np.sort(rng.dirichlet([1.5] * len(names), 2 * ROWS), axis=1)
    shares[:, 1:] = rng.permuted(shares[:, 1:], axis=1)
    counts = np.array([rng.multinomial(1000, one) for one in shares]) / 10
    table = pd.DataFrame(counts, columns=names).assign(x=rng.integers(0, 99, 2 * ROWS))[columns]
    public, private = table[:ROWS].reset_index(drop=True), table[ROWS:].reset_index(drop=True)
    domain = draft_table(public).domain
    (formula,) = domain.formulas
    assert set(formula.attributes) == set(names)
    assert not domain.derived
    codes = encode(private, domain, private=False)
    apart = EncodedTable(domain, tuple(rng.permutation(one) for one in codes.columns))
    made = decode(repaired(apart, rng), rng)[names]
    assert np.isclose(made.sum(axis=1), 100).mean() > 0.75
    assert (made >= 0).all(axis=None)


def test_shares_that_no_formula_can_keep_are_derived() -> None:
    rng = np.random.default_rng(0)
    counts = [rng.multinomial(1000, one) for one in rng.dirichlet([6, 3, 2], ROWS)]
    texts = (pd.DataFrame(counts, columns=list("abc")) / 10).map("{:.1f}%".format)
    domain = draft_table(texts).domain
    assert not domain.formulas
    assert len(domain.derived) == 1


def test_a_sum_of_columns_with_missing_cells() -> None:
    a, b, c = (pd.Series(RNG.integers(0, 50, ROWS), dtype="Int64") for _ in range(3))
    a, b, c = (one.mask(RNG.random(ROWS) < 0.3) for one in (a, b, c))
    assert proposed(a=a, b=b, c=c, all=a + b + c) == {"all": "a + b + c"}


def test_products_quotients_and_rates() -> None:
    price, rate = RNG.integers(99, 9999, ROWS) / 100, RNG.choice([5, 7, 19], ROWS)
    assert proposed(price=price, rate=rate, net=np.round(price * (1 - rate / 100), 2)) == {
        "net": "round(price * (100 - rate) / 100, 2)"
    }
    total = RNG.integers(100, 99_999, ROWS)
    people = RNG.integers(100, 999, ROWS)
    assert proposed(total=total, people=people, each=np.round(total / people, 2)) == {
        "each": "round(total / people, 2)"
    }
    weight, height = RNG.integers(400, 1500, ROWS) / 10, RNG.integers(140, 200, ROWS)
    assert proposed(kg=weight, cm=height, bmi=np.round(weight / (height / 100) ** 2, 1)) == {
        "bmi": "round(kg / (cm * cm) * 10000, 1)"
    }
    celsius = RNG.integers(-200, 400, ROWS) / 10
    assert proposed(f=np.round(celsius * 1.8 + 32, 2), c=celsius) == {"f": "round(c * 1.8 + 32, 2)"}
    miles = RNG.integers(1, 9999, ROWS)
    assert proposed(km=np.round(miles * 1.609344, 3), miles=miles) == {
        "km": "round(miles * 1.609344, 3)"
    }


def test_powers_and_logarithms() -> None:
    income = RNG.integers(500, 99_999, ROWS) / 1000
    assert proposed(inc=income, incsq=income**2) == {"incsq": "inc * inc"}
    grams = RNG.integers(500, 5000, ROWS)
    assert proposed(grams=grams, log=np.log(grams)) == {"log": "log(grams)"}
    assert proposed(grams=grams, log=np.log(grams).astype(np.float32)) == {"log": "log(grams)"}
    assert proposed(grams=grams, log=np.log10(grams).round(4)) == {"log": "round(log10(grams), 4)"}
    assert proposed(area=grams, side=np.sqrt(grams).round(2)) == {"side": "round(sqrt(area), 2)"}


def test_timestamps_and_their_lengths() -> None:
    start = pd.Timestamp("2024-01-01") + pd.to_timedelta(RNG.integers(0, 10**7, ROWS), "s")
    minutes = RNG.integers(1, 300, ROWS)
    end = start + pd.to_timedelta(minutes, "min")
    assert proposed(start=start, end=end, minutes=minutes) == {
        "end": 'after(start, minutes, "minute")'
    }
    # Of two days, and no time: the length is the plainer one.
    days = start.normalize()
    table = pd.DataFrame({"start": days, "end": days + pd.to_timedelta(minutes, "D")})
    table["days"] = minutes
    assert determined(table, list(table)) == {"end": 'after(start, days, "day")'}


@pytest.mark.parametrize("seed", range(3))
def test_what_chance_pairs_is_no_rule(seed: int) -> None:
    """Each column is shuffled by itself, and nothing is left to find."""
    table = invoices(seed)
    table = table.assign(net=[one.strip("$").replace(",", "") for one in table["net"]])
    table = table.astype({"net": float})
    rng = np.random.default_rng(seed)
    flags = {f"flag{at}": (rng.random(ROWS) < 0.05).astype(int) for at in range(12)}
    counts = {f"count{at}": rng.integers(0, 4, ROWS) for at in range(8)}
    table = table.assign(**flags, **counts)
    apart = pd.DataFrame({name: rng.permutation(column) for name, column in table.items()})
    for rows in (apart, apart.iloc[:300]):
        draft = draft_table(rows)
        assert not draft.domain.derived
        assert not draft.proposed


def test_a_rule_that_one_row_breaks_is_none() -> None:
    table = invoices()
    table.loc[7, ["total", "due"]] = ["$3.00", "01.01.2024"]
    assert [one.name for one in draft_table(table).domain.derived] == ["tax", "status"]


def test_of_columns_that_give_each_other_most_are_derived() -> None:
    """The net price may be taken from the total, and then no rate gives the tax."""
    net = np.round(np.exp(RNG.normal(6, 0.8, ROWS)), 2)
    rate = RNG.choice([10, 20], ROWS)
    tax = np.round(net * rate / 100, 2)
    total = np.round(net + tax, 0) + 0.5
    table = pd.DataFrame(
        {"total": total, "tax": tax, "rate": rate, "net": np.round(total - tax, 2)}
    )
    assert set(determined(table, list(table))) == {"net"}
    table = pd.DataFrame({"rest": net * 2, "net": net, "rate": rate, "tax": tax})
    table["total"] = np.round(net + tax, 2)
    assert set(determined(table, list(table))) == {"total", "tax", "rest"}


def test_a_number_that_is_never_negative_breaks_its_rule_below_zero() -> None:
    rng = np.random.default_rng(0)
    net = rng.choice([100, 1000], ROWS)
    tax, fee = (net * rng.uniform(0, 0.4, (2, ROWS))).astype(int)
    table = pd.DataFrame({"net": net, "tax": tax, "fee": fee, "paid": net - tax - fee})
    texts = table.assign(paid=[f"${one:,}.00" for one in table["paid"]])
    for public in (table, texts):
        domain = draft_table(public).domain
        (derived,) = domain.derived
        (rule,) = domain.plan
        assert (derived.name, derived.at_least) == ("paid", 0)
        assert rule.described.endswith(", at least 0")
        assert Domain.from_dict(domain.to_dict()).digest == domain.digest
        assert not broken_rows(rule, public, domain.formats).any()
        # As if another row had these cells: still what they make of it, and negative.
        worse = public[:3].assign(net=0, paid=-(tax + fee)[:3])
        if public is texts:
            worse["paid"] = [f"-${one}.00" for one in (tax + fee)[:3]]
        assert broken_rows(rule, worse, domain.formats).all()
    assert draft_table(table.assign(paid=net - tax - fee - 500)).domain.derived[0].at_least is None
    for expression, least in ((3, 0.0), ("b + 1", np.nan)):
        with pytest.raises(DomainError, match="at_least"):
            DerivedColumn("a", expression, at_least=least)
