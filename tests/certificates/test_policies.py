"""Certificates of releases whose budget renews or composes, or that were opened before."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from upath import UPath

from jam_dagster.certificates import held, refitting, render_certificate, verify
from jam_dagster.privacy import Budget, Ledger, Policy
from tests.budgets import PUBLIC_N
from tests.certificates.conftest import Released
from tests.cli_bench import NOISY, RELEASE, Run, synthesize

HERE = Path()


def release(run: Run) -> Released:
    result = run(*synthesize(*RELEASE, *NOISY))
    assert result.exit_code == 0, result.output
    return Released(HERE.resolve())


@pytest.mark.slow
def test_a_renewing_budget_tells_both_totals(run: Run) -> None:
    ground = "membership public and fixed"
    Ledger("ledger.db").grant(
        "people",
        epsilon=1.0,
        delta=1e-9,
        policy=Policy(period="month", partitions="disjoint", ground=ground, records="public"),
    )
    made = release(run)
    assert made.failed() == set()
    certificate = made.certificate
    assert certificate.standing is not None
    totals = certificate.standing.totals
    assert totals["period"] == certificate.made[:7]
    assert totals["policy"] == {
        "period": "month",
        "partitions": "disjoint",
        "ground": ground,
        "records": "public",
    }
    assert totals["lifetime_spent_units"] == totals["spent_units"] > 0
    page = render_certificate(certificate)
    assert "renews each month" in page
    assert ground in page
    assert "Spent over the lifetime" in page
    assert "as each person is in one of them only" in page
    totals_of_all = {
        **totals,
        "policy": {**totals["policy"], "partitions": "disjoint in all tables"},
    }
    of_all = replace(certificate, standing=replace(certificate.standing, totals=totals_of_all))
    assert "person is in one of them of all its tables only" in render_certificate(of_all)

    for name, value in (("lifetime_spent_units", 1), ("period", "1999-01"), ("policy", {})):
        other = {**totals, name: value}
        if name == "policy":
            other["policy"] = {
                "period": "lifetime",
                "partitions": "add",
                "ground": "",
                "records": "public",
            }
        (made.folder / "certificate.json").unlink()
        made.put(replace(certificate, standing=replace(certificate.standing, totals=other)))
        assert made.failed() == {"the ledger"}, name

    # In a month of which there was nothing, or is nothing yet, nothing was spent.
    for period in ("1999-01", "9999-01", "2026-13", "lifetime"):
        other = {**totals, "period": period, "spent_units": 0, "reserved_units": 0}
        made.put(replace(certificate, standing=replace(certificate.standing, totals=other)))
        assert made.failed() == {"the ledger"}, period


@pytest.mark.slow
def test_a_release_that_was_opened_before_and_never_drawn(run: Run) -> None:
    first = release(run).certificate
    Path("ledger.db").unlink()
    ledger = Ledger("ledger.db")
    ledger.grant("people", epsilon=1.0, delta=1e-9, policy=PUBLIC_N)
    ledger.open_release(first.release_id, Budget(0.4, 1e-9).shares(evaluation=0.05)).close(
        "not now"
    )
    Path("out").rename("before")

    made = release(run)
    certificate = made.certificate
    assert certificate.release_id == first.release_id
    assert {entry.opening for entry in certificate.entries} == {"", "2"}
    assert made.failed() == set()
    assert certificate.releasable

    def earlier(entries: tuple) -> tuple:  # type: ignore[type-arg]
        """Say that a draw was charged in the opening that ended without one."""
        return tuple(replace(one, opening="") if one.kind == "charged" else one for one in entries)

    made.forge(lambda it: replace(it, entries=earlier(it.entries)))
    assert "the charges" in made.failed(ledger=False)


def test_on_another_machine_the_refit_may_differ_more_and_the_finding_says_so(
    made: Released, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = held.environment()
    monkeypatch.setattr(held, "environment", lambda: {**here, "numpy": "9.9", "pandas": "9"})
    found = {one.name: one for one in verify(made.folder, ledger=made.ledger)}
    assert all(one.passed for one in found.values())
    message = found["the model, refitted"].message
    assert str(refitting.FOREIGN_REFIT_TOLERANCE) in message
    assert "made with another numpy" in message


def test_a_release_in_a_store_that_is_no_file_system(made: Released) -> None:
    """As Dagster lays it out: the certificate in a folder beside the others."""
    root = UPath("memory://certified")
    moves = {name: file.path for name, file in made.certificate.files.items()}
    for path in moves.values():
        target = root / "people" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes((made.folder / path).read_bytes())
    beside = {
        name: replace(file, path=f"../{file.path}") for name, file in made.certificate.files.items()
    }
    folder = root / "people" / "release_certificate"
    replace(made.certificate, files=beside).save(folder)
    assert [one for one in verify(folder) if not one.passed] == []
    assert [one for one in verify(folder / "certificate.json") if not one.passed] == []
