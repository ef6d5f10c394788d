"""What a report tells of the partitions before."""

from __future__ import annotations

import numpy as np
import pytest

from jam_dagster.errors import PrivacyLabelError
from jam_dagster.evaluation.release_history import PartitionRelease, history_figures
from tests.evaluation.conftest import measured_round, small_domain, transcript_of

DOMAIN = small_domain()


def release(partition: str, *sources: str, releasable: bool = True) -> PartitionRelease:
    clique = ("citizen",)
    rounds = [
        measured_round(place, clique, source, np.array([400.0, 3600.0]), sigma=10.0)
        for place, source in enumerate(sources)
    ]
    return PartitionRelease(partition, "1", transcript_of(DOMAIN, rounds, releasable=releasable))


def test_shares_are_of_the_mechanism_s_budget() -> None:
    one = release("2026-02", "private", "public", "private")
    # 1 / 10^2 for each measurement, a thousandth for each selection, of a twentieth.
    assert one.measured == pytest.approx(2 * 0.01 / 0.05)
    assert one.selecting == pytest.approx(3 * 0.001 / 0.05)
    assert one.private_marginals == ("citizen",)
    assert release("2026-03").measured == 0.0


def test_figures_name_the_partitions() -> None:
    figures = history_figures([release("2026-01", "private"), release("2026-02", "public")])
    assert "2026-01 20%; 2026-02 0%" in figures["budget"].chart
    assert "citizen" in figures["marginals"].chart


def test_one_release_has_no_history() -> None:
    assert history_figures([release("2026-01", "private")]) == {}


def test_what_may_not_leave_is_in_no_history_of_what_may() -> None:
    with pytest.raises(PrivacyLabelError, match="seeded noise"):
        history_figures([release("a", "private", releasable=False), release("b", "private")])
