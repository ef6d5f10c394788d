"""`jam_dagster.synthesize`: a release from tables in memory, by the engine of the command line."""

from __future__ import annotations

import gc
import json
import pickle
import re
import stat
import weakref
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import jam_dagster as jam
from jam_dagster.certificates import Certificate, verify
from jam_dagster.errors import (
    BudgetExceededError,
    DomainError,
    InputError,
    JamError,
    PrivateValuesError,
    SourceBindingError,
    SpecificationError,
)
from jam_dagster.evaluation.expectations.checked_table import CheckedTable
from jam_dagster.keys import OPTIONS
from jam_dagster.mechanisms import Transcript
from jam_dagster.mechanisms.loops import rows
from jam_dagster.models.graphical.model import FittedModel
from jam_dagster.privacy import Ledger
from jam_dagster.release.dataframes import ReleaseOptions
from jam_dagster.release.engine import Engine
from jam_dagster.tables import (
    CsvSource,
    Domain,
    DuckDbSource,
    FrameSource,
    ParquetSource,
    PublicSources,
    Workload,
    draft_table,
)
from tests.budgets import PUBLIC_N
from tests.cli_bench import run_cli
from tests.cli_bench import synthesize as command
from tests.tiers import slow_rows

SMALL: dict[str, Any] = {
    "degree": 2,
    "mechanism": "jam_pgm",
    "settings": {"rounds": 2, "iterations": 20},
    "checks": False,
}
RESEARCH: dict[str, Any] = {**SMALL, "epsilon": 1.0, "noise": "numpy"}
EXACT: dict[str, Any] = {
    **SMALL,
    "epsilon": 0.4,
    "ledger": "ledger.db",
    "dataset": "people",
    "report": False,
}
DOMAIN = {"age": 4, "sex": 2, "job": 3}
TOWN = "Secretville"


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    monkeypatch.setattr("tempfile.tempdir", None)
    Path("temporary").mkdir()
    Ledger("ledger.db").grant("people", epsilon=1.0, delta=1e-9, policy=PUBLIC_N)


