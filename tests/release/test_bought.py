"""A release buys the bins that its domain asks for, by draws of a share of their own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

from jam_dagster.certificates import verify
from jam_dagster.errors import BudgetExceededError, DomainError, JamError, SpecificationError
from jam_dagster.privacy import Kind, Ledger
from jam_dagster.privacy.shares import DOMAIN
from jam_dagster.release.options import release_spec
from jam_dagster.release.synthesize import Synthesis, SynthesisRequest, synthesize
from jam_dagster.tables import CategoricalAttribute, Domain, source_from_config
from jam_dagster.tables.domain.binned import BinnedAttribute
from jam_dagster.tables.domain.bought import LEVELS

ASKED = {
    "share": 0.3,
    "attributes": {
        "sex": {"values": ["f", "m"]},
        "town": {"values": "paid", "at_most": 5, "public": ["Ghost"]},
        "age": {"edges": "paid", "integer": True, "bins": 8},
        "since": {"edges": "paid", "unit": "day", "bins": 4},
    },
}


@pytest.fixture(autouse=True)
def people(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pd.DataFrame:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "sex": rng.choice(["f", "m"], 3000),
            "town": rng.choice(["Ur", "Nod", "Oz"], 3000),
            "age": np.clip(rng.normal(45, 18, 3000), 0, 99).astype(int),
            "since": pd.Timestamp("2024-01-01")
            - pd.to_timedelta(rng.integers(0, 4000, 3000), unit="D"),
        }
    )
    # Whom nobody shares a town with.
    table.loc[0, "town"] = "Atlantis"
    table.to_csv("people.csv", index=False)
    Path("domain.yaml").write_text(yaml.safe_dump(ASKED))
    return table


def release(**given: Any) -> Synthesis:
    options = {
        "private": "people.csv",
        "domain": "domain.yaml",
        "epsilon": 10.0,
        "mechanism": "independent",
        "degree": 1,
        "neighbours": "add_remove",
        "dataset": "people",
        "ledger": "ledger.db",
        "checks": False,
        "report": False,
        "out": Path("out"),
        **given,
    }
    return synthesize(SynthesisRequest.of(None, **options))


def failed(path: str = "out") -> list[str]:
    return [one.name for one in verify(Path(path), ledger=Ledger("ledger.db")) if not one.passed]


@pytest.mark.slow
def test_bins_are_bought_charged_certified_and_verified(people: pd.DataFrame) -> None:
    made = release()

    assert made.releasable
    assert any("The product of the values and bins" in one for one in made.verdict.statistics)
    domain = Domain.load("out/domain.yaml")
    assert domain.bought is not None
    assert domain.specified == Domain.load("domain.yaml").digest
    # Noise alone may be a bound of a column, once in ten thousand draws.
    age = domain.attribute("age")
    assert isinstance(age, BinnedAttribute)
    assert made.table["age"].dropna().between(age.edges[0], age.edges[-1]).all()
    assert made.table["age"].dropna().between(0, 99).mean() > 0.9
    assert made.table["since"].dropna().astype(str).between("2010-01-01", "2025-12-31").mean() > 0.9
    charged = [one for one in Ledger("ledger.db").events("people") if one.kind == Kind.CHARGED]
    bought = [one for one in charged if one.share == DOMAIN]
    assert len(bought) == 2 * LEVELS + 1
    # Values cost as much as all levels of an attribute's bins.
    assert len({one.units for one in bought[1:]}) == 1
    assert abs(bought[0].units - LEVELS * bought[1].units) <= LEVELS
    assert domain.attribute("town").listed == ("Ghost", "Nod", "Oz", "Ur", "other")
    privacy = json.loads(Path("out/certificate.json").read_text())["privacy"]
    (selected,) = [one for one in privacy["guarantee"] if "town" in one]
    assert "town: 3 values, from a noisy count of" in selected
    assert "Atlantis" not in Path("out/certificate.json").read_text() + str(domain.to_dict())
    balance = Ledger("ledger.db").balance("people")
    assert balance.granted_selections == balance.used_selections == 5 * 10**8
    assert balance.delta == 5e-10
    # They come before the mechanism's draws.
    assert charged[: len(bought)] == bought
    assert failed() == []

    # A repeat draws nothing, and another release of the bought domain buys nothing.
    release()
    Path("again.yaml").write_text(Path("out/domain.yaml").read_text())
    assert [one for one in Ledger("ledger.db").events("people") if one.kind == Kind.CHARGED] == (
        charged
    )
    spec = release_spec(None, release="r", private="people.csv", domain="again.yaml", epsilon=1.0)
    assert DOMAIN not in spec.shares
    assert spec.domain.declared is not None
    assert spec.domain.declared.specified == domain.digest

    # What was counted cannot be said otherwise, in whichever file.
    content = yaml.safe_load(Path("out/domain.yaml").read_text())
    content["bought"]["counts"][-1]["values"][-1] += 1
    Path("out/domain.yaml").write_text(yaml.safe_dump(content))
    assert "file: domain" in failed()


@pytest.mark.slow  # A whole release.
def test_exact_errors_measure_what_was_bought() -> None:
    made = release(ledger=None, noise="numpy", seed=0, evaluation_mode="exact", report=True)

    errors = made.errors
    assert errors.synthetic is not None
    assert errors.uniform is not None
    assert errors.bought is not None
    # The workload is of single attributes, all of which the counts know or are uniform in.
    assert errors.bought.mean < 0.15
    assert errors.uniform.mean > 0.3
    assert any("The error of the product of the values" in one for one in made.verdict.statistics)
    assert "Product of what was bought" in Path("out/restricted/report.html").read_text()


@pytest.mark.slow
def test_a_run_that_stops_while_it_buys_pays_nothing_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from jam_dagster.privacy.noise import exact

    drawn = exact.ExactNoise.gaussian_counts
    steps: list[str] = []

    def stopping(noise: Any, counts: Any, sensitivity: float, rho: float, step: str) -> Any:
        steps.append(step)
        if step == "domain-3/1":
            # The charge is durable, and its outcome is never stored.
            raise KeyboardInterrupt
        return drawn(noise, counts, sensitivity, rho, step)

    monkeypatch.setattr(exact.ExactNoise, "gaussian_counts", stopping)
    with pytest.raises(KeyboardInterrupt):
        release()
    monkeypatch.setattr(exact.ExactNoise, "gaussian_counts", drawn)

    made = release()

    assert made.releasable
    assert failed() == []
    bought = Domain.load("out/domain.yaml").bought
    assert bought is not None
    assert [one.step for one in bought.counts if one.values is None] == ["domain-3/1"]


def test_research_buys_with_seeded_noise() -> None:
    one, _ = (release(ledger=None, noise="numpy", seed=3, out=Path(out)) for out in ("a", "b"))
    assert not one.releasable
    assert Path("a/domain.yaml").read_text() == Path("b/domain.yaml").read_text()
    assert one.rho_spent <= one.made.spec.budget.rho


def test_a_first_partition_is_bought_at_the_command_line() -> None:
    """Its sources are those of the partition by then; a later one is Dagster's."""
    Path("people_may.csv").write_text(Path("people.csv").read_text())
    chain = {
        "release": "people",
        "dataset": "people",
        "private": "people_{partition}.csv",
        "public": {"previous_release": {}},
        "partitions": {"static": ["may", "june"]},
        "domain": {"identify": "paid", "columns": ["sex", "town"], "share": 0.3},
        "privacy": {"epsilon": 10.0, "noise": "numpy", "seed": 0},
        "workload": {"degree": 1},
    }
    definition = Path("defs.yaml")
    definition.write_text(
        yaml.safe_dump({"type": "jam_dagster.SyntheticRelease", "attributes": chain})
    )
    given = {"checks": False, "report": False, "out": Path("out")}
    synthesize(SynthesisRequest.of(definition, partition="may", **given))
    domain = Domain.load("out/domain.yaml")
    assert domain.bought is not None
    assert domain.attribute("town").listed == ("Nod", "Oz", "Ur", "other")


