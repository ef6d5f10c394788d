"""What a report tells of the partitions before."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from jam_dagster.errors import PrivacyLabelError
from jam_dagster.evaluation import TableErrors, WorkloadErrors
from jam_dagster.privacy import NoiseCall
from jam_dagster.privacy.noise.calls import RECORDS
from jam_dagster.reports.history import (
    PartitionRelease,
    budget_over_partitions,
    errors_over_partitions,
    history_figures,
    marginals_over_partitions,
)
from tests.evaluation.conftest import (
    lost,
    measured_round,
    rows_of,
    small_domain,
    transcript_of,
)

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
    assert one.uses["selecting"] == pytest.approx(3 * 0.001 / 0.05)
    assert one.private_marginals == ("citizen",)
    assert release("2026-03").measured == 0.0


def test_what_was_lost_measured_nothing() -> None:
    whole = release("2026-02", "private", "private")
    rounds = [whole.transcript.rounds[0], lost(whole.transcript.rounds[1])]
    one = replace(whole, transcript=transcript_of(DOMAIN, rounds))
    assert one.measured == pytest.approx(0.01 / 0.05)
    nothing = replace(whole, transcript=transcript_of(DOMAIN, rounds[1:]))
    assert nothing.private_marginals == ()
    assert rows_of(marginals_over_partitions([nothing])) == []
    shares = {row["use"]: row["share"] for row in rows_of(budget_over_partitions([one]))}
    assert shares == pytest.approx(
        {"measured privately": 0.2, "selecting": 0.04, "lost draws": 0.2, "not spent": 0.56}
    )
    uses = [row["use"] for row in rows_of(budget_over_partitions([whole]))]
    assert uses == ["measured privately", "selecting", "not spent"]


def test_what_counted_rows_is_spent() -> None:
    one = release("2026-02", "private")
    counting = NoiseCall("records", "discrete Gaussian", 0.005, 1.0, 11.0, 1, subject=RECORDS)
    spent = one.transcript.rho_spent + 0.005
    one = replace(one, transcript=replace(one.transcript, calls=(counting,), rho_spent=spent))
    assert one.uses["number of rows"] == pytest.approx(0.1)
    assert one.uses["lost draws"] == 0.0
    assert sum(one.uses.values()) == pytest.approx(1)


def test_figures_name_the_partitions() -> None:
    figures = history_figures([release("2026-01", "private"), release("2026-02", "public")])
    assert "2026-01 20%; 2026-02 0%" in figures["budget"].chart
    assert "citizen" in figures["marginals"].chart


def test_one_release_has_no_history() -> None:
    assert history_figures([release("2026-01", "private")]) == {}


def test_what_may_not_leave_is_in_no_history_of_what_may() -> None:
    with pytest.raises(PrivacyLabelError, match="seeded noise"):
        history_figures([release("a", "private", releasable=False), release("b", "private")])


def test_released_errors_are_drawn_with_the_interval_of_their_noise() -> None:
    errors = WorkloadErrors("private", TableErrors(0.2), TableErrors(0.3), sigma=0.01, rho=0.1)
    history = [release("2026-01"), replace(release("2026-02"), errors=errors)]
    first, second = rows_of(errors_over_partitions(history))
    assert (first["partition"], first["table"], first["error"]) == (
        "2026-02",
        "synthetic table",
        0.2,
    )
    assert (second["low"], second["high"]) == pytest.approx((0.3 - 0.0196, 0.3 + 0.0196), abs=1e-5)
    assert "2026-02 better" in history_figures(history)["errors"].chart
    assert [one.outcome for one in history] == ["", "better"]
    # Side by side, so that neither interval hides the other; and no error is below 0.
    chart = errors_over_partitions(history)
    assert all("xOffset" in layer["encoding"] for layer in chart.to_dict()["layer"])
    wide = replace(history[1], errors=replace(errors, sigma=1.0))
    assert {row["low"] for row in rows_of(errors_over_partitions([wide]))} == {0.0}
    # The axis ends at 1.5 times the largest error: a longer bar is cut, and the title says so.
    drawn = [one.to_dict()["layer"][0] for one in (chart, errors_over_partitions([wide]))]
    assert [one["encoding"]["y"]["scale"]["domain"][1] for one in drawn] == pytest.approx(
        [0.3 + 0.0196, 0.45], abs=1e-5
    )
    titles = [one["encoding"]["y"]["title"] for one in drawn]
    assert titles == ["mean error", "mean error (longer bars are cut)"]
    assert all(one["mark"]["clip"] for one in drawn)
    assert "beyond the axis" not in history_figures(history)["errors"].chart
    cut = "2 bars end beyond the axis of 0.45: synthetic table, 2026-02, to 2.16; public table"
    assert cut in history_figures([history[0], wide])["errors"].chart
    assert "errors" not in history_figures([release("2026-01"), release("2026-02")])
