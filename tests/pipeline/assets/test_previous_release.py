"""Releases drawn on the one of the partition before: order, what is kept, who may see it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import pandas as pd
import pytest
from upath import UPath

from jam_dagster.certificates import Certificate, verify
from jam_dagster.certificates.table import RUN_ATTRIBUTE
from jam_dagster.errors import SpecificationError
from jam_dagster.mechanisms import refit
from jam_dagster.mechanisms.loops.rows import sample_rows
from jam_dagster.mechanisms.loops.transcript import sampling_generator
from jam_dagster.pipeline import check_definitions
from jam_dagster.pipeline.assets import previous_release as previous
from jam_dagster.pipeline.storage.formats import CODES, RUN
from jam_dagster.privacy.noise import exact
from jam_dagster.release import DomainSpec, MechanismSpec, PrivacySpec, WorkloadSpec
from jam_dagster.release.place import archive_name
from jam_dagster.release.run import read_run, write_run
from jam_dagster.tables import (
    Domain,
    EncodedTable,
    PreviousRelease,
    Workload,
    decode,
    source_from_config,
)
from jam_dagster.tables.codes.table import digest_of
from tests.budgets import PUBLIC_N
from tests.pipeline.conftest import (
    AS_DAGSTER_WARNS,
    DOMAIN,
    GIVEN,
    UP_TO_SYNTHETIC,
    Bench,
    failure,
    labels_of,
    nothing_pictured,
    told,
    up_to_synthetic,
    write_tables,
)
from tests.pipeline.test_partitions import FEBRUARY, JANUARY, MARCH, Months
from tests.small_runs import small
from tests.tiers import gate

pytestmark = AS_DAGSTER_WARNS

WAVES = {"partitions": {"static": [JANUARY, FEBRUARY, MARCH]}, "start": None}
NUMPY = PrivacySpec(epsilon=2.0, noise="numpy")


WORKLOAD = Workload.specified(DOMAIN, {"cliques": [["sex"]]})
"""That of `Months`."""


def chain(bench: Bench) -> Months:
    made = Months(bench)
    made.changes["public"] = PreviousRelease(source_from_config(str(bench.public)))
    return made


@pytest.fixture
def months(bench: Bench) -> Months:
    return chain(bench)


class Chain:
    """A place, and what is there after the release of each month."""

    def __init__(self, home: Path) -> None:
        self.place, self.after = home / "place", {"": home / "begun"}
        self.after[""].mkdir()
        write_tables(self.after[""])

    @contextmanager
    def up_to(self, month: str, before: str = "") -> Iterator[Months]:
        """Put the releases up to a month there, each of which is made when it is asked for."""
        if month not in self.after:
            with self.up_to(before) as made, nothing_pictured():
                result = made.run(month, UP_TO_SYNTHETIC)
                assert result.success, failure(result)
            self.after[month] = shutil.copytree(self.place, self.place.with_name(month))
        # A release is bound to the place of its tables.
        shutil.rmtree(self.place, ignore_errors=True)
        shutil.copytree(self.after[month], self.place)
        with Bench(self.place) as bench:
            yield chain(bench)


@pytest.fixture(scope="session")
def releases(tmp_path_factory: pytest.TempPathFactory) -> Chain:
    return Chain(tmp_path_factory.mktemp("chain"))


@pytest.fixture
def january(releases: Chain) -> Iterator[Months]:
    """January's release, drawn up to its synthetic table."""
    with releases.up_to(JANUARY) as made:
        yield made


@pytest.fixture
def february(releases: Chain) -> Iterator[Months]:
    """January's release, and February's drawn on it."""
    with releases.up_to(FEBRUARY, JANUARY) as made:
        yield made


def public_of(months: Months, month: str) -> pd.DataFrame:
    folder = months.bench.releases / "people" / "public_discretized"
    return pd.read_parquet(folder / f"{month}.codes.parquet")


def assert_drawn_on_january(months: Months) -> None:
    drawn_on, january = public_of(months, FEBRUARY), months.synthetic(JANUARY)
    assert len(drawn_on) == 600
    pd.testing.assert_series_equal(
        drawn_on["sex"].map({0: "F", 1: "M"}), january["sex"], check_dtype=False
    )


@pytest.mark.slow
@pytest.mark.parametrize("changes", [{}, *gate(WAVES)], ids=["months", "static"])
def test_each_release_is_drawn_on_the_one_before(months: Months, changes: dict[str, Any]) -> None:
    for month in (JANUARY, FEBRUARY):
        result = months.run(month, **changes)
        assert result.success, failure(result)
    assert len(public_of(months, JANUARY)) == 200
    # January's people have one sex, and so has February's public table, in as many rows.
    assert_drawn_on_january(months)
    codes = told(result)["public_discretized"]
    assert (codes["previous_partition"], codes["previous_edition"]) == (JANUARY, "1")
    reports = months.bench.releases / "people" / "release_report"
    report = (reports / f"{FEBRUARY}.html").read_text()
    assert f"synthetic table of partition {JANUARY} of this release" in report
    assert "is a release of the same dataset" in report
    assert "is a release of the same dataset" not in (reports / f"{JANUARY}.html").read_text()
    assert 0 < told(result)["jam_pgm"]["share_measured_privately"] <= 1
    certified = months.bench.releases / "people" / "release_certificate" / FEBRUARY
    assert [one.message for one in verify(certified) if not one.passed] == []
    # Dagster knows the release of each partition as what the next depends on.
    key = dg.AssetKey(["people", "previous_release"])
    assert months.bench.instance.get_materialized_partitions(key) == {JANUARY, FEBRUARY}


