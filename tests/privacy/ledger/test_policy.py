"""How budgets count: periods, partitions, and releases that begin again."""

from __future__ import annotations

import pytest

from jam_dagster.errors import (
    BudgetError,
    BudgetExceededError,
    LedgerIntegrityError,
    ReleaseClosedError,
    SpecificationError,
)
from jam_dagster.privacy import Budget, Kind, Ledger, ReleaseId
from jam_dagster.privacy.ledger.journal import append, user
from jam_dagster.privacy.ledger.policy import GROUNDS, Holding, Policy, use
from tests.privacy.conftest import Clock

RHO = Budget(1.0, 1e-9).rho
MOST = {"mechanism": 0.6 * RHO}


@pytest.fixture
def url(each_url):
    return each_url


@pytest.fixture
def clock():
    return Clock(2026, 11, 21)


@pytest.fixture
def ledger(url, clock):
    return Ledger(url, clock=clock)


def release_id(release, partition="", specification="x"):
    return ReleaseId("people", release, specification, partition)


def grant(ledger, reason="", **policy):
    return ledger.grant("people", epsilon=1.0, delta=1e-9, policy=Policy(**policy), reason=reason)


@pytest.mark.parametrize(
    ("period", "at", "expected"),
    [
        ("lifetime", "2026-11-21T00:00:00+00:00", ""),
        ("year", "2026-12-31T23:59:59+00:00", "2026"),
        ("quarter", "2026-09-30T23:59:59+00:00", "2026-Q3"),
        ("quarter", "2026-10-01T00:00:00+00:00", "2026-Q4"),
        ("month", "2026-11-21T00:00:00+00:00", "2026-11"),
        # Periods are those of UTC.
        ("month", "2026-12-01T00:30:00+01:00", "2026-11"),
    ],
)
def test_periods_are_calendar_periods_in_utc(period, at, expected):
    assert Policy(period).period_of(at) == expected


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ({"period": "week"}, "period of a budget must be one of lifetime, .* got 'week'"),
        ({"partitions": "parallel"}, "partitions of a budget must be one of add, disjoint"),
        ({"partitions": "disjoint"}, "need a ground: 'add/remove neighbours' or 'memb"),
        ({"partitions": "disjoint", "ground": "trust me"}, "got 'trust me'"),
        ({"ground": GROUNDS[0]}, "have no ground but"),
    ],
)
def test_a_policy_that_means_nothing(path, policy, message):
    with pytest.raises(SpecificationError, match=message):
        grant(Ledger(path), **policy)
    assert not path.exists()


def test_definitions_grant_no_new_dataset_after_the_officer_s_word(ledger):
    """The same people would have another budget under a new name."""
    given = {"epsilon": 1.0, "delta": 1e-9}
    ledger.grant("people", **given)
    ledger.grant("before", **given, by_definitions=True)
    assert not ledger.by_hand()
    for _ in range(2):
        ledger.grant_by_hand(reason="all are granted")
    assert ledger.by_hand()
    events = ledger.events()
    assert [event.kind for event in events].count(Kind.BY_HAND) == 1
    with pytest.raises(BudgetError, match=r"ledger grant .* --dataset another"):
        ledger.grant("another", **given, by_definitions=True)
    assert ledger.events() == events
    for dataset in ("people", "before"):
        assert ledger.grant(dataset, **given, by_definitions=True) == ledger.balance(dataset)
    ledger.grant("another", **given)
    ledger.verify()


def test_a_renewing_budget_counts_the_period_alone(ledger, clock):
    grant(ledger, period="month")
    november = ledger.open_release(release_id("a"), MOST)
    november.account("mechanism").charge("s", 0.4 * RHO)
    with pytest.raises(BudgetExceededError, match="for 2026-11"):
        ledger.open_release(release_id("b"), MOST)
    clock.set(2026, 12, 1)
    balance = ledger.balance("people")
    assert (balance.period, balance.spent, balance.reserved) == ("2026-12", 0.0, 0.0)
    assert balance.lifetime_spent == pytest.approx(0.4 * RHO)
    december = ledger.open_release(release_id("b"), MOST)
    # What was held over counts where it was reserved.
    november.account("mechanism").charge("t", 0.1 * RHO)
    december.account("mechanism").charge("s", 0.3 * RHO)
    balance = ledger.balance("people")
    assert balance.spent == pytest.approx(0.3 * RHO)
    assert balance.reserved == pytest.approx(0.3 * RHO)
    assert balance.lifetime_spent == pytest.approx(0.8 * RHO)
    november.close("late")
    assert ledger.balance("people") == balance
    charges = [event for event in ledger.events() if event.kind == Kind.CHARGED]
    assert [event.counts_in for event in charges] == ["2026-11", "2026-11", "2026-12"]
    ledger.verify()


