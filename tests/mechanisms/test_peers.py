"""The mechanisms beside each other: what all that fit a model promise, and what papers found."""

from __future__ import annotations

import numpy as np
import pytest

from jam_dagster.mechanisms import MECHANISMS, make_mechanism
from jam_dagster.mechanisms.loops.settings import settings_of
from jam_dagster.privacy import Draws, SeededNoise, UnledgeredAccount
from jam_dagster.tables import Domain, EncodedTable, Workload


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [name for name in MECHANISMS if not make_mechanism(name).uses_public]
)
def test_public_tables_are_nothing_to_who_learns_from_none(name, domain, private):
    small = {"rounds": 2, "components": 4, "iterations": 2, "width": 2}
    made = make_mechanism(name)
    chosen = {key: value for key, value in small.items() if key in settings_of(type(made))}
    chosen = {} if name == "aim" else chosen
    part = EncodedTable(domain.project(("a",)), (np.array([0, 1]),))
    other = EncodedTable(Domain.from_sizes({"z": 2}), (np.array([0, 1]),))
    answers = []
    for public in (None, part, other):
        draws = Draws(SeededNoise(3), UnledgeredAccount(1.0))
        workload = Workload.all_k_way(domain, 2)
        result = make_mechanism(name, **chosen).run(private, public, workload, draws)
        answers.append(result.model.marginal(("a", "b")).tolist())
    assert answers[0] == answers[1] == answers[2]
