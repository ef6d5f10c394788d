"""A reservation reads one source, and so does a partition of replace-one neighbours."""

from __future__ import annotations

import dataclasses
import shlex
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from jam_dagster.errors import (
    AttemptsError,
    BudgetError,
    LedgerIntegrityError,
    ReleaseClosedError,
    SourceBindingError,
    SpecificationError,
)
from jam_dagster.privacy import Budget, Ledger, Neighbours, Policy, ReleaseId
from jam_dagster.privacy.ledger.journal import Kind, append, user
from jam_dagster.privacy.ledger.release_id import id_fields
from jam_dagster.privacy.ledger.source_binding import SourceBinding, binding_of
from jam_dagster.tables import source_from_config
from tests.privacy.conftest import SECRET, audit_finds, copy_of, grant_disjoint, slice_of

GROUND = "membership public and fixed"
OTHER_SECRET = b"\2" * 32
EVERYBODY = '{"query":"select * from people"}'
WHOLE = SourceBinding.of(SECRET, EVERYBODY)
SLICE = SourceBinding.of(SECRET, '{"query":"select * from people where sex = 1"}')
ELSEWHERE = SourceBinding.of(OTHER_SECRET, EVERYBODY)
SHARES = Budget(0.1, 1e-9).shares(evaluation=0.05)
ADD_REMOVE = Neighbours("add_remove")


PUBLIC = Policy(ground=GROUND, records="public")
"""What an officer says of a dataset whose releases show how many records each partition has."""


@pytest.fixture
def ledger(url: str) -> Ledger:
    return granted(url)


@pytest.fixture
def either(each_url: str) -> Ledger:
    return granted(each_url)


def granted(url: str, policy: Policy = PUBLIC) -> Ledger:
    ledger = Ledger(url)
    ledger.grant("people", epsilon=1.0, delta=1e-9, policy=policy)
    return ledger


def edition(release_id: ReleaseId, name: str, **changes: Any) -> ReleaseId:
    return dataclasses.replace(release_id, edition=name, **changes)


def charge(
    ledger: Ledger, release_id: ReleaseId, source: SourceBinding | None = None, **given: Any
) -> None:
    release = ledger.open_release(release_id, SHARES, source=source, **given)
    release.account("mechanism").charge("round-000/select", 1e-6)


def opened(ledger: Ledger, release_id: ReleaseId, source: SourceBinding, run_id: str = "") -> None:
    """Find a release's reservation, and open its table."""
    ledger.open_release(release_id, SHARES, source=source, run_id=run_id)
    with ledger.attempt(release_id, source=source, run_id=run_id):
        pass


def copied(ledger: Ledger) -> Ledger:
    """A copy, for what the audit finds."""
    assert ledger.file is not None
    return copy_of(ledger.file, str(ledger.file.with_name(f"{uuid4()}.db")))


def followed(ledger: Ledger, said: str, which: int = 0) -> None:
    """Follow a refusal: run one of its commands that rebind."""
    command = said.split("`jam-dagster ledger rebind ")[1:][which]
    options = shlex.split(command.partition("`")[0])
    given = dict(zip(options[::2], options[1::2], strict=True))
    assert given.pop("--ledger") == ledger.location
    names = {name.removeprefix("--"): value for name, value in given.items()}
    assert ledger.rebind(names.pop("dataset"), **names)


def sources(ledger: Ledger) -> list[tuple[str, SourceBinding | None]]:
    read = (one for one in ledger.events() if one.kind != "granted")
    return [(one.kind.value, binding_of(one)) for one in read]


def test_a_digest_tells_nothing_without_its_secret() -> None:
    identity = '{"asset":"people"}'
    bound = SourceBinding.of(SECRET, identity, template="t", table="u")
    assert bound == SourceBinding.of(SECRET, identity, template="t", table="u")
    assert (len(bound.secret), bound.places) == (16, (bound.source,))
    digests = {bound.source, bound.template, bound.table}
    assert [len(one) for one in digests] == [64] * 3
    other = SourceBinding.of(OTHER_SECRET, identity, template="t", table="u")
    assert other.secret != bound.secret
    assert digests.isdisjoint({other.source, other.template, other.table})
    assert SourceBinding.of(SECRET, identity + " ").source != bound.source


def test_a_binding_is_one_record_in_the_journal() -> None:
    bound = SourceBinding.of(SECRET, "people of 2016", template="people of", table="people")
    digest, secret = "ab" * 32, "cd" * 8
    whole = SourceBinding(secret, digest, (digest,), digest, digest)
    assert whole.text == (
        f'{{"places":["{digest}"],"secret":"{secret}","source":"{digest}","table":"{digest}",'
        f'"template":"{digest}"}}'
    )
    for one in (bound, whole, bound.let_go(), SourceBinding.to_table(bound.table_name)):
        assert SourceBinding.parse(one.text) == one


NO_BINDINGS = {
    "an earlier text": f"{WHOLE.secret}:{WHOLE.source}",
    "blanks": WHOLE.text.replace(",", ", "),
    "another order": WHOLE.text[:-1].replace("{", '{"secret":"x",') + "}",
    "an unknown field": WHOLE.text.replace('"source"', '"by":"","source"'),
    "a field that is missing": WHOLE.text.replace(',"table":""', ""),
    "a field twice": WHOLE.text.replace('"source"', f'"secret":"{WHOLE.secret}","source"'),
    "no digest": WHOLE.text.replace(WHOLE.source, "people.csv"),
    "a number": WHOLE.text.replace('"table":""', '"table":7'),
    "no list": WHOLE.text.replace(f'["{WHOLE.source}"]', f'"{WHOLE.source}"'),
    "a place without a digest": WHOLE.text.replace(f'["{WHOLE.source}"]', '[""]'),
    "no secret": WHOLE.text.replace(WHOLE.secret, ""),
    "another value": "[]",
    "lists without end": "[" * 100_000,
}


