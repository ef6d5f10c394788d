"""Simulated tables as large as a census, small."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.make_census import SIZES, main, write_census
from jam_dagster.tables import Domain, DuckDbSource, EncodedTable, ParquetSource, encode

ROWS, COLUMNS = 4_000, 20


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("census")
    write_census(made, rows=ROWS, columns=COLUMNS, files=3, public_rows=1_000, duckdb=True)
    return made


@pytest.fixture(scope="module")
def domain(folder: Path) -> Domain:
    return Domain.from_dict(json.loads((folder / "domain.json").read_text()))


@pytest.fixture(scope="module")
def private(folder: Path, domain: Domain) -> EncodedTable:
    return encode(ParquetSource(str(folder / "priv")).read(private=True), domain, private=True)


def test_the_domain_fits_both_tables(folder: Path, domain: Domain, private: EncodedTable) -> None:
    assert [path.name for path in sorted((folder / "priv").iterdir())] == [
        f"part-{number:03d}.parquet" for number in range(3)
    ]
    assert private.records == ROWS
    gaps = [name for name in domain.names if domain.attribute(name).missing_codes]
    assert gaps == [f"c{number:02d}" for number in range(3, COLUMNS, 4)]
    held = [domain.sizes[name] - (name in gaps) for name in domain.names]
    assert held == list(SIZES)
    # Strict: a cell outside the domain is an error.
    public = encode(ParquetSource(str(folder / "pub.parquet")).read(private=False), domain)
    assert public.records == 1_000


def test_a_thirtieth_of_the_cells_of_some_columns_is_missing(
    domain: Domain, private: EncodedTable
) -> None:
    codes = domain.attribute("c03").missing_codes
    share = np.isin(private.column("c03"), codes).mean()
    assert share == pytest.approx(1 / 32, abs=0.015)


def test_columns_of_a_block_depend_on_each_other(private: EncodedTable) -> None:
    def dependence(one: str, other: str) -> float:
        joint = private.marginal((one, other)) / ROWS
        product = joint.sum(1, keepdims=True) * joint.sum(0, keepdims=True)
        return float(np.abs(joint - product).sum())

    assert dependence("c01", "c02") > 0.1
    assert dependence("c01", "c02") > dependence("c01", "c12")


def test_the_public_table_is_moved(folder: Path, domain: Domain, private: EncodedTable) -> None:
    public = encode(ParquetSource(str(folder / "pub.parquet")).read(private=False), domain)
    apart = [
        np.abs(private.marginal((name,)) / ROWS - public.marginal((name,)) / 1_000).sum()
        for name in domain.names
    ]
    assert np.mean(apart) > 0.1


def test_duckdb_has_the_same_rows(folder: Path, domain: Domain, private: EncodedTable) -> None:
    source = DuckDbSource(str(folder / "priv.duckdb"), "from people")
    counted = source.counted(domain, None, None, [("c01", "c10")])
    np.testing.assert_array_equal(
        counted.marginal(("c01", "c10")), private.marginal(("c01", "c10"))
    )


def test_a_larger_table_begins_with_the_same_population(tmp_path: Path) -> None:
    options = ["--rows", "30", "--files", "2", "--public-rows", "5", "--columns"]
    for name, columns in (("one", "3"), ("two", "3"), ("wide", "5")):
        assert main([str(tmp_path / name), *options, columns]) == 0

    one, two = ((tmp_path / name / "priv" / "part-001.parquet") for name in ("one", "two"))
    assert one.read_bytes() == two.read_bytes()
    small, wide = (
        json.loads((tmp_path / name / "domain.json").read_text())["attributes"]
        for name in ("one", "wide")
    )
    assert list(wide.items())[:3] == list(small.items())
