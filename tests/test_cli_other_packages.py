"""Mechanisms of other packages on the command line: trusted by name, or not releasable."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jam_dagster.certificates import Certificate, verify
from jam_dagster.privacy import Ledger
from tests.cli_bench import NOISY, RELEASE, RESEARCH, Run, synthesize, without
from tests.other_package import HALVES, install, known

HALVED = ("--mechanism", "halves")
TRUSTED = ("--trust-mechanism", "tiny-mechanisms")
COMES = "The mechanism comes from a trusted package"


@pytest.fixture
def installed(tmp_path: Path) -> Iterator[None]:
    with known(install(tmp_path / "site")):
        yield


def asked(*options: str) -> list[object]:
    return without(synthesize(*HALVED, *options), "rounds=2")


def document() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(Path("out/certificate.json").read_text())
    return content


def test_a_release_by_a_package_that_is_not_trusted_is_refused(run: Run, installed: None) -> None:
    before = len(Ledger("ledger.db").events())

    made = run(*asked(*RELEASE, *NOISY))

    assert made.exit_code == 2
    assert "comes from the package tiny-mechanisms 1.2.3" in made.stderr
    assert "--trust-mechanism tiny-mechanisms" in made.stderr
    assert not Path("out").exists()
    assert len(Ledger("ledger.db").events()) == before
    other = run(*asked(*RELEASE, *NOISY, "--trust-mechanism", "jam-dagster"))
    assert other.exit_code == 2


@pytest.mark.slow
def test_a_release_by_a_trusted_package_names_it(run: Run, installed: None) -> None:
    made = run(*asked(*RELEASE, *NOISY, *TRUSTED))

    assert made.exit_code == 0, made.stderr
    said = document()
    assert said["mechanism"]["package"] == {
        "name": "tiny-mechanisms",
        "version": "1.2.3",
        "trusted": True,
    }
    (condition,) = [
        one for one in said["releasable"]["conditions"] if one["condition"].startswith(COMES)
    ]
    assert condition["met"] is True
    assert said["releasable"]["may_leave"] is True
    # Trust is no part of what was reserved.
    assert "tiny" not in json.dumps(said["specification"])
    assert "of the package tiny-mechanisms 1.2.3" in Path("out/certificate.html").read_text()

    checked = run("certificate", "verify", "out", "--ledger", "ledger.db")
    assert checked.exit_code == 0, checked.stdout
    assert "the mechanism's package: as stated" in checked.stdout
    # Who claims the package's mechanism for this one contradicts what is installed.
    certificate = Certificate.load(Path("out"))
    assert Certificate.from_dict(said).to_dict() == said
    assert certificate.package is not None
    del said["mechanism"]["package"]
    Path("out/certificate.json").write_text(json.dumps(said))
    failed = {one.name for one in verify(Path("out")) if not one.passed}
    assert "the mechanism's package" in failed


QUOTING = (
    HALVES.replace(
        "import Independent", "import Independent\nfrom jam_dagster.errors import InputError"
    )
    + '''
    def draw(self, ctx):
        """Quote counts in an error of jam-dagster's own class."""
        clique = ctx.workload.cliques[0]

        def scores():
            (block,) = ctx.counts([clique])
            raise InputError(f"counts are {block[clique].tolist()}")

        for _ in ctx.rounds(1):
            ctx.select([clique], scores, rho=ctx.remaining / 2, sensitivity=1.0)
'''
)


@pytest.mark.slow
def test_an_error_of_another_package_says_nothing_and_costs_an_attempt(
    run: Run, tmp_path: Path
) -> None:
    # A module of its own: another test may have imported the usual one.
    site = install(tmp_path / "site", place="tiny_quoting:Halves", source=QUOTING)
    with known(site):
        made = run(*asked(*RELEASE, *NOISY, *TRUSTED))

    assert made.exit_code != 0
    assert "running the mechanism failed; the cause is withheld" in made.stderr
    assert "counts are" not in made.stdout + made.stderr
    ledger = Ledger("ledger.db")
    assert "charged" not in {event.kind.value for event in ledger.events()}
    (dataset,) = ledger.datasets()
    assert len(ledger.open_attempts(dataset)) == 1


@pytest.mark.slow
def test_a_certificate_is_not_verified_where_the_package_is_missing(
    run: Run, tmp_path: Path
) -> None:
    with known(install(tmp_path / "site")):
        assert run(*asked(*RELEASE, *NOISY, *TRUSTED)).exit_code == 0

    found = run("certificate", "verify", "out", "--ledger", "ledger.db")
    assert found.exit_code != 0
    assert "of the package tiny-mechanisms is not installed here: install it" in found.stdout

    with known(install(tmp_path / "else", package="other", source=HALVES)):
        found = run("certificate", "verify", "out", "--ledger", "ledger.db")
    assert "from the package tiny-mechanisms, but here it is from other" in found.stdout


@pytest.mark.slow
def test_a_certificate_of_this_package_says_nothing_of_packages(run: Run) -> None:
    assert run(*synthesize(*RESEARCH, *TRUSTED)).exit_code == 0

    said = document()
    assert set(said["mechanism"]) == {"name", "parameters"}
    assert COMES not in [one["condition"] for one in said["releasable"]["conditions"]]
    assert "the mechanism's package" not in {one.name for one in verify(Path("out"))}
