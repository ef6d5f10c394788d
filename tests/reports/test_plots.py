"""Plots show the numbers that they are given, in colours that people can tell apart."""

from __future__ import annotations

import json
import math
import re
from itertools import combinations
from xml.etree import ElementTree

import numpy as np
import pytest

from jam_dagster.common import palette
from jam_dagster.errors import InputError
from jam_dagster.evaluation import ErrorBounds, TableErrors, WorkloadErrors, released_marginal
from jam_dagster.evaluation.bounds.table import ErrorBound
from jam_dagster.reports import plots
from jam_dagster.reports.comparisons import cell_groups, gather
from jam_dagster.reports.live_charts import live_chart
from jam_dagster.reports.plot_style import png, specification, svg
from jam_dagster.tables import CategoricalAttribute, Domain, NumericAttribute
from tests.evaluation.conftest import RECORDS, SmallRelease, lost, rows_of, transcript_of
from tests.nasty import NASTY


def texts(drawn: str) -> list[str]:
    root = ElementTree.fromstring(drawn)
    return [element.text or "" for element in root.iter() if element.tag.endswith("}text")]


def test_budget_adds_up_round_by_round(release: SmallRelease) -> None:
    chart = plots.budget_over_rounds(release.transcript)
    rows = [row for row in rows_of(chart) if "use" in row]
    last = sum(row["rho"] for row in rows if row["round"] == len(release.transcript.rounds))
    assert last == pytest.approx(release.transcript.rho_spent)
    assert "budget 0.05" in texts(svg(chart))


def test_lost_draws_are_marked_as_lost(release: SmallRelease) -> None:
    first, second, *_ = release.transcript.rounds
    rows = rows_of(plots.budget_over_rounds(release.transcript))
    assert {row["use"] for row in rows if "use" in row} == {"selection", "measurement"}
    transcript = transcript_of(release.domain, [first, lost(second)])
    rows = rows_of(plots.budget_over_rounds(transcript))
    after = {row["use"]: row["rho"] for row in rows if row.get("round") == 2}
    expected = {
        "selection": 0.002,
        "measurement": first.rho_measure,
        "lost draws": second.rho_measure,
    }
    assert after == pytest.approx(expected)
    chart = plots.choices_per_round(transcript)
    assert [row["source"] for row in rows_of(chart)] == ["measured privately", "charged, and lost"]
    assert "charged, and lost" in texts(svg(chart))
    assert "charged, and lost" not in texts(svg(plots.choices_per_round(release.transcript)))


def test_choices_name_every_round(release: SmallRelease) -> None:
    chart = plots.choices_per_round(release.transcript)
    rows = rows_of(chart)
    assert [(row["round"], row["marginal"]) for row in rows] == [
        (one.index + 1, " x ".join(one.clique)) for one in release.transcript.rounds
    ]
    assert [row["source"] for row in rows][2] == "taken from public data"
    assert "age x marital-status" in texts(svg(chart))


def test_a_distribution_is_drawn_as_shares(release: SmallRelease) -> None:
    for name in ("age", "citizen", "region"):
        attribute = release.domain.attribute(name)
        synthetic, public = (t.marginal((name,)) for t in (release.synthetic, release.public))
        released = released_marginal(release.transcript, (name,))
        chart = plots.one_way_comparison(
            attribute, synthetic=synthetic, public=public, released=released, records=RECORDS
        )
        rows = rows_of(chart)
        drawn = {
            table: [row["share"] for row in rows if row.get("table") == table][: attribute.size]
            for table in ("synthetic", "public", "released")
        }
        assert drawn["synthetic"] == pytest.approx(list(synthetic / RECORDS))
        assert drawn["public"] == pytest.approx(list(public / public.sum()))
        shown = texts(svg(chart))
        assert {"synthetic", "public"} <= set(shown)
        assert ("released" in shown) == (released is not None)
        if released is not None:
            assert drawn["released"] == pytest.approx(list(released.counts / RECORDS))
            bars = [row["high"] - row["share"] for row in rows if row.get("table") == "released"]
            assert bars == pytest.approx([2 * released.sigma / RECORDS] * attribute.size)
    assert "(null)" in shown


