"""The audit notices every way to alter the journal, the clever ones too."""

from __future__ import annotations

import base64
import sqlite3
from dataclasses import fields, replace
from itertools import pairwise

import pytest

from jam_dagster.errors import LedgerIntegrityError
from jam_dagster.privacy import Budget, Event, Kind, Ledger, ReleaseId
from jam_dagster.privacy.ledger.audit import verify_journal
from jam_dagster.privacy.ledger.balance import Balance, balance_from
from jam_dagster.privacy.ledger.journal import GENESIS, append
from tests.privacy.conftest import slice_of


@pytest.fixture
def spent(ledger, release_id) -> Ledger:
    """A ledger with one release that is closed and one that is not."""
    release = ledger.open_release(
        release_id, Budget(0.5, 1e-9).shares(evaluation=0.05), run_id="run"
    )
    mechanism = release.account("mechanism")
    mechanism.charge("round-000/select", 0.001)
    mechanism.charge("round-000/measure", 0.0005)
    release.close("done")
    ledger.open_release(ReleaseId("people", "next", "x"), {"mechanism": 0.002}).account(
        "mechanism"
    ).charge("a", 0.001)
    return ledger


def tamper(path, *statements):
    with sqlite3.connect(path) as raw:
        raw.execute("DROP TRIGGER events_no_update")
        raw.execute("DROP TRIGGER events_no_delete")
        for statement in statements:
            raw.execute(statement)


def test_an_honest_journal(spent):
    events = spent.events()
    verification = spent.verify()
    assert (verification.events, verification.head) == (len(events), events[-1].hash)
    assert events[0].previous == GENESIS
    assert all(a.hash == b.previous for a, b in pairwise(events))
    # What was verified once stays the beginning of what is verified later.
    spent.grant("others", epsilon=1, delta=1e-9)
    assert spent.verify().events == len(events) + 1
    assert spent.events()[len(events) - 1].hash == verification.head


@pytest.mark.slow
@pytest.mark.parametrize("column", [f.name for f in fields(Event) if f.name not in ("seq", "kind")])
def test_every_field_is_sealed(spent, path, column):
    value = 7 if column in ("units", "epsilon", "delta", "attempts", "selections") else "'forged'"
    tamper(path, f"UPDATE events SET {column} = {value} WHERE seq = 4")
    with pytest.raises(LedgerIntegrityError, match=r"event [45] of the ledger .*(altered|carry)"):
        spent.verify()


def test_an_unknown_kind(spent, path):
    tamper(path, "UPDATE events SET kind = 'gift' WHERE seq = 4")
    with pytest.raises(LedgerIntegrityError, match=r"event 4 .* unknown kind 'gift'") as unread:
        spent.verify()
    remedy = ": read the ledger with the version that wrote it; if jam-dagster did not write it,"
    assert remedy in str(unread.value)
    assert str(unread.value).endswith("only the ledger's owner can repair it, from a backup")


def test_a_removed_event(spent, path):
    tamper(path, "DELETE FROM events WHERE seq = 4")
    with pytest.raises(LedgerIntegrityError, match=r"event 5 .* should be event 4"):
        spent.verify()


def test_a_removed_end_is_noticed_by_who_kept_the_head(spent, path):
    head = spent.verify().head
    tamper(path, "DELETE FROM events WHERE seq = (SELECT max(seq) FROM events)")
    assert spent.verify().head != head
    assert head not in {event.hash for event in spent.events()}


class Sums:
    """Balances that a forger would have made fit."""

    def __init__(self, granted=0, reserved=0, spent=0):
        self.granted_units, self.reserved_units, self.spent_units = granted, reserved, spent
        self.granted_selections = self.used_selections = 0


NOW = "2026-11-01T12:00:00+00:00"


def audit(journal, balances):
    return verify_journal(journal, balances.get, "here", NOW)


def chain(*events: dict) -> list[Event]:
    """Events with seals that fit: what a forger writes who knows the code."""
    journal, previous = [], GENESIS
    defaults = {
        "at": NOW,
        "dataset": "people",
        "release": "r",
        "specification": "s",
        "edition": "1",
    }
    for seq, said in enumerate(events, start=1):
        event = Event(seq=seq, previous=previous, **{**defaults, **said})
        event = replace(event, hash=event.seal())
        journal.append(event)
        previous = event.hash
    return journal


