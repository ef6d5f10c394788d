"""Record and replay: what is not noise must not depend on a private record.

A run is recorded, and made again on a neighbouring table with the noise answering as it did
before. Whatever may leave must then be equal bit for bit, and what went into each draw must lie as
close together as its noise was made for.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jam_dagster.errors import DomainError
from jam_dagster.mechanisms import Mechanism, MechanismResult, mechanism_class
from jam_dagster.mechanisms.loops.rows import release_rows, with_search
from jam_dagster.privacy import Draws, MemoryStore, Neighbours, SeededNoise, UnledgeredAccount
from jam_dagster.tables import Domain, EncodedTable, Workload
from tests.battery.listening import Listening
from tests.battery.mechanisms import (
    CASES,
    FITTED_BY_MBI,
    OF_EACH_KIND,
    Case,
    every_mechanism,
    every_relation,
    marked,
    of_each_kind,
)
from tests.privacy.neighbours import RELATIONS, neighbours
from tests.tiers import first_quick

DOMAIN = Domain.from_sizes({"a": 3, "b": 2, "c": 2})
RECORDS = 12


def table(joint: np.ndarray) -> EncodedTable:
    """Return the table of a joint distribution of counts."""
    cells = np.repeat(np.arange(joint.size), joint.ravel())
    return EncodedTable(DOMAIN, np.unravel_index(cells, joint.shape))


@dataclass(frozen=True, eq=False)
class Recorded:
    """A run with all that it asked of noise, account and store."""

    result: MechanismResult
    noise: Listening
    account: UnledgeredAccount
    store: MemoryStore


def recorded(
    mechanism: Mechanism,
    private: EncodedTable,
    public: EncodedTable,
    noise: Listening,
    relation: Neighbours,
    store: MemoryStore | None = None,
    rho: float = 2.0,
) -> Recorded:
    store = MemoryStore() if store is None else store
    account = UnledgeredAccount(rho)
    draws = Draws(noise, account, store, neighbours=relation)
    workload = Workload.all_k_way(private.domain, 2)
    return Recorded(mechanism.run(private, public, workload, draws), noise, account, store)


def pairs(
    number: int, seed: int, relation: Neighbours
) -> Iterator[tuple[EncodedTable, EncodedTable, EncodedTable]]:
    """Yield neighbours and a public table, from even to almost constant."""
    rng = np.random.default_rng(seed)
    for one, other in neighbours(
        DOMAIN.shape, records=RECORDS, pairs=number, rng=rng, relation=relation
    ):
        public = rng.multinomial(7, rng.dirichlet(np.full(one.size, 10 ** rng.uniform(-2, 1))))
        yield table(one), table(other), table(public.reshape(one.shape))


def released(result: MechanismResult, folder: Path) -> dict[str, object]:
    """Return everything that a run gives away, as plain values and bytes."""
    result.transcript.save(folder / "transcript")
    result.model.save(folder / "model")
    described = json.loads((folder / "transcript" / "transcript.json").read_text())
    domain, synthetic = result.model.domain, []
    if mechanism_class(result.transcript.mechanism).samples:
        transcript = with_search(result.transcript, {"degree": 2})
        (made,) = release_rows(result.model, transcript)
        synthetic = [one.to_csv() for one in (made.table, made.children) if one is not None]
    return {
        "transcript": described,
        "domain": domain,
        "values": [m.values.tobytes() for m in result.transcript.measurements],
        "sigma": [m.sigma for m in result.transcript.measurements],
        "model": [
            result.model.marginal(q).tobytes() for q in Workload.all_k_way(domain, 2).cliques
        ],
        "files": sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*")),
        "potentials": {p.name: p.read_bytes() for p in (folder / "model").rglob("*.npz")},
        "synthetic": synthetic,
    }


def charges(run: Recorded) -> dict[str, float | None]:
    return {call.step: run.account.charged(call.step) for call in run.noise.calls}


def check_released_alike(case: Case, relation: Neighbours, folder: Path, number: int = 2) -> None:
    for pair, (one, other, public) in enumerate(pairs(number, 10, relation)):
        mechanism = case.make()
        first = recorded(
            mechanism, one, public, Listening(SeededNoise(pair)), relation, rho=case.rho
        )
        answers = Listening(SeededNoise(pair), answers=first.noise.answered)
        second = recorded(mechanism, other, public, answers, relation, rho=case.rho)
        assert released(first.result, folder / f"{pair}a") == released(
            second.result, folder / f"{pair}b"
        )
        assert [(c.kind, c.step, c.rho, c.reach, c.asked.shape) for c in first.noise.calls] == [
            (c.kind, c.step, c.rho, c.reach, c.asked.shape) for c in second.noise.calls
        ]
        assert charges(first) == charges(second)
        assert first.account.spent == second.account.spent


@pytest.mark.parametrize("number", first_quick([1, 2]), ids=["one pair", "pairs"])
@every_relation
@every_mechanism
def test_neighbours_are_released_alike(
    case: Case, relation: Neighbours, number: int, tmp_path: Path
) -> None:
    check_released_alike(case, relation, tmp_path, number)


@pytest.mark.slow
def test_neighbours_are_released_alike_by_another_fit(tmp_path: Path) -> None:
    check_released_alike(FITTED_BY_MBI, Neighbours("add_remove"), tmp_path)


@of_each_kind
def test_whether_there_is_anybody_is_not_told(case: Case, tmp_path: Path) -> None:
    relation = Neighbours("add_remove")
    nobody = np.zeros(DOMAIN.shape, dtype=int)
    somebody = nobody.copy()
    somebody[1, 1, 0] = 1
    public = table(np.arange(12).reshape(DOMAIN.shape))
    mechanism = case.make()
    first = recorded(
        mechanism, table(nobody), public, Listening(SeededNoise(0)), relation, rho=case.rho
    )
    answers = Listening(SeededNoise(0), answers=first.noise.answered)
    second = recorded(mechanism, table(somebody), public, answers, relation, rho=case.rho)
    assert released(first.result, tmp_path / "a") == released(second.result, tmp_path / "b")
    assert charges(first) == charges(second)


@every_mechanism
def test_a_table_of_nobody_is_refused_where_their_number_is_public(case: Case) -> None:
    nobody, public = table(np.zeros(DOMAIN.shape, dtype=int)), table(np.ones(DOMAIN.shape, int))
    noise = Listening(SeededNoise(0))
    with pytest.raises(DomainError, match="private table is empty"):
        recorded(case.make(), nobody, public, noise, Neighbours())
    assert not noise.calls


@every_relation
@of_each_kind
def test_what_is_stored_is_released_alike_and_asks_nothing(
    case: Case, relation: Neighbours, tmp_path: Path
) -> None:
    for pair, (one, other, public) in enumerate(pairs(1, 2, relation)):
        mechanism = case.make()
        first = recorded(
            mechanism, one, public, Listening(SeededNoise(pair)), relation, rho=case.rho
        )
        again = recorded(
            mechanism,
            other,
            public,
            Listening(SeededNoise(pair), answers={}),
            relation,
            first.store,
            rho=case.rho,
        )
        assert not again.noise.calls
        assert again.account.spent == 0
        assert released(again.result, tmp_path / f"{pair}b") == released(
            first.result, tmp_path / f"{pair}a"
        )


def largest_moves(
    case: Case, relation: Neighbours, number: int, seed: int, **settings: Any
) -> dict[str, float]:
    """Return how far the inputs of each kind of draw moved, as part of what the noise allows."""
    largest = dict.fromkeys(("select", "counts", "values"), 0.0)
    for pair, (one, other, public) in enumerate(pairs(number, seed, relation)):
        mechanism = case.make(**settings)
        first = recorded(
            mechanism, one, public, Listening(SeededNoise(pair)), relation, rho=case.rho
        )
        second = recorded(
            mechanism,
            other,
            public,
            Listening(SeededNoise(pair), answers=first.noise.answered),
            relation,
            rho=case.rho,
        )
        for before, after in zip(first.noise.calls, second.noise.calls, strict=True):
            assert before.reach == after.reach
            moved = before.moved(after) / before.reach
            largest[before.kind] = max(largest[before.kind], moved)
    return largest


def check_moves(case: Case, relation: Neighbours, short: int, number: int, seed: int = 3) -> None:
    largest = largest_moves(case, relation, number, seed, **case.short[short])
    for kind, moved in largest.items():
        assert moved <= 1 + 1e-9, kind
    moving = {kind for kind, moved in largest.items() if moved}
    # Whatever it draws, a mechanism may measure a private number of records.
    wanted = {*(case.draws or ()), *(() if relation.records_public else ("counts",))}
    assert moving == wanted or (case.draws is None and moving)
    for kind in moving & set(case.attained):
        assert largest[kind] == pytest.approx(1.0, abs=1e-9)


# Their sensitivities are their own.
OWN_SENSITIVITIES = (*OF_EACH_KIND, "dualquery", "privbayes_pgm")


@pytest.mark.parametrize(
    "case", marked(CASES, [case for case in CASES if case.name not in OWN_SENSITIVITIES])
)
def test_inputs_of_draws_move_as_far_as_their_noise_is_made_for(case: Case) -> None:
    """Through the mechanism itself: no draw's input moves further, and some move that far.

    The pairs of this seed move the draws of every mechanism so far.
    """
    check_moves(case, RELATIONS[0], 0, 3, seed=8)


@pytest.mark.slow
@pytest.mark.parametrize("short", [0, 1])
@pytest.mark.parametrize("relation", RELATIONS, ids=Neighbours.describe)
@every_mechanism
def test_no_input_moves_further_in_more_pairs(case: Case, relation: Neighbours, short: int) -> None:
    check_moves(case, relation, short, 12)


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.parametrize("short", first_quick([0, 1]))
@every_relation
@every_mechanism
def test_no_input_moves_further_in_many_pairs(case: Case, relation: Neighbours, short: int) -> None:
    check_moves(case, relation, short, 40)
