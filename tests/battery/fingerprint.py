"""Seeded runs of mechanisms, told in one line: `test_determinism` makes them in many processes."""

from __future__ import annotations

import hashlib
import json
import os
import sys

import numpy as np

from jam_dagster.mechanisms.loops.rows import sample_rows, with_search
from jam_dagster.privacy import Draws, SeededNoise, UnledgeredAccount
from jam_dagster.tables import Domain, EncodedTable, Workload
from tests.battery.mechanisms import CASES

DOMAIN = Domain.from_sizes({"town": 40, "age": 20, "job": 10, "sex": 2, "wealth": 7})


def tables(private: int = 3000, public: int = 900) -> tuple[EncodedTable, EncodedTable]:
    rng = np.random.default_rng(0)

    def one(rows: int) -> EncodedTable:
        first = rng.integers(40, size=rows)
        columns = [(first * factor + rng.integers(3, size=rows)) for factor in (1, 2, 5, 1, 3)]
        return EncodedTable(
            DOMAIN, tuple(c % size for c, size in zip(columns, DOMAIN.shape, strict=True))
        )

    return one(private), one(public)


def fingerprint(name: str) -> dict[str, object]:
    (case,) = (case for case in CASES if case.name == name)
    private, public = tables()
    draws = Draws(SeededNoise(3), UnledgeredAccount(1.0))
    mechanism = case.make(**case.steady)
    result = mechanism.run(private, public, Workload.all_k_way(DOMAIN, 3), draws)
    transcript, model = with_search(result.transcript, {"degree": 3}), result.model
    synthetic: tuple[np.ndarray, ...] = ()
    # Without the compiled kernels the search takes minutes: `test_row_search` compares the two.
    if mechanism.samples and os.environ.get("JAM_KERNELS") != "numpy":
        synthetic = sample_rows(model, transcript).columns
    values = b"".join(measurement.values.tobytes() for measurement in transcript.measurements)
    return {
        "choices": [(done.clique, done.source, done.candidates) for done in transcript.rounds],
        "charges": [(call.step, call.rho) for call in transcript.calls],
        "measured": hashlib.sha256(values).hexdigest(),
        "marginals": [model.marginal((name,)).tolist() for name in DOMAIN.names],
        "synthetic": hashlib.sha256(b"".join(c.tobytes() for c in synthetic)).hexdigest(),
    }


if __name__ == "__main__":
    print(json.dumps({name: fingerprint(name) for name in sys.argv[1:]}))  # noqa: T201