def test_nothing_is_drawn_below_zero() -> None:
    from jam_dagster.evaluation.released_marginals import ReleasedMarginal

    chart = plots.one_way_comparison(
        CategoricalAttribute("a", ("x", "y")),
        synthetic=np.array([0, 10]),
        public=np.array([0, 10]),
        released=ReleasedMarginal(("a",), np.array([-3.0, 12.0]), 1.0, (0,)),
        records=10,
    )
    released = [row for row in rows_of(chart) if row.get("table") == "released"]
    assert (released[0]["low"], released[0]["share"], released[0]["high"]) == (0.0, 0.0, 0.0)


def test_panels_share_one_scale(release: SmallRelease) -> None:
    pair = ("age", "marital-status")
    tables = {
        "synthetic": release.synthetic.marginal(pair),
        "public": release.public.marginal(pair),
    }
    panels = plots.two_way_panels(release.domain, pair, tables)
    strengths = {
        title: np.array([row["strength"] for row in rows_of(panel)]).reshape(5, 3)
        for title, panel in panels.items()
    }
    for title, counts in tables.items():
        assert strengths[title] ** 2 == pytest.approx(counts / counts.sum())
    domains = [p.to_dict()["encoding"]["opacity"]["scale"]["domain"] for p in panels.values()]
    assert domains[0] == domains[1] == [0, max(s.max() for s in strengths.values())]
    for panel in panels.values():
        assert {"age", "marital-status"} <= set(texts(svg(panel)))


def test_errors_are_marked_by_which_table_is_closer() -> None:
    cliques = [("a", "b"), ("a", "c")]
    error = WorkloadErrors(
        "exact",
        TableErrors(0.2, 0.3, dict(zip(cliques, (0.1, 0.3), strict=True))),
        TableErrors(0.2, 0.2, dict(zip(cliques, (0.2, 0.2), strict=True))),
    )
    rows = [row for row in rows_of(plots.error_by_marginal(error)) if "better" in row]
    assert [(row["synthetic"], row["baseline"], row["better"]) for row in rows] == [
        (0.1, 0.2, True),
        (0.3, 0.2, False),
    ]
    with pytest.raises(InputError, match="mode 'exact'"):
        plots.error_by_marginal(WorkloadErrors("private", TableErrors(0.2), TableErrors(0.3)))


def test_bounds_are_drawn_in_order_and_told_apart() -> None:
    bounds = ErrorBounds(
        (
            ErrorBound(("a",), "supported", 20.0),
            ErrorBound(("a", "b"), "unsupported", 150.0, 3),
            ErrorBound(("b",), "supported", 10.0),
            ErrorBound(("a", "b", "c"), "none", math.inf),
        ),
        0.95,
        100,
    )
    rows = rows_of(plots.bound_by_marginal(bounds))
    assert [(row["rank"], row["marginal"], row["bound"]) for row in rows] == [
        (1, "b", 0.1),
        (2, "a", 0.2),
        (3, "a x b", 1.5),
    ]
    assert [row["kind"] for row in rows] == [
        *["measured, or part of one that was"] * 2,
        "not measured",
    ]


def test_rendering_is_sound_whatever_the_labels_are() -> None:
    """Labels with markup, quotes and letters of other scripts; ids would clash on one page."""
    labels = ("<script>x</script>", 'a "b" & c', "it's", "東京", "\\n${x}")
    chart = plots.one_way_comparison(
        CategoricalAttribute("odd <name>", labels),
        synthetic=np.arange(5),
        public=np.arange(5),
        records=10,
    )
    drawn = svg(chart)
    assert set(labels) <= set(texts(drawn))
    assert "<script" not in drawn
    assert " id=" not in drawn
    assert "url(" not in drawn