def test_what_cannot_be_bought_is_refused_before_anything_is_opened() -> None:
    Path("older.csv").write_text("sex,age,since\nf,1,2020-01-01\n")
    with pytest.raises(SpecificationError, match="take types and edges from the public table"):
        release(public="older.csv")
    Path("little.yaml").write_text(yaml.safe_dump(ASKED | {"share": 1e-12}))
    with pytest.raises(JamError, match="too small for the 12 draws"):
        release(domain="little.yaml")
    assert not Path("ledger.db").exists()


@pytest.mark.parametrize("cell", [b"secret", [1], {"a": 1}])
def test_cells_of_no_value_are_not_bought_as_texts(cell: object) -> None:
    pd.DataFrame({"sex": ["f"] * 9, "photo": [cell] * 9}).to_parquet("photos.parquet")
    with pytest.raises(DomainError, match="'photo' is of the type "):
        release(private="photos.parquet", domain={"identify": "paid", "share": 0.3})
    assert Kind.CHARGED not in {one.kind for one in Ledger("ledger.db").events()}


@pytest.mark.slow
def test_who_has_no_public_table_and_no_code_book_can_begin(people: pd.DataFrame) -> None:
    paid = {"identify": "paid", "types": {"age": "integer", "since": "date"}}
    made = release(domain=paid)
    assert made.releasable
    assert set(made.table["sex"].dropna()) <= {"f", "m", "other"}
    assert failed() == []
    # An option or a file that says nothing of a domain does the same.
    release(domain=None, out=Path("b"), ledger=None, noise="numpy", seed=0)
    assert Domain.load("b/domain.yaml").attribute("age").listed[-1] == "other"
    # Parquet declares types.
    people.assign(since=people["since"].dt.date).to_parquet("people.parquet")
    release(
        private="people.parquet", domain=None, out=Path("c"), ledger=None, noise="numpy", seed=0
    )
    kinds = [one.kind_text for one in Domain.load("c/domain.yaml").attributes]
    assert kinds == ["category", "category", "integer", "day"]