@pytest.mark.slow
def test_the_release_before_may_be_another_mechanisms(january: Months) -> None:
    aim = MechanismSpec("aim", **small("aim"))
    result = january.run(FEBRUARY, mechanism=aim)
    assert result.success, failure(result)
    assert_drawn_on_january(january)
    folder = january.bench.releases / "people"
    assert (folder / "aim" / f"{FEBRUARY}.run").exists()
    # An earlier run that somebody changed is in no page.
    (stored,) = folder.glob(f"*/{JANUARY}.run")
    run = read_run(stored)
    loss = replace(run.transcript, rho_spent=run.transcript.rho_spent / 2)
    write_run(replace(run, transcript=loss), stored)
    assert january.run(FEBRUARY, ["release_report"], mechanism=aim).success
    report = (folder / "release_report" / f"{FEBRUARY}.html").read_text()
    assert f'<th scope="row" class="name">{JANUARY}</th>' not in report


@pytest.mark.slow
def test_a_partition_out_of_order_is_refused_before_anything_is_charged_or_opened(
    months: Months,
) -> None:
    (months.bench.home / f"private_{FEBRUARY}.csv").unlink()
    needs = f"Partition {FEBRUARY} of release people needs the release of {JANUARY}: materialize"
    for selection in (None, ["domain", "privacy_budget"]):
        refused = failure(months.run(FEBRUARY, selection))
        assert needs in refused, selection
        assert "SourceError" not in refused
    assert months.bench.kinds() == []
    assert months.run(JANUARY, GIVEN).success
    # What was begun is no release.
    assert needs in failure(months.run(FEBRUARY, UP_TO_SYNTHETIC))
    assert months.bench.kinds() == []


ALONE = {"mechanism": MechanismSpec("independent"), "workload": WorkloadSpec(degree=1)}
"""Each column is measured by itself."""


def lose_towns(months: Months, month: str) -> str:
    """Give a month towns that the domain does not list, and return its table as it was."""
    path = months.bench.home / f"private_{month}.csv"
    text = path.read_text()
    table = pd.read_csv(path)
    table.assign(town="Oslo").to_csv(path, index=False)
    return text


@pytest.mark.slow
def test_nothing_is_drawn_on_a_month_that_the_domain_does_not_fit(months: Months) -> None:
    whole = lose_towns(months, JANUARY)
    months.changes |= ALONE
    drawn = up_to_synthetic("independent")
    assert months.run(JANUARY, drawn).success
    before = months.bench.events()
    # A person who may launch runs can report that a check has passed.
    check = dg.AssetCheckEvaluation(
        check_name="may_be_drawn_on",
        asset_key=dg.AssetKey(["people", "release_certificate"]),
        passed=True,
        partition=JANUARY,
    )
    months.bench.instance.report_runless_asset_event(check)
    for selection in (drawn, ["domain", "privacy_budget"]):
        refused = failure(months.run(FEBRUARY, selection))
        assert f"is not drawn on the release of {JANUARY}. The domain does not fit town" in refused
        assert f"accept_misfit: [{JANUARY}]" in refused
    assert months.bench.events() == before

    # The file passes over January, so February is drawn on the survey.
    accepted = months.run(FEBRUARY, drawn, accept_misfit=[JANUARY])
    assert accepted.success, failure(accepted)
    assert len(public_of(months, FEBRUARY)) == 200
    # That stays so if the file says nothing by now.
    (reserved,) = {
        one.release_id
        for one in months.bench.ledger.reservations()
        if one.release_id.partition == JANUARY
    }
    months.bench.ledger.withdraw(reserved, "0" * 64, reason="its towns were lost")
    on_it = months.run(MARCH, drawn)
    assert on_it.success, failure(on_it)
    # A month that is mended is drawn on again.
    second = PrivacySpec(epsilon=2.0, edition="2")
    (months.bench.home / f"private_{JANUARY}.csv").write_text(whole)
    assert months.run(JANUARY, drawn, privacy=second).success
    again = months.run(FEBRUARY, drawn, privacy=second)
    assert again.success, failure(again)
    assert told(again)["public_discretized"]["previous_edition"] == "2"


@pytest.mark.slow
def test_a_month_that_the_domain_does_not_fit_is_certified_and_stops(months: Months) -> None:
    lose_towns(months, JANUARY)
    months.changes |= ALONE
    result = months.run(JANUARY)
    assert not result.success
    assert {"release_report", "release_certificate"} <= set(told(result))
    found = {one.check_name: one for one in result.get_asset_check_evaluations()}
    check = found["may_be_drawn_on"]
    assert (check.passed, check.severity.value, check.blocking) == (False, "ERROR", True)
    assert "The domain does not fit town. In town, " in str(check.description)
    assert found["domain_fits"].severity.value == "WARN"
    # The file alone says otherwise, and nothing is made or paid again.
    before = months.bench.events()
    assert months.run(JANUARY, accept_misfit=[JANUARY]).success
    assert [one.kind.value for one in months.bench.events()[len(before) :]] == []
    assert months.run(JANUARY, misfit="warn").success


def test_a_misfit_stops_a_chain_unless_the_file_says_otherwise(months: Months) -> None:
    def blocking(**given: Any) -> set[str]:
        checks = months.definitions(**given).asset_checks or ()
        return {spec.name for one in checks for spec in one.check_specs if spec.blocking}

    assert "may_be_drawn_on" in blocking()
    assert blocking() == blocking(misfit="error") == blocking(misfit="warn") | {"may_be_drawn_on"}
    with pytest.raises(SpecificationError, match="'2026-13', which is no partition of release"):
        months.definitions(accept_misfit=[JANUARY, "2026-13"])
    given = months.changes["public"].first
    with pytest.raises(SpecificationError, match=r"is for public\.previous_release"):
        months.definitions(public=given, accept_misfit=[JANUARY])


