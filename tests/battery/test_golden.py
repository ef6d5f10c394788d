"""Seeded runs are those of the frozen file: no step, price, sensitivity or outcome has moved."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import numpy as np
import pytest

from tests.battery.golden import FILE, outcomes
from tests.battery.mechanisms import CASES, SLOW_CASES, Case

# They take more CPU-seconds than a quick test may.
LONG = ("dualquery", "gem", "gem_pub", "rap_softmax")
LATER = [*SLOW_CASES, *(case for case in CASES if case.name in LONG)]


@cache
def frozen() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(FILE.read_text())
    return content


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=case.name, marks=pytest.mark.slow if case in LATER else ())
        for case in CASES
    ],
)
def test_seeded_runs_are_those_that_were_frozen(case: Case) -> None:
    names = set()
    for name, told in outcomes(case):
        was, now = dict(frozen()[name]), json.loads(json.dumps(told))
        # Sums with other rounding move what a fit ends with, on another processor.
        np.testing.assert_allclose(now.pop("answers"), was.pop("answers"), rtol=5e-3, err_msg=name)
        assert now == was, name
        names.add(name)
    assert names == {name for name in frozen() if name.startswith(f"{case.name},")}


def test_the_file_has_no_other_runs() -> None:
    cases = {case.name for case in CASES}
    assert {name.split(",")[0] for name in frozen()} <= cases
