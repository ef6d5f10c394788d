"""A step fails by one sentence, and Dagster shows no traceback of it."""

from collections.abc import Callable, Iterator
from typing import Any

import dagster as dg
import pytest

from jam_dagster.errors import DomainError, PrivateValuesError
from jam_dagster.pipeline.assets.failures import failing_by_a_sentence


def returns(fault: Exception) -> int:
    raise fault


def yields(fault: Exception) -> Iterator[int]:
    yield 1
    raise fault


@pytest.mark.parametrize("step", [returns, yields])
def test_the_sentence_is_all_that_dagster_gets(step: Callable[[Exception], Any]) -> None:
    with pytest.raises(dg.Failure) as caught:
        list(failing_by_a_sentence(step)(DomainError("column age is missing")))
    failure = caught.value
    assert failure.description == str(failure) == "column age is missing"
    assert failure.metadata["error"].value == "DomainError"
    assert not failure.allow_retries
    # Neither the error nor its frames come along.
    assert failure.__cause__ is failure.__context__ is None
    assert {"returns", "yields"}.isdisjoint(one.name for one in caught.traceback)


def test_a_private_fault_is_always_the_same() -> None:
    faults = []
    for cause in ("17 is no age", "Bern"):
        error = PrivateValuesError()
        error.__context__ = ValueError(cause)
        with pytest.raises(dg.Failure) as caught:
            failing_by_a_sentence(returns)(error)
        faults.append((caught.value.description, caught.value.metadata))
    assert faults[0] == faults[1]


def test_other_errors_are_dagsters() -> None:
    with pytest.raises(ZeroDivisionError):
        failing_by_a_sentence(returns)(ZeroDivisionError())
    assert next(failing_by_a_sentence(yields)(ValueError())) == 1
