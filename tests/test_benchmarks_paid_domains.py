"""Rows of the benchmark of domains that are bought."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from benchmarks.paid_domains import asked, run
from jam_dagster.tables import Domain

DOMAIN = Domain.from_sizes({"a": 3, "b": 60, "c": 2})


def test_many_values_are_a_number_and_few_a_category() -> None:
    domain = Domain.from_dict(asked(DOMAIN, 0.2))
    assert domain.asked is not None
    assert (list(domain.asked.values), list(domain.asked.bins)) == (["a", "c"], ["b"])


@pytest.mark.slow
def test_a_bought_domain_costs_accuracy() -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {name: rng.integers(0, size, 4_000) for name, size in DOMAIN.sizes.items()}
    )
    known, bought = (run(table, DOMAIN, 10.0, share, 0, "independent") for share in (0.0, 0.2))
    assert known["error"] < bought["error"] < 1.0
    assert (known["bins"], bought["other"]) == (0, 0.0)
    assert bought["bins"] > 10
