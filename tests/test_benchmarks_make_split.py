"""Splits from one table: shares that are met, and errors that come to their target."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks.make_split import error_targeted_split, main
from jam_dagster.errors import InputError
from jam_dagster.evaluation import workload_error
from jam_dagster.tables import (
    EncodedTable,
    Workload,
    encode,
    health_survey,
    health_survey_domain,
)
from jam_dagster.trials.splits import SplitFiles

NAMES = ("sex", "settlement", "marital_status", "employment", "usual_care")


@pytest.fixture(scope="module")
def people() -> pd.DataFrame:
    return health_survey(6000, 1)[0][list(NAMES)]


@pytest.fixture(scope="module")
def table(people: pd.DataFrame) -> EncodedTable:
    return encode(people, health_survey_domain().project(NAMES), private=False)


def rows_of(table: EncodedTable) -> list[tuple[int, ...]]:
    return sorted(zip(*(column.tolist() for column in table.columns), strict=True))


@pytest.mark.parametrize("target", [0.25, 1.0])
def test_the_error_of_the_public_rows_comes_to_the_target(
    table: EncodedTable, target: float
) -> None:
    workload = Workload.all_k_way(table.domain, 3)

    made = error_targeted_split(table, target=target, public_rows=600, workload=workload)

    assert made.error == pytest.approx(target, abs=0.005)
    error = workload_error(made.private, made.private, made.public, workload, mode="exact")
    assert error.public is not None
    assert error.public.mean == pytest.approx(made.error)
    assert made.public.records == 600
    # Every record is in one of the two.
    assert sorted(rows_of(made.private) + rows_of(made.public)) == rows_of(table)


def test_a_target_that_no_sample_has_is_refused(table: EncodedTable) -> None:
    workload = Workload.all_k_way(table.domain, 3)

    with pytest.raises(InputError, match="below that of a random sample"):
        error_targeted_split(table, target=0.01, public_rows=100, workload=workload)
    with pytest.raises(InputError, match="above that of the most biased"):
        error_targeted_split(table, target=1.9, public_rows=5000, workload=workload)
    with pytest.raises(InputError, match="raise the tolerance"):
        error_targeted_split(table, target=1.2, public_rows=20, workload=workload, tolerance=1e-9)


@pytest.fixture
def files(people: pd.DataFrame, tmp_path: Path) -> list[str]:
    people.to_csv(tmp_path / "people.csv", index=False)
    health_survey_domain().project(NAMES).save(tmp_path / "domain.yaml")
    table, domain = str(tmp_path / "people.csv"), str(tmp_path / "domain.yaml")
    return [table, "--domain", domain, "--degree", "2"]


def test_a_stratified_split_has_its_shares(files: list[str], tmp_path: Path) -> None:
    out = tmp_path / "splits" / "women"
    given = ["--by", "sex", "--value", "female", "--public-share", "0.75", "--private-share"]
    given += ["0.25", "--public-rows", "400", "--private-rows", "2000", "--out", str(out)]

    assert main([*files, *given]) == 0

    split = SplitFiles("women").load(out.parent)
    assert split.public is not None
    assert (split.private.records, split.public.records) == (2000, 400)
    shares = [float(np.mean(one.columns[0] == 0)) for one in (split.private, split.public)]
    assert shares == [0.25, 0.75]
    assert json.loads((out / "split.json").read_text())["public_share"] == "0.75"
    with pytest.raises(InputError, match="holds a split already"):
        main([*files, *given])


def test_a_targeted_split_is_one_that_a_benchmark_reads(files: list[str], tmp_path: Path) -> None:
    out = tmp_path / "splits" / "far"

    main([*files, "--target-error", "0.5", "--public-rows", "300", "--out", str(out)])

    assert not (out / "priv.csv").stat().st_mode & 0o077
    split = SplitFiles("far").load(out.parent)
    assert split.public is not None
    workload = Workload.all_k_way(split.domain, 2)
    error = workload_error(split.private, split.private, split.public, workload, mode="exact")
    assert error.public is not None
    assert error.public.mean == pytest.approx(0.5, abs=0.005)
