"""Mechanisms learn how numeric columns hang together, and never less than their marginals."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from jam_dagster.mechanisms import make_mechanism
from jam_dagster.privacy import Draws, SeededNoise, UnledgeredAccount
from jam_dagster.tables import Domain, EncodedTable, Workload, encode
from tests.mechanisms.test_limits import error

RECORDS = 5000
DOMAIN = Domain.from_dict(
    {
        "attributes": {
            name: {"bounds": [0, 100], "bins": 8, "outside": "clip"} for name in ("a", "b", "c")
        }
    }
)
PAIRS = Workload.all_k_way(DOMAIN, 2)


def table() -> EncodedTable:
    rng = np.random.default_rng(0)
    first = rng.normal(50, 20, RECORDS)
    frame = pd.DataFrame(
        {
            "a": first,
            "b": 100 - first + rng.normal(0, 5, RECORDS),
            "c": first + rng.normal(0, 10, RECORDS),
        }
    )
    return encode(frame, DOMAIN, private=False)


def error_of(name: str, private: EncodedTable) -> float:
    draws = Draws(SeededNoise(0), UnledgeredAccount(0.1))
    result = make_mechanism(name).run(private, private, PAIRS, draws)
    answers = result.model.sample(RECORDS, np.random.default_rng(0))
    return error(private, answers, PAIRS)


@pytest.mark.parametrize("name", ["aim", "mst", "mwem_pgm", "privmrf", "privbayes_pgm"])
def test_pairs_are_better_than_those_of_independent_columns(name: str) -> None:
    private = table()
    assert error_of(name, private) < 0.5 * error_of("independent", private)