def test_a_ledger_that_gives_selections_nothing_is_told_before_anything_is_opened() -> None:
    Ledger("ledger.db").grant("people", epsilon=20.0, delta=1e-9)
    with pytest.raises(BudgetExceededError, match="--selection-delta"):
        release()
    assert [one.kind for one in Ledger("ledger.db").events()] == [Kind.GRANTED]


def test_a_grant_of_the_same_figures_pays_for_three_selections() -> None:
    towns = np.tile(["Ur", "Nod", "Oz"], 100)
    pd.DataFrame({"a": towns, "b": towns, "c": towns}).to_csv("towns.csv", index=False)
    ledger = Ledger("ledger.db")
    ledger.grant("people", epsilon=10.0, delta=1e-9, selections=5e-10)
    release(private="towns.csv", domain={"identify": "paid"}, delta=1e-9)
    balance = ledger.balance("people")
    assert balance.used_selections == balance.granted_selections == 500_000_000
    ledger.verify()
    assert failed() == []


@pytest.mark.slow
def test_values_of_the_public_table_are_kept_and_others_selected(people: pd.DataFrame) -> None:
    public = people[1:800].replace("Nod", "Ghost")
    public.assign(since=public["since"].dt.date).to_csv("public.csv", index=False)
    given = {"public": "public.csv", "mechanism": "public_prior", "degree": 2}
    release(**given, domain={"identify": "paid", "share": 0.3})

    town = Domain.load("out/domain.yaml").attribute("town")
    assert town.listed == ("Ghost", "Oz", "Ur", "Nod", "other")
    faults = verify(
        Path("out"), ledger=Ledger("ledger.db"), public=source_from_config("public.csv")
    )
    assert [one.name for one in faults if not one.passed] == []

    # A domain file keeps those that it names, too.
    asked = {"sex": {"values": ["f", "m"]}, "town": {"values": "paid", "public": ["Here"]}}
    Path("towns.yaml").write_text(yaml.safe_dump({"attributes": asked}))
    release(**given, domain="towns.yaml", out=Path("b"), ledger=None, noise="numpy", seed=0)
    town = Domain.load("b/domain.yaml").attribute("town")
    assert town.listed == ("Here", "Ghost", "Oz", "Ur", "Nod", "other")


@pytest.mark.slow
def test_texts_that_look_alike_are_one_value_and_unsafe_ones_become_other() -> None:
    """Each is in 400 rows: nothing but its text decides."""
    alike = ["caf\u00e9", "cafe\u0301", " caf\u00e9 ", "Caf\u00e9"]
    unsafe = ["=1+1", "@SUM(A1)", "a\x00b", "x" * 5_000, "<b>\u202egnp", "- a\n- b"]
    texts = np.repeat(np.array([*alike, *unsafe], dtype=object), 400)
    table = pd.DataFrame({"note": texts, "sex": np.tile(["f", "m"], 2_000)})
    table.to_parquet("people.parquet")
    paid = {"identify": "paid", "share": 0.3}
    made = release(private="people.parquet", domain=paid, out=Path("out"))

    note = Domain.load("out/domain.yaml").attribute("note")
    assert note.listed == ("Caf\u00e9", "caf\u00e9", "other")
    # More than six standard deviations of 4,000 rows: a false failure in 1e9 runs.
    shares = made.table["note"].value_counts(normalize=True)
    expected = pd.Series({"other": 0.6, "caf\u00e9": 0.3, "Caf\u00e9": 0.1})
    assert (shares - expected).abs().max() < 0.05
    assert failed() == []
    for path in (one for one in Path("out").rglob("*") if one.is_file()):
        content = path.read_bytes()
        kept = [text for text in unsafe if len(text) > 3 and text.encode() in content]
        assert not kept or path.suffix == ".npz", path
    # A later release that declares what was bought encodes alike.
    again = CategoricalAttribute.from_entry("note", note.to_entry())
    codes, _ = again.codes_in(pd.Series([*alike, *unsafe]))
    assert codes.tolist() == [1, 1, 1, 0, *[2] * len(unsafe)]
