"""Raw Adult, as published, from the file to a table of values again."""

import numpy as np
import pandas as pd
import pytest

from jam_dagster.tables import Domain, decode, draft_domain, encode
from jam_dagster.tables import source_from_config as source
from jam_dagster.tables.domain.text_dtype import text_dtype


@pytest.fixture
def parts(jam_data):
    config = {
        "split": str(jam_data / "adult_raw" / "adult.csv"),
        "by": "sex",
        "value": "Female",
        "public_share": 0.75,
        "public_rows": 0.1,
        "seed": 0,
    }
    return source(config).read(private=True), source(config | {"part": "public"}).read(
        private=False
    )


@pytest.mark.slow
def test_raw_adult_reads_right(jam_data):
    adult = source(str(jam_data / "adult_raw" / "adult.csv"))
    table = adult.read(private=True)
    assert table.shape == (32_561, 15)
    assert set(table.dtypes.astype(str)) == {"str"}
    missing = table.isna().sum()
    assert missing[missing > 0].to_dict() == {
        "workclass": 1836,
        "occupation": 1843,
        "native-country": 583,
    }
    assert set(table["sex"]) == {"Female", "Male"}
    typed = adult.read(private=False)
    assert typed.isna().equals(table.isna())
    assert typed["age"].dtype == "int64"
    assert typed["age"].astype(text_dtype()).equals(table["age"])


@pytest.mark.slow
def test_raw_adult_there_and_back(parts, tmp_path):
    private, public = parts
    assert len(public) == 3256
    assert (public["sex"] == "Female").mean() == 0.75
    draft_domain(public).save(tmp_path / "adult.yaml")
    domain = Domain.load(tmp_path / "adult.yaml")
    encoded = encode(private, domain)
    table = decode(encoded, np.random.default_rng(0))
    # Every attribute may be missing, so integers have a dtype that has a null.
    assert table.dtypes.equals(public.dtypes.replace({np.dtype("int64"): pd.Int64Dtype()}))
    private = private.astype(table.dtypes)
    assert list(table.columns) == list(private.columns)
    assert all(map(np.array_equal, encode(table, domain).columns, encoded.columns))
    same = (table == private) | (table.isna() & private.isna())
    for name in ("education", "marital-status", "race", "sex", "Salary", "education-num"):
        assert same[name].mean() > 0.999
    # What most people share is there to be seen.
    for name, value in (("capital-gain", 0), ("capital-loss", 0), ("hours-per-week", 40)):
        assert ((table[name] == value) == (private[name] == value)).mean() > 0.999
    # Bins are as wide as they hold few.
    apart = (table["age"] - private["age"]).abs()
    assert apart.mean() < 1
    assert apart.max() <= 15
    # The public part knows nobody of this occupation, and has no rare ones: it is missing.
    unseen = private["occupation"] == "Armed-Forces"
    assert 0 < unseen.sum() < 20
    assert np.array_equal(table["occupation"].isna(), private["occupation"].isna() | unseen)


@pytest.mark.slow
def test_drafts_from_both_parts_have_the_papers_sizes(parts, jam_data):
    private, public = parts
    sizes = draft_domain(public, private=private).sizes
    papers = Domain.load(jam_data / "paper" / "adult_pub025_01" / "domain.json").sizes
    papers["Salary"] = papers.pop("income>50K")
    assert sizes == papers
