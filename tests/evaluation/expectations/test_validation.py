"""Great Expectations finds each way in which a synthetic table can be broken, and only that."""

from __future__ import annotations

import json
import logging
import os
import re
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from jam_dagster.errors import InputError
from jam_dagster.evaluation import ExpectationResult, expectation_names
from jam_dagster.evaluation.expectations.checked_table import (
    FALSE_ALARM_LEVEL,
    SHOWN_ROWS,
    CheckedTable,
)
from jam_dagster.evaluation.expectations.validation import (
    TableChecks,
    contents_of,
    validate,
)
from jam_dagster.mechanisms import Transcript
from jam_dagster.tables import (
    CategoricalAttribute,
    Combinations,
    DerivedColumn,
    Domain,
    EncodedTable,
    NotNull,
    NumericAttribute,
    Order,
    decode,
)
from jam_dagster.tables.codes.repair import repaired
from jam_dagster.tables.domain.lookups import Lookup
from jam_dagster.tables.domain.missing_where import MissingWhere
from jam_dagster.tables.domain.text_dtype import text_dtype
from jam_dagster.tables.domain.unique import Unique
from jam_dagster.tables.sources.table_file import ChunkFormat, TableFile
from tests.dtypes import EVERY_DTYPE, rows_of_every_dtype
from tests.evaluation.conftest import (
    RECORDS,
    SmallRelease,
    measured_round,
    transcript_of,
)
from tests.tiers import first_quick, slow


def check(
    release: SmallRelease, table: pd.DataFrame | TableFile, transcript: Transcript | None = None
) -> dict[str, ExpectationResult]:
    checks = validate(
        table,
        release.domain,
        records=RECORDS,
        transcript=transcript or release.transcript,
        model=release.model,
    )
    specs, results = expectation_names(release.domain), checks.results
    assert checks.specs == specs
    assert [result.name for result in results] == [spec.name for spec in specs]
    assert [result.severity for result in results] == [spec.severity for spec in specs]
    json.dumps([dict(result.metadata) for result in results])
    assert all(result.expected for result in results)
    for result in results:
        # What has no rows or cells to count is the table as a whole, or could not be checked.
        assert (result.checked is None) == (result.unexpected is None)
        if result.unexpected is not None:
            assert result.passed == (result.unexpected == 0)
    return {result.name: result for result in results}


def facts_of(release: SmallRelease, domain: Domain) -> dict[str, Any]:
    return {
        "records": RECORDS,
        "transcript": release.transcript,
        "model": release.model,
        "public": EncodedTable(domain, release.public.columns),
    }


def in_chunks(table: pd.DataFrame, folder: Path) -> TableFile:
    path = folder / "table.parquet"
    table.to_parquet(path, index=False, row_group_size=1000)
    return TableFile(path)


def failed(results: dict[str, ExpectationResult]) -> set[str]:
    return {name for name, result in results.items() if not result.passed}


def test_a_good_table_passes_and_leaves_nothing_behind(
    release: SmallRelease,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("the network was used")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)

    with caplog.at_level(logging.WARNING):
        results = check(release, release.table)

    assert failed(results) == set()
    assert results["row_count"].message == "4,000 rows, 4,000 expected"
    assert results["region__marginal"].message.startswith("not measured")
    assert results["region__marginal"].metadata == {"measured": False}
    age = results["age__marginal"]
    assert age.metadata["rounds"] == [1, 2]
    assert age.metadata["false_alarm_level"] == FALSE_ALARM_LEVEL
    assert "within the tolerance" in age.message
    assert os.listdir(temporary) == []
    assert os.listdir(here) == []
    assert age.expected == "every cell within the tolerance"
    assert (age.checked, age.unexpected) == (5, 0)
    values = results["marital_status__values"]
    assert values.expected == "one of Single, Married, Widowed"
    assert (values.checked, values.unexpected) == (RECORDS, 0)
    assert capfd.readouterr().out == ""
    # What the library's own imports are deprecated for is no message of ours.
    assert [record for record in caplog.records if record.name != "py.warnings"] == []