@pytest.mark.parametrize("text", NO_BINDINGS.values(), ids=list(NO_BINDINGS))
def test_a_source_that_is_no_binding_is_refused(
    ledger: Ledger, release_id: ReleaseId, text: str
) -> None:
    with ledger._backend.writing() as connection:
        append(connection, **{**reserved(release_id, None), "source": text})
    for act in (
        ledger.verify,
        lambda: ledger.check(edition(release_id, "2"), SHARES, source=WHOLE),
    ):
        with pytest.raises(LedgerIntegrityError, match=r"event 2 .*that is no binding") as refused:
            act()
    assert "with the version that wrote it; if jam-dagster did not" in str(refused.value)


def of(config: dict[str, Any]) -> SourceBinding:
    return SourceBinding.of(SECRET, source_from_config(config).identity())


def of_two(roots: str, children: str) -> SourceBinding:
    persons = {"source": children, "key": "household", "max": 3}
    return of({"roots": roots, "children": {"persons": persons}})


def query_of(user: str) -> SourceBinding:
    return of({"sql": f"postgresql://{user}:hunter2@db/p", "query": "select * from people"})


SAME_PEOPLE = {
    "two users": (query_of("ann"), query_of("bob")),
    "two ways of reading": (
        of({"csv": "/data/p.csv", "encoding": "ascii"}),
        of({"csv": "/data/p.csv"}),
    ),
    "persons of other households": (of_two("/data/h.csv", "/p.csv"), of_two("/h2.csv", "/p.csv")),
    "households of other persons": (of_two("/h.csv", "/p.csv"), of_two("/h.csv", "/p2.csv")),
    "persons alone": (of_two("/h.csv", "/p.csv"), of({"csv": "/p.csv"})),
}

QUICK = ("two users", "persons of other households")
"""Cases that have mutants of their own."""

same_people = pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(*pair, id=name, marks=() if name in QUICK else pytest.mark.slow)
        for name, pair in SAME_PEOPLE.items()
    ],
)


@pytest.fixture
def disjoint(ledger: Ledger) -> Ledger:
    grant_disjoint(ledger)
    return ledger


@same_people
def test_disjoint_partitions_do_not_read_one_place(
    disjoint: Ledger, release_id: ReleaseId, one: SourceBinding, other: SourceBinding
) -> None:
    charge(disjoint, edition(release_id, "1", partition="2016"), one)
    with pytest.raises(SourceBindingError, match="same source as partition '2016'"):
        disjoint.open_release(edition(release_id, "1", partition="2017"), SHARES, source=other)
    disjoint.open_release(edition(release_id, "1", partition="2017"), SHARES)
    audit_finds(
        disjoint,
        "the source of another partition",
        bound(edition(release_id, "1", partition="2017"), other),
    )


@same_people
def test_partitions_that_read_one_place_do_not_become_disjoint(
    ledger: Ledger, release_id: ReleaseId, one: SourceBinding, other: SourceBinding
) -> None:
    """Under a sum both may read one place; the same people would count once afterwards."""
    partitions = {year: edition(release_id, "1", partition=year) for year in ("2016", "2017")}
    for its, source in zip(partitions.values(), (one, other), strict=True):
        charge(ledger, its, source)
    # An unpartitioned release adds to each of them.
    charge(ledger, release_id, one)
    before = ledger.events()
    with pytest.raises(BudgetError, match=r"'2016' and '2017' in parallel.*releases of both read"):
        grant_disjoint(ledger)
    assert ledger.events() == before
    audit_finds(ledger, "grants a budget that composes partitions '20", disjoint_grant(ledger))


def test_disjoint_partitions_are_bound_under_one_secret(
    disjoint: Ledger, release_id: ReleaseId
) -> None:
    """Under another private store's secret one file has another digest, and may be read twice."""
    charge(disjoint, edition(release_id, "1", partition="2016"), WHOLE)
    other = edition(release_id, "1", partition="2017")
    with pytest.raises(SourceBindingError) as refused:
        disjoint.open_release(other, SHARES, source=ELSEWHERE)
    said = str(refused.value)
    assert "the secret of another private store, so the two cannot be compared" in said
    assert "--dataset people --partition 2016 --table" in said
    disjoint.open_release(other, SHARES)
    audit_finds(disjoint, "the source of another partition", bound(other, ELSEWHERE))


def test_a_partition_whose_secret_is_lost_is_bound_anew(
    disjoint: Ledger, release_id: ReleaseId
) -> None:
    charge(disjoint, edition(release_id, "1", partition="2016"), WHOLE)
    other = edition(release_id, "1", partition="2017")
    with pytest.raises(SourceBindingError, match="If that store is lost") as refused:
        charge(disjoint, other, ELSEWHERE)
    followed(disjoint, str(refused.value))
    charge(disjoint, other, ELSEWHERE)
    disjoint.verify()


def test_partitions_under_two_secrets_do_not_become_disjoint(
    ledger: Ledger, release_id: ReleaseId
) -> None:
    for year, source in (("2016", WHOLE), ("2017", ELSEWHERE)):
        charge(ledger, edition(release_id, "1", partition=year), source)
    with pytest.raises(BudgetError, match="under the secrets of two private stores") as refused:
        grant_disjoint(ledger)
    followed(ledger, str(refused.value).replace("PARTITION", "2016"))
    # Nothing says yet that the table of the lost store is the other one.
    with pytest.raises(BudgetError, match="releases of them read several tables") as refused:
        grant_disjoint(ledger)
    followed(ledger, str(refused.value), -1)
    grant_disjoint(ledger)
    ledger.verify()


