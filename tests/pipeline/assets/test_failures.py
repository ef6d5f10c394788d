"""A step fails by one sentence, and Dagster shows no traceback of it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from jam_dagster.errors import DomainError, InputError, PrivateValuesError
from jam_dagster.pipeline.assets.failures import failing_by_a_sentence
from jam_dagster.pipeline.graph import PRIVATE_STORE, RELEASABLE_STORE
from jam_dagster.pipeline.storage.store_resource import ReleaseStoreResource


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


@pytest.mark.parametrize("private", [True, False])
def test_a_path_is_shown_as_its_store_is_configured(
    private: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WHERE", f"{tmp_path}/tok3n")
    store = ReleaseStoreResource(root="${WHERE}/x", private=private).open()
    key = PRIVATE_STORE if private else RELEASABLE_STORE

    def reads(context: dg.AssetExecutionContext) -> None:
        del context
        raise InputError(f"{store.files.root / 'run.json'} is damaged")

    with pytest.raises(dg.Failure) as caught:
        failing_by_a_sentence(reads)(dg.build_asset_context(resources={key: store}))
    assert caught.value.description == "${WHERE}/x/run.json is damaged"


def test_other_errors_are_dagsters() -> None:
    with pytest.raises(ZeroDivisionError):
        failing_by_a_sentence(returns)(ZeroDivisionError())
    assert next(failing_by_a_sentence(yields)(ValueError())) == 1
