"""The ledger and the stores as resources: what is refused where they are written."""

from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from jam_dagster.errors import SpecificationError
from jam_dagster.pipeline import DatasetBudget, LedgerResource, ReleaseStoreResource
from tests.pipeline.conftest import Bench


def test_the_places_are_checked_where_they_are_written() -> None:
    for wrong in (None, "", 3, Path("/x")):
        with pytest.raises(SpecificationError, match="the ledger's url must be a path or URL"):
            LedgerResource(url=wrong)  # type: ignore[arg-type]
        with pytest.raises(SpecificationError, match="the store's root must be a path or URL"):
            ReleaseStoreResource(root=wrong)  # type: ignore[arg-type]
    with pytest.raises(SpecificationError, match="private must be True or False"):
        ReleaseStoreResource(root="/x", private="no")  # type: ignore[arg-type]
    with pytest.raises(SpecificationError, match="options must be a mapping"):
        ReleaseStoreResource(root="/x", options=["anon"])  # type: ignore[arg-type]
    with pytest.raises(SpecificationError, match=r"budgets\.people must be a DatasetBudget"):
        LedgerResource(url="/x", budgets={"people": 3.0})  # type: ignore[dict-item]
    with pytest.raises(SpecificationError, match="budgets must be a mapping"):
        LedgerResource(url="/x", budgets=3.0)  # type: ignore[arg-type]
    budgets: Any = {"people": {"epsilon": 1.0, "delta": 1e-9}}
    assert LedgerResource(url="/x", budgets=budgets).budgets["people"].epsilon == 1.0


def test_variables_of_dagster_s_are_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert LedgerResource(url=dg.EnvVar("JAM_L")).url == "${JAM_L}"
    store = ReleaseStoreResource(
        root=dg.EnvVar("JAM_R"), options={"deep": [dg.EnvVar("JAM_O"), dg.EnvVar.int("JAM_N")]}
    )
    assert store.root == "${JAM_R}"
    with pytest.raises(SpecificationError, match=r"the store's root names \$\{JAM_R\}"):
        store.open()
    ledger = LedgerResource(
        url="${JAM_L}/ledger.sqlite", budgets={"people": DatasetBudget(epsilon=5.0, delta=1e-9)}
    )
    with pytest.raises(SpecificationError, match=r"JAM_L.*is not set"):
        ledger.open("people")
    monkeypatch.setenv("JAM_R", "memory://somewhere")
    with pytest.raises(SpecificationError, match=r"the store's options name \$\{JAM_O\}"):
        store.open()
    monkeypatch.setenv("JAM_O", "o")
    monkeypatch.setenv("JAM_N", "7")
    assert store.open().root.storage_options == {"deep": ["o", 7]}
    for field in ("period", "epsilon"):
        budget: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-9, field: dg.EnvVar.int("JAM_N")}
        with pytest.raises(ValueError, match=r"\$\{JAM_N\}"):
            DatasetBudget(**budget)


@pytest.mark.slow
def test_steps_and_functions_take_the_resources_by_their_types(bench: Bench) -> None:
    seen: list[object] = []

    class Reader(dg.ConfigurableResource[Any]):
        books: dg.ResourceDependency[LedgerResource]

    @dg.asset
    def reading(ledger: dg.ResourceParam[LedgerResource], reader: Reader) -> None:
        seen.extend((ledger, reader.books))

    ledger = bench.resources()["ledger"]
    made = dg.materialize([reading], resources={"ledger": ledger, "reader": Reader(books=ledger)})
    assert made.success
    assert seen == [ledger, ledger]
