"""The table of columns on a report: distances, noise, and how the domain fits."""

from __future__ import annotations

import numpy as np
import pytest

from jam_dagster.evaluation.domain_fit import CatchAllShare, ColumnFit
from jam_dagster.evaluation.released_marginals import ReleasedMarginal
from jam_dagster.reports.column_summary import (
    ColumnSummary,
    column_summary,
    comparable,
    fits_by_column,
)
from jam_dagster.tables import CategoricalAttribute, Domain, EncodedTable, NumericAttribute
from tests.evaluation.conftest import measured_round, transcript_of

GRADE = CategoricalAttribute("grade", ("low", "middle", "high"), dtype="ordered category")
AGE = NumericAttribute("age", (0.0, 10.0, 20.0))
SYNTHETIC, PUBLIC = np.array([50.0, 30.0, 20.0]), np.array([40.0, 30.0, 30.0])


def summary(sigma: float = 1.0, counts: tuple[float, ...] = (600.0, 300.0, 100.0)) -> ColumnSummary:
    released = ReleasedMarginal(("grade",), np.array(counts), sigma, (0,))
    tables = {"synthetic": SYNTHETIC, "public": PUBLIC}
    return column_summary(GRADE, tables, released, None, records=1000, compared=2)


def test_distances_are_fractions_of_the_records() -> None:
    row = summary()
    assert row.to_public == pytest.approx(0.1 + 0.0 + 0.1)
    assert row.to_released == pytest.approx(0.1 + 0.0 + 0.1)
    # sqrt(2 / pi) sigma a cell.
    assert row.noise == pytest.approx(3 * 0.7978846 * 1.0 / 1000)
    assert (row.name, row.fit) == ("grade", "fits")


def test_a_distance_that_noise_explains_is_not_beyond_it() -> None:
    assert summary(sigma=1.0).beyond_noise
    assert summary(sigma=100.0).beyond_noise is False
    # Noise of more than half of what can differ hides the answer.
    assert summary(sigma=500.0).beyond_noise is None
    assert not summary(sigma=1.0, counts=(500.0, 300.0, 200.0)).beyond_noise


def test_nothing_is_said_of_what_was_not_measured() -> None:
    row = column_summary(
        GRADE, {"synthetic": SYNTHETIC}, None, ColumnFit(GRADE), records=1000, compared=1
    )
    assert (row.to_public, row.to_released, row.noise) == (None, None, None)
    assert row.beyond_noise is None
    assert row.fit == "not known"


def test_the_table_and_the_verdict_judge_noise_alike() -> None:
    """Columns of much noise share the level of neither."""
    counts = np.array([600.0, 300.0, 100.0])
    known, noisy = (ReleasedMarginal(("grade",), counts, sigma, (0,)) for sigma in (1.0, 500.0))
    assert comparable({"a": known, "b": noisy, "c": None}, 1000) == 1


def test_a_misfit_comes_first_and_is_named() -> None:
    share = CatchAllShare("bound", "[10, 20]", 0.996, 0.01, 0.001)
    counts = ReleasedMarginal(("age",), np.array([4.0, 996.0]), 1.0, (0,))
    tables = {"synthetic": np.array([0.0, 100.0])}
    lost = column_summary(AGE, tables, counts, ColumnFit(AGE, (share,)), records=1000, compared=2)
    assert (lost.fit, lost.misfit) == ("99.6% at a bound", True)
    fine, far = summary(sigma=100.0), summary()
    assert sorted([fine, far, lost], key=lambda row: row.rank) == [lost, far, fine]


def test_a_domain_from_private_data_is_not_judged() -> None:
    other = CategoricalAttribute("town", ("a", "other"), other="other")
    counts = np.array([1.0, 3999.0])
    for source, names in (("declared", ["town"]), ("private", [])):
        domain = Domain((other,), identified_from=source)
        transcript = transcript_of(domain, [measured_round(0, ("town",), "private", counts, 1.0)])
        table = EncodedTable(domain, (np.array([0, 1, 1]),))
        assert list(fits_by_column(domain, transcript, table)) == names