def disjoint_grant(ledger: Ledger) -> dict[str, Any]:
    """The entry of a grant of disjoint partitions."""
    before = ledger.balance("people")
    amount = {"units": before.granted_units, "epsilon": before.epsilon, "delta": before.delta}
    policy = Policy(partitions="disjoint", ground=GROUND, records="public")
    return {"kind": Kind.GRANTED, "dataset": "people", **amount, **vars(policy)}


def test_a_file_that_held_other_people_does_not_keep_partitions_from_being_disjoint(
    ledger: Ledger, release_id: ReleaseId
) -> None:
    for year in ("2016", "2017"):
        charge(ledger, edition(release_id, "1", partition=year), WHOLE)
    assert ledger.rebind("people", partition="2016", reason="the file of each year has one name")
    grant_disjoint(ledger)
    ledger.verify()


def test_what_ended_without_a_charge_keeps_no_partitions_from_being_disjoint(
    ledger: Ledger, release_id: ReleaseId
) -> None:
    for year in ("2016", "2017"):
        ledger.open_release(edition(release_id, "1", partition=year), SHARES, source=WHOLE).close(
            "no"
        )
    grant_disjoint(ledger)
    ledger.verify()


def test_partitions_of_a_query_become_disjoint_if_the_officer_vouches_for_it(
    ledger: Ledger, release_id: ReleaseId
) -> None:
    template = "select * from people where '{partition}' = '{partition}'"
    named = SourceBinding.of(SECRET, template).table_name
    ledger.grant("people", epsilon=1.0, delta=1e-9, sources=named)
    for year in ("2016", "2017"):
        query = f"... where '{year}' = '{year}'"
        source = SourceBinding.of(SECRET, query, template=template, table=template)
        charge(ledger, edition(release_id, "1", partition=year), source)
    policy = Policy(partitions="disjoint", ground=GROUND, records="public")
    with pytest.raises(BudgetError, match=f"the grant does not name: {named}"):
        ledger.grant("people", epsilon=1.0, delta=1e-9, policy=policy, sources="")
    ledger.grant("people", epsilon=1.0, delta=1e-9, policy=policy, sources=named)
    ledger.verify()


def test_the_officer_vouches_for_a_query_of_disjoint_partitions(
    disjoint: Ledger, release_id: ReleaseId
) -> None:
    """`where '2016' = '2016'` is another text in each partition, and the same people."""
    template = "select * from people where '{partition}' = '{partition}'"
    named = SourceBinding.of(SECRET, template).table_name
    sources = {
        year: SourceBinding.of(
            SECRET, f"... where '{year}' = '{year}'", template=template, table=template
        )
        for year in ("2016", "2017")
    }
    keys = {year: edition(release_id, "1", partition=year) for year in sources}
    with pytest.raises(SourceBindingError, match="let the officer look at the definition"):
        disjoint.check(keys["2016"], SHARES, source=sources["2016"], neighbours=ADD_REMOVE)
    with pytest.raises(SourceBindingError) as refused:
        disjoint.open_release(keys["2016"], SHARES, source=sources["2016"])
    command = shlex.split(str(refused.value).rpartition("grant it: ")[2])
    assert command[:3] == ["jam-dagster", "ledger", "grant"]
    given = dict(zip(command[3::2], command[4::2], strict=True))
    assert given["--sources"] == named
    # An audit finds a reservation that was written all the same.
    held = disjoint.open_release(keys["2017"], SHARES)
    same: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-9}
    disjoint.grant("people", **same, sources=named, reason="read by the officer")
    with disjoint.attempt(keys["2017"], source=sources["2017"]):
        pass
    for year in sources:
        charge(disjoint, keys[year], sources[year])
    disjoint.verify()
    # What was begun goes on; what is new waits.
    disjoint.grant("people", **same, sources="")
    disjoint.open_release(keys["2016"], SHARES, source=sources["2016"])
    held.close("ended")
    disjoint.verify()
    again = edition(release_id, "2", partition="2016")
    with pytest.raises(SourceBindingError, match="its query or asset"):
        disjoint.open_release(again, SHARES, source=sources["2016"])
    disjoint.open_release(again, SHARES)
    audit_finds(
        disjoint, "grant of disjoint partitions does not name", bound(again, sources["2016"])
    )


IN_ALL_TABLES = Policy(partitions="disjoint in all tables", ground="add/remove neighbours")
IN_ONE_TABLE = Policy(partitions="disjoint", ground="add/remove neighbours")


def test_partitions_of_a_second_table_are_refused_until_the_officer_grants_them(
    ledger: Ledger, release_id: ReleaseId
) -> None:
    """A person in the visits of 2016 and in the tests of 2017 would be charged once."""
    same: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-9}
    given: dict[str, Any] = {"neighbours": ADD_REMOVE}
    ledger.grant("people", **same, policy=IN_ONE_TABLE)
    visits = {year: edition(release_id, "visits", partition=year) for year in ("2016", "2017")}
    tests = {year: edition(release_id, "tests", partition=year) for year in ("2016", "2017")}
    for year, one in visits.items():
        charge(ledger, one, slice_of("visits", year), **given)
    # What reads all partitions adds to each of them, whichever table that is.
    charge(ledger, edition(release_id, "all tests"), slice_of("tests", ""), **given)
    before = ledger.events()
    unknown = SourceBinding.of(SECRET, "tests of this year")
    for year, one in tests.items():
        for source in (slice_of("tests", year), unknown):
            for attempt in (ledger.check, ledger.open_release):
                with pytest.raises(SourceBindingError, match="another table than") as refused:
                    attempt(one, SHARES, source=source, **given)
    assert ledger.events() == before
    said = str(refused.value)
    command = shlex.split(said.rpartition("let the officer grant it: ")[2].partition(". ")[0])
    granted = dict(zip(command[3::2], command[4::2], strict=True))
    assert granted["--partitions"] == IN_ALL_TABLES.partitions
    # A table that has moved has to be named; its files and those of the first table need not be.
    assert f"--partition 2016 --table {unknown.table_name} --reason" in said
    read = [slice_of("visits", "2016"), slice_of("tests", "2017")]
    assert not any(one.source in said or one.table in said for one in read)

    ledger.grant("people", **same, policy=IN_ALL_TABLES)
    for year, one in tests.items():
        charge(ledger, one, slice_of("tests", year), **given)
    ledger.verify()
    # What counts by the word keeps it: certificates would state the other ground.
    before = ledger.events()
    with pytest.raises(BudgetError, match=r"cannot be granted: it .*table"):
        ledger.grant("people", **same, policy=IN_ONE_TABLE)
    assert ledger.events() == before
    ledger.grant("people", **same, policy=IN_ALL_TABLES)
    ledger.verify()