def frame(rows: int, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame({name: rng.integers(0, size, rows) for name, size in DOMAIN.items()})


PRIVATE, PUBLIC = frame(200), frame(80, seed=1)


def changed() -> pd.DataFrame:
    """Return the private table with another value in one record."""
    table = PRIVATE.copy()
    table.loc[7, "sex"] = 1 - table.loc[7, "sex"]
    return table


def spent() -> int:
    return Ledger("ledger.db").balance("people").spent_units


def exact(private: Any = PRIVATE, public: Any = PUBLIC, **given: Any) -> jam.FrameRelease:
    return jam.synthesize(
        private,
        public,
        **{**EXACT, "domain": Domain.from_sizes(DOMAIN), "records_public": True, **given},
    )


# --- in memory, for research


@pytest.mark.slow
def test_checks_that_cannot_run_cost_no_release(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*given: object) -> None:
        raise RuntimeError("a broken library")

    monkeypatch.setattr(CheckedTable, "of", broken)
    made = exact(folder="release", checks=True, report=True)
    assert made.releasable
    assert len(made.table) == 200
    assert all(one.passed for one in made.verify())
    for page in (made.report("report.html"), Path("release/checks.html")):
        assert "could not be checked: RuntimeError" in page.read_text()
        assert "a broken library" not in page.read_text()
    (kept,) = Path("release/restricted/failures").iterdir()
    assert "a broken library" in kept.read_text()
    assert re.match(r"Failed checks: (\d+) of \1 ", made.verdict.headline)


@pytest.mark.slow
def test_a_table_in_chunks_is_read_from_its_file(monkeypatch, capsys) -> None:
    monkeypatch.setattr(rows, "MOST_AT_ONCE", 150)
    monkeypatch.setattr(rows, "CHUNK_ROWS", 100)
    made = exact(folder="many", progress=True)
    assert "rows: 100 of 200\nrows: 200 of 200\n" in capsys.readouterr().err
    assert made.table.equals(pd.read_parquet("many/synthetic.parquet"))
    # Each chunk has a seed of its own.
    first, second = made.table[:100], made.table[100:].reset_index(drop=True)
    assert not first.equals(second)
    assert "synthetic" in made._repr_html_().lower()
    assert exact(folder="many").table.equals(made.table)


@pytest.mark.slow
def test_counts_make_the_release_that_rows_make() -> None:
    PRIVATE.to_parquet("people.parquet")
    with duckdb.connect("people.duckdb") as connection:
        connection.execute("create table people as from 'people.parquet'")
    rows, counts = (
        jam.synthesize(
            private,
            PUBLIC,
            domain=Domain.from_sizes(DOMAIN),
            seed=1,
            evaluation_mode="exact",
            **RESEARCH,
        )
        for private in (
            ParquetSource("people.parquet"),
            DuckDbSource("people.duckdb", "from people"),
        )
    )
    assert counts.table.equals(rows.table)
    assert counts.errors == rows.errors


@pytest.mark.slow
def test_rows_are_repaired_and_looked_up_without_the_private_table() -> None:
    """Private rows that break every rule give the same table as others with the same codes."""
    rng = np.random.default_rng(0)
    town, late = rng.choice(["Aix", "Arles", "Bern"], 3000), rng.integers(-30, 60, 3000)
    public = pd.DataFrame({"town": town, "planned": 1200 + rng.integers(0, 60, 3000), "late": late})
    minutes = 720 + public["planned"] % 100 + late
    public["arrived"] = (minutes // 60 * 100 + minutes % 60).astype(float)
    public["fee"] = np.where(rng.random(3000) < 0.1, np.nan, rng.integers(0, 9, 3000))
    public["paid"] = public["fee"] * rng.integers(1, 3, 3000)
    public["country"] = public["town"].map({"Aix": "FR", "Arles": "FR", "Bern": "CH"})
    public.loc[rng.random(3000) < 0.1, "arrived"] = np.nan
    domain = draft_table(public).domain
    entries = {next(iter(one)) for one in domain.to_dict()["repairs"] if isinstance(one, dict)}
    assert {"formula", "missing"} <= entries
    assert [str(one.expression)[:12] for one in domain.derived] == ["looked up by"]

    private = public.sample(frac=1, random_state=1).reset_index(drop=True)
    for name in ("fee", "arrived"):
        private[name] = np.random.default_rng(2).permutation(private[name])
    other = private.copy()
    other["country"] = "XX"
    for one in domain.binned:
        least = pd.Series(one.bin_limits[0][one.codes_in(private[one.name])[0]])
        other[one.name] = least.where(private[one.name].notna())
    assert not other.equals(private)
    given = RESEARCH | {"domain": domain, "seed": 5, "checks": True}
    made, same = (jam.synthesize(one, public, **given) for one in (private, other))
    assert made.table.equals(same.table)
    (again,) = rows.release_rows(made.model, made.transcript)
    assert again.table.equals(made.table)
    assert (made.table["fee"].isna() == made.table["paid"].isna()).all()
    assert str(made.verdict) == str(same.verdict)
    checks = [(one.folder / "checks.json").read_text() for one in (made, same)]
    counted = [re.findall(r"break|unexpected_count\D+\d+", one) for one in checks]
    assert counted[0] == counted[1]
    # The private table itself breaks them.
    assert (private["fee"].isna() != private["paid"].isna()).any()


def test_research_lives_in_memory_and_goes_with_its_result() -> None:
    private = PRIVATE.copy()
    read = weakref.ref(private)
    made = jam.synthesize(private, PUBLIC, **RESEARCH)
    folder = made.folder
    del private
    gc.collect()
    assert read() is None

    assert list(made.table.columns) == list(DOMAIN)
    assert len(made.table) == 200
    assert made.releasable is False
    assert made.certificate.noise == "numpy"
    assert isinstance(made.model, FittedModel)
    assert isinstance(made.transcript, Transcript)
    assert made.domain.names == tuple(DOMAIN)
    assert made.errors.restricted
    assert all(finding.passed for finding in made.verify())
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    del made
    gc.collect()
    assert not folder.exists()
    assert not list(Path("temporary").iterdir())


@pytest.mark.slow
def test_the_folder_of_research_may_be_named() -> None:
    made = jam.synthesize(PRIVATE, PUBLIC, folder="research", report=True, **RESEARCH)
    page = made.report("page.html")

    assert made.folder == Path("research").resolve()
    assert page == Path("page.html")
    assert "<html" in page.read_text()
    # It tells exact statistics to whoever guesses the seed.
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    del made
    gc.collect()
    assert Path("research/synthetic.csv").exists()


def test_a_release_answers_and_tests_by_what_it_measured() -> None:
    made = exact(
        mechanism="aim", settings={"iterations": 20}, cliques=[["age", "sex"]], degree=None
    )
    found = made.answer({"age": 0})
    assert found.basis == "measured"
    assert found.low is not None
    assert found.high is not None
    assert 0 <= found.low <= found.estimate <= found.high <= 200
    assert "sample" in made.answer({"age": 0}, population=True).how
    pair = made.answer({"age": [0, 1], "sex": 0})
    assert pair.basis in ("measured", "bound")
    assert made.answer({"job": 0}).basis == "model"
    assert made.test("sex", "job").p_value is None


def test_what_may_not_leave_is_not_answered() -> None:
    made = jam.synthesize(PRIVATE, PUBLIC, **RESEARCH)
    with pytest.raises(InputError, match="the run may not leave: "):
        made.answer({"age": 0})
    with pytest.raises(InputError, match="the run may not leave: "):
        made.test("age", "sex")


def test_a_page_that_was_not_made_says_how() -> None:
    made = jam.synthesize(PRIVATE, PUBLIC, **RESEARCH)

    with pytest.raises(InputError, match="report=True"):
        made.report("page.html")


@pytest.mark.parametrize(
    "turned",
    [
        pytest.param(lambda table: table, id="pandas"),
        pytest.param(pa.Table.from_pandas, id="pyarrow", marks=pytest.mark.slow),
        pytest.param(
            lambda table: pytest.importorskip(
                "polars", reason="polars is not installed"
            ).from_pandas(table),
            id="polars",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_the_table_is_that_of_the_command_line(turned: Any) -> None:
    PRIVATE.to_csv("priv.csv", index=False)
    PUBLIC.to_csv("pub.csv", index=False)
    Path("domain.json").write_text(json.dumps(DOMAIN))
    ran = run_cli(*command("--noise", "numpy", "--seed", "5"))
    assert ran.exit_code == 0, ran.output

    made = jam.synthesize(turned(PRIVATE), turned(PUBLIC), domain="domain.json", seed=5, **RESEARCH)

    assert (made.folder / "synthetic.csv").read_bytes() == Path("out/synthetic.csv").read_bytes()
    given = turned(PRIVATE)
    assert type(made.table) is (pd.DataFrame if isinstance(given, pa.Table) else type(given))
    shown = made.table if isinstance(made.table, pd.DataFrame) else made.table.to_pandas()
    pd.testing.assert_frame_equal(shown, pd.read_csv("out/synthetic.csv"))


@pytest.mark.slow
def test_tables_may_be_paths_configurations_and_sources() -> None:
    PRIVATE.to_csv("priv.csv", index=False)
    PUBLIC.to_csv("pub.csv", index=False)
    wanted = jam.synthesize(PRIVATE, PUBLIC, domain=Domain.from_sizes(DOMAIN), **RESEARCH).table
    several = PublicSources({"census": FrameSource(PUBLIC, "census")})
    for private, public in (
        ("priv.csv", Path("pub.csv")),
        ({"csv": "priv.csv"}, CsvSource("pub.csv")),
        (FrameSource(PRIVATE, "people"), several),
    ):
        made = jam.synthesize(private, public, domain=Domain.from_sizes(DOMAIN), **RESEARCH)
        pd.testing.assert_frame_equal(made.table, wanted)


@pytest.mark.slow
def test_the_file_is_in_the_dialect_of_the_public_one_and_verifies() -> None:
    table = PRIVATE.assign(bmi=[20.5 + row % 40 / 10 for row in range(len(PRIVATE))])
    reading = {"sep": ";", "decimal": ","}
    for name in ("priv.csv", "pub.csv"):
        table.to_csv(name, index=False, **reading)
    private, public = (
        {"csv": name, "separator": ";", "decimal": ","} for name in ("priv.csv", "pub.csv")
    )
    made = jam.synthesize(private, public, **RESEARCH)

    file = made.folder / "synthetic.csv"
    pd.testing.assert_frame_equal(pd.read_csv(file, **reading), made.table, check_dtype=False)
    assert {one.name: one.passed for one in made.verify()}["the table, sampled again"]
    # As another program would write it, in the default dialect.
    made.table.to_csv(file, index=False)
    assert not {one.name: one.passed for one in made.verify()}["file: table"]


@pytest.mark.slow
def test_the_domain_may_be_drafted_or_given_as_it_is_written() -> None:
    drafted = jam.synthesize(PRIVATE, PUBLIC, **RESEARCH).domain
    given = jam.synthesize(PRIVATE, PUBLIC, domain=drafted.to_dict(), **RESEARCH).domain

    assert drafted.identified_from == "public"
    assert given.digest == drafted.digest


def test_the_table_has_the_dtypes_of_the_domain() -> None:
    values = pd.DataFrame({"n": pd.array([1, None, 3] * 40, "Int64"), "t": ["a", "b", None] * 40})
    made = jam.synthesize(values, values.copy(), **RESEARCH)

    assert made.table.dtypes.astype(str).to_dict() == {"n": "Int64", "t": "str"}
    # What is done to it changes nothing of the release.
    table = made.table
    table["n"] = 0
    assert (made.table["n"] != 0).any()


def test_progress_is_told_where_it_is_asked_for(capfd: pytest.CaptureFixture[str]) -> None:
    jam.synthesize(PRIVATE, PUBLIC, **RESEARCH)
    assert capfd.readouterr() == ("", "")
    jam.synthesize(PRIVATE, PUBLIC, progress=True, **RESEARCH)
    said = capfd.readouterr()
    assert said.out == ""
    assert "round 2/2" in said.err


# --- a release


def test_a_release_lies_beside_its_ledger_and_repeats_for_nothing() -> None:
    made = exact()

    assert made.releasable
    assert made.folder == Path("ledger.db-releases/people/1").resolve()
    assert stat.S_IMODE(Path("ledger.db-releases").stat().st_mode) == 0o700
    assert all(finding.passed and finding.checked for finding in made.verify())
    assert not made.errors.restricted
    paid, certificate = spent(), made.certificate.digest
    # In any order, of any library.
    again = exact(pa.Table.from_pandas(PRIVATE.sample(frac=1, random_state=3)), PUBLIC.copy())
    assert spent() == paid
    pd.testing.assert_frame_equal(again.table, made.table)
    assert again.errors.to_dict() == made.errors.to_dict()
    assert Certificate.load(again.folder / "certificate.json").digest == certificate
    assert any("drawn before" in message for message in again.messages)


class Unread:
    """A table that cannot be read."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        raise AssertionError("opened")


def test_a_table_that_changed_needs_an_edition() -> None:
    first = exact()
    paid = spent()
    events = Ledger("ledger.db").events()

    # What has ended is made again without a look at any table.
    for private in (changed(), Unread()):
        again = exact(private)
        pd.testing.assert_frame_equal(again.table, first.table)
        assert again.certificate.digest == first.certificate.digest
        assert "If the private table has changed since, raise privacy.edition" in again.messages[0]
    assert Ledger("ledger.db").events() == events
    second = exact(changed(), evaluation_mode="off", edition=2)
    assert spent() > paid
    assert second.folder != first.folder
    attempts = Ledger("ledger.db").verify().accesses
    assert attempts is not None
    assert (attempts.attempts, attempts.not_ended) == (2, 0)


def stop(monkeypatch: pytest.MonkeyPatch, private: Any, **given: Any) -> None:
    """Begin a release, and stop it before its error is measured."""

    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Engine, "evaluate", interrupted)
        with pytest.raises(KeyboardInterrupt):
            exact(private, **given)


@pytest.mark.slow
def test_a_database_that_took_other_rows_needs_an_edition(monkeypatch: pytest.MonkeyPatch) -> None:
    def fill(table: pd.DataFrame) -> DuckDbSource:
        Path("people.duckdb").unlink(missing_ok=True)
        with duckdb.connect("people.duckdb") as connection:
            connection.register("rows", table)
            connection.execute("create table people as from rows")
        return DuckDbSource("people.duckdb", "from people")

    asked = {"neighbours": "add_remove"}
    stop(monkeypatch, fill(PRIVATE), **asked)
    paid = spent()
    with pytest.raises(InputError, match="with another private table: restore the old data"):
        exact(fill(changed()), **asked)
    assert spent() == paid
    # The refusal is an answer about private values: it counts.
    assert len(Ledger("ledger.db").open_attempts("people")) == 2
    # The order of rows is no part of a table.
    assert exact(fill(PRIVATE[::-1]), **asked).errors.synthetic is not None


@pytest.mark.slow
def test_other_parameters_need_another_name() -> None:
    exact(evaluation_mode="off")
    with pytest.raises(InputError, match=r"made with other parameters.* another release\."):
        exact(evaluation_mode="off", epsilon=0.3)
    assert (
        exact(evaluation_mode="off", epsilon=0.3, release="smaller").folder.parent.name == "smaller"
    )


def test_what_is_kept_of_the_contents_is_keyed_and_the_owners() -> None:
    exact(evaluation_mode="off")
    (kept,) = Path("ledger.db-private/contents").glob("*.json")

    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert stat.S_IMODE(kept.parent.stat().st_mode) == 0o700
    digest = json.loads(kept.read_text())["contents"]
    # Under the secret of another store the same table has another digest.
    exact(evaluation_mode="off", ledger="other.db")
    (other,) = Path("other.db-private/contents").glob("*.json")
    assert json.loads(other.read_text())["contents"] != digest
    # So has the same table of another release.
    exact(evaluation_mode="off", release="again")
    kept_of_all = kept.parent.glob("*.json")
    assert len({json.loads(one.read_text())["contents"] for one in kept_of_all}) == 2
    everywhere = [one for one in Path.cwd().rglob("*") if one.is_file() and one != kept.resolve()]
    assert not any(digest.encode() in one.read_bytes() for one in everywhere)


@pytest.mark.slow
def test_what_a_release_began_with_moves_with_the_ledger(monkeypatch: pytest.MonkeyPatch) -> None:
    stop(monkeypatch, PRIVATE)
    moved = run_cli(
        "ledger", "move", "--ledger", "ledger.db", "--to", "new/moved.db", "--reason", "d"
    )
    assert moved.exit_code == 0, moved.output

    given = {"ledger": "new/moved.db", "folder": "ledger.db-releases/people/1"}
    with pytest.raises(InputError, match="another private table"):
        exact(changed(), **given)
    assert exact(**given).releasable


@pytest.mark.slow
def test_a_file_and_a_table_in_memory_are_two_sources() -> None:
    exact(evaluation_mode="off")
    PRIVATE.to_csv("priv.csv", index=False)

    with pytest.raises(SourceBindingError, match="was reserved for another source"):
        exact("priv.csv", evaluation_mode="off")
    with pytest.raises(SourceBindingError, match="would read another source than"):
        exact("priv.csv", evaluation_mode="off", edition="2")


@pytest.mark.slow
def test_whether_the_number_of_rows_changed_is_no_question_of_research() -> None:
    given: dict[str, Any] = {**RESEARCH, "folder": "research"}
    jam.synthesize(PRIVATE, PUBLIC, **given)

    assert len(jam.synthesize(PRIVATE.iloc[:150], PUBLIC, **given).table) == 150


@pytest.mark.slow
@pytest.mark.parametrize("name", ["../../people", ".", "..", "a/b", ".hidden", "Köln 2026"])
def test_names_lead_nowhere_else(name: str) -> None:
    made = exact(evaluation_mode="off", release=name)

    assert made.folder.parent.parent == Path("ledger.db-releases").resolve()
    assert made.certificate.release_id.release == name


def test_a_ledger_on_a_server_needs_a_folder() -> None:
    with pytest.raises(SpecificationError, match=r"name a folder for the release .* folder='...'"):
        exact(ledger="postgresql://ann:secret@localhost/ledger")


# --- what is shown


def test_what_is_shown_tells_nothing_private() -> None:
    private = pd.DataFrame({"town": [TOWN, "Aix"] * 50, "n": [1, 2] * 50})
    public = pd.DataFrame({"town": ["Aix", "Bern"] * 40, "n": [1, 1, 2, 2] * 20})
    made = jam.synthesize(private, public, **RESEARCH)
    assert made.errors.synthetic is not None
    output = repr(made) + made._repr_html_()

    assert TOWN not in output
    assert f"{made.errors.synthetic.mean:.4f}" not in output
    assert "restricted: exact statistics of private data" in output
    assert "not releasable" in output
    # Nor does it go where the result is sent.
    assert TOWN.encode() not in pickle.dumps(made)
    # Nor what seeded noise made, for a notebook is saved with what it shows.
    assert "Aix" not in output


@pytest.mark.slow
def test_a_release_shows_its_first_rows_and_its_cost() -> None:
    made = exact()
    output = made._repr_html_()

    shown = "FrameRelease('people', edition '1': 200 synthetic records, releasable. "
    assert repr(made) == f"{shown}{made.verdict.headline})"
    assert "epsilon 0.4 at delta 1e-09" in output
    assert made.verdict.headline in output
    assert output.count("<tr>") == 6


@pytest.mark.slow
def test_verification_finds_and_never_raises() -> None:
    trial = jam.synthesize(PRIVATE, PRIVATE.copy(), **RESEARCH)
    assert "public" in {one.source for one in trial.transcript.rounds}
    assert all(finding.passed for finding in trial.verify())
    assert not all(finding.passed for finding in trial.verify(public=frame(80, 9)))
    made = exact(evaluation_mode="off")
    assert all(finding.passed and finding.checked for finding in made.verify())
    with (made.folder / "synthetic.csv").open("a") as file:
        file.write("1,1,1\n")
    assert not all(finding.passed for finding in made.verify())
    (made.folder / "certificate.json").unlink()
    (finding,) = made.verify()
    assert not finding.passed
    assert made.verify(public=7)[0].passed is False


def test_without_the_public_table_to_draft_a_domain_of_nothing_is_opened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def opened(*given: object, **named: object) -> None:
        raise AssertionError("the private table was opened")

    monkeypatch.setattr(FrameSource, "read", opened)
    with pytest.raises(SpecificationError, match="nothing to identify the domain from: declare"):
        jam.synthesize(PRIVATE, domain={"identify": "public"}, epsilon=1.0, noise="numpy")


# --- mistakes


def test_a_ledger_where_nothing_can_be_written_is_named() -> None:
    Path("file").write_text("")
    with pytest.raises(
        InputError, match=r"file/ledger\.db-releases .* cannot be made .* a ledger in"
    ):
        exact(ledger="file/ledger.db")


@pytest.mark.parametrize(
    ("given", "kind", "expected"),
    [
        ({"ledger": None}, SpecificationError, r"give ledger='ledger.db' .* noise='numpy'"),
        ({"dataset": None}, SpecificationError, r"dataset='...'"),
        ({"epsilon": 2}, BudgetExceededError, "ledger grant --ledger"),
        *slow_rows(({"private": PRIVATE.drop(columns="sex")}, DomainError, "no column 'sex'")),
        ({"private": PRIVATE.iloc[:0]}, PrivateValuesError, "number of rows"),
        *slow_rows(
            ({"private": pd.DataFrame()}, InputError, "no column 'age'"),
            ({"public": PUBLIC.iloc[:0]}, InputError, "The public table has no rows"),
            ({"public": None}, SpecificationError, "there is none"),
            ({"public": PUBLIC.drop(columns="sex")}, DomainError, "'sex'"),
        ),
        ({"domain": "nothing.yaml"}, InputError, "nothing.yaml"),
    ],
)
def test_mistakes_are_named_and_cost_nothing(
    given: dict[str, Any], kind: type[JamError], expected: str
) -> None:
    with pytest.raises(kind, match=expected):
        exact(**given)
    assert spent() == 0
    assert not list(Path("temporary").iterdir())


def test_types_that_are_mixed_tell_nothing() -> None:
    mixed = PRIVATE.assign(job=[TOWN, *range(199)])
    with pytest.raises(PrivateValuesError) as caught:
        jam.synthesize(mixed, PUBLIC, domain=DOMAIN, **RESEARCH)
    assert TOWN not in str(caught.value)
    assert caught.value.__notes__ == [
        "The folder was temporary: give folder='...' to keep details."
    ]
    # It held the value.
    assert not list(Path("temporary").iterdir())


def test_every_option_of_a_release_is_one_of_python() -> None:
    # Its tables are parameters of their own.
    typed = {*ReleaseOptions.__annotations__}
    assert typed | {"private", "public"} == {*OPTIONS, "settings"}


def test_the_names_of_the_package_are_found() -> None:
    assert {"synthesize", "FrameRelease"} <= set(dir(jam)) & set(jam.__all__)


def test_related_pairs_of_the_public_table_are_added_and_verified_without_it() -> None:
    public = PUBLIC.assign(job=PUBLIC["age"] % 3)
    made = exact(public=public, mechanism="hdmm_pgm", settings={}, degree=1, folder="release")
    assert made.domain.related == (("age", "job"),)
    wanted = Workload.of(made.domain, [["age"], ["sex"], ["job"], ["age", "job"]])
    assert made.transcript.workload_digest == wanted.digest
    assert any("also has age x job" in one for one in made.verdict.notes)
    found = verify(Path("release"), ledger=Ledger("ledger.db"))
    assert [one.message for one in found if not one.passed] == []
    # The same again, and none where the public table says nothing.
    units = spent()
    again = exact(public=public, mechanism="hdmm_pgm", settings={}, degree=1, folder="release")
    assert (again.domain.related, spent()) == (made.domain.related, units)
    plain = {"mechanism": "hdmm_pgm", "settings": {}, "degree": 1, "noise": "numpy", "seed": 0}
    research = jam.synthesize(PRIVATE, public, domain=DOMAIN, epsilon=1.0, **plain)
    alone = jam.synthesize(PRIVATE, PUBLIC, domain=DOMAIN, epsilon=1.0, **plain)
    assert (research.domain.related, alone.domain.related) == (made.domain.related, None)
