import os
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest

from jam_dagster.errors import SpecificationError
from jam_dagster.tables import (
    Workload,
    at_partition,
    decode,
    encode,
    health_survey_domain,
    simulate_health_survey,
    simulate_period,
    source_from_config,
)

HASH = """
import pandas as pd
from jam_dagster.tables import simulate_health_survey
print([int(pd.util.hash_pandas_object(part).sum()) for part in simulate_health_survey(3, 200, 100)])
"""


def test_both_parts_lie_in_the_declared_domain():
    domain = health_survey_domain()
    private, public = simulate_health_survey()
    assert (len(private), len(public)) == (30_000, 3_000)
    assert len(domain.names) >= 12
    for part, is_private in ((private, True), (public, False)):
        assert tuple(part.columns) == domain.names
        encoded = encode(part, domain, private=is_private)
        decoded = decode(encoded, np.random.default_rng(0))
        assert decoded.dtypes.equals(part.dtypes)
    nullable = {one.name for one in domain.attributes if one.nullable}
    assert {name for name in private if private[name].isna().any()} == nullable
    # Every value is somebody's: an empty cell would be a slip of the domain.
    for name in domain.names:
        assert encode(private, domain).marginal((name,)).all()


def test_nobody_below_15_is_married():
    domain = health_survey_domain()
    assert len(domain.impossible) == 1
    encoded = encode(simulate_health_survey()[0], domain)
    (clique, mask), *_ = domain.impossible_masks().items()
    counts = encoded.marginal(clique)
    assert mask.sum() == 9
    assert counts[mask].sum() == 0
    assert (counts.sum(axis=1)[mask.any(axis=1)] > 0).all()


def test_attributes_depend_on_each_other():
    private, _ = simulate_health_survey()
    ill = private["chronic_condition"].notna()
    assert private.loc[ill, "age"].mean() > private.loc[~ill, "age"].mean() + 10
    visits = private.groupby("health")["doctor_visits"].mean()
    assert visits["poor"] > 2 * visits["very good"]
    by_condition = private.groupby("chronic_condition")["bmi"].median()
    assert by_condition["diabetes"] > 1.05 * by_condition["migraine"]
    by_education = private.groupby("education")["income"].median()
    assert by_education["master"] > 1.5 * by_education["primary"]
    retired = private["employment"] == "retired"
    assert private.loc[retired, "age"].mean() > 65
    assert private.loc[retired, "health"].eq("very good").mean() < 0.6


def test_the_public_sample_is_biased_and_worth_something():
    domain = health_survey_domain()
    private, public = (encode(part, domain) for part in simulate_health_survey())
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


@pytest.mark.slow
def test_a_seed_gives_the_same_people_in_every_process():
    outputs = {
        subprocess.run(
            [sys.executable, "-c", HASH],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "99")
    }
    here = [
        int(pd.util.hash_pandas_object(part).sum()) for part in simulate_health_survey(3, 200, 100)
    ]
    assert outputs == {f"{here}\n"}
    assert not simulate_health_survey(4, 200, 100)[0].equals(simulate_health_survey(3, 200, 100)[0])


def test_the_parts_do_not_depend_on_each_others_size():
    assert simulate_health_survey(0, 50, 10)[0].equals(simulate_health_survey(0, 50, 999)[0])
    assert simulate_health_survey(0, 50, 10)[1].equals(simulate_health_survey(0, 999, 10)[1])


def test_it_is_quick():
    start = time.process_time()
    simulate_health_survey()
    assert time.process_time() - start < 1.0


def test_a_drifting_population_changes_where_it_should_and_nowhere_else():
    domain = health_survey_domain()

    def shares(period, drift):
        table = encode(simulate_period(0, 30_000, period, drift), domain)
        return {name: table.marginal((name,)) / 30_000 for name in domain.names}

    now, later = shares("2026", 1.0), shares("2036", 1.0)
    moved = {name: float(np.abs(now[name] - later[name]).sum()) for name in domain.names}
    # 30,000 people twice: chance alone moves a share of one attribute by about a percent.
    for name in ("sex", "region"):
        assert moved[name] < 0.05, name
    for name in ("age", "education", "income"):
        assert moved[name] > 0.07, name
    # Ten years in one, and the same period from the same seed.
    assert simulate_period(1, 50, "2027", 10.0).shape == (50, len(domain.names))
    assert simulate_period(1, 50, "2026-03").equals(simulate_period(1, 50, "2026-03-01"))
    assert not simulate_period(1, 50, "2026-03").equals(simulate_period(1, 50, "2026-04"))


@pytest.mark.parametrize(("period", "drift"), [("wave1", 1.0), ("2026-13", 1.0), ("2030", 100.0)])
def test_a_period_that_is_none_is_refused(period, drift):
    with pytest.raises(SpecificationError, match="period"):
        simulate_period(0, 10, period, drift)


def test_a_demo_source_reads_the_period_that_a_partition_names():
    config = {"demo": "health_survey", "period": "{partition}", "drift": 12, "rows": 40}
    source = source_from_config(config)
    assert source_from_config(source.to_dict()) == source
    read = at_partition(source, "2026-05").read(private=True)
    assert read.equals(simulate_period(0, 40, "2026-05", 12.0))
    with pytest.raises(SpecificationError, match="private part"):
        source_from_config({**config, "part": "public"})
