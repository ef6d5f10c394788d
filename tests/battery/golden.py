"""What seeded runs of every mechanism did when it was frozen: draws, prices, outcomes, answers.

Steps, prices and whole numbers are the same on every processor. Real numbers may follow from a
fit, whose sums round otherwise elsewhere: the file has them to six digits, and a test compares them
within a tolerance.

``python -m tests.battery.golden`` writes the file again. A change of the file names each difference
in the changelog: a release that stopped before it resumes under the new code.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from jam_dagster.mechanisms import MechanismResult
from jam_dagster.privacy import (
    Draws,
    MemoryStore,
    Neighbours,
    SeededNoise,
    UnledgeredAccount,
)
from jam_dagster.privacy.accounting import units_up
from jam_dagster.privacy.noise.calls import COUNTS, INTEGERS, SELECTION
from jam_dagster.tables import Workload
from tests.battery.fingerprint import DOMAIN, tables
from tests.battery.mechanisms import CASES, TRAINED, Case
from tests.battery.runs import whole, without_one

FILE = Path(__file__).with_name("golden.json")
RELATIONS = (
    Neighbours("replace_one"),
    Neighbours("add_remove", 2),
    Neighbours("replace_one", 3),
)
# A few steps of training hide in the tolerance that the sums of another processor need.
FROZEN = [case for case in CASES if case.name not in TRAINED]


def whole_digest(values: np.ndarray) -> str:
    """Return the digest of whole numbers; a digest of real ones would pin their last digits."""
    whole = values.astype("<i8")
    np.testing.assert_array_equal(whole, values)
    return hashlib.sha256(whole.tobytes()).hexdigest()[:12]


def six_digits(values: Iterable[float]) -> list[float]:
    return [float(f"{value:.6g}") for value in values]


def told(
    result: MechanismResult, store: MemoryStore, answers: Iterable[np.ndarray] = ()
) -> dict[str, Any]:
    """Return what a run left, in plain values: what is exact, and what is real."""
    transcript = result.transcript
    integers, real = {}, {}
    for call in transcript.calls:
        stored = store.get(call.step)
        if call.lost or stored is None:
            integers[call.step] = "lost"
        elif call.kind == SELECTION:
            integers[call.step] = [int(index) for index in stored["index"]]
        elif call.kind in (COUNTS, INTEGERS):
            integers[call.step] = whole_digest(stored["values"])
        else:
            real[call.step] = six_digits(stored["values"])
    real["size limits"] = six_digits(one.size_limit_mb or 0.0 for one in transcript.rounds)
    # Each cell counts by its place: a permutation of cells is another model.
    real["answers"] = six_digits(
        answer.ravel() @ np.linspace(1, 2, answer.size) / result.model.total for answer in answers
    )
    return {
        "exact": {
            "ended": transcript.ended,
            "records": transcript.records,
            "spent": units_up(transcript.rho_spent),
            "draws": [
                [call.step, call.kind, units_up(call.rho), call.sensitivity, call.cells]
                for call in transcript.calls
            ],
            "outcomes": integers,
            "rounds": [
                [" x ".join(one.clique), one.origin, one.candidates] for one in transcript.rounds
            ],
        },
        "real": {name: values for name, values in real.items() if values},
    }


def outcomes(case: Case) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the whole runs of a case, and those in which one draw was lost, by their names."""
    for relation in RELATIONS:
        name = f"{case.name}, {relation.relation}, {relation.max_rows}"
        made = whole(case, relation)
        yield name, told(made.result, made.store)
        if relation != RELATIONS[0]:
            continue
        for step, made in without_one(case, relation).items():
            yield f"{name}, {step} lost", told(made.result, made.store)
    # Rounds of many candidates and larger tables. The answers are of this run alone: rounding grows
    # to a per cent in fits of the others, which have not arrived yet.
    private, public = tables(600, 180)
    store = MemoryStore()
    draws = Draws(SeededNoise(3), UnledgeredAccount(1.0), store)
    made = case.make(**case.steady)
    large = made.run(private, public, Workload.all_k_way(DOMAIN, 3), draws)
    cliques = [*large.model.cliques] if not made.samples else [(name,) for name in DOMAIN.names]
    yield f"{case.name}, large", told(large, store, [large.model.marginal(q) for q in cliques])


def written() -> str:
    """Return the content of the file: one line a run."""
    lines = (
        f"{json.dumps(name)}: {json.dumps(run)}" for case in FROZEN for name, run in outcomes(case)
    )
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    FILE.write_text(written())
