"""Whatever the noise says, a run that has paid ends with a model, a transcript and rows."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jam_dagster.evaluation.bounds.error_bounds import known_bounds
from jam_dagster.mechanisms import Transcript, refit
from jam_dagster.privacy import Draws, Neighbours, UnledgeredAccount
from jam_dagster.tables import Domain, EncodedTable, Workload
from tests.battery.adversary import Adversary
from tests.battery.mechanisms import Case, of_each_kind
from tests.examples import examples
from tests.mechanisms.extremes import DOMAINS, PLAIN, check_model, check_rows, possible
from tests.privacy.neighbours import RELATIONS
from tests.small_runs import REFUSING_IMPOSSIBLE

WORKLOAD = Workload.all_k_way(PLAIN, 2)


def records(domain: Domain, rows: int, seed: int) -> EncodedTable:
    """Return a table of records that are possible."""
    cells = np.flatnonzero(possible(domain, domain.names))
    drawn = np.random.default_rng(seed).choice(cells, rows)
    return EncodedTable(domain, tuple(np.unravel_index(drawn, domain.shape)))


# The fit of Private-PGM is tried by itself: `test_private_pgms_own_fit`.
@of_each_kind
@pytest.mark.filterwarnings("error::RuntimeWarning")
@examples(8)
@given(
    data=st.data(),
    domain=st.sampled_from(DOMAINS),
    # Noise from a hundredth of a record to many thousands of them.
    rho=st.sampled_from([1e-9, 1.0, 8000.0]),
    relation=st.sampled_from(RELATIONS),
    rows=st.sampled_from([1, 30]),
)
def test_a_run_ends_with_a_model(
    case: Case, data: st.DataObject, domain: Domain, rho: float, relation: Neighbours, rows: int
) -> None:
    mechanism = case.make()
    if mechanism.name in REFUSING_IMPOSSIBLE:
        domain = PLAIN
    private, public = records(domain, rows, 0), records(domain, 31 - rows, 1)
    draws = Draws(Adversary(data), UnledgeredAccount(rho), neighbours=relation)
    result = mechanism.run(private, public, WORKLOAD, draws)
    total = result.transcript.records
    assert total >= 1
    asked = list(WORKLOAD.downward_closure())
    check_model(result.model, domain, total, asked)
    if mechanism.samples:
        check_rows(result.model, domain, total)
    with tempfile.TemporaryDirectory() as folder:
        result.transcript.save(Path(folder) / "run")
        result.model.save(Path(folder) / "model")
        transcript = Transcript.load(Path(folder) / "run")
    again = refit(transcript, domain, WORKLOAD, case.learns(public))
    for clique in asked:
        np.testing.assert_allclose(
            again.marginal(clique), result.model.marginal(clique), rtol=0, atol=1e-9 * total
        )
    bounds = known_bounds(transcript, domain, WORKLOAD, released=result.model)
    assert bounds is None or all(np.isfinite(one.bound) for one in bounds.bounds)
