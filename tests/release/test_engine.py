"""The steps of a release, with a place in memory: in their order, and each once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from upath import UPath

from jam_dagster.errors import (
    BudgetError,
    BudgetExceededError,
    DomainError,
    PrivateValuesError,
)
from jam_dagster.evaluation.workload_error import table_errors
from jam_dagster.mechanisms.loops.rows import release_rows, sample_rows
from jam_dagster.mechanisms.loops.transcript import sampling_generator
from jam_dagster.models.graphical.sampling import sampling_distance
from jam_dagster.models.tilted.prior import PublicPrior
from jam_dagster.pipeline.storage.formats import TABLE
from jam_dagster.privacy import Kind, Ledger
from jam_dagster.privacy.ledger.source_binding import SourceBinding
from jam_dagster.release import ReleaseSpec
from jam_dagster.release.engine import Engine, Progress
from jam_dagster.release.funding import LedgerFunding, ResearchFunding
from jam_dagster.release.options import release_spec
from jam_dagster.release.place import Place
from jam_dagster.release.public_side import domain_of, public_codes, public_records
from jam_dagster.tables import CategoricalAttribute, Domain, FrameSource
from jam_dagster.tables.sources.dialect import SAYS_SYNTHETIC
from tests.budgets import PUBLIC_N

DOMAIN = Domain(
    (CategoricalAttribute("town", ("A", "B", "C")), CategoricalAttribute("sex", ("F", "M")))
)


def table(rows: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {"town": rng.choice(["A", "B", "C"], rows), "sex": rng.choice(["F", "M"], rows)}
    )


def specification(private: pd.DataFrame | None = None, **options: Any) -> ReleaseSpec:
    records = table(200, 1) if private is None else private
    given: dict[str, Any] = {
        "private": FrameSource(records, "people"),
        "public": FrameSource(table(50, 2), "survey"),
        "domain": DOMAIN,
        "release": "people",
        "dataset": "people",
        "epsilon": 1.0,
        "mechanism": "jam_pgm",
        "settings": {"rounds": 2, "iterations": 20},
        "degree": 2,
        "noise": "numpy",
    }
    return release_spec(**(given | options))


def research(spec: ReleaseSpec) -> Engine:
    place = Place()
    protection = spec.privacy.protection
    funding = ResearchFunding(spec.shares, protection, spec.privacy.seed or 0, place)
    return Engine(spec, DOMAIN, place, funding)


class RememberingPlace(Place):
    """A place in memory that a ledger can be charged for: its files are the stored steps."""

    def binding(
        self, identity: str, template: str, table: str, *, make: bool
    ) -> SourceBinding | None:
        return SourceBinding.of(b"secret", identity)


@dataclass(frozen=True)
class Stored:
    """Draws of another release."""

    where: str = "out/before/draws"
    files: frozenset[str] = frozenset({"mechanism-0-select.npz"})

    def release_id(self, charged: Any) -> Any:
        return specification(noise="exact", epsilon=0.4, release="before").release_id(DOMAIN)


class Older(RememberingPlace):
    """A place that holds draws which the ledger has forgotten."""

    @property
    def has_begun(self) -> bool:
        return True

    def stored(self) -> Iterator[Any]:
        yield Stored()


def charged(spec: ReleaseSpec, ledger: Ledger, place: RememberingPlace) -> Engine:
    release_id = spec.release_id(DOMAIN)
    funding = LedgerFunding(
        *(ledger, release_id, spec.shares, spec.privacy.protection, place, "run 1"),
        identity=spec.private.identity(),
    )
    return Engine(spec, DOMAIN, place, funding)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    made = Ledger(str(tmp_path / "ledger.db"))
    made.grant("people", epsilon=1.0, delta=1e-9, policy=PUBLIC_N)
    return made


def test_research_takes_all_steps_in_memory(tmp_path: Path) -> None:
    spec = specification()
    engine = research(spec)
    records = public_records(spec)
    domain = domain_of(spec, records)
    public = public_codes(spec, records, domain)

    engine.check(domain)
    engine.reserve()
    with engine.funding.exclusive():
        made, errors = engine.draw(public, tmp_path / "table.parquet")
    run = made.run
    assert not isinstance(errors, Exception)
    assert made.error == errors
    page = engine.report(made, made.verdict(restricted=True), restricted=True)

    assert not made.repeated
    assert len(made.table) == 200
    assert errors.run == run.digest
    assert errors.synthetic is not None
    assert run.digest in page
    checks = made.checks
    assert all(one.passed for one in checks.results)
    assert isinstance(made.table, pd.DataFrame)
    assert replace(made, table=made.table.copy()).checks is checks
    stored = UPath(tmp_path / "stored.parquet")
    TABLE.write(made.table, stored)
    assert pq.read_schema(str(stored)).metadata[b"synthetic"] == SAYS_SYNTHETIC.encode()
    assert TABLE.read(stored).attrs == made.table.attrs


def test_a_mark_needs_a_name_that_no_column_has() -> None:
    domain = Domain((CategoricalAttribute("synthetic", ("A", "B")), *DOMAIN.attributes))
    spec = specification(domain=domain, sampling_mark="column")

    with pytest.raises(DomainError, match=r"a column 'synthetic', and sampling.mark"):
        replace(research(spec), domain=domain).check(domain)

    research(specification(sampling_mark="column")).check(DOMAIN)


def test_the_same_seed_gives_the_same_table_whatever_the_place() -> None:
    spec = specification(seed=3)
    tables = []
    for _ in range(2):
        engine = research(spec)
        run, _ = engine.run(engine.encode(DOMAIN), public_of(spec))
        tables.append(next(release_rows(run.model, run.transcript)).table)

    pd.testing.assert_frame_equal(*tables)
    other = research(specification(seed=4))
    run, _ = other.run(other.encode(DOMAIN), public_of(spec))
    assert not next(release_rows(run.model, run.transcript)).table.equals(tables[0])


def test_rows_are_searched_where_the_specification_asks_for_it() -> None:
    tables, runs = [], []
    for search in (True, False):
        engine = research(specification(search=search))
        run, _ = engine.run(engine.encode(DOMAIN), public_of(engine.spec))
        runs.append(run)
        tables.append(next(release_rows(run.model, run.transcript)).codes)
    searched, alone = tables

    assert runs[0].digest == runs[1].digest
    workload = engine.spec.workload.build(DOMAIN).cliques
    distances = [sampling_distance(runs[0].model, one, workload)[0] for one in tables]
    assert distances[0] < distances[1]
    rng = sampling_generator(runs[1].transcript)
    again = runs[1].model.sample(runs[1].transcript.records, rng)
    assert again.to_frame().equals(alone.to_frame())
    assert searched.records == alone.records


@pytest.mark.parametrize("first", [True, False])
def test_a_table_stays_as_it_was_made_whatever_the_setting_is_later(first: bool) -> None:
    engine = research(specification(search=first))
    private, public = engine.encode(DOMAIN), public_of(engine.spec)
    run, _ = engine.run(private, public)
    notified: list[str] = []
    progress = Progress(notify=notified.append)
    later = replace(engine, spec=specification(search=not first), progress=progress)
    again, found = later.run(private, public)

    assert found
    pd.testing.assert_frame_equal(
        next(release_rows(again.model, again.transcript)).table,
        next(release_rows(run.model, run.transcript)).table,
    )
    assert "sampling.search counts for the next edition" in notified[-1]


@pytest.mark.parametrize("mechanism", ["jam_pgm", "public_prior"])
def test_the_free_baseline_is_the_public_priors_rows(mechanism: str) -> None:
    spec = specification(mechanism=mechanism, settings={}, evaluation_mode="exact")
    engine, public = research(spec), public_of(spec)
    private = engine.encode(DOMAIN)
    run, _ = engine.run(private, public)
    rows = sample_rows(run.model, run.transcript)
    found = engine.evaluate(run, private, rows, public)

    prior = PublicPrior.of(DOMAIN, public).model(200)
    wanted = sample_rows(prior, run.transcript)
    (errors,) = table_errors(private, [wanted], spec.workload.build(DOMAIN))
    assert found.prior is not None
    assert found.prior.mean == errors.mean
    # The prior alone is what the mechanism of that name releases: its budget buys nothing.
    assert (found.prior == found.synthetic) == (mechanism == "public_prior")
    assert engine.evaluate(run, private, rows, None).prior is None


def public_of(spec: ReleaseSpec) -> Any:
    return public_codes(spec, public_records(spec), DOMAIN)


def test_the_release_is_reserved_before_the_table_is_opened_and_drawn_after(
    ledger: Ledger,
) -> None:
    spec = specification(noise="exact", epsilon=0.5)
    engine = charged(spec, ledger, RememberingPlace())

    engine.reserve()
    assert [event.kind for event in ledger.events()] == [Kind.GRANTED, *[Kind.RESERVED] * 2]
    with engine.opened("making the release"):
        private = engine.encode(DOMAIN)
        engine.run(private, public_of(spec))

    kinds = [event.kind for event in ledger.events()]
    assert Kind.CHARGED in kinds
    assert ledger.open_attempts("people") == []


def test_a_release_that_does_not_fit_opens_nothing(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = charged(specification(noise="exact", epsilon=2.0), ledger, RememberingPlace())
    monkeypatch.setattr(FrameSource, "read", never)

    with pytest.raises(BudgetExceededError):
        engine.reserve()
    assert [event.kind for event in ledger.events()] == [Kind.GRANTED]


def never(*_: Any, **__: Any) -> None:
    raise AssertionError("opened")


def test_an_unknown_dataset_is_a_budget_error(ledger: Ledger) -> None:
    spec = specification(noise="exact", dataset="others", epsilon=0.5)

    with pytest.raises(BudgetError, match="does not know the dataset 'others'; it knows 'people'"):
        charged(spec, ledger, RememberingPlace()).check(DOMAIN)


def test_a_failure_within_counts_as_an_attempt_and_quotes_nothing(ledger: Ledger) -> None:
    private = table(20, 1).assign(town="SECRET")
    engine = charged(specification(private, noise="exact", epsilon=0.5), ledger, RememberingPlace())
    engine.reserve()

    with pytest.raises(PrivateValuesError) as caught, engine.opened("reading"):
        engine.encode(DOMAIN)

    assert "SECRET" not in str(caught.value)
    assert len(ledger.open_attempts("people")) == 1


def test_an_older_copy_of_the_ledger_pays_for_nothing(ledger: Ledger) -> None:
    """Draws of another release of the dataset lie in the place, and the ledger forgot them."""
    spec = specification(noise="exact", epsilon=0.5)

    with pytest.raises(BudgetError, match=r"1 draws of .*before.*out/before/draws.*older copy"):
        charged(spec, ledger, Older()).reserve()
    assert [event.kind for event in ledger.events()] == [Kind.GRANTED]


def test_an_older_copy_of_the_ledger_pays_for_what_it_has_charged_alone(ledger: Ledger) -> None:
    """A release that it knows repeats for nothing, and draws nothing more."""
    engine = charged(specification(noise="exact", epsilon=0.5), ledger, RememberingPlace())
    engine.reserve()
    engine.run(engine.encode(DOMAIN), public_of(engine.spec))
    again = charged(engine.spec, ledger, Older())

    with pytest.raises(BudgetError, match="older copy"):
        again.reserve()
    for share in engine.spec.shares:
        engine.funding.close(share, "ended")
    again.reserve()


def test_draws_that_are_gone_are_not_drawn_again(ledger: Ledger) -> None:
    spec = specification(noise="exact", epsilon=0.5)
    engine = charged(spec, ledger, RememberingPlace())
    engine.reserve()
    engine.run(engine.encode(DOMAIN), public_of(spec))
    spent = ledger.balance("people").spent

    with pytest.raises(BudgetError, match=r"already charged .* not in memory"):
        charged(spec, ledger, RememberingPlace()).reserve()
    assert ledger.balance("people").spent == spent


def test_a_domain_that_is_drafted_says_what_it_leaves_out() -> None:
    spec = specification(domain={"identify": "public"})
    records = {"": table(50, 2).assign(year=2013, note=None)}
    said: list[str] = []
    domain = domain_of(spec, records, said.append)
    assert domain.names == tuple(table(50, 2).columns)
    assert said == [
        "Columns that are left out, and missing in each synthetic row:"
        "\n  year: is 2013 in every row\n  note: is missing in every row"
        "\nRules that synthetic rows keep, as all public ones do:\n  not missing: town, sex"
    ]
    chosen = specification(domain={"identify": "public", "columns": [*domain.names]})
    more = {"": table(50, 2).assign(age=[20, 30] * 25)}
    assert domain_of(chosen, more).names == domain.names


def test_a_domain_that_holds_the_person_is_refused() -> None:
    spec = specification(
        domain=None, public=FrameSource(table(50, 2).assign(who="x"), "survey"), privacy_unit="town"
    )
    with pytest.raises(DomainError, match="'town' identifies a person"):
        domain_of(spec, {"": table(50, 2)})


def test_an_interrupt_says_what_goes_on_as_long_as_it_may(ledger: Ledger) -> None:
    spec = specification(noise="exact", epsilon=0.4)
    funding = charged(spec, ledger, RememberingPlace()).funding
    funding.reserve()
    allowed = ledger.balance("people").attempts
    for left in reversed(range(allowed)):
        with pytest.raises(KeyboardInterrupt), funding.attempt():
            raise KeyboardInterrupt
        said = funding.after_interrupt("the same command")
        assert ("The same command resumes" in said) == (left > 0)
    assert f"All {allowed} attempts" in said
    assert "`jam-dagster ledger acknowledge" in said
    # Seeded noise resumes nothing.
    assert "begins from the start" in research(spec).funding.after_interrupt("it")