def test_what_ended_without_a_charge_keeps_no_second_table_away(
    ledger: Ledger, release_id: ReleaseId
) -> None:
    ledger.grant("people", epsilon=1.0, delta=1e-9, policy=IN_ONE_TABLE)
    given: dict[str, Any] = {"neighbours": ADD_REMOVE}
    one = edition(release_id, "1", partition="2016")
    ledger.open_release(one, SHARES, source=slice_of("visits", "2016"), **given).close("no")
    charge(ledger, edition(release_id, "2", partition="2017"), slice_of("tests", "2017"), **given)
    moved = SourceBinding.of(SECRET, "moved").table_name
    assert ledger.rebind("people", partition="2017", table=moved, reason="another folder")
    charge(ledger, edition(release_id, "3", partition="2016"), slice_of("moved", "2016"), **given)
    ledger.verify()


def test_the_audit_finds_partitions_of_a_second_table(
    ledger: Ledger, release_id: ReleaseId
) -> None:
    ledger.grant("people", epsilon=1.0, delta=1e-9, policy=IN_ONE_TABLE)
    given: dict[str, Any] = {"neighbours": ADD_REMOVE}
    charge(ledger, edition(release_id, "1", partition="2016"), slice_of("visits", "2016"), **given)
    other = edition(release_id, "1", partition="2017")
    ledger.open_release(other, SHARES, **given)
    audit_finds(ledger, "reads another table than other", bound(other, slice_of("tests", "2017")))


def test_a_rebinding_makes_no_other_table_the_same(either: Ledger, release_id: ReleaseId) -> None:
    """A person in the visits of 2016 and in the tests of 2017 would be charged once."""
    either.grant("people", epsilon=1.0, delta=1e-9, policy=IN_ONE_TABLE)
    given: dict[str, Any] = {"neighbours": ADD_REMOVE}
    visits, tests = (
        {year: edition(release_id, table, partition=year) for year in ("2016", "2017")}
        for table in ("visits", "tests")
    )
    charge(either, visits["2016"], slice_of("visits", "2016"), **given)
    assert either.rebind("people", partition="2016", reason="another user of the database") == 1
    for attempt in (either.check, either.open_release):
        with pytest.raises(SourceBindingError, match="another table than a release of"):
            attempt(tests["2017"], SHARES, source=slice_of("tests", "2017"), **given)
    # Nor does the release itself read another table from then on, whether it has ended or not.
    for end in (False, True):
        with (
            pytest.raises(SourceBindingError, match="another table than a release of"),
            either.attempt(visits["2016"], source=slice_of("tests", "2016"), **given),
        ):
            pass
        released = either.reservation(visits["2016"])
        assert released is not None
        if not end:
            released.close("done")
    # The table is what it was.
    charge(either, visits["2017"], slice_of("visits", "2017"), **given)
    with either.attempt(visits["2016"], source=slice_of("visits", "2016"), **given):
        pass
    either.verify()
    forged = reserved(tests["2017"], slice_of("tests", "2017"))
    audit_finds(either, "another table than", {**forged, "protects": ADD_REMOVE.code})


@pytest.mark.parametrize("ended", [False, True])
def test_the_audit_finds_that_a_rebound_release_reads_another_table(
    ledger: Ledger, release_id: ReleaseId, ended: bool
) -> None:
    ledger.grant("people", epsilon=1.0, delta=1e-9, policy=IN_ONE_TABLE)
    one = edition(release_id, "1", partition="2016")
    charge(ledger, one, slice_of("visits", "2016"), neighbours=ADD_REMOVE)
    released = ledger.reservation(one)
    assert released is not None
    if ended:
        released.close("done")
    ledger.rebind("people", partition="2016", reason="another user of the database")
    audit_finds(ledger, "reads another table than", bound(one, slice_of("tests", "2016")))


