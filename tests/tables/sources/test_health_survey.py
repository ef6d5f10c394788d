"""The health survey of the demo: its files, its samples and what the script makes of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from benchmarks.health_survey import write
from jam_dagster.errors import SpecificationError
from jam_dagster.tables import (
    Workload,
    decode,
    encode,
    health_survey,
    health_survey_domain,
    source_from_config,
)
from jam_dagster.tables.sources import health_survey as demo
from jam_dagster.tables.sources.partition_template import at_partition
from tests.tiers import slow

FILES = Path(demo.__file__).parents[1] / "demo"


@pytest.mark.slow
def test_the_files_are_small_and_what_the_script_makes(tmp_path: Path) -> None:
    write(tmp_path)
    for part in ("private", "public"):
        made, held = (pq.read_table(folder / f"{part}.parquet") for folder in (tmp_path, FILES))
        assert made.equals(held)
    assert sum(file.stat().st_size for file in FILES.iterdir()) < 300_000


def test_both_parts_lie_in_the_declared_domain() -> None:
    domain = health_survey_domain()
    private, public = health_survey()
    assert (len(private), len(public)) == (30_000, 3_000)
    for part, is_private in ((private, True), (public, False)):
        assert tuple(part.columns) == domain.names
        encoded = encode(part, domain, private=is_private)
        assert decode(encoded, np.random.default_rng(0)).dtypes.equals(part.dtypes)
    nullable = {one.name for one in domain.attributes if one.nullable}
    assert {name for name in private if private[name].isna().any()} == nullable
    # Every value is somebody's: an empty cell would be a slip of the domain.
    for name in domain.names:
        assert encode(private, domain).marginal((name,)).all()


@pytest.mark.parametrize("part", ["public", *slow("private")])
def test_the_same_people_live_in_households(part: str) -> None:
    households, persons = (
        source_from_config({"demo": table, "part": part}).read(private=False)
        for table in ("households", "persons")
    )
    assert households["household_id"].is_unique
    assert set(persons["household_id"]) == set(households["household_id"])
    people = source_from_config({"demo": "health_survey", "part": part}).read(private=False)
    together = persons.merge(households, on="household_id")
    for column in ("age", "region", "smoking_at_home"):
        assert sorted(together[column]) == sorted(people[column])
    # Children live with adults, if anybody else is there.
    oldest = persons.groupby("household_id")["age"].agg(["max", "size"])
    assert (oldest["max"] < 18).mean() < 0.04


def test_nobody_below_15_is_married() -> None:
    domain = health_survey_domain()
    encoded = encode(health_survey()[0], domain)
    ((clique, mask),) = domain.impossible_masks().items()
    counts = encoded.marginal(clique)
    assert mask.sum() == 9
    assert counts[mask].sum() == 0
    assert (counts.sum(axis=1)[mask.any(axis=1)] > 0).all()


def test_the_public_sample_is_biased_and_worth_something() -> None:
    domain = health_survey_domain()
    private, public = (encode(part, domain) for part in health_survey())
    cliques = Workload.all_k_way(domain, 2).cliques
    ours, theirs = private.marginals(cliques), public.marginals(cliques)

    def error(counts):
        return np.mean([np.abs(ours[c] / 30_000 - counts(c)).sum() for c in cliques])

    public_error = error(lambda clique: theirs[clique] / 3_000)
    uniform_error = error(lambda clique: 1 / domain.size(clique))
    fresh = np.random.default_rng(0).choice(30_000, 3_000, replace=False)
    sample = private.take(fresh).marginals(cliques)
    assert error(lambda clique: sample[clique] / 3_000) < 0.6 * public_error
    assert public_error < 0.5 * uniform_error


def read(**given: object) -> pd.DataFrame:
    source = source_from_config({"demo": "health_survey", **given})
    assert source_from_config(source.to_dict()) == source
    return source.read(private=True)


def test_a_partition_reads_the_sample_of_its_period() -> None:
    config = {"demo": "health_survey", "period": "{partition}", "rows": 40}
    month = at_partition(source_from_config(config), "2026-05").read(private=True)
    assert month.equals(read(period="2026-05-01", rows=40))
    assert not month.equals(read(period="2026-06", rows=40))
    with pytest.raises(SpecificationError, match="private part"):
        source_from_config({**config, "part": "public"})


def test_later_samples_are_older() -> None:
    now, later = (read(period=year, rows=20_000) for year in ("2026", "2027"))
    assert 0.5 < later["age"].mean() - now["age"].mean() < 5
    assert not later.duplicated().all()


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"period": "wave1"}, "period must be"),
        ({"period": "2026-13"}, "period must be"),
        ({"rows": 30_001}, "30,000 rows"),
    ],
)
def test_a_sample_that_the_demo_does_not_have_is_refused(given: dict, says: str) -> None:
    with pytest.raises(SpecificationError, match=says):
        read(**given)
