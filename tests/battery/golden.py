"""What seeded runs of every mechanism did when it was frozen: draws, prices, outcomes, answers.

``python -m tests.battery.golden`` writes the file anew. Whoever does so names each difference in
the changelog: a release that stopped before it resumes under the new code.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from jam_dagster.mechanisms import MechanismResult
from jam_dagster.privacy import Draws, Neighbours, SeededNoise, UnledgeredAccount
from jam_dagster.privacy.accounting import units_up
from jam_dagster.tables import Workload
from tests.battery.fingerprint import DOMAIN, tables
from tests.battery.mechanisms import CASES, Case
from tests.battery.test_interruptions import Forgetful, StoppedError, marginals, run

FILE = Path(__file__).with_name("golden.json")
RELATIONS = (
    Neighbours("replace_one"),
    Neighbours("add_remove", 2),
    Neighbours("replace_one", 3),
)
RHO = 2.0


class Journalled(UnledgeredAccount):
    """An account that keeps the digests of outcomes, as a ledger does."""

    def __init__(self, rho: float) -> None:
        super().__init__(rho)
        self.digests: dict[str, str] = {}

    def confirm(self, step: str, digest: str) -> None:
        self.digests[step] = digest
        super().confirm(step, digest)


def told(result: MechanismResult, account: Journalled, answers: list[np.ndarray]) -> dict[str, Any]:
    """Return what a run left, in plain values."""
    transcript = result.transcript
    return {
        "ended": transcript.ended,
        "records": transcript.records,
        "spent": units_up(transcript.rho_spent),
        "draws": [
            [
                *(call.step, call.kind, units_up(call.rho), call.sensitivity, call.cells),
                "lost" if call.lost else account.digests[call.step][:12],
            ]
            for call in transcript.calls
        ],
        "rounds": [
            [
                *(" x ".join(one.clique), one.origin, one.candidates, one.size_limit_mb),
                *(one.rho_select, one.rho_measure, one.rho_spent),
            ]
            for one in transcript.rounds
        ],
        # Each cell counts by its place: a permutation of cells is another model.
        "answers": [
            float(f"{answer.ravel() @ np.linspace(1, 2, answer.size) / result.model.total:.6g}")
            for answer in answers
        ],
    }


def outcomes(case: Case) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the whole runs of a case, and those in which one draw was lost, by their names."""
    for relation in RELATIONS:
        account = Journalled(RHO)
        whole = run(case, relation, Forgetful(-1), account)
        name = f"{case.name}, {relation.relation}, {relation.max_rows}"
        yield name, told(whole, account, marginals(whole))
        if relation != RELATIONS[0]:
            continue
        for lost, call in enumerate(whole.transcript.calls):
            account, store = Journalled(RHO), Forgetful(lost)
            with suppress(StoppedError):
                run(case, relation, store, account)
            again = run(case, relation, store, account)
            yield f"{name}, {call.step} lost", told(again, account, marginals(again))
    # Rounds of many candidates and larger tables.
    private, public = tables()
    account = Journalled(1.0)
    made = case.make(**case.steady)
    large = made.run(private, public, Workload.all_k_way(DOMAIN, 3), Draws(SeededNoise(3), account))
    cliques = [*large.model.cliques] if not made.samples else [(name,) for name in DOMAIN.names]
    yield f"{case.name}, large", told(large, account, [large.model.marginal(q) for q in cliques])


def written() -> str:
    """Return the content of the file: one line a run."""
    lines = (
        f"{json.dumps(name)}: {json.dumps(run)}" for case in CASES for name, run in outcomes(case)
    )
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    FILE.write_text(written())
