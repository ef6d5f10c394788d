"""Amounts of rho add up only between releases that protect the same neighbours."""

from __future__ import annotations

from dataclasses import replace

import pytest
import sqlalchemy as sa

from jam_dagster.errors import BudgetError
from jam_dagster.privacy import REPLACE_ONE, Kind, Ledger, Neighbours, Policy
from jam_dagster.privacy.ledger.journal import events
from jam_dagster.privacy.ledger.policy import GROUNDS

ADD_REMOVE = Neighbours("add_remove")
SHARES = {"mechanism": 0.001}


@pytest.fixture
def url(each_url):
    return each_url


def test_a_dataset_keeps_to_its_neighbours(ledger, release_id):
    first = ledger.open_release(release_id, SHARES, neighbours=ADD_REMOVE)
    first.account("mechanism").charge("step", 1e-4)
    other = replace(release_id, release="other")
    for wrong in (REPLACE_ONE, Neighbours("add_remove", 2)):
        with pytest.raises(BudgetError, match=r"different neighbours .* do not add up"):
            ledger.check(other, SHARES, neighbours=wrong)
        with pytest.raises(BudgetError, match="name a protected dataset of its own"):
            ledger.open_release(other, SHARES, neighbours=wrong)
    ledger.open_release(other, SHARES, neighbours=ADD_REMOVE)
    reserved = [event for event in ledger.events() if event.kind == Kind.RESERVED]
    assert {event.protects for event in reserved} == {"add_remove 1"}
    assert ledger.verify().events == len(ledger.events())


def test_what_was_closed_unspent_binds_nobody(ledger, release_id):
    ledger.open_release(release_id, SHARES, neighbours=ADD_REMOVE).close("a mistake")
    ledger.open_release(replace(release_id, release="other"), SHARES)
    ledger.verify()


def test_a_mistake_in_the_neighbours_is_superseded(ledger, release_id):
    ledger.open_release(release_id, SHARES, neighbours=ADD_REMOVE)
    ledger.open_release(replace(release_id, specification="corrected"), SHARES)
    ledger.verify()


def test_disjoint_by_add_remove_needs_it(url, release_id):
    ledger = Ledger(url)
    by_add_remove, by_membership = (Policy(partitions="disjoint", ground=one) for one in GROUNDS)
    budget = {"epsilon": 1.0, "delta": 1e-9}
    ledger.grant("people", **budget, policy=by_add_remove)
    part = replace(release_id, partition="north")
    with pytest.raises(BudgetError, match="replacing a person can change two partitions"):
        ledger.open_release(part, SHARES)
    ledger.open_release(part, SHARES, neighbours=ADD_REMOVE)

    ledger.grant("others", **budget, policy=by_membership)
    ledger.open_release(replace(part, dataset="others"), SHARES)
    with pytest.raises(BudgetError, match="cannot be granted: it composes partitions in parallel"):
        ledger.grant("others", **budget, policy=by_add_remove)
    ledger.verify()


def test_single_records_replaced_are_written_as_they_always_were(ledger, release_id):
    ledger.open_release(release_id, SHARES)
    with ledger._backend.reading() as connection:
        (written,) = connection.execute(
            sa.select(events.c.protects).where(events.c.kind == Kind.RESERVED.value)
        ).scalars()
    assert written == ""