def test_many_cells_are_gathered_and_nothing_is_lost() -> None:
    values = CategoricalAttribute("v", tuple(range(501)), nullable=True)
    weights = np.arange(502.0)
    groups = cell_groups(values, weights, 14)
    assert len(groups) == 15
    assert [group.label for group in groups[:2]] == ["488", "489"]
    assert [group.label for group in groups[-2:]] == ["(488 others)", "(null)"]
    assert gather(weights, groups).sum() == weights.sum()
    assert sorted(code for group in groups for code in group.codes) == list(range(502))

    bins = NumericAttribute("b", tuple(range(101)), integer=True, nullable=True)
    groups = cell_groups(bins, np.ones(101), 24)
    assert len(groups) == 25
    assert groups[0].label == "0 to 3"
    assert groups[0].start == "0"
    assert groups[-1].codes == (100,)
    assert sorted(code for group in groups for code in group.codes) == list(range(101))

    exact = Domain((values, bins))
    table = np.arange(502.0 * 101).reshape(502, 101)
    down, across = (cell_groups(a, np.ones(a.size), 10) for a in exact.attributes)
    assert gather(table, down, across).sum() == table.sum()


def linear(colour: str) -> np.ndarray:
    channels = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)


def contrast(first: str, second: str) -> float:
    weights = np.array([0.2126, 0.7152, 0.0722])
    lights = sorted(float(weights @ linear(colour)) + 0.05 for colour in (first, second))
    return lights[1] / lights[0]


# Machado, Oliveira and Fernandes (2009), severity 1.
DEFICIENCIES = {
    "none": np.eye(3),
    "protanopia": [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]],
    "deuteranopia": [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]],
    "tritanopia": [[1.256, -0.077, -0.179], [-0.078, 0.931, 0.148], [0.005, 0.691, 0.304]],
}


@pytest.mark.parametrize("ground", ["light", "dark"])
@pytest.mark.parametrize("deficiency", DEFICIENCIES)
def test_series_can_be_told_apart_by_everybody(ground: str, deficiency: str) -> None:
    series = [palette.SYNTHETIC, palette.PUBLIC, palette.RELEASED]
    seen = [
        np.clip(DEFICIENCIES[deficiency] @ linear(getattr(one, ground)), 0, 1) ** (1 / 2.2)
        for one in series
    ]
    assert min(np.linalg.norm(a - b) for a, b in combinations(seen, 2)) > 0.25


def test_text_is_readable_on_its_ground() -> None:
    for colour in (palette.INK, palette.MUTED):
        assert contrast(colour.light, "#ffffff") >= 4.5
        assert contrast(colour.dark, "#14181d") >= 4.5
    for colour in (palette.SYNTHETIC, palette.PUBLIC, palette.RELEASED):
        assert contrast(colour.light, "#ffffff") >= 3
        assert contrast(colour.dark, "#14181d") >= 3


def test_a_page_can_find_every_colour_by_its_light_form() -> None:
    assert len({colour.light for colour in palette.ALL}) == len(palette.ALL)


@pytest.mark.slow
def test_a_chart_of_nasty_names_is_drawn() -> None:
    """The renderer ends the whole process at a control character, so none may reach it."""
    attribute = CategoricalAttribute(NASTY[-1], (*NASTY[:4], NASTY[-1]))
    counts = np.full(5, 20.0)
    chart = plots.one_way_comparison(
        attribute, synthetic=counts, public=counts, released=None, records=int(counts.sum())
    )
    for text in (json.dumps(specification(chart)), page_text := str(live_chart(chart, NASTY[-1]))):
        # Labels stand in expressions too, which would turn an escape back.
        assert not re.search(r"\x1b|u001b|\u202e", text)
    assert "<script>alert" not in page_text
    drawn = svg(chart)
    assert "&lt;script" in drawn
    assert not re.search("<script|<img|onload=[^<]*<", drawn)
    ElementTree.fromstring(drawn)
    assert png(chart).startswith(b"\x89PNG")
