"""Splits from one table: shares that are met, and errors that come to their target."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from jam_dagster.benchmark.data import SplitFiles
from jam_dagster.cli import app
from jam_dagster.errors import InputError, SpecificationError
from jam_dagster.evaluation import workload_error
from jam_dagster.evaluation.error_targeted_split import error_targeted_split
from jam_dagster.tables import (
    EncodedTable,
    Workload,
    encode,
    health_survey,
    health_survey_domain,
)

NAMES = ("sex", "settlement", "marital_status", "employment", "usual_care")


@pytest.fixture(scope="module")
def people() -> pd.DataFrame:
    return health_survey(6000, 1)[0][list(NAMES)]


@pytest.fixture(scope="module")
def table(people: pd.DataFrame) -> EncodedTable:
    return encode(people, health_survey_domain().project(NAMES), private=False)


def rows_of(table: EncodedTable) -> list[tuple[int, ...]]:
    return sorted(zip(*(column.tolist() for column in table.columns), strict=True))


@pytest.mark.parametrize("target", [0.25, 0.5, 1.0])
def test_the_error_of_the_public_rows_comes_to_the_target(
    table: EncodedTable, target: float
) -> None:
    workload = Workload.all_k_way(table.domain, 3)

    made = error_targeted_split(
        table, target=target, public_rows=600, workload=workload, tolerance=0.005
    )

    assert made.error == pytest.approx(target, abs=0.005)
    error = workload_error(made.private, made.private, made.public, workload, mode="exact")
    assert error.public is not None
    assert error.public.mean == pytest.approx(made.error)
    assert made.public.records == 600
    # Every record is in one of the two.
    assert sorted(rows_of(made.private) + rows_of(made.public)) == rows_of(table)


def test_a_seed_gives_the_same_split_and_another_another_bias(table: EncodedTable) -> None:
    workload = Workload.all_k_way(table.domain, 2)

    one, again, other = (
        error_targeted_split(table, target=0.4, public_rows=500, workload=workload, seed=seed)
        for seed in (1, 1, 2)
    )

    assert rows_of(one.public) == rows_of(again.public)
    assert rows_of(one.public) != rows_of(other.public)


def test_a_target_that_no_sample_has_is_refused(table: EncodedTable) -> None:
    workload = Workload.all_k_way(table.domain, 3)

    with pytest.raises(InputError, match="below that of a random sample"):
        error_targeted_split(table, target=0.01, public_rows=100, workload=workload)
    with pytest.raises(InputError, match="above that of the most biased"):
        error_targeted_split(table, target=1.9, public_rows=5000, workload=workload)
    with pytest.raises(InputError, match="raise the tolerance"):
        error_targeted_split(table, target=1.2, public_rows=20, workload=workload, tolerance=1e-9)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"target": 0.0}, "target error"),
        ({"target": 2.0}, "target error"),
        ({"public_rows": 0}, "public_rows"),
        ({"public_rows": 6000}, "public_rows"),
        ({"tolerance": 0.0}, "tolerance"),
    ],
)
def test_what_cannot_be_is_refused(
    table: EncodedTable, changed: dict[str, float], said: str
) -> None:
    given: dict[str, float] = {"target": 0.4, "public_rows": 500, **changed}

    with pytest.raises(SpecificationError, match=said):
        error_targeted_split(table, workload=Workload.all_k_way(table.domain, 2), **given)  # type: ignore[arg-type]


@pytest.fixture
def files(people: pd.DataFrame, tmp_path: Path) -> list[str]:
    people.to_csv(tmp_path / "people.csv", index=False)
    health_survey_domain().project(NAMES).save(tmp_path / "domain.yaml")
    return [
        *("benchmark", "split", str(tmp_path / "people.csv")),
        *("--domain", str(tmp_path / "domain.yaml"), "--degree", "2"),
    ]


def test_a_stratified_split_has_its_shares(files: list[str], tmp_path: Path) -> None:
    out = tmp_path / "splits" / "women"
    given = [
        "--by",
        "sex",
        "--value",
        "female",
        "--public-share",
        "0.75",
        "--private-share",
        "0.25",
    ]
    given += ["--public-rows", "400", "--private-rows", "2000", "--out", str(out)]

    done = CliRunner().invoke(app, [*files, *given])

    assert done.exit_code == 0, done.output
    split = SplitFiles("women").load(out.parent)
    assert split.public is not None
    assert (split.private.records, split.public.records) == (2000, 400)
    shares = [float(np.mean(one.columns[0] == 0)) for one in (split.private, split.public)]
    assert shares == [0.25, 0.75]
    how = json.loads((out / "split.json").read_text())
    assert f"has error {how['error']:.4f}" in done.output
    assert how["public_share"] == 0.75
    again = CliRunner().invoke(app, [*files, *given])
    assert again.exit_code == 2
    assert "holds a split already" in again.stderr


def test_a_targeted_split_is_one_that_a_benchmark_reads(files: list[str], tmp_path: Path) -> None:
    out = tmp_path / "splits" / "far"

    done = CliRunner().invoke(
        app, [*files, "--target-error", "0.5", "--public-rows", "300", "--out", str(out)]
    )

    assert done.exit_code == 0, done.output
    assert not (out / "priv.csv").stat().st_mode & 0o077
    split = SplitFiles("far").load(out.parent)
    assert split.public is not None
    workload = Workload.all_k_way(split.domain, 2)
    error = workload_error(split.private, split.private, split.public, workload, mode="exact")
    assert error.public is not None
    assert error.public.mean == pytest.approx(0.5, abs=0.005)


@pytest.mark.parametrize(
    ("given", "name"),
    [
        (["--target-error", "0.5", "--private-rows", "9"], "--private-rows"),
        (["--target-error", "0.5", "--private-share", "0.5"], "--private-share"),
        (
            ["--by", "sex", "--value", "female", "--public-share", "0.5", "--tolerance", "0.1"],
            "--tolerance",
        ),
    ],
)
def test_an_option_of_the_other_construction_is_refused(
    files: list[str], tmp_path: Path, given: list[str], name: str
) -> None:
    done = CliRunner().invoke(
        app, [*files, *given, "--public-rows", "300", "--out", str(tmp_path / "x")]
    )

    assert done.exit_code == 2
    assert f"{name} does nothing with --" in done.stderr
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    "given",
    [
        [],
        ["--by", "sex"],
        ["--by", "sex", "--value", "female", "--public-share", "0.5", "--target-error", "0.5"],
        ["--by", "sex", "--target-error", "0.5"],
    ],
)
def test_a_split_has_one_construction(files: list[str], tmp_path: Path, given: list[str]) -> None:
    done = CliRunner().invoke(
        app, [*files, *given, "--public-rows", "300", "--out", str(tmp_path / "x")]
    )

    assert done.exit_code == 2
    assert "Give either" in done.stderr
    assert not (tmp_path / "x").exists()