def test_a_table_that_has_moved_is_named_for_each_partition(
    either: Ledger, release_id: ReleaseId
) -> None:
    """The remedy of each refusal is enough to go on, and lets in no other table."""
    either.grant("people", epsilon=1.0, delta=1e-9, policy=IN_ONE_TABLE)
    given: dict[str, Any] = {"neighbours": ADD_REMOVE}
    keys = {year: edition(release_id, "1", partition=year) for year in ("2016", "2017", "2018")}
    for year in ("2016", "2017"):
        charge(either, keys[year], slice_of("old/", year), **given)
    # Two releases of a partition do not wait for each other.
    charge(either, edition(release_id, "2", partition="2016"), slice_of("old/", "2016"), **given)

    def refused(year: str) -> str:
        with pytest.raises(SourceBindingError) as error:
            either.check(keys[year], SHARES, source=slice_of("new/", year), **given)
        return str(error.value)

    said = refused("2016")
    assert "was reserved for another source" in said
    followed(either, said)
    event = either.events()[-1]
    assert (event.kind, event.release, event.partition) == (Kind.BOUND, "", "2016")
    assert binding_of(event) == SourceBinding.to_table(slice_of("new/", "").table_name)
    for year in ("2016", "2018"):
        said = refused(year)
        assert "another table than a release of partition '2017'" in said
    followed(either, said)
    for year in ("2016", "2017"):
        with either.attempt(keys[year], source=slice_of("new/", year), **given):
            pass
    charge(either, keys["2018"], slice_of("new/", "2018"), **given)
    # The other release of 2016 was not opened since, and is of the table that was named.
    for again in ("2", "3"):
        charge_again = edition(release_id, again, partition="2016")
        with pytest.raises(SourceBindingError, match="another table"):
            either.check(charge_again, SHARES, source=slice_of("tests", "2016"), **given)
        either.check(charge_again, SHARES, source=slice_of("new/", "2016"), **given)
    either.verify()


@pytest.mark.parametrize("by", ["no source", "hand"])
def test_what_was_never_bound_may_be_of_another_table(
    ledger: Ledger, release_id: ReleaseId, by: str
) -> None:
    ledger.grant("people", epsilon=1.0, delta=1e-9, policy=IN_ONE_TABLE)
    given: dict[str, Any] = {"neighbours": ADD_REMOVE}
    one, other = (edition(release_id, "1", partition=year) for year in ("2016", "2017"))
    if by == "hand":
        with ledger._backend.writing() as connection:
            append(connection, **{**reserved(one, None), "protects": ADD_REMOVE.code})
    else:
        charge(ledger, one, **given)
    with pytest.raises(SourceBindingError, match="of partition '2016', which is bound") as refused:
        ledger.check(other, SHARES, source=slice_of("visits", "2017"), **given)
    forged = {**reserved(other, slice_of("visits", "2017")), "protects": ADD_REMOVE.code}
    audit_finds(copied(ledger), "another table than", forged)
    followed(ledger, str(refused.value))
    charge(ledger, other, slice_of("visits", "2017"), **given)
    # What is reserved later is not what the officer spoke of.
    charge(ledger, edition(release_id, "2", partition="2016"), **given)
    with pytest.raises(SourceBindingError, match="another table"):
        ledger.check(
            edition(release_id, "2", partition="2017"),
            SHARES,
            source=slice_of("visits", "2017"),
            **given,
        )
    ledger.verify()


def test_what_counted_in_all_tables_does_not_become_of_one_by_a_rebinding(
    ledger: Ledger, release_id: ReleaseId
) -> None:
    same: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-9}
    ledger.grant("people", **same, policy=IN_ALL_TABLES)
    for year, table in (("2016", "visits"), ("2017", "tests")):
        its = edition(release_id, "1", partition=year)
        charge(ledger, its, slice_of(table, year), neighbours=ADD_REMOVE)
    ledger.grant("people", **same, policy=Policy())
    ledger.rebind("people", partition="2016", reason="another user of the database")

    def refused(year: str) -> str:
        before = ledger.events()
        with pytest.raises(BudgetError, match="several tables, or unknown ones") as error:
            ledger.grant("people", **same, policy=IN_ONE_TABLE)
        assert ledger.events() == before
        audit_finds(copied(ledger), "grants a budget that composes", disjoint_grant(ledger))
        # The remedy for one table that has moved.
        table = slice_of("tests", "").table_name
        assert f"--partition {year} --table {table} --reason" in str(error.value)
        return str(error.value)

    followed(ledger, refused("2016"), -1)
    # What was never bound counts as well.
    charge(ledger, edition(release_id, "1", partition="2018"), neighbours=ADD_REMOVE)
    followed(ledger, refused("2018"), -1)
    ledger.grant("people", **same, policy=IN_ONE_TABLE)
    ledger.verify()


def test_partitions_of_two_tables_become_disjoint_in_all_tables_alone(
    ledger: Ledger, release_id: ReleaseId
) -> None:
    same: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-9}
    ledger.grant("people", **same, policy=Policy())
    for year, table in (("2016", "visits"), ("2017", "tests")):
        its = edition(release_id, "1", partition=year)
        charge(ledger, its, slice_of(table, year), neighbours=ADD_REMOVE)
    before = ledger.events()
    with pytest.raises(BudgetError, match="releases of them read several tables") as refused:
        ledger.grant("people", **same, policy=IN_ONE_TABLE)
    assert f"--partitions '{IN_ALL_TABLES.partitions}'" in str(refused.value)
    assert ledger.events() == before
    ledger.grant("people", **same, policy=IN_ALL_TABLES)
    ledger.verify()


def test_another_source_is_refused_under_one_reservation(
    either: Ledger, release_id: ReleaseId
) -> None:
    """Another `where` asks another question, for which nobody has paid."""
    either.open_release(release_id, SHARES, source=WHOLE)
    assert sources(either) == [("reserved", WHOLE)] * 2
    before = either.events()
    for action in (either.check, either.open_release):
        with pytest.raises(SourceBindingError) as refused:
            action(release_id, SHARES, source=SLICE)
        said = str(refused.value)
        assert "release 'yearly'" in said
        assert (
            f"ledger rebind --ledger {shlex.quote(either.location)} --dataset people --reason"
            in said
        )
        digests = WHOLE.secret, WHOLE.source, SLICE.source
        assert not any(part in said for part in (*digests, "select"))
    either.check(release_id, SHARES, source=WHOLE)
    either.open_release(release_id, SHARES, source=WHOLE)
    # Steps that only charge need not know it.
    either.open_release(release_id, SHARES)
    assert either.events() == before
    either.verify()


