"""Checks that the public measurements of a transcript match the public tables."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from jam_dagster.mechanisms import Transcript
from jam_dagster.tables import Domain, MarginalSource, PublicTables

_CLOSE = 1e-9
"""Relative tolerance: counts are scaled to the number of private records in floats."""


def public_rounds(transcript: Transcript) -> int:
    """Return the number of rounds that measured a public table."""
    return sum(one.source == "public" for one in transcript.rounds)


def public_faults(transcript: Transcript, domain: Domain, public: MarginalSource) -> Iterator[str]:
    """Yield the public measurements that differ from the public table's scaled counts."""
    tables = PublicTables.of(domain, public).tables
    for done in transcript.rounds:
        if done.source != "public":
            continue
        table = tables.get(done.table)
        called = f"round {done.index + 1}"
        if table is None:
            yield f"{called} measured the public table {done.table!r}, which was not given"
        elif done.measurement is None or not set(done.clique) <= table.domain.positions.keys():
            yield f"{called} records no measurement that the public table could have answered"
        else:
            counts = table.marginal(done.clique) * (transcript.records / table.records)
            recorded = done.measurement.values
            if recorded.shape != counts.shape or not np.allclose(
                recorded, counts, rtol=_CLOSE, atol=_CLOSE
            ):
                yield f"{called} records other counts than the public table has"
