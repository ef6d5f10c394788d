"""Independent by hand: equal shares, and what is left out."""

from __future__ import annotations

import numpy as np
import pytest

from jam_dagster.errors import SpecificationError
from jam_dagster.mechanisms.independent import Independent
from jam_dagster.privacy import Draws, UnledgeredAccount
from jam_dagster.tables import Workload
from tests.mechanisms.conftest import ScriptedNoise


def run(private, workload, rho, noise, **settings):
    draws = Draws(noise, UnledgeredAccount(rho))
    return Independent(**{"tolerance": 0.0} | settings).run(private, None, workload, draws)


def test_every_attribute_has_an_equal_share(private, workload):
    noise = ScriptedNoise([])
    result = run(private, workload, 0.9, noise)
    assert [m["rho"] for m in noise.measurements] == pytest.approx([0.3, 0.3, 0.3])
    assert [r.clique for r in result.transcript.rounds] == [("a",), ("b",), ("c",)]
    assert result.transcript.rho_spent == pytest.approx(0.9)
    assert result.transcript.ended == "all rounds"
    assert Independent().expected_rounds(private.domain, workload) == 3


def test_what_the_workload_does_not_name_is_not_paid_for(domain, private):
    noise = ScriptedNoise([])
    result = run(private, Workload.of(domain, [("c", "a")]), 0.9, noise)
    assert [m["rho"] for m in noise.measurements] == pytest.approx([0.45, 0.45])
    np.testing.assert_allclose(result.model.marginal(("b",)), [4, 4, 4])


def test_too_little_is_refused(domain, workload):
    with pytest.raises(SpecificationError, match=r"3 draws .* Raise epsilon, or use fewer attr"):
        Independent().check(domain, workload, 2e-12)
    with pytest.raises(SpecificationError, match="Raise epsilon"):
        Independent().check_budget(1e-13)
