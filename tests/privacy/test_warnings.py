"""Warnings of configurations that are allowed and yet deserve a second look."""

from __future__ import annotations

import pytest

from jam_dagster.privacy.warnings import configuration_warnings


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(1.0, 1e-9), (10.0, 1e-6), (20.0, 1e-9), (0.1, 3e-12)]
)
def test_usual_configurations_are_fine(epsilon: float, delta: float) -> None:
    assert configuration_warnings(epsilon, delta, 48_842) == ()


def test_a_delta_not_below_one_in_n() -> None:
    for delta in (1 / 600, 0.01, 0.5):
        assert any("is not below 1 / n" in one for one in configuration_warnings(1.0, delta, 600))
    assert configuration_warnings(1.0, 0.0016, 600) == ()


@pytest.mark.parametrize(
    ("power", "said"),
    [(1.0, "is 1 / n:"), (1.1, "1 / n^1.1"), (1.5, "1 / n^1.5"), (2.0, "1 / n^2")],
)
def test_a_delta_computed_from_n(power: float, said: str) -> None:
    for records in (397, 48_842):
        delta = float(f"{records**-power:.4g}")
        assert any(said in one for one in configuration_warnings(1.0, delta, records))


def test_a_power_of_ten_is_somebodys_choice() -> None:
    # It is 1 / n^2 too, but everybody writes 1e-6.
    assert configuration_warnings(1.0, 1e-6, 1000) == ()


def test_a_large_epsilon() -> None:
    (warning,) = configuration_warnings(40.0, 1e-9, 1000)
    assert warning.startswith("epsilon = 40 is large")
    assert configuration_warnings(20.1, 1e-9, 1000)
    (warning,) = configuration_warnings(1e6, 1e-9, 1000)
    assert warning.endswith("e^1e+06 times as likely (which is no protection).")


def test_one_row() -> None:
    assert configuration_warnings(1.0, 1e-9, 1) == ()