def with_values(column: str, rows: slice, value: object) -> Callable[[pd.DataFrame], pd.DataFrame]:
    def change(table: pd.DataFrame) -> pd.DataFrame:
        table.loc[table.index[rows], column] = value
        return table

    return change


def with_impossible_row(table: pd.DataFrame) -> pd.DataFrame:
    table.loc[table.index[7], "age"] = 9
    table.loc[table.index[7], "marital-status"] = "Widowed"
    return table


def with_null_text(table: pd.DataFrame) -> pd.DataFrame:
    return with_values("marital-status", slice(0, 2), None)(table)


BROKEN: dict[str, tuple[Callable[[pd.DataFrame], pd.DataFrame], set[str], str]] = {
    "another order": (
        lambda table: table[["marital-status", "age", "income", "citizen", "region"]],
        {"columns"},
        "another order",
    ),
    "a column too many": (lambda table: table.assign(id=1), {"columns"}, "unexpected id"),
    "rows lost": (lambda table: table.iloc[:-1], {"row_count"}, "3,999 rows, 4,000 expected"),
    "another type": (
        lambda table: table.astype({"age": "Float64"}),
        {"age__dtype"},
        "dtype Float64, expected Int64",
    ),
    "an unlisted value": (
        with_values("marital-status", slice(0, 3), "Divorced"),
        {"marital_status__values"},
        "3 rows (0.075%) with a value that the domain does not list, such as Divorced",
    ),
    "an unlisted number": (
        with_values("region", slice(0, 1), 4),
        {"region__values"},
        "1 row (0.025%) with a value that the domain does not list, such as 4",
    ),
    "out of bounds": (
        with_values("income", slice(0, 1), 99.6),
        {"income__bounds"},
        "1 row (0.025%) out of bounds, such as 99.6",
    ),
    "no row in bounds": (
        with_values("income", slice(None), 99.6),
        {"income__bounds", "income__marginal"},
        "4,000 rows (100%) out of bounds, such as 99.6",
    ),
    "one row in bounds": (
        with_values("income", slice(1, None), 99.6),
        # One row says nothing about a distribution.
        {"income__bounds"},
        "3,999 rows (more than 99%) out of bounds, such as 99.6",
    ),
    "a null": (
        with_null_text,
        {"marital_status__nulls"},
        "2 rows (0.05%) with a null that the domain does not allow",
    ),
    "an impossible row": (
        with_impossible_row,
        {"impossible_combination_1"},
        "1 row (0.025%) with a combination that the domain declares impossible",
    ),
    "another distribution": (
        with_values("citizen", slice(0, 600), False),
        {"citizen__marginal"},
        "2 of 2 cells beyond the tolerance",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("fault", BROKEN)
def test_a_table_broken_in_one_way_fails_in_that_way(
    release: SmallRelease, fault: str, tmp_path: Path
) -> None:
    change, expected, message = BROKEN[fault]
    results = check(release, change(release.table.copy()))
    assert failed(results) == expected
    assert any(message in results[name].message for name in expected)
    assert check(release, in_chunks(change(release.table.copy()), tmp_path)) == results


def test_a_table_in_chunks_has_the_results_of_the_whole(
    release: SmallRelease, tmp_path: Path
) -> None:
    domain = replace(
        release.domain,
        constraints=(Order("income", "age"), NotNull("region")),
        repairs=(Unique(("income", "age")), MissingWhere("age", "region", (3,))),
    )
    whole = release.table.copy()
    # A row breaks several rules.
    for values in (
        with_values("income", slice(990, None, 2), 99.6),
        with_values("income", slice(1, None, 3), -5.0),
        with_values("marital-status", slice(0, None, 3), None),
        with_values("marital-status", slice(1, None, 5), "Divorced"),
        with_values("region", slice(3999, None), 4),
    ):
        whole = values(whole)
    facts = facts_of(release, domain)
    table = in_chunks(whole, tmp_path)
    assert len(CheckedTable.of(table, domain, *facts.values()).synthetic) < 200
    checks = [validate(one, domain, **facts) for one in (whole, table)]
    found = {one.name: one.unexpected for one in checks[0].results}
    assert found["marital_status__nulls"] == len(range(0, RECORDS, 3)) - len(range(6, RECORDS, 15))
    assert found["region__values"] == 1
    many = ("constraint_1", "constraint_2", "rule_1", "rule_2", "income__bounds")
    assert min(found[name] or 0 for name in many) > 50
    assert checks[0] == checks[1]


def test_rules_that_other_rows_decide_are_counted_in_chunks_as_in_the_whole(
    release: SmallRelease, tmp_path: Path
) -> None:
    # The name of the last column is the place of the first rule.
    attributes = (*release.domain.attributes[:-1], replace(release.domain.attributes[-1], name="0"))
    derived = (DerivedColumn("label", 'col("marital-status") + text(row(), 4)'),)
    plain = replace(release.domain, attributes=attributes, derived=derived)
    table = decode(EncodedTable(plain, release.synthetic.columns), np.random.default_rng(1))
    table["income"] = np.floor(table["income"])
    table.loc[[5, 1005, 2005], "label"] = "Single0001"
    unique = Unique(("income", "age", "0"))
    domain = replace(plain, repairs=(unique,))
    repeated = unique.repeated(table)
    within = sum(unique.repeated(table[at : at + 1000]).sum() for at in range(0, RECORDS, 1000))
    assert repeated.sum() - within > 50 < within
    assert table["0"].isna().any()

    facts = facts_of(release, domain)
    chunked = in_chunks(table, tmp_path)
    checks, of_chunks = (validate(one, domain, **facts) for one in (table, chunked))
    results = {one.name: one for one in checks.results}
    assert [results[f"rule_{one}"].unexpected for one in (1, 2)] == [repeated.sum(), 3]
    assert of_chunks == checks
    relevant = CheckedTable.of(chunked, domain, *facts.values()).synthetic
    assert set(np.flatnonzero(repeated)[:SHOWN_ROWS]) <= set(relevant.index)
    assert len(relevant) < 100 < repeated.sum()


@pytest.mark.slow
def test_rows_that_break_a_constraint_are_counted(release: SmallRelease) -> None:
    constraints = (
        Order("income", "age"),
        NotNull("region"),
        Combinations(("citizen", "region"), (((1,), ()), ((0,), (0, 1)))),
    )
    table = release.table
    domain = replace(release.domain, constraints=constraints)
    results = check(replace(release, domain=domain), table)
    known = table.dropna(subset=["age"])
    broken = [
        (known["income"] > known["age"].astype(float)).sum(),
        table["region"].isna().sum(),
        (~table["citizen"].astype(bool) & (table["region"] == 3)).sum(),
    ]
    found = [results[f"constraint_{number}"].unexpected for number in (1, 2, 3)]
    assert found == broken
    assert min(broken) > 0
    assert results["impossible_combination_1"].passed


def ruled(release: SmallRelease) -> tuple[SmallRelease, pd.DataFrame]:
    """Return a release whose domain has repairs, a formula and a lookup, and a table that fits."""
    zone = Lookup(("region",), ((("1",), ("north",)), (("2",), ("south", "east"))))
    derived = (
        DerivedColumn("double", "age * 2"),
        DerivedColumn("zone", zone),
        DerivedColumn("row", "row()"),
        DerivedColumn("year", 2024),
    )
    repairs = (Order("income", "age"), MissingWhere("age", "region", (3,)))
    domain = replace(release.domain, derived=derived, repairs=repairs)
    encoded = EncodedTable(domain, release.synthetic.columns)
    table = decode(repaired(encoded, np.random.default_rng(0)), np.random.default_rng(1))
    return replace(release, domain=domain), table


@pytest.mark.slow
@pytest.mark.parametrize("chunked", [False, *slow(True)])
def test_rows_that_break_what_public_rows_keep_are_counted(
    release: SmallRelease, tmp_path: Path, chunked: bool
) -> None:
    with_rules, table = ruled(release)
    whole = in_chunks(table, tmp_path) if chunked else table
    results = check(with_rules, whole)
    rules = {name: one.metadata["rule"] for name, one in results.items() if "rule" in one.metadata}
    assert rules == {
        "rule_1": "income <= age",
        "rule_2": "age and region are missing together",
        "rule_3": "double: age * 2",
        "rule_4": "zone: looked up by region in a table of 2 entries",
    }
    assert [results[name].passed for name in ("rule_2", "rule_3", "rule_4")] == [True] * 3
    assert not results["zone__fit"].measured

    spoilt = table.copy()
    known = np.flatnonzero(table["age"].notna())
    spoilt.loc[known[:5], "double"] = 1
    spoilt.loc[known[5:8], "age"] = pd.NA
    spoilt.loc[np.flatnonzero(table["region"].eq(1).fillna(False))[:7], "zone"] = "south"
    # The third region is not listed.
    spoilt.loc[np.flatnonzero(table["region"].eq(3).fillna(False))[:7], "zone"] = "north"
    results = check(with_rules, in_chunks(spoilt, tmp_path) if chunked else spoilt)
    found = [results[f"rule_{number}"].unexpected for number in (2, 3, 4)]
    assert found == [3, 8, 7]
    assert results["rule_3"].message == f"8 rows ({100 * 8 / RECORDS:.2g}%) break it"
    assert {one.severity for name, one in results.items() if name in rules} == {"WARN"}


@pytest.mark.slow
def test_a_rule_of_a_missing_column_cannot_be_checked(release: SmallRelease) -> None:
    with_rules, table = ruled(release)
    results = check(with_rules, table.drop(columns="region"))
    assert not results["rule_4"].passed
    assert "cannot be checked" in results["rule_4"].message
    assert results["rule_3"].passed


@pytest.mark.parametrize("chunked", [False, *slow(True)])
def test_a_rule_that_cannot_read_a_column_ends_no_other_check(
    release: SmallRelease, tmp_path: Path, chunked: bool
) -> None:
    with_rules, table = ruled(release)
    table["age"] = table["age"].astype("string")
    results = check(with_rules, in_chunks(table, tmp_path) if chunked else table)
    assert not results["rule_3"].passed
    assert "cannot be checked" in results["rule_3"].message
    assert results["rule_4"].passed
    assert not results["age__dtype"].passed


def test_a_missing_column_fails_everything_about_it(release: SmallRelease) -> None:
    results = check(release, release.table.drop(columns="age"))
    # The measurement of the private column has nothing to do with the synthetic one.
    about_age = {name for name in results if name.startswith("age__")} - {"age__fit"}
    assert failed(results) == {"columns", "impossible_combination_1"} | about_age
    assert results["columns"].message == "missing age"
    assert "cannot be checked" in results["age__bounds"].message


@pytest.mark.slow
def test_an_empty_table_fails(release: SmallRelease) -> None:
    results = check(release, release.table.iloc[:0])
    assert {"row_count", "age__marginal", "citizen__marginal"} <= failed(results)


@pytest.mark.slow
def test_nothing_measured_is_no_failure(release: SmallRelease) -> None:
    rounds = [measured_round(0, ("age",), "public", release.public.marginal(("age",)), 0.0)]
    results = check(release, release.table, transcript_of(release.domain, rounds))
    assert failed(results) == set()
    assert not any(
        result.metadata["measured"] for name, result in results.items() if name.endswith("marginal")
    )


def test_a_column_that_the_domain_does_not_fit_fails_its_check(release: SmallRelease) -> None:
    unreadable = np.array([0.0, 0.0, 0.0, 0.0, RECORDS])
    rounds = [measured_round(0, ("age",), "private", unreadable, 10.0)]
    checks = validate(
        release.table,
        release.domain,
        records=RECORDS,
        transcript=transcript_of(release.domain, rounds),
        model=release.model,
        public=release.public,
    )
    results = {one.name: one for one in checks.results}
    fit = results["age__fit"]
    assert not fit.passed
    assert fit.severity == "WARN"
    assert re.match(
        r"In age, (100\.0|99\.\d)% of the records are missing, and 13.6% in the public table\.",
        fit.message,
    )
    assert "Check or leave out age." in fit.message
    assert results["region__fit"].message == (
        "It is not known whether the domain fits region, of which the release has no private"
        " measurement."
    )


def test_a_model_pulled_away_from_its_measurement_is_said(
    release: SmallRelease,
) -> None:
    counts = release.model.marginal(("citizen",)) + np.array([800.0, -800.0])
    rounds = [measured_round(0, ("citizen",), "private", counts, 10.0)]
    results = check(release, release.table, transcript_of(release.domain, rounds))
    assert failed(results) == set()
    assert results["citizen__marginal"].metadata["misfit"] == pytest.approx(0.19, abs=0.02)
    assert "more than noise explains" in results["citizen__marginal"].message


@pytest.mark.slow
def test_names_that_need_care_reach_great_expectations() -> None:
    """Quotes, spaces and a name that is also a column of the derived frames."""
    names = ('it\'s "odd"', "attribute", "use_of_tolerance", "naïve %$")
    domain = Domain(tuple(CategoricalAttribute(name, ("x", "y")) for name in names))
    table = pd.DataFrame({name: ["x", "y"] * 50 for name in names}, dtype=text_dtype())
    rounds = [
        measured_round(i, (name,), "private", np.array([50.0, 50.0]), 1.0)
        for i, name in enumerate(names)
    ]
    transcript = replace(transcript_of(domain, rounds), records=100)

    class Even:
        def marginal(self, clique: tuple[str, ...]) -> np.ndarray:
            return np.array([50.0, 50.0])

    def run(frame: pd.DataFrame) -> set[str]:
        checks = validate(
            frame,
            domain,
            records=100,
            transcript=transcript,
            model=Even(),  # type: ignore[arg-type]
        )
        return {result.name for result in checks.results if not result.passed}

    assert run(table) == set()
    table[names[0]] = pd.array(["x"] * 100, dtype=text_dtype())
    assert run(table) == {"it_s_odd__marginal"}


@pytest.mark.slow
def test_missing_cells_of_every_dtype_pass(release: SmallRelease, tmp_path: Path) -> None:
    table = rows_of_every_dtype(RECORDS)
    nothing = transcript_of(EVERY_DTYPE, [])
    given = replace(release, domain=EVERY_DTYPE, transcript=nothing)
    path = tmp_path / "table.parquet"
    with ChunkFormat(EVERY_DTYPE).writing(path) as write:
        write(table)
    for one in (table, TableFile(path)):
        assert failed(check(given, one)) == set()


@pytest.mark.slow
def test_great_expectations_own_results_are_kept_and_can_be_read_by_it(
    release: SmallRelease,
) -> None:
    from great_expectations.core.expectation_validation_result import (
        ExpectationSuiteValidationResult,
    )

    def validated() -> TableChecks:
        return validate(
            release.table.assign(id=1),
            release.domain,
            records=RECORDS,
            transcript=release.transcript,
            model=release.model,
        )

    checks = validated()
    kept = json.loads(checks.to_json())
    read = [ExpectationSuiteValidationResult(**one) for one in kept]
    assert [one.suite_name for one in read] == [
        "synthetic_records",
        "column_types",
        "impossible_combinations",
        "measured_marginals",
        "domain_fits",
    ]
    outcomes = {
        one["expectation_config"]["meta"]["name"]: one["success"]
        for suite in kept
        for one in suite["results"]
    }
    passed = {one.name: one.passed for one in checks.results if one.measured}
    assert outcomes == passed
    assert not outcomes["columns"]
    # The same for the same table, and nothing of the machine that made it.
    assert validated().to_json() == checks.to_json()
    assert "site-packages" not in checks.to_json()


def test_contents_tell_tables_apart() -> None:
    table = pd.DataFrame({"town": ["A", "B", None], "age": [1, 2, 3]})
    others = [
        table.iloc[1:],
        table.iloc[::-1],
        table.rename(columns={"town": "city"}),
        table[["age", "town"]],
        table.astype({"age": "float64"}),
        table.astype({"town": "category"}),
        table.fillna("None"),
        table.assign(age=["1", "2", "3"]),
    ]
    digests = {contents_of(one) for one in [table, *others]}
    assert len(digests) == 1 + len(others)
    assert contents_of(table.copy()) == contents_of(table)
    # Such a cell has no digest.
    assert contents_of(table.assign(age=[[1], [2], [3]])) is None


@pytest.mark.slow
@pytest.mark.parametrize("other", first_quick(["A", "[a]", '"a"', "`A`", "a_2"]))
def test_names_that_great_expectations_takes_for_one_are_two_columns(other: str) -> None:
    number = NumericAttribute("a", (0, 5, 10), integer=True, dtype="int64")
    domain = Domain((number, CategoricalAttribute(other, ("x", "y")), replace(number, name="a_3")))
    frame = pd.DataFrame({"a": [1, 9] * 50, other: ["x", "y"] * 50, "a_3": [3, 4] * 50})
    table = frame.astype({other: text_dtype()})

    class Half:
        def marginal(self, clique: tuple[str, ...]) -> np.ndarray:
            return np.array([50.0, 50.0])

    def found(table: pd.DataFrame) -> TableChecks:
        transcript = replace(transcript_of(domain, []), records=100)
        return validate(table, domain, records=100, transcript=transcript, model=Half())  # type: ignore[arg-type]

    checks = found(table)
    assert [one.message for one in checks.results if not one.passed] == []
    # The reports have the names of the table.
    kwargs = [one["expectation_config"]["kwargs"] for one in checks.validations[0]["results"]]
    assert {one["column"] for one in kwargs if "column" in one} == {"a", other, "a_3"}
    assert [one["column_list"] for one in kwargs if "column_list" in one] == [["a", other, "a_3"]]
    # A fault is found where it is, and a column that is missing is not another one.
    broken = found(table.assign(**{other: pd.Series(["x", "z"] * 50, dtype=text_dtype())}))
    failed = {one.name: one.message for one in broken.results if not one.passed}
    assert list(failed) == [f"{_slug(domain, other)}__values"]
    assert "such as z" in "".join(failed.values())
    without = found(table.drop(columns=other))
    (columns,) = (
        one["result"]
        for one in without.validations[0]["results"]
        if "column_list" in one["expectation_config"]["kwargs"]
    )
    assert [one["Expected"] for one in columns["details"]["mismatched"]] == [other, "a_3"]
    lacking = {one.name for one in without.results if not one.passed}
    slug = _slug(domain, other)
    assert lacking == {"columns", f"{slug}__dtype", f"{slug}__values", f"{slug}__nulls"}


def test_a_process_that_an_import_would_end_learns_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As PySpark ends one whose code has no file, with the status of success."""
    (tmp_path / "great_expectations.py").write_text("import sys\nsys.exit(0)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "great_expectations", raising=False)
    domain = Domain.from_sizes({"a": 2})
    table = decode(EncodedTable(domain, [np.zeros(3, int)]), np.random.default_rng(0))
    with pytest.raises(InputError, match="write the code into a file"):
        validate(table, domain, records=3, transcript=transcript_of(domain, []), model=None)  # type: ignore[arg-type]
    assert "great_expectations" not in sys.modules


def _slug(domain: Domain, column: str) -> str:
    names = (one.name for one in expectation_names(domain) if one.subject == column)
    return next(names).rpartition("__")[0]


@pytest.mark.slow
def test_statistics_that_no_check_asks_for_are_not_imported() -> None:
    statement = (
        "import sys\n"
        "from jam_dagster.evaluation.expectations.validation import _run_great_expectations\n"
        "assert _run_great_expectations({}) == []\n"
        "assert 'scipy.stats' not in sys.modules\n"
        "from great_expectations.expectations.core import (\n"
        "    expect_column_kl_divergence_to_be_less_than as entropies,\n"
        ")\n"
        "assert entropies.stats.entropy([0.5, 0.5], [0.5, 0.5]) == 0\n"
        "import scipy\n"
        "assert scipy.stats is sys.modules['scipy.stats']\n"
    )
    subprocess.run([sys.executable, "-c", statement], check=True)
