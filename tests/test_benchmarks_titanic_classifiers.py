"""Rows and areas of the benchmark of classifiers on Titanic."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.titanic_classifiers import areas, known_rows, summary
from jam_dagster.tables import Domain, EncodedTable

DOMAIN = Domain.from_sizes({"Survived": 3, "Sex": 2})


def table(seed: int) -> EncodedTable:
    rng = np.random.default_rng(seed)
    survived = rng.integers(0, 3, 900)
    sex = np.where(rng.random(900) < 0.9, survived == 1, survived != 1).astype(int)
    return EncodedTable(DOMAIN, (survived, sex))


@pytest.mark.slow
def test_both_kinds_learn_from_rows_whose_survival_is_known() -> None:
    pytest.importorskip("sklearn")
    learnt, tested = (known_rows(table(seed)) for seed in (0, 1))

    assert set(learnt.column("Survived")) == {0, 1}
    found = areas(learnt, tested)
    assert found == pytest.approx(dict.fromkeys(found, 0.9), abs=0.04)


def test_a_summary_has_means_and_standard_errors() -> None:
    assert summary({"public": [{"kind": 0.8}, {"kind": 0.6}], "alone": [{"kind": 0.5}]}) == [
        "| learns from | kind |",
        "|---|---|",
        "| public | 0.700 ± 0.100 |",
        "| alone | 0.500 ± 0.000 |",
    ]