def test_a_secret_of_another_store_is_told_as_such(ledger: Ledger, release_id: ReleaseId) -> None:
    ledger.open_release(release_id, SHARES, source=WHOLE)
    with pytest.raises(SourceBindingError, match=r"another private store.*--private-store"):
        ledger.open_release(release_id, SHARES, source=ELSEWHERE)
    with pytest.raises(SourceBindingError, match=r"another private store.*--private-store"):
        ledger.open_release(edition(release_id, "2"), SHARES, source=ELSEWHERE)


def test_a_reservation_without_a_source_is_bound_when_it_goes_on(
    ledger: Ledger, release_id: ReleaseId
) -> None:
    charge(ledger, release_id)
    charged = ledger.reservation(release_id)
    assert charged is not None
    opened(ledger, release_id, WHOLE, run_id="run-2")
    assert sources(ledger)[-1] == ("bound", WHOLE)
    assert ledger.events()[-1].run_id == "run-2"
    before = ledger.events()
    opened(ledger, release_id, WHOLE)
    with pytest.raises(SourceBindingError):
        ledger.open_release(release_id, SHARES, source=SLICE)
    assert ledger.events() == before
    assert charged.spent > 0
    ledger.verify()


def test_a_repeat_of_an_ended_release_binds_once_it_ended_well(
    either: Ledger, release_id: ReleaseId
) -> None:
    """One that is refused, for its number of records or another table, uses no rebinding up."""
    charge(either, release_id, WHOLE)
    released = either.reservation(release_id)
    assert released is not None
    released.close("ended")
    either.rebind("people", reason="the file moved")
    before = either.events()
    with pytest.raises(ZeroDivisionError), either.attempt(release_id, source=SLICE):
        raise ZeroDivisionError
    assert either.events() == before
    # Another run binds it to another source meanwhile.
    with pytest.raises(SourceBindingError), either.attempt(release_id, source=SLICE):
        opened(either, release_id, WHOLE)
    assert sources(either)[-1] == ("bound", WHOLE)
    either.verify()


def test_a_run_that_is_refused_before_it_opens_anything_binds_nothing(
    either: Ledger, release_id: ReleaseId
) -> None:
    charge(either, release_id, WHOLE)
    either.rebind("people", reason="the file moved")
    before = either.events()
    # A typing error: there is no such file, or another run is drawing.
    either.open_release(release_id, SHARES, source=ELSEWHERE)
    for _ in range(3):
        with pytest.raises(ZeroDivisionError), either.attempt(edition(release_id, "2")):
            raise ZeroDivisionError
    with pytest.raises(AttemptsError), either.attempt(release_id, source=ELSEWHERE):
        pass
    assert either.events() == before
    either.acknowledge("people", reason="seen")
    opened(either, release_id, SLICE)
    assert sources(either)[-1] == ("bound", SLICE)


def test_an_attempt_binds_no_release_that_was_never_reserved(
    ledger: Ledger, release_id: ReleaseId
) -> None:
    before = ledger.events()
    with ledger.attempt(release_id, source=WHOLE):
        pass
    assert ledger.events() == before
    ledger.verify()


def test_two_runs_that_find_one_reservation_open_one_source(
    either: Ledger, release_id: ReleaseId
) -> None:
    charge(either, release_id, WHOLE)
    either.rebind("people", reason="the file moved")
    for source in (WHOLE, SLICE):
        either.open_release(release_id, SHARES, source=source)
    other = edition(release_id, "2")
    with either.attempt(release_id, source=WHOLE):
        with pytest.raises(SourceBindingError), either.attempt(release_id, source=SLICE):
            pass
        with pytest.raises(SourceBindingError):
            either.open_release(other, SHARES, source=SLICE)
    assert sources(either)[-1] == ("bound", WHOLE)
    assert len(either.open_attempts("people")) == 1
    either.verify()


def test_a_source_that_moved_is_bound_once_more(either: Ledger, release_id: ReleaseId) -> None:
    charge(either, release_id, WHOLE)
    march = edition(release_id, "1", partition="2026-03")
    charge(either, march, WHOLE)
    assert either.rebind("people", reason="the file moved") == 1
    event = either.events()[-1]
    assert (event.kind, event.source, event.release) == (Kind.BOUND, "", "")
    assert (event.reason, event.by, event.partition) == ("the file moved", user(), "")
    opened(either, release_id, SLICE)
    assert sources(either)[-1] == ("bound", SLICE)
    with pytest.raises(SourceBindingError):
        either.open_release(release_id, SHARES, source=WHOLE)
    # Another partition keeps its own.
    with pytest.raises(SourceBindingError, match="--partition 2026-03"):
        either.open_release(march, SHARES, source=SLICE)
    before = either.events()
    assert either.rebind("people", partition="2026-04", reason="none is bound") == 0
    assert either.events() == before
    with pytest.raises(SpecificationError, match="the reason must not be blank"):
        either.rebind("people", reason=" ")
    with pytest.raises(SpecificationError, match="must be a digest of a table"):
        either.rebind("people", reason="moved", table="people.csv")
    either.verify()


def test_a_partition_of_replace_one_neighbours_has_one_source(
    either: Ledger, release_id: ReleaseId
) -> None:
    """The same table with another `where` has another number of records."""
    charge(either, release_id, WHOLE)
    others = [
        edition(release_id, "2"),
        dataclasses.replace(release_id, release="other"),
        dataclasses.replace(release_id, specification="f00"),
    ]
    before = either.events()
    for other in others:
        with pytest.raises(SourceBindingError, match="add_remove neighbours"):
            either.open_release(other, SHARES, source=SLICE)
    assert either.events() == before
    either.open_release(edition(release_id, "1", partition="2026-03"), SHARES, source=SLICE)
    for other in others:
        either.open_release(other, SHARES, source=WHOLE)
    either.verify()


