"""What a choice is made by, as bounds on errors see it."""

from __future__ import annotations

from jam_dagster.mechanisms import Replay
from jam_dagster.mechanisms.context import Selection
from jam_dagster.mechanisms.mwem_pgm import MwemPgm
from jam_dagster.mechanisms.registry import MECHANISMS
from jam_dagster.privacy import Draws, UnledgeredAccount
from jam_dagster.tables import Workload
from tests.mechanisms.conftest import ScriptedNoise


def test_mwem_pgm_selects_from_the_workload_by_errors_above_the_cells(domain, private):
    workload = Workload.all_k_way(domain, 2)
    draws = Draws(ScriptedNoise([0, 1]), UnledgeredAccount(900.0))
    made = MwemPgm(rounds=2).run(private, None, workload, draws).transcript
    seen: list[Selection] = []
    again = Replay(made, domain, workload)
    again.on_selection = seen.append
    again.run()
    first, second = seen
    assert tuple(first.cliques) == tuple(second.cliques) == workload.cliques
    assert first.weights.tolist() == [1, 1, 1]
    assert first.penalties.tolist() == [6, 4, 6]
    # The models are those before the choices.
    assert first.model.cliques == ()
    assert second.model.cliques == (workload.cliques[0],)


def test_mechanisms_that_select_by_weighted_errors_tell_so():
    names = [name for name, one in MECHANISMS.items() if one.bounds_errors]

    assert names == ["aim", "mwem_pgm"]