GRANT = {"kind": Kind.GRANTED, "units": 100}
RESERVE = {"kind": Kind.RESERVED, "units": 60, "share": "mechanism"}
CHARGE = {"kind": Kind.CHARGED, "units": 50, "share": "mechanism", "step": "a"}
RETURN = {"kind": Kind.RETURNED, "units": 10, "share": "mechanism"}
CLOSE = {"kind": Kind.CLOSED, "share": "mechanism"}


RETURN_ALL = {**RETURN, "units": 60}
AGAIN = {**RESERVE, "opening": "2"}
MONTHLY = {**GRANT, "period": "month"}
IN_OCTOBER = {
    **RESERVE,
    "release": "old",
    "counts_in": "2026-10",
    "at": "2026-10-31T23:59:59+00:00",
}
IN_NOVEMBER = {**RESERVE, "counts_in": "2026-11"}
DISJOINT = {**GRANT, "partitions": "disjoint", "ground": "membership public and fixed"}
EAST, WEST = ({**RESERVE, "partition": name} for name in ("east", "west"))


@pytest.mark.parametrize(
    ("events", "sums"),
    [
        ([GRANT, RESERVE, CHARGE, RETURN, CLOSE], (100, 0, 50)),
        ([GRANT, RESERVE, RETURN_ALL, CLOSE, AGAIN], (100, 60, 0)),
        ([MONTHLY, IN_NOVEMBER, {**CHARGE, "counts_in": "2026-11"}], (100, 10, 50)),
        (
            [{**MONTHLY, "at": IN_OCTOBER["at"]}, IN_OCTOBER, IN_NOVEMBER],
            (100, 60, 0),
        ),
        ([DISJOINT, EAST, WEST], (100, 60, 0)),
    ],
)
def test_rules_accept_policies_and_reopened_releases(events, sums):
    assert audit(chain(*events), {"people": Sums(*sums)}).events == len(events)


@pytest.mark.parametrize(
    ("events", "message"),
    [
        ([RESERVE], "was granted nothing"),
        ([GRANT, {**RESERVE, "units": 101}], "of more than the grant had left"),
        ([GRANT, RESERVE, RESERVE], "reserves the same share again"),
        ([GRANT, RESERVE, {**GRANT, "units": 59}], "grants less than was spent and reserved"),
        ([GRANT, CHARGE], "release that was never reserved"),
        ([GRANT, RESERVE, {**CHARGE, "share": "evaluation"}], "share that was never reserved"),
        ([GRANT, RESERVE, {**CHARGE, "edition": "2"}], "release that was never reserved"),
        ([GRANT, RESERVE, {**CHARGE, "units": 61}], "charges more than its share had left"),
        ([GRANT, RESERVE, {**CHARGE, "units": 9}, {**CHARGE, "units": 9}], "same step again"),
        ([GRANT, RESERVE, {**RETURN, "units": 59}], "returns another amount"),
        ([GRANT, RESERVE, {**RETURN, "units": 60}, CHARGE], "charges a share that was returned"),
        ([GRANT, RESERVE, CHARGE, CLOSE], "closes a share that still held something"),
        ([GRANT, RESERVE, CHARGE, RETURN, RETURN], "returns another amount"),
        ([GRANT, RESERVE, CHARGE, RETURN, CLOSE, CLOSE], "after its share was closed"),
        ([GRANT, RESERVE, AGAIN], "had not ended, or had been charged"),
        ([GRANT, RESERVE, CHARGE, RETURN, CLOSE, AGAIN], "had not ended, or had been charged"),
        ([GRANT, RESERVE, RETURN_ALL, CLOSE, RESERVE], "reserves the same share again"),
        ([GRANT, RESERVE, RETURN_ALL, CLOSE, AGAIN, CHARGE], "never reserved"),
        ([GRANT, RESERVE, {**CHARGE, "opening": "2"}], "share that was never reserved"),
        ([GRANT, {**RESERVE, "counts_in": "2026-11"}], "counts in another period than its own"),
        ([MONTHLY, RESERVE], "counts in another period than its own"),
        ([MONTHLY, IN_NOVEMBER, CHARGE], "counts in another period than its reservation"),
        (
            [MONTHLY, IN_NOVEMBER, {**IN_NOVEMBER, "release": "b"}],
            "of more than the grant had left",
        ),
        ([MONTHLY, IN_NOVEMBER, {**GRANT, "units": 59}], "grants less"),
        ([MONTHLY, IN_OCTOBER], "dated before the event before it"),
        ([DISJOINT, EAST, {**EAST, "release": "b"}], "of more than the grant had left"),
        ([DISJOINT, EAST, {**EAST, "partition": ""}], "of more than the grant had left"),
        ([DISJOINT, EAST, WEST, GRANT], "grants less than was spent and reserved"),
    ],
)
def test_rules_hold_even_where_the_seals_fit(events, message):
    with pytest.raises(LedgerIntegrityError, match=f"event {len(events)} of the .* {message}"):
        audit(chain(*events), {"people": Sums()})


