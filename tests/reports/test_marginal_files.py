"""Measured marginals as tables: the counts that the transcript has, with their labels."""

from pathlib import Path

import numpy as np

from jam_dagster.models.measurement import Measurement
from jam_dagster.reports.marginal_files import marginal_table, save_marginals
from jam_dagster.tables import CategoricalAttribute, Domain, NumericAttribute
from tests.evaluation.conftest import measured_round, transcript_of
from tests.nasty import NASTY

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


def test_values_that_cannot_be_read_have_their_label() -> None:
    domain = Domain((NumericAttribute("kg", (0, 1), nullable=True, unreadable="apart"),))
    table = marginal_table(Measurement(("kg",), "private", np.arange(3.0), 2.0, 0), domain)
    assert table["kg"].tolist()[1] == "(unreadable)"
    assert table["kg"].isna().tolist() == [False, False, True]


def test_a_nasty_name_of_a_release_stays_in_its_code_span(tmp_path: Path) -> None:
    measured = measured_round(0, ("sex", "count"), "private", np.zeros((3, 2)), 2.0)
    transcript = transcript_of(DOMAIN, [measured])
    save_marginals(transcript, DOMAIN, tmp_path / "out", release="".join(NASTY), budget=(1.0, 1e-9))

    readme = (tmp_path / "out" / "README.md").read_text()
    shown = readme.split("table of `", 1)[1].split("`, as the release measured them", 1)[0]
    assert shown.startswith("".join(NASTY[:5]))
    assert "`" not in shown
    assert shown.isprintable()