def test_no_number_of_records_is_public_without_an_officer_s_word(
    each_url: str, release_id: ReleaseId
) -> None:
    """`where age >= {partition}` has the number of people of each age, and of each edition."""
    ledger = granted(each_url, Policy())
    march = dataclasses.replace(release_id, partition="2026-03")
    of_each_age = "select * from people where age >= {partition}"
    template = SourceBinding.of(SECRET, of_each_age).table_name
    query = SourceBinding.of(SECRET, EVERYBODY, template=of_each_age)
    for one, source in ((release_id, WHOLE), (release_id, query), (march, WHOLE), (march, query)):
        before = ledger.events()
        with pytest.raises(SourceBindingError, match=r"add_remove.*records_share") as refused:
            ledger.open_release(one, SHARES, source=source)
        assert ledger.events() == before
        # What hides the number needs no word.
        ledger.check(one, SHARES, source=source, neighbours=ADD_REMOVE)
        ledger.check(one, SHARES, source=source, neighbours=Neighbours(max_rows=2))
        command = shlex.split(str(refused.value).rpartition("grant it: ")[2])
        given = dict(zip(command[3::2], command[4::2], strict=True))
        assert given["--records"] == "public"
        assert given.get("--ground") == (GROUND if one is march else None)
        assert given.get("--sources") == (template if source is query else None)
    # Each word is needed by itself.
    words: tuple[tuple[str, Any], ...] = (
        ("whole", {"policy": Policy(records="public")}),
        ("query", {"sources": template}),
        ("partition", {"policy": PUBLIC, "sources": ""}),
    )
    allowed = set()
    for _, word in words:
        ledger.grant("people", epsilon=1.0, delta=1e-9, **word)
        for name, one, source in (
            ("whole", release_id, WHOLE),
            ("query", release_id, query),
            ("partition", march, WHOLE),
        ):
            try:
                ledger.check(one, SHARES, source=source)
            except SourceBindingError:
                continue
            allowed.add((_, name))
    assert allowed == {
        ("whole", "whole"),
        ("query", "whole"),
        ("query", "query"),
        ("partition", "whole"),
        ("partition", "partition"),
    }
    with pytest.raises(SpecificationError, match="sources of a budget"):
        ledger.grant("people", epsilon=1.0, delta=1e-9, sources="any")


def test_neighbours_that_hide_the_number_of_records_may_have_several(
    ledger: Ledger, release_id: ReleaseId
) -> None:
    charge(ledger, release_id, WHOLE, neighbours=ADD_REMOVE)
    charge(ledger, edition(release_id, "2"), SLICE, neighbours=ADD_REMOVE)
    with pytest.raises(SourceBindingError):
        ledger.open_release(release_id, SHARES, source=SLICE, neighbours=ADD_REMOVE)
    ledger.verify()


def test_what_was_never_drawn_binds_nobody(ledger: Ledger, release_id: ReleaseId) -> None:
    ledger.open_release(release_id, SHARES, source=WHOLE)
    # A corrected specification supersedes it, with its source.
    corrected = dataclasses.replace(release_id, specification="f00")
    ledger.open_release(corrected, SHARES, source=SLICE)
    released = ledger.reservation(corrected)
    assert released is not None
    released.close("not needed")
    ledger.open_release(corrected, SHARES, source=WHOLE)
    assert sources(ledger)[-1] == ("reserved", WHOLE)
    ledger.verify()


def count(ledger: Ledger, release_id: ReleaseId, records: int) -> None:
    release = ledger.reservation(release_id)
    assert release is not None
    release.account("mechanism").publish_records(records)


def test_a_number_of_records_binds_for_good(either: Ledger, release_id: ReleaseId) -> None:
    """Nothing was charged, and what is shown of the table is its public number of records."""
    release = either.open_release(release_id, SHARES, source=WHOLE)
    count(either, release_id, 500)
    event = either.events()[-1]
    assert (event.kind, event.records) == (Kind.COUNTED, "500")
    assert either.records(release_id) == 500
    other, corrected = (
        edition(release_id, "2"),
        dataclasses.replace(release_id, specification="f00"),
    )
    assert either.records(other) is None
    for _ in range(2):
        for one in (release_id, other, corrected):
            before = either.events()
            count(either, release_id, 500)
            with pytest.raises(SourceBindingError):
                either.open_release(one, SHARES, source=SLICE)
            assert either.events() == before
        release.close("ended")
        either.withdraw(release_id, "ab" * 32, reason="a wrong table")
    # Its repeat reserves nothing, and none of the two supersedes the other.
    before = either.events()
    again = either.open_release(release_id, SHARES, source=WHOLE)
    assert again.closed
    assert either.events() == before
    either.open_release(corrected, SHARES, source=WHOLE)
    # A file that moved is bound once more, as after a charge.
    either.rebind("people", reason="the file moved")
    opened(either, release_id, SLICE)
    assert sources(either)[-1] == ("bound", SLICE)
    either.verify()


def test_a_partition_has_one_number_of_records(either: Ledger, release_id: ReleaseId) -> None:
    """`strftime('%S', 'now')` in a query gives six editions six numbers, each an exact count."""
    march = dataclasses.replace(release_id, partition="2026-03")
    editions = [edition(one, name) for one in (release_id, march) for name in ("1", "2", "3")]
    for one in editions:
        either.open_release(one, SHARES, source=SLICE if one.partition else WHOLE)
    count(either, editions[0], 500)
    count(either, editions[3], 70)
    before = either.events()
    for one, records in ((editions[0], 501), (editions[1], 499), (editions[4], 500)):
        with pytest.raises(SourceBindingError, match="another number of records") as refused:
            count(either, one, records)
        assert str(records) not in str(refused.value)
    assert either.events() == before
    count(either, editions[1], 500)
    # An officer looks into it: other people, whose number may be known too.
    either.rebind("people", reason="the table of 2027")
    with pytest.raises(SourceBindingError, match="another number of records"):
        count(either, editions[0], 400)
    count(either, editions[2], 400)
    with pytest.raises(SourceBindingError, match="another number of records"):
        count(either, editions[5], 71)
    either.verify()


