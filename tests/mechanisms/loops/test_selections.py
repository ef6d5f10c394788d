"""What rounds chose from, told by a transcript."""

from __future__ import annotations

from jam_dagster.mechanisms import MwemPgm
from jam_dagster.mechanisms.registry import known_classes
from jam_dagster.privacy import Draws, UnledgeredAccount
from jam_dagster.tables import Workload
from tests.mechanisms.conftest import ScriptedNoise


def test_mwem_pgm_selects_from_the_workload_by_errors_above_the_cells(domain, private):
    workload = Workload.all_k_way(domain, 2)
    draws = Draws(ScriptedNoise([0, 1]), UnledgeredAccount(900.0))
    made = MwemPgm(rounds=2).run(private, None, workload, draws).transcript
    assert MwemPgm.selection_rule is not None
    first, second = MwemPgm.selection_rule.selections(made, domain, workload)
    assert first is not None
    assert second is not None
    assert tuple(first.cliques) == tuple(second.cliques) == workload.cliques
    assert first.weights.tolist() == [1, 1, 1]
    assert first.penalties.tolist() == [6, 4, 6]


def test_mechanisms_that_select_by_weighted_errors_tell_so():
    names = [name for name, one in known_classes().items() if one.selection_rule is not None]

    assert names == ["aim", "mwem_pgm"]
