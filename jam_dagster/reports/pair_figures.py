"""Pairs of attributes on a report: heat maps of the most informative ones, numbers of many."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from jam_dagster.evaluation.released_marginals import covers, released_marginal
from jam_dagster.reports import plots
from jam_dagster.reports.column_summary import l1_distance
from jam_dagster.reports.comparisons import CellGroup, PairCells, pair_cells
from jam_dagster.reports.live_charts import picture
from jam_dagster.reports.report_figures import ReportFigure, distances, most_frequent

if TYPE_CHECKING:
    from jam_dagster.mechanisms.loops.transcript import Transcript
    from jam_dagster.tables.codes.marginals import MarginalSource
    from jam_dagster.tables.domain.domain import Domain

Pair = tuple[str, str]
PairTables = Mapping[Pair, Mapping[str, np.ndarray]]

# A heat map of more cells is too fine to read.
_LARGEST_PAIR = 4096
_PAIRS_SHOWN = 4
# The most numbers of pairs on a page: at most about 600 kB.
_NUMBERS_EMBEDDED = 150_000


@dataclass(frozen=True)
class PairFigure:
    """Heat maps of two attributes in several tables.

    `place` is the index of the pair in `pair_numbers`; None if its numbers are not on the page.
    """

    title: str
    panels: tuple[ReportFigure, ...]
    alternative: str
    caption: str
    place: int | None


def ranked_pairs(
    domain: Domain,
    transcript: Transcript,
    synthetic: MarginalSource,
    public: MarginalSource | None,
) -> dict[Pair, dict[str, np.ndarray]]:
    """Return the two-way marginals of all tables, the most informative pairs first.

    Privately measured pairs come first, since the page can show all three tables for them. Within
    both groups, pairs are ordered by the difference between the synthetic and the public table, or
    without a public table by the dependence of the two attributes.
    """
    candidates = [
        pair
        for pair in combinations(domain.names, 2)
        if domain.size(pair) <= _LARGEST_PAIR and min(domain.sizes[name] for name in pair) > 1
    ]
    ranked = []
    answers = synthetic.marginals(candidates)
    others = {
        pair: np.multiply.outer(answer.sum(axis=1), answer.sum(axis=0))
        for pair, answer in answers.items()
    }
    if public is not None:
        others = public.marginals(candidates)
    for pair in candidates:
        measured = any(covers(one, pair) for one in transcript.measurements)
        ranked.append((not measured, -l1_distance(answers[pair], others[pair]), pair))
    pairs: dict[Pair, dict[str, np.ndarray]] = {}
    for _, _, pair in sorted(ranked, key=lambda one: one[:2]):
        pairs[pair] = {"synthetic": answers[pair]}
        if public is not None:
            pairs[pair]["public"] = others[pair]
        released = released_marginal(transcript, pair)
        if released is not None:
            pairs[pair]["released"] = released.counts
    return pairs


def telling_pairs(pairs: Iterable[Pair]) -> list[Pair]:
    """Choose the first pairs, each attribute at most twice."""
    chosen: list[Pair] = []
    for pair in pairs:
        uses = [name for one in chosen for name in one]
        if all(uses.count(name) < 2 for name in pair):
            chosen.append(pair)
        if len(chosen) == _PAIRS_SHOWN:
            break
    return chosen


def two_way_figures(
    domain: Domain, transcript: Transcript, pairs: PairTables, embedded: Mapping[Pair, int]
) -> Iterator[PairFigure]:
    """Draw the most informative pairs."""
    for pair in telling_pairs(pairs):
        tables = pairs[pair]
        names = " and ".join(pair)
        labels = [
            " with ".join(one)
            for one in itertools.product(*(domain.attribute(name).labels for name in pair))
        ]
        frequent = {
            title: f"most frequent {most_frequent(np.maximum(counts, 0).ravel(), labels)}"
            for title, counts in tables.items()
        }
        panels = plots.two_way_panels(domain, pair, tables)
        yield PairFigure(
            names,
            tuple(
                ReportFigure(
                    title, picture(chart, f"Heat map of {names}, {title}: {frequent[title]}.")
                )
                for title, chart in panels.items()
            ),
            f"Heat maps of {names}. "
            + "; ".join(f"{title}: {text}" for title, text in frequent.items())
            + ".",
            distances(tables, released_marginal(transcript, pair), transcript.records),
            embedded.get(pair),
        )


def pair_numbers(domain: Domain, transcript: Transcript, pairs: PairTables) -> dict[str, Any]:
    """Return the numbers of as many pairs as a page has room for, the most informative first."""
    axes: dict[tuple[tuple[str, int], ...], int] = {}
    described: list[dict[str, Any]] = []
    records: dict[str, float] = {"released": transcript.records}
    room = _NUMBERS_EMBEDDED
    # Drawn pairs always have their numbers, whatever room is left for others.
    order = dict.fromkeys([*telling_pairs(pairs), *pairs])
    for pair in order:
        cells = pair_cells(domain, pair, pairs[pair])
        size = sum(counts.size for counts in cells.counts.values())
        if size > room:
            continue
        room -= size
        records |= {
            title: float(counts.sum())
            for title, counts in pairs[pair].items()
            if title != "released"
        }
        indices = [domain.positions[name] for name in pair]
        described.append({"places": indices, **_pair_record(cells, axes, transcript, pairs[pair])})
    return {
        "axes": [
            {"labels": [label for label, _ in axis], "sizes": [size for _, size in axis]}
            for axis in axes
        ],
        "records": records,
        "pairs": described,
    }


def _pair_record(
    cells: PairCells,
    axes: dict[tuple[tuple[str, int], ...], int],
    transcript: Transcript,
    tables: Mapping[str, np.ndarray],
) -> dict[str, Any]:
    released = released_marginal(transcript, cells.pair)
    return {
        "names": list(cells.pair),
        "axes": [
            axes.setdefault(_axis(groups), len(axes)) for groups in (cells.down, cells.across)
        ],
        "counts": {title: _plain(counts) for title, counts in cells.counts.items()},
        "sigma": None if released is None else released.sigma,
        "caption": distances(tables, released, transcript.records),
    }


def _axis(groups: list[CellGroup]) -> tuple[tuple[str, int], ...]:
    return tuple((group.label, len(group.codes)) for group in groups)


def _plain(counts: np.ndarray) -> list[float]:
    """Return counts row by row, whole ones as integers, which are shorter."""
    rounded = [round(float(count), 1) for count in counts.ravel()]
    return [int(count) if count.is_integer() else count for count in rounded]