def test_a_number_of_records_fixes_the_neighbours(ledger: Ledger, release_id: ReleaseId) -> None:
    """Who is protected by add/remove is not, if the number of records is known."""
    release = ledger.open_release(release_id, SHARES, source=WHOLE)
    count(ledger, release_id, 500)
    release.close("ended")
    with pytest.raises(BudgetError, match="different neighbours"):
        ledger.open_release(edition(release_id, "2"), SHARES, source=WHOLE, neighbours=ADD_REMOVE)
    hidden = {**reserved(edition(release_id, "2"), WHOLE), "protects": ADD_REMOVE.code}
    audit_finds(ledger, "different neighbours", hidden)


def test_the_records_of_what_has_ended_are_not_counted(
    ledger: Ledger, release_id: ReleaseId
) -> None:
    release = ledger.open_release(release_id, SHARES, source=WHOLE)
    release.close("not needed")
    with pytest.raises(ReleaseClosedError, match="not open"):
        count(ledger, release_id, 500)


def test_a_reservation_that_has_counted_its_records_is_not_superseded(
    ledger: Ledger, release_id: ReleaseId
) -> None:
    ledger.open_release(release_id, SHARES, source=WHOLE)
    count(ledger, release_id, 500)
    ledger.open_release(dataclasses.replace(release_id, specification="f00"), SHARES, source=WHOLE)
    release = ledger.reservation(release_id)
    assert release is not None
    assert not release.closed
    ledger.verify()


# The audit, on journals that somebody else has written.


def bound(release_id: ReleaseId, source: SourceBinding | None) -> dict[str, Any]:
    return {"kind": Kind.BOUND, **id_fields(release_id), "source": source.text if source else ""}


def reserved(release_id: ReleaseId, source: SourceBinding | None) -> dict[str, Any]:
    share = {"share": "mechanism", "units": 5, "source": source.text if source else ""}
    return {"kind": Kind.RESERVED, **id_fields(release_id), **share}


def counted(release_id: ReleaseId, records: str) -> dict[str, Any]:
    return {"kind": Kind.COUNTED, **id_fields(release_id), "records": records}


RELEASE_ID = ReleaseId("people", "yearly", "d1gest")
HIDDEN = dataclasses.replace(RELEASE_ID, dataset="hidden")
QUERY = SourceBinding.of(SECRET, EVERYBODY, template="select * from people")
BROKEN: dict[str, tuple[dict[str, Any], str]] = {
    "a release that is bound": (bound(RELEASE_ID, SLICE), "binds a release that is bound"),
    "a release that was never reserved": (
        bound(edition(RELEASE_ID, "9"), WHOLE),
        "never reserved",
    ),
    "another source of the partition": (
        bound(edition(RELEASE_ID, "2"), SLICE),
        "another source than",
    ),
    "another source that is reserved": (
        reserved(edition(RELEASE_ID, "6"), SLICE),
        "another source than other releases",
    ),
    "no source": (bound(edition(RELEASE_ID, "2"), None), "to no source"),
    "a partition to a source": (
        {"kind": Kind.BOUND, "dataset": "people", "source": QUERY.text, "reason": "x"},
        "names what is no table",
    ),
    "a partition to nothing": (
        {
            "kind": Kind.BOUND,
            "dataset": "people",
            "source": SourceBinding(WHOLE.secret).text,
            "reason": "x",
        },
        "names what is no table",
    ),
    "a partition without a reason": (
        {"kind": Kind.BOUND, "dataset": "people"},
        "without a reason",
    ),
    "another count of the partition": (counted(RELEASE_ID, "501"), "another number of records"),
    "no count": (counted(RELEASE_ID, "many"), "no number of records"),
    "a count after its end": (counted(edition(RELEASE_ID, "4"), "500"), "that is not open"),
    "a count that is protected": (counted(HIDDEN, "500"), "that protect it"),
    "an uncalled word": (reserved(edition(RELEASE_ID, "6"), QUERY), "no grant calls public"),
    "a dataset without a budget": (
        bound(dataclasses.replace(RELEASE_ID, dataset="strangers"), WHOLE),
        "granted nothing",
    ),
}


@pytest.fixture(scope="module")
def bound_releases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger with releases that are bound, which no test changes."""
    file = tmp_path_factory.mktemp("bound") / "ledger.db"
    ledger = granted(str(file))
    ledger.open_release(RELEASE_ID, SHARES, source=WHOLE)
    ledger.open_release(edition(RELEASE_ID, "2"), SHARES)
    ledger.open_release(edition(RELEASE_ID, "3"), SHARES, source=WHOLE)
    count(ledger, edition(RELEASE_ID, "3"), 500)
    ledger.open_release(edition(RELEASE_ID, "4"), SHARES, source=WHOLE).close("not needed")
    ledger.grant("hidden", epsilon=1.0, delta=1e-9)
    ledger.open_release(HIDDEN, SHARES, neighbours=ADD_REMOVE)
    ledger.verify()
    return file


@pytest.mark.parametrize(("event", "words"), BROKEN.values(), ids=list(BROKEN))
def test_bindings_against_the_rules_are_found(
    bound_releases: Path, url: str, event: dict[str, Any], words: str
) -> None:
    audit_finds(copy_of(bound_releases, url), words, event)