def test_a_policy_changes_by_a_grant_that_must_fit(ledger, clock):
    clock.set(2026, 10, 1)
    grant(ledger, period="month")
    assert grant(ledger, period="month").policy == Policy("month")
    for month in (10, 11, 12):
        clock.set(2026, month, 1)
        ledger.open_release(release_id(f"r{month}"), MOST)
    for wider in ("quarter", "year", "lifetime"):
        with pytest.raises(BudgetError, match="cannot be lowered"):
            grant(ledger, period=wider)
    clock.set(2027, 1, 1)
    # The year begins with nothing reserved, the lifetime does not.
    assert grant(ledger, period="year").reserved == 0.0
    with pytest.raises(BudgetError, match="cannot be lowered"):
        grant(ledger)
    grants = [event for event in ledger.events() if event.kind == Kind.GRANTED]
    assert [event.period for event in grants] == ["month", "year"]
    ledger.verify()


def test_a_narrower_period_begins_with_what_it_has_seen(ledger):
    """Renewing does not forget what this period has reserved already."""
    grant(ledger)
    ledger.open_release(release_id("a"), MOST)
    assert grant(ledger, period="month").reserved == pytest.approx(0.6 * RHO)
    with pytest.raises(BudgetExceededError):
        ledger.open_release(release_id("b"), MOST)


def test_partitions_add_up_unless_they_are_disjoint(ledger):
    grant(ledger)
    ledger.open_release(release_id("a", "east"), MOST)
    with pytest.raises(BudgetExceededError):
        ledger.open_release(release_id("a", "west"), MOST)
    disjoint = grant(ledger, partitions="disjoint", ground=GROUNDS[1])
    assert disjoint.remaining_units_in("west") == disjoint.granted_units
    ledger.open_release(release_id("a", "west"), MOST)
    balance = ledger.balance("people")
    assert balance.reserved == pytest.approx(0.6 * RHO)
    # What was released of all of them counts beside the largest.
    with pytest.raises(BudgetExceededError):
        ledger.open_release(release_id("all"), MOST)
    ledger.open_release(release_id("all"), {"mechanism": 0.3 * RHO})
    with pytest.raises(BudgetExceededError):
        ledger.open_release(release_id("b", "east"), {"mechanism": 0.2 * RHO})
    with pytest.raises(BudgetError, match="cannot be lowered"):
        grant(ledger)
    assert ledger.events()[2].ground == "membership public and fixed"
    ledger.verify()


def test_use_composes_spent_and_reserved():
    at = "2026-11-21T00:00:00+00:00"
    holdings = [Holding(at, "", 1, 2), Holding(at, "east", 10, 5), Holding(at, "west", 0, 8)]
    added = use(Policy(), holdings)
    assert (added.spent, added.reserved) == (15, 11)
    # The largest spent is that of west, the largest use that of east.
    apart = use(Policy("lifetime", "disjoint", GROUNDS[0]), holdings)
    assert (apart.spent, apart.spent + apart.reserved) == (10, 18)


def test_a_release_closed_before_its_first_charge_opens_again(ledger):
    grant(ledger)
    first = ledger.open_release(release_id("a"), {**MOST, "evaluation": 0.1 * RHO})
    account = first.account("mechanism")
    account.close("not today")
    # A part of it has ended: the release has not.
    assert ledger.open_release(release_id("a"), first.shares).account("mechanism").closed
    first.close("not today")
    ledger.check(release_id("a"), MOST)
    again = ledger.open_release(release_id("a"), MOST)
    assert (again.closed, again.shares.keys()) == (False, {"mechanism"})
    assert [event.opening for event in ledger.events()[-2:]] == ["", "2"]
    again.account("mechanism").charge("s", 0.1 * RHO)
    assert account.charged("s") is not None  # the share is known by its release
    again.close()
    for _ in range(2):
        assert ledger.open_release(release_id("a"), MOST).closed
    with pytest.raises(ReleaseClosedError):
        again.account("mechanism").charge("t", 1e-6)
    ledger.verify()


def test_a_release_opens_as_often_as_it_was_closed_uncharged(ledger):
    grant(ledger)
    for _ in range(4):
        ledger.open_release(release_id("a"), MOST).close("not yet")
    assert ledger.balance("people").reserved == 0.0
    reserved = [event.opening for event in ledger.events() if event.kind == Kind.RESERVED]
    assert reserved == ["", "2", "3", "4"]
    assert len(ledger.reservations()) == 1
    ledger.verify()