@pytest.mark.slow
def test_a_release_keeps_what_it_was_drawn_on(february: Months) -> None:
    drawn_on, synthetic = public_of(february, FEBRUARY), february.synthetic(FEBRUARY)
    second = PrivacySpec(epsilon=2.0, edition="2")
    again = february.run(JANUARY, UP_TO_SYNTHETIC, privacy=second)
    assert again.success, failure(again)
    events = february.bench.events()

    # Made again, even with all files but the draws gone, it is the same, for nothing.
    for name in ("public_discretized", "synthetic_records", "jam_pgm"):
        for path in (february.bench.releases / "people" / name).glob(f"{FEBRUARY}*"):
            path.rename(path.with_name(f"old-{path.name}"))
    result = february.run(FEBRUARY, UP_TO_SYNTHETIC)
    assert result.success, failure(result)
    assert told(result)["public_discretized"]["public_source"] == "as this edition was drawn on"
    pd.testing.assert_frame_equal(public_of(february, FEBRUARY), drawn_on)
    pd.testing.assert_frame_equal(february.synthetic(FEBRUARY), synthetic)
    assert february.bench.events() == events
    release_id = read_run(
        february.bench.releases / "people" / "jam_pgm" / f"{FEBRUARY}.run"
    ).release.release_id
    archive = february.bench.releases / "people" / "archive" / archive_name(release_id)
    kept = archive / "public.codes.parquet"
    content = kept.read_bytes()
    kept.write_bytes(content + b" ")
    refused = failure(february.run(FEBRUARY, UP_TO_SYNTHETIC))
    assert "public.codes.parquet is not what was written there" in refused
    kept.write_bytes(content)
    # A new edition is drawn on the new release.
    result = february.run(FEBRUARY, UP_TO_SYNTHETIC, privacy=second)
    assert result.success, failure(result)
    assert told(result)["public_discretized"]["previous_edition"] == "2"


@pytest.mark.slow
def test_partitions_drawn_before_the_setting_stay_on_the_given_table(months: Months) -> None:
    given = months.changes["public"].first
    for month in (JANUARY, FEBRUARY):
        assert months.run(month, UP_TO_SYNTHETIC, public=given).success
    events = months.bench.events()
    result = months.run(FEBRUARY)
    assert result.success, failure(result)
    *same, certified = months.bench.events()
    assert (same, certified.kind.value) == (events, "certified")
    # Its report says what it was drawn on, not what it would be.
    report = months.bench.releases / "people" / "release_report" / f"{FEBRUARY}.html"
    assert f"synthetic table of partition {JANUARY}" not in report.read_text()
    assert months.bench.public.name in report.read_text()
    result = months.run(MARCH, UP_TO_SYNTHETIC)
    assert told(result)["public_discretized"]["previous_partition"] == FEBRUARY


@pytest.mark.slow
def test_a_release_that_may_not_leave_is_no_public_table_of_one_that_may(months: Months) -> None:
    assert months.run(JANUARY, UP_TO_SYNTHETIC, privacy=NUMPY).success
    assert months.run(FEBRUARY, UP_TO_SYNTHETIC, privacy=NUMPY).success
    closed, open_ = months.bench.closed / "people", months.bench.releases / "people"
    assert (closed / "public_discretized" / f"{FEBRUARY}.codes.parquet").exists()
    assert not (open_ / "public_discretized").exists()
    assert "needs the release of" in failure(months.run(FEBRUARY, UP_TO_SYNTHETIC))
    # Not even if somebody carries it over.
    for name in ("jam_pgm", "synthetic_records"):
        (closed / name).rename(open_ / name)
    assert "has no hash" in failure(months.run(FEBRUARY, UP_TO_SYNTHETIC))
    months.bench.vouch(f"jam_pgm/{JANUARY}.run", f"synthetic_records/{JANUARY}.parquet")
    refused = failure(months.run(FEBRUARY, UP_TO_SYNTHETIC))
    assert "made with seeded noise and may not leave" in refused
    assert months.bench.kinds() == []


@pytest.mark.slow
def test_a_release_over_a_domain_from_private_data_is_no_public_table(months: Months) -> None:
    private = {
        "public": months.changes["public"].first,
        "domain": replace(DOMAIN, identified_from="private"),
        "workload": WorkloadSpec(degree=1),
    }
    result = months.run(JANUARY, UP_TO_SYNTHETIC, **private)
    assert result.success, failure(result)
    for name in ("jam_pgm", "synthetic_records"):
        shutil.copytree(
            months.bench.closed / "people" / name, months.bench.releases / "people" / name
        )
    months.bench.vouch(f"jam_pgm/{JANUARY}.run", f"synthetic_records/{JANUARY}.parquet")
    refused = failure(months.run(FEBRUARY, GIVEN))
    assert "over a domain from private data and may not leave" in refused


@pytest.mark.slow
def test_a_release_of_another_dataset_is_no_release_before(january: Months) -> None:
    refused = failure(january.run(FEBRUARY, GIVEN, dataset="others"))
    assert f"the stored one of {JANUARY} is of release people of dataset people" in refused


def test_labels_are_those_of_a_chain_without_a_first_table_too(months: Months) -> None:
    changes = {"public": PreviousRelease(), "mechanism": MechanismSpec("tilt")}
    labels = labels_of(check_definitions(months.definitions(**changes)))
    assert "public_records" not in labels
    assert labels["public_discretized"] == labels["previous_release"] == "dp"


