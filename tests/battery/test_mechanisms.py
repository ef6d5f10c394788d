"""The battery finds mechanisms by itself."""

from __future__ import annotations

import pytest

from jam_dagster.mechanisms import MECHANISMS
from tests.battery.mechanisms import QUICK_CASES, generic


def test_no_registered_mechanism_is_left_out() -> None:
    assert {case.make().name for case in QUICK_CASES} == set(MECHANISMS)


@pytest.mark.parametrize("name", MECHANISMS)
def test_one_without_a_case_of_its_own_is_a_small_run(name: str) -> None:
    case = generic(name)

    assert case.make().name == name
    for settings in (*case.short, *case.variants, case.steady):
        assert case.make(**settings).parameters().get("rounds", 3) <= 6
