"""An earlier release shows whether the domain of the next one fits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import jam_dagster as jam
from jam_dagster.errors import InputError
from jam_dagster.tables import Domain, EncodedTable, FrameSource, encode
from jam_dagster.trials.plan_request import PlanRequest
from jam_dagster.trials.planner import domain_fit, prepare, read_earlier


def declared(first: int = 2000, last: int = 2009, **others: Any) -> Domain:
    year = {"bounds": [first, last], "integer": True, "bins": 5, "outside": "clip"}
    return Domain.from_dict(
        {"attributes": {"year": year, "kind": {"values": ["a", "b"]}, **others}}
    )


def table(first: int, rows: int = 2000) -> pd.DataFrame:
    rng = np.random.default_rng(first)
    years = rng.integers(first, first + 10, rows)
    return pd.DataFrame({"year": years, "kind": rng.choice(["a", "b"], rows)})


PUBLIC = table(2000)


def released(folder: Path, first: int, **options: Any) -> Path:
    jam.synthesize(
        table(first, rows=2001),
        PUBLIC,
        domain=declared(),
        epsilon=2.0,
        degree=1,
        mechanism="independent",
        folder=folder,
        report=False,
        checks=False,
        **options,
    )
    return folder


@pytest.fixture(scope="module")
def moved_on(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("moved_on")
    paid = {"ledger": folder / "ledger.db", "dataset": "people", "records_public": True}
    return released(folder / "out", 2010, **paid)


def encoded(domain: Domain) -> EncodedTable:
    frame = PUBLIC.assign(**dict.fromkeys(set(domain.names) - set(PUBLIC), "x"))
    return encode(frame, domain, private=False)


def fit(moved_on: Path, domain: Domain) -> tuple[list[str], list[str]]:
    return domain_fit(read_earlier(moved_on), encoded(domain))


def test_a_column_that_did_not_fit_is_named_with_its_remedy(moved_on: Path) -> None:
    (warning,), notes = fit(moved_on, declared())
    assert warning.startswith(
        "The earlier release shows a misfit. The domain does not fit year. In year, "
    )
    assert "2008 to 2009 at a bound" in warning
    assert "in the public table" in warning
    assert "Widen the bounds of year." in warning
    assert notes == []


def test_a_column_that_is_declared_otherwise_now_has_no_measurement(moved_on: Path) -> None:
    warnings, notes = fit(moved_on, declared(last=2019, club={"values": ["x", "y"]}))
    assert warnings == []
    *_, note = notes
    assert note.startswith("Since the earlier release the domain was edited: club is new; year is ")
    assert "and was" in note


def test_a_domain_that_fitted_is_said_to(moved_on: Path, tmp_path: Path) -> None:
    paid = {"ledger": tmp_path / "ledger.db", "dataset": "people", "records_public": True}
    run = read_earlier(released(tmp_path / "out", 2000, **paid))
    assert domain_fit(run, encoded(declared())) == (
        [],
        ["The earlier release shows no misfit of the domain."],
    )


def test_a_plan_shows_it_and_without_a_release_says_that_it_is_not_known(moved_on: Path) -> None:
    def known(**options: Any) -> Any:
        public = FrameSource(PUBLIC, "survey")
        asked = PlanRequest.of(public=public, domain=declared(), epsilon=1.0, degree=1, **options)
        return prepare(asked).known

    with_it, without = known(earlier=moved_on), known()
    assert any("misfit. The domain does not fit year" in one for one in with_it.warnings)
    assert not any("--earlier" in one for one in with_it.notes)
    assert without.warnings == ()
    assert any("not known whether the domain fits" in one for one in without.notes)


def test_a_folder_without_a_release_that_may_leave_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"holds no release: name the folder that --out named"):
        read_earlier(tmp_path)
    (tmp_path / "run.json").write_text('{"release": {"key": 1}}')
    with pytest.raises(InputError, match="holds no release"):
        read_earlier(tmp_path)
    research = released(tmp_path / "research", 2010, noise="numpy", seed=1)
    with pytest.raises(InputError, match="is not releasable"):
        read_earlier(research)
