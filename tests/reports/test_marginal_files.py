"""Measured marginals as tables: the counts that the transcript has, with their labels."""

import numpy as np

from jam_dagster.models.measurement import Measurement
from jam_dagster.reports.marginal_files import marginal_table
from jam_dagster.tables import CategoricalAttribute, Domain, NumericAttribute

DOMAIN = Domain(
    (
        CategoricalAttribute("sex", ("F", "M"), nullable=True),
        NumericAttribute("count", (0, 10, 20), integer=True),
    )
)


def test_a_row_is_a_cell_with_its_labels() -> None:
    values = np.arange(6.0).reshape(3, 2) - 1
    table = marginal_table(Measurement(("sex", "count"), "private", values, 2.0, 0), DOMAIN)
    assert table["sex"].tolist()[:4] == ["F", "F", "M", "M"]
    assert table["sex"].isna().tolist() == [False] * 4 + [True] * 2
    assert table["count"].tolist() == ["0 to 9", "10 to 20"] * 3
    # A column that is called count stays.
    assert table["noisy_count"].tolist() == [-1, 0, 1, 2, 3, 4]
