"""A release without a public table, by a mechanism that learns from none."""

import json

import dagster as dg
import pytest

from jam_dagster.certificates import verify
from jam_dagster.errors import SpecificationError
from jam_dagster.release import EvaluationSpec, MechanismSpec, PrivacySpec
from jam_dagster.release.sections import DomainSpec
from jam_dagster.tables import AssetSource, Domain
from tests.budgets import PUBLIC_N
from tests.pipeline.conftest import DOMAIN, Bench, failure, told

AIM = {
    "public": None,
    "mechanism": MechanismSpec("aim", rounds=8, iterations=50),
    "evaluation": EvaluationSpec(mode="private"),
}


def test_nothing_public_is_in_the_graph(bench: Bench) -> None:
    definitions = bench.definitions(**AIM)
    graph = definitions.resolve_asset_graph()
    names = {key.path[-1] for key in graph.get_all_asset_keys()}
    assert {"private_discretized", "aim", "synthetic_records", "release_report"} <= names
    assert not any("public" in name for name in names)
    checks = {key.name for key in graph.asset_check_keys}
    assert "better_than_uniform" in checks
    assert not any("public" in name for name in checks)
    specs = [spec for one in definitions.asset_checks or () for spec in one.check_specs]
    described = {spec.name: spec.description for spec in specs}
    assert described["error_known"] == "The workload error is known beyond its noise."
    assert described["better_than_uniform"] == (
        "The domain fits, and the error is less than that of a uniform table."
    )


@pytest.mark.slow
def test_a_whole_release(bench: Bench) -> None:
    result = bench.run(**AIM)

    assert result.success, failure(result)
    shown = told(result)
    assert "distributions" in shown["synthetic_records"]
    assert "synthetic_mean" in shown["workload_error"]
    assert "public_mean" not in shown["workload_error"]
    assert "a uniform table: mean error" in shown["workload_error"]["verdict"]
    assert shown["release_report"]["verdict"] == shown["workload_error"]["verdict"]
    page = result.asset_value(dg.AssetKey(["people", "release_report"]))
    assert "public table" not in page
    assert "each of these numbers was released" in page.lower()
    folder = bench.releases / "people" / "release_certificate"
    assert json.loads((folder / "certificate.json").read_text())["mechanism"]["name"] == "aim"
    findings = verify(folder, ledger=bench.ledger)
    assert all(one.passed for one in findings), [one for one in findings if not one.passed]

    spent = bench.ledger.balance("people").spent_units
    again = bench.run(["aim", "synthetic_records", "workload_error"], **AIM)
    assert again.success, failure(again)
    assert bench.ledger.balance("people").spent_units == spent


@pytest.mark.slow
def test_a_release_buys_what_its_domain_asks_for(bench: Bench) -> None:
    """The asset `domain` is what is asked for; the certificate has what was bought."""
    asked = DOMAIN.to_dict()
    name = next(iter(asked["attributes"]))
    asked["attributes"][name] = {"values": "paid", "at_most": 9}
    domain = Domain.from_dict({**asked, "share": 0.3})
    bench.ledger.grant("people", epsilon=20.0, delta=1e-9, selections=5e-10, policy=PUBLIC_N)
    given = {**AIM, "domain": DomainSpec(declared=domain), "privacy": PrivacySpec(epsilon=10.0)}
    result = bench.run(**given)

    assert result.success, failure(result)
    folder = bench.releases / "people" / "release_certificate"
    findings = verify(folder, ledger=bench.ledger)
    assert all(one.passed for one in findings), [one for one in findings if not one.passed]
    bought = Domain.load(folder / "domain.yaml")
    assert bought.bought is not None
    assert bought.specified == domain.digest
    assert bench.ledger.balance("people").used_selections == 5 * 10**8
    assert f"{name}: 2 values and other" in told(result)["aim"]["bought"]

    spent = bench.ledger.balance("people").spent_units
    again = bench.run(**given)
    assert again.success, failure(again)
    assert bench.ledger.balance("people").spent_units == spent


@pytest.mark.slow
def test_a_whole_domain_is_bought_by_the_columns_of_the_private_table(bench: Bench) -> None:
    """Names and declared types are schema: `domain` asks for them before anything is opened."""
    paid = DomainSpec(identify="paid", types={"age": "integer"}, share=0.3)
    given = {**AIM, "domain": paid, "privacy": PrivacySpec(epsilon=10.0)}
    bench.budget = None
    bench.ledger.grant("people", epsilon=20.0, delta=1e-9, policy=PUBLIC_N)
    refused = bench.run(["domain", "privacy_budget"], **given)
    assert "--selection-delta" in failure(refused)
    assert bench.kinds() == []
    asked = refused.asset_value(dg.AssetKey(["people", "domain"]))
    assert asked.asked.names == ("age", "sex", "town", "job")
    assert told(refused)["domain"]["origin"].startswith("asks for what the budget buys")

    bench.ledger.grant("people", epsilon=20.0, delta=1e-9, selections=5e-10, policy=PUBLIC_N)
    result = bench.run(**given)
    assert result.success, failure(result)
    folder = bench.releases / "people" / "release_certificate"
    findings = verify(folder, ledger=bench.ledger)
    assert all(one.passed for one in findings), [one for one in findings if not one.passed]
    bought = Domain.load(folder / "domain.yaml")
    assert bought.specified == asked.digest
    assert bought.attribute("age").binned
    text = told(result)["aim"]["bought"]
    assert "sex: 2 values and other (" in text
    assert text.count("%") == 3

    spent = bench.ledger.balance("people").spent_units
    again = bench.run(**given)
    assert again.success, failure(again)
    assert bench.ledger.balance("people").spent_units == spent

    # Other columns are another domain, and the stored one is of the table before.
    table = bench.private.read_text()
    bench.private.write_text(table.replace("town", "place", 1))
    stale = bench.run(["privacy_budget"], **given)
    assert "Materialize domain first" in failure(stale)
    bench.private.write_text(table)
    asset = {**given, "private": AssetSource("raw")}
    with pytest.raises(SpecificationError, match="name them in a domain file"):
        bench.definitions(**asset)
