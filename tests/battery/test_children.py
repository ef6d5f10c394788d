"""Roots with children: a root and all its children are one record of every mechanism."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from jam_dagster.privacy import Neighbours, SeededNoise
from jam_dagster.tables import Domain, EncodedTable
from jam_dagster.tables.codes.privacy_unit import seeded_secret
from jam_dagster.tables.codes.roots import encode_roots
from jam_dagster.tables.domain.children import Link
from tests.battery.listening import Listening
from tests.battery.mechanisms import Case, independent, jam_pgm, tilt, tilt_alone
from tests.battery.test_replay import charges, recorded, released

LINK = Link("persons", "household", 3)
DOMAIN = Domain.from_sizes({"region": 2}).with_children(LINK, Domain.from_sizes({"job": 2}))
RELATION = Neighbours("add_remove")


def rows(households: pd.DataFrame, persons: pd.DataFrame) -> EncodedTable:
    return encode_roots([households], [persons], DOMAIN, seeded_secret(1))


def two_tables(rng: np.random.Generator, number: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    sizes = rng.integers(0, 5, number)
    names = [f"h{one}" for one in rng.permutation(number)]
    households = pd.DataFrame({"household": names, "region": rng.integers(0, 2, number)})
    jobs = rng.integers(0, 2, sizes.sum())
    persons = pd.DataFrame({"household": np.repeat(names, sizes), "job": jobs})
    # A person of nobody, in any place of the table.
    orphans = pd.DataFrame({"household": ["nobody"], "job": [1]})
    return households, pd.concat([persons, orphans]).sample(frac=1.0, random_state=rng)


def without(table: pd.DataFrame, household: str) -> pd.DataFrame:
    return table[table["household"] != household]


@pytest.mark.parametrize(
    "case", [jam_pgm(), tilt(), tilt_alone(), independent()], ids=lambda case: case.name
)
def test_households_that_differ_are_released_alike(case: Case, tmp_path: Path) -> None:
    """One is there or not, with all its persons: no input moves further than one record's."""
    rng = np.random.default_rng(4)
    for pair in range(2):
        tables = two_tables(rng, 12)
        public = rows(*two_tables(rng, 7))
        largest = tables[1]["household"].mode()[0]
        other = [without(table, largest) for table in tables]
        first = recorded(case.make(), rows(*tables), public, Listening(SeededNoise(pair)), RELATION)
        answers = Listening(SeededNoise(pair), answers=first.noise.answered)
        second = recorded(case.make(), rows(*other), public, answers, RELATION)
        one, another = (
            released(run.result, tmp_path / f"{pair}{name}")
            for run, name in ((first, "a"), (second, "b"))
        )
        assert one == another
        assert charges(first) == charges(second)
        for before, after in zip(first.noise.calls, second.noise.calls, strict=True):
            assert before.moved(after) <= before.reach * (1 + 1e-9)
        assert any(a.moved(b) for a, b in zip(first.noise.calls, second.noise.calls, strict=True))
