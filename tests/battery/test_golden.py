"""Seeded runs are those of the frozen file: no step, price, sensitivity or outcome has moved."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import numpy as np
import pytest

from tests.battery.golden import FILE, FROZEN, outcomes
from tests.battery.mechanisms import Case, marked

# The fits of Private-PGM, of a tilt and of records are each frozen once in the first tier.
QUICK = ("jam_pgm", "independent", "tilt", "fem")
LATER = [case for case in FROZEN if case.name not in QUICK]


@cache
def frozen() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(FILE.read_text())
    return content


@pytest.mark.parametrize("case", marked(FROZEN, LATER))
def test_seeded_runs_are_those_that_were_frozen(case: Case) -> None:
    names = set()
    for name, told in outcomes(case):
        was, now = frozen()[name], json.loads(json.dumps(told))
        assert now["exact"] == was["exact"], name
        assert now["real"].keys() == was["real"].keys(), name
        for what, values in now["real"].items():
            # Sums with other rounding move what a fit ends with, on another processor.
            message = f"{name}: {what}"
            np.testing.assert_allclose(values, was["real"][what], rtol=5e-3, err_msg=message)
        names.add(name)
    assert names == {name for name in frozen() if name.startswith(f"{case.name},")}


def test_the_file_has_no_other_runs() -> None:
    cases = {case.name for case in FROZEN}
    assert {name.split(",")[0] for name in frozen()} == cases