def test_balances_must_follow_from_the_journal():
    with pytest.raises(LedgerIntegrityError, match="balance of dataset 'people'"):
        audit(chain(GRANT, RESERVE), {"people": Sums(100, 59, 0)})


def test_a_later_version_finds_the_seals_of_this_one():
    """A field that it adds is empty here, and empty fields are not sealed."""
    sealed = "57a518365438cec1e33ffa40f05c8a283f3d8ffe76407e73e03eec2288c42753"
    assert chain(GRANT)[0].hash == sealed


def test_empty_fields_do_not_weaken_the_seal():
    """Moving a text from one field to another changes the hash."""
    a, b = chain({**CHARGE, "run_id": "x"})[0], chain({**CHARGE, "by": "x"})[0]
    assert a.hash != b.hash


BIND = {"kind": Kind.BOUND, "source": slice_of("people", "").text}
OTHER_SHARE = {**RESERVE, "share": "evaluation"}
WAITING = {**GRANT, "approval": "required"}
APPROVED = {"kind": Kind.APPROVED}


@pytest.mark.parametrize(
    ("events", "message"),
    [
        ([GRANT, RESERVE, RETURN_ALL, AGAIN], "reopens a release that had not ended"),
        (
            [WAITING, APPROVED, RESERVE, RETURN_ALL, {"kind": Kind.APPROVAL_WITHDRAWN}],
            "withdraws the approval of a release that had reserved",
        ),
        (
            [GRANT, RESERVE, CHARGE, RETURN, BIND],
            "reads a number of records that no grant calls public",
        ),
    ],
)
def test_a_share_whose_rest_was_returned_has_not_ended(events, message):
    """A run returns and ends a share in one transaction, so nothing comes in between."""
    with pytest.raises(LedgerIntegrityError, match=f"event {len(events)} of the .* {message}"):
        audit(chain(*events), {"people": Sums()})


def test_a_share_of_nothing_hides_no_records():
    """Its neighbours do not count in the budget, and those of the other share show the number."""
    empty = {**OTHER_SHARE, "units": 0, "protects": "add_remove 1"}
    for shares in ([RESERVE, empty], [empty, RESERVE]):
        with pytest.raises(LedgerIntegrityError, match=r"event 4 of .* no grant calls public"):
            audit(chain(GRANT, *shares, BIND), {"people": Sums()})


@pytest.mark.parametrize("part", ["specification", "edition"])
@pytest.mark.parametrize("event", [RESERVE, CHARGE, BIND, APPROVED, {"kind": Kind.RAN}])
def test_a_release_that_cannot_be(event, part):
    with pytest.raises(LedgerIntegrityError, match=r"event 3 of .* names a release that cannot"):
        audit(chain(GRANT, RESERVE, {**event, part: ""}), {"people": Sums()})


def test_an_event_without_a_time(ledger):
    at = "2026-11-01T12:00:00+00:00 or so"
    forged = chain(GRANT, {**RESERVE, "at": at})
    with pytest.raises(LedgerIntegrityError, match=r"event 2 of the ledger has no time"):
        audit(forged, {"people": Sums(100, 60, 0)})
    with ledger._backend.writing() as connection:
        append(connection, **{**RESERVE, "dataset": "people", "release": "r", "at": at})
    with pytest.raises(LedgerIntegrityError, match=r"event 2 of the ledger has no time"):
        ledger.verify()


def forgets_what_was_spent(*given):
    return replace(balance_from(*given), spent_units=0)


def test_the_audit_adds_up_without_the_code_of_a_run(spent, monkeypatch):
    spent.verify()
    for module in ("balance", "audit"):
        place = f"jam_dagster.privacy.ledger.{module}.balance_from"
        monkeypatch.setattr(place, forgets_what_was_spent)
    with pytest.raises(LedgerIntegrityError, match="does not follow from its journal"):
        spent.verify()