def test_labels_follow_what_the_public_table_is(months: Months) -> None:
    labels = labels_of(check_definitions(months.definitions()))
    assert labels["public_records"] == "public"
    assert labels["public_discretized"] == labels["previous_release"] == "dp"
    seeded = labels_of(check_definitions(months.definitions(privacy=NUMPY)))
    assert seeded["public_discretized"] == seeded["previous_release"] == "restricted"


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["tilt", *gate("public_prior")])
def test_a_prior_is_learnt_from_the_release_before(months: Months, mechanism: str) -> None:
    """February's model follows from January's table, which followed from the first public one."""
    months.changes["mechanism"] = MechanismSpec(mechanism)
    for month in (JANUARY, FEBRUARY):
        result = months.run(month, up_to_synthetic(mechanism))
        assert result.success, failure(result)
    run = months.bench.releases / "people" / mechanism / f"{FEBRUARY}.run"
    made = RUN.read(UPath(run))
    on = public_of(months, FEBRUARY)
    assert len(on) == 600
    public = EncodedTable(DOMAIN, tuple(on[name].to_numpy() for name in DOMAIN.names))
    again = refit(made.transcript, DOMAIN, WORKLOAD, public)
    asked = DOMAIN.names[:2]
    assert again.marginal(asked).tobytes() == made.model.marginal(asked).tobytes()


@pytest.mark.slow
def test_a_table_of_another_run_is_no_release(january: Months) -> None:
    table = january.bench.releases / "people" / "synthetic_records" / f"{JANUARY}.parquet"
    frame = pd.read_parquet(table)
    frame.attrs = {}
    frame.to_parquet(table)
    january.bench.vouch(f"synthetic_records/{JANUARY}.parquet")
    assert "do not match its last run" in failure(january.run(FEBRUARY, UP_TO_SYNTHETIC))


