"""Sensitivities from the raw rows on: limit to k rows a person, encode, count, score.

Tables of several rows a person, and neighbours in which one person is replaced, or is not there,
go through the ingestion that a release has. With one secret for both, every statistic may move as
far as is claimed for k rows, and it does.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from jam_dagster.mechanisms.loops.scores import l1_distance
from jam_dagster.privacy import Neighbours
from jam_dagster.tables import Domain, PrivacyUnit, SqlSource, encode
from jam_dagster.tables.codes.marginals import MarginalSource
from jam_dagster.tables.codes.privacy_unit import seeded_secret
from tests.postgres import PostgresServer
from tests.privacy.neighbours import RELATIONS, candidate_scores

pytestmark = pytest.mark.slow

DOMAIN = Domain.from_dict(
    {"attributes": {"a": {"values": ["x", "y"]}, "b": {"values": ["u", "v", "w"]}}}
)
CLIQUES = [("a",), ("b",), ("a", "b")]
CELLS = np.array([DOMAIN.size(clique) for clique in CLIQUES], dtype=np.float64)
PAIRS = 150

Counted = Callable[[pd.DataFrame, int, int], MarginalSource]


def person(name: str, rng: np.random.Generator, most: int) -> pd.DataFrame:
    """Return the rows of one person, often more than are kept, often all alike, which is worst."""
    rows = int(rng.integers(1, most + 1)) if rng.random() < 0.5 else most
    alike = rng.random() < 0.7
    values = [list(itertools.product("xy", "uvw"))[i] for i in rng.integers(0, 6, rows)]
    frame = pd.DataFrame(values[:1] * rows if alike else values, columns=["a", "b"])
    return frame.assign(who=name)


def shuffled_in(rest: pd.DataFrame, rows: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Return a table with the rows of one person at any places, all others in their order."""
    places = np.concatenate([np.arange(len(rest)), rng.uniform(-1, len(rest), len(rows))])
    both = pd.concat([rest, rows], ignore_index=True)
    return both.iloc[np.argsort(places, kind="stable")].reset_index(drop=True)


def changes(relation: Neighbours, counted: Counted, pairs: int = PAIRS) -> dict[str, float]:
    """Return by how much each statistic was seen to move."""
    rng = np.random.default_rng(11)
    k = relation.max_rows
    largest = dict.fromkeys(("l1", "l2", "score", "records"), 0.0)
    for pair in range(pairs):
        rest = pd.concat([person(f"p{i}", rng, 2 * k + 1) for i in range(4)], ignore_index=True)
        rest = rest.iloc[rng.permutation(len(rest))].reset_index(drop=True)
        one = shuffled_in(rest, person("me", rng, 2 * k + 1), rng)
        if relation.relation == "add_remove":
            other = rest
        else:
            name = "me" if rng.random() < 0.5 else "somebody else"
            other = shuffled_in(rest, person(name, rng, 2 * k + 1), rng)
        tables = [counted(table, k, pair) for table in (one, other)]
        model, public = ([20 * rng.dirichlet(np.full(int(n), 0.1)) for n in CELLS] for _ in "mp")
        for statistic, change in moved(tables, model, public).items():
            largest[statistic] = max(largest[statistic], change)
    return largest


def moved(
    tables: list[MarginalSource], model: list[np.ndarray], public: list[np.ndarray]
) -> dict[str, float]:
    counts = [[table.marginal(clique).ravel() for clique in CLIQUES] for table in tables]
    scores = [
        candidate_scores(
            np.array([l1_distance(c, m) for c, m in zip(each, model, strict=True)]),
            np.array([l1_distance(c, p) for c, p in zip(each, public, strict=True)]),
            CELLS,
            1.0,
        )
        for each in counts
    ]
    steps = [
        np.abs(one.astype(int) - other.astype(int)) for one, other in zip(*counts, strict=True)
    ]
    return {
        "l1": max(float(step.sum()) for step in steps),
        "l2": max(math.sqrt(float((step**2).sum())) for step in steps),
        "score": float(np.abs(scores[0] - scores[1]).max()),
        "records": float(abs(tables[0].records - tables[1].records)),
    }


def ingested(table: pd.DataFrame, k: int, pair: int) -> MarginalSource:
    return encode(PrivacyUnit("who", k).limit(table, seeded_secret(pair)), DOMAIN)


@pytest.mark.parametrize("relation", RELATIONS, ids=Neighbours.describe)
def test_statistics_of_ingested_tables_move_as_far_as_claimed(relation: Neighbours) -> None:
    found = changes(relation, ingested)
    assert found["l1"] == relation.marginal_l1
    assert found["l2"] == pytest.approx(relation.marginal_l2)
    assert found["score"] == pytest.approx(relation.jam_score)
    # Of one row replaced by one, none; else a person of k rows is there or not, or has but one.
    expected = relation.records if relation.relation == "add_remove" else relation.max_rows - 1
    assert found["records"] == expected <= relation.records


@pytest.mark.parametrize(
    "relation", [one for one in RELATIONS if one.max_rows > 1], ids=Neighbours.describe
)
def test_what_postgresql_gives_moves_no_further(
    relation: Neighbours, postgres: PostgresServer
) -> None:
    def counted(table: pd.DataFrame, k: int, pair: int) -> MarginalSource:
        rows = ", ".join(map(str, table.itertuples(index=False, name=None)))
        source = SqlSource(
            postgres.url("postgres"),
            f"select * from (values {rows}) t ({', '.join(map(str, table))})",
        )
        return source.counted(DOMAIN, PrivacyUnit("who", k), seeded_secret(pair), CLIQUES)

    found = changes(relation, counted, 25)
    assert found["l1"] == relation.marginal_l1
    assert found["l2"] == pytest.approx(relation.marginal_l2)
    assert found["score"] == pytest.approx(relation.jam_score)
    assert found["records"] <= relation.records


def test_a_limit_that_depends_on_others_is_found_out() -> None:
    """One shuffle of the whole table: a row more, and other rows of everybody are kept."""

    def shuffled(table: pd.DataFrame, k: int, pair: int) -> MarginalSource:
        return encode(table.sample(frac=1, random_state=pair).groupby("who").head(k), DOMAIN)

    relation = Neighbours("add_remove", 3)
    assert changes(relation, shuffled)["l1"] > relation.marginal_l1
