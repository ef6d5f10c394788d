"""How long a budget lasts."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest

from jam_dagster.privacy.ledger.balance import Balance
from jam_dagster.privacy.ledger.forecast import HORIZON, forecast
from jam_dagster.privacy.ledger.policy import GROUNDS, Policy

NOW = datetime(2026, 11, 21, tzinfo=UTC)
DISJOINT = Policy("lifetime", "disjoint", GROUNDS[1])


def balance(policy: Policy, granted: int = 100, used: int = 0, **by_partition: int) -> Balance:
    return Balance(
        dataset="people",
        epsilon=1.0,
        delta=1e-9,
        granted_units=granted,
        reserved_units=0,
        spent_units=used,
        lifetime_spent_units=used,
        policy=policy,
        used_by_partition=by_partition or {"": used},
    )


def weeks(count: int, start: datetime = NOW) -> list[tuple[str, datetime | None]]:
    every = timedelta(days=7)
    return [(f"week {place}", start + place * every) for place in range(count)]


def test_a_lifetime_ends_with_the_last_that_fits() -> None:
    assert forecast(balance(Policy(), used=35), 20, weeks(10), now=NOW) == (
        3,
        "At this price 3 more fit: week 3, which is due on 2026-12-12, does not fit."
        " The budget does not renew.",
    )


def test_exactly_what_is_left_fits() -> None:
    assert forecast(balance(Policy(), used=40), 20, weeks(4), now=NOW)[0] == 3
    assert forecast(balance(Policy(), used=41), 20, weeks(4), now=NOW)[0] == 2


def test_a_renewing_budget_counts_each_period_alone() -> None:
    # One more fits in November, four in a month: the fifth of December's weeks does not, if there
    # are five.
    month = Policy("month")
    first = datetime(2026, 11, 29, tzinfo=UTC)
    fit, said = forecast(balance(month, used=75), 25, weeks(12, first), now=NOW)
    # 29 November; 6, 13, 20, 27 December; 3, 10, 17, 24, 31 January.
    assert fit == 9
    assert "week 9, which is due on 2027-01-31, does not fit." in said
    assert "The budget renews on 2027-02-01 (UTC)." in said


def test_what_is_overdue_counts_as_made_now() -> None:
    past = weeks(3, NOW - timedelta(days=300))
    assert forecast(balance(Policy("month"), used=50), 25, past, now=NOW)[0] == 2


def test_disjoint_partitions_fit_side_by_side_or_not_at_all() -> None:
    assert forecast(balance(DISJOINT), 100, weeks(9), now=NOW)[0] is None
    whole = balance(DISJOINT, used=10)
    assert forecast(whole, 91, weeks(9), now=NOW)[0] == 0
    assert forecast(whole, 90, weeks(9), now=NOW)[0] is None
    # Whatever a partition that was released is called.
    assert forecast(balance(DISJOINT, another=100), 100, weeks(9), now=NOW)[0] is None


def test_no_end_in_sight_is_found_in_time() -> None:
    found = forecast(balance(Policy(), granted=10**15), 1, weeks(HORIZON + 5), now=NOW)
    assert found == (None, "All partitions in sight fit.")


@pytest.mark.parametrize(
    ("period", "at", "renews"),
    [
        ("lifetime", NOW, None),
        ("month", NOW, date(2026, 12, 1)),
        ("month", datetime(2026, 12, 31, 23, tzinfo=UTC), date(2027, 1, 1)),
        ("quarter", datetime(2026, 7, 1, tzinfo=UTC), date(2026, 10, 1)),
        ("quarter", NOW, date(2027, 1, 1)),
        ("year", NOW, date(2027, 1, 1)),
        # Still the old year in UTC.
        ("year", datetime.fromisoformat("2027-01-01T00:30+01:00"), date(2027, 1, 1)),
    ],
)
def test_the_day_of_renewal_begins_the_next_period(period, at, renews) -> None:
    policy = Policy(period)
    assert policy.renews_after(at) == renews
    if renews is not None:
        begins = datetime(renews.year, renews.month, renews.day, tzinfo=UTC)
        assert policy.period_of(begins.isoformat()) != policy.period_of(at.isoformat())
        before = begins - timedelta(seconds=1)
        assert policy.period_of(before.isoformat()) == policy.period_of(at.isoformat())