@pytest.mark.slow
def test_invented_outcomes_of_the_release_before_are_refused(
    months: Months, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other counts in place of the noisy ones, and all that follows from them made to fit.

    Or the model alone is made of them, beside the genuine transcript.
    """
    months.changes["mechanism"] = MechanismSpec("mwem_pgm", **small("mwem_pgm"))
    assert months.run(JANUARY, up_to_synthetic("mwem_pgm")).success
    folder = months.bench.releases / "people"
    (path,) = (folder / "mwem_pgm").glob("*.run")
    shutil.copytree(path, genuine := months.bench.home / "genuine")
    made = RUN.read(UPath(path))
    rounds = tuple(
        replace(one, measurement=replace(one.measurement, values=one.measurement.values[::-1]))
        for one in made.transcript.rounds
        if one.measurement is not None
    )
    invented = replace(made.transcript, rounds=rounds)
    model = refit(invented, DOMAIN, WORKLOAD)
    before = months.bench.events()
    for forged, named in (
        (
            replace(made, transcript=invented, model=model),
            "the run is not the one that was made",
        ),
        (replace(made, model=model), "the run is not the one that was made"),
    ):
        RUN.write(forged, UPath(path))
        rng = sampling_generator(forged.transcript)
        table = decode(sample_rows(model, forged.transcript, rng), rng)
        table.attrs[RUN_ATTRIBUTE] = forged.digest
        table.to_parquet(folder / "synthetic_records" / f"{JANUARY}.parquet")
        assert "is not what its step wrote" in failure(
            months.run(FEBRUARY, up_to_synthetic("mwem_pgm"))
        )
        # Nor is it enough that the private store has the hashes of it.
        months.bench.vouch(f"mwem_pgm/{JANUARY}.run", f"synthetic_records/{JANUARY}.parquet")
        for assets in (up_to_synthetic("mwem_pgm"), ["domain", "private_records"]):
            assert named in failure(months.run(FEBRUARY, assets))
    # What was read is compared, whatever lies there by then.
    check = previous._check_reliance

    def restored(*given: Any) -> None:
        shutil.copytree(genuine, path, dirs_exist_ok=True)
        check(*given)

    monkeypatch.setattr(previous, "_check_reliance", restored)
    assert named in failure(months.run(FEBRUARY, up_to_synthetic("mwem_pgm")))
    assert months.bench.events() == before


def test_an_archive_that_somebody_made_up_is_not_what_a_partition_was_drawn_on(
    january: Months,
) -> None:
    """The ledger alone says that a partition was drawn before, and needs no release before it."""
    folder = january.bench.releases / "people"
    (path,) = (folder / "jam_pgm").glob(f"{JANUARY}.run")
    made = read_run(path)
    release_id = replace(made.release.release_id, partition=FEBRUARY)
    ours, theirs = (
        folder / "archive" / archive_name(one) for one in (release_id, made.release.release_id)
    )
    (ours / "draws").mkdir(parents=True)
    codes = CODES.read(folder / "public_discretized" / f"{JANUARY}.codes.parquet")
    forged = EncodedTable(codes.domain, tuple(column[::-1] // 2 for column in codes.columns))
    CODES.write(forged, CODES.path(UPath(ours / "public")))
    described = json.loads((theirs / "release.json").read_text())
    described["key"]["partition"], described["public"] = FEBRUARY, digest_of({"": forged})
    (ours / "release.json").write_text(json.dumps(described))
    nothing = replace(made.transcript, rounds=(), calls=())
    invented = replace(
        made, transcript=nothing, release=replace(made.release, release_id=release_id)
    )
    write_run(invented, path.with_name(f"{FEBRUARY}.run"))
    before = january.bench.events()
    refused = failure(january.run(FEBRUARY, UP_TO_SYNTHETIC))
    assert "is not made of its public table as that is now" in refused
    # It was reserved.
    assert [str(event.kind) for event in january.bench.events()[len(before) :]] == ["reserved"]


@pytest.mark.slow
def test_nothing_is_drawn_on_a_release_that_was_withdrawn(february: Months) -> None:
    ledger = february.bench.ledger
    for release in ledger.reservations():
        ledger.withdraw(release.release_id, "0" * 64, reason="the public table was not public")
    before = february.bench.events()
    refused = failure(february.run(MARCH, UP_TO_SYNTHETIC))
    assert "not to be relied on: it was withdrawn on" in refused
    assert "the public table was not public" in refused
    assert february.bench.events() == before
    # What was drawn on it before is made again for nothing.
    again = february.run(FEBRUARY, UP_TO_SYNTHETIC)
    assert again.success, failure(again)
    assert february.bench.events() == before


@pytest.mark.slow
def test_nothing_is_drawn_on_what_was_drawn_on_a_withdrawn_release(february: Months) -> None:
    ledger = february.bench.ledger
    (first,) = (
        one.release_id for one in ledger.reservations() if one.release_id.partition == JANUARY
    )
    ledger.withdraw(first, "0" * 64, reason="the public table was not public")
    before = february.bench.events()
    # Not even if the file passes over January by now: February was drawn on it.
    for accepted in ([], [JANUARY]):
        refused = failure(february.run(MARCH, UP_TO_SYNTHETIC, accept_misfit=accepted))
        assert (
            f"it was drawn, by itself or by others, on the release of {JANUARY}, edition 1"
            in refused
        )
        assert "the public table was not public" in refused
    assert february.bench.events() == before
    # A new edition of January's, and of February's drawn on that one, stand.
    second = PrivacySpec(epsilon=1.0, edition="2")
    for month in (JANUARY, FEBRUARY, MARCH):
        result = february.run(month, UP_TO_SYNTHETIC, privacy=second)
        assert result.success, failure(result)


@pytest.mark.slow
def test_a_certificate_names_the_withdrawn_release_that_its_own_was_drawn_on(
    february: Months,
) -> None:
    """Withdrawn before it was issued, or afterwards."""
    bench, ledger = february.bench, february.bench.ledger
    assert february.run(MARCH, UP_TO_SYNTHETIC).success
    assert february.run(MARCH, ["release_certificate"]).success
    folder = bench.releases / "people" / "release_certificate" / MARCH
    made = Certificate.load(folder)
    assert [one.partition for one in made.drawn_on] == [FEBRUARY, JANUARY]
    assert made.releasable
    assert all(one.passed for one in verify(folder, ledger=ledger))

    ledger.withdraw(made.drawn_on[1], "0" * 64, reason="the public table was not public")

    (found,) = [one for one in verify(folder, ledger=ledger) if not one.passed]
    assert found.name == "the withdrawals"
    drawn_on = f"It was drawn on release 'people', partition '{JANUARY}', edition '1', which was"
    assert drawn_on in found.message
    assert "the public table was not public" in found.message
    again = february.run(MARCH, ["release_certificate"])
    check = next(
        one for one in again.get_asset_check_evaluations() if one.check_name == "releasable"
    )
    assert not check.passed
    assert "the public table was not public" in str(check.description)
    now = Certificate.load(folder)
    assert (now.releasable, now.digest) == (False, made.digest)
    assert drawn_on in " ".join(now.reasons)


@pytest.mark.slow
def test_an_older_edition_that_is_put_back_is_not_drawn_on(january: Months, tmp_path: Path) -> None:
    folder, kept = january.bench.releases / "people", tmp_path / "first"
    shutil.copytree(folder, kept / "releases")
    shutil.copytree(january.bench.closed / "people", kept / "closed")
    second = PrivacySpec(epsilon=2.0, edition="2")
    assert january.run(JANUARY, UP_TO_SYNTHETIC, privacy=second).success

    def put_back(name: str, target: Path) -> None:
        # The draws of the second edition stay.
        shutil.copytree(kept / name, target, dirs_exist_ok=True)

    put_back("releases", folder)
    before = january.bench.events()
    refused = failure(january.run(FEBRUARY, UP_TO_SYNTHETIC))
    assert "is not what its step wrote" in refused
    # A restored private store has the hashes of then, and the ledger knows the later edition.
    put_back("closed", january.bench.closed / "people")
    refused = failure(january.run(FEBRUARY, UP_TO_SYNTHETIC))
    assert "it is edition 1, and edition 2 was drawn later" in refused
    assert january.bench.events() == before
    result = january.run(JANUARY, UP_TO_SYNTHETIC, privacy=second)
    assert result.success, failure(result)
    result = january.run(FEBRUARY, UP_TO_SYNTHETIC, privacy=second)
    assert result.success, failure(result)


@pytest.mark.slow
def test_the_step_that_draws_looks_at_the_release_before_by_itself(january: Months) -> None:
    """A run may leave the steps before out, as a re-execution from a failure does."""
    assert january.run(FEBRUARY, GIVEN).success
    path = january.bench.releases / "people" / "public_discretized" / f"{FEBRUARY}.codes.parquet"
    codes = CODES.read(UPath(path))
    events = january.bench.events()
    # Other codes lie where those of January's release were.
    others = EncodedTable(codes.domain, tuple(column[::-1] for column in codes.columns))
    CODES.write(others, UPath(path))
    refused = failure(january.run(FEBRUARY, ["jam_pgm"]))
    assert "people/public_discretized in the store of releases is not what its step" in refused
    CODES.write(codes, UPath(path))
    (release,) = (
        one for one in january.bench.ledger.reservations() if one.release_id.partition == JANUARY
    )
    january.bench.ledger.withdraw(
        release.release_id, "0" * 64, reason="the public table was not public"
    )
    assert "it was withdrawn on" in failure(january.run(FEBRUARY, ["jam_pgm"]))
    assert [one.kind.value for one in january.bench.events()[len(events) :]] == ["withdrawn"]
    # January is made again, and February's codes are of the edition that was withdrawn.
    second = PrivacySpec(epsilon=2.0, edition="2")
    assert january.run(JANUARY, UP_TO_SYNTHETIC, privacy=second).success
    assert "is not made of its public table" in failure(january.run(FEBRUARY, ["jam_pgm"]))
    assert january.run(FEBRUARY, ["public_discretized", "jam_pgm"]).success


@pytest.mark.slow
def test_what_was_drawn_with_seeded_noise_is_not_told(months: Months) -> None:
    assert months.run(JANUARY, UP_TO_SYNTHETIC, privacy=NUMPY).success
    result = months.run(FEBRUARY, UP_TO_SYNTHETIC, privacy=NUMPY)
    assert result.success, failure(result)
    # Whoever knows the seed could try tables until the digest is this.
    run = RUN.read(months.bench.closed / "people" / "jam_pgm" / f"{JANUARY}.run")
    assert run.digest not in "\n".join(map(str, result.all_events))
    # Nor is a value that does not fit a domain that was changed since.
    survey = pd.read_csv(months.bench.public)
    survey[survey["town"] != "Cork"].to_csv(months.bench.public, index=False)
    narrow = DOMAIN.to_dict()
    narrow["attributes"]["town"] = {"values": ["Aix", "Bern", "elsewhere"]}
    result = months.run(FEBRUARY, privacy=NUMPY, domain=Domain.from_dict(narrow))
    refused = [one for one in result.all_events if one.is_step_failure]
    shown = "\n".join(str(one) for one in refused if "public_discretized" in str(one.step_key))
    assert "PrivateValuesError" in shown
    assert "Cork" not in shown


@pytest.mark.slow
def test_a_run_that_is_waited_for(january: Months, monkeypatch: pytest.MonkeyPatch) -> None:
    from dagster._core.remote_origin import (
        RegisteredCodeLocationOrigin,
        RemoteJobOrigin,
        RemoteRepositoryOrigin,
    )
    from dagster._core.test_utils import create_run_for_test

    tags = {"dagster/partition": JANUARY}
    instance, job = january.bench.instance, "people_release"
    # One that never begins, for this one has overtaken it and holds its place, is not waited for.
    monkeypatch.setattr(previous, "LOOK_AGAIN_AFTER", 0.01)
    monkeypatch.setattr(previous, "QUEUED_FOR", 0.05)
    place = RemoteRepositoryOrigin(RegisteredCodeLocationOrigin("here"), "__repository__")
    queued = create_run_for_test(
        instance,
        job_name=job,
        status=dg.DagsterRunStatus.QUEUED,
        tags=tags,
        remote_job_origin=RemoteJobOrigin(place, job),
    )
    assert f"run {queued.run_id} that will make it is still queued" in failure(
        january.run(FEBRUARY, GIVEN)
    )
    instance.report_run_canceled(queued)
    # One that works is, as long as it does or until somebody says that it does not.
    working = create_run_for_test(
        instance, job_name=job, status=dg.DagsterRunStatus.STARTED, tags=tags
    )
    looks: list[float] = []

    def look(seconds: float) -> None:
        looks.append(seconds)
        if len(looks) == 20:
            instance.report_run_canceled(working)

    monkeypatch.setattr(previous.time, "sleep", look)
    result = january.run(FEBRUARY, GIVEN)
    assert result.success, failure(result)
    assert len(looks) == 20


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        (
            {"partitions": None, "start": None, "private": source_from_config("p.csv")},
            "but no partitions",
        ),
        (
            {"public": PreviousRelease(source_from_config("{partition}.csv"))},
            "first of release people has a {partition}",
        ),
        (
            {"domain": replace(DOMAIN, identified_from="private"), "privacy": NUMPY},
            "domain from private data",
        ),
        (
            {"public": PreviousRelease(), "mechanism": MechanismSpec("jam_pgm")},
            "jam_pgm learns from a public table, and there is none",
        ),
        (
            {
                "public": PreviousRelease(),
                "mechanism": MechanismSpec("tilt"),
                "domain": {"identify": "public"},
            },
            "nothing to identify the domain from",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(
    months: Months, changes: dict[str, Any], named: str
) -> None:
    with pytest.raises(SpecificationError) as caught:
        months.definitions(**changes)
    assert named in str(caught.value)


@pytest.fixture
def unaided(months: Months) -> Months:
    """A chain without a first public table."""
    mechanism = MechanismSpec("tilt", iterations=20)
    months.changes |= {"public": PreviousRelease(), "mechanism": mechanism}
    return months


@pytest.mark.slow
def test_without_a_first_table_the_first_partition_begins_uniform(unaided: Months) -> None:
    for month in (JANUARY, FEBRUARY):
        result = unaided.run(month)
        assert result.success, failure(result)
    assert len(public_of(unaided, JANUARY)) == 0
    assert_drawn_on_january(unaided)
    folder = unaided.bench.releases / "people" / "release_certificate"
    made = {month: Certificate.load(folder / month) for month in (JANUARY, FEBRUARY)}
    assert [one.parameters["prior"] for one in made.values()] == ["uniform", "public"]
    # Each is verified by what it was: January without a public table, February with January's.
    codes = unaided.bench.releases / "people" / "synthetic_records" / f"{JANUARY}.csv"
    given = {JANUARY: None, FEBRUARY: source_from_config(str(codes))}
    for month, public in given.items():
        found = verify(folder / month, ledger=unaided.bench.ledger, public=public)
        assert [one.message for one in found if not one.passed] == []
        assert next(one for one in found if one.name == "the draws").checked
    # They are two specifications, as the ledger has it.
    assert len({one.release_id.specification for one in made.values()}) == 2
    # A repeat costs nothing and gives the same.
    before = unaided.synthetic(JANUARY)
    assert unaided.run(JANUARY).success
    pd.testing.assert_frame_equal(unaided.synthetic(JANUARY), before)
    # March is refused once January is withdrawn, which February was drawn on.
    unaided.bench.ledger.withdraw(made[JANUARY].release_id, "0" * 64, reason="lost")
    assert "was withdrawn" in failure(unaided.run(MARCH))


def monthly(months: Months, **changes: Any) -> Months:
    """A chain that buys towns and ages; February has a town that January lacks."""
    content = DOMAIN.to_dict()
    del content["impossible"]
    content["attributes"] |= {
        "town": {"values": "paid", "at_most": 9, "public": ["Ghost"]},
        "age": {"edges": "paid", "integer": True, "bins": 4},
    }
    domain = Domain.from_dict({**content, "share": 0.4})
    for month, gone in ((JANUARY, "Cork"), (FEBRUARY, "Bern"), (MARCH, "Bern")):
        path = months.bench.home / f"private_{month}.csv"
        path.write_text(path.read_text().replace(gone, "Aix"))
    months.bench.budget = None
    months.bench.ledger.grant("people", epsilon=99.0, delta=1e-6, selections=5e-7, policy=PUBLIC_N)
    months.changes |= {"domain": domain, "privacy": PrivacySpec(epsilon=12.0), **changes}
    return months


def domain_of(months: Months, month: str) -> Domain:
    folder = months.bench.releases / "people" / "release_certificate" / month
    return Domain.load(folder / "domain.yaml")


@pytest.mark.slow
def test_each_partition_buys_what_the_release_before_lacks(unaided: Months) -> None:
    """Towns of months before stay and count in the most; edges stay, and cost nothing more."""
    monthly(unaided)
    shown = {}
    with nothing_pictured():
        for month in (JANUARY, FEBRUARY):
            result = unaided.run(month)
            assert result.success, failure(result)
            shown[month] = told(result)
    first, second = (domain_of(unaided, month) for month in (JANUARY, FEBRUARY))
    assert first.attribute("town").listed == ("Ghost", "Aix", "Bern", "other")
    assert second.attribute("town").listed == ("Ghost", "Aix", "Bern", "Cork", "other")
    assert second.attribute("age") == first.attribute("age")
    assert second.bought is not None
    asked = second.bought.asked.asked
    assert asked is not None
    assert asked.values == {"town": (7, ("Ghost", "Aix", "Bern"))}
    assert [one.attribute for one in second.bought.counts] == ["town"]
    assert shown[FEBRUARY]["domain"]["domain_of"] == f"the release of {JANUARY}"
    assert shown[FEBRUARY]["tilt"]["bought"].endswith(", new: Cork.")
    ledger = unaided.bench.ledger
    assert ledger.balance("people").used_selections == 10**9
    # March buys edges again if the file asks for others.
    assert "kept" in second.to_dict()
    content = unaided.changes["domain"].to_dict()
    for key, again in ({"bins": 4}, ()), ({"bins": 5}, ("age",)), ({"range": [0, 150]}, ("age",)):
        content["attributes"]["age"] |= key
        result = unaided.run(MARCH, ["domain"], domain=Domain.from_dict(content))
        asked = result.asset_value(dg.AssetKey(["people", "domain"])).asked
        assert tuple(asked.bins) == again

    # Each is verified: January without a public table, February with January's.
    folder = unaided.bench.releases / "people"
    csv = source_from_config(str(folder / "synthetic_records" / f"{JANUARY}.csv"))
    for month, public in ((JANUARY, None), (FEBRUARY, csv), (FEBRUARY, None)):
        found = verify(folder / "release_certificate" / month, ledger=ledger, public=public)
        assert [one.message for one in found if not one.passed] == []


@pytest.mark.gate
def test_a_partition_keeps_what_it_asked_for(unaided: Months) -> None:
    """A repeat is free, whatever became of the release before; nothing follows a withdrawn one."""
    monthly(unaided)
    drawn = [name for name in up_to_synthetic("tilt") if name != "public_records"]
    ledger, other = unaided.bench.ledger, PrivacySpec(epsilon=12.0, edition="2")
    with nothing_pictured():
        for month in (JANUARY, FEBRUARY):
            result = unaided.run(month, drawn)
            assert result.success, failure(result)
        second, spent = unaided.synthetic(FEBRUARY), ledger.balance("people").spent_units
        again = unaided.run(FEBRUARY, drawn)
        assert again.success, failure(again)
        assert told(again)["domain"]["domain_of"] == "as this edition was drawn on"
        assert ledger.balance("people").spent_units == spent
        assert unaided.run(JANUARY, drawn, privacy=other).success
        spent = ledger.balance("people").spent_units
        assert unaided.run(FEBRUARY, drawn).success
        pd.testing.assert_frame_equal(unaided.synthetic(FEBRUARY), second)
        assert ledger.balance("people").spent_units == spent
        for one in ledger.reservations():
            if one.release_id.partition == FEBRUARY:
                ledger.withdraw(one.release_id, "0" * 64, reason="lost")
        before = unaided.bench.events()
        assert "was withdrawn" in failure(unaided.run(MARCH, drawn))
        assert unaided.bench.events() == before


@pytest.mark.gate
def test_a_partition_that_stopped_asks_for_what_it_has_bought(
    unaided: Months, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It resumes with its values, though the release before was drawn again in the meantime."""
    monthly(unaided)
    drawn = [name for name in up_to_synthetic("tilt") if name != "public_records"]
    ledger, other = unaided.bench.ledger, PrivacySpec(epsilon=12.0, edition="2")

    def stopping(*given: Any) -> Any:
        raise KeyboardInterrupt

    with nothing_pictured():
        assert unaided.run(JANUARY, drawn).success
        with monkeypatch.context() as patch:
            patch.setattr(exact.ExactNoise, "gaussian_counts", stopping)
            assert not unaided.run(FEBRUARY, drawn).success
        assert unaided.run(JANUARY, drawn, privacy=other).success
        resumed = unaided.run(FEBRUARY, drawn)
        assert resumed.success, failure(resumed)
    assert told(resumed)["domain"]["domain_of"] == "as this edition was drawn on"
    of_february = [
        one
        for one in ledger.events("people")
        if one.kind.value == "charged" and one.partition == FEBRUARY and one.share == "domain"
    ]
    assert [one.step for one in of_february] == ["domain/1"]


@pytest.mark.slow
def test_a_domain_beyond_another_release_is_refused(unaided: Months) -> None:
    monthly(unaided)
    drawn = [name for name in up_to_synthetic("tilt") if name != "public_records"]
    assert unaided.run(JANUARY, drawn).success
    assert unaided.run(FEBRUARY, ["domain", "public_discretized"]).success
    # January is drawn again, on a table that has Cork, and not Bern.
    path = unaided.bench.home / f"private_{JANUARY}.csv"
    path.write_text(path.read_text().replace("Bern", "Cork"))
    second = PrivacySpec(epsilon=12.0, edition="2")
    assert unaided.run(JANUARY, drawn, privacy=second).success
    before = unaided.bench.events()
    step = [name for name in drawn if name not in ("domain", "public_discretized")]
    for selection in (["privacy_budget"], step[1:]):
        refused = failure(unaided.run(FEBRUARY, selection, privacy=second))
        assert "materialize domain again first" in refused
    assert unaided.bench.events() == before


@pytest.mark.slow
def test_values_beyond_a_first_table_and_the_release_before(months: Months) -> None:
    """The first table's towns are public, and one that a month selects stays."""
    public = pd.read_csv(months.bench.public)
    public.replace({"Bern": "Aix", "Cork": "Dorn"}).to_csv(months.bench.public, index=False)
    changes = {"domain": DomainSpec(identify="paid", share=0.4)}
    monthly(months, **changes, mechanism=MechanismSpec("tilt", iterations=20))
    months.changes["public"] = PreviousRelease(
        source_from_config(str(months.bench.public)), first_share=0.3
    )
    drawn = up_to_synthetic("tilt")
    with nothing_pictured():
        for month in (JANUARY, FEBRUARY):
            result = months.run(month, drawn if month == JANUARY else None)
            assert result.success, failure(result)
    towns = domain_of(months, FEBRUARY).attribute("town").listed
    assert towns == ("Aix", "Dorn", "Bern", "Cork", "other")
    folder = months.bench.releases / "people" / "release_certificate" / FEBRUARY
    found = verify(folder, ledger=months.bench.ledger)
    assert [one.message for one in found if not one.passed] == []


@pytest.mark.slow
def test_what_seeded_noise_selects_is_in_no_event(unaided: Months) -> None:
    seeded = PrivacySpec(epsilon=12.0, noise="numpy")
    monthly(unaided, privacy=seeded)
    for month in (JANUARY, FEBRUARY):
        result = unaided.run(month)
        assert result.success, failure(result)
        assert not any("Cork" in str(one) or "Bern" in str(one) for one in result.all_events)


def test_what_is_asked_for_beyond_a_release_has_its_label(unaided: Months) -> None:
    monthly(unaided)
    labels = labels_of(check_definitions(unaided.definitions()))
    assert labels["domain"] == labels["privacy_budget"] == "dp"
    seeded = PrivacySpec(epsilon=12.0, noise="numpy")
    labels = labels_of(check_definitions(unaided.definitions(privacy=seeded)))
    assert labels["domain"] == labels["privacy_budget"] == "restricted"


@pytest.mark.slow
def test_a_chain_without_a_first_table_looks_at_the_release_before_too(unaided: Months) -> None:
    upstream = ["domain", "public_discretized"]
    drawn = [name for name in up_to_synthetic("tilt") if name != "public_records"]
    assert unaided.run(JANUARY, drawn).success
    assert unaided.run(FEBRUARY, upstream).success
    second = PrivacySpec(epsilon=2.0, edition="2")
    again = unaided.run(JANUARY, drawn, privacy=second)
    assert again.success, failure(again)
    assert "is not made of its public table" in failure(unaided.run(FEBRUARY, ["tilt"]))
    # No release before, by a misfit that the file accepts, is no public table either.
    refused = failure(unaided.run(FEBRUARY, upstream, accept_misfit=[JANUARY]))
    assert "no first public table" in refused