def test_a_corrected_specification_takes_over_what_was_not_charged(ledger):
    grant(ledger)
    wrong = ledger.open_release(release_id("a"), MOST)
    other = ledger.open_release(release_id("b"), {"mechanism": 0.1 * RHO})
    right = release_id("a", specification="y")
    ledger.check(right, MOST)
    ledger.open_release(right, MOST)
    assert wrong.closed
    assert not other.closed
    assert ledger.balance("people").reserved == pytest.approx(0.7 * RHO)
    closing = [event for event in ledger.events() if event.kind == Kind.CLOSED]
    assert [(event.specification, event.reason, event.by) for event in closing] == [
        ("x", "superseded before its first draw", user())
    ]
    # A run of the superseded one that comes late draws nothing; run anew, it takes over again.
    with pytest.raises(ReleaseClosedError):
        wrong.account("mechanism").charge("s", 1e-6)
    ledger.open_release(release_id("a"), MOST)
    assert ledger.reservation(right).closed
    ledger.verify()


def test_a_charged_release_is_never_superseded(ledger):
    grant(ledger)
    charged = ledger.open_release(release_id("a"), MOST)
    charged.account("mechanism").charge("s", 0.1 * RHO)
    before = ledger.events()
    with pytest.raises(BudgetExceededError, match="changed specification"):
        ledger.open_release(release_id("a", specification="y"), MOST)
    assert ledger.events() == before
    ledger.open_release(release_id("a", specification="y"), {"mechanism": 0.3 * RHO})
    assert not charged.closed


def test_another_name_takes_over_what_was_not_charged(ledger):
    grant(ledger)
    first = ledger.open_release(release_id("a"), MOST)
    for attempt in (ledger.check, ledger.open_release):
        attempt(release_id("b"), MOST, takes_over=[release_id("a")])
    assert first.closed
    assert ledger.balance("people").reserved == pytest.approx(0.6 * RHO)
    ledger.verify()


@pytest.mark.parametrize("began", ["charged", "counted"])
def test_another_name_takes_over_no_release_that_began(ledger, began):
    grant(ledger, records="public")
    account = ledger.open_release(release_id("a"), MOST).account("mechanism")
    if began == "charged":
        account.charge("s", 0.1 * RHO)
    else:
        account.publish_records(100)
    before = ledger.events()
    with pytest.raises(
        BudgetExceededError, match=r"by release 'a', edition '1': jam-dagster ledger close"
    ):
        ledger.open_release(release_id("b"), MOST, takes_over=[release_id("a")])
    assert ledger.events() == before


def test_a_refusal_names_what_is_reserved_the_latest_first(ledger):
    grant(ledger)
    for number in range(5):
        ledger.open_release(release_id(f"n {number}", partition="p"), {"mechanism": 0.1 * RHO})
    ledger.reservation(release_id("n 3", partition="p")).close()
    with pytest.raises(BudgetExceededError) as refused:
        ledger.open_release(release_id("b"), {"mechanism": 0.7 * RHO})
    said = str(refused.value)
    named = ["n 4", "n 2", "n 1"]
    places = [said.index(f"by release {one!r}, partition 'p'") for one in named]
    assert places == sorted(places)
    assert "--dataset people --release 'n 4' --partition p --reason REASON" in said
    assert "n 3" not in said
    assert said.endswith("; more by 1 others")


def test_a_refused_correction_supersedes_nothing(ledger):
    grant(ledger)
    wrong = ledger.open_release(release_id("a"), MOST)
    before = ledger.events()
    for attempt in (ledger.check, ledger.open_release):
        with pytest.raises(BudgetExceededError):
            attempt(release_id("a", specification="y"), {"mechanism": 1.1 * RHO})
    assert not wrong.closed
    assert ledger.events() == before


@pytest.mark.parametrize("other", [{"partition": "p"}, {"edition": "2"}, {"release": "b"}])
def test_only_the_same_release_is_superseded(ledger, other):
    grant(ledger)
    first = ledger.open_release(release_id("a"), {"mechanism": 0.1 * RHO})
    ledger.open_release(
        ReleaseId(**{**vars(release_id("a")), **other, "specification": "y"}),
        {"mechanism": 0.1 * RHO},
    )
    assert not first.closed


# --- clocks that are set back, and forward


def spend(ledger, release, rho=0.6 * RHO):
    account = ledger.open_release(release_id(release), {"mechanism": rho}).account("mechanism")
    account.charge("draw", rho * 0.99)


