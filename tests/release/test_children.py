"""Releases of two tables: households and their persons."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import jam_dagster as jam
from jam_dagster.certificates import verify
from jam_dagster.errors import InputError, SpecificationError
from jam_dagster.mechanisms import Transcript
from jam_dagster.privacy import Ledger
from jam_dagster.tables import Domain
from tests.cli_bench import run_cli
from tests.tiers import slow_rows

SMALL: dict[str, Any] = {
    "degree": 2,
    "mechanism": "jam_pgm",
    "settings": {"rounds": 3, "iterations": 20},
    "report": False,
    "checks": False,
}
EXACT: dict[str, Any] = {**SMALL, "epsilon": 2.0, "ledger": "ledger.db", "dataset": "people"}
ROOTS = Domain.from_sizes({"region": 2})
PERSONS = Domain.from_sizes({"job": 3, "sex": 2})


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_tables()


def write_tables() -> None:
    for name, seed in (("private", 1), ("public", 2)):
        for table, frame in zip(("households", "persons"), two_tables(600, seed), strict=True):
            frame.to_csv(f"{name}_{table}.csv", index=False)
    Ledger("ledger.db").grant("people", epsilon=9.0, delta=1e-8)


@pytest.fixture(scope="module")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a release, which no test changes."""
    folder = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        write_tables()
        release()
    return folder


def two_tables(number: int, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(0, 5, size=number)
    ids = rng.permutation(number) + 1000
    households = pd.DataFrame({"household": ids, "region": rng.integers(0, 2, size=number)})
    jobs = np.repeat(rng.integers(0, 3, size=number), sizes)
    persons = pd.DataFrame({"household": np.repeat(ids, sizes), "job": jobs})
    return households, persons.assign(sex=rng.integers(0, 2, size=len(jobs)))


def children(**changes: Any) -> dict[str, Any]:
    """Return the key of a release's file, by the tables that are there."""
    entry = {"private": "private_persons.csv", "public": "public_persons.csv"}
    return {"persons": entry | {"key": "household", "max": 3} | changes}


def release(**changes: Any) -> Any:
    asked = EXACT | {"children": children(), "folder": "out"} | changes
    return jam.synthesize("private_households.csv", "public_households.csv", **asked)


@pytest.mark.slow
def test_two_tables_are_released_with_whole_keys_and_verified() -> None:
    made = release(checks=True)
    households, persons = made.table, made.children
    assert list(households) == ["household", "region"]
    assert list(persons) == ["household", "job", "sex"]
    assert households["household"].is_unique
    assert persons["household"].isin(households["household"]).all()
    assert persons.groupby("household").size().max() == 3
    assert made.releasable
    assert [one.message for one in made.verify() if not one.passed] == []
    again = Domain.load("out/domain.yaml")
    assert again.children is not None
    assert again.children.link.maximum == 3
    written = pd.read_csv("out/children.csv")
    assert len(written) == len(persons)
    # A rule is for a person to look at: noise may leave some missing cells.
    blocking = [one for one in made._made.checks if one.severity == "ERROR"]
    assert [one.name for one in blocking if not one.passed] == []
    assert {"root_keys", "child_keys"} <= {one.name for one in blocking}


def test_a_table_of_children_that_was_changed_is_found(made_once: Path) -> None:
    shutil.copytree(made_once / "out", "out")
    path = Path("out/children.csv")
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:-1], ""]))
    found = verify(Path("out"))
    assert "file: children" in [one.name for one in found if not one.passed]
    # Whoever changes the certificate, too, has another table than the model gives.
    certificate = json.loads(Path("out/certificate.json").read_text())
    assert "children" in certificate["files"]


def test_the_number_of_persons_of_a_release_is_not_that_of_the_private_table(
    made_once: Path,
) -> None:
    out = made_once / "out"
    transcript = Transcript.load(out / "transcript")
    # The number of households is measured, for a key's values would show it.
    assert not transcript.neighbours.records_public
    assert len(pd.read_csv(out / "synthetic.csv")) == transcript.records
    certificate = json.loads((out / "certificate.json").read_text())
    said, *_ = certificate["privacy"]["guarantee"]
    assert "with all rows of the second one that belong to it" in said
    assert "person" not in said


