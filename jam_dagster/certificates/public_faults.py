"""Whether what a transcript says was measured in public tables is what these hold."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from jam_dagster.mechanisms import Transcript
from jam_dagster.tables import Domain, MarginalSource, PublicTables

_CLOSE = 1e-9
"""Relative: counts are scaled to the number of private records in floats."""


def public_rounds(transcript: Transcript) -> int:
    """Return how many rounds measured a public table."""
    return sum(one.source == "public" for one in transcript.rounds)


def public_faults(transcript: Transcript, domain: Domain, public: MarginalSource) -> Iterator[str]:
    """Yield which public measurements are not the public table's counts, scaled to the records."""
    tables = PublicTables.of(domain, public).tables
    for done in transcript.rounds:
        if done.source != "public":
            continue
        table = tables.get(done.table)
        called = f"round {done.index + 1}"
        if table is None:
            yield f"{called} measured the public table {done.table!r}, which was not given"
        elif done.measurement is None or not set(done.clique) <= table.domain.positions.keys():
            yield f"{called} tells nothing that the public table could have answered"
        else:
            counts = table.marginal(done.clique) * (transcript.records / table.records)
            told = done.measurement.values
            if told.shape != counts.shape or not np.allclose(
                told, counts, rtol=_CLOSE, atol=_CLOSE
            ):
                yield f"{called} tells other counts than the public table has"
