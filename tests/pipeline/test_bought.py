"""Releases whose domain is bought, by the columns of the private table or next to a public one."""

import dagster as dg
import pandas as pd
import pytest

from jam_dagster.certificates import verify
from jam_dagster.errors import SpecificationError
from jam_dagster.release import PrivacySpec
from jam_dagster.release.sections import DomainSpec
from jam_dagster.tables import AssetSource, Domain, source_from_config
from tests.budgets import PUBLIC_N
from tests.pipeline.conftest import DOMAIN, Bench, failure, people, told
from tests.pipeline.test_without_public import AIM


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


@pytest.mark.slow
def test_values_that_the_public_table_lacks_are_bought(bench: Bench) -> None:
    """Its own values stay, and its records are those of the bought domain in each step."""
    public = people(200, seed=1)
    pd.DataFrame(public[public["town"] != "Cork"]).to_csv(bench.public, index=False)
    bench.budget = None
    bench.ledger.grant("people", epsilon=20.0, delta=1e-9, selections=5e-10, policy=PUBLIC_N)
    paid = DomainSpec(identify="paid", share=0.3)
    result = bench.run(domain=paid, privacy=PrivacySpec(epsilon=10.0))

    assert result.success, failure(result)
    assert "public_mean" in told(result)["workload_error"]
    folder = bench.releases / "people" / "release_certificate"
    findings = verify(folder, ledger=bench.ledger, public=source_from_config(str(bench.public)))
    assert all(one.passed for one in findings), [one for one in findings if not one.passed]
    bought = Domain.load(folder / "domain.yaml")
    assert bought.identified_from == "public"
    assert bought.attribute("town").listed == ("Aix", "Bern", "Cork", "other")

    spent = bench.ledger.balance("people").spent_units
    again = bench.run(domain=paid, privacy=PrivacySpec(epsilon=10.0))
    assert again.success, failure(again)
    assert bench.ledger.balance("people").spent_units == spent
