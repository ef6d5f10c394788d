"""A release by a mechanism that reads no value: its rows are counted, and nothing else is told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import sqlalchemy as sa

from jam_dagster.certificates import refitting, verify
from jam_dagster.errors import (
    PrivateStepError,
    PrivateValuesError,
    SourceBindingError,
)
from jam_dagster.mechanisms import Transcript
from jam_dagster.mechanisms.loops.rows import release_rows
from jam_dagster.mechanisms.registry import MECHANISMS
from jam_dagster.privacy import Kind, Ledger
from jam_dagster.release import ReleaseSpec, Synthesis, SynthesisRequest, synthesize
from jam_dagster.release.place import FilePlace
from jam_dagster.tables import (
    CategoricalAttribute,
    CsvSource,
    Domain,
    FrameSource,
    PublicSources,
    Source,
    SqlSource,
)
from jam_dagster.tables.codes.marginals import RecordsOnly
from tests.budgets import PUBLIC_N, grant_as_refused
from tests.release.test_engine import (
    DOMAIN,
    RememberingPlace,
    charged,
    ledger,  # noqa: F401 - a fixture
    never,
    public_of,
    research,
    specification,
    table,
)
from tests.tiers import slow

ROWS = 40
PUBLIC = table(50, 2)
HOSTILE: dict[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
    "outside the domain": lambda clean: clean.assign(town="Paris"),
    "missing": lambda clean: clean.assign(sex=[None, *clean["sex"][1:]]),
    "of another type": lambda clean: clean.assign(town=[object(), *clean["town"][1:]]),
    "without a column": lambda clean: clean[["town"]],
}


def prior(private: pd.DataFrame | None = None, **options: Any) -> ReleaseSpec:
    given = {"mechanism": "public_prior", "settings": {}, "evaluation_mode": "off", "degree": 2}
    private = table(ROWS, 1) if private is None else private
    return specification(private, **{**given, "public": FrameSource(PUBLIC, "survey"), **options})


def test_no_other_mechanism_is_said_to_read_no_value() -> None:
    found = [name for name, one in MECHANISMS.items() if not one.reads_values]
    assert found == ["public_prior"]


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
def test_rows_are_counted_and_no_table_is_read(
    monkeypatch: pytest.MonkeyPatch, relation: str
) -> None:
    engine = research(prior(neighbours=relation))
    public = public_of(engine.spec)
    for name in ("read", "counted"):
        monkeypatch.setattr(FrameSource, name, never)

    private = engine.private_side(DOMAIN)
    run, _ = engine.run(private, public)

    assert private == RecordsOnly(DOMAIN, ROWS)
    assert str(ROWS) not in repr(private)
    assert (run.transcript.records == ROWS) == (relation == "replace_one")
    with pytest.raises(TypeError, match="only the number of records"):
        private.marginals([("town",)])


@pytest.mark.parametrize("hostile", HOSTILE.values(), ids=list(HOSTILE))
def test_values_change_nothing_that_is_released(hostile: Callable[..., pd.DataFrame]) -> None:
    tables = []
    for private in (table(ROWS, 1), hostile(table(ROWS, 1))):
        engine = research(prior(private))
        run, _ = engine.run(engine.private_side(DOMAIN), public_of(engine.spec))
        tables.append(next(release_rows(run.model, run.transcript)).table)
    pd.testing.assert_frame_equal(*tables)


def test_a_table_without_rows_is_refused_where_that_is_public() -> None:
    with pytest.raises(PrivateValuesError):
        research(prior(table(0, 1))).private_side(DOMAIN)
    assert research(prior(table(0, 1), neighbours="add_remove")).private_side(DOMAIN).records == 0


def test_rows_beyond_a_persons_limit_do_not_count() -> None:
    private = table(6, 1).assign(who=["a", "a", "a", "b", None, "c"])
    spec = prior(private, privacy_unit="who", max_rows=2)
    assert research(spec).private_side(DOMAIN).records == 4


def test_an_evaluation_is_charged_before_it_says_whether_values_fit(
    ledger: Ledger,  # noqa: F811
) -> None:
    private = HOSTILE["outside the domain"](table(ROWS, 1))
    spec = prior(private, noise="exact", epsilon=0.5, evaluation_mode="private")
    engine = charged(spec, ledger, RememberingPlace())
    notified: list[str] = []
    engine = replace(engine, progress=replace(engine.progress, notify=notified.append))
    engine.reserve()
    public = public_of(spec)
    with engine.opened("making the release"):
        counted = engine.private_side(DOMAIN)
        run, _ = engine.run(counted, public)
    synthetic = next(release_rows(run.model, run.transcript)).codes
    assert ledger.balance("people").spent == 0

    with pytest.raises(PrivateValuesError), engine.opened("evaluating"):
        engine.evaluate(run, counted, synthetic, public)
    steps = [event.step for event in ledger.events() if event.kind == Kind.CHARGED]
    assert steps == ["evaluation/means"]

    # Asked again, the table is not even opened, and the release ends without the answer.
    errors = engine.evaluate(run, counted, synthetic, public)
    assert errors.synthetic is None
    assert "stays unknown" in notified[-1]
    assert [event.step for event in ledger.events() if event.kind == Kind.CHARGED] == steps


# A whole release, from files.


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    table(ROWS, 1).to_csv("people.csv", index=False)
    PUBLIC.to_csv("survey.csv", index=False)
    Ledger("ledger.db").grant("people", epsilon=1.0, delta=1e-9, policy=PUBLIC_N)
    return tmp_path


def released(private: str | Source = "people.csv", out: str = "out", **options: Any) -> Synthesis:
    given: dict[str, Any] = {
        "private": CsvSource(private) if isinstance(private, str) else private,
        "public": CsvSource("survey.csv"),
        "domain": DOMAIN,
        "release": "people",
        "dataset": "people",
        "epsilon": 0.3,
        "mechanism": "public_prior",
        "degree": 2,
        "evaluation_mode": "off",
        "ledger": "ledger.db",
        "checks": False,
        "report": False,
    }
    return synthesize(SynthesisRequest.of(out=Path(out), **(given | options)))


def test_a_release_that_was_never_charged_binds_its_source(files: Path) -> None:
    released()
    ledger = Ledger("ledger.db")  # noqa: F811
    assert ledger.balance("people").spent == 0
    before = ledger.events()
    table(ROWS - 1, 3).to_csv("slice.csv", index=False)
    for options in ({"release": "other"}, {"edition": "2"}, {"out": "out"}):
        with pytest.raises(SourceBindingError):
            released("slice.csv", **{"out": "other", **options})
    assert ledger.events() == before

    # A repeat costs nothing, reserves nothing, and gives the same table.
    first = Path("out/synthetic.csv").read_bytes()
    again = released()
    assert len(again.table) == ROWS
    assert Path("out/synthetic.csv").read_bytes() == first
    assert [event for event in ledger.events() if event not in before] == []
    ledger.verify()


@pytest.mark.slow
@pytest.mark.parametrize(
    "ended", [*slow("by itself"), "before its run was kept", *slow("after its end")]
)
def test_no_other_where_is_counted_for_nothing(
    files: Path, monkeypatch: pytest.MonkeyPatch, ended: str
) -> None:
    """Another name, edition, specification or folder asks for the same free number of records."""
    engine = sa.create_engine("sqlite:///people.sqlite")
    table(ROWS, 1).to_sql("people", engine, index=False)
    engine.dispose()
    ledger = Ledger("ledger.db")  # noqa: F811

    def asked(where: str, **options: Any) -> Synthesis:
        query = f"select * from people {where}"
        return released(SqlSource("sqlite:///people.sqlite", query), **options)

    # A query can select whom it likes, so an officer vouches for it.
    with pytest.raises(SourceBindingError, match="its query or asset") as refused:
        asked("")
    grant_as_refused(ledger, refused.value)
    with monkeypatch.context() as patched:
        if ended == "before its run was kept":
            # The number was counted, and nothing was made of it.
            patched.setattr(FilePlace, "keep", never)
            with pytest.raises(PrivateStepError):
                asked("")
            (begun,) = ledger.reservations()
            begun.close("an operator")
        else:
            asked("")
    if ended == "after its end":
        ledger.withdraw(ledger.reservations()[0].release_id, "ab" * 32, reason="a wrong table")
    before = ledger.events()
    others: tuple[dict[str, Any], ...] = (
        {},
        {"epsilon": 0.2},
        {"degree": 1},
        {"delta": 1e-10},
        {"edition": "2"},
        {"release": "other"},
        {"private_store": Path("another store")},
    )
    for number, options in enumerate(others):
        with pytest.raises(SourceBindingError):
            asked("where sex = 'F'", out=f"out-{number}", **options)
    assert ledger.events() == before
    assert ledger.balance("people").spent == 0
    ledger.verify()


@pytest.mark.slow
def test_a_file_is_released_alike_whether_its_values_fit_or_not(files: Path) -> None:
    told = []
    lines = Path("people.csv").read_text().splitlines()
    for name, some in (("fits", lines[1:4]), ("misfits", ["Paris,7,8", 'A"', ","])):
        Path("people.csv").write_text("\n".join([lines[0], *some, *lines[4:]]))
        Ledger(f"{name}.db").grant("people", epsilon=1.0, delta=1e-9, policy=PUBLIC_N)
        made = released(out=name, ledger=f"{name}.db")
        transcript = Transcript.load(Path(name) / "transcript")
        accesses = Ledger(f"{name}.db").verify().accesses
        assert accesses is not None
        kinds = [event.kind for event in Ledger(f"{name}.db").events()]
        told.append((made.table.to_csv(), transcript.records, accesses.not_ended, kinds))
    assert all(one == told[0] for one in told)


def test_a_file_whose_records_are_uncertain_counts_as_an_attempt(files: Path) -> None:
    with Path("people.csv").open("a") as file:
        file.write('\n"A')
    ledger = Ledger("ledger.db")  # noqa: F811
    ledger.grant("people", epsilon=1.0, delta=1e-9)
    with pytest.raises(PrivateValuesError):
        released()
    accesses = ledger.verify().accesses
    assert accesses is not None
    assert accesses.not_ended == 1
    assert ledger.balance("people").spent == 0


@pytest.mark.slow
@pytest.mark.parametrize("evaluate", ["off", *slow("private")])
def test_a_certificate_is_verified_with_the_public_table(
    files: Path, evaluate: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refitting, "_other_processors", lambda made_with: ())
    released(evaluation_mode=evaluate)
    ledger = Ledger("ledger.db")  # noqa: F811
    found = verify(Path("out"), ledger=ledger, public=CsvSource("survey.csv"))
    assert [one for one in found if not (one.passed and one.checked)] == []
    without = verify(Path("out"), ledger=ledger)
    assert [one for one in without if not one.passed] == []
    assert any(not one.checked for one in without)
    table(50, 9).to_csv("other.csv", index=False)
    another = verify(Path("out"), ledger=ledger, public=CsvSource("other.csv"))
    assert [one.name for one in another if not one.passed] == ["the model, refitted"]


@pytest.mark.slow
def test_several_public_tables_may_lack_attributes(files: Path) -> None:
    """Each counts where it has the attributes, and one that no table has is uniform."""
    extended = Domain((*DOMAIN.attributes, CategoricalAttribute("pet", ("cat", "dog"))))
    PUBLIC[["town"]].to_csv("towns.csv", index=False)
    public = PublicSources({"survey": CsvSource("survey.csv"), "towns": CsvSource("towns.csv")})
    made = released(domain=extended, public=public, epsilon=0.2)
    assert sorted(made.table["pet"].unique()) == ["cat", "dog"]
    ledger = Ledger("ledger.db")  # noqa: F811
    found = verify(Path("out"), ledger=ledger, public=public)
    assert [one for one in found if not (one.passed and one.checked)] == []


@pytest.mark.slow
def test_a_report_does_not_claim_that_anything_was_measured(files: Path) -> None:
    released(report=True)
    page = Path("out/report.html").read_text()
    assert "which was fitted to public data alone" in page
    assert "read the number of records, and no value" in page
    assert "measured a marginal of the private table" not in page


def test_a_private_number_of_records_is_compared_with_nothing(
    files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that refused another number would tell it to who may try."""
    with monkeypatch.context() as patched:
        patched.setattr(FilePlace, "keep", never)
        with pytest.raises(PrivateStepError):
            released(neighbours="add_remove")
    table(ROWS + 1, 1).to_csv("people.csv", index=False)
    released(neighbours="add_remove")
    assert Kind.COUNTED not in {event.kind for event in Ledger("ledger.db").events()}
