"""Pairs of attributes on a report: heat maps of telling ones, numbers of all there is room for."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from jam_dagster.evaluation import plots
from jam_dagster.evaluation.cell_groups import CellGroup
from jam_dagster.evaluation.comparisons import PairCells, pair_cells
from jam_dagster.evaluation.live_charts import picture
from jam_dagster.evaluation.released_marginals import covers, released_marginal
from jam_dagster.evaluation.report_figures import Figure, distances, l1_distance, most_frequent

if TYPE_CHECKING:
    from jam_dagster.mechanisms.transcript import Transcript
    from jam_dagster.tables.domain import Domain
    from jam_dagster.tables.marginals import MarginalSource

Pair = tuple[str, str]
PairTables = Mapping[Pair, Mapping[str, np.ndarray]]

# A pair of more cells than this is too fine to be read as a heat map.
_LARGEST_PAIR = 4096
_PAIRS_SHOWN = 4
# Numbers of pairs that a page has room for: at most about 600 kB.
_NUMBERS_EMBEDDED = 150_000


@dataclass(frozen=True)
class PairFigure:
    """Heat maps of two attributes in several tables.

    Parameters
    ----------
    title
        The attributes.
    panels
        One a table.
    alternative
        What they show together, for those who cannot see it.
    caption
        What to read from them.
    place
        Where the pair's numbers stand in `pair_numbers`; None where they are not on the page.
    """

    title: str
    panels: tuple[Figure, ...]
    alternative: str
    caption: str
    place: int | None


def ranked_pairs(
    domain: Domain,
    transcript: Transcript,
    synthetic: MarginalSource,
    public: MarginalSource | None,
) -> dict[Pair, dict[str, np.ndarray]]:
    """Return the two-way marginals of all tables, the pairs that tell most first.

    Pairs that were measured privately come first, since there the page can show all three tables;
    among them, and among the others, those in which the synthetic and the public table differ most,
    or without a public table those whose attributes hang together most.

    Returns
    -------
    dict
        By pair, counts by table: ``synthetic``, ``public`` where there is one, and ``released``
        where it was measured.
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
    """Choose the first pairs, no attribute more than twice."""
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
    """Draw the pairs that tell most.

    Parameters
    ----------
    domain
        The domain.
    transcript
        The released measurements.
    pairs
        As `ranked_pairs` returns them.
    embedded
        Where the numbers of pairs stand on the page.
    """
    for pair in telling_pairs(pairs):
        tables = pairs[pair]
        names = " and ".join(pair)
        labels = [
            " with ".join(one)
            for one in itertools.product(*(domain.attribute(name).labels for name in pair))
        ]
        told = {
            title: f"most frequent {most_frequent(np.maximum(counts, 0).ravel(), labels)}"
            for title, counts in tables.items()
        }
        panels = plots.two_way_panels(domain, pair, tables)
        yield PairFigure(
            names,
            tuple(
                Figure(title, picture(chart, f"Heat map of {names}, {title}: {told[title]}."))
                for title, chart in panels.items()
            ),
            f"Heat maps of {names}. "
            + "; ".join(f"{title}: {text}" for title, text in told.items())
            + ".",
            distances(tables, released_marginal(transcript, pair), transcript.records),
            embedded.get(pair),
        )


def pair_numbers(domain: Domain, transcript: Transcript, pairs: PairTables) -> dict[str, Any]:
    """Return the numbers of as many pairs as a page has room for, the telling ones first.

    Parameters
    ----------
    domain
        The domain.
    transcript
        The released measurements.
    pairs
        As `ranked_pairs` returns them.

    Returns
    -------
    dict
        ``pairs`` has a list of names, their places in the domain, counts by table (row by row, of
        gathered cells), what to read
        from them (``caption``), and for a released marginal the standard deviation of its noise in
        one cell (``sigma``). ``axes`` are what pairs refer to by number: labels, and how many cells
        each of them gathers. ``records`` is what the counts of each table are fractions of.
    """
    axes: dict[tuple[tuple[str, int], ...], int] = {}
    told: list[dict[str, Any]] = []
    records: dict[str, float] = {"released": transcript.records}
    room = _NUMBERS_EMBEDDED
    # Telling pairs are drawn with their numbers whatever is left for others.
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
        places = [domain.positions[name] for name in pair]
        told.append({"places": places, **_told(cells, axes, transcript, pairs[pair])})
    return {
        "axes": [
            {"labels": [label for label, _ in axis], "sizes": [size for _, size in axis]}
            for axis in axes
        ],
        "records": records,
        "pairs": told,
    }


def _told(
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
    """Return counts row by row, whole ones as integers: they are shorter."""
    rounded = [round(float(count), 1) for count in counts.ravel()]
    return [int(count) if count.is_integer() else count for count in rounded]
