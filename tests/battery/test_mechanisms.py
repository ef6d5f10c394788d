"""Nothing is registered that the quick tests leave out."""

from __future__ import annotations

from collections import Counter

from jam_dagster.mechanisms import MECHANISMS
from tests.battery.mechanisms import QUICK_CASES


def test_each_registered_mechanism_has_one_quick_case() -> None:
    assert Counter(case.make().name for case in QUICK_CASES) == Counter(MECHANISMS.keys())