@pytest.mark.slow
def test_data_frames_with_a_declared_domain_and_public_roots_alone() -> None:
    households, persons = two_tables(400, 3)
    public, _ = two_tables(100, 4)
    made = jam.synthesize(
        households,
        public,
        domain=ROOTS,
        children={"persons": {"private": persons, "key": "household", "max": 4, "domain": PERSONS}},
        **EXACT,
        folder="out",
    )
    assert made.children["job"].isin([0, 1, 2]).all()
    assert [one.message for one in made.verify() if not one.passed] == []


@pytest.mark.slow
def test_a_release_without_public_tables() -> None:
    asked = {"private": "private_persons.csv", "key": "household", "max": 3, "domain": PERSONS}
    made = jam.synthesize(
        "private_households.csv",
        domain=ROOTS,
        children={"persons": asked},
        **{**EXACT, "mechanism": "independent", "settings": {}},
    )
    assert made.children["household"].isin(made.table["household"]).all()


def test_research_is_seeded_and_the_same_again() -> None:
    research = {"noise": "numpy", "ledger": None, "dataset": None, "seed": 3}
    one, other = release(**research), release(**research)
    pd.testing.assert_frame_equal(one.children, other.children)


@pytest.mark.slow
def test_the_command_line_takes_children_as_json() -> None:
    given = json.dumps(children())
    options = ["--epsilon", "2", "--ledger", "ledger.db", "--dataset", "people", "--degree", "2"]
    tables = ["--private", "private_households.csv", "--public", "public_households.csv"]
    quick = ["--no-report", "--no-checks", "--out", "out"]
    result = run_cli("synthesize", *tables, *options, "--children", given, *quick)
    assert result.exit_code == 0, result.output
    assert Path("out/children.csv").exists()
    public = {
        "roots": "public_households.csv",
        "children": {"persons": {"source": "public_persons.csv", "key": "household", "max": 3}},
    }
    verify = ["certificate", "verify", "out", "--ledger", "ledger.db", "--public"]
    assert run_cli(*verify, json.dumps(public)).exit_code == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"neighbours": "replace_one"}, "how many roots the key"),
        *slow_rows(
            ({"privacy_unit": "household"}, "say the same thing"),
            ({"children": children(max=11)}, "max must be a whole number"),
            ({"children": children(key="")}, "key must be the column"),
            ({"children": children(rows=2)}, "rows"),
            ({"children": {}}, "one table's name"),
        ),
        ({"children": children(public="private_persons.csv")}, "is the private table"),
        *slow_rows(
            ({"children": children(private="public_households.csv")}, "is the private table"),
            ({"children": children(public=None)}, "declare the domains of both"),
            ({"children": children(domain=PERSONS)}, "declare the domains of both"),
        ),
        ({"domain": ROOTS}, "do not have the same children"),
        *slow_rows(
            ({"children": children(key="nobody")}, "no column 'nobody'"),
            ({"children": children(private="missing.csv")}, "missing.csv"),
        ),
    ],
)
def test_what_does_not_go_together_is_refused_before_a_charge(
    changes: dict[str, Any], message: str
) -> None:
    with pytest.raises((SpecificationError, InputError), match=message):
        release(**changes)
    assert Ledger("ledger.db").balance("people").spent_units == 0


def with_text_keys() -> None:
    for name in ("private", "public"):
        for table in ("households", "persons"):
            frame = pd.read_csv(f"{name}_{table}.csv")
            frame["household"] = frame["household"].astype(str).str.zfill(6)
            frame.to_csv(f"{name}_{table}.csv", index=False)


def test_text_keys_keep_their_width_and_children_of_no_root_are_counted() -> None:
    with_text_keys()
    persons = pd.read_csv("public_persons.csv", dtype=str)
    persons.loc[:49, "household"] = "999999"
    persons.to_csv("public_persons.csv", index=False)
    made = release(ledger=None, dataset=None, noise="numpy", seed=1, folder=None)
    assert made.table["household"].tolist()[:2] == ["000001", "000002"]
    assert made.children["household"].isin(made.table["household"]).all()
    assert "household: 50 public rows of persons have the key of no row" in " ".join(made.messages)


@pytest.mark.slow
def test_a_release_with_text_keys_is_verified() -> None:
    with_text_keys()
    made = release(checks=True)
    assert [one.message for one in made.verify() if not one.passed] == []
    assert (Path("out") / "domain.yaml").read_text().count("key_width: 6") == 1


def test_a_key_of_several_columns_names_the_remedy() -> None:
    with pytest.raises(SpecificationError, match="join the columns that identify a row"):
        release(children=children(key=["household", "year"]))