@pytest.mark.parametrize("earlier", [(2026, 10, 31), (2020, 1, 1)], ids=["a month", "long ago"])
def test_a_clock_set_back_finds_no_budget_of_an_earlier_period(ledger, clock, earlier):
    grant(ledger, period="month")
    spend(ledger, "november")
    clock.set(*earlier)
    for attempt in (ledger.check, ledger.open_release):
        with pytest.raises(BudgetError, match="the clock of this machine says"):
            attempt(release_id("again"), {"mechanism": 0.1 * RHO})
        with pytest.raises(BudgetExceededError, match="for 2026-11"):
            attempt(release_id("again"), MOST)
    assert ledger.balance("people").period == "2026-11"
    assert ledger.verify().events == 3
    clock.set(2026, 11, 22)
    ledger.open_release(release_id("again"), {"mechanism": 0.1 * RHO})


def test_a_clock_set_forward_and_back_gives_nothing_twice(ledger, clock):
    grant(ledger, period="month")
    spend(ledger, "november")
    clock.set(2026, 12, 3)
    spend(ledger, "december")
    clock.set(2026, 11, 23)
    with pytest.raises(BudgetError, match=r"was made at 2026-12-03 00:00.*--reason REASON"):
        ledger.open_release(release_id("more"), {"mechanism": 0.1 * RHO})
    # The officer, who knows that the clock was ahead, puts it right. What was spent stays spent.
    assert grant(ledger, period="month", reason="the clock was ahead").period == "2026-11"
    assert ledger.balance("people").spent == pytest.approx(0.594 * RHO)
    for month in (11, 12):
        clock.set(2026, month, 24)
        with pytest.raises(BudgetExceededError, match=f"for 2026-{month}"):
            ledger.open_release(release_id("more"), MOST)
    assert ledger.verify().events == 6


def test_a_grant_without_a_reason_does_not_put_the_time_right(ledger, clock):
    grant(ledger, period="month")
    clock.set(2026, 10, 1)
    assert grant(ledger, period="month").period == "2026-11"  # as it is granted already
    for dataset, reason in (("people", ""), ("others", "configured budget")):
        with pytest.raises(BudgetError, match="the clock of this machine says"):
            ledger.grant(dataset, epsilon=2.0, delta=1e-9, reason=reason)
    assert len(ledger.events()) == 1


def test_a_budget_that_was_lowered_ahead_of_time_still_covers_the_past(ledger, clock):
    """Else the balance of the month to which the clock returns would be less than nothing."""
    grant(ledger, period="month")
    spend(ledger, "november")
    clock.set(2026, 12, 3)
    ledger.grant("people", epsilon=0.5, delta=1e-9, policy=Policy(period="month"))
    clock.set(2026, 11, 23)
    assert ledger.balance("people").period == "2026-12"
    with pytest.raises(BudgetError, match="cannot be lowered"):
        ledger.grant(
            "people", epsilon=0.5, delta=1e-9, policy=Policy(period="month"), reason="clock"
        )
    grant(ledger, period="month", reason="clock")
    assert ledger.balance("people").remaining > 0
    ledger.verify()


def test_machines_whose_clocks_differ_a_little_go_on(ledger, clock):
    grant(ledger, period="month")
    clock.set(2026, 12, 1, 0, 1)
    spend(ledger, "one", 0.2 * RHO)
    clock.set(2026, 11, 30, 23, 58)
    spend(ledger, "two", 0.2 * RHO)
    times = [event.at for event in ledger.events()]
    assert times == sorted(times)
    assert ledger.balance("people").period == "2026-12"
    assert ledger.balance("people").spent == pytest.approx(0.396 * RHO)


def test_a_release_goes_on_though_the_clock_was_set_back(ledger, clock):
    """Its budget is reserved: what it charges counts where its reservation does."""
    grant(ledger, period="month")
    release = ledger.open_release(release_id("november"), MOST)
    clock.set(2026, 10, 1)
    release.account("mechanism").charge("first", 0.1 * RHO)
    ledger.open_release(release_id("november"), MOST).account("mechanism").charge(
        "second", 0.1 * RHO
    )
    ledger.reservation(release_id("november")).close("done")
    times = [event.at for event in ledger.events()]
    assert times == sorted(times)
    assert ledger.balance("people").spent == pytest.approx(0.2 * RHO)
    ledger.verify()


@pytest.mark.parametrize("reason", ["", "the clock was ahead"])
def test_only_a_grant_with_a_reason_sets_the_time_back(ledger, clock, reason):
    grant(ledger, period="month")
    spend(ledger, "november")
    units = ledger.events()[0].units
    with ledger._backend.writing() as connection:
        append(
            connection,
            Kind.GRANTED,
            "people",
            at="2026-10-01T00:00:00.000000+00:00",
            units=units,
            epsilon=1.0,
            delta=1e-9,
            period="month",
            partitions="add",
            reason=reason,
        )
    if reason:
        assert ledger.verify().events == 4
        return
    with pytest.raises(LedgerIntegrityError, match="is dated before the event before it"):
        ledger.verify()
