"""The ledger and the stores as resources: what is refused where they are written."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from jam_dagster.errors import BudgetError, SpecificationError
from jam_dagster.pipeline import DatasetBudget, LedgerResource, ReleaseStoreResource
from jam_dagster.pipeline.budget import ledger_resource
from jam_dagster.privacy import Ledger, Policy
from jam_dagster.privacy.ledger.policy import PartitionsName
from tests.budgets import FIXED
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
    assert store.open().files.root.storage_options == {"deep": ["o", 7]}
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


def configured(home: Path, **budget: Any) -> LedgerResource:
    whole = {"epsilon": 1.0, "delta": 1e-9, **budget}
    return LedgerResource(url=str(home / "ledger.db"), budgets={"people": whole})


def test_what_the_officer_granted_counts_and_not_what_is_configured(tmp_path: Path) -> None:
    disjoint = {"partitions": "disjoint", **FIXED}
    ledger = configured(tmp_path).open("people")
    policy = Policy(period="month", **disjoint)
    ledger.grant("people", epsilon=1.2, delta=1e-9, policy=policy, attempts=5, reason="board")
    granted = ledger.balance("people")

    said: list[str] = []
    for less in ({}, {"attempts": 2}, disjoint, {"epsilon": 1.2, "period": "month"}):
        configured(tmp_path, **less).open("people", notify=said.append)
    assert all("epsilon 1.2" in one and "that counts" in one for one in said)
    assert len(said) == 4
    whole = {"epsilon": 1.2, "period": "month", "attempts": 5, **disjoint}
    configured(tmp_path, **whole).open("people", notify=said.append)
    assert len(said) == 4
    assert ledger.balance("people") == granted


MORE: dict[str, tuple[dict[str, Any], str]] = {
    "epsilon": ({"epsilon": 1.3}, "--epsilon 1.3 --delta 1e-09"),
    "a period": ({"period": "month"}, "--epsilon 1.2 --delta 1e-09 --period month"),
    "partitions": ({"partitions": "disjoint", "ground": "add/remove neighbours"}, "disjoint"),
    "a number of records": ({"records": "public"}, "--records public"),
    "attempts": ({"attempts": 4}, "--attempts 4"),
    "an approval that no grant asks for": ({"approval": "required"}, "--approval required"),
}


@pytest.mark.parametrize(("more", "command"), MORE.values(), ids=list(MORE))
def test_no_budget_is_raised_by_editing_the_configuration(
    tmp_path: Path, more: dict[str, Any], command: str
) -> None:
    ledger = configured(tmp_path).open("people")
    ledger.grant("people", epsilon=1.2, delta=1e-9, reason="board")
    with pytest.raises(BudgetError, match="configure no more than was granted") as refused:
        configured(tmp_path, **more).open("people")
    assert command in str(refused.value).rpartition("grant it: ")[2]
    assert ledger.balance("people").epsilon == 1.2


def test_definitions_grant_no_new_dataset_after_the_officer_s_word(tmp_path: Path) -> None:
    """A new name for the same people would have a budget beyond theirs."""
    ledger = configured(tmp_path).open("people")
    ledger.grant_by_hand(reason="the datasets of 2026 are granted")
    renamed = LedgerResource(url=ledger.location, budgets={"people_2": {"epsilon": 1.0}})
    before = ledger.events()
    with pytest.raises(BudgetError, match="grants each new dataset by hand") as refused:
        renamed.open("people_2")
    assert ledger.events() == before
    assert f"ledger grant --ledger {ledger.location} --dataset people_2 " in str(refused.value)
    # The officer's grant says that they are other people, and what was granted before counts.
    ledger.grant("people_2", epsilon=1.0, delta=1e-9, reason="firms")
    for resource in (renamed, configured(tmp_path)):
        resource.open(*resource.budgets)


@pytest.mark.parametrize("granted", ["disjoint", "disjoint in all tables"])
def test_partitions_of_all_tables_may_be_granted_beyond_the_configuration(
    tmp_path: Path, granted: PartitionsName
) -> None:
    ground = {"ground": "add/remove neighbours"}
    ledger = configured(tmp_path, partitions="disjoint", **ground).open("people")
    ledger.grant("people", epsilon=1.0, delta=1e-9, policy=Policy(partitions=granted, **ground))
    configured(tmp_path, partitions="disjoint", **ground).open("people")
    wanted = configured(tmp_path, partitions="disjoint in all tables", **ground)
    if granted == "disjoint":
        with pytest.raises(BudgetError, match="--partitions 'disjoint in all tables'"):
            wanted.open("people")
    else:
        wanted.open("people")


def test_a_grant_that_gives_selections_a_part_of_delta_stays(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.db")
    ledger.grant("people", epsilon=3.0, delta=1e-9, selections=5e-10)
    balance, configured = ledger.balance("people"), DatasetBudget(epsilon=3.0, delta=1e-9)
    assert ledger_resource._check_granted(balance, configured, ledger.location)
    with pytest.raises(BudgetError, match="epsilon 4"):
        ledger_resource._check_granted(balance, replace(configured, epsilon=4.0), ledger.location)