def test_the_audit_sees_what_a_run_takes_for_covered(monkeypatch):
    monkeypatch.setattr(Balance, "remaining_units_in", lambda *_: 0)
    with pytest.raises(LedgerIntegrityError, match=r"event 2 .* reserves more than was left"):
        audit(chain(GRANT, {**RESERVE, "units": 101}), {"people": Sums(100, 101, 0)})


BY_HAND = {"kind": Kind.BY_HAND, "dataset": "", "release": "", "reason": "policy"}


ADOPTED = {**BY_HAND, "kind": Kind.ADOPTED}


@pytest.mark.parametrize(
    ("events", "message"),
    [
        ([{**ADOPTED, "reason": ""}], "or no reason"),
        ([ADOPTED, {**ADOPTED, "units": 1}], "names a dataset or an amount"),
        ([{**ADOPTED, "dataset": "people"}], "names a dataset or an amount"),
        ([{**BY_HAND, "reason": ""}], "or no reason"),
        ([{**BY_HAND, "units": 1}], "names a dataset or an amount"),
        ([{**BY_HAND, "dataset": "people"}], "names a dataset or an amount"),
        ([BY_HAND, BY_HAND], "ends grants by definitions again"),
    ],
)
def test_what_is_of_the_whole_ledger_names_nothing_else(events, message):
    with pytest.raises(LedgerIntegrityError, match=f"event {len(events)} of the .* {message}"):
        audit(chain(*events), {})


DIGEST = {"digest": "a" * 64}
STORE = {**CHARGE, **DIGEST, "kind": Kind.STORED, "units": 0}
CERTIFY = {**DIGEST, "kind": Kind.CERTIFIED}
RAN = {**DIGEST, "kind": Kind.RAN}
PUBLIC = base64.b64encode(bytes(32)).decode()
OF_KEYS = {"dataset": "", "release": "", "specification": "", "edition": "", "digest": PUBLIC}
KEY = {**OF_KEYS, "kind": Kind.KEY_ADDED}
REVOKE = {**OF_KEYS, "kind": Kind.KEY_REVOKED}


def test_rules_accept_outcomes_certificates_and_keys():
    paid = [GRANT, KEY, RESERVE, CHARGE, STORE, RETURN, CLOSE]
    events = [*paid, CERTIFY, {**CERTIFY, "digest": "b" * 64}, REVOKE]
    assert audit(chain(*events), {"people": Sums(100, 0, 50)}).events == len(events)


@pytest.mark.parametrize(
    ("events", "message"),
    [
        ([GRANT, RESERVE, STORE], "outcome of a draw that was never charged"),
        ([GRANT, RESERVE, CHARGE, {**STORE, "step": "b"}], "never charged"),
        ([GRANT, RESERVE, CHARGE, STORE, STORE], "outcome of the same step again"),
        ([GRANT, RESERVE, CHARGE, {**STORE, "digest": "a"}], "names no digest of an outcome"),
        ([GRANT, RESERVE, CHARGE, RETURN, CLOSE, STORE], "after its share was closed"),
        ([GRANT, RESERVE, CHARGE, {**STORE, "share": "b"}], "share that was never reserved"),
        ([GRANT, CERTIFY], "about a release that was never reserved"),
        ([GRANT, RESERVE, {**CERTIFY, "edition": "2"}], "about a release that was never"),
        ([GRANT, RESERVE, CERTIFY, CERTIFY], "certifies or withdraws the same digest again"),
        ([GRANT, RAN], "about a release that was never reserved"),
        ([GRANT, RESERVE, {**RAN, "digest": "x"}], "names no digest of a run"),
        ([GRANT, RESERVE, RAN, {**RAN, "digest": ""}, RAN, RAN], "names the same run again"),
        ([GRANT, RESERVE, {**CERTIFY, "digest": ""}], "names no digest of a certificate"),
        ([KEY, KEY], "adds the same key again"),
        ([KEY, REVOKE, KEY], "adds the same key again"),
        ([REVOKE], "revokes a key that is not valid"),
        ([KEY, REVOKE, REVOKE], "revokes a key that is not valid"),
        ([{**KEY, "digest": "AAAA"}], "adds a key that does not have 32 bytes"),
        ([{**KEY, "digest": "?"}], "adds a key that is not in base64"),
        ([{**KEY, "dataset": "people"}], "about a key and names a dataset"),
    ],
)
def test_rules_of_outcomes_certificates_and_keys(events, message):
    with pytest.raises(LedgerIntegrityError, match=f"event {len(events)} of the .* {message}"):
        audit(chain(*events), {"people": Sums()})
